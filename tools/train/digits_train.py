"""Training: the vision tower as a classifier first, then the language model on the questions.

Both steps use the modules of the reference model; only the loops around them are batched for speed.
"""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import apply_rotary_pos_emb_vision
from transformers.vision_utils import get_vision_position_ids, get_vision_window_index

from digits_data import COLOUR_NAMES, DIGIT_NAMES, MAX_PICTURES, SIZES, SMALL_SIZES
from digits_data import draw_sizes, patchify, render, resize_like_processor
from digits_model import IMAGE_MEAN, IMAGE_STD
from digits_prompts import PromptPacker

PATCH_AREA = 4  # patches merged into one language model token
EMBEDDING_SCALE = 0.2  # root mean square of what enters the language model
FIRST_PICTURES = 4  # most pictures of a prompt until they are understood


class PictureSource:
    """Draws random pictures of the given digits, ready for the vision tower."""

    def __init__(self, digits, strong, seed):
        self.images, self.labels = digits
        self.strong = strong
        self.gen = torch.Generator().manual_seed(seed)

    def draw(self, count, sizes=SIZES):
        """Yields (patches, grid rows, grid columns, digit labels, colour labels) by picture size."""
        for (height, width), number in draw_sizes(count, self.gen, sizes).items():
            pick = torch.randint(len(self.labels), (number,), generator=self.gen)
            colours = torch.randint(len(COLOUR_NAMES), (number,), generator=self.gen)
            pictures = render(self.images[pick], colours, height, width, self.strong, self.gen)
            pictures = resize_like_processor(pictures)
            rows, columns = pictures.shape[2] // 14, pictures.shape[3] // 14
            yield patchify(pictures, IMAGE_MEAN, IMAGE_STD), rows, columns, self.labels[pick], colours


def _vision_layout(visual, rows, columns):
    """Window order, rotary angles and window mask of one picture grid."""
    config = visual.config
    grid = torch.tensor([[1, rows, columns]])
    order, bounds = get_vision_window_index(
        grid,
        spatial_merge_size=config.spatial_merge_size,
        window_size=config.window_size,
        patch_size=config.patch_size,
    )
    positions = get_vision_position_ids(grid, config.spatial_merge_size)
    rotary = [
        angles.view(-1, PATCH_AREA, angles.shape[-1])[order].flatten(0, 1)
        for angles in visual.rotary_pos_emb(positions.float(), positions)
    ]
    window = torch.bucketize(torch.arange(rows * columns), bounds[1:-1], right=True)
    mask = None if len(bounds) == 2 else window.unsqueeze(0) == window.unsqueeze(1)
    return order, rotary, mask


def _vision_attention(attention, hidden, rotary, mask):
    batch, length, width = hidden.shape
    query, key, value = attention.qkv(hidden).view(batch, length, 3, attention.num_heads, -1).unbind(2)
    query, key = apply_rotary_pos_emb_vision(query, key, *rotary)
    mixed = F.scaled_dot_product_attention(
        query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), attn_mask=mask
    )
    return attention.proj(mixed.transpose(1, 2).reshape(batch, length, width))


def vision_features(visual, patches, rows, columns):
    """The vision tower over a batch of pictures of one size: [batch, tokens, hidden].

    Equal to the reference forward pass, which loops over the windows of all the pictures.
    """
    batch, length, _ = patches.shape
    order, rotary, window_mask = _vision_layout(visual, rows, columns)
    hidden = F.linear(patches, visual.patch_embed.proj.weight.flatten(1))
    hidden = hidden.view(batch, length // PATCH_AREA, PATCH_AREA, -1)[:, order].flatten(1, 2)
    for number, block in enumerate(visual.blocks):
        mask = None if number in visual.fullatt_block_indexes else window_mask
        hidden = hidden + _vision_attention(block.attn, block.norm1(hidden), rotary, mask)
        hidden = hidden + block.mlp(block.norm2(hidden))
    merged = visual.merger(hidden).view(batch, length // PATCH_AREA, -1)
    return merged[:, torch.argsort(order)]


def check_vision_features(visual, seed):
    """Compares `vision_features` with the reference forward pass on pictures of every size."""
    source = PictureSource((torch.rand(8, 8, 8), torch.arange(8)), True, seed)
    for patches, rows, columns, _, _ in source.draw(64):
        grid = torch.tensor([[1, rows, columns]] * len(patches))
        with torch.no_grad():
            expected = visual(patches.flatten(0, 1), grid).pooler_output
            actual = vision_features(visual, patches, rows, columns).flatten(0, 1)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


class Schedule:
    """AdamW with a linear warm-up and a cosine descent to zero."""

    def __init__(self, groups, steps, weight_decay=0.05):
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=weight_decay)
        self.peaks = [group["lr"] for group in self.optimizer.param_groups]
        self.steps = steps
        self.warmup = max(1, min(200, steps // 10))

    def step(self, number, loss):
        factor = min((number + 1) / self.warmup, 0.5 + 0.5 * math.cos(math.pi * number / self.steps))
        for group, peak in zip(self.optimizer.param_groups, self.peaks):
            group["lr"] = peak * factor
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for group in self.optimizer.param_groups:
            nn.utils.clip_grad_norm_(group["params"], 1.0)
        self.optimizer.step()


def train_vision(visual, splits, steps, seed, small=0.0, peak=1e-3, batch=96, log=print):
    """Teaches the vision tower digits and colours through a throw-away linear head.

    The first `small` part of the steps shows the smallest pictures only: they cost least and get the
    tower off the ground soonest.
    """
    width = visual.config.out_hidden_size
    heads = nn.Linear(width, len(DIGIT_NAMES) + len(COLOUR_NAMES))
    parameters = list(visual.parameters()) + list(heads.parameters())
    schedule = Schedule([{"params": parameters, "lr": peak}], steps)
    source = PictureSource(splits["train"], True, seed)
    started = time.time()
    for step in range(steps):
        loss = 0.0
        sizes = SMALL_SIZES if step < small * steps else SIZES
        for patches, rows, columns, digits, colours in source.draw(batch, sizes):
            logits = heads(vision_features(visual, patches, rows, columns).mean(1))
            digit_loss = F.cross_entropy(logits[:, :10], digits, reduction="sum", label_smoothing=0.05)
            colour_loss = F.cross_entropy(logits[:, 10:], colours, reduction="sum")
            loss = loss + (digit_loss + 0.5 * colour_loss) / batch
        schedule.step(step, loss)
        if step % 100 == 99 or step == steps - 1:
            digit, colour = _vision_accuracy(visual, heads, splits["validation"], seed + 1)
            log(
                f"vision {step + 1}/{steps} loss {loss.item():.3f} validation digit {digit:.3f} "
                f"colour {colour:.3f} ({time.time() - started:.0f} s)"
            )


@torch.no_grad()
def _vision_accuracy(visual, heads, digits, seed, count=500):
    right = torch.zeros(2)
    for patches, rows, columns, labels, colours in PictureSource(digits, False, seed).draw(count):
        logits = heads(vision_features(visual, patches, rows, columns).mean(1))
        right[0] += (logits[:, :10].argmax(1) == labels).sum()
        right[1] += (logits[:, 10:].argmax(1) == colours).sum()
    return (right / count).tolist()


@torch.no_grad()
def _picture_pool(visual, source, count):
    """Draws `count` pictures: features of each with its grid and labels, in random order."""
    pool = []
    for patches, rows, columns, digits, colours in source.draw(count):
        features = vision_features(visual, patches, rows, columns)
        labels = zip(digits.tolist(), colours.tolist())
        pool += [(f, rows // 2, columns // 2, d, c) for f, (d, c) in zip(features, labels)]
    order = torch.randperm(len(pool), generator=source.gen).tolist()
    return [pool[i] for i in order]


def _forward(model, packed):
    """Logits at the target positions of a packed batch, and all hidden states."""
    language = model.model.language_model
    embeds = language.embed_tokens(packed.ids)
    embeds = embeds.masked_scatter(packed.is_image.unsqueeze(-1), packed.features)
    output = language(
        inputs_embeds=embeds,
        position_ids=packed.positions,
        attention_mask={"full_attention": packed.mask},
        use_cache=False,
        output_hidden_states=True,
    )
    return model.lm_head(output.last_hidden_state[packed.targets >= 0]), output.hidden_states


@torch.no_grad()
def _balance_scales(model, pictures):
    """Brings picture features and token embeddings to the same scale before they meet.

    The classifier leaves features some 40 times larger than fresh embeddings; what the first layers
    add to them (such as the number of the picture) would drown.
    """
    merger = model.model.visual.merger.mlp[-1]
    features = torch.cat([entry[0] for entry in _picture_pool(model.model.visual, pictures, 500)])
    factor = EMBEDDING_SCALE / features.pow(2).mean().sqrt()
    merger.weight *= factor
    merger.bias *= factor
    embeddings = model.model.language_model.embed_tokens.weight
    embeddings *= EMBEDDING_SCALE / embeddings.pow(2).mean().sqrt()


class PromptSource:
    """Prompts about random pictures of a pool, which is redrawn now and then."""

    def __init__(self, model, packer, pictures, pool=3000, batches_per_pool=100):
        self.visual, self.packer, self.pictures = model.model.visual, packer, pictures
        self.pool_size, self.batches_per_pool = pool, batches_per_pool
        self.drawn = 0

    def draw(self, counts, questions):
        """A packed batch: one prompt with `count` pictures for each of `counts`."""
        if self.drawn % self.batches_per_pool == 0:
            self.pool = _picture_pool(self.visual, self.pictures, self.pool_size)
        self.drawn += 1
        gen = self.pictures.gen
        picks = iter(torch.randint(len(self.pool), (sum(counts),), generator=gen).tolist())
        prompts = [[self.pool[next(picks)] for _ in range(count)] for count in counts]
        return self.packer.pack(prompts, questions, gen)

    def draw_counts(self, prompts, most):
        """Numbers of pictures of a batch; the larger ones, which are harder, more often."""
        weights = torch.arange(1.0, most + 1)
        picks = torch.multinomial(weights, prompts, replacement=True, generator=self.pictures.gen)
        return (picks + 1).tolist()


def train_language(model, tokenizer, splits, steps, seed, prompts=16, questions=8, log=print):
    """Trains the language model to look up the answer; the vision tower stays as it is.

    Prompts start with up to 4 pictures; twice as many are allowed whenever most answers are right.
    A throw-away head on the middle layer names the picture a token belongs to or asks about: without
    that hint the look-up takes many times longer to appear.
    """
    torch.manual_seed(seed)
    packer = PromptPacker(tokenizer)
    pictures = PictureSource(splits["train"], True, seed)
    _balance_scales(model, pictures)
    source = PromptSource(model, packer, pictures)
    number_head = nn.Linear(model.config.text_config.hidden_size, MAX_PICTURES)
    parameters = [*model.model.language_model.parameters(), *number_head.parameters()]
    schedule = Schedule([{"params": parameters, "lr": 2e-3}], steps)
    most, recent, started = FIRST_PICTURES, 0.0, time.time()
    for step in range(steps):
        packed = source.draw(source.draw_counts(prompts, most), questions)
        logits, hidden = _forward(model, packed)
        targets = packed.targets[packed.targets >= 0]
        loss = F.cross_entropy(logits, targets)
        named = F.cross_entropy(number_head(hidden[2]).flatten(0, 1), packed.numbers.flatten())
        schedule.step(step, loss + 0.5 * named)
        # Even targets are answers, odd ones the end of the turn.
        right = (logits.argmax(-1) == targets)[::2].float().mean().item()
        recent = 0.9 * recent + 0.1 * right
        if recent > 0.9 and most < MAX_PICTURES:
            most, recent = 2 * most, 0.5
        if step % 50 == 49 or step == steps - 1:
            table = language_accuracy(model, packer, splits["validation"], seed + 1)
            log(
                f"language {step + 1}/{steps} up to {most} pictures, loss {loss.item():.4f} "
                + f"named {named.item():.3f} right {recent:.3f}, validation "
                + " ".join(f"{n}:{d:.3f}/{c:.3f}" for n, (d, c) in table.items())
                + f" ({time.time() - started:.0f} s)"
            )


@torch.no_grad()
def language_accuracy(model, packer, digits, seed, prompts=16, numbers=(1, 2, 4, 8)):
    """(digit, colour) accuracy by number of pictures, on fresh pictures of `digits`."""
    source = PromptSource(model, packer, PictureSource(digits, False, seed), pool=300)
    table = {}
    for number in numbers:
        packed = source.draw([number] * prompts, 2 * number)
        guesses = _forward(model, packed)[0].argmax(-1)
        targets = packed.targets[packed.targets >= 0]
        scores = []
        for kind in ("digit", "colour"):
            wanted = torch.isin(targets, packer.answer_ids[kind])
            scores.append((guesses == targets)[wanted].float().mean().item())
        table[number] = tuple(scores)
    return table
