"""Boxes, regions, distances, and features: tiny random models, and the same called by hand."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import whence
from tests import small
from tests.models.seers import (
    FILM,
    LABELS,
    VIT,
    beit,
    clip_vision,
    conditional_detr,
    deformable_detr,
    detr,
    detr_masks,
    dinov2,
    dpt,
    glpn,
    made,
    mask2former,
    maskformer,
    oneformer,
    rt_detr,
    segformer,
    timesformer,
    videomae,
    vit_model,
    vivit,
    vjepa2,
    watcher,
    yolos,
)
from whence.errors import InputError, ModelError, WhenceError
from whence.models.pointing import Corners, overlap

# -- by hand: one number from the outputs for one input, without anything of whence -----------------------------------


def softmax_box(outputs: Any) -> torch.Tensor:
    logits = outputs.logits[0]
    return logits[:, :-1].flatten()[logits.softmax(-1)[:, :-1].flatten().argmax()]


def sigmoid_box(outputs: Any) -> torch.Tensor:
    return outputs.logits[0].max()


def largest(outputs: Any) -> torch.Tensor:
    """Of the labels the one of most pixels; "background" is the first."""
    best = outputs.logits[0].argmax(0)
    counts = [int((best == i).sum()) for i in range(4)]
    most = 1 + int(np.argmax(counts[1:])) if any(counts[1:]) else 0
    return outputs.logits[0, most][best == most].mean()


def surest_mask(outputs: Any) -> torch.Tensor:
    logits = outputs.class_queries_logits[0]
    return logits[:, :-1].flatten()[logits.softmax(-1)[:, :-1].flatten().argmax()]


def mean_depth(outputs: Any) -> torch.Tensor:
    return outputs.predicted_depth[0].mean()


def best_class(outputs: Any) -> torch.Tensor:
    return outputs.logits[0].max()


def third(outputs: Any) -> torch.Tensor:
    return outputs.pooler_output[:, 3]


class Kind(NamedTuple):
    build: Callable[[], Any]
    task: str
    by_hand: Callable[[Any], torch.Tensor]
    shape: tuple[int, ...]
    """Of the scores."""


KINDS = [
    Kind(detr, "object-detection", softmax_box, (8, 8)),
    Kind(conditional_detr, "object-detection", sigmoid_box, (8, 8)),
    Kind(yolos, "object-detection", softmax_box, (4, 4)),
    Kind(deformable_detr, "object-detection", sigmoid_box, (8, 8)),
    Kind(rt_detr, "object-detection", sigmoid_box, (8, 8)),
    Kind(segformer, "image-segmentation", largest, (8, 8)),
    Kind(beit, "image-segmentation", largest, (4, 4)),
    Kind(mask2former, "image-segmentation", surest_mask, (16, 16)),
    Kind(maskformer, "image-segmentation", surest_mask, (16, 16)),
    Kind(oneformer, "image-segmentation", surest_mask, (16, 16)),
    Kind(detr_masks, "image-segmentation", softmax_box, (8, 8)),
    Kind(glpn, "depth-estimation", mean_depth, (8, 8)),
    Kind(dpt, "depth-estimation", mean_depth, (4, 4)),
    Kind(videomae, "video-classification", best_class, (2, 4, 4)),
    Kind(timesformer, "video-classification", best_class, (4, 4, 4)),
    Kind(vivit, "video-classification", best_class, (2, 4, 4)),
    Kind(vjepa2, "video-classification", best_class, (2, 4, 4)),
    Kind(vit_model, "image-feature-extraction", third, (4, 4)),
    Kind(dinov2, "image-feature-extraction", third, (4, 4)),
    Kind(clip_vision, "image-feature-extraction", third, (4, 4)),
]
EVERY = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.build.__name__)


def inputs_of(kind: Kind, count: int = 2) -> dict[str, torch.Tensor]:
    side = 16 if kind.task == "video-classification" else 8 * kind.shape[0] if kind.shape[0] < 16 else 64
    frames = (4,) if kind.task == "video-classification" else ()
    drawn = torch.Generator().manual_seed(1)
    name = "pixel_values_videos" if kind.build is vjepa2 else "pixel_values"
    found = {name: torch.randn(count, *frames, 3, side, side, generator=drawn)}
    if kind.build is oneformer:
        found["task_inputs"] = torch.randint(0, 90, (count, 7), generator=drawn)
    return found


def asked(kind: Kind) -> dict[str, Any]:
    return {"target": third} if kind.task == "image-feature-extraction" else {}


@EVERY
def test_the_score_is_the_models_own_and_the_receipt_adds_up(kind):
    inputs = inputs_of(kind)
    model = whence.load(made(kind.build))
    assert model.task == kind.task
    for n, exp in enumerate(whence.explain(model, inputs, receipt="full", **asked(kind))):
        with torch.no_grad():
            outputs = made(kind.build)(**{k: v[n : n + 1] for k, v in inputs.items()})
        assert exp.target_score == pytest.approx(float(kind.by_hand(outputs)), abs=1e-5)
        assert exp.scores.shape == kind.shape
        receipt = exp.conservation
        assert receipt.complete
        assert abs(receipt.error) <= 1e-4 * receipt.scale  # rounding of float32 over a few layers
        assert float(exp.scores.sum()) == pytest.approx(receipt.inputs, abs=1e-5)


@EVERY
def test_a_batch_of_two_is_one_by_one(kind):
    inputs = inputs_of(kind)
    model = whence.load(made(kind.build))
    together = whence.explain(model, inputs, **asked(kind))
    for n, exp in enumerate(together):
        alone = whence.explain(model, {k: v[n : n + 1] for k, v in inputs.items()}, **asked(kind))
        assert exp.target == alone.target
        assert exp.prediction.labels == alone.prediction.labels
        np.testing.assert_allclose(exp.scores, alone.scores, atol=1e-4 * np.abs(alone.scores).max() + 1e-9)
    assert not np.allclose(together[0].scores, together[1].scores, rtol=1e-3)


@EVERY
def test_occlusion_takes_each_feature_away(kind):
    inputs = inputs_of(kind, 1)
    model = whence.load(made(kind.build), cell=16 if kind.shape == (16, 16) else None)  # fewer passes
    exp = whence.explain(model, inputs, "occlusion", fill="zero", **asked(kind))
    whole = whence.explain(model, inputs, **asked(kind))
    assert exp.scores.shape == whole.scores.shape
    assert exp.target == whole.target
    assert exp.target_score == pytest.approx(whole.target_score, abs=1e-5)
    if kind.task == "object-detection":
        return  # a box may move to another query; see below
    (example,), _ = model.encode(inputs)
    keep = np.ones(example.count, dtype=bool)
    keep[1] = False
    changed = model.masked(example, keep, "zero").inputs
    pixels = changed["pixel_values"]
    assert bool((pixels == 0).any())
    assert bool((pixels != 0).any())
    if kind.by_hand in (mean_depth, third):
        with torch.no_grad():
            after = kind.by_hand(made(kind.build)(pixel_values=pixels[None]))
        assert exp.scores.reshape(-1)[1] == pytest.approx(exp.target_score - float(after), abs=1e-5)


@pytest.mark.parametrize("kind", [k for k in KINDS if k.build is not oneformer], ids=lambda kind: kind.build.__name__)
def test_a_saved_folder_is_known_by_its_class(kind, tmp_path):
    made(kind.build).save_pretrained(tmp_path)
    reader = hf.VideoMAEImageProcessorPil if kind.task == "video-classification" else hf.ViTImageProcessorPil
    reader(size={"shortest_edge": 16} if "video" in kind.task else {"height": 32, "width": 32}).save_pretrained(
        tmp_path
    )
    model = whence.load(tmp_path)
    assert type(model) is type(whence.load(made(kind.build)))
    assert type(model.module) is type(made(kind.build))
    assert f"for {kind.task}" in repr(model)
    assert "without a processor" not in repr(model)
    assert type(whence.load(tmp_path, task=kind.task).module) is type(model.module)


# -- boxes -------------------------------------------------------------------------------------------------------------

PICTURE = np.random.default_rng(0).integers(0, 256, (40, 48, 3), dtype=np.uint8)


@lru_cache
def detector() -> Any:
    return whence.load((made(detr), hf.DetrImageProcessorPil(size={"height": 64, "width": 96})))


def test_a_box_is_named_by_its_place_in_pixels():
    exp = whence.explain(detector(), PICTURE)
    assert exp.image.shape == (64, 96, 3)
    encoded = detector().processor(PICTURE, return_tensors="pt")
    with torch.no_grad():
        outputs = detector().module(**encoded)
    shares = outputs.logits[0].softmax(-1)[:, :-1]
    query, index = divmod(int(shares.flatten().argmax()), 4)
    x, y, width, height = (float(v) for v in outputs.pred_boxes[0, query])
    box = Corners(
        round((x - width / 2) * 96), round((y - height / 2) * 64), round((x + width / 2) * 96),
        round((y + height / 2) * 64),
    )  # fmt: skip
    label = LABELS["id2label"][index]
    assert exp.target == f"{label} at ({box.left}, {box.top})–({box.right}, {box.bottom})"
    assert exp.box == box
    assert exp.prediction.label == label
    assert len(exp.prediction.labels) == 6
    assert exp.prediction.probabilities[0] == pytest.approx(float(shares.max()), abs=1e-5)
    assert exp.prediction.scores[0] == pytest.approx(exp.target_score, abs=1e-5)


def test_boxes_by_label_and_by_rank():
    with torch.no_grad():
        outputs = detector().module(**detector().processor(PICTURE, return_tensors="pt"))
    logits, shares = outputs.logits[0], outputs.logits[0].softmax(-1)[:, :-1]
    best = shares.max(-1)
    third_best = int(best.values.argsort(descending=True)[2])
    dogs = shares[:, 2].argsort(descending=True)
    wanted = {
        whence.box("dog"): logits[dogs[0], 2],
        whence.box(2): logits[third_best, best.indices[third_best]],
        whence.box(1, "dog"): logits[dogs[1], 2],
        "dog": logits[dogs[0], 2],
        2: logits[dogs[0], 2],
        np.int64(2): logits[dogs[0], 2],
    }
    for target, score in wanted.items():
        exp = whence.explain(detector(), PICTURE, target=target)
        assert exp.target_score == pytest.approx(float(score), abs=1e-5)
    assert whence.explain(detector(), PICTURE, target="Dog").target.startswith("dog at (")


def test_padding_of_a_picture_is_no_part_of_its_boxes():
    """A processor that fills pictures up says so, and the model hears it."""
    processor = hf.DetrImageProcessorPil(size={"height": 64, "width": 64}, pad_size={"height": 96, "width": 128})
    exp = whence.explain(whence.load((made(detr), processor)), PICTURE)
    encoded = processor(PICTURE, return_tensors="pt")
    assert not bool(encoded["pixel_mask"].all())
    with torch.no_grad():
        outputs = made(detr)(**encoded)
    assert exp.target_score == pytest.approx(float(softmax_box(outputs)), abs=1e-5)
    assert exp.box.right <= 64
    assert exp.box.bottom <= 64
    alone = {"pixel_values": encoded["pixel_values"][0], "pixel_mask": encoded["pixel_mask"][0]}
    assert whence.explain(made(detr), alone).target_score == pytest.approx(exp.target_score, abs=1e-5)


def test_a_box_is_followed_to_its_place_where_the_model_numbers_boxes_anew():
    """RT-DETR's queries are its best places, in order: in another picture number 3 is another place. DETR's are not."""
    pixels = inputs_of(KINDS[4], 1)["pixel_values"]
    for build, follows in ((rt_detr, True), (detr, False)):
        model = whence.load(made(build))
        (example,), _ = model.encode(pixels[0])
        batch = model.collate([example])
        with torch.no_grad():
            outputs = model.run(batch)
        terms, _ = whence.box(1).terms(model.view(outputs, batch, 0))
        before = float(model.sum_of_terms(outputs, batch, [terms]))
        query, index = terms[0].place
        assert before == float(outputs.logits[0, query, index])
        for name in ("logits", "pred_boxes"):
            outputs[name] = outputs[name].roll(1, 1)
        after = float(model.sum_of_terms(outputs, batch, [terms]))
        assert after == (before if follows else float(outputs.logits[0, query, index]))
        assert before != float(outputs.logits[0, query, index])


def test_overlap_is_intersection_over_union():
    boxes = torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.7, 0.5, 0.4, 0.4], [0.1, 0.1, 0.1, 0.1]])
    found = overlap(boxes, (0.5, 0.5, 0.4, 0.4)).tolist()
    assert found == pytest.approx([1.0, 0.2 * 0.4 / (2 * 0.16 - 0.08), 0.0])


def test_the_box_survives_a_file_and_is_drawn(tmp_path):
    exp = whence.explain(detector(), PICTURE)
    for name in ("x.json", "x.npz"):
        assert whence.Explanation.load(exp.save(tmp_path / name)).box == exp.box
    with_box = exp.save(tmp_path / "x.svg").read_text()
    other = whence.explain(
        whence.load((small.vit(), hf.ViTImageProcessorPil(size={"height": 16, "width": 16}))), PICTURE
    )
    assert other.box is None
    drawn = [text.count('fill="#ffffff"') for text in (with_box, other.save(tmp_path / "y.svg").read_text())]
    assert drawn == [2, 0]  # over the picture, and over its heat


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (whence.box(6), "there is no box 6: the model gives 6, 0 to 5"),
        (whence.box("horse"), "horse"),
        (whence.region("cat"), "Pass whence.box"),
        (9, "class 9 does not exist: the model has 4, 0 to 3"),
        (whence.token(1), "this model labels none"),
    ],
)
def test_targets_that_a_detector_can_not_have(target, says):
    with pytest.raises(WhenceError, match=says):
        whence.explain(detector(), PICTURE, target=target)


def test_what_box_and_region_refuse():
    for wrong in (-1, 1.5, True):
        with pytest.raises(InputError, match="which of the boxes"):
            whence.box(wrong)
    with pytest.raises(InputError, match="two labels"):
        whence.box("cat", "dog")
    with pytest.raises(InputError, match="two regions"):
        whence.region("cat", mask=np.ones((2, 2)), box=(0, 0, 1, 1))
    with pytest.raises(InputError, match="true nowhere"):
        whence.region("cat", mask=np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"array \(row, column\)"):
        whence.region("cat", mask=np.ones((2, 2, 3)))
    with pytest.raises(InputError, match="holds no pixel"):
        whence.region(box=(5, 5, 5, 9))
    with pytest.raises(InputError, match=r"\(left, top, right, bottom\)"):
        whence.region(box=(1, 2))
    for target in (whence.box("LABEL_1"), whence.region("LABEL_1")):
        with pytest.raises(InputError, match="Pass a class or a label"):
            whence.explain(small.vit(), torch.randn(3, 16, 16), target=target)


def test_a_detector_that_reads_text_says_so():
    config = hf.OwlViTConfig(
        text_config={**VIT, "vocab_size": 50, "max_position_embeddings": 8, "projection_dim": 16} | {"patch_size": 0},
        vision_config={**VIT, "image_size": 32, "projection_dim": 16},
        projection_dim=16,
    )
    with pytest.raises(ModelError, match="looks for what a text says"):
        whence.load(hf.OwlViTForObjectDetection(config).eval())


def test_a_detector_without_boxes_says_so():
    class OddForObjectDetection(torch.nn.Module):
        def forward(self, pixel_values):
            return {"maps": pixel_values.mean(1)}

    with pytest.raises(ModelError, match=r"an object-detection model gives logits and pred_boxes.* gives maps"):
        whence.explain(OddForObjectDetection().eval(), torch.randn(3, 16, 16))


# -- regions -----------------------------------------------------------------------------------------------------------


@lru_cache
def labeller() -> Any:
    return whence.load((made(segformer), hf.SegformerImageProcessorPil(size={"height": 64, "width": 96})))


def grid_of_logits() -> torch.Tensor:
    with torch.no_grad():
        return labeller().module(**labeller().processor(PICTURE, return_tensors="pt")).logits[0]


def test_a_region_is_the_mean_over_its_pixels():
    logits = grid_of_logits()
    assert logits.shape == (4, 16, 24)
    best = logits.argmax(0)
    for index in best.unique().tolist():
        exp = whence.explain(labeller(), PICTURE, target=LABELS["id2label"][index])
        assert exp.target_score == pytest.approx(float(logits[index][best == index].mean()), abs=1e-5)
        share = float((best == index).float().mean())
        assert exp.target == f"{LABELS['id2label'][index]} over {100 * share:.0f}\xa0% of the picture"
    box = whence.explain(labeller(), PICTURE, target=whence.region("dog", box=(8, 16, 40, 64)))
    assert box.target_score == pytest.approx(float(logits[2, 4:16, 2:10].mean()), abs=1e-5)
    assert box.target == "dog in (8, 16)–(40, 64)"
    mask = np.zeros((64, 96))
    mask[16:64, 8:40] = 1
    masked = whence.explain(labeller(), PICTURE, target=whence.region(2, mask=mask))
    np.testing.assert_array_equal(masked.scores, box.scores)
    assert masked.target == "dog in 25\xa0% of the picture"
    pixel = whence.explain(labeller(), PICTURE, target=whence.region("dog", box=(9, 17, 10, 18)))  # between the grid's
    assert pixel.target_score == pytest.approx(float(logits[2, 4, 2]), abs=1e-5)


def test_the_region_stays_where_it_was_when_pixels_are_taken_away():
    exp = whence.explain(labeller(), PICTURE, "occlusion", fill="zero")
    (example,), _ = labeller().encode(PICTURE)
    keep = np.ones(example.count, dtype=bool)
    keep[5] = False
    with torch.no_grad():
        after = labeller().module(labeller().masked(example, keep, "zero").inputs["pixel_values"][None]).logits[0]
    logits = grid_of_logits()
    best = logits.argmax(0)
    index = next(i for i in LABELS["id2label"] if exp.target.startswith(LABELS["id2label"][i]))
    drop = float(logits[index][best == index].mean() - after[index][best == index].mean())
    assert exp.scores.reshape(-1)[5] == pytest.approx(drop, abs=1e-5)


def test_background_is_explained_only_where_there_is_nothing_else():
    module = made(segformer)
    pixels = inputs_of(KINDS[5], 1)["pixel_values"]
    names = dict(LABELS["id2label"])
    with torch.no_grad():
        best = module(pixel_values=pixels).logits[0].argmax(0)
    most = int(best.flatten().mode().values)
    assert len(best.unique()) > 1
    renamed = tuple("background" if i == most else f"thing {i}" for i in names)
    assert whence.explain(whence.load(module, labels=renamed), pixels[0]).target.startswith("thing")
    plain = tuple(f"thing {i}" for i in names)
    assert whence.explain(whence.load(module, labels=plain), pixels[0]).target.startswith(f"thing {most} over")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (whence.region("dog", box=(0, 0, 200, 10)), "does not lie in the picture, which is 96 wide and 64 high"),
        (whence.region("dog", mask=np.ones((40, 48))), "the mask has 40×48 pixels, and the picture .* 64×96"),
        (whence.region("horse"), "horse"),
        (whence.box("dog"), "whence.region"),
        (7, "class 7 does not exist"),
    ],
)
def test_targets_that_a_labeller_can_not_have(target, says):
    with pytest.raises(WhenceError, match=says):
        whence.explain(labeller(), PICTURE, target=target)


def test_a_label_that_no_pixel_has():
    missing = set(range(4)) - set(grid_of_logits().argmax(0).unique().tolist())
    module = made(segformer)
    if missing:
        model, index = labeller(), missing.pop()
    else:  # a bias that shuts one class out
        module = copy.deepcopy(module)
        with torch.no_grad():
            module.decode_head.classifier.bias[3] -= 100
        model, index = whence.load((module, labeller().processor)), 3
    with pytest.raises(InputError, match=r"for no pixel of this picture \(it sees: .*box=\(left, top"):
        whence.explain(model, PICTURE, target=index)


def test_things_with_masks_by_label_and_by_place():
    pixels = inputs_of(KINDS[7], 1)["pixel_values"]
    model = whence.load(made(mask2former))
    with torch.no_grad():
        outputs = model.module(pixel_values=pixels)
    logits, masks = outputs.class_queries_logits[0], outputs.masks_queries_logits[0] > 0
    shares = logits.softmax(-1)[:, :-1]
    query = int(shares[:, 2].argmax())
    for target in ("dog", whence.region("dog"), whence.box("dog")):
        exp = whence.explain(model, pixels[0], target=target)
        assert exp.target_score == pytest.approx(float(logits[query, 2]), abs=1e-5)
        assert exp.target == f"dog, {100 * float(masks[query].float().mean()):.0f}\xa0% of the picture"
    inside = torch.zeros(masks.shape[-2:], dtype=torch.bool)
    inside[: masks.shape[-2] // 2, : masks.shape[-1] // 2] = True
    fits = shares[:, 2] * (masks & inside).sum((1, 2)) / (masks | inside).sum((1, 2))
    there = whence.explain(model, pixels[0], target=whence.region("dog", box=(0, 0, 32, 32)))
    assert there.target_score == pytest.approx(float(logits[int(fits.argmax()), 2]), abs=1e-5)


def test_a_model_that_is_told_its_task_in_words():
    model = whence.load((made(oneformer), hf.OneFormerImageProcessorPil()))
    with pytest.raises(InputError, match=r"its whole processor.*task_inputs"):
        whence.explain(model, PICTURE)
    reader = hf.OneFormerImageProcessorPil(size={"height": 64, "width": 64}, repo_path=None, class_info_file=None)
    processor = hf.OneFormerProcessor(reader, small.wordpiece(), max_seq_length=7, task_seq_length=7)
    exp = whence.explain(whence.load((made(oneformer), processor)), PICTURE)
    encoded = processor(images=PICTURE, task_inputs=["semantic"], return_tensors="pt")
    with torch.no_grad():
        outputs = made(oneformer)(encoded["pixel_values"], encoded["task_inputs"])
    assert exp.target_score == pytest.approx(float(surest_mask(outputs)), abs=1e-5)


# -- depth -------------------------------------------------------------------------------------------------------------


def test_depth_over_a_region():
    model, pixels = whence.load(made(glpn)), inputs_of(KINDS[11], 1)["pixel_values"]
    with torch.no_grad():
        depth = model.module(pixel_values=pixels).predicted_depth[0]
    exp = whence.explain(model, pixels[0], target=whence.region(box=(8, 0, 40, 16)))
    assert exp.target_score == pytest.approx(float(depth[0:16, 8:40].mean()), abs=1e-4)
    assert exp.target == "mean depth in (8, 0)–(40, 16)"
    assert exp.prediction.labels == ("mean depth",)
    assert exp.prediction.scores[0] == pytest.approx(float(depth.mean()), abs=1e-4)
    assert model.labels == ()
    for wrong in ("cat", 3, whence.region("cat")):
        with pytest.raises(InputError, match=r"a depth model knows no .*whence.region"):
            whence.explain(model, pixels[0], target=wrong)
    with pytest.raises(InputError, match="leave labels= out"):
        whence.load(made(glpn), labels=["near", "far"])


# -- features ----------------------------------------------------------------------------------------------------------


def test_features_ask_what_to_explain():
    model = whence.load((made(vit_model), hf.ViTImageProcessorPil(size={"height": 32, "width": 32})))
    assert repr(model).startswith("<ViTModel for image-feature-extraction: reads images;")
    exp = whence.explain(model, PICTURE, target=lambda outputs: outputs.last_hidden_state[:, 0, 5])
    with torch.no_grad():
        outputs = model.module(**model.processor(PICTURE, return_tensors="pt"))
    assert exp.target_score == pytest.approx(float(outputs.last_hidden_state[0, 0, 5]), abs=1e-5)
    for target in (None, 3, "cat"):
        with pytest.raises(InputError, match=r"target=lambda outputs: outputs.pooler_output\[:, 3\]"):
            whence.explain(model, PICTURE, target=target)
    with pytest.raises(ModelError, match="task="):  # one of films, of which nothing says what to make
        whence.load((hf.VideoMAEModel(hf.VideoMAEConfig(**FILM)).eval(), watcher().processor))


# -- what goes in, and what methods do with it -------------------------------------------------------------------------


def test_pictures_of_every_kind(tmp_path):
    """Grey, with a transparent layer, of another size, a file, its bytes."""
    grey = Image.fromarray(PICTURE[..., 0])
    clear = Image.fromarray(PICTURE).convert("RGBA")
    file = io.BytesIO()
    Image.fromarray(PICTURE).save(file, "png")
    (tmp_path / "x.png").write_bytes(file.getvalue())
    for model in (detector(), labeller()):
        wanted = whence.explain(model, PICTURE)
        for same in (clear, tmp_path / "x.png", str(tmp_path / "x.png"), file.getvalue(), torch.from_numpy(PICTURE)):
            np.testing.assert_array_equal(whence.explain(model, same).scores, wanted.scores)
        np.testing.assert_array_equal(
            whence.explain(model, grey).scores, whence.explain(model, np.repeat(PICTURE[..., :1], 3, -1)).scores
        )
        assert whence.explain(model, PICTURE[:20, :20]).scores.shape == wanted.scores.shape
        both = whence.explain(model, [PICTURE, grey])
        np.testing.assert_allclose(both[0].scores, wanted.scores, atol=1e-5)


def test_pipelines_of_transformers():
    found = {
        "object-detection": (made(yolos), hf.YolosImageProcessorPil()),
        "image-segmentation": (made(segformer), hf.SegformerImageProcessorPil()),
        "depth-estimation": (made(dpt), hf.DPTImageProcessorPil()),
        "image-feature-extraction": (made(vit_model), hf.ViTImageProcessorPil()),
    }
    for task, (module, processor) in found.items():
        model = whence.load(hf.pipeline(task, model=module, image_processor=processor))
        assert model.task == task
        assert model.processor is processor


@pytest.mark.parametrize("method", ["rollout", "gae", "attention_last", "transformer_attribution"])
def test_attention_among_patches_alone_is_shown(method):
    """YOLOS puts tokens for its boxes behind the patches: these are no patches."""
    pixels = inputs_of(KINDS[2], 1)["pixel_values"]
    exp = whence.explain(made(yolos), pixels[0], method)
    assert exp.scores.shape == (4, 4)
    if method == "attention_last":
        with torch.no_grad():
            eager = hf.YolosForObjectDetection._from_config(made(yolos).config, attn_implementation="eager").eval()
            eager.load_state_dict(made(yolos).state_dict())
            outputs = eager(pixel_values=pixels, output_attentions=True)
        query = int(outputs.logits[0].softmax(-1)[:, :-1].max(-1).values.argmax())
        row = outputs.attentions[-1][0].mean(0)[1 + 16 + query, 1 : 1 + 16]
        np.testing.assert_allclose(exp.scores.reshape(-1), row.numpy(), atol=1e-5)
    for build in (detr, rt_detr, segformer, mask2former, timesformer):
        kind = next(k for k in KINDS if k.build is build)
        with pytest.raises(ModelError, match="method='lrp'"):
            whence.explain(made(build), inputs_of(kind, 1), method)
    with pytest.raises(ModelError, match="can't be matched"):  # squares of another size than the model's patches
        whence.explain(whence.load(small.vit(), cell=8), torch.randn(3, 16, 16), method)


@pytest.mark.parametrize("build", [yolos, segformer, dpt, videomae], ids=lambda build: build.__name__)
@pytest.mark.parametrize("method", ["gi", "attn_lrp", "integrated_gradients", "saliency", "smooth_grad", "random"])
def test_other_methods_explain_the_same_target(build, method):
    kind = next(k for k in KINDS if k.build is build)
    inputs = inputs_of(kind, 1)
    exp, wanted = whence.explain(made(build), inputs, method), whence.explain(made(build), inputs)
    assert exp.target == wanted.target
    assert exp.target_score == pytest.approx(wanted.target_score, abs=1e-5)
    assert exp.scores.shape == wanted.scores.shape


def test_classes_of_a_picture_that_has_none():
    for model in (detector(), labeller()):
        with pytest.raises(InputError, match="gives no classes of an input"):
            whence.classes(model, PICTURE)
