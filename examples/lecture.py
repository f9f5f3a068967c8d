"""A lecture on explaining transformers, start to end, on the bundled sentiment model.

    python examples/lecture.py [--out FOLDER]

Five sentences are classified; Grad-SAM and SHAP say why, and disagree about [CLS]; one attention head is looked at in
two layers; TCAV asks for a concept instead of tokens. With --out, the figures are written there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import whence

SENTENCES = [
    "I like the movie",
    "She hates the book",
    "This is so boring",
    "I cannot wait for next time",
    "You look extremely confused",
]
PRAISE = ["superb", "wonderful", "gorgeous", "brilliant", "delightful", "charming", "a triumph", "so very good"]
PLAIN = ["wooden", "square", "daily", "northern", "printed", "yellow", "a river", "made of paper"]
NEUTRAL = ["a film about a dog", "the story of two brothers", "it plays in paris", "she drives a truck", "they talk"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for the figures")
    out: Path | None = parser.parse_args().out
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    model = whence.load("sentiment")

    print("1. What does the model say?")
    grad_sam = whence.explain(model, SENTENCES, method="grad_sam")
    for exp in grad_sam:
        print(f"   {exp.prediction.label:<9} {exp.prediction.probabilities[0]:6.1%}   {exp.text}")

    print("\n2. Grad-SAM: tokens that get attention to which the prediction is sensitive")
    for exp in grad_sam:
        print(f"   {exp.text:<29} {_ranked(exp.top(3))}")

    print("\n3. SHAP: what each token adds to the score of the predicted class")
    shap = whence.explain(model, SENTENCES, method="shap")
    for exp in shap:
        print(f"   {exp.text:<29} {_ranked(exp.top(3))}")

    print("\n4. Do they agree? The place of [CLS] among all tokens, by size of its score")
    for text in SENTENCES:
        both = whence.compare(model, text, ["grad_sam", "shap", "lrp"])
        print(f"   {text:<29} " + ", ".join(f"{exp.method} {_place(exp, '[CLS]')} of {len(exp)}" for exp in both))
    print(
        "   Grad-SAM weighs attention, and the answer is read at [CLS]: attention to it matters whatever it says.\n"
        "   SHAP asks what happens without the token, and [CLS] is the same in every sentence."
    )

    print("\n5. One head in two layers: the strongest links of 'I cannot wait for next time'")
    maps = whence.attention(model, SENTENCES[3])
    for layer in (0, len(maps) - 1):
        query, key = maps.axes(layer)
        weights = maps[layer][0]
        strongest = weights.argmax(-1)
        print(f"   layer {layer}, head 0: " + ", ".join(f"{q}→{key[k]}" for q, k in zip(query, strongest, strict=True)))

    print("\n6. TCAV: does praise speak for the class 'positive'?")
    result = whence.tcav(model, target="positive", examples=NEUTRAL, concept=PRAISE, counter=PLAIN, runs=10)
    for layer in result.layers:
        print(f"   {layer.layer}: {layer.score:.2f} ± {layer.std:.2f}, p = {layer.p_corrected:.2g} against chance")

    if out is not None:
        from whence import viz

        whence.compare(model, SENTENCES[3], ["grad_sam", "shap", "lrp"]).save(out / "compare.svg")
        viz.bars(grad_sam[0]).save(out / "grad_sam.svg")
        viz.waterfall(shap[0]).save(out / "shap.svg")
        for layer in (0, len(maps) - 1):
            viz.heat_map(maps, layer=layer, head=0).save(out / f"head-0-layer-{layer}.svg")
        result.save(out / "tcav.svg")
        print(f"\nfigures are in {out}")


def _ranked(features: list[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {score:+.3f}" for name, score in features)


def _place(exp: whence.Explanation, token: str) -> int:
    size = abs(exp.scores)
    return 1 + int((size > size[exp.tokens.index(token)]).sum())


if __name__ == "__main__":
    main()
