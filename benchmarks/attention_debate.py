"""Is attention an explanation of the bundled model? `python -m benchmarks.attention_debate --data DIR [--write FILE]`.

DIR holds sst2/dev.tsv.gz (label, tab, sentence; a header line). The page and its figures are written by this script
alone. Settings that differ from the papers' are chosen to stay within minutes on one core, and are printed.
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path

import whence
from whence.diagnostics.adversarial import Adversarial
from whence.diagnostics.counterfactual import Counterfactual
from whence.diagnostics.guided import Guided
from whence.results.diagnosis import Diagnosis
from whence.viz.diagnosis_page import figures, markdown

__all__ = ["main"]

FIGURES = {"agreement": "tau_gradient", "adversarial": "jsd_tvd"}
INTRODUCTION = """# The attention debate, on one model

Jain & Wallace (*Attention is not Explanation*, 2019) showed that attention weights correlate weakly with gradients and
leave-one-out, and that very different weights can give the same prediction. Wiegreffe & Pinter (*Attention is not not
Explanation*, 2019) answered that such weights are found by an adversary rather than learned by a model, and proposed
other tests. `whence.diagnose` runs these tests for any transformer, per head, per layer and jointly:

```
whence diagnose --save report.html                                  # the bundled model, forty sentences of our own
whence diagnose --model ID --data sentences.tsv --save report.html  # label<TAB>text, or one text per line
```

Below is its report on the bundled model `sentiment` ({layers} layers, {heads} heads) and {examples} sentences of the
SST-2 dev set, written by `benchmarks/attention_debate.py` in {seconds:.0f} s of processor time. To stay within minutes
of one core it uses {shuffles} shuffles ({head_shuffles} for single heads) where the paper has 100, and for the
adversary {steps} steps at a rate of {rate:g}, {starts} starts and {adversarial} sentences where the paper has 500 steps
at .01, 5 starts and the whole test set. One model and this many sentences decide no debate: the numbers say what is so
here.
"""


def sentences(folder: Path) -> list[tuple[str, int]]:
    """(text, label) of the dev set."""
    with gzip.open(folder / "sst2" / "dev.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    return [(text, int(label)) for label, text in rows]


def with_figures(text: str, found: Diagnosis, folder: Path) -> str:
    """Save the chosen figures and put each under the title of its section."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in FIGURES.items():
        section = found[name]
        path = folder / f"attention_debate_{figure}.svg"
        path.write_text(figures(section)[figure].svg, encoding="utf-8")
        title = f"## {section.title}\n"
        text = text.replace(title, f"{title}\n![{section.title}]({folder.name}/{path.name})\n")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds sst2/dev.tsv.gz")
    parser.add_argument("--write", type=Path, default=Path("docs/attention_debate.md"))
    parser.add_argument("--examples", type=int, default=60)
    options = parser.parse_args()

    counterfactual = Counterfactual(shuffles=20, head_shuffles=2)
    adversarial = Adversarial(steps=100, rate=0.05, starts=3, examples=8)
    guided = Guided(steps=40, adversary_rate=0.05)
    model = whence.load("sentiment")
    start = time.process_time()
    found = whence.diagnose(
        model,
        sentences(options.data),
        sections=["agreement", counterfactual, adversarial, guided],
        limit=options.examples,
    )
    introduction = INTRODUCTION.format(
        layers=model.config.num_hidden_layers,
        heads=model.config.num_attention_heads,
        examples=found.examples,
        seconds=time.process_time() - start,
        shuffles=counterfactual.shuffles,
        head_shuffles=counterfactual.head_shuffles,
        steps=adversarial.steps,
        rate=adversarial.rate,
        starts=adversarial.starts,
        adversarial=adversarial.examples,
    )
    body = markdown(found).split("\n", 2)[2]  # the page has a title of its own
    folder = options.write.parent / "figures"
    options.write.write_text(with_figures(f"{introduction}\n{body.strip()}\n", found, folder), encoding="utf-8")
    print(f"wrote {options.write}")


if __name__ == "__main__":
    main()
