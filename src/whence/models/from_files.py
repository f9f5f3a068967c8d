"""Models as they lie in files: in a folder, in the package, or in a repository of the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from whence.errors import ModelError, ModelNotFoundError, nearest
from whence.extras import need
from whence.models import doors, embedding
from whence.models.adapter import AbstractAdapter
from whence.models.reaching import why_not
from whence.models.tasks import TASKS, kind_of

__all__ = ["AUTO", "BUNDLED", "KNOWN", "FromFiles", "Reading", "companion_of", "first_line", "from_files"]

BUNDLED = ("sentiment", "digits", "tones", "shapes")
"""Models that come with the package."""

KNOWN = (*TASKS, embedding.TASK)
"""What `task=` may be."""

AUTO = "auto"
"""The device that is all of them: accelerate spreads the weights, over the disk if need be."""


class Reading(NamedTuple):
    """How files are read: see `load`."""

    device: Any
    dtype: torch.dtype
    revision: str | None
    trust_remote_code: bool
    allow_missing: bool
    allow_pickle: bool


class FromFiles(NamedTuple):
    """A module from files, its kind, where they are, and how others there are read."""

    module: nn.Module
    kind: type[AbstractAdapter]
    source: str
    options: dict[str, Any]


def from_files(name: str, task: str | None, how: Reading, adapter: doors.AdapterFiles | None = None) -> FromFiles:
    """What a folder or a repository holds. Weights that an `adapter` brings are not missing."""
    import transformers

    packed = doors.gguf_in(name)
    source = _location(name) if packed is None else packed[0]
    options: dict[str, Any] = {"revision": how.revision, "trust_remote_code": how.trust_remote_code}
    options |= {} if packed is None else {"gguf_file": packed[1]}
    sizes: dict[str, Any] = {"device_map": AUTO} if how.device == AUTO else {}
    if how.device == AUTO:
        need("accelerate", "", f"device={AUTO!r}")
    if not how.allow_pickle:
        _refuse_pickled(source, name, options)
    # None: safetensors where there are some, else .bin, read with weights_only.
    safe = None if how.allow_pickle else packed is None
    try:
        config = transformers.AutoConfig.from_pretrained(source, **options)
        if adapter is not None and adapter.labels not in (None, config.num_labels):
            sizes |= {"num_labels": adapter.labels, "ignore_mismatched_sizes": True}  # of a head that is replaced
        if packed is not None and not config.architectures:  # llama.cpp does not say, and runs models that write
            task = task or ("text2text-generation" if config.is_encoder_decoder else "text-generation")
        auto, kind = _auto_class(config, task, name)
        if task is not None and not _offers(getattr(transformers, auto), config):
            held = ", ".join(config.architectures or [type(config).__name__])
            raise ModelError(
                f"{name!r} holds {held}, of which transformers has no kind for task={task!r}: leave task= out, or pass "
                "another"
            )
        with _quiet():
            module, info = getattr(transformers, auto).from_pretrained(
                source, dtype=how.dtype, use_safetensors=safe, output_loading_info=True, **sizes, **options
            )
    except (OSError, ValueError) as error:
        raise _not_loaded(name, error) from error
    lacking = {*info.get("missing_keys", ()), *(key for key, *_ in info.get("mismatched_keys", ()))}
    missing = sorted(n for n in lacking - set(adapter.weights if adapter else ()) if not n.startswith(kind.unread))
    if missing and not how.allow_missing:
        raise ModelError(
            f"{name!r} has no weights for {_some(missing)} of {type(module).__name__}: they would be random numbers, "
            "and others each time. Fine-tune it first, or pass another task= "
            f"(one of {', '.join(KNOWN)}), or allow_missing=True"
        )
    module = module.eval()
    if how.device != AUTO:
        module = module.to(how.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return FromFiles(module, kind, source, options)


def _offers(auto: Any, config: Any) -> bool:
    """Whether an auto class of transformers knows what to make of a configuration, by itself or with a model's code."""
    own = getattr(config, "auto_map", None) or {}
    return type(config) in auto._model_mapping or auto.__name__ in own


def _refuse_pickled(source: str, name: str, options: dict[str, Any]) -> None:
    """An index of safetensors may name files of any kind, and transformers would read them."""
    from transformers.utils.hub import cached_file

    try:
        path = cached_file(source, "model.safetensors.index.json", revision=options["revision"])
    except (OSError, ValueError):  # there is none; or no model at all, which loading it will say
        return
    try:
        named = set(json.loads(Path(str(path)).read_bytes())["weight_map"].values())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"the index of {name!r} can't be read ({type(error).__name__}: {error})") from None
    other = sorted(str(file) for file in named if not str(file).endswith(".safetensors"))
    if other:
        raise ModelError(
            f"the index of {name!r} names {_some(other)}, and weights are read from .safetensors only: pickled ones "
            "can run code. Convert it once with model.save_pretrained(folder), then load the folder; or pass "
            "allow_pickle=True, if you trust its source."
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the progress bar over weights: it is a line of noise before every answer of the command."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _location(name: str) -> str:
    if name in BUNDLED:
        return str(resources.files("whence") / "bundled" / name)
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelNotFoundError(f"the folder {name!r} holds no config.json: save the model with save_pretrained()")
        return str(path)
    if path.is_absolute() or name.startswith(("./", "../", "~")):
        raise ModelNotFoundError(f"no such folder: {name!r}")
    return name


def _auto_class(config: Any, task: str | None, name: str) -> tuple[str, type[AbstractAdapter]]:
    for architecture in config.architectures or ("",):
        found = kind_of(architecture, config, task)
        if found is not None:
            return found
    raise ModelError(
        f"{name!r} does not say what it predicts (architectures: {config.architectures}). "
        f"Pass task=, one of: {', '.join(KNOWN)}"
    )


def companion_of(kind: type[AbstractAdapter], source: str, options: dict[str, Any], name: str) -> Any:
    """What reads inputs for a model of some kind: its tokenizer, or its processor."""
    import transformers

    reader = {
        "tokenizer": "AutoTokenizer", "image_processor": "AutoImageProcessor",
        "feature_extractor": "AutoFeatureExtractor", "processor": "AutoProcessor",
    }  # fmt: skip
    try:
        auto = reader[kind.companion]
        if kind.kind == "video" and _has_file(source, "video_preprocessor_config.json", options):
            auto = "AutoVideoProcessor"
        companion = getattr(transformers, auto).from_pretrained(source, **options)
        if kind.companion == "tokenizer" and len(companion) <= len(set(companion.all_special_tokens)):
            raise ValueError("it has no vocabulary")  # what transformers makes of a folder without tokenizer files
        return companion
    except (OSError, ValueError, ImportError, KeyError) as error:
        if kind.tokenizer_will_do:
            with suppress(OSError, ValueError, ImportError, KeyError):
                return transformers.AutoTokenizer.from_pretrained(source, **options)
        what = kind.companion.replace("_", " ")
        raise ModelError(
            f"{name!r} has weights but its {what} can't be loaded ({first_line(error)}). "
            f"Load both yourself and pass them: whence.load((module, {what.split()[-1]}))"
        ) from error


def _has_file(source: str, name: str, options: dict[str, Any]) -> bool:
    from transformers.utils.hub import cached_file

    found = cached_file(source, name, revision=options["revision"], _raise_exceptions_for_missing_entries=False)
    return found is not None


def _not_loaded(name: str, error: Exception) -> ModelError:
    message = str(error)
    if "safetensors" in message:
        return ModelError(
            f"{name!r} has no safetensors weights, and pickled weights can run code. Convert it once with "
            "model.save_pretrained(folder), then load the folder; or pass allow_pickle=True, if you trust its source."
        )
    if "trust_remote_code" in message:
        return ModelError(
            f"{name!r} brings its own code. Read it, then pass trust_remote_code=True if you want it to run here."
        )
    meant = "" if name in BUNDLED else nearest(name, BUNDLED)
    return ModelNotFoundError(
        f"can't load {name!r}{why_not()}: {first_line(error)}{meant} "
        f"Pass a hub id, a folder written by save_pretrained(), or a bundled name: {', '.join(BUNDLED)}."
    )


def first_line(error: Exception) -> str:
    """What an error says first."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
