"""How a model is let write: so many tokens, or the options of its own `generate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from whence import cancel
from whence.errors import InputError, nearest
from whence.progress import steps

__all__ = ["LENGTH", "Continuation", "Generate", "checked_generate", "still_wanted", "writing_options"]

Continuation = str | Sequence[int]
"""What was written: a text, or its tokens by their ids."""
Generate = int | Mapping[str, Any]
"""How many tokens at most; or options of `generate` (max_new_tokens, do_sample, temperature, top_p, stop_strings, …)
and a seed."""
LENGTH = 256
"""Tokens at most, where nobody says."""
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "typical_p")
"""Options that mean something only where words are drawn."""
OURS = ("input_ids", "inputs", "inputs_embeds", "attention_mask", "return_dict_in_generate", "num_return_sequences")


def still_wanted(written: Iterator[int], ids: Tensor, scores: Any, **options: Any) -> Tensor:
    """Asked by `generate` after every token whether to end: never, unless the work was cancelled. Each is counted."""
    cancel.check()
    next(written)
    return torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)


def checked_generate(generate: Any) -> Generate | None:
    """What the user passed as `generate=`, or an error that says what may be passed."""
    if generate is None:
        return None
    if isinstance(generate, Mapping):
        for name in OURS:
            if name in generate:
                raise InputError(f"generate={{{name!r}: …}} is not for you to choose: whence sets it")
        seed = generate.get("seed")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise InputError(f"generate={{'seed': {seed!r}}} is no seed: pass a whole number")
        return dict(generate)
    if isinstance(generate, bool) or not isinstance(generate, int) or generate < 1:
        raise InputError(
            f"generate={generate!r} is no number of tokens: pass one, or options such as "
            '{"max_new_tokens": 100, "do_sample": True, "temperature": 0.7, "seed": 0}'
        )
    return generate


@contextmanager
def writing_options(generate: Generate, tokenizer: Any) -> Iterator[dict[str, Any]]:
    """Options for `generate`, with the seed in force. Words are drawn where that is asked for, or a temperature or
    another way to draw them is given; at a temperature of 0 there is nothing to draw."""
    given: dict[str, Any] = {"max_new_tokens": generate} if isinstance(generate, int) else dict(generate)
    seed = given.pop("seed", None)
    if given.get("temperature") == 0 and not given.get("do_sample"):
        given = {name: value for name, value in given.items() if name not in SAMPLING}
    options = {"do_sample": any(given.get(name) is not None for name in SAMPLING), "num_beams": 1, **given}
    if not {"max_new_tokens", "max_length"} & set(options):
        options["max_new_tokens"] = LENGTH
    if options.get("stop_strings"):
        options.setdefault("tokenizer", tokenizer)
    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices) if seed is not None else nullcontext(), torch.no_grad():
        if seed is not None:
            torch.manual_seed(seed)
        written = steps("writing", int(options.get("max_new_tokens") or LENGTH))
        options["stopping_criteria"] = [partial(still_wanted, written), *options.get("stopping_criteria", ())]
        try:
            yield options
        except (TypeError, ValueError) as error:
            if "streamer" in given and not _unknown(given, error):  # of whoever is told of the words
                raise
            raise InputError(_refused(given, error)) from error
        finally:
            written.close()


def _unknown(given: Mapping[str, Any], error: Exception) -> str | None:
    """The option that `generate` does not know, if it is one of those that it complains of."""
    return next((name for name in given if name not in _options() and repr(name) in str(error)), None)


def _options() -> set[str]:
    from transformers import GenerationConfig

    return {name for name in GenerationConfig().to_dict() if not name.startswith("_")}


def _refused(given: Mapping[str, Any], error: Exception) -> str:
    """What is wrong with options that the model's `generate` does not take."""
    name = _unknown(given, error)
    if name is not None:
        return f"generate={{{name!r}: …}} is no option of the model's generate.{nearest(name, _options())}"
    return f"generate={dict(given)!r} is refused by the model's generate: {error}"
