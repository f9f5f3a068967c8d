"""What an explanation costs, measured: `python -m benchmarks.speed`."""
