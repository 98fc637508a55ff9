"""Speeds of the reference implementation at Qwen2.5-VL-7B shapes with random weights, on GPU 0.

Prints the lines that rserve_gpu_bench prints, for the same shapes: encode of 1 and 8 images of 1024
tokens, prefill of 8192 tokens at once, first token of 8 images and 2048 tokens of text. With the
fastest attention that PyTorch has here: each is timed, and the least time counts.

  gpu_reference.py [--dry]   --dry: tiny shapes on the CPU, which shows that it works
"""

import importlib.util
import json
import statistics
import sys
import time

if set(sys.argv[1:]) - {"--dry"}:
    sys.exit(__doc__)

import torch  # seconds
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

IMAGE_TOKEN, VISION_START = 151655, 151652
DRY = "--dry" in sys.argv[1:]
DEVICE = "cpu" if DRY else "cuda"
RUNS = 1 if DRY else 7
SIDE = 8 if DRY else 64  # patches: 1024 tokens an image
PROMPT = 64 if DRY else 8192


def synchronize():
    if not DRY:
        torch.cuda.synchronize()


def median_ms(run):
    times = []
    for i in range(RUNS + 1):
        synchronize()
        begin = time.perf_counter()
        run()
        synchronize()
        if i > 0:
            times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def config():
    text = dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
                num_attention_heads=28, num_key_value_heads=4, vocab_size=152064,
                max_position_embeddings=32768,
                rope_parameters=dict(rope_type="default", rope_theta=1e6,
                                     mrope_section=[16, 24, 24]))
    vision = dict(depth=32, hidden_size=1280, intermediate_size=3420, num_heads=16,
                  out_hidden_size=3584, patch_size=14, window_size=112,
                  fullatt_block_indexes=[7, 15, 23, 31])
    if DRY:
        text.update(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                    num_attention_heads=2, num_key_value_heads=1)
        text["rope_parameters"]["mrope_section"] = [2, 3, 3]
        vision.update(depth=2, hidden_size=32, intermediate_size=40, num_heads=2,
                      out_hidden_size=32, fullatt_block_indexes=[1])
    return Qwen2_5_VLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE_TOKEN,
                            vision_start_token_id=VISION_START)


def pictures(images):
    pixels = torch.full((images * SIDE * SIDE, 1176), 0.25, device=DEVICE)
    return pixels, torch.tensor([[1, SIDE, SIDE]] * images, device=DEVICE)


def request(images, image_tokens, text_tokens):
    """Images with their markers, then text."""
    ids, types = [], []
    for _ in range(images):
        ids += [VISION_START] + [IMAGE_TOKEN] * image_tokens + [VISION_START + 1]
        types += [0] + [1] * image_tokens + [0]
    ids += [i % 150000 for i in range(text_tokens)]
    types += [0] * text_tokens
    pixels, grid = pictures(images)
    return dict(input_ids=torch.tensor([ids], device=DEVICE),
                mm_token_type_ids=torch.tensor([types], device=DEVICE),
                pixel_values=pixels, image_grid_thw=grid)


def times(model):
    found = {}
    for images in (1, 8):
        pixels, grid = pictures(images)
        found[f"encode.{images}x1024.time"] = median_ms(
            lambda: model.model.visual(pixels, grid_thw=grid))
    ids = (torch.arange(PROMPT, device=DEVICE) % 150000)[None]
    found["prefill.8192.time"] = median_ms(
        lambda: model(input_ids=ids, logits_to_keep=1, use_cache=True))
    inputs = request(8, SIDE * SIDE // 4, 2 * SIDE * SIDE // 4)
    found["ttft.8x1024+2048.time"] = median_ms(
        lambda: model(**inputs, logits_to_keep=1, use_cache=True).logits[0, -1].argmax().item())
    return found


@torch.inference_mode()
def main():
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(DEVICE):
        model = Qwen2_5_VLForConditionalGeneration(config()).eval()
    kinds = ["sdpa"]
    if not DRY and importlib.util.find_spec("flash_attn"):
        kinds.append("flash_attention_2")
    best = {}
    for kind in kinds:
        model.set_attn_implementation(kind)
        for name, value in times(model).items():
            best[name] = min(value, best.get(name, value))
    for name, value in best.items():
        print(json.dumps({"name": name, "value": value, "unit": "ms"}), flush=True)


if __name__ == "__main__":
    main()
