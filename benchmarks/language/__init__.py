"""Language models against an answer key: `python -m benchmarks.language --data DIR --model FOLDER`."""
