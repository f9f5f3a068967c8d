"""Optional packages, imported when first needed; a missing one is answered with the command that installs it."""

from __future__ import annotations

import importlib
from typing import Any

from whence.errors import MissingExtraError

__all__ = ["need_datasets", "need_parquet", "need_ray"]


def need_parquet() -> tuple[Any, Any]:
    """`pyarrow` and `pyarrow.parquet`."""
    return _need("pyarrow", "data", "a data set run"), _need("pyarrow.parquet", "data", "a data set run")


def need_ray() -> Any:
    return _need("ray", "ray", "--executor ray")


def need_datasets() -> Any:
    return _need("datasets", "data", "a data set from the hub")


def _need(module: str, extra: str, purpose: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        if package not in str(error):
            raise
        raise MissingExtraError(package, extra, purpose) from None
