"""What other libraries leave in folders: adapters of peft, files of llama.cpp, models of sentence-transformers.

Each is known by its files. The libraries are imported where they are needed, and asked for where they are missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from whence.errors import InputError, ModelError, ModelNotFoundError
from whence.extras import need
from whence.models.embedding import Pooling, Saved

__all__ = [
    "ADAPTER",
    "GGUF",
    "AdapterFiles",
    "adapter_files",
    "gguf_in",
    "has_sentence_modules",
    "refuse_unsafe_modules",
    "saved_beside",
    "with_adapter",
]

ADAPTER, SAVED = "adapter_config.json", "adapter_model.safetensors"
GGUF = ".gguf"
PEFT_TASKS = {
    "SEQ_CLS": "text-classification",
    "TOKEN_CLS": "token-classification",
    "QUESTION_ANS": "question-answering",
    "CAUSAL_LM": "text-generation",
    "SEQ_2_SEQ_LM": "text2text-generation",
}
"""What peft calls a task, and its name here."""


@dataclass(frozen=True)
class AdapterFiles:
    """An adapter that peft saved: small weights for a model that lies elsewhere."""

    source: str
    base: str
    """Where that model is."""
    task: str | None
    """What it does, where the adapter says so."""
    base_revision: str | None
    revision: str | None = None
    """Of the adapter itself, where it lies on the hub."""
    weights: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Weights of the model itself that were trained too and come with the adapter (a head): name to shape."""

    @property
    def labels(self) -> int | None:
        """How many classes a head that comes with the adapter has."""
        if self.task not in ("text-classification", "token-classification"):
            return None
        return min((shape[0] for shape in self.weights.values() if len(shape) == 2), default=None)


def adapter_files(source: str, revision: str | None = None) -> AdapterFiles | None:
    """The adapter in a folder or in a repository of the hub; None where there is none."""
    said = _found(source, ADAPTER, revision)
    if said is None:
        return None
    config: dict[str, Any] = json.loads(said.read_text(encoding="utf-8"))
    need("peft", "", f"{source!r}, an adapter of peft,")
    weights = _found(source, SAVED, revision)
    if weights is None:
        raise ModelError(
            f"{source!r} is an adapter of peft without {SAVED}, and pickled weights can run code. Save it once with "
            "model.save_pretrained(folder), then load the folder"
        )
    kind = config.get("task_type")
    base = config.get("base_model_name_or_path")
    if not base:
        raise ModelError(
            f"{source!r} is an adapter of peft that does not say which model it is for (base_model_name_or_path). Load "
            "both, and pass whence.load((peft.PeftModel.from_pretrained(model, folder).eval(), tokenizer))"
        )
    beside = Path(source).expanduser() / str(base)  # a path from the adapter's own folder
    base = str(beside) if not Path(base).is_dir() and beside.is_dir() else str(base)
    return AdapterFiles(source, base, PEFT_TASKS.get(str(kind)), config.get("revision"), revision, _trained(weights))


def _found(source: str, name: str, revision: str | None) -> Path | None:
    """A file of a folder, or of a repository of the hub."""
    from transformers.utils.hub import cached_file

    own = Path(source).expanduser() / name
    if own.parent.is_dir():
        return own if own.is_file() else None
    try:
        path = cached_file(source, name, revision=revision)
    except (OSError, ValueError):
        return None
    return None if path is None else Path(path)


def _trained(weights: Path) -> dict[str, tuple[int, ...]]:
    """Weights in the file that are no adapter's own: those of modules that were trained as a whole."""
    from safetensors import safe_open

    with safe_open(weights, "pt") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    return {
        name.removeprefix("base_model.model."): shape
        for name, shape in shapes.items()
        if not any(part.startswith(("lora_", "ia3_", "oft_", "hada_", "prompt_")) for part in name.split("."))
    }


def with_adapter(module: nn.Module, files: AdapterFiles) -> nn.Module:
    """The model with its adapter."""
    peft = need("peft", "", f"{files.source!r}, an adapter of peft,")
    try:
        made: nn.Module = peft.PeftModel.from_pretrained(
            module, files.source, is_trainable=False, revision=files.revision
        )
    except (RuntimeError, ValueError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"the adapter {files.source!r} does not fit {files.base!r}, the {type(module).__name__} that it names: "
            f"{first[:300]}"
        ) from error
    return made.eval()


def gguf_in(name: str) -> tuple[str, str] | None:
    """The folder or repository of a .gguf file, and the file's name in it; None for all else.

    >>> gguf_in("org/model") is None
    True
    """
    path = Path(name).expanduser()
    if path.is_dir():
        found = sorted(path.glob("*.gguf"))
        if not found or any(path.glob("*.safetensors")):
            return None
        if len(found) > 1:
            raise InputError(
                f"the folder {name!r} holds {len(found)} .gguf files: say which one, "
                f"whence.load({str(path / found[0].name)!r})"
            )
        path = found[0]
    elif path.suffix.lower() != GGUF:
        return None
    elif not path.is_file():
        if path.is_absolute() or name.startswith(("./", "../", "~")) or name.count("/") < 2:
            raise ModelNotFoundError(f"no such file: {name!r}")
        owner, model, file = name.split("/", 2)
        need("gguf", "", f"{name!r}, a file of llama.cpp,")
        return f"{owner}/{model}", file
    need("gguf", "", f"{name!r}, a file of llama.cpp,")
    return str(path.parent), path.name


def has_sentence_modules(source: str, revision: str | None = None) -> bool:
    """Whether sentence-transformers saved a model there that pools tokens to an embedding."""
    path = _found(source, "modules.json", revision)
    if path is None:
        return False
    kinds = [str(module.get("type", "")) for module in json.loads(path.read_text(encoding="utf-8"))]
    return any(kind.endswith((".Pooling", ".StaticEmbedding")) for kind in kinds)


def refuse_unsafe_modules(source: str, revision: str | None, trust_remote_code: bool) -> None:
    """Modules of a sentence model that sentence-transformers would import from beside it, or unpickle."""
    path = _found(source, "modules.json", revision)
    for module in json.loads(path.read_text(encoding="utf-8")) if path is not None else ():
        kind, folder = str(module.get("type", "")), str(module.get("path", ""))
        if not kind.startswith("sentence_transformers.") and not trust_remote_code:
            raise ModelError(
                f"{source!r} brings its own code ({kind}). Read it, then pass trust_remote_code=True if you want it to "
                "run here."
            )
        prefix = f"{folder}/" if folder else ""
        pickled = _found(source, f"{prefix}pytorch_model.bin", revision)
        if pickled is not None and _found(source, f"{prefix}model.safetensors", revision) is None:
            raise ModelError(
                f"{prefix}pytorch_model.bin of {source!r} is pickled, and pickled weights can run code. Convert it: "
                "sentence_transformers.SentenceTransformer(name).save(folder), then load the folder."
            )


POOLING: dict[str, Pooling] = {
    "mean": "mean", "pooling_mode_mean_tokens": "mean",
    "cls": "cls", "pooling_mode_cls_token": "cls",
    "lasttoken": "last", "pooling_mode_lasttoken": "last",
}  # fmt: skip
"""What sentence-transformers calls a pooling, now and before, and its name here."""
PLAIN = (".Transformer", ".Pooling", ".Normalize")
"""Modules of sentence-transformers that are an encoder and its pooling, and change no cosine."""


def saved_beside(source: str, revision: str | None = None) -> Saved:
    """How the tokens of an encoder are pooled and compared, where sentence-transformers wrote it beside the encoder."""

    def read(name: str) -> Any:
        path = _found(source, name, revision)
        return {} if path is None else json.loads(path.read_text(encoding="utf-8"))

    modules = read("modules.json")
    if not modules:
        return Saved()
    kinds = {str(module.get("type", "")): module for module in modules}
    own, whole = read("sentence_bert_config.json"), read("config_sentence_transformers.json")
    chosen: list[str] = []
    for kind, module in kinds.items():
        if kind.endswith(".Pooling"):
            said = read(f"{module['path']}/config.json")
            modes = said.get("pooling_mode", [name for name, on in said.items() if name in POOLING and on is True])
            chosen += [modes] if isinstance(modes, str) else modes
    beyond = [kind for kind in kinds if not kind.endswith(PLAIN)]
    beyond += [name for name in ("do_lower_case",) if own.get(name)]
    beyond += ["default_prompt_name"] if whole.get("default_prompt_name") else []
    beyond += [] if len(chosen) == 1 and chosen[0] in POOLING else [f"pooling {chosen}"]
    if beyond:
        raise ModelError(
            f"{source!r} is a model of sentence-transformers with more than an encoder and its pooling "
            f"({', '.join(beyond)}), and needs the library: pip install sentence-transformers"
        )
    normalised = any(kind.endswith(".Normalize") for kind in kinds)
    measure = "cosine" if normalised else str(whole.get("similarity_fn_name") or "cosine")
    return Saved(POOLING[chosen[0]], measure, own.get("max_seq_length"))
