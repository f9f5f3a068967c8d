"""`python -m whence.cli`."""

from whence.cli import main

main()
