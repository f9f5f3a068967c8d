"""Image inputs of every kind."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import whence
from tests import small
from whence.errors import InputError


def _seven() -> np.ndarray:
    """A seven, drawn by hand."""
    picture = np.zeros((28, 28), np.uint8)
    picture[5:8, 6:21] = 255
    for step in range(16):
        picture[7 + step, 18 - step // 2 : 21 - step // 2] = 255
    return picture


def test_path_pil_and_array_agree(digits, tmp_path):
    array = _seven()
    Image.fromarray(array).save(tmp_path / "seven.png")
    results = [
        whence.explain(digits, x)
        for x in (array, Image.fromarray(array), tmp_path / "seven.png", str(tmp_path / "seven.png"))
    ]
    for exp in results:
        assert exp.prediction.label == "7"
        np.testing.assert_array_equal(exp.scores, results[0].scores)
    assert results[0].scores.shape == (7, 7)
    assert results[0].image.shape == (28, 28, 3)
    assert results[0].conservation.error == pytest.approx(0, abs=1e-4)


def test_tensors_are_taken_as_they_are():
    pixels = torch.randn(2, 3, 16, 16)
    one = whence.explain(small.vit(), pixels[0])
    many = whence.explain(small.vit(), pixels)
    named = whence.explain(small.vit(), {"pixel_values": pixels})
    np.testing.assert_allclose(many[0].scores, one.scores, atol=1e-5)
    np.testing.assert_allclose(named[1].scores, many[1].scores, atol=1e-6)
    assert one.scores.shape == (4, 4)


def test_patch_scores_sum_to_pixel_relevance():
    exp = whence.explain(small.vit(), torch.randn(3, 16, 16))
    assert float(exp.scores.sum()) == pytest.approx(exp.conservation.inputs, abs=1e-5)


def test_gamma_rules_run_and_keep_the_books():
    exp = whence.explain(small.vit(), torch.randn(3, 16, 16), gamma=0.1, conv_gamma=0.25)
    assert exp.conservation.error == pytest.approx(0, abs=1e-4)


def test_bad_images(digits, tmp_path):
    with pytest.raises(InputError, match="no such image"):
        whence.explain(digits, "nowhere.png")
    (tmp_path / "broken.png").write_bytes(b"not a picture")
    with pytest.raises(InputError, match="can't be read as an image"):
        whence.explain(digits, tmp_path / "broken.png")
    with pytest.raises(InputError, match="uint8"):
        whence.explain(digits, np.zeros((28, 28)))
    with pytest.raises(InputError, match="channels, height, width"):
        whence.explain(digits, torch.zeros(28, 28))
    with pytest.raises(InputError, match="processor"):
        whence.explain(small.vit(), Image.new("RGB", (16, 16)))
    with pytest.raises(InputError, match="pass a path"):
        whence.explain(digits, 3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("kind", ["ConvNext", "Swin", "ViT"])
def test_pixels_come_in_the_precision_of_the_model(kind, dtype):
    sizes = {
        "ConvNext": {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]},
        "Swin": {"image_size": 32, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
        "ViT": {"image_size": 32, "patch_size": 8, **small.SIZES},
    }[kind]
    config = getattr(transformers, f"{kind}Config")(num_labels=3, **sizes)
    torch.manual_seed(0)
    module = small.randomised(getattr(transformers, f"{kind}ForImageClassification")(config)).to(dtype)
    pixels = torch.randn(3, 32, 32)
    with torch.no_grad():
        wanted = module(pixel_values=pixels[None].to(dtype)).logits[0, 1]
    exp = whence.explain(module, pixels, target=1)
    assert exp.target_score == pytest.approx(float(wanted), rel=0.05 if dtype == torch.bfloat16 else 1e-6)


def test_what_a_processor_made_is_taken_row_by_row():
    pixels = torch.randn(2, 3, 16, 16)
    made = transformers.BatchFeature({"pixel_values": pixels})
    for exp, one in zip(whence.explain(small.vit(), made), pixels, strict=True):
        np.testing.assert_allclose(exp.scores, whence.explain(small.vit(), one).scores, atol=1e-5)


def test_the_picture_shown_is_what_the_model_saw():
    """A processor that cuts the middle out leaves the sides out of the picture, too."""
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    model = whence.load((small.vit(), processor))
    picture = np.zeros((16, 48, 3), np.uint8)
    picture[:, :16, 0], picture[:, 16:32, 1], picture[:, 32:, 2] = 255, 255, 255
    shown = whence.explain(model, picture).image
    assert shown.shape == (16, 16, 3)
    assert shown[:, 2:14, 1].min() > 200
    assert shown[:, 2:14, [0, 2]].max() < 55


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (np.zeros((2, 8, 8, 3, 1), np.uint8), "several as a list"),
        (np.zeros((5, 8, 8), np.uint8), "height, width"),
        (np.zeros((8, 8, 3), np.float32), "uint8 values from 0 to 255"),
        (torch.zeros(3, 16, 16, dtype=torch.int64), "normalised pixels"),
        (b"no picture at all", "17 bytes can't be read as an image"),
    ],
)
def test_arrays_and_tensors_that_are_no_picture(digits, wrong, says):
    with pytest.raises(InputError, match=says):
        whence.explain(digits, wrong)


def test_a_picture_by_its_name_and_as_tables_keep_it(digits, tmp_path):
    seven = Image.fromarray(_seven())
    seven.save(tmp_path / "seven.png")
    wanted = whence.explain(digits, seven).scores
    data = (tmp_path / "seven.png").read_bytes()
    ways = [{"image": seven}, {"bytes": data, "path": None}, {"bytes": None, "path": str(tmp_path / "seven.png")}]
    for given in (*ways, {"image": ways[1]}):
        np.testing.assert_array_equal(whence.explain(digits, given).scores, wanted)
    assert len(whence.explain(digits, ways)) == 3
    with pytest.raises(InputError, match="'text' is of no use to an image-classification model, which takes images"):
        whence.explain(digits, {"image": seven, "text": "what is it"})


def test_a_text_is_taken_for_a_path(digits):
    with pytest.raises(InputError, match="no such image: 'a seven', which is taken for a path; pass a path, bytes"):
        whence.explain(digits, "a seven")


def test_bytes_layouts_and_whole_numbers(digits):
    """What a file holds, channels first or last, arrays or tensors: one picture."""
    array = _seven()
    file = io.BytesIO()
    Image.fromarray(array).save(file, "png")
    colours = np.repeat(array[..., None], 3, -1)
    given = [
        file.getvalue(),
        colours,
        np.moveaxis(colours, -1, 0),
        torch.from_numpy(colours),
        array[None],
        array[..., None],
    ]
    wanted = whence.explain(digits, array)
    for one in given:
        np.testing.assert_array_equal(whence.explain(digits, one).scores, wanted.scores)
    many = whence.explain(digits, np.stack([colours, colours]))
    assert len(many) == 2
    np.testing.assert_allclose(many[1].scores, wanted.scores, atol=1e-5)


class Convolutions(torch.nn.Module):
    """A model as torchvision has them: one tensor in, one out, no configuration."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Conv2d(3, 4, 7, stride=2, padding=3)
        self.last = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)).mean((2, 3)))


def _transform(image):
    """As torchvision's: a picture in, a normalised tensor out."""
    pixels = torch.from_numpy(np.asarray(image.resize((40, 50)))).permute(2, 0, 1) / 255
    return (pixels - 0.5) / 0.25


_transform.mean, _transform.std = [0.5] * 3, [0.25] * 3


def test_a_module_with_a_transform():
    """What torchvision and timm hand out. Without patches of its own, a model's features are squares."""
    module = Convolutions().eval()
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 70, 3), dtype=np.uint8))
    model = whence.load((module, _transform), labels=["cat", "dog", "bird"])
    exp = whence.explain(model, picture)
    pixels = _transform(picture)
    with torch.no_grad():
        by_hand = module(pixels[None])[0]
    assert exp.target == ["cat", "dog", "bird"][int(by_hand.argmax())]
    assert exp.target_score == pytest.approx(float(by_hand.max()), abs=1e-5)
    assert exp.scores.shape == (12, 10)  # of 50 × 40 pixels, squares of four
    assert exp.conservation.error == pytest.approx(0, abs=1e-5)
    assert np.abs(exp.image.astype(int) - np.asarray(picture.resize((40, 50)))).max() <= 1

    single = whence.explain(whence.load((module, _transform), cell=1), picture)
    assert single.scores.shape == (50, 40)
    rows, columns = np.arange(50) * 12 // 50, np.arange(40) * 10 // 40
    summed = np.zeros((12, 10))
    np.add.at(summed, (rows[:, None], columns[None]), single.scores)
    np.testing.assert_allclose(summed, exp.scores, atol=1e-5)
    occluded = whence.explain(model, picture, "occlusion")
    assert occluded.scores.shape == (12, 10)


def test_a_transform_that_makes_no_tensor():
    model = whence.load((Convolutions().eval(), lambda image: np.asarray(image)))
    with pytest.raises(InputError, match="the transform makes ndarray of a picture"):
        whence.explain(model, _seven())
    with pytest.raises(InputError, match="cell=4 is for models that read images"):
        whence.load("sentiment", cell=4)
