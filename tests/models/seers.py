"""Tiny random models of pictures and films."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import transformers as hf

import whence
from tests import small

LABELS = {"id2label": {0: "background", 1: "cat", 2: "dog", 3: "bird"}}
VIT = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16, "patch_size": 8,
}  # fmt: skip
DETR = {
    "use_timm_backbone": False, "backbone": None, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16,
    "num_queries": 6,
}  # fmt: skip
FILM = {**VIT, "image_size": 16, "patch_size": 4, "num_frames": 4}


def resnet(*stages: int) -> Any:
    out = [f"stage{n}" for n in stages]
    return hf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1] * 4, layer_type="basic", out_features=out
    )


def detr() -> Any:
    return hf.DetrForObjectDetection(hf.DetrConfig(backbone_config=resnet(4), d_model=16, **DETR, **LABELS))


def conditional_detr() -> Any:
    config = hf.ConditionalDetrConfig(backbone_config=resnet(4), d_model=16, **DETR, **LABELS)
    return hf.ConditionalDetrForObjectDetection(config)


def yolos() -> Any:
    return hf.YolosForObjectDetection(hf.YolosConfig(**VIT, image_size=[32, 32], num_detection_tokens=5, **LABELS))


def deformable_detr() -> Any:
    config = hf.DeformableDetrConfig(
        backbone_config=resnet(2, 3, 4), d_model=32, two_stage=True, with_box_refine=True, two_stage_num_proposals=6,
        encoder_n_points=2, decoder_n_points=2, num_feature_levels=3, **DETR, **LABELS,
    )  # fmt: skip
    return hf.DeformableDetrForObjectDetection(config)


def rt_detr() -> Any:
    backbone = hf.RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1] * 4, layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = hf.RTDetrConfig(
        backbone_config=backbone, encoder_hidden_dim=16, encoder_in_channels=[8, 16, 16], encoder_layers=1,
        encoder_ffn_dim=16, encoder_attention_heads=2, d_model=16, num_queries=6, decoder_in_channels=[16] * 3,
        decoder_ffn_dim=16, decoder_layers=2, decoder_attention_heads=2, decoder_n_points=2, num_denoising=0, **LABELS,
    )  # fmt: skip
    return hf.RTDetrForObjectDetection(config)


def segformer() -> Any:
    config = hf.SegformerConfig(
        depths=[1] * 4, hidden_sizes=[8, 8, 16, 16], num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=16, **LABELS
    )
    return hf.SegformerForSemanticSegmentation(config)


def beit() -> Any:
    config = hf.BeitConfig(
        **{**VIT, "num_hidden_layers": 4}, image_size=32, out_indices=[1, 2, 3, 4], use_auxiliary_head=False,
        pool_scales=[1, 2], **LABELS,
    )  # fmt: skip
    return hf.BeitForSemanticSegmentation(config)


SWIN = {
    "image_size": 64, "embed_dim": 8, "depths": [1] * 4, "num_heads": [1, 1, 2, 2], "window_size": 2,
    "out_features": [f"stage{n}" for n in range(1, 5)],
}  # fmt: skip


def mask2former() -> Any:
    config = hf.Mask2FormerConfig(
        backbone_config=hf.SwinConfig(**SWIN), feature_size=32, mask_feature_size=32, hidden_dim=32,
        encoder_feedforward_dim=16, dim_feedforward=16, encoder_layers=1, decoder_layers=2, num_attention_heads=2,
        num_queries=6, **LABELS,
    )  # fmt: skip
    return hf.Mask2FormerForUniversalSegmentation(config)


def maskformer() -> Any:
    decoder = hf.DetrConfig(backbone_config=resnet(4), d_model=32, **DETR)
    config = hf.MaskFormerConfig(
        backbone_config=hf.SwinConfig(**SWIN),
        decoder_config=decoder,
        fpn_feature_size=32,
        mask_feature_size=32,
        **LABELS,
    )
    return hf.MaskFormerForInstanceSegmentation(config)


def oneformer() -> Any:
    config = hf.OneFormerConfig(
        backbone_config=hf.SwinConfig(**SWIN), hidden_dim=32, conv_dim=32, mask_dim=32, text_encoder_width=32,
        text_encoder_num_layers=1, text_encoder_n_ctx=2, text_encoder_context_length=16, text_encoder_vocab_size=100,
        task_seq_len=7, encoder_feedforward_dim=16, dim_feedforward=16, encoder_layers=1, decoder_layers=3,
        num_attention_heads=2, num_queries=6, query_dec_layers=1, **LABELS,
    )  # fmt: skip
    return hf.OneFormerForUniversalSegmentation(config)


def detr_masks() -> Any:
    heads = {"encoder_attention_heads": 8, "decoder_attention_heads": 8}
    config = hf.DetrConfig(backbone_config=resnet(1, 2, 3, 4), d_model=128, **{**DETR, **heads}, **LABELS)
    return hf.DetrForSegmentation(config)


def glpn() -> Any:
    config = hf.GLPNConfig(
        depths=[1] * 4, hidden_sizes=[8, 8, 16, 16], num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=8,
        sr_ratios=[4, 2, 1, 1],
    )  # fmt: skip
    return hf.GLPNForDepthEstimation(config)


def dpt() -> Any:
    config = hf.DPTConfig(
        **{**VIT, "num_hidden_layers": 4}, image_size=32, backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=8,
    )  # fmt: skip
    return hf.DPTForDepthEstimation(config)


def videomae() -> Any:
    return hf.VideoMAEForVideoClassification(hf.VideoMAEConfig(**FILM, tubelet_size=2, **LABELS))


def timesformer() -> Any:
    return hf.TimesformerForVideoClassification(hf.TimesformerConfig(**FILM, **LABELS))


def vivit() -> Any:
    return hf.VivitForVideoClassification(hf.VivitConfig(**FILM, tubelet_size=[2, 4, 4], **LABELS))


def vjepa2() -> Any:
    config = hf.VJEPA2Config(
        patch_size=4, crop_size=16, frames_per_clip=4, tubelet_size=2, hidden_size=24, num_attention_heads=2,
        num_hidden_layers=2, mlp_ratio=2, pred_hidden_size=24, pred_num_attention_heads=2, pred_num_hidden_layers=1,
        pred_num_mask_tokens=2, num_pooler_layers=1, **LABELS,
    )  # fmt: skip
    return hf.VJEPA2ForVideoClassification(config)


def vit_model() -> Any:
    return hf.ViTModel(hf.ViTConfig(**VIT, image_size=32))


def dinov2() -> Any:
    config = hf.Dinov2Config(image_size=32, patch_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2)
    return hf.Dinov2Model(config)


def clip_vision() -> Any:
    return hf.CLIPVisionModel(hf.CLIPVisionConfig(**VIT, image_size=32))


@lru_cache
def made(build: Callable[[], Any]) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = small.randomised(build())
        if build is dpt:  # its last ReLU would cut everything off
            torch.nn.init.constant_(module.head.head[-2].bias, 1.0)
    return module


@lru_cache
def watcher() -> Any:
    sizes = {"size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}
    return whence.load((made(videomae), hf.VideoMAEImageProcessorPil(**sizes)))
