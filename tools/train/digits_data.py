"""Pictures, questions and answers of the digit task.

A picture is one real handwritten digit (UCI "Optical Recognition of Handwritten Digits", as carried
by scikit-learn) drawn in light or dark ink on a coloured background.
"""

import functools

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

COLOURS = {
    "red": (205, 40, 40),
    "orange": (245, 140, 30),
    "yellow": (240, 220, 50),
    "green": (50, 150, 60),
    "blue": (45, 85, 205),
    "purple": (125, 50, 160),
    "pink": (245, 165, 200),
    "grey": (128, 128, 128),
}
COLOUR_NAMES = list(COLOURS)
DIGIT_NAMES = [str(d) for d in range(10)]
MAX_PICTURES = 8

# (height, width): weight. Most are multiples of 28 (2 merged patches of 14); the others make the
# processor resize. The long strips are wider than one 112-pixel attention window.
SIZES = {
    (56, 56): 5,
    (56, 84): 3,
    (84, 56): 3,
    (84, 84): 3,
    (140, 56): 1,
    (56, 140): 1,
    (60, 60): 1,
    (64, 74): 1,
    (80, 62): 1,
    (78, 80): 1,
    (58, 132): 1,
}
SMALL_SIZES = {(56, 56): 4, (60, 60): 1}
FACTOR = 28
HELD_OUT = 300
VALIDATION = 97


def question(kind, number):
    """Text of a question about picture `number` (counted from 1)."""
    if kind == "digit":
        return f"Which digit is in picture {number}?"
    return f"What colour is picture {number}?"


def answer(kind, digit, colour):
    return DIGIT_NAMES[digit] if kind == "digit" else COLOUR_NAMES[colour]


def split_digits(seed):
    """Splits the 1797 samples into train, validation and held-out (images in 0..1, labels)."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32) / 16
    labels = torch.tensor(data.target, dtype=torch.long)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(labels)))
    parts = {
        "held_out": order[:HELD_OUT],
        "validation": order[HELD_OUT : HELD_OUT + VALIDATION],
        "train": order[HELD_OUT + VALIDATION :],
    }
    return {name: (images[index], labels[index]) for name, index in parts.items()}


def _uniform(shape, low, high, gen):
    return torch.rand(shape, generator=gen) * (high - low) + low


def _sampling_grid(count, height, width, strong, gen):
    """Where each picture pixel looks in the 8x8 digit, in grid_sample coordinates."""
    short = min(height, width)
    side = _uniform(count, 0.66 if strong else 0.72, 0.98, gen) * short
    centre_y = height / 2 + (_uniform(count, -0.5, 0.5, gen)) * (height - side)
    centre_x = width / 2 + (_uniform(count, -0.5, 0.5, gen)) * (width - side)
    angle = _uniform(count, -1, 1, gen) * (0.22 if strong else 0.08)
    shear = _uniform(count, -1, 1, gen) * (0.2 if strong else 0.0)
    aspect = _uniform(count, -1, 1, gen) * (0.15 if strong else 0.05)
    y = (torch.arange(height) + 0.5).view(1, height, 1) - centre_y.view(-1, 1, 1)
    x = (torch.arange(width) + 0.5).view(1, 1, width) - centre_x.view(-1, 1, 1)
    cos, sin = angle.cos().view(-1, 1, 1), angle.sin().view(-1, 1, 1)
    rot_y, rot_x = cos * y - sin * x, sin * y + cos * x
    rot_x = rot_x + shear.view(-1, 1, 1) * rot_y
    stretch = (1 + aspect).view(-1, 1, 1)
    half = (side / 2).view(-1, 1, 1)
    grid = torch.stack((rot_x / half * stretch, rot_y / half), dim=-1)
    if strong:
        bend = torch.randn((count, 2, 4, 4), generator=gen) * 0.09
        bend = F.interpolate(bend, (height, width), mode="bicubic", align_corners=True)
        grid = grid + bend.permute(0, 2, 3, 1)
    return grid


def _background(colours, height, width, gen):
    """Shaded, blotchy and speckled background, in 0..1, [count, 3, height, width]."""
    count = len(colours)
    base = torch.tensor([COLOURS[name] for name in COLOUR_NAMES], dtype=torch.float32)[colours] / 255
    base = base + _uniform((count, 3), -0.035, 0.035, gen)
    shade = _uniform((count, 1, 1, 1), 0.88, 1.08, gen)
    blotch = torch.randn((count, 1, 3, 3), generator=gen) * 0.035
    blotch = F.interpolate(blotch, (height, width), mode="bilinear", align_corners=True)
    speckle = torch.randn((count, 1, height, width), generator=gen) * 0.12
    speckle = speckle * (torch.rand((count, 1, height, width), generator=gen) < 0.03)
    return (base.view(count, 3, 1, 1) * (shade + blotch) + speckle).clamp(0, 1)


def _ink(background, gen):
    """Near-black or near-white ink, whichever shows; a free choice on middling backgrounds."""
    luminance = (background.mean((2, 3)) * torch.tensor([0.3, 0.59, 0.11])).sum(1)
    light = torch.where(
        (luminance - 0.42).abs() < 0.12,
        torch.rand(len(luminance), generator=gen) < 0.5,
        luminance < 0.42,
    )
    level = torch.where(
        light,
        _uniform(len(light), 0.88, 1.0, gen),
        _uniform(len(light), 0.0, 0.12, gen),
    )
    return level.view(-1, 1, 1, 1)


def render(digits, colours, height, width, strong, gen):
    """Draws 8x8 `digits` on `colours` (indexes) as uint8 pictures [count, 3, height, width].

    `strong` adds the deformations used only in training: the training set is small.
    """
    count = len(digits)
    grid = _sampling_grid(count, height, width, strong, gen)
    stroke = F.grid_sample(
        digits.unsqueeze(1), grid, mode="bicubic", padding_mode="zeros", align_corners=False
    )
    floor = _uniform((count, 1, 1, 1), 0.1, 0.3 if strong else 0.2, gen)
    alpha = ((stroke - floor) / 0.6).clamp(0, 1)
    background = _background(colours, height, width, gen)
    picture = background * (1 - alpha) + _ink(background, gen) * alpha
    # A coarse palette keeps the PNG files of the evaluation set small.
    return ((picture * 255 / 6).round() * 6).clamp(0, 255).to(torch.uint8)


def processed_size(height, width):
    """The size the image processor resizes these small pictures to (Python's round, as it does)."""
    return round(height / FACTOR) * FACTOR, round(width / FACTOR) * FACTOR


@functools.lru_cache
def _pillow_weights(source, target):
    """Fixed-point bicubic weights [target, source] of Pillow's resize (22 fractional bits)."""
    scale = source / target
    stretch = max(scale, 1.0)
    weights = torch.zeros(target, source, dtype=torch.float64)
    for out in range(target):
        centre = (out + 0.5) * scale
        first = max(int(centre - 2 * stretch + 0.5), 0)
        last = min(int(centre + 2 * stretch + 0.5), source)
        x = ((torch.arange(first, last, dtype=torch.float64) - centre + 0.5) / stretch).abs()
        near = (1.5 * x - 2.5) * x * x + 1
        far = ((-0.5 * x + 2.5) * x - 4) * x + 2
        row = torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))
        row = row / row.sum() * (1 << 22)
        weights[out, first:last] = (row + 0.5 * row.sign()).trunc()
    return weights


def _apply_weights(pixels, weights):
    """One pass of the resize along the last axis, rounded to 8 bits as Pillow does."""
    sums = pixels.to(torch.float64) @ weights.T + (1 << 21)
    return (sums / (1 << 22)).floor().clamp(0, 255)


def resize_like_processor(pictures):
    """Bicubic resize of uint8 pictures to multiples of 28, bit for bit as Pillow 13 does it."""
    height, width = pictures.shape[2:]
    new_height, new_width = processed_size(height, width)
    passes = [(3, width, new_width), (2, height, new_height)]
    # Pillow 13 starts with the vertical pass where the height shrinks much more than the width.
    if new_height < height and height - new_height > 2 * (width - new_width):
        passes.reverse()
    for axis, source, target in passes:
        if source != target:
            weights = _pillow_weights(source, target)
            pictures = _apply_weights(pictures.transpose(axis, 3), weights).transpose(axis, 3)
    return pictures.to(torch.uint8)


def patchify(pictures, mean, std, patch=14, merge=2, temporal=2):
    """Normalised patches [count, patches, 1176] in the order of Qwen2VLImageProcessor."""
    count, channels, height, width = pictures.shape
    pixels = pictures.to(torch.float32) / 255
    pixels = (pixels - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    rows, columns = height // patch, width // patch
    patches = pixels.reshape(
        count, channels, rows // merge, merge, patch, columns // merge, merge, patch
    ).permute(0, 2, 5, 3, 6, 1, 4, 7)
    patches = patches.unsqueeze(6).expand(*patches.shape[:6], temporal, patch, patch)
    return patches.reshape(count, rows * columns, channels * temporal * patch * patch)


def draw_sizes(count, gen, weights=SIZES):
    """Picks `count` picture sizes; returns {(height, width): how many}."""
    sizes = list(weights)
    chances = torch.tensor([float(weights[size]) for size in sizes])
    picks = torch.multinomial(chances, count, replacement=True, generator=gen)
    counts = torch.bincount(picks, minlength=len(sizes)).tolist()
    return {size: n for size, n in zip(sizes, counts) if n}
