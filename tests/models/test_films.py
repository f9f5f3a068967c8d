"""Films: frames in every form, scores over pieces of time and place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

import whence
from tests.models.seers import made, timesformer, videomae, vivit, watcher
from whence.errors import InputError

FRAMES = np.random.default_rng(1).integers(0, 256, (4, 20, 24, 3), dtype=np.uint8)


def test_frames_in_every_form(tmp_path):
    assert "reads films of 4 frames;" in repr(watcher())
    with torch.no_grad():
        pixels = watcher().processor(list(FRAMES), return_tensors="pt")["pixel_values"]
        logits = made(videomae)(pixels).logits[0]
    for n, frame in enumerate(FRAMES):
        Image.fromarray(frame).save(tmp_path / f"{n}.png")
    paths = [tmp_path / f"{n}.png" for n in range(4)]
    forms = [FRAMES, torch.from_numpy(FRAMES), list(FRAMES), [Image.fromarray(f) for f in FRAMES], paths,
             [str(p) for p in paths], [p.read_bytes() for p in paths], pixels[0], {"pixel_values": pixels},
             {"video": paths}]  # fmt: skip
    for form in forms:
        exp = whence.explain(watcher(), form)
        assert exp.target_score == pytest.approx(float(logits.max()), abs=1e-5)
        assert exp.scores.shape == (2, 4, 4)
        assert exp.image.shape == (16, 32, 3)
    for several in ([FRAMES, FRAMES[::-1].copy()], np.stack([FRAMES, FRAMES[::-1]]), [list(FRAMES), paths[::-1]]):
        first, second = whence.explain(watcher(), several)
        assert first.target_score == pytest.approx(float(logits.max()), abs=1e-5)
        assert not np.allclose(first.scores, second.scores)


def test_scores_of_a_film_are_sums_over_its_pieces():
    """With a transparent model: relevance is where it was put."""
    model = watcher()
    (example,), _ = model.encode(FRAMES)
    relevance = torch.zeros(4, 3, 16, 16)
    relevance[3, 1, 5, 9] = 2.0
    scores = model.by_feature(example.parts[0], relevance)
    assert float(scores[1, 1, 2]) == 2.0
    assert float(scores.sum()) == 2.0
    keep = np.ones((2, 4, 4), dtype=bool)
    keep[1, 1, 2] = False
    gone = model.masked(example, keep.reshape(-1), "zero").inputs["pixel_values"] == 0
    assert bool(gone[2:, :, 4:8, 8:12].all())
    assert int(gone.sum()) == 2 * 3 * 16


def test_a_film_is_read_saved_and_drawn(tmp_path):
    exp = whence.explain(watcher(), FRAMES)
    assert exp.top(1)[0][0].startswith("frame ")
    assert exp.laid_out().scores.shape == (4, 8)
    assert exp.laid_out().image.shape == (16, 32, 3)
    for name in ("x.json", "x.npz"):
        again = whence.Explanation.load(exp.save(tmp_path / name))
        np.testing.assert_array_equal(again.scores, exp.scores)
    for name in ("x.svg", "x.html", "x.txt"):
        assert exp.save(tmp_path / name).stat().st_size
    both = whence.compare(watcher(), FRAMES, ["gi", "lrp"])
    np.testing.assert_allclose(both[1].scores, exp.scores, atol=1e-6)
    for name in ("y.svg", "y.html"):
        assert both.save(tmp_path / name).stat().st_size
    three = whence.explain(made(timesformer), torch.randn(3, 3, 16, 16)).laid_out()  # the last place stays empty
    assert three.scores.shape == (8, 8)
    assert not three.scores[4:, 4:].any()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("party.mp4", "films are not decoded here: pass its frames"),
        ("party.png", "one str is none: pass the frames"),
        (FRAMES[0], r"ndarray of shape \(20, 24, 3\) is none"),
        (Image.fromarray(FRAMES[0]), "is none: pass the frames"),
        ([], "empty"),
        (FRAMES[:3], "3 frames can't be read by this model: pass 4"),
        (np.concatenate([FRAMES, FRAMES]), "8 frames can't be read by this model: pass 4"),
        ([FRAMES[0], FRAMES[1][:10]], "one size"),
        (torch.zeros(4, 3, 16, 16, dtype=torch.int64), "int64"),
        (torch.randn(3, 16, 16), r"\(frame, channel, height, width\)"),
        (["nowhere.png"] * 4, "no such image"),
    ],
)
def test_what_is_no_film(wrong, says):
    with pytest.raises(InputError, match=says):
        whence.explain(watcher(), wrong)


def test_a_film_without_a_processor():
    with pytest.raises(InputError, match="came without a processor"):
        whence.explain(made(videomae), FRAMES)


def test_a_model_of_films_may_take_other_lengths():
    """TimeSformer stretches its time embeddings, VideoMAE can't."""
    assert whence.explain(made(timesformer), torch.randn(6, 3, 16, 16)).scores.shape == (6, 4, 4)


@pytest.mark.parametrize("method", ["rollout", "attention_last"])
def test_attention_over_a_film(method):
    exp = whence.explain(made(vivit), torch.randn(4, 3, 16, 16), method)
    assert exp.scores.shape == (2, 4, 4)
