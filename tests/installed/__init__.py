"""The package as somebody installs it: see `python -m tests.installed --help`."""
