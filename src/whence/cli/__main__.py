"""`python -m whence.cli`."""

from whence.cli import main

if __name__ == "__main__":
    main()
