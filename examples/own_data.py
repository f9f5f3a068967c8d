"""A user's first hour, 3: explain my own data set, and ask which method to trust.

    python examples/own_data.py [FILE] [--text COLUMN] [--model NAME] [--out FOLDER]

FILE is Parquet, CSV, JSON Lines or plain text. Without one, a few sentences stand in. The run can be interrupted: the
same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import whence

SENTENCES = [
    ("a gorgeous, witty, seductive movie", "positive"),
    ("dull, and far too long", "negative"),
    ("the cast is superb and the story moves", "positive"),
    ("I wanted my two hours back", "negative"),
    ("not a bad film at all", "positive"),
    ("a lifeless mess without a single good line", "negative"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", help="the data")
    parser.add_argument("--text", default="text", help="the column with the text")
    parser.add_argument("--model", default="sentiment")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = given.out or Path(temporary) / "explained"
        data = given.file or [text for text, _ in SENTENCES]
        whence.run(data, model=given.model, text=given.text, out=out, progress=False)
        print(whence.summary(out))
        print(whence.show(out, row=0))

    print("\nWhich method should I trust? The higher the AUAC, the sooner its best tokens bring the prediction back.")
    methods = ["lrp", "gi", "rollout", "random"]
    print(whence.evaluate(given.model, SENTENCES, methods, ["auac"], progress=False))


if __name__ == "__main__":
    main()
