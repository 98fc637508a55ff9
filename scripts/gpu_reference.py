"""Speeds of the reference implementation at Qwen2.5-VL-7B shapes with random weights, on GPU 0.

Prints the lines that rserve_gpu_bench prints, for the same shapes: encode of 1 and 8 images of 1024
tokens, prefill of 8192 tokens at once, with PyTorch's fastest attention.
"""

import json
import statistics
import time

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

RUNS = 7


def median_ms(run):
    times = []
    for i in range(RUNS + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        if i > 0:
            times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def report(name, value):
    print(json.dumps({"name": name, "value": value, "unit": "ms"}), flush=True)


@torch.inference_mode()
def main():
    config = Qwen2_5_VLConfig(
        text_config=dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
                         num_attention_heads=28, num_key_value_heads=4, vocab_size=152064,
                         max_position_embeddings=32768,
                         rope_parameters=dict(rope_type="default", rope_theta=1e6,
                                              mrope_section=[16, 24, 24])),
        vision_config=dict(depth=32, hidden_size=1280, intermediate_size=3420, num_heads=16,
                           out_hidden_size=3584, patch_size=14, window_size=112,
                           fullatt_block_indexes=[7, 15, 23, 31]))
    config._attn_implementation = "sdpa"
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Qwen2_5_VLForConditionalGeneration(config).eval()
    for images in (1, 8):
        pixels = torch.full((images * 4096, 1176), 0.25, device="cuda")
        grid = torch.tensor([[1, 64, 64]] * images, device="cuda")
        report(f"encode.{images}x1024.time",
               median_ms(lambda: model.model.visual(pixels, grid_thw=grid)))
    ids = (torch.arange(8192, device="cuda") % 150000)[None]
    report("prefill.8192.chunk8192.time",
           median_ms(lambda: model(input_ids=ids, logits_to_keep=1, use_cache=True)))


if __name__ == "__main__":
    main()
