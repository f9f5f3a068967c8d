"""Nothing that a model, a result or a cache brings is unpickled: every file here would leave a mark if it were."""

from __future__ import annotations

import ast
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import whence
from tests import small
from whence.errors import ModelError, WhenceError

SOURCES = Path(whence.__file__).parent


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def mark(tmp_path):
    path = tmp_path / "it ran"
    yield path
    assert not path.exists(), "a pickle was run"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "model"
    small.classifier().save_pretrained(made)
    small.wordpiece().save_pretrained(made)
    return made


def test_the_bomb_works(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "x")))
    assert (tmp_path / "x").exists()


def armed(path: Path, mark: Path) -> None:
    torch.save({"weight": torch.zeros(1), "bomb": Bomb(mark)}, path)


def test_pickled_weights(folder, mark):
    (folder / "model.safetensors").unlink()
    armed(folder / "pytorch_model.bin", mark)
    with pytest.raises(ModelError, match=r"pickled weights can run code.*allow_pickle=True"):
        whence.load(folder)
    with pytest.raises(ModelError, match="has a file that can't be read"):  # it holds more than tensors
        whence.load(folder, allow_pickle=True)


def test_pickled_weights_of_which_all_are_tensors_are_read_when_asked(folder):
    wanted = small.classifier().state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(wanted, folder / "pytorch_model.bin")
    found = whence.load(folder, allow_pickle=True).module.state_dict()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], value) for name, value in wanted.items())


def test_pickles_beside_the_weights(folder, mark):
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt", "adapter_model.bin", "vocab.pkl"):
        armed(folder / name, mark)
    assert whence.explain(whence.load(folder), "a good movie").scores.size
    assert whence.explain(whence.load(folder, allow_pickle=True), "a good movie").scores.size


def test_an_index_that_names_pickled_weights(folder, mark):
    (folder / "model.safetensors").unlink()
    armed(folder / "part.bin", mark)
    index = {"metadata": {}, "weight_map": dict.fromkeys(small.classifier().state_dict(), "part.bin")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"names part\.bin"):
        whence.load(folder)


def sentence_model(folder: Path, *modules: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    pooling = {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}
    (folder / "modules.json").write_text(json.dumps([pooling, *modules]))
    return folder


def test_pickled_modules_of_a_sentence_model(tmp_path, mark):
    folder = sentence_model(tmp_path / "m", {"type": "sentence_transformers.models.Dense", "path": "2_Dense"})
    (folder / "2_Dense").mkdir()
    armed(folder / "2_Dense" / "pytorch_model.bin", mark)
    with pytest.raises(ModelError, match=r"2_Dense/pytorch_model\.bin of .* is pickled"):
        whence.load(folder)


def test_code_beside_a_sentence_model(tmp_path, mark):
    folder = sentence_model(tmp_path / "m", {"type": "own.Module", "path": ""})
    (folder / "own.py").write_text(f"import os; os.mkdir({str(mark)!r})")
    with pytest.raises(ModelError, match=r"brings its own code \(own\.Module\)"):
        whence.load(folder)


def test_code_beside_a_model(folder, mark):
    config = json.loads((folder / "config.json").read_text())
    config |= {"auto_map": {"AutoConfig": "own.Config"}, "model_type": "unheard_of"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"import os; os.mkdir({str(mark)!r})")
    with pytest.raises(ModelError, match="brings its own code"):
        whence.load(folder)


def test_results(tmp_path, mark):
    path = tmp_path / "a.npz"
    whence.explain("sentiment", "a gem", method="gi").save(path)
    with np.load(path) as saved:
        arrays = dict(saved)
    for name in arrays:
        np.savez(path, **(arrays | {name: np.array([Bomb(mark)], dtype=object)}))
        with pytest.raises(WhenceError):
            whence.Explanation.load(path)


def calls(tree: ast.AST) -> list[tuple[str, dict[str, ast.expr]]]:
    """Functions that are called by a dotted name, with what they are given by name."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [(ast.unparse(node.func), {k.arg or "**": k.value for k in node.keywords}) for node in found]


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCES)))
def test_no_source_unpickles_or_trusts(path):
    """But for the runner, whose processes send pickles to each other on pipes of their own."""
    for name, given in calls(ast.parse(path.read_text(encoding="utf-8"))):
        if path.parent.name != "runner":
            assert name not in ("pickle.load", "pickle.loads", "joblib.load", "pandas.read_pickle"), name
        assert name not in ("torch.load", "torch.hub.load", "eval", "exec"), name
        if name in ("np.load", "numpy.load"):
            assert ast.unparse(given["allow_pickle"]) == "False"
        assert ast.unparse(given.get("trust_remote_code", ast.Constant(False))) != "True"
