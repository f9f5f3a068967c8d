"""From a name, a folder or objects in memory to a model that can be explained."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from types import SimpleNamespace
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from whence.errors import InputError, ModelError, ModelNotFoundError, UnknownNameError
from whence.models import choosing, doors, embedding, image, sentences
from whence.models.adapter import AbstractAdapter
from whence.models.findings import findings_of
from whence.models.from_files import AUTO, BUNDLED, KNOWN, Reading, companion_of, first_line, from_files
from whence.models.plain import PlainModule
from whence.models.reaching import at_once
from whence.models.tasks import kind_of

__all__ = ["load"]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}

NAMED = ("text-classification", "token-classification", "image-classification")
"""Tasks with an output for each class, as many as the configuration says."""


def load(
    model: Any,
    *,
    task: str | None = None,
    labels: Sequence[str] = (),
    cell: int | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    allow_missing: bool = False,
    allow_pickle: bool = False,
) -> AbstractAdapter:
    """Load a model: a bundled name, a hub id, a local folder, a module, `(module, tokenizer or processor)`, a pipeline.

    >>> load("sentiment").labels
    ('negative', 'positive')

    `labels` name the classes of a model that does not say what they are called. `cell` is for models that read images:
    the side in pixels of the squares that scores are for, 1 for single pixels; by default the model's patches.

    `device="auto"` spreads a model that is too large for one device over all of them, with accelerate.

    Weights are read from safetensors only; with `allow_pickle=True` also from .bin files, of which torch unpickles
    tensors and nothing else. Code that comes with a model, from the hub or in its folder, runs only with
    `trust_remote_code=True`. Weights that the files do not have would be random numbers: they are an error, unless
    `allow_missing=True`.
    """
    model, task = _held_by(model, task)
    loaded = isinstance(model, (AbstractAdapter, nn.Module, tuple, list))
    _refuse(model, loaded, device=device, dtype=dtype, revision=revision)
    _check_device(device)
    if isinstance(labels, str):
        raise InputError(f"labels={labels!r} is one text: pass a list with a name for each class")
    options = {**({"labels": tuple(labels)} if labels else {}), **({} if cell is None else {"cell": cell})}
    if isinstance(model, AbstractAdapter):
        _refuse(model, loaded, task=task, labels=labels or None, cell=cell)
        model.look()
        return model
    if sentences.is_sentence_model(model) and task is None:
        made = sentences.SentenceEmbedder(model, model.tokenizer, **_fitting(sentences.SentenceEmbedder, options))
        return _again(made, model.tokenizer, options)
    if isinstance(model, nn.Module):
        return _again(_adapter(model, None, task, options), None, options)
    if isinstance(model, (tuple, list)):
        if len(model) != 2 or not isinstance(model[0], nn.Module):
            raise InputError("pass (module, tokenizer) or (module, image processor)")
        if isinstance(model, list):
            raise InputError("pass the module and its tokenizer as a tuple: (module, tokenizer)")
        return _again(_adapter(model[0], model[1], task, options), model[1], options)
    if not isinstance(model, (str, Path)):
        raise InputError(
            f"can't load a model from {type(model).__name__}: pass a name, a folder, a module, a pipeline, or "
            "(module, tokenizer)"
        )
    try:
        how = Reading(device, _dtype(dtype), revision, trust_remote_code, allow_missing, allow_pickle)
        return _named(str(model), task, how, options)
    except (json.JSONDecodeError, struct.error, SafetensorError, UnpicklingError) as error:
        raise ModelError(f"{str(model)!r} has a file that can't be read: {first_line(error)}") from error


@at_once(BUNDLED)
def _named(name: str, task: str | None, how: Reading, options: dict[str, Any]) -> AbstractAdapter:
    """What a folder or a repository holds: an adapter, an embedder, or a model."""
    _refuse_file(name)
    revision = how.revision
    if revision is not None and (name in BUNDLED or Path(name).expanduser().exists()):
        raise InputError(f"revision={revision!r} is one of a repository of the hub, and {name!r} is here: leave it out")
    files = _adapter_in(name)
    if files is not None:
        return _adapted(files, task, how, options)
    is_local = Path(name).expanduser().is_dir()
    if not (is_local and task is None and doors.has_sentence_modules(name)):
        try:
            found, kind, source, hub = from_files(name, task, how)
            if kind is embedding.TextEncoder:
                options = {**options, "saved": doors.saved_beside(source, revision)}
            return _made(kind, found, companion_of(kind, source, hub, name), name, options)
        except ModelError as error:
            # What a repository of the hub holds is asked only where it is no model: each question is a wait.
            files = doors.adapter_files(name, revision) if isinstance(error, ModelNotFoundError) else None
            if files is not None:
                return _adapted(files, task, how, options)
            if is_local or task is not None or not doors.has_sentence_modules(name, revision):
                raise
    doors.refuse_unsafe_modules(name, revision, how.trust_remote_code)
    module: Any = sentences.opened(name, how.device, how.dtype, revision, how.trust_remote_code)
    kind = sentences.SentenceEmbedder
    return kind(module, module.tokenizer, name=name, **_fitting(kind, options))


def _refuse_file(name: str) -> None:
    """An error for a file that holds no model. The hub would be asked for it by this name."""
    path = Path(name).expanduser()
    if name not in BUNDLED and path.is_file() and path.suffix.lower() != doors.GGUF:
        raise ModelNotFoundError(
            f"{name!r} is a file, and no model: pass the folder with config.json, a {doors.GGUF} file, or a name"
        )


def _adapter_in(name: str) -> doors.AdapterFiles | None:
    """The adapter of peft in a folder that holds no weights of a model."""
    path = Path(name).expanduser()
    alone = (path / doors.ADAPTER).is_file() and not any(path.glob("model*.safetensors"))
    return doors.adapter_files(name) if alone else None


def _adapted(files: doors.AdapterFiles, task: str | None, how: Reading, options: dict[str, Any]) -> AbstractAdapter:
    """The model that an adapter is for, with the adapter, and what reads for either of them."""
    how = how._replace(revision=files.base_revision)
    base, kind, source, hub = from_files(files.base, task or files.task, how, files)
    module = doors.with_adapter(base, files)
    try:
        own = {"revision": files.revision, "trust_remote_code": how.trust_remote_code}
        companion = companion_of(kind, files.source, own, files.source)
    except ModelError:  # it came without one: that of the model
        companion = companion_of(kind, source, hub, files.base)
    return _made(kind, module, companion, files.source, options)


def _held_by(model: Any, task: str | None) -> tuple[Any, str | None]:
    """What an object of another library holds, and its task: the model of a pipeline with what reads its inputs."""
    module = getattr(model, "model", None)
    if not isinstance(module, nn.Module):
        return model, task
    if hasattr(model, "task") and hasattr(model, "preprocess"):  # a pipeline of transformers
        if task is None and model.task == choosing.TextMatcher.task:
            task = model.task
        if task is None and model.task == "feature-extraction":
            task = embedding.TASK
        kind = kind_of(type(_unwrapped(module)).__name__, getattr(module, "config", None), task)
        if kind is None:
            raise ModelError(
                f"a pipeline for {model.task!r} with a {type(module).__name__} can't be explained by its own name. "
                f"Pass its model, and task=, one of: {', '.join(KNOWN)}"
            )
        companion = getattr(model, kind[1].companion, None) or getattr(model, "video_processor", None)
        if companion is None and kind[1].companion == "processor":
            readers = {
                name: getattr(model, name, None) for name in ("tokenizer", "image_processor", "feature_extractor")
            }
            companion = SimpleNamespace(**readers) if readers["tokenizer"] is not None else None
        return ((module, companion) if companion is not None else module), task
    if type(model).__name__ == "CrossEncoder" and getattr(model, "tokenizer", None) is not None:
        return (module, model.tokenizer), task
    return model, task


def _refuse(model: Any, loaded: bool, **options: Any) -> None:
    """Options that say how to read files are an error for a model that is in memory: it is never changed."""
    given = next((name for name, value in options.items() if loaded and value is not None), None)
    if given is not None:
        raise InputError(
            f"{given}={options[given]!r} is for models that are loaded by name. This one is in memory and stays as it "
            "is: change it yourself, model.to(…), and pass it again"
        )


def _check_device(device: str | torch.device | None) -> None:
    try:
        torch.device("cpu" if device is None or device == AUTO else device)
    except (RuntimeError, TypeError):
        raise InputError(
            f"device={device!r} is none that torch knows: pass 'cpu', 'cuda', 'cuda:1', 'mps' or {AUTO!r}"
        ) from None


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype:
    if dtype is None:
        return torch.float32
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in DTYPES:
        raise UnknownNameError("dtype", dtype, DTYPES)
    return DTYPES[dtype]


def _adapter(module: nn.Module, companion: Any, task: str | None, options: dict[str, Any]) -> AbstractAdapter:
    module = _unwrapped(module)
    config = getattr(module, "config", None)
    kind = kind_of(type(module).__name__, config, task) or kind_of(type(_adapted_in(module)).__name__, config, task)
    if kind is None:
        if companion is None:
            companion = _transform_of(module)
        if _is_transform(companion) or type(module).__module__.startswith("torchvision.models."):
            return _made(image.ImageClassifier, module, companion, "", options)
        if companion is not None:
            raise ModelError(
                f"can't tell what {type(module).__name__} predicts from its name. "
                f"Pass task=, one of: {', '.join(KNOWN)}"
            )
        return PlainModule(module, **_fitting(PlainModule, options))
    if isinstance(companion, (str, Path)):
        hub = {"revision": None, "trust_remote_code": False}
        companion = companion_of(kind[1], str(companion), hub, str(companion))
    _check_companion(kind[1], companion)
    return _made(kind[1], module, companion, str(getattr(config, "_name_or_path", "") or ""), options)


def _again(made: AbstractAdapter, companion: Any, options: dict[str, Any]) -> AbstractAdapter:
    """What is in memory may have been passed before."""
    made.begin_with(findings_of(made.module, companion, (type(made), options.get("cell"))))
    return made


def _check_companion(kind: type[AbstractAdapter], companion: Any) -> None:
    """An error for a tokenizer beside a model of pictures or sounds, or for what is none beside a model of texts."""
    tokenizes = hasattr(companion, "convert_ids_to_tokens")
    wrong = tokenizes if kind.companion in ("image_processor", "feature_extractor") else (
        kind.companion == "tokenizer" and not tokenizes
    )  # fmt: skip
    if companion is not None and wrong:
        what = kind.companion.replace("_", " ")
        raise InputError(
            f"a model for {kind.task} goes with its {what}, and {type(companion).__name__} is none: "
            f"whence.load((module, {what.split()[-1]}))"
        )


def _made(kind: Any, module: nn.Module, companion: Any, name: str, options: dict[str, Any]) -> AbstractAdapter:
    count, named = getattr(getattr(module, "config", None), "num_labels", None), options.get("labels", ())
    if named and kind.task in NAMED and isinstance(count, int) and count != len(named):
        raise InputError(f"labels= names {len(named)} classes, and the model has {count}: pass a name for each")
    made: AbstractAdapter = kind(module, companion, name=name, **_fitting(kind, options))
    return made


def _fitting(kind: type[AbstractAdapter], options: dict[str, Any]) -> dict[str, Any]:
    if "cell" in options and kind.kind not in ("image", "video"):
        raise InputError(f"cell={options['cell']} is for models that read images, and this one is for {kind.task}")
    if "labels" in options and (kind.speaks or not kind.classifies):
        raise InputError(f"labels= names the classes of a model, and one for {kind.task} has none: leave labels= out")
    return options


def _is_transform(companion: Any) -> bool:
    """Whether it is a plain function from a picture to a tensor, and nothing that transformers loads."""
    return callable(companion) and not hasattr(companion, "from_pretrained")


def _transform_of(module: nn.Module) -> Any:
    """The transform that a model of timm says it was trained with; None for others."""
    if not isinstance(getattr(module, "pretrained_cfg", None), dict):
        return None
    from timm import data

    return data.create_transform(**data.resolve_model_data_config(module))


def _adapted_in(module: nn.Module) -> nn.Module:
    """The model in a PeftModel whose own name does not say what it does; others as they are."""
    find: Any = getattr(module, "get_base_model", None)
    inner = find() if callable(find) else None
    return inner if isinstance(inner, nn.Module) else module


def _unwrapped(module: nn.Module) -> nn.Module:
    """The model itself, out of wrappers that only say how it is run: in parallel, or compiled."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = module.module
        if not isinstance(inner, nn.Module):
            return module
        module = inner
