"""Does a vision transformer know zebras by their stripes? TCAV with google/vit-base-patch16-224, layer 10.

    python examples/tcav_zebra.py --examples zebra --concepts striped dotted bubbly

Each argument is a folder of images: photos of zebras, and pictures of each concept (the Describable Textures Dataset
has striped, dotted and bubbly). Every pair of concepts is set against each other, as in the lecture this comes from,
where striped against dotted or bubbly gave about 0.95, bubbly against striped 0.1 and dotted against bubbly 0.05.
"""

from __future__ import annotations

import argparse
import sys
from itertools import permutations
from pathlib import Path

import whence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=Path, required=True, help="folder of images of the target class")
    parser.add_argument("--concepts", type=Path, nargs="+", required=True, help="two or more folders of images")
    parser.add_argument("--target", default="zebra")
    parser.add_argument("--model", default="google/vit-base-patch16-224", help="hub id or folder")
    parser.add_argument("--layer", default="10", help="block number, module name, or 'all'")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--cache", type=Path, help="folder that keeps activations between calls")
    parser.add_argument("--save", type=Path, help="folder for one HTML page per pair")
    given = parser.parse_args()
    if len(given.concepts) < 2:
        parser.error("--concepts needs two folders or more, to set one against the other")
    try:
        model = whence.load(given.model)
    except whence.WhenceError as error:
        sys.exit(
            f"The model can't be had here: {error}\n"
            "Run this where the model hub can be reached, or fetch the model once with\n"
            f"    hf download {given.model} --local-dir vit\n"
            "and pass --model vit."
        )
    layer = int(given.layer) if given.layer.isdigit() else given.layer
    for concept, counter in permutations(given.concepts, 2):
        try:
            result = whence.tcav(
                model, target=given.target, examples=given.examples, concept=concept, counter=counter, layer=layer,
                runs=given.runs, cache=given.cache,
            )  # fmt: skip
        except whence.WhenceError as error:
            sys.exit(f"tcav_zebra: {error}")
        print(result, end="\n\n", flush=True)
        if given.save:
            given.save.mkdir(parents=True, exist_ok=True)
            result.save(given.save / f"{concept.name}_vs_{counter.name}.html")


if __name__ == "__main__":
    main()
