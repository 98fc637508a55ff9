"""Hashes what the reference's smart_resize gives for 100,000 random and extreme sizes.

Usage: python tools/golden/make_resize_sweep.py [OUT]     (default: tests/data/model/smart_resize_sweep.txt)

The sizes come from a generator that tests/model/resize_sweep_test.cc repeats. A size that the reference
refuses counts as 0 x 0. A side that it gives as 0 counts as one factor, which is what rserve does: no
embedding has no rows. How often that happens is in the table.
"""

import pathlib
import sys

from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

LIMITS = [
    # factor, min_pixels, max_pixels, sizes
    (28, 56 * 56, 28 * 28 * 1280, 40000),
    (28, 4 * 28 * 28, 16384 * 28 * 28, 20000),
    (32, 65536, 16777216, 10000),
    (28, 0, 20 * 28 * 28, 20000),
    (28, 128 * 28 * 28, 768 * 28 * 28, 10000),
]
MASK = 2**64 - 1


def sizes(seed):
    """A side has up to 26 bits, all lengths of bits alike; every fourth pair is near a limit of the
    aspect ratio, every eighth has both sides near a multiple of 14."""
    state = seed

    def draw():
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) & MASK
        return state >> 33

    while True:
        kind = draw()
        a = draw() % (1 << (draw() % 26 + 1)) + 1
        b = draw() % (1 << (draw() % 26 + 1)) + 1
        if kind % 4 == 0:
            a = a % 100000 + 1
            b = max(1, a * 200 + draw() % 3 - 1)
        elif kind % 8 == 1:
            a = max(1, a % 4000 // 14 * 14 + draw() % 3 - 1)
            b = max(1, b % 4000 // 14 * 14 + draw() % 3 - 1)
        elif kind % 8 == 2:
            a, b = a % 4000 + 1, b % 4000 + 1
        yield (a, b) if kind & 64 else (b, a)


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "tests/data/model/smart_resize_sweep.txt"
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    lines = ["# factor min_pixels max_pixels sizes seed fnv64(height, width as 32 bits) refused zero_sides"]
    for i, (factor, low, high, count) in enumerate(LIMITS):
        value, refused, zeros = 0xCBF29CE484222325, 0, 0
        source = sizes(i + 1)
        for _ in range(count):
            height, width = next(source)
            try:
                h, w = smart_resize(height, width, factor, low, high)
                zeros += h == 0 or w == 0
                h, w = max(h, factor), max(w, factor)
            except ValueError:
                h = w = 0
                refused += 1
            for byte in h.to_bytes(4, "little") + w.to_bytes(4, "little"):
                value = ((value ^ byte) * 0x100000001B3) & MASK
        lines.append(f"{factor} {low} {high} {count} {i + 1} {value:016x} {refused} {zeros}")
    out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
