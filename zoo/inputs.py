"""Two random examples for any model: what its main input is called and what its `forward` takes say what they are.

A task's models do not agree on the shape of a sound or a picture, so each task has several makers; the first whose
inputs a model takes is the one that made its specimen.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Set
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from zoo.configs import FIRST_PLAIN_TOKEN, SEQUENCE_LENGTH, VOCAB, walk

__all__ = ["Inputs", "Maker", "makers", "random_tokens"]

Inputs = dict[str, Tensor]
"""Arguments of a model, the examples first."""
Maker = Callable[[nn.Module, torch.Generator], tuple[Inputs, frozenset[str]]]
"""A model to two examples, and the names of those arguments which the model takes with its examples end to end."""

TEXT_TASKS = frozenset({
    "sequence-classification", "token-classification", "question-answering", "next-sentence-prediction", "masked-lm",
    "causal-lm", "seq2seq-lm", "document-question-answering",
})  # fmt: skip
AUDIO_TASKS = frozenset({"audio-classification", "audio-frame-classification", "ctc", "speech-seq2seq"})
PICTURE_AND_TEXT_TASKS = frozenset({
    "zero-shot-image-classification", "zero-shot-object-detection", "visual-question-answering", "image-text-to-text",
})  # fmt: skip


def makers(task: str, model: nn.Module) -> Iterator[Maker]:
    """Ways to make inputs for a model, the likeliest first."""
    special = SPECIAL.get(model.config.model_type)
    if special and task not in ("causal-lm", "sequence-classification", "token-classification"):
        yield special
    if task in TEXT_TASKS or (task == "image-classification" and main_of(model) == "input_ids"):  # ImageGPT
        yield partial(text, task=task)
    elif task == "multiple-choice":
        yield choices
    elif task in AUDIO_TASKS:
        yield from (partial(sound, task=task, shape=shape) for shape in sound_shapes(model))
    elif task in PICTURE_AND_TEXT_TASKS:
        shapes = picture_shapes(model) if "pixel_values" in accepted_by(model) else video_shapes(model)
        shapes += [(tiles, *shape) for shape in shapes[:1] for tiles in (1, 2)]
        shapes += [(16, shapes[0][0] * patch_of(model) ** 2)]  # patches in a line
        yield from (partial(picture_and_text, shape=shape, leaves_out=o) for o in LEFT_OUT for shape in shapes)
    elif task == "video-classification":
        yield from (partial(picture, shape=shape) for shape in video_shapes(model))
    elif task.startswith("time-series"):
        yield series
    else:
        yield from (partial(picture, shape=shape) for shape in (*picture_shapes(model), *video_shapes(model)[:1]))


def accepted_by(model: nn.Module) -> Any:
    return inspect.signature(model.forward).parameters


def main_of(model: nn.Module) -> str:
    name = model.main_input_name
    name = name if isinstance(name, str) else name[0]
    return name if name in accepted_by(model) else "input_ids"


def setting(model: nn.Module, *names: str) -> Any:
    """The first of the settings that a configuration or a part of it has."""
    parts = list(walk(model.config))
    return next((v for n in names for part in parts if (v := getattr(part, n, None))), None)


def patch_of(model: nn.Module) -> int:
    """The side of a patch in pixels."""
    size = setting(model, "patch_size") or 8
    return size if isinstance(size, int) else size[0]


# -- text ----------------------------------------------------------------------------------------------------------


def random_tokens(generator: torch.Generator) -> Tensor:
    """Token ids of two sentences that end with the end-of-sequence token (some classifiers pool there)."""
    ids = torch.randint(FIRST_PLAIN_TOKEN, VOCAB, (2, SEQUENCE_LENGTH), generator=generator)
    ids[:, -1] = 2
    return ids


def text(model: nn.Module, generator: torch.Generator, task: str = "") -> tuple[Inputs, frozenset[str]]:
    """Token ids and what goes with them."""
    accepted, main = accepted_by(model), main_of(model)
    main = "input_ids" if "pixel" in main else main
    inputs = {main: random_tokens(generator)}
    if "attention_mask" in accepted:
        inputs["attention_mask"] = torch.ones_like(inputs[main])
    if task == "seq2seq-lm" and "decoder_input_ids" in accepted:
        inputs["decoder_input_ids"] = random_tokens(generator)
    if "bbox" in accepted:
        corners = torch.randint(0, 60, (2, SEQUENCE_LENGTH, 2), generator=generator)
        inputs["bbox"] = torch.cat([corners, corners + 20], dim=-1)
    if "global_attention_mask" in accepted and task in ("question-answering", ""):
        inputs["global_attention_mask"] = (torch.arange(SEQUENCE_LENGTH) == 0).long().repeat(2, 1)
    return inputs, frozenset()


def choices(model: nn.Module, generator: torch.Generator) -> tuple[Inputs, frozenset[str]]:
    """Two texts for each example."""
    pairs = [text(model, generator)[0] for _ in range(2)]
    return {name: torch.stack([pair[name] for pair in pairs], 1) for name in pairs[0]}, frozenset()


# -- pictures ------------------------------------------------------------------------------------------------------


def picture_shapes(model: nn.Module) -> list[tuple[int, ...]]:
    """(channels, height, width): the size the configuration says, then others."""
    size = setting(model, "image_size") or 32
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    channels = setting(model, "num_channels", "in_channels", "in_chans") or 3
    channels = channels if isinstance(channels, int) else 3
    squares = dict.fromkeys([(height, width), (32, 32), (64, 64), (128, 128)])
    return [(channels, *square) for square in squares]


def video_shapes(model: nn.Module) -> list[tuple[int, ...]]:
    frames = setting(model, "num_frames", "frames_per_clip") or 2
    return [(frames, *shape) for shape in picture_shapes(model)]


def picture(model: nn.Module, generator: torch.Generator, shape: tuple[int, ...]) -> tuple[Inputs, frozenset[str]]:
    """Two pictures, or films."""
    inputs = {main_of(model): torch.randn(2, *shape, generator=generator)}
    if "prompt_depth" in accepted_by(model):
        inputs["prompt_depth"] = torch.rand(2, 1, *shape[-2:], generator=generator)
    if "task_inputs" in accepted_by(model):
        inputs["task_inputs"] = torch.randint(1, VOCAB, (2, model.config.task_seq_len), generator=generator).float()
    return inputs, frozenset()


# -- pictures with text --------------------------------------------------------------------------------------------


def picture_and_text(
    model: nn.Module, generator: torch.Generator, shape: tuple[int, ...], leaves_out: str = ""
) -> tuple[Inputs, frozenset[str]]:
    """A picture for each text; where a model wants tokens that hold the place of a picture, these too."""
    accepted = set(accepted_by(model)) - {leaves_out}
    pictures, flat = random_pictures(model, accepted, generator, shape)
    inputs: Inputs = {}
    if "input_ids" in accepted:
        ids = random_tokens(generator)
        token = next((t for n in PLACEHOLDERS if isinstance(t := getattr(model.config, n, None), int)), None)
        places = held_places(model, pictures, flat) if token is not None else 0
        ids = torch.cat([ids[:, :2], torch.full((2, places), token or 0), ids[:, 2:]], 1)
        inputs |= {"input_ids": ids}
        if "attention_mask" in accepted:
            inputs["attention_mask"] = torch.ones_like(ids)
        if "qformer_input_ids" in accepted:
            inputs["qformer_input_ids"] = random_tokens(generator)
        if "bbox" in accepted:
            inputs["bbox"] = torch.rand(2, ids.shape[1], 4, generator=generator)
        for name in ("token_type_ids", "mm_token_type_ids"):
            if name in accepted and places:
                inputs[name] = (ids == token).long()
    if "decoder_input_ids" in accepted:
        inputs["decoder_input_ids"] = random_tokens(generator)
    return inputs | pictures, flat


PLACEHOLDERS = ("image_token_id", "image_token_index", "video_token_id", "video_token_index")
LEFT_OUT = ("", "image_sizes")
"""What a model may take and, with the parts it has, not want."""


def random_pictures(
    model: nn.Module, accepted: Set[str], generator: torch.Generator, shape: tuple[int, ...]
) -> tuple[Inputs, frozenset[str]]:
    """Pixels as the model takes them: pictures, or patches in a line with the size of their grid."""
    name = next((n for n in ("pixel_values", "pixel_values_videos") if n in accepted), "pixel_values")
    grid = next((n for n in ("image_grid_thw", "image_grid_hw") if n in accepted), None)
    if grid is not None:
        patch, frames = patch_of(model), setting(model, "temporal_patch_size", "patch_temporal") or 1
        side = 2 * (setting(model, "spatial_merge_size", "merge_size") or 2)
        square = (shape[1], patch, patch) if len(shape) > 3 else (shape[0] * frames * patch * patch,)
        inputs = {name: torch.randn(2, side * side, *square, generator=generator)}
        inputs[grid] = torch.tensor([[[1, side, side][-len(grid.rpartition("_")[2]) :]]]).repeat(2, 1, 1)
        if "image_merge_sizes" in accepted:
            inputs["image_merge_sizes"] = torch.full((2, 1), side // 2)
        return inputs, frozenset(inputs)
    inputs = {name: torch.randn(2, *shape, generator=generator)}
    if "high_res_pixel_values" in accepted:
        inputs["high_res_pixel_values"] = torch.randn(2, *shape, generator=generator)
    if "image_sizes" in accepted:
        inputs["image_sizes"] = torch.tensor([shape[-2:]] * 2)
    if {"spatial_shapes", "pixel_attention_mask"} <= accepted:
        side = round(shape[0] ** 0.5)
        inputs["spatial_shapes"] = torch.full((2, 2), side)
        inputs["pixel_attention_mask"] = torch.ones(2, shape[0], dtype=torch.long)
    if "target_sizes" in accepted:
        inputs["target_sizes"] = torch.tensor([shape[-2:]] * 2) // patch_of(model)
    return inputs, frozenset()


def held_places(model: nn.Module, pictures: Inputs, flat: frozenset[str]) -> int:
    """How many tokens hold the place of one picture: as many as the model makes of it."""
    towers = [
        getattr(holder, name, None)
        for name in ("get_image_features", "get_video_features")
        for holder in (model, getattr(model, "model", None))
    ]
    features = next(filter(None, towers), None)
    if features is None:  # it looks at pictures across, or before the text
        return 0
    wanted = inspect.signature(features).parameters
    passed_on = {"pixel_values", "image_merge_sizes", "target_sizes", "high_res_pixel_values"}
    one = {k: v[0] if k in flat else v[:1] for k, v in pictures.items() if k in wanted or k in passed_on}
    if "qformer_input_ids" in wanted:
        one["qformer_input_ids"] = torch.full((1, SEQUENCE_LENGTH), FIRST_PLAIN_TOKEN)
    with torch.no_grad():
        return counted(features(**one))


def counted(found: Any) -> int:
    """How many tokens a tower made of one picture, or sound."""
    if not isinstance(found, (Tensor, tuple, list)):
        found = found.last_hidden_state if found.pooler_output is None else found.pooler_output
    pieces = found if isinstance(found, (tuple, list)) else [found]
    return sum(piece.reshape(-1, piece.shape[-1]).shape[0] for piece in pieces)


# -- sounds --------------------------------------------------------------------------------------------------------


WINDOWS = ("max_source_positions", "n_window")
"""Settings that are half of the frames a model wants."""


def sound_shapes(model: nn.Module) -> list[tuple[int, ...]]:
    """Samples, or frames of a spectrogram in one order or the other."""
    if main_of(model) == "input_values" and not setting(model, "max_length", "num_mel_bins"):
        return [(1600,), (1, 1600)]
    names = ("num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel", "input_feat_size", "input_dim")
    bins = setting(model, *names) or 16
    lengths = (setting(model, "max_length"), 24, *(2 * (setting(model, n) or 0) for n in WINDOWS))
    shapes = [
        shape for n in lengths if n for shape in ((n, bins), (bins, n), (n, 4 * bins), (n, 7 * bins), (7 * bins, n))
    ]
    return [*shapes, (24, setting(model, "d_model") or 32), (1600,), (1, 1600)]


def sound(
    model: nn.Module, generator: torch.Generator, task: str, shape: tuple[int, ...]
) -> tuple[Inputs, frozenset[str]]:
    """Two sounds; where the model writes, what it has written so far."""
    accepted = accepted_by(model)
    name = next(n for n in ("input_features", "input_values", main_of(model)) if n in accepted)
    inputs = {name: torch.randn(2, *shape, generator=generator)}
    if task != "speech-seq2seq":
        return inputs, frozenset()
    token = getattr(model.config, "audio_token_id", None) or getattr(model.config, "audio_token_index", None)
    if "decoder_input_ids" in accepted:
        return inputs | {"decoder_input_ids": random_tokens(generator)}, frozenset()
    ids = random_tokens(generator)
    if token is not None:
        features = getattr(model, "get_audio_features", None) or model.model.get_audio_features
        for mask in ("input_features_mask", "padding_mask"):
            if mask in inspect.signature(features).parameters:
                frames = shape[0] if len(shape) == 2 and shape[0] == 24 else shape[-1]
                inputs[mask] = torch.ones(2, frames, dtype=torch.bool)
        with torch.no_grad():
            places = counted(features(**{k: v[:1] for k, v in inputs.items()}))
        ids = torch.cat([ids[:, :2], torch.full((2, places), token), ids[:, 2:]], 1)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)} | inputs, frozenset()


# -- series --------------------------------------------------------------------------------------------------------


def series(model: nn.Module, generator: torch.Generator) -> tuple[Inputs, frozenset[str]]:
    """Two series of several channels."""
    channels = getattr(model.config, "num_input_channels", None)
    shape = (model.config.context_length, *([channels] if channels else []))
    return {main_of(model): torch.randn(2, *shape, generator=generator)}, frozenset()


# -- families whose inputs are like no others' -----------------------------------------------------------------------


def siglip2_inputs(model: nn.Module, generator: torch.Generator) -> tuple[Inputs, frozenset[str]]:
    """Images as sequences of flat patches."""
    config = model.config.vision_config
    patches = torch.randn(2, config.num_patches, config.num_channels * config.patch_size**2, generator=generator)
    side = round(config.num_patches**0.5)
    inputs = {
        "pixel_values": patches,
        "pixel_attention_mask": torch.ones(2, config.num_patches, dtype=torch.long),
        "spatial_shapes": torch.full((2, 2), side),
    }
    return inputs | ({"input_ids": random_tokens(generator)} if "input_ids" in accepted_by(model) else {}), frozenset()


def shieldgemma2_inputs(model: nn.Module, generator: torch.Generator) -> tuple[Inputs, frozenset[str]]:
    """An image, and a prompt that begins with the places of the image's tokens."""
    ids = random_tokens(generator)
    image_places = torch.arange(SEQUENCE_LENGTH) < model.config.mm_tokens_per_image
    ids[:, image_places] = model.config.image_token_index
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": image_places.long().repeat(2, 1),
        "pixel_values": torch.randn(2, *picture_shapes(model)[0], generator=generator),
    }, frozenset()


def voxtral_realtime_inputs(model: nn.Module, generator: torch.Generator) -> tuple[Inputs, frozenset[str]]:
    """Speech, of which eight frames go with each token."""
    frames = SEQUENCE_LENGTH * model.config.audio_length_per_tok
    inputs, _ = text(model, generator)
    speech = torch.randn(2, model.config.audio_config.num_mel_bins, frames, generator=generator)
    return inputs | {"input_features": speech}, frozenset()


def lxmert_inputs(model: nn.Module, generator: torch.Generator) -> tuple[Inputs, frozenset[str]]:
    """What a detector saw: features of regions, and where they are."""
    inputs, _ = text(model, generator)
    regions = torch.randn(2, 4, model.config.visual_feat_dim, generator=generator)
    return inputs | {"visual_feats": regions, "visual_pos": torch.rand(2, 4, 4, generator=generator)}, frozenset()


def idefics_inputs(model: nn.Module, generator: torch.Generator) -> tuple[Inputs, frozenset[str]]:
    """One picture, which every token may look at."""
    inputs, _ = text(model, generator)
    pixels = torch.randn(2, 1, *picture_shapes(model)[0], generator=generator)
    return inputs | {
        "pixel_values": pixels, "image_attention_mask": torch.ones(2, SEQUENCE_LENGTH, 1, dtype=torch.long)
    }, frozenset()  # fmt: skip


def mllama_inputs(model: nn.Module, generator: torch.Generator) -> tuple[Inputs, frozenset[str]]:
    """One picture of as many tiles as the model takes, which every token may look at."""
    inputs, _ = text(model, generator)
    tiles = model.config.vision_config.max_num_tiles
    return inputs | {
        "pixel_values": torch.randn(2, 1, tiles, *picture_shapes(model)[0], generator=generator),
        "aspect_ratio_ids": torch.ones(2, 1, dtype=torch.long),
        "aspect_ratio_mask": torch.ones(2, 1, tiles, dtype=torch.long),
        "cross_attention_mask": torch.ones(2, SEQUENCE_LENGTH, 1, tiles, dtype=torch.long),
    }, frozenset()


def kosmos2_inputs(model: nn.Module, generator: torch.Generator) -> tuple[Inputs, frozenset[str]]:
    """A picture, and where its tokens stand in the text."""
    inputs, _ = text(model, generator)
    places = (torch.arange(SEQUENCE_LENGTH) > 1) & (torch.arange(SEQUENCE_LENGTH) < 2 + model.config.latent_query_num)
    pixels = torch.randn(2, *picture_shapes(model)[0], generator=generator)
    return inputs | {"pixel_values": pixels, "image_embeds_position_mask": places.long().repeat(2, 1)}, frozenset()


def numbered_patches(model: nn.Module, generator: torch.Generator) -> tuple[Inputs, frozenset[str]]:
    """Patches in a line, each behind its row and column."""
    config = model.config.vision_config
    size = getattr(config, "patch_embed_hidden_size", None) or config.num_channels * config.patch_size**2
    places = torch.cartesian_prod(torch.arange(1.0, 5), torch.arange(1.0, 5)).repeat(2, 1, 1)
    patches = torch.cat([places, torch.randn(2, 16, size, generator=generator)], -1)
    inputs = {"flattened_patches": patches}
    if "decoder_input_ids" in accepted_by(model):
        return inputs | {"decoder_input_ids": random_tokens(generator)}, frozenset()
    text_inputs, _ = text(model, generator)
    mask = torch.arange(SEQUENCE_LENGTH) < model.config.latent_query_num
    return text_inputs | inputs | {"image_embeds_position_mask": mask.long().repeat(2, 1)}, frozenset()


SPECIAL: dict[str, Maker] = {
    "idefics": idefics_inputs,
    "kosmos-2": kosmos2_inputs,
    "kosmos-2.5": numbered_patches,
    "mllama": mllama_inputs,
    "pix2struct": numbered_patches,
    "lxmert": lxmert_inputs,
    "shieldgemma2": shieldgemma2_inputs,
    "siglip2": siglip2_inputs,
    "voxtral_realtime": voxtral_realtime_inputs,
}
