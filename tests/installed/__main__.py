"""The wheel in empty environments: `make floors`, which is

    python -m tests.installed extras            # no extra, then each alone
    python -m tests.installed lowest newest     # all extras, with the lowest and the newest versions that are declared

Builds the wheel, makes an environment for each case under FOLDER and runs `smoke.py` in it. This downloads; it is no
part of the tests. `--torch 2.13.0` stands in where the declared torch would bring several GB of CUDA.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = [name for name in DECLARED["optional-dependencies"] if name not in ("all", "dev", "doors")]

CASES = ["extras", "lowest", "newest"]


def lowest(torch: str | None) -> list[str]:
    """Every requirement with its lowest version in place of its range.

    >>> "rich==13" in lowest(None)
    True
    """
    wanted = [*DECLARED["dependencies"], *(one for extra in EXTRAS for one in DECLARED["optional-dependencies"][extra])]
    found = {}
    for requirement in wanted:
        name, version = re.match(r"([\w.-]+)>=([\d.]+)", requirement).groups()
        found[name] = torch if name == "torch" and torch else version
    return [f"{name}=={version}" for name, version in found.items()]


def call(*command: str | Path) -> str:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # the sources are not the package
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=own)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


class Environment:
    """An environment of its own. One that stands on another sees what that has."""

    def __init__(self, folder: Path, below: Environment | None = None):
        self.python = folder / "bin" / "python"
        if not self.python.exists():
            call(sys.executable, "-m", "venv", folder)
        self.packages = next((folder / "lib").glob("python*")) / "site-packages"
        if below is not None:
            (self.packages / "below.pth").write_text(f"{below.packages}\n")

    def install(self, *wanted: str | Path) -> None:
        call(self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)

    def smoke(self, *extras: str) -> None:
        script = Path(__file__).with_name("smoke.py")
        print(call(self.python, "-P", "-W", "ignore", script, *extras).strip().splitlines()[-1], flush=True)

    def versions(self) -> str:
        names = "torch transformers tokenizers safetensors numpy pillow pyarrow matplotlib ray".split()
        code = f"from importlib.metadata import version; print(*(f'{{n}} {{version(n)}}' for n in {names}), sep=', ')"
        return call(self.python, "-c", code).strip()


def wheel(folder: Path) -> Path:
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    return max(folder.glob("whence_xai-*.whl"), key=lambda path: path.stat().st_mtime)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument(
        "cases", nargs="*", choices=["extras", "lowest", "newest"], default=["extras", "lowest", "newest"]
    )
    arguments.add_argument("--folder", type=Path, default=Path("build/installed"))
    arguments.add_argument("--torch", help="A version to take in place of the declared one.")
    given = arguments.parse_args()
    made = wheel(given.folder)
    torch = [f"torch=={given.torch}"] if given.torch else []
    if "extras" in given.cases:
        base = Environment(given.folder / "none")
        base.install(made, *torch)
        base.smoke()
        for extra in EXTRAS:
            above = Environment(given.folder / extra, base)
            above.install(f"{made}[{extra}]", *torch)
            # The command of an environment is the one that was installed there.
            above.install("--no-deps", "--force-reinstall", made)
            above.smoke(extra)
    for case in [case for case in given.cases if case != "extras"]:
        place = Environment(given.folder / case)
        place.install(f"{made}[all]", *(lowest(given.torch) if case == "lowest" else torch))
        place.smoke(*EXTRAS)
        print(f"{case}: {place.versions()}", flush=True)


if __name__ == "__main__":
    main()
