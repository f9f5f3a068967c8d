"""The documentation site: `make docs`, or `python -m docs.generate build` and then zensical on `build/zensical.toml`.

Pages that people wrote are in `docs/`; they are copied. Pages that follow from the package are written here, each kind
by a module: they need the bundled models and nothing from a network, and come out the same every time.
"""
