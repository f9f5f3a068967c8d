"""TCAV where the truth is known, and everything around it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import whence
from tests import small
from tests.concepts import planted
from tests.reference import tcav as reference
from whence.cli import app
from whence.concepts import cav, collections, procedure
from whence.concepts.layers import Layer, blocks, choose
from whence.concepts.probe import Probe
from whence.errors import EmptyInputError, InputError, MissingExtraError, ModelError, UnknownNameError
from whence.results.concept_scores import TCAV, LayerScore


def _run(concept: int | None, **options):
    settings = {"layer": "all", "runs": 20, "randoms": planted.inputs(60, 3), "pool": "mean"} | options
    return whence.tcav(
        planted.model(), target=1, examples=planted.inputs(20, 1), concept=planted.inputs(25, 2, concept), **settings
    )


# -- truth -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", ["mean", "cls", "flatten"])
def test_a_concept_the_output_reads_scores_one_and_is_significant(pool):
    result = _run(planted.USED, pool=pool)
    assert [layer.index for layer in result.layers] == [0, 1, 2]
    for layer in result.layers:
        assert layer.score > 0.95
        assert layer.significant
        assert layer.magnitude > 0
        assert layer.accuracy > 0.6  # from 12 + 12 examples; one token among noise allows 0.84 at most


def test_a_direction_the_output_is_blind_to_is_not_significant():
    for layer in _run(planted.UNUSED).layers:
        assert not layer.significant, layer
        assert layer.accuracy > 0.8  # the concept is there; the class does not care


def test_noise_as_concept_is_not_significant_and_noted():
    for layer in _run(None).layers:
        assert not layer.significant, layer
        assert layer.note


def test_the_other_class_answers_the_other_way():
    contrast = whence.contrast(0, 1)
    options = {"examples": planted.inputs(20, 1), "concept": planted.inputs(25, 2, planted.USED), "layer": 1}
    found = whence.tcav(planted.model(), target=contrast, counter=planted.inputs(25, 4), runs=10, **options)
    assert found[0].score < 0.05
    assert found.recognised is None


def test_relative_tcav_swaps_sign_with_its_sides():
    a, b = planted.inputs(25, 2, planted.USED), planted.inputs(25, 4, planted.UNUSED)
    options = {"target": 1, "examples": planted.inputs(20, 1), "layer": 1, "runs": 10}
    one = whence.tcav(planted.model(), concept=a, counter=b, **options)
    two = whence.tcav(planted.model(), concept=b, counter=a, **options)
    assert one[0].score > 0.95
    assert two[0].score < 0.05
    assert one.counter == "counter"


# -- derivatives -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", ["mean", "cls", "last", "flatten"])
def test_gradients_are_finite_differences(pool):
    module = planted.model().double()
    adapter = whence.load(module)
    x = planted.inputs(3, 5).double()
    examples, _ = adapter.encode(x)
    layer = Layer("blocks.1", module.blocks[1], 1)
    gradients = Probe(adapter, [layer], pool).gradients(examples, adapter.target(1)).by_layer["blocks.1"]
    direction = np.random.default_rng(0).normal(size=gradients.shape[1])
    for n in range(3):
        with torch.no_grad():
            hidden = module.blocks[1](module.blocks[0](x[n : n + 1]))

        def score(step, hidden=hidden):
            with torch.no_grad():
                moved = hidden + _spread(torch.from_numpy(step), pool)
                out = module.blocks[2](moved).mean(1)
                return float(module.head(out + 0.2 * out**3)[0, 1])

        expected = reference.derivative(score, np.zeros_like(direction), direction)
        assert gradients[n] @ direction == pytest.approx(expected, rel=1e-5)  # gradients come back as float32


def _spread(step: torch.Tensor, pool: str) -> torch.Tensor:
    """The step of the pooled vector as a step of all tokens."""
    if pool == "flatten":
        return step.view(1, planted.TOKENS, planted.HIDDEN)
    moved = torch.zeros(1, planted.TOKENS, planted.HIDDEN, dtype=step.dtype)
    where = {"mean": slice(None), "cls": 0, "last": -1}[pool]
    moved[:, where] = step
    return moved


def test_all_layers_in_one_pass_equal_each_alone_and_frozen_models_work():
    module = planted.model()
    for p in module.parameters():
        p.requires_grad_(False)
    adapter = whence.load(module)
    examples, _ = adapter.encode(planted.inputs(5, 5))
    layers = [Layer(f"blocks.{n}", module.blocks[n], n) for n in range(3)]
    together = Probe(adapter, layers, "mean").gradients(examples, adapter.target(1)).by_layer
    for layer in layers:
        alone = Probe(adapter, [layer], "mean", batch_size=2).gradients(examples, adapter.target(1)).by_layer
        np.testing.assert_allclose(together[layer.name], alone[layer.name], rtol=1e-5, atol=1e-7)  # float32
    assert not any(p.requires_grad for p in module.parameters())


def test_padding_changes_nothing(sentiment):
    texts = ["a gem", "a long and winding tale of two brothers that never ends", "dull"]
    layers = choose(sentiment.module, "all", lambda: sentiment.run(sentiment.collate(sentiment.encode(texts)[0])))
    for pool in ("mean", "cls", "last"):
        probe = Probe(sentiment, layers, pool, batch_size=3)
        together, _ = sentiment.encode(texts)
        batched = probe.activations(together), probe.gradients(together, sentiment.target("positive")).by_layer
        for n, text in enumerate(texts):
            one, _ = sentiment.encode([text])
            single = probe.activations(one), probe.gradients(one, sentiment.target("positive")).by_layer
            for a, b in zip(batched, single, strict=True):
                for name in a:
                    np.testing.assert_allclose(a[name][n], b[name][0], atol=2e-5)  # float32, other batch sizes


# -- the model is left as it was ---------------------------------------------------------------------------------


def _state(module: torch.nn.Module):
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in module.modules()]
    grads = [p.grad is None and p.requires_grad for p in module.parameters()]
    return hooks, grads, {k: v.clone() for k, v in module.state_dict().items()}, module.training


def _same(a, b) -> bool:
    return a[0] == b[0] and a[1] == b[1] and a[3] == b[3] and all(torch.equal(a[2][k], b[2][k]) for k in a[2])


def test_model_is_untouched():
    module = planted.model()
    before = _state(module)
    whence.tcav(
        module, target=1, examples=planted.inputs(5, 1), concept=planted.inputs(8, 2), counter=planted.inputs(8, 3),
        layer="all", runs=3,
    )  # fmt: skip
    assert _same(before, _state(module))


@pytest.mark.parametrize("stage", ["looking", "activations", "gradients"])
def test_model_is_untouched_after_an_exception(stage):
    module = planted.model()
    adapter = whence.load(module)
    examples, _ = adapter.encode(planted.inputs(5, 1))
    probe = Probe(adapter, [Layer("blocks.0", module.blocks[0], 0)], "mean")
    before = _state(module)

    class Broken(RuntimeError):
        pass

    def fail(*_):
        raise Broken

    handle = module.head.register_forward_pre_hook(fail)
    work = {
        "looking": lambda: choose(module, 0, lambda: adapter.run(adapter.collate(examples))),
        "activations": lambda: probe.activations(examples),
        "gradients": lambda: probe.gradients(examples, adapter.target(1)),
    }[stage]
    with pytest.raises(Broken):
        work()
    handle.remove()
    assert _same(before, _state(module))


def test_works_under_no_grad_and_inference_mode():
    module = planted.model()
    sets = {"examples": planted.inputs(9, 1), "concept": planted.inputs(9, 2, planted.USED)}
    sets["counter"] = planted.inputs(9, 3)
    plain = whence.tcav(module, target=1, runs=3, **sets)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            assert whence.tcav(module, target=1, runs=3, **sets) == plain


# -- layers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (small.classifier, "bert.encoder.layer.{}"),
        (small.vit, "vit.layers.{}"),
        (small.by_hand, "encoder.layers.{}"),
        (small.llama_classifier, "model.layers.{}"),
    ],
)
def test_blocks_are_found_in_any_model(make, names):
    module = make()
    known = blocks(module, set(module.modules()))
    assert [b.module for b in known] == [dict(module.named_modules())[b.name] for b in known]
    assert len(known) == 2
    if names.split(".")[0] != "vit":  # the path inside has changed between versions of transformers
        assert [b.name for b in known] == [names.format(n) for n in range(2)]


def test_layers_by_number_name_list_and_default():
    module = planted.model()
    run = lambda: module(planted.inputs(1, 0))
    assert [la.index for la in choose(module, None, run)] == [1]
    assert [la.name for la in choose(module, -1, run)] == ["blocks.2"]
    assert [la.index for la in choose(module, "blocks.0", run)] == [0]
    assert [la.index for la in choose(module, "blocks.0.inner", run)] == [None]
    assert [la.name for la in choose(module, [2, "blocks.0", 2], run)] == ["blocks.2", "blocks.0"]
    with pytest.raises(UnknownNameError, match=r"Did you mean 'blocks\.2'"):
        choose(module, "block.2", run)
    with pytest.raises(InputError, match="3 blocks, 0 to 2"):
        choose(module, 7, run)
    with pytest.raises(ModelError, match="does not run by itself"):
        choose(module, "spare.0", run)


# -- cache -------------------------------------------------------------------------------------------------------


def test_cache_hit_equals_miss_and_corrupt_files_are_written_anew(tmp_path, monkeypatch):
    plain = _run(planted.USED, runs=3)
    missed = _run(planted.USED, runs=3, cache=tmp_path)
    files = sorted(tmp_path.rglob("*.npz"))
    assert len(files) == (25 + 60) * 3  # inputs times layers
    runs = []
    forward = planted.Planted.forward
    monkeypatch.setattr(planted.Planted, "forward", lambda self, x: runs.append(len(x)) or forward(self, x))
    hit = _run(planted.USED, runs=3, cache=tmp_path)
    # finding the blocks, whether examples may stand beside each other, and the gradients of the examples
    assert sum(runs) == 1 + 3 + 20
    assert plain == missed == hit
    content = files[0].read_bytes()
    files[0].write_bytes(content[: len(content) // 2])
    files[1].write_bytes(b"")
    files[2].write_bytes(content[:150] + bytes(8) + content[158:])
    assert _run(planted.USED, runs=3, cache=tmp_path) == plain
    assert not list(tmp_path.rglob("*.part"))
    with np.load(files[1], allow_pickle=False) as again:
        assert again["activation"].ndim == 1


def test_cache_knows_models_and_inputs_apart(tmp_path):
    first = _run(planted.USED, runs=3, cache=tmp_path)
    module = planted.model()
    with torch.no_grad():
        module.blocks[0].inner.weight += 0.3
    options = {"target": 1, "examples": planted.inputs(20, 1), "concept": planted.inputs(25, 2, planted.USED)}
    options |= {"layer": "all", "runs": 3, "randoms": planted.inputs(60, 3)}
    assert whence.tcav(module, cache=tmp_path, **options) == whence.tcav(module, **options) != first


# -- inputs ------------------------------------------------------------------------------------------------------

PRAISE = "superb wonderful gorgeous brilliant delightful charming excellent masterful".split()
PLAIN = "wooden square daily northern printed yellow local metal".split()
TEXTS = ["a film about a dog", "the story of two brothers", "it plays in paris"]


def test_texts_from_lists_and_files(sentiment, tmp_path):
    for name, lines in (("praise", PRAISE), ("plain", PLAIN), ("texts", TEXTS)):
        (tmp_path / f"{name}.txt").write_text("\n\n".join(lines) + "\n")
    options = {"target": "positive", "runs": 4}
    listed = whence.tcav(sentiment, examples=TEXTS, concept=PRAISE, counter=PLAIN, **options)
    files = {
        k: tmp_path / f"{v}.txt" for k, v in {"examples": "texts", "concept": "praise", "counter": "plain"}.items()
    }
    filed = whence.tcav(sentiment, **files, **options)
    assert filed.layers == listed.layers
    assert (filed.concept, filed.counter) == ("praise", "plain")
    assert listed[0].score == 1.0
    assert (
        whence.tcav(sentiment, examples=TEXTS, concept=PRAISE, counter=PLAIN, target="negative", runs=4)[0].score == 0
    )


def _striped(folder, count, *, vertical, seed=0):
    folder.mkdir()
    rng = np.random.default_rng(seed)
    for n in range(count):
        phase = (np.arange(16) // 2 + n) % 2 * 200
        image = np.broadcast_to(phase if vertical else phase[:, None], (16, 16)) + rng.integers(0, 50, (16, 16))
        Image.fromarray(np.repeat(image[..., None], 3, -1).astype(np.uint8)).save(folder / f"{n}.png")
    return folder


@pytest.fixture
def vision(tmp_path):
    import transformers

    processor = transformers.ViTImageProcessor(size={"height": 16, "width": 16})
    folders = {
        "examples": _striped(tmp_path / "examples", 4, vertical=True, seed=3),
        "concept": _striped(tmp_path / "vertical", 8, vertical=True),
        "counter": _striped(tmp_path / "horizontal", 8, vertical=False),
    }
    return whence.load((small.vit(), processor)), folders


def test_images_from_folders_paths_arrays_and_pil(vision):
    model, folders = vision
    options = {"target": 1, "layer": "all", "runs": 4}
    filed = whence.tcav(model, **folders, **options)
    assert filed.pool == "flatten"
    assert filed.concept == "vertical"
    lists = {k: sorted(folder.iterdir()) for k, folder in folders.items()}
    opened = {k: [Image.open(p) for p in paths] for k, paths in lists.items()}
    arrays = {k: [np.asarray(i) for i in images] for k, images in opened.items()}
    for given in (lists, opened, arrays):
        assert whence.tcav(model, **given, **options).layers == filed.layers


# -- errors before long work -------------------------------------------------------------------------------------


@pytest.fixture
def no_work(monkeypatch):
    """Running the model counts as long work."""

    def fail(*_, **__):
        raise AssertionError("the model ran before the input was checked")

    monkeypatch.setattr(Probe, "_run", fail)


@pytest.mark.usefixtures("no_work")
def test_bad_images_are_named_first(vision, tmp_path):
    model, folders = vision
    options = {"target": 1, "runs": 4}
    (tmp_path / "empty").mkdir()
    with pytest.raises(EmptyInputError, match=r"concept: the folder .*empty.* holds no images"):
        whence.tcav(model, **folders | {"concept": tmp_path / "empty"}, **options)
    with pytest.raises(InputError, match=r"counter: .*nowhere.* does not exist"):
        whence.tcav(model, **folders | {"counter": tmp_path / "nowhere"}, **options)
    (folders["concept"] / "3.png").write_bytes(b"not an image")
    with pytest.raises(InputError, match=r"concept: .*3\.png.* can't be read as an image"):
        whence.tcav(model, **folders, **options)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "positiv"}, "Did you mean 'positive'"),
        ({"target": 5}, "class 5 does not exist"),
        ({"target": None}, "one of: negative, positive"),
        ({"target": whence.contrast("positive", "nagetive")}, "Did you mean 'negative'"),
        ({"concept": []}, "concept is empty"),
        ({"concept": PRAISE[:2]}, "concept has 2 inputs and needs at least 5"),
        ({"examples": TEXTS[:1]}, "examples has 1 inputs and needs at least 2"),
        ({"counter": None}, "pass counter="),
        ({"counter": PRAISE}, "only one class"),
        ({"counter": None, "randoms": PLAIN}, "randoms has 8 inputs and needs at least 10"),
        ({"layer": "bert.encoder.layers.1"}, "Did you mean 'bert.encoder.layer.1'"),
        ({"layer": 12}, "3 blocks"),
        ({"layer": 1.5}, "number of a block"),
        ({"pool": "max"}, "unknown pool 'max'"),
        ({"size": 50}, "size=50, but the collections allow 8"),
        ({"runs": 1}, "at least 3"),
        ({"concept": "no/such/file.txt"}, "no such file"),
        ({"concept": 3}, "can't be int"),
        ({"examples": ["a gem", " "]}, "examples: input 1: the text is empty"),
    ],
)
def test_bad_input_is_refused_before_long_work(sentiment, change, message):
    options = {"target": "positive", "examples": TEXTS, "concept": PRAISE, "counter": PLAIN} | change
    with pytest.raises(whence.WhenceError) as caught:
        whence.tcav(sentiment, **options)
    assert message in str(caught.value)


def test_flatten_needs_one_length(sentiment):
    with pytest.raises(InputError, match="pool='mean'"):
        whence.tcav(sentiment, target=1, examples=TEXTS, concept=PRAISE, counter=PLAIN, pool="flatten", runs=3)


def test_flatten_needs_one_length_across_collections(sentiment):
    sets = {"examples": ["a dog", "a cat"], "concept": ["good"] * 4 + ["fine"], "counter": ["a car"] * 5}
    with pytest.raises(InputError, match="differ in length"):
        whence.tcav(sentiment, target=1, pool="flatten", runs=3, **sets)


def test_a_layer_that_leads_nowhere(vision):
    model, _ = vision
    examples, _ = model.encode(torch.zeros(2, 3, 16, 16))
    layer = Layer("dropout", torch.nn.Identity())
    with pytest.raises(ModelError, match="did not run"):
        Probe(model, [layer], "mean").activations(examples)


def test_missing_extra_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'whence-xai\[concepts\]'"):
        _run(planted.USED)


def test_import_is_light():
    code = "import sys, whence; whence.tcav; print([m for m in ('scipy', 'sklearn', 'PIL') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# -- draws -------------------------------------------------------------------------------------------------------


def test_random_sets_share_nothing_and_mix_both_sides():
    adapter = whence.load(planted.model())
    sets = {
        role: collections.read(adapter, planted.inputs(count, n), role, 2)
        for n, (role, count) in enumerate({"examples": 3, "concept": 10, "counter": 12}.items())
    }
    draws = procedure.Draws(sets, None)
    assert (draws.size, draws.overlap) == (5, (5 / 10 + 5 / 12) / 2)
    first, second = draws.chance(np.random.default_rng(0))
    assert not set(first) & set(second)
    assert sum(first < 10) == sum(second < 10) == 2  # as many of the concept on either side
    concept, counter = draws.concept(np.random.default_rng(0))
    assert set(concept) <= set(range(10))
    assert set(counter) <= set(range(10, 22))


def test_accuracy_is_measured_on_examples_that_were_not_drawn(monkeypatch):
    seen = []
    plain = cav.Space.accuracy
    monkeypatch.setattr(cav.Space, "accuracy", lambda s, v, a, b: seen.append((len(a), len(b))) or plain(s, v, a, b))
    _run(planted.USED, runs=3, layer=0)
    assert seen == [(25 - 12, 60 - 12)] * 3
    seen.clear()
    _run(planted.USED, runs=3, layer=0, size=25, folds=5)  # nothing is left of the concept
    assert seen == [(5, 5)] * 15


def test_seed_decides_everything():
    assert _run(planted.USED, runs=3, seed=1) == _run(planted.USED, runs=3, seed=1)
    assert _run(None, runs=3, seed=1) != _run(None, runs=3, seed=2)


# -- results -----------------------------------------------------------------------------------------------------


def test_saved_and_loaded_exactly(tmp_path):
    result = _run(planted.USED, runs=4)
    assert TCAV.load(result.save(tmp_path / "r.json")) == result
    lines = result.save(tmp_path / "r.csv").read_text().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("target,concept,counter,examples,layer,module,score")
    with pytest.raises(InputError, match=r"ends in .*\.csv"):
        result.save(tmp_path / "r.xyz")
    with pytest.raises(InputError, match="not a TCAV result"):
        TCAV.from_dict({"format": 1})
    assert not list(tmp_path.glob("*.part"))


def test_bonferroni_counts_layers():
    for layer in _run(None).layers:
        assert layer.p_corrected == pytest.approx(min(1.0, 3 * layer.p_value))


def test_pictures_stand_alone_and_are_valid_xml(tmp_path):
    from xml.etree import ElementTree

    result = _run(planted.USED, runs=4, names={"concept": "<b>stripes</b> & more"})
    tree = ElementTree.fromstring(result.save(tmp_path / "r.svg").read_text())
    texts = [t.text for t in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert sum(t in ("*", "**", "***", "n.s.") for t in texts) == 3
    page = result.save(tmp_path / "r.html").read_text()
    assert "<b>stripes" not in page
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "<b>stripes" not in result._repr_html_()


def test_table_in_words():
    layer = LayerScore("blocks.1", 1, (1.0, 0.9), (0.5, 0.4), (2.0, 4.0), (0.5, 0.5), (0.8, 1.0), 0.0, 0.0004, 0.0012)
    result = TCAV("zebra", "striped", "dotted", (layer,), 20, 0.25, 10, "mean", 2)
    text = str(result)
    assert text.splitlines()[0] == "target zebra: striped vs dotted"
    assert text.splitlines()[2].split() == "1 0.950 0.071 0.800 to 1.000 0.450 <0.001 0.001 ** 0.50 +3".split()
    assert "hardly tells the concept apart" in text
    assert "only 25\xa0% of the examples" in text
    assert result.at(1) is result.at("blocks.1") is result[0]
    with pytest.raises(UnknownNameError):
        result.at(2)
    assert "striped" in repr(result)


# -- command -----------------------------------------------------------------------------------------------------


def test_command(tmp_path):
    for name, lines in (("praise", PRAISE), ("plain", PLAIN), ("texts", TEXTS)):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    arguments = ["tcav", "sentiment", "--target", "positive", "--runs", "4", "--layer", "0,2"]
    for option, name in (("--examples", "texts"), ("--concept", "praise"), ("--counter", "plain")):
        arguments += [option, str(tmp_path / f"{name}.txt")]
    run = CliRunner().invoke
    shown = run(app, [*arguments, "--save", str(tmp_path / "out.html"), "--cache", str(tmp_path / "cache")])
    assert shown.exit_code == 0, shown.output
    assert "target positive: praise vs plain" in shown.stdout
    assert (tmp_path / "out.html").read_text().startswith("<!doctype html>")
    data = json.loads(run(app, [*arguments, "--json"]).stdout)
    assert [layer["index"] for layer in data["layers"]] == [0, 2]
    assert TCAV.from_dict(data).target == "positive"


def test_learner_is_scikit_learn():
    assert cav.learner().__module__.startswith("sklearn.")
