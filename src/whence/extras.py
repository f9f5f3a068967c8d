"""Optional packages, imported when first needed; a missing one is answered with the command that installs it."""

from __future__ import annotations

import importlib
from typing import Any

from whence.errors import MissingExtraError

__all__ = ["need", "need_parquet"]


def need(module: str, extra: str, purpose: str) -> Any:
    """The module, or an error that says which extra has it; the package alone where no extra does ("")."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        if (error.name or "").split(".")[0] != package:
            raise  # the package is there and broken: its own message helps more
        raise MissingExtraError(package.replace("_", "-"), extra, purpose) from None


def need_parquet(purpose: str = "a data set run") -> tuple[Any, Any]:
    """`pyarrow` and `pyarrow.parquet`."""
    return need("pyarrow", "data", purpose), need("pyarrow.parquet", "data", purpose)
