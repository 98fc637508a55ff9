"""Architecture of the shipped model: Qwen2.5-VL, made very small."""

import json

from transformers import GenerationConfig, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from digits_tokenizer import VOCAB_SIZE

HIDDEN = 128
MIN_PIXELS = 56 * 56
MAX_PIXELS = 112 * 112
IMAGE_MEAN = [0.48145466, 0.4578275, 0.40821073]
IMAGE_STD = [0.26862954, 0.26130258, 0.27577711]


def make_config(tokenizer):
    token = tokenizer.token_to_id
    text = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": HIDDEN,
        "intermediate_size": 3 * HIDDEN,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "initializer_range": 0.05,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            # Temporal, height and width parts of the 16 rotary frequencies of a 32-wide head.
            "mrope_section": [4, 6, 6],
        },
        "tie_word_embeddings": True,
        "bos_token_id": token("<|endoftext|>"),
        "eos_token_id": token("<|im_end|>"),
        "pad_token_id": token("<|endoftext|>"),
    }
    vision = {
        "depth": 4,
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_heads": 4,
        "out_hidden_size": HIDDEN,
        "window_size": 112,
        "fullatt_block_indexes": [1, 3],
        "initializer_range": 0.05,
    }
    return Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
        bos_token_id=token("<|endoftext|>"),
        eos_token_id=token("<|im_end|>"),
        pad_token_id=token("<|endoftext|>"),
    )


def make_model(tokenizer):
    return Qwen2_5_VLForConditionalGeneration._from_config(
        make_config(tokenizer), attn_implementation="sdpa"
    )


def save_model(model, tokenizer, folder):
    """Writes config.json, model.safetensors (bf16) and the small settings files."""
    token = tokenizer.token_to_id
    model.generation_config = GenerationConfig(
        bos_token_id=token("<|endoftext|>"),
        eos_token_id=[token("<|im_end|>"), token("<|endoftext|>")],
        pad_token_id=token("<|endoftext|>"),
        do_sample=False,
        max_new_tokens=16,
    )
    model.bfloat16().save_pretrained(folder)
    _save_preprocessor(folder)


def _save_preprocessor(folder):
    settings = {
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": IMAGE_MEAN,
        "image_processor_type": "Qwen2VLImageProcessor",
        "image_std": IMAGE_STD,
        "max_pixels": MAX_PIXELS,
        "merge_size": 2,
        "min_pixels": MIN_PIXELS,
        "patch_size": 14,
        "processor_class": "Qwen2_5_VLProcessor",
        "resample": 3,
        "rescale_factor": 0.00392156862745098,
        "size": {"longest_edge": MAX_PIXELS, "shortest_edge": MIN_PIXELS},
        "temporal_patch_size": 2,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n")
