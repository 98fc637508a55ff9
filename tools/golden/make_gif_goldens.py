"""Animated GIFs with every disposal, transparency, interlacing, local palettes and frames smaller than the
screen, and what Pillow shows of each frame over white. Writes tests/data/media/anim_*.gif and
animations.txt (file, frame, delay in hundredths of a second as shown, FNV-1a of the RGB pixels).

    python tools/golden/make_gif_goldens.py [OUT]
"""

import io
import pathlib
import random
import sys

from PIL import Image

DEFAULT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/media"
OUT = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT


def fnv64(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def blocks(data):
    out = b""
    for i in range(0, len(data), 255):
        part = data[i : i + 255]
        out += bytes([len(part)]) + part
    return out + b"\0"


def lzw(indices, bits):
    """The frame's codes by Pillow's own encoder: out of a still GIF of the same indices."""
    width, height, data = indices
    image = Image.new("P", (width, height))
    image.putdata(list(data))
    image.putpalette([c for i in range(1 << bits) for c in (i, i, i)])
    file = io.BytesIO()
    image.save(file, "GIF", optimize=False, interlace=0)
    raw = file.getvalue()
    at = raw.index(b",", 13 + 3 * (2 << (raw[10] & 7)))
    flags = raw[at + 9]
    begin = at + 10 + (3 * (2 << (flags & 7)) if flags & 0x80 else 0)
    return raw[begin : raw.rindex(b";")]


def interlaced_rows(height):
    return [*range(0, height, 8), *range(4, height, 8), *range(2, height, 4), *range(1, height, 2)]


def make(seed, screen, disposals, transparent, local, interlace, delays, global_palette=True):
    rng = random.Random(seed)
    width, height = screen
    colours = 16
    out = b"GIF89a" + width.to_bytes(2, "little") + height.to_bytes(2, "little")
    out += bytes([0x80 | 0x70 | 3 if global_palette else 0x70, 3, 0])
    palette = lambda: bytes(rng.randrange(256) for _ in range(3 * colours))  # noqa: E731
    if global_palette:
        out += palette()
    for i, (disposal, delay) in enumerate(zip(disposals, delays)):
        w, h = (width, height) if i == 0 and seed % 2 == 0 else (rng.randint(1, width), rng.randint(1, height))
        x, y = rng.randint(0, width - w), rng.randint(0, height - h)
        key = rng.randrange(colours) if transparent[i] else None
        flags = disposal << 2 | (key is not None)
        out += b"!\xf9\x04" + bytes([flags]) + delay.to_bytes(2, "little") + bytes([key or 0, 0])
        out += b"," + b"".join(v.to_bytes(2, "little") for v in (x, y, w, h))
        use_local = local[i] or not global_palette
        out += bytes([(0x80 | 3 if use_local else 0) | (0x40 if interlace[i] else 0)])
        if use_local:
            out += palette()
        rows = [[rng.choice((key, rng.randrange(colours))) if key is not None else rng.randrange(colours)
                 for _ in range(w)] for _ in range(h)]  # fmt: skip
        order = interlaced_rows(h) if interlace[i] else range(h)
        out += lzw((w, h, bytes(v for r in order for v in rows[r])), 4)
    return out + b";"


def shown(image):
    rgba = image.convert("RGBA")
    white = Image.new("RGBA", image.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, rgba).convert("RGB").tobytes()


def main():
    cases = {
        "keep": (2, (13, 9), [1] * 5, [False] * 5, [False] * 5, [False] * 5, [10, 20, 5, 7, 100]),
        "transparent": (4, (16, 16), [1, 0, 1, 1, 0], [True] * 5, [False, True] * 2 + [True], [False] * 5, [10] * 5),
        "background": (6, (12, 10), [2] * 5, [True] * 5, [False] * 5, [False, True] * 2 + [True], [0, 1, 2, 3, 4]),
        "previous": (8, (11, 17), [1, 3, 3, 1, 3, 1], [False, True] * 3, [True] * 6, [True] * 6, [4] * 6),
        "opaque_background": (10, (9, 9), [2, 1, 2, 2, 1], [False] * 5, [False] * 5, [False] * 5, [50] * 5),
        "mixed": (12, (20, 14), [1, 2, 3, 1, 2, 3, 1], [False, True, True, False, True, True, False],
                  [False, True, False, True, False, True, False], [True, False] * 3 + [True], [3] * 7),
        "small_first": (13, (15, 15), [1, 2, 1, 1], [False, True, True, False], [False] * 4, [False] * 4, [9] * 4),
        "small_clear": (15, (15, 15), [1, 1, 2, 1], [True] * 4, [False] * 4, [False] * 4, [9] * 4),
        "one": (16, (8, 8), [0], [False], [False], [False], [0]),
    }  # fmt: skip
    lines = ["# file frame delay hash; made by tools/golden/make_gif_goldens.py"]
    for name, case in cases.items():
        data = make(*case)
        file = f"anim_{name}.gif"
        (OUT / file).write_bytes(data)
        image = Image.open(io.BytesIO(data))
        delays = case[-1]
        for frame in range(len(delays)):
            image.seek(frame)
            delay = delays[frame] if delays[frame] >= 2 else 10
            lines.append(f"{file} {frame} {delay} {fnv64(shown(image))}")
        assert image.n_frames == len(delays), (name, image.n_frames)
    (OUT / "animations.txt").write_text("\n".join(lines) + "\n")


main()
