"""From a name, a folder or objects in memory to a model that can be explained."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import nn

from whence.errors import InputError, ModelError, ModelNotFoundError, UnknownNameError
from whence.models import image, text, together, writing
from whence.models.adapter import AbstractAdapter
from whence.models.plain import PlainModule

__all__ = ["ADAPTERS", "BUNDLED", "load"]

BUNDLED = ("sentiment", "digits")
"""Models that come with the package."""

# Endings of class names in transformers say what a head does. First match wins.
HEADS: tuple[tuple[str, str, type[AbstractAdapter]], ...] = (
    ("ForSequenceClassification", "AutoModelForSequenceClassification", text.TextClassifier),
    ("ForTokenClassification", "AutoModelForTokenClassification", text.TokenClassifier),
    ("ForQuestionAnswering", "AutoModelForQuestionAnswering", text.QuestionAnswering),
    ("ForMaskedLM", "AutoModelForMaskedLM", writing.MaskedLM),
    ("ForImageClassification", "AutoModelForImageClassification", image.ImageClassifier),
    ("ForImageTextToText", "AutoModelForImageTextToText", together.ImageTextLM),
    ("ForConditionalGeneration", "AutoModelForSeq2SeqLM", writing.Seq2SeqLM),
    ("ForSeq2SeqLM", "AutoModelForSeq2SeqLM", writing.Seq2SeqLM),
    ("ForCausalLM", "AutoModelForCausalLM", writing.CausalLM),
    ("LMHeadModel", "AutoModelForCausalLM", writing.CausalLM),
)
TASKS = {adapter.task: (auto, adapter) for _, auto, adapter in reversed(HEADS)}
REGISTERED = {
    "text-classification": "SEQUENCE_CLASSIFICATION",
    "token-classification": "TOKEN_CLASSIFICATION",
    "question-answering": "QUESTION_ANSWERING",
    "fill-mask": "MASKED_LM",
    "image-classification": "IMAGE_CLASSIFICATION",
    "text2text-generation": "SEQ_TO_SEQ_CAUSAL_LM",
    "text-generation": "CAUSAL_LM",
    "image-text-to-text": "IMAGE_TEXT_TO_TEXT",
}
"""Task to the list in transformers of classes that do it, whatever they are called (MarianMTModel, …)."""
ADAPTERS: tuple[type[AbstractAdapter], ...] = (*(adapter for _, adapter in TASKS.values()), PlainModule)
"""Every kind of model."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


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
) -> AbstractAdapter:
    """Load a model: a bundled name, a hub id, a local folder, a module, `(module, tokenizer or processor)`, a pipeline.

    >>> load("sentiment").labels
    ('negative', 'positive')

    `labels` name the classes of a model that does not say what they are called. `cell` is for models that read images:
    the side in pixels of the squares that scores are for, 1 for single pixels; by default the model's patches.

    Weights are read from safetensors only. Code from the hub runs only with `trust_remote_code=True`. Weights that the
    files do not have would be random numbers: they are an error, unless `allow_missing=True`.
    """
    model = _held_by(model)
    loaded = isinstance(model, (AbstractAdapter, nn.Module, tuple, list))
    _refuse(model, loaded, device=device, dtype=dtype, revision=revision)
    options = {**({"labels": tuple(labels)} if labels else {}), **({} if cell is None else {"cell": cell})}
    if isinstance(model, AbstractAdapter):
        _refuse(model, loaded, task=task, labels=labels or None, cell=cell)
        model.check_training()
        return model
    if isinstance(model, nn.Module):
        return _adapter(model, None, task, options)
    if isinstance(model, (tuple, list)):
        if len(model) != 2 or not isinstance(model[0], nn.Module):
            raise InputError("pass (module, tokenizer) or (module, image processor)")
        if isinstance(model, list):
            raise InputError("pass the module and its tokenizer as a tuple: (module, tokenizer)")
        return _adapter(model[0], model[1], task, options)
    if not isinstance(model, (str, Path)):
        raise InputError(
            f"can't load a model from {type(model).__name__}: pass a name, a folder, a module, a pipeline, or "
            "(module, tokenizer)"
        )
    found, kind, source, hub = _from_files(
        str(model), task, device, _dtype(dtype), revision, trust_remote_code, allow_missing
    )
    return _made(kind, found, _companion(kind, source, hub, str(model)), str(model), options)


def _held_by(model: Any) -> Any:
    """What an object of another library holds: the model of a pipeline with what reads its inputs, of a reranker."""
    module = getattr(model, "model", None)
    if not isinstance(module, nn.Module):
        return model
    if hasattr(model, "task") and hasattr(model, "preprocess"):  # a pipeline of transformers
        kind = _kind(type(_unwrapped(module)).__name__, getattr(module, "config", None), None)
        if kind is None:
            raise ModelError(
                f"a pipeline for {model.task!r} with a {type(module).__name__} can't be explained by its own name. "
                f"Pass its model, and task=, one of: {', '.join(TASKS)}"
            )
        companion = getattr(model, kind[1].companion, None)
        return (module, companion) if companion is not None else module
    if type(model).__name__ == "CrossEncoder" and getattr(model, "tokenizer", None) is not None:
        return module, model.tokenizer
    return model


def _refuse(model: Any, loaded: bool, **options: Any) -> None:
    """Options that say how to read files are an error for a model that is in memory: it is never changed."""
    given = next((name for name, value in options.items() if loaded and value is not None), None)
    if given is not None:
        raise InputError(
            f"{given}={options[given]!r} is for models that are loaded by name. This one is in memory and stays as it "
            "is: change it yourself, model.to(…), and pass it again"
        )


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
    kind = _kind(type(module).__name__, config, task)
    if kind is None:
        if companion is None:
            companion = _transform_of(module)
        if _is_transform(companion) or type(module).__module__.startswith("torchvision.models."):
            return _made(image.ImageClassifier, module, companion, "", options)
        if companion is not None:
            raise ModelError(
                f"can't tell what {type(module).__name__} predicts from its name. "
                f"Pass task=, one of: {', '.join(TASKS)}"
            )
        return PlainModule(module, **_fitting(PlainModule, options))
    return _made(kind[1], module, companion, str(getattr(config, "_name_or_path", "") or ""), options)


def _made(kind: Any, module: nn.Module, companion: Any, name: str, options: dict[str, Any]) -> AbstractAdapter:
    made: AbstractAdapter = kind(module, companion, name=name, **_fitting(kind, options))
    return made


def _fitting(kind: type[AbstractAdapter], options: dict[str, Any]) -> dict[str, Any]:
    if "cell" in options and kind.kind != "image":
        raise InputError(f"cell={options['cell']} is for models that read images, and this one is for {kind.task}")
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


def _unwrapped(module: nn.Module) -> nn.Module:
    """The model itself, out of wrappers that only say how it is run: in parallel, or compiled."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = module.module
        if not isinstance(inner, nn.Module):
            return module
        module = inner


def _kind(class_name: str, config: Any, task: str | None) -> tuple[str, type[AbstractAdapter]] | None:
    """The auto class and the adapter of a model; None where its name does not say what it does."""
    if task is not None:
        if task not in TASKS:
            raise UnknownNameError("task", task, TASKS)
        return TASKS[task]
    found = next(((auto, adapter) for ending, auto, adapter in HEADS if class_name.endswith(ending)), None)
    registered = _registered(class_name)
    if "image-text-to-text" in registered:
        if not getattr(config, "is_encoder_decoder", False):
            return TASKS["image-text-to-text"]
        registered.remove("image-text-to-text")
    if registered and (found is None or found[1].task not in registered):
        found = TASKS[registered[0]]
    if found is not None and found[1] is writing.Seq2SeqLM and not getattr(config, "is_encoder_decoder", True):
        return "AutoModelForImageTextToText", writing.CausalLM  # …ForConditionalGeneration is also said of decoders
    return found


def _registered(class_name: str) -> list[str]:
    """The tasks that transformers lists a class of its own for."""
    from transformers.models.auto import modeling_auto

    def classes(names: str | tuple[str, ...]) -> tuple[str, ...]:
        return (names,) if isinstance(names, str) else names

    lists = {task: getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES", {}) for task, name in REGISTERED.items()}
    return [task for task, own in lists.items() if any(class_name in classes(names) for names in own.values())]


def _from_files(
    name: str,
    task: str | None,
    device: Any,
    dtype: torch.dtype,
    revision: str | None,
    trust_remote_code: bool,
    allow_missing: bool,
) -> tuple[nn.Module, type[AbstractAdapter], str, dict[str, Any]]:
    """The module, its kind, where its files are and how they are read."""
    import transformers

    source = _location(name)
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    try:
        config = transformers.AutoConfig.from_pretrained(source, **options)
        auto, kind = _auto_class(config, task, name)
        with _quiet():
            module, info = getattr(transformers, auto).from_pretrained(
                source, dtype=dtype, use_safetensors=True, output_loading_info=True, **options
            )
    except (OSError, ValueError) as error:
        raise _not_loaded(name, error) from error
    missing = sorted(info.get("missing_keys", ()))
    if missing and not allow_missing:
        raise ModelError(
            f"{name!r} has no weights for {_some(missing)} of {type(module).__name__}: they would be random numbers, "
            "and others each time. Fine-tune it first, or pass another task= "
            f"(one of {', '.join(TASKS)}), or allow_missing=True"
        )
    module = module.eval().to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return module, kind, source, options


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
        found = _kind(architecture, config, task)
        if found is not None:
            return found
    raise ModelError(
        f"{name!r} does not say what it predicts (architectures: {config.architectures}). "
        f"Pass task=, one of: {', '.join(TASKS)}"
    )


def _companion(kind: type[AbstractAdapter], source: str, options: dict[str, Any], name: str) -> Any:
    import transformers

    reader = {"tokenizer": "AutoTokenizer", "image_processor": "AutoImageProcessor", "processor": "AutoProcessor"}
    try:
        companion = getattr(transformers, reader[kind.companion]).from_pretrained(source, **options)
        if kind.companion == "tokenizer" and len(companion) <= len(set(companion.all_special_tokens)):
            raise ValueError("it has no vocabulary")  # what transformers makes of a folder without tokenizer files
        return companion
    except (OSError, ValueError, ImportError, KeyError) as error:
        what = kind.companion.replace("_", " ")
        raise ModelError(
            f"{name!r} has weights but its {what} can't be loaded ({_first_line(error)}). "
            f"Load both yourself and pass them: whence.load((module, {what.split()[-1]}))"
        ) from error


def _not_loaded(name: str, error: Exception) -> ModelError:
    message = str(error)
    if "safetensors" in message:
        return ModelError(
            f"{name!r} has no safetensors weights, and pickled weights can run code. Convert it once with "
            "model.save_pretrained(folder), then load the folder."
        )
    if "trust_remote_code" in message:
        return ModelError(
            f"{name!r} brings its own code. Read it, then pass trust_remote_code=True if you want it to run here."
        )
    offline = " (offline mode is on)" if os.environ.get("HF_HUB_OFFLINE") else ""
    return ModelNotFoundError(
        f"can't load {name!r}{offline}: {_first_line(error)} "
        f"Pass a hub id, a folder written by save_pretrained(), or a bundled name: {', '.join(BUNDLED)}."
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
