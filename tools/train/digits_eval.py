"""The evaluation set, and the reference implementation run over it."""

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from digits_data import COLOUR_NAMES, DIGIT_NAMES, MAX_PICTURES, answer, draw_sizes, question, render

KINDS = ("digit", "colour")


def _shuffled_cycle(classes, count, rng):
    """`count` class indexes, each as often as the others, in random order."""
    return rng.permutation(np.resize(np.arange(classes), count))


def _draw_pictures(digits, count, folder, seed):
    """Saves `count` pictures of `digits` as PNG; returns [(path, digit, colour)]."""
    images, labels = digits
    rng = np.random.default_rng(seed)
    gen = torch.Generator().manual_seed(seed)
    samples = torch.from_numpy(_shuffled_cycle(len(labels), count, rng))
    colours = torch.from_numpy(_shuffled_cycle(len(COLOUR_NAMES), count, rng))
    drawn, first = [], 0
    for (height, width), number in draw_sizes(count, gen).items():
        part = slice(first, first + number)
        pictures = render(images[samples[part]], colours[part], height, width, False, gen)
        drawn += list(zip(pictures, labels[samples[part]].tolist(), colours[part].tolist()))
        first += number
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    entries = []
    for index, place in enumerate(rng.permutation(count), start=1):
        picture, digit, colour = drawn[place]
        name = f"pictures/{index:04d}.png"
        pixels = picture.permute(1, 2, 0).contiguous().numpy()
        Image.fromarray(pixels).save(folder / name, optimize=True)
        entries.append((name, digit, colour))
    return entries


def _make_prompt(identity, kind, number, wanted, entries, rng):
    """A prompt with `number` different pictures whose answer is of class `wanted`."""
    column = 1 if kind == "digit" else 2
    asked = rng.choice([i for i, entry in enumerate(entries) if entry[column] == wanted])
    others = rng.permutation([i for i in range(len(entries)) if i != asked])[: number - 1]
    place = int(rng.integers(number))
    chosen = np.insert(others, place, asked).tolist()
    return {
        "id": identity,
        "kind": kind,
        "pictures": [entries[i][0] for i in chosen],
        "question": question(kind, place + 1),
        "answer": answer(kind, entries[asked][1], entries[asked][2]),
        "reference_answer": "",
    }


def make_eval_set(folder, digits, seed, prompts=500, pictures=300):
    """Writes prompts.jsonl and pictures/, balanced over kinds, picture numbers and answers."""
    entries = _draw_pictures(digits, pictures, folder, seed)
    rng = np.random.default_rng(seed + 1)
    half = prompts // 2
    wanted = {
        "digit": _shuffled_cycle(len(DIGIT_NAMES), half, rng),
        "colour": _shuffled_cycle(len(COLOUR_NAMES), half, rng),
    }
    lines = []
    for index in range(prompts):
        kind, turn = KINDS[index % 2], index // 2
        number = turn % MAX_PICTURES + 1
        identity = f"{index + 1:04d}"
        lines.append(_make_prompt(identity, kind, number, wanted[kind][turn], entries, rng))
    write_prompts(folder, lines)


def read_prompts(folder):
    text = (Path(folder) / "prompts.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def write_prompts(folder, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (Path(folder) / "prompts.jsonl").write_text(text, encoding="utf-8")


class Reference:
    """The reference implementation on a saved checkpoint: float32, Pillow image processor."""

    def __init__(self, folder):
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        self.processor = Qwen2VLImageProcessorPil.from_pretrained(folder)
        self.model = Qwen2_5_VLForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa"
        ).eval()
        self.image_token = self.tokenizer.convert_tokens_to_ids("<|image_pad|>")

    def inputs(self, pictures, text):
        """Model inputs of one user message: all the pictures first, then the question."""
        content = [{"type": "image"} for _ in pictures] + [{"type": "text", "text": text}]
        prompt = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            add_vision_id=True,
            tokenize=False,
        )
        images = self.processor(pictures, return_tensors="pt")
        merged = self.processor.merge_size**2
        pieces = prompt.split("<|image_pad|>")
        for index, grid in enumerate(images["image_grid_thw"]):
            pieces[index] += "<|image_pad|>" * (int(grid.prod()) // merged)
        ids = self.tokenizer("".join(pieces), return_tensors="pt")["input_ids"]
        return {
            "input_ids": ids,
            "mm_token_type_ids": (ids == self.image_token).int(),
            "pixel_values": images["pixel_values"],
            "image_grid_thw": images["image_grid_thw"],
        }

    @torch.no_grad()
    def answer(self, pictures, text):
        """Text of the most likely first token of the reply."""
        logits = self.model(**self.inputs(pictures, text), use_cache=False, logits_to_keep=1).logits
        return self.tokenizer.decode([int(logits[0, -1].argmax())])


def answer_prompts(model_folder, eval_folder):
    """The prompts of an evaluation set with `reference_answer` filled in."""
    reference = Reference(model_folder)
    lines = read_prompts(eval_folder)
    for line in lines:
        pictures = []
        for name in line["pictures"]:
            with Image.open(Path(eval_folder) / name) as picture:
                pictures.append(picture.convert("RGB"))
        line["reference_answer"] = reference.answer(pictures, line["question"])
    return lines


def accuracy_table(lines):
    """Accuracy by number of pictures and kind of question, as text."""
    rows = ["| pictures | digit | colour |", "|---:|---:|---:|"]
    for number in [*range(1, MAX_PICTURES + 1), "all"]:
        cells = []
        for kind in KINDS:
            asked = [
                line
                for line in lines
                if line["kind"] == kind and number in ("all", len(line["pictures"]))
            ]
            right = sum(line["answer"] == line["reference_answer"] for line in asked)
            cells.append(f"{100 * right / len(asked):.1f} % ({right}/{len(asked)})")
        rows.append(f"| {number} | {cells[0]} | {cells[1]} |")
    return "\n".join(rows)
