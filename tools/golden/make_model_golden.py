"""Writes the golden files of tests/model: sizes, positions and chat prompts of the reference.

    python3 tools/golden/make_model_golden.py tests/data/model

Needs the versions of tools/golden/requirements.txt. Runs after make_tokenizer_golden.py, whose
tokenizer the chat prompts are encoded with.
"""

import json
import pathlib
import random
import sys
import types

import torch
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

# The template that the published Qwen2.5-VL checkpoints carry.
CHAT_TEMPLATE = (
    "{% set image_count = namespace(value=0) %}{% set video_count = namespace(value=0) %}"
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n{% if message['content'] is string %}"
    "{{ message['content'] }}<|im_end|>\n{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}"
    "{% set image_count.value = image_count.value + 1 %}"
    "{% if add_vision_id %}Picture {{ image_count.value }}: {% endif %}"
    "<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif content['type'] == 'video' or 'video' in content %}"
    "{% set video_count.value = video_count.value + 1 %}"
    "{% if add_vision_id %}Video {{ video_count.value }}: {% endif %}"
    "<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def resize_lines():
    """One line a limit set ("factor min max"), then one a size ("height width -> height width")."""
    rng = random.Random(1)
    limits = [
        (28, 56 * 56, 28 * 28 * 1280),
        (28, 4 * 28 * 28, 16384 * 28 * 28),
        (28, 256 * 28 * 28, 1280 * 28 * 28),
        (28, 3136, 3136),
        (28, 1, 783),  # not even one token fits
        (14, 196, 20000),
        (32, 65536, 16777216),
        (1, 1, 1000),
    ]
    lines = []
    for factor, low, high in limits:
        lines.append(f"{factor} {low} {high}")
        sizes = set()
        for side in (1, 2, 13, 14, 15, 27, 28, 29, 41, 42, 43, 70, 98, 126, 1000, 65535, 1 << 26):
            for other in (1, 14, 42, 70, 199, 200, 201, 2800, 1 << 26):
                sizes.add((side, other))
                sizes.add((other, side))
        for _ in range(320):
            bits = rng.choice((4, 7, 10, 12, 14, 20, 26))
            height = rng.randint(1, 1 << bits)
            ratio = 200 ** rng.uniform(-1, 1)
            sizes.add((height, max(1, min(1 << 26, round(height * ratio)))))
        for height, width in sorted(sizes):
            try:
                out = "%d %d" % smart_resize(height, width, factor, low, high)
            except ValueError:
                out = "refused"
            lines.append(f"{height} {width} {out}")
    return lines


def position_cases():
    """Sequences of text lengths and image grids with the reference's positions."""
    config = Qwen2_5_VLConfig()
    model = types.SimpleNamespace(config=config)
    model.get_vision_position_ids = Qwen2_5_VLModel.get_vision_position_ids.__get__(model)
    rng = random.Random(2)
    sequences = [
        [["text", 7]],
        [["text", 1], ["image", 4, 6], ["text", 3]],
        [["image", 2, 2]],
        [["image", 6, 4], ["text", 5]],
        [["text", 5], ["image", 10, 2]],
        [["image", 2, 14], ["text", 1], ["image", 14, 2]],
        [["text", 2], ["image", 4, 4], ["text", 1], ["image", 8, 6], ["text", 9]],
    ]
    for _ in range(24):
        parts = []
        for _ in range(rng.randint(1, 5)):
            if rng.random() < 0.6:
                parts.append(["image", 2 * rng.randint(1, 7), 2 * rng.randint(1, 7)])
            # Two runs of placeholders never touch in the reference: markers stand between them.
            parts.append(["text", rng.randint(1, 6)])
        sequences.append(parts if rng.random() < 0.5 or len(parts) == 1 else parts[:-1])
    cases = []
    for parts in sequences:
        merged = []
        for part in parts:
            if merged and part[0] == "text" == merged[-1][0]:
                merged[-1][1] += part[1]
            else:
                merged.append(list(part))
        kinds, grids = [], []
        for part in merged:
            if part[0] == "text":
                kinds += [0] * part[1]
            else:
                kinds += [1] * (part[1] * part[2] // 4)
                grids.append([1, part[1], part[2]])
        positions, delta = Qwen2_5_VLModel.get_rope_index(
            model,
            torch.zeros(1, len(kinds), dtype=torch.long),
            torch.tensor([kinds]),
            torch.tensor(grids) if grids else None,
        )
        cases.append(
            {"parts": merged, "positions": positions[:, 0].tolist(), "delta": int(delta[0, 0])}
        )
    return cases


def text(value):
    return {"type": "text", "text": value}


IMAGE = {"type": "image", "image": "a.png"}


def chat_cases(tokenizer_file):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer_file))
    user = lambda *parts: {"role": "user", "content": list(parts)}
    conversations = [
        [user(text("Hello"))],
        [{"role": "user", "content": "Hello as a plain string"}],
        [user(IMAGE, text("What is this?"))],
        [user(text("Before "), IMAGE, text(" after"))],
        [user(text("Compare"), IMAGE, IMAGE, text("these"), IMAGE)],
        [user(text("\nleading newline"))],
        [user(text("\n\n  \n mixed"), text("\n"), text("  \n\nmore"))],
        [user(text("   leading spaces"))],
        [user(text("\r\nCRLF first\r\n"))],
        [user(text("trailing newline\n"))],
        [user(text("trailing spaces   "), IMAGE)],
        [user(text("\u0301mark first"))],
        [user(text("e"), text("\u0301 split from its base"))],
        [user(text(""))],
        [user()],
        [user(IMAGE)],
        [{"role": "system", "content": "Be brief."}, user(text("Hi"))],
        [{"role": "system", "content": [text("\nBe"), text(" brief.")]}, user(text("Hi"))],
        [
            user(IMAGE, text("One?")),
            {"role": "assistant", "content": "A cat.\n"},
            user(text("And"), IMAGE, text("this: 한국어, 日本語, עברית?")),
        ],
        [user(text("later system")), {"role": "system", "content": "Now be brief."}],
        [user(text("don't we'll I'M")), {"role": "assistant", "content": ""}],
    ]
    cases = []
    for messages in conversations:
        for vision_id in (False, True):
            for prompt in (False, True):
                rendered = tokenizer.apply_chat_template(
                    messages,
                    chat_template=CHAT_TEMPLATE,
                    tokenize=False,
                    add_vision_id=vision_id,
                    add_generation_prompt=prompt,
                )
                # As the processor does: each placeholder becomes one a row, here 4 for every image.
                expanded = rendered.replace("<|image_pad|>", "<|image_pad|>" * 4)
                ids = tokenizer(expanded, add_special_tokens=False)["input_ids"]
                cases.append(
                    {
                        "messages": messages,
                        "add_vision_id": vision_id,
                        "add_generation_prompt": prompt,
                        "ids": ids,
                    }
                )
    return cases


def write_json(path, value):
    body = ",\n".join(json.dumps(v, separators=(",", ":")) for v in value)
    path.write_text("[\n" + body + "\n]\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / "smart_resize.txt").write_text("\n".join(resize_lines()) + "\n")
    write_json(folder / "mrope.json", position_cases())
    write_json(folder / "chat.json", chat_cases(folder / "tokenizer.json"))


if __name__ == "__main__":
    main()
