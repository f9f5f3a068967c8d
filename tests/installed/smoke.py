"""Does an installed whence work? Run by the Python of its environment, with the extras that should be there.

    python -P smoke.py viz data

What an extra is for has to work with it, and without it to say which command installs it.
"""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import whence
from whence.errors import MissingExtraError

COMMAND = Path(sys.executable).with_name("whence")
TEXT = "a gorgeous, witty, seductive movie"


def viz(work: Path) -> None:
    whence.explain("sentiment", TEXT).save(work / "a.pdf")


def flow(work: Path) -> None:
    whence.explain("sentiment", TEXT, method="attention_flow")


def diagnose(work: Path) -> None:
    whence.diagnose("sentiment", [TEXT, "a dull, slow mess of a film"], sections=["agreement"])


def concepts(work: Path) -> None:
    good = [f"a {word} film" for word in "gorgeous witty charming brilliant fine lovely".split()]
    bad = [f"a {word} film" for word in "dull tedious slow boring stale tired".split()]
    whence.tcav("sentiment", target="positive", examples=[TEXT, *good], concept=good, counter=bad, runs=3, folds=2)


def shap(work: Path) -> None:
    whence.explain("sentiment", "a gem", method="shap")


def web(work: Path) -> None:
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [COMMAND, "serve", "sentiment", "--port", "0", "--no-open"]
    with subprocess.Popen(command, env=os.environ | {"PYTHONUNBUFFERED": "1"}, **options) as server:
        line = server.stdout.readline()
        server.terminate()
        said = server.stderr.read()
    if "whence-xai[web]" in said:
        raise MissingExtraError("fastapi", "web", "whence serve")
    assert "http://127.0.0.1:" in line, said


def data(work: Path) -> None:
    whence.run([TEXT, "so dull"], model="sentiment", out=work / "data", method="gi", progress=False)
    assert whence.verify(work / "data").rows == 2


def sound(work: Path) -> None:
    """A file that is no WAV: soundfile makes it where it is, and without it any bytes ask for it."""
    try:
        import numpy
        import soundfile

        buffer = io.BytesIO()
        soundfile.write(buffer, numpy.zeros(8000), 8000, format="FLAC")
        (work / "a.flac").write_bytes(buffer.getvalue())
    except ImportError:
        (work / "a.flac").write_bytes(b"fLaC" + struct.pack("<64x"))
    whence.explain("tones", str(work / "a.flac"))


def ray(work: Path) -> None:
    whence.run([TEXT, "dull"], model="sentiment", out=work / "ray", executor="ray", workers=1, progress=False)


USES: dict[str, Callable[[Path], None]] = {
    f.__name__: f for f in (viz, flow, diagnose, concepts, shap, web, data, sound, ray)
}
IMPLIED = {"diagnose": {"flow"}, "flow": {"diagnose"}, "concepts": {"flow", "diagnose"}, "ray": {"data"},
           "shap": {"flow", "diagnose", "concepts"}}  # fmt: skip
"""Extras whose packages come with another's: nothing is left to miss."""


def _missing(use: Callable[[Path], None], work: Path) -> str | None:
    """What it says of a package that is not there."""
    try:
        use(work)
    except MissingExtraError as error:
        return str(error)
    return None


def main(extras: list[str]) -> None:
    there = set(extras).union(*(IMPLIED.get(extra, ()) for extra in extras))
    assert "site-packages" in whence.__file__, f"not the installed package: {whence.__file__}"
    assert whence.explain("sentiment", TEXT).top(1)[0][0] == "gorgeous"
    said = subprocess.run([COMMAND, "explain", TEXT], capture_output=True, text=True, check=True).stdout
    assert "gorgeous" in said, said
    with tempfile.TemporaryDirectory() as folder:
        for name, use in USES.items():
            missing = _missing(use, Path(folder))
            assert (missing is None) == (name in there), f"{name}: {missing or 'worked without its extra'}"
            assert missing is None or "pip install 'whence-xai[" in missing, missing
    print(f"ok with {' '.join(sorted(extras)) or 'no extra'}: {whence.__version__}, Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main(sys.argv[1:])
