"""Packs prompts and their questions into batches for training.

One packed row holds a prompt's pictures once and several questions about them. Each question sees
the pictures and itself only, at the positions it has when asked alone: the model sees exactly the
single-question format of the chat template, at a fraction of the cost.
"""

from dataclasses import dataclass

import torch

from digits_data import MAX_PICTURES, answer, question

IGNORE = -100


@dataclass
class Packed:
    ids: torch.Tensor  # [batch, length]
    positions: torch.Tensor  # [3, batch, length]
    mask: torch.Tensor  # [batch, 1, length, length], true where attention is allowed
    is_image: torch.Tensor  # [batch, length]
    features: torch.Tensor  # [image tokens, hidden], in reading order
    targets: torch.Tensor  # [batch, length], the next token or IGNORE
    numbers: torch.Tensor  # [batch, length], the picture (from 0) shown or asked about, or IGNORE


class _Row:
    """One row under construction."""

    def __init__(self):
        self.ids, self.positions, self.segments = [], [], []
        self.targets, self.numbers = [], []
        self.next_position = 0

    def _add(self, token, position, segment, number=IGNORE):
        self.ids.append(token)
        self.positions.append(position)
        self.segments.append(segment)
        self.targets.append(IGNORE)
        self.numbers.append(number)

    def add_text(self, ids, segment):
        for offset, token in enumerate(ids):
            self._add(token, (self.next_position + offset,) * 3, segment)
        self.next_position += len(ids)

    def add_image(self, token, rows, columns, number):
        start = self.next_position
        for row in range(rows):
            for column in range(columns):
                self._add(token, (start, start + row, start + column), 0, number - 1)
        self.next_position += max(rows, columns)


class PromptPacker:
    def __init__(self, tokenizer):
        encode = lambda text: tokenizer.encode(text).ids
        self.image_token = tokenizer.token_to_id("<|image_pad|>")
        self.head = encode(
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        )
        numbers = range(1, MAX_PICTURES + 1)
        self.before = {n: encode(f"Picture {n}: <|vision_start|>") for n in numbers}
        self.after = encode("<|vision_end|>")
        self.asked = {
            (kind, n): encode(f"{question(kind, n)}<|im_end|>\n<|im_start|>assistant\n")
            for kind in ("digit", "colour")
            for n in numbers
        }
        self.answers = {
            "digit": [encode(answer("digit", d, 0)) for d in range(10)],
            "colour": [encode(answer("colour", 0, c)) for c in range(8)],
        }
        self.answer_ids = {kind: torch.tensor(ids).flatten() for kind, ids in self.answers.items()}
        self.end = tokenizer.token_to_id("<|im_end|>")

    def _row(self, pictures, asked):
        row = _Row()
        row.add_text(self.head, 0)
        for number, (_, rows, columns, _, _) in enumerate(pictures, start=1):
            row.add_text(self.before[number], 0)
            row.add_image(self.image_token, rows, columns, number)
            row.add_text(self.after, 0)
        start = row.next_position
        for segment, (kind, number) in enumerate(asked, start=1):
            digit, colour = pictures[number - 1][3:]
            label = digit if kind == "digit" else colour
            reply = self.answers[kind][label]
            row.next_position = start
            row.add_text(self.asked[kind, number] + reply, segment)
            row.targets[-2:] = [reply[0], self.end]
            row.numbers[-2] = number - 1
        return row

    def pack(self, prompts, questions, gen):
        """Packs prompts, each a list of (features, rows, columns, digit, colour), with up to
        `questions` different questions each."""
        rows = []
        for pictures in prompts:
            every = [(k, n) for k in ("digit", "colour") for n in range(1, len(pictures) + 1)]
            chosen = torch.randperm(len(every), generator=gen)[:questions].tolist()
            rows.append(self._row(pictures, [every[i] for i in chosen]))
        features = torch.cat([picture[0] for pictures in prompts for picture in pictures])
        return self._stack(rows, features)

    def _stack(self, rows, features):
        length = max(len(row.ids) for row in rows)

        def padded(lists, fill):
            return torch.tensor([list(x) + [fill] * (length - len(x)) for x in lists])

        ids = padded([row.ids for row in rows], self.end)
        positions = padded([row.positions for row in rows], (0, 0, 0)).permute(2, 0, 1)
        # Padding is a segment of its own at the end of the row, which nothing else sees.
        segments = padded([row.segments for row in rows], -1)
        seen = (segments.unsqueeze(1) == 0) | (segments.unsqueeze(1) == segments.unsqueeze(2))
        mask = (seen & torch.ones(length, length, dtype=torch.bool).tril()).unsqueeze(1)
        targets = padded([row.targets for row in rows], IGNORE)
        numbers = padded([row.numbers for row in rows], IGNORE)
        return Packed(ids, positions, mask, ids == self.image_token, features, targets, numbers)
