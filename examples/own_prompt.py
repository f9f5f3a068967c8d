"""A user's first hour, 2: explain what my language model writes.

    python examples/own_prompt.py [FOLDER_OR_HUB_ID] ["a prompt"]

Without a model, a tiny Llama with random weights stands in: what it says is noise, but every number is accounted for
in the same way.
"""

from __future__ import annotations

import sys

import torch
import transformers

import whence


def stand_in() -> object:
    """A random Llama of two layers with the tokenizer of the bundled model."""
    bundled = whence.load("sentiment")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=9000, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256,
    )  # fmt: skip
    return whence.load((transformers.LlamaForCausalLM(config).eval(), bundled.tokenizer))  # type: ignore[attr-defined]


def main() -> None:
    model = whence.load(sys.argv[1]) if len(sys.argv) > 1 else stand_in()
    prompt = sys.argv[2] if len(sys.argv) > 2 else "the film begins in a small town where"

    exp = whence.explain(model, prompt)
    print(f"next token, {exp.target}:")
    print(exp)

    trace = whence.explain(model, prompt, generate=3)
    print(f"\nthe next three tokens, {trace.text!r}, one by one:")
    for n, token in enumerate(trace.written):
        print(f"{token!r} from {trace[n].top(3)}")

    whole = trace.span()
    print(f"\nall three together, from sentences: {whole.by('sentence').top(3)}")
    print(whole.conservation)


if __name__ == "__main__":
    main()
