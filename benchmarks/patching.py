"""How well do estimates of patching correlate with the truth? `python -m benchmarks.patching --model DIR [--data FILE]`

`DIR` is a model of `training/train_ioi.py`; or any language model, with `--data`, a JSON list of prompts and answers
about indirect objects. For every prompt that the model answers right, every place is truly patched (the model runs once
for each), and the estimates of each method are correlated with that (Pearson, over the places of one prompt). The mean
over prompts stands in the tables, with a 95 % interval from resampling prompts.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import whence
from training.names_and_years import Pair, later, receiver
from whence.core.recipe import Recipe, recipes
from whence.methods.partway import BESIDE, Partway
from whence.methods.patching import RELP, TwoRuns
from whence.models import AbstractAdapter
from whence.results.bootstrap import estimate
from whence.results.patched import pearson
from whence.verbs.patch import largest

__all__ = ["Asked", "correlations", "main"]

KINDS = ("heads", "mlps", "attentions", "layers")
SOFT = recipes["gi"].but(name="soft", softmax=2.0)
"""The softmax of GIM [Edin et al. 2025] alone: a saturated attention still has a gradient."""
RECIPES = {
    "`relp`": RELP,
    "`relp`, gates not halved": RELP.but(product="gradient"),
    "`relp`, attention held constant (`exact`)": recipes["exact"],
    "`attn_lrp`": recipes["attn_lrp"],
    "norms held constant alone (`ln`)": recipes["ln"],
    "`attribution`": recipes["gi"],
    "`attribution`, softmax at temperature 2": SOFT,
    "the same, slopes and gates held constant": SOFT.but(activation="slope", product="detach"),
}
PATH, PARTWAY, CHECKED = "`integrated_gradients`", "`partway`", "`partway`, the ten largest run"
LARGEST = 10
SEED = 20_000_003
"""Of texts that neither training nor its test made."""
RESAMPLES = 2000
STEPS = 8


class Asked(NamedTuple):
    """Two texts and the target in both."""

    clean: str
    corrupt: str
    target: Any


def made_up(model: Any, make: Callable[[random.Random], Pair], count: int, seed: int = SEED) -> Iterator[Asked]:
    """Texts of `training/names_and_years.py` that a model of `training/train_ioi.py` answers right."""
    draw = random.Random(seed)
    while count:
        pair = make(draw)
        best = whence.explain(model, pair.clean, "gi", receipt="short").prediction.label.strip()
        if best not in pair.right:
            continue
        count -= 1
        yield Asked(pair.clean, pair.corrupt, _target(model, pair))


def _target(model: Any, pair: Pair) -> Any:
    """A right word rather than a wrong one; of years, the mean logit of the later ones less that of the others."""
    if len(pair.right) == 1:
        return whence.contrast(f" {pair.right[0]}", f" {pair.wrong[0]}")
    weights = torch.zeros(model.module.config.vocab_size)
    for words, sign in ((pair.right, 1.0), (pair.wrong, -1.0)):
        weights[model.tokenizer.convert_tokens_to_ids(list(words))] = sign / len(words)

    def later_rather_than_not(outputs: Any) -> torch.Tensor:
        return outputs.logits[:, -1].float() @ weights.to(outputs.logits.device)

    return later_rather_than_not


def from_file(model: Any, path: Path, count: int, skip: int = 0) -> Iterator[Asked]:
    """Prompts of a file that the model answers right, with the giver's second mention changed to another name; without
    the first `skip` of them."""
    rows, tokenizer = json.loads(path.read_text(encoding="utf-8")), model.tokenizer
    ids = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]
    others = sorted({row["answer"] for row in rows})
    for row in rows:
        words = re.findall(r"\b[A-Z]\w+", row["prompt"])
        givers = {word for word in words if words.count(word) == 2 and word != row["answer"]}
        if len(givers) != 1:
            continue
        (giver,) = givers
        same = [o for o in others if o not in (giver, row["answer"]) and len(ids(f" {o}")) == len(ids(f" {giver}"))]
        if not same:
            continue
        first, behind = row["prompt"].rsplit(giver, 1)
        corrupt = first + random.Random(row["case_id"]).choice(same) + behind
        right, wrong = ids(f" {row['answer']}")[0], ids(f" {giver}")[0]
        with torch.no_grad():
            asked = tokenizer(row["prompt"], return_tensors="pt")["input_ids"]
            best = int(model.module(input_ids=asked.to(model.device)).logits[0, -1].argmax())
        if best != right or right == wrong or len(ids(corrupt)) != len(ids(row["prompt"])):
            continue
        if skip:
            skip -= 1
            continue
        yield Asked(row["prompt"], corrupt, whence.contrast(right, wrong))
        count -= 1
        if not count:
            return


Found = dict[tuple[str, str], float]
"""Method and kind of place to a correlation."""


def correlations(model: AbstractAdapter, asked: Asked, kinds: tuple[str, ...], into: str) -> Found:
    """Method and kind of place to the correlation of estimates with the truth."""
    examples = [model.encode(text)[0][0] for text in (asked.clean, asked.corrupt)]

    def runs(recipe: Recipe, beside: tuple[str, ...] = ()) -> TwoRuns:
        return TwoRuns(model, *examples, asked.target, kinds=kinds, beside=beside, into=into, recipe=recipe)

    plain = runs(recipes["gi"], BESIDE)
    truth = {kind: plain.true_effects(kind) for kind in kinds}
    found = {}
    for name, recipe in RECIPES.items():
        own = runs(recipe)
        found |= {(name, kind): pearson(own.estimated(kind), truth[kind]) for kind in kinds}
    path, partway = plain.along(kinds, STEPS), Partway(plain, STEPS).effects(kinds)
    for kind in kinds:
        checked = np.where(largest(partway[kind], LARGEST), truth[kind], partway[kind])
        for name, effects in ((PATH, path[kind]), (PARTWAY, partway[kind]), (CHECKED, checked)):
            found[name, kind] = pearson(effects, truth[kind])
    return found


def table(found: list[Found], kinds: tuple[str, ...]) -> str:
    """Means over prompts with their intervals."""
    lines = [f"| method | {' | '.join(kinds)} |", f"|---|{'---|' * len(kinds)}"]
    for method in (*RECIPES, PATH, PARTWAY, CHECKED):
        cells = []
        for kind in kinds:
            values = np.array([[one[method, kind]] for one in found])
            values = values[np.isfinite(values[:, 0])]
            mean = estimate(values, np.ones_like(values), resamples=RESAMPLES)
            cells.append(f"{mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]")
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a folder of training/train_ioi.py, or a language model")
    parser.add_argument("--data", type=Path, help="prompts about indirect objects, for a model that knows English")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first of the file that are answered right")
    parser.add_argument("--seed", type=int, default=SEED, help="of the texts that are made up")
    parser.add_argument("--into", choices=("clean", "corrupt"), default="clean")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    model, kinds = whence.load(options.model), tuple(options.kinds)
    sources = {
        "who gets it": lambda: made_up(model, receiver, options.prompts, options.seed),
        "which year is later": lambda: made_up(model, later, options.prompts, options.seed),
    }
    if options.data is not None:
        sources = {"indirect objects": lambda: from_file(model, options.data, options.prompts, options.skip)}
    for title, prompts in sources.items():
        found = []
        for asked in prompts():
            found.append(correlations(model, asked, kinds, options.into))
            if len(found) % 5 == 0 or options.data is not None:
                print(f"{title}: {len(found)} prompts, patched into the {options.into} run", flush=True)
                print(f"\n{table(found, kinds)}\n", flush=True)


if __name__ == "__main__":
    main()
