"""Shrink the default configuration of any `transformers` architecture to a tiny one."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

VOCAB = 120
NUM_LABELS = 3
SEQUENCE_LENGTH = 12
FIRST_PLAIN_TOKEN = 30  # smaller ids are kept for special tokens

# Sizes by the name of the field, whatever the family: hidden size 32, 4 heads of 8, 2 key-value heads, 2 layers.
SIZES: dict[str, Any] = {
    name: value
    for value, names in [
        (VOCAB, "vocab_size src_vocab_size tgt_vocab_size decoder_vocab_size entity_vocab_size shape_vocab_size"),
        (VOCAB, "pronunciation_vocab_size vocab_size_per_layer_input t2u_vocab_size char_vocab_size audio_vocab_size"),
        (VOCAB, "unit_hifi_gan_vocab_size num_hash_buckets encoder_hash_byte_group_vocab"),
        (32, "hidden_size d_model n_embd dim emb_dim embed_dim hidden_dim dim_model embedding_size d_latents"),
        (32, "input_embedding_size output_embedding_size attention_hidden_size hidden_size_global"),
        (32, "word_embed_proj_dim pooler_hidden_size pooler_output_size projection_dim projection_size"),
        (32, "out_hidden_size output_dim pronunciation_embed_dim shape_embed_dim entity_emb_size"),
        (32, "prediction_head_size embedding_dim lru_width cross_attention_hidden_size encoder_hidden_size"),
        (32, "decoder_hidden_size audio_hidden_size backbone_hidden_size t2u_variance_predictor_embed_dim"),
        (32, "unit_embed_dim true_hidden_size"),
        (16, "hidden_size_per_layer_input xpath_unit_hidden_size codebook_dim vector_quantization_hidden_dimension"),
        (16, "router_hidden_size downsample_hidden_size lang_embed_dim spkr_embed_dim intra_bottleneck_size"),
        (64, "intermediate_size encoder_ffn_dim decoder_ffn_dim d_ff d_inner ffn_dim n_inner ffn_hidden_size dff"),
        (64, "mlp_dim dim_ff feed_forward_size dense_intermediate_size intermediate_size_mlp block_ff_dim"),
        (64, "speech_encoder_intermediate_size t2u_encoder_ffn_dim t2u_decoder_ffn_dim shared_intermediate_size"),
        (32, "moe_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size"),
        (32, "expert_ffn_hidden_size prompt_mid_dim aspp_out_channels auxiliary_channels output_channels"),
        (32, "ext_pw_out_channel depthwise_separable_out_channel nemo_conv_channels"),
        (2, "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers depth"),
        (2, "num_encoder_layers conf_num_hidden_layers num_blocks num_self_attends_per_block"),
        (2, "speech_encoder_layers t2u_encoder_layers t2u_decoder_layers num_global_layers"),
        (4, "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads"),
        (4, "attention_heads num_encoder_attention_heads num_decoder_attention_heads conf_num_attention_heads"),
        (4, "swa_num_attention_heads num_self_attention_heads num_cross_attention_heads"),
        (4, "speech_encoder_attention_heads index_n_heads t2u_encoder_attention_heads t2u_decoder_attention_heads"),
        (4, "linear_num_value_heads linear_num_heads mamba_n_heads mamba_num_heads"),
        (2, "num_key_value_heads num_kv_heads kv_n_heads swa_num_key_value_heads linear_num_key_heads"),
        (2, "n_mamba_heads"),
        (8, "head_dim d_kv d_head dim_head swa_head_dim kv_channels attention_head_dim attention_head_size"),
        (8, "linear_key_head_dim linear_value_head_dim linear_head_dim index_head_dim v_head_dim qk_head_dim"),
        (4, "qk_rope_head_dim qk_nope_head_dim rotary_dim"),
        (16, "kv_lora_rank q_lora_rank o_lora_rank laurel_rank adapter_rank hc_lowrank gated_norm_rank"),
        (16, "mamba_dt_rank time_step_rank"),
        (8, "mamba_d_state state_size ssm_state_size"),
        (16, "mamba_d_head mamba_head_dim"),
        (64, "mamba_d_ssm"),
        (1, "n_groups mamba_n_groups mamba_ngroups"),
        (4, "num_experts n_routed_experts num_local_experts moe_num_experts"),
        (2, "num_experts_per_tok num_experts_per_token moe_topk moe_top_k moe_k zero_expert_num"),
        (1, "n_group topk_group num_expert_group first_k_dense_replace num_dense_layers"),
        (128, "max_position_embeddings n_positions max_seq_len max_source_positions max_target_positions n_ctx"),
        (128, "codebook_size context_length max_encoder_position_embeddings max_decoder_position_embeddings"),
        (128, "max_pos_emb t2u_max_position_embeddings model_max_length max_2d_position_embeddings"),
        (8, "sliding_window local_attention attention_window window_size sliding_window_size"),
        (8, "attention_window_size attention_chunk_size chunk_size mamba_chunk_size index_topk keep_window_size"),
        (32, "image_size input_size"),
        (16, "context_size num_mel_bins input_feat_size feature_projection_input_dim input_dim"),
        (16, "upsample_initial_channel"),
        (8, "patch_size encoder_stride num_landmarks num_latents prompt_length num_queries"),
        (4, "mm_tokens_per_image decoder_self_attention_heads decoder_cross_attention_heads"),
        (32, "encoder_hidden_dim feature_size mask_feature_size mask_dim conv_dim text_encoder_width"),
        (32, "reassemble_hidden_size projector_out_channels projector_hidden_size vision_hidden_size"),
        (32, "post_conv_in_channels post_conv_mid_channels post_conv_out_channels"),
        (16, "fusion_hidden_size head_hidden_size bottleneck_features bin_embedding_dim lqe_hidden_dim"),
        (16, "number_output_channels text_encoder_context_length"),
        (64, "encoder_feedforward_dim dim_feedforward"),
        (2, "text_encoder_num_layers"),
        (VOCAB, "text_encoder_vocab_size"),
    ]
    for name in names.split()
}

# Fields that hold one channel width or head count per stage.
STAGE_WIDTHS = {"hidden_sizes", "embed_dim", "embed_dims", "neck_hidden_sizes", "base_attn_unit_dims"}
STAGE_WIDTHS |= {"post_process_channels", "downsample_channels"}
EVEN_WIDTHS = {"conv_dim": 16, "tdnn_dim": 16, "decoder_in_channels": 32}
LATER_WIDTHS = {"encoder_in_channels"}  # of a backbone's stages, all but the first
STAGE_HEADS = {"num_heads", "num_attention_heads"}
STAGE_DEPTHS = {"depths", "depth", "n_attn_blocks", "num_block_repeats"}

# Fields that some families leave unset by default although their model needs them.
NEEDED = {"head_dim", "vocab_size", "num_key_value_heads", "num_experts_per_tok", "n_routed_experts"}

PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
THREE_AXES = {  # time, height and width share the rotary channels of a head
    "rope_parameters": PLAIN_ROPE | {"mrope_section": [2, 1, 1], "partial_rotary_factor": 1.0}
}
WRITES = {"decoder": {"is_decoder": True, "add_cross_attention": True}}
RESNET = {"model_type": "resnet", "out_indices": [4]}  # the default backbones are timm's
SWIN = {"image_size": 64, "embed_dim": 16, "window_size": 2}
QWEN4_TEXT = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 8,
    "indexer_compress_ratio": 2,
    "ple_layer_ids": [1],
    "ple_embed_dim": 32,
    "heads_per_ngram": 2,
    "ngram_vocab_size_base": 50,
    "make_ngram_vocab_size_divisible_by": 8,
    "split_ngram_parts": 4,
}
SHARED_KV_LAYERS = {  # the later layers reuse keys and values of an earlier layer of the same type
    "num_hidden_layers": 4,
    "intermediate_size": 64,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0],
    "num_kv_shared_layers": 2,
}
SHARED_BLOCKS = {  # the attention block is shared, which takes two layers that have it
    "num_hidden_layers": 4,
    "layers_block_type": ["linear_attention", "hybrid"] * 2,
}
VIBEVOICE_CODEC = {"num_filters": 2, "downsampling_ratios": (2, 2), "depths": (1, 1, 1), "hidden_size": 16}

# What a family needs beyond the generic rules: keyword arguments of its configuration, nested for sub-configurations.
OVERRIDES: dict[str, dict[str, Any]] = {
    "align": {
        "vision_config": {"width_coefficient": 0.1, "depth_coefficient": 0.5, "hidden_dim": 128, "image_size": 64}
    },
    "aria": {"projector_patch_to_query_dict": {16: 4}},
    "audio-spectrogram-transformer": {"max_length": 32, "frequency_stride": 8, "time_stride": 8},
    "bit": {"num_groups": 4, "embedding_size": 16},
    "blip-2": {"image_token_id": 5, "num_query_tokens": 4},
    "bros": {"hidden_size": 64},
    "chmv2": {"backbone_config": {"return_class_token": True}},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {"sliding_attention": PLAIN_ROPE, "full_attention": PLAIN_ROPE},
    },
    "conditional_detr": {"backbone_config": RESNET},
    "cvt": {"depth": (1, 2, 3)},
    "dab-detr": {"backbone_config": RESNET},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8.0}, "ffn_config": {"moe_top_k": 2}},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
    "deepseek_v4": {"head_dim": 32},  # of which an eighth is rotary
    "deepseek_vl_hybrid": {"high_res_vision_config": {"global_attn_indexes": [0, 1]}},
    "deformable_detr": {"backbone_config": RESNET | {"out_indices": [2, 3, 4]}},
    "depth_pro": {
        "patch_size": 32,
        "intermediate_hook_ids": (1, 0),
        "intermediate_feature_dims": (16, 16),
        "scaled_images_feature_dims": (16, 16, 16),
    },
    "detr": {"backbone_config": RESNET},
    "donut-swin": SWIN,
    "dots1": {"n_shared_experts": 1, "n_group": 1, "topk_group": 1},
    "dpt": {"num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3]},
    "efficientnet": {
        "width_coefficient": 0.1,
        "depth_coefficient": 0.5,
        "hidden_dim": 128,
        "image_size": 64,
    },
    "encoder-decoder": WRITES,
    "ernie4_5_vl_moe_text": {"rope_parameters": PLAIN_ROPE | {"mrope_section": [1, 1, 2]}},
    "esmc": {"num_key_value_heads": 4},
    "flint": {"mlp_only_layers": [0]},
    "focalnet": {"embed_dim": 16},
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": 8}},
    "gemma3n_text": SHARED_KV_LAYERS,
    "glm4v_moe_text": THREE_AXES,
    "glm4v_text": THREE_AXES,
    "glm5_next": {"text_config": {"index_kpool": 2}},
    "glm_ocr_text": THREE_AXES,
    "glmga_text": THREE_AXES,
    "granite_speech": {"window_size": 15},
    "granite_speech5_ctc": {"encoder_config": {"num_key_value_heads": 4}},
    "granite_speech_plus": {"window_size": 15},
    "hgnet_v2": {
        "stem_channels": (3, 8, 8),
        "stage_in_channels": (8, 16, 32, 48),
        "stage_mid_channels": (8, 8, 16, 16),
        "stage_out_channels": (16, 32, 48, 64),
        "hidden_sizes": (16, 32, 48, 64),
        "stage_num_blocks": (1, 1, 1, 1),
        "stage_numb_of_layers": (2, 2, 2, 2),
        "image_size": 64,
    },
    "hiera": {"embed_dim": 16},
    "hunyuan_vl_text": THREE_AXES,
    "inkling_text": {"logits_mup_width_multiplier": 1.0},
    "instructblip": {"image_token_index": 5, "num_query_tokens": 4},
    "instructblipvideo": {"video_token_index": 5, "num_query_tokens": 4},
    "kimi_k25": {"projection_hidden_size": 32},
    "kosmos-2": {"latent_query_num": 4},
    "kosmos-2.5": {"latent_query_num": 4},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4},
    "levit": {
        "image_size": 64,
        "patch_size": 16,
        "hidden_sizes": (32, 48, 64),
        "num_attention_heads": (2, 3, 4),
        "key_dim": (8, 8, 8),
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "lilt": {"hidden_size": 48},
    "llama4": {
        "vision_config": {
            "projector_input_dim": 32,
            "projector_output_dim": 32,
            "vision_output_dim": 32,
            "intermediate_size": 128,
        }
    },
    "llava_next": {"image_grid_pinpoints": [[32, 32]]},
    "llava_next_video": {"image_grid_pinpoints": [[32, 32]]},
    "llava_onevision": {"image_grid_pinpoints": [[32, 32]]},
    "lw_detr": {"projector_scale_factors": [1.0]},
    "lw_detr_vit": {"num_windows": 4, "num_windows_side": 2, "image_size": 64},
    "mamba2": {"num_heads": 8},
    "markuplm": {
        "max_depth": 4,
        "max_xpath_tag_unit_embeddings": 20,
        "max_xpath_subs_unit_embeddings": 20,
        "tag_pad_id": 3,
        "subs_pad_id": 3,
    },
    "minicpm3": {"dim_model_base": 32},
    "mllama": {
        "text_config": {"cross_attention_layers": [1]},
        "vision_config": {"intermediate_layers_indices": [0, 1], "num_global_layers": 1, "vision_output_dim": 96},
    },
    "mobilebert": {"hidden_size": 64, "intra_bottleneck_size": 32},
    "mobilenet_v1": {"depth_multiplier": 0.1},
    "mobilenet_v2": {"depth_multiplier": 0.25, "image_size": 64},
    "mobilevit": {"image_size": 64},
    "mobilevitv2": {"image_size": 64, "width_multiplier": 0.25},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "muse_glimmer": {"out_hidden_size": 128},
    "musicgen": {"decoder": {"num_codebooks": 1}},
    "musicgen_melody": {"decoder": {"num_codebooks": 1}},
    "nemotron_h_omni": {"image_token_id": 5, "vision_config": {"video_temporal_patch_size": 2}},
    "neomme": {"head_dim": 16},
    "nllb-moe": {"encoder_sparse_step": 2, "decoder_sparse_step": 2},
    "nystromformer": {"num_landmarks": 4, "segment_means_seq_len": SEQUENCE_LENGTH, "conv_kernel_size": 5},
    "omdet-turbo": {"backbone_config": RESNET | {"out_indices": [2, 3, 4]}},
    "paddleocr_vl_text": THREE_AXES,
    "perceiver": {"d_model": 512, "image_size": 16},  # the image preprocessor is fixed at 512 channels
    "pix2struct": {"vision_config": {"patch_embed_hidden_size": 48}},
    "pp_doclayout_v2": {"class_thresholds": [0.5] * NUM_LABELS, "class_order": list(range(NUM_LABELS))},
    "pp_doclayout_v3": {"x4_feat_dim": 16},
    "qwen2_5_omni_text": THREE_AXES,
    "qwen2_5_omni_thinker": {"vision_start_token_id": 20},
    "qwen2_5_vl_text": THREE_AXES,
    "qwen2_vl_text": THREE_AXES,
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 20},
    "qwen4_exp": {"text_config": QWEN4_TEXT},
    "qwen4_exp_text": QWEN4_TEXT,
    "reformer": {
        "attn_layers": ("local", "lsh"),
        "axial_pos_shape": (8, 16),
        "axial_pos_embds_dim": (8, 24),
        "local_attn_chunk_length": 4,
        "lsh_attn_chunk_length": 4,
        "num_buckets": 4,
        "hash_seed": 0,
    },
    "shieldgemma2": {"yes_token_index": 40, "no_token_index": 41, "mm_tokens_per_image": 4},
    "siglip2": {"vision_config": {"num_patches": 16}},
    "speech-encoder-decoder": WRITES,
    "step3p7": {"text_config": {"sliding_window": 8}},
    "swin": SWIN,
    "swinv2": SWIN,
    "switch_transformers": {"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
    "t5": {"decoder_start_token_id": 0},
    "table-transformer": {"backbone_config": RESNET},
    "textnet": {"stem_out_channels": 16, "image_size": (64, 64)},
    "vibevoice_asr": {
        "acoustic_tokenizer_encoder_config": VIBEVOICE_CODEC,
        "semantic_tokenizer_encoder_config": VIBEVOICE_CODEC,
    },
    "vipllava": {"vision_feature_layers": [-2, -1]},
    "vision-encoder-decoder": WRITES,
    "voxtral": {"audio_config": {"intermediate_size": 128}, "audio_token_id": 5},
    "xmod": {"default_language": "en_XX"},
    "zamba": SHARED_BLOCKS | {"attention_hidden_size": 64, "attention_head_dim": 16},
    "zamba2": SHARED_BLOCKS,
    "zaya": {"num_experts_per_tok": 1},
}

# What an architecture needs for one task alone.
OVERRIDES_FOR: dict[tuple[str, str], dict[str, Any]] = {
    ("universal-segmentation", "detr"): {
        "backbone_config": {"out_indices": [1, 2, 3, 4]},
        "encoder_attention_heads": 8,
        "decoder_attention_heads": 8,
    },
    ("semantic-segmentation", "beit"): {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]},
    ("semantic-segmentation", "data2vec-vision"): {"num_hidden_layers": 4, "out_indices": [0, 1, 2, 3]},
    ("semantic-segmentation", "mobilenet_v2"): {"image_size": 128},
    ("object-detection", "pp_ocrv5_mobile_det"): {"image_size": 128},
    ("zero-shot-image-classification", "blip-2"): {"qformer_config": {"use_qformer_text_input": True}},
}


def tiny_config(task: str, model_type: str) -> PreTrainedConfig:
    """The tiny configuration of one architecture for one task."""
    overrides = OVERRIDES_FOR.get((task, model_type), {})
    config = shrink(CONFIG_MAPPING[model_type](), overrides, {}, task)
    for part in walk(config):
        if hasattr(part, "use_cache"):
            part.use_cache = False
    return config


def walk(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    """Yield a configuration and all its sub-configurations."""
    yield config
    for value in list(vars(config).values()):
        if isinstance(value, PreTrainedConfig):
            yield from walk(value)


def shrink(default: PreTrainedConfig, overrides: dict[str, Any], tokens: dict[str, int], task: str) -> PreTrainedConfig:
    """A tiny version of a configuration; `tokens` collects the special token ids given out so far."""
    if "model_type" in overrides:  # another kind of part than the family has by default
        default = CONFIG_MAPPING[overrides["model_type"]]()
    config_class = type(default)
    overrides = merged(OVERRIDES.get(config_class.model_type, {}), overrides)
    overrides.pop("model_type", None)
    settable = {field.name for field in fields(config_class)}
    settable |= {real for alias, real in config_class.attribute_map.items() if alias in settable}
    arguments: dict[str, Any] = switches(default, settable)
    for name, value in vars(default).items():
        if isinstance(value, PreTrainedConfig):
            arguments[name] = shrink(value, overrides.pop(name, {}), tokens, "")
        elif name in settable and (tiny := tiny_value(name, value, tokens)) is not None:
            arguments[name] = tiny
    arguments |= latent_attention(default)
    arguments |= representative_layers(default)
    arguments |= backbone_outputs(default)
    arguments |= rotary_axes(default)
    arguments |= window_of_patches(default)
    arguments |= task_arguments(default, task)
    return config_class(**(arguments | overrides))


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two nested sets of arguments in one, the second before the first."""
    both = {
        name: merged(first[name], second[name])
        for name in first.keys() & second.keys()
        if isinstance(first[name], dict)
    }
    return first | second | both


def switches(default: PreTrainedConfig, settable: set[str]) -> dict[str, Any]:
    """What a family sets its parts to, of what has no size."""
    plain = type(default)()
    return {
        name: value
        for name, value in vars(default).items()
        if name in settable and isinstance(value, bool | str) and value != getattr(plain, name, value)
    }


def backbone_outputs(default: PreTrainedConfig) -> dict[str, Any]:
    """As many feature maps as the default takes: of its stages, or of as many layers."""
    indices = getattr(default, "out_indices", None)
    if not isinstance(indices, list | tuple) or len(indices) < 2:
        return {}
    if "num_hidden_layers" in {field.name for field in fields(type(default))}:
        return {"num_hidden_layers": len(indices), "out_indices": list(range(1, len(indices) + 1))}
    return {"out_indices": list(indices)}


def rotary_axes(default: PreTrainedConfig) -> dict[str, Any]:
    """Positions in time, height and width share the rotary channels of a head."""
    rope = getattr(default, "rope_parameters", None)
    if not isinstance(rope, dict) or len(rope.get("mrope_section") or ()) != 3:
        return {}
    return {"rope_parameters": rope | {"mrope_section": [2, 1, 1], "partial_rotary_factor": 1.0}}


def tiny_value(name: str, value: Any, tokens: dict[str, int]) -> Any:
    """The tiny value of one field, or None where the default is to be kept."""
    if name.endswith(("_token_id", "_token_index")):
        return special_token(name, value, tokens)
    if value is None and name in NEEDED:
        return SIZES[name]
    if isinstance(value, bool) or not value:
        return None
    if isinstance(value, list | tuple):
        return tiny_stages(name, value)
    if name == "patch_size" and isinstance(value, int):
        return min(value, SIZES[name])  # hierarchical vision models start from small patches
    return SIZES.get(name) if isinstance(value, int) else None


def window_of_patches(default: PreTrainedConfig) -> dict[str, Any]:
    """A window of a vision model that merges patches is measured in pixels and holds several of what it merges."""
    merge = getattr(default, "spatial_merge_size", None)
    return {"window_size": 2 * merge * SIZES["patch_size"]} if merge and hasattr(default, "window_size") else {}


def latent_attention(default: PreTrainedConfig) -> dict[str, Any]:
    """Multi-head latent attention has no grouped heads, and often calls the rotary part of a head `head_dim`."""
    if not hasattr(default, "qk_rope_head_dim"):
        return {}
    arguments = {"num_key_value_heads": SIZES["num_attention_heads"]}
    if getattr(default, "head_dim", None) == default.qk_rope_head_dim:
        arguments["head_dim"] = SIZES["qk_rope_head_dim"]
    return {name: value for name, value in arguments.items() if hasattr(default, name)}


def tiny_stages(name: str, value: list | tuple) -> list | tuple | None:
    """The tiny version of a field with one entry per stage of a hierarchical model."""
    count, kind = len(value), type(value)
    if name == "image_size":
        return kind(SIZES["image_size"] for _ in value)
    if name in EVEN_WIDTHS:
        return kind(EVEN_WIDTHS[name] for _ in value)
    if name in LATER_WIDTHS:
        return kind(16 * (i + 2) for i in range(count))
    if name in STAGE_WIDTHS:
        return kind(16 * (i + 1) for i in range(count))
    if name in STAGE_HEADS:
        return kind(1 if i == 0 else 2 for i in range(count))
    if name in STAGE_DEPTHS:
        return kind(1 if i else 2 for i in range(count))
    return None


def special_token(name: str, value: Any, tokens: dict[str, int]) -> int | None:
    """A small id for a special token: pad, bos and eos always exist, the others only where the default has one."""
    known = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    known |= {"forced_eos_token_id": 2, "forced_bos_token_id": 1}
    if name in known:
        return None if value is None and name.startswith("forced") else known[name]
    if not isinstance(value, int) or value < 0:
        return None
    return tokens.setdefault(name.rsplit("_", 1)[0], 3 + len(tokens))


def representative_layers(default: PreTrainedConfig) -> dict[str, Any]:
    """Keep a few layers that together show every kind of layer the default configuration has."""
    depth = getattr(default, "num_hidden_layers", None)
    kinds = {
        name: value
        for name, value in vars(default).items()
        if isinstance(value, list | tuple) and value and len(value) == depth and all(isinstance(v, str) for v in value)
    }
    if not kinds:
        return {}
    kept: list[int] = []
    for values in kinds.values():
        for kind in dict.fromkeys(values):
            if not any(values[i] == kind for i in kept):
                kept.append(values.index(kind))
    kept = sorted(kept)
    while len(kept) < 2:
        kept.append(kept[-1])
    depth_name = type(default).attribute_map.get("num_hidden_layers", "num_hidden_layers")
    chosen = {name: type(values)(values[i] for i in kept) for name, values in kinds.items()}
    return chosen | ({depth_name: len(kept)} if depth_name in vars(default) else {})


def task_arguments(default: PreTrainedConfig, task: str) -> dict[str, Any]:
    """What the task asks of the outermost configuration: labels, and causal attention for a causal LM."""
    if task.endswith("classification") or "segmentation" in task or task == "object-detection":
        labels = {"num_labels": NUM_LABELS}
        return labels | ({"num_targets": NUM_LABELS} if hasattr(default, "num_targets") else {})
    if task == "causal-lm":
        return {name: True for name in ("is_decoder", "causal") if hasattr(default, name)}
    return {}
