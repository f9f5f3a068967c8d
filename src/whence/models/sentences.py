"""Models of sentence-transformers: a text in, an embedding out, with pooling, dense layers and normalisation."""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import Any

from torch import nn

from whence.errors import InputError, ModelError
from whence.extras import need
from whence.models.embedding import ADVICE, Embeds
from whence.models.example import Example
from whence.models.inspecting import accepted_by, modules_in
from whence.models.text import TextAdapter

__all__ = ["SentenceEmbedder", "is_sentence_model", "opened"]

NOISY = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)


class SentenceEmbedder(Embeds, TextAdapter):
    """The outputs are what the model's modules make of a text, its embedding among them."""

    def __init__(self, module: nn.Module, tokenizer: Any = None, **options: Any):
        super().__init__(module, tokenizer, **options)
        reads = next((m for m in module.modules() if "input_ids" in inspect.signature(m.forward).parameters), module)
        self._accepted = accepted_by(reads)
        names = getattr(module, "prompts", None) or {}
        self.prompt: str = names.get(getattr(module, "default_prompt_name", None), "") or ""
        """What the model itself puts before every text."""
        if self.prompt and any(getattr(part, "include_prompt", True) is False for part in modules_in(module)):
            raise ModelError(
                "this model puts a prompt before every text and leaves it out of its embedding, which can't be "
                "explained yet. Type: model.default_prompt_name = None"
            )

    def check_training(self) -> None:
        """As `encode` would, without changing it: parts that have no noise to switch off may stay as they are."""
        from transformers import PreTrainedModel

        models = (m for m in self.module.modules() if isinstance(m, PreTrainedModel))
        noisy = [*(m for model in models for m in model.modules()), *_of_kind(self.module)]
        if any(m.training for m in noisy):
            raise ModelError(
                "the model is in training mode, where dropout makes every run different. Type: model.eval()"
            )

    @cached_property
    def limit(self) -> int | None:
        known = (super().limit, getattr(self.module, "max_seq_length", None))
        return min((int(n) for n in known if n), default=None)

    def encode_one(self, item: Any, *, truncate: bool = False) -> Example:
        if isinstance(item, tuple):
            raise InputError(
                f"a pair has two embeddings: explain one text, with the other in the target. One text; {ADVICE}"
            )
        return super().encode_one(self._prompted(item), truncate=truncate)

    def _prompted(self, item: Any) -> Any:
        if not isinstance(item, str):
            return item
        lowered = any(getattr(part, "do_lower_case", False) for part in self.module.children())
        text = item.lower() if lowered else item
        return self.prompt + text if text.strip() else text

    def forward(self, inputs: dict[str, Any]) -> Any:
        with self.running():
            return self.module(dict(inputs))

    @property
    def measure(self) -> str:
        said = getattr(self.module, "similarity_fn_name", None) or "cosine"
        return str(getattr(said, "value", said))

    @property
    def dimensions(self) -> int:
        for name in ("get_embedding_dimension", "get_sentence_embedding_dimension"):
            if hasattr(self.module, name):
                return int(getattr(self.module, name)())
        raise ModelError(f"{type(self.module).__name__} does not say how long its embeddings are")


def _of_kind(module: nn.Module) -> list[nn.Module]:
    return [m for m in module.modules() if isinstance(m, NOISY)]


def is_sentence_model(model: Any) -> bool:
    """Whether it is a SentenceTransformer, or of a class made from it. The library is not imported."""
    kinds = [kind for kind in type(model).__mro__ if kind.__module__.startswith("sentence_transformers")]
    return isinstance(model, nn.Module) and any(kind.__name__ == "SentenceTransformer" for kind in kinds)


def opened(name: str, device: Any, dtype: Any, revision: str | None, trust_remote_code: bool) -> nn.Module:
    """The model in a folder or a repository, as the library loads it."""
    library = need("sentence_transformers", "", f"{name!r}, a model of sentence-transformers,")
    made: nn.Module = library.SentenceTransformer(
        name,
        device=None if device is None else str(device),
        revision=revision,
        trust_remote_code=trust_remote_code,
        model_kwargs={"dtype": dtype, "use_safetensors": True},
    )
    return made.to(dtype).eval()
