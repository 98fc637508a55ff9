"""Makes the conformance corpus of tests/media: a few hundred small image files of every format in one
pack, and a table of what the reference gives for each: size, hash of the RGB pixels that Pillow shows
(transparent ones over white) and hash of the patch rows of the Qwen2-VL image processor.

Usage: python tools/golden/make_corpus.py [OUT]     (default: tests/data/media)

Deterministic with the versions of tools/golden/requirements.txt.
"""

import io
import itertools
import pathlib
import struct
import sys

import numpy as np
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from make_media_goldens import chunk, exif, fnv64, make_png, rgb_reference

SIZES = [(1, 1), (1, 9), (9, 1), (7, 5), (16, 16), (17, 31), (40, 23), (64, 8), (33, 66)]


def samples(width, height, channels, seed, depth=8):
    """Waves, an edge and a little noise; compresses well enough for a pack of hundreds of files."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    planes = []
    for c in range(channels):
        wave = 0.5 + 0.5 * np.sin(x / (4.0 + c + seed % 3) + y / (6.0 - c) + seed)
        planes.append(np.clip(0.8 * wave + ((x + 2 * y + 7 * c + seed) % 23 < 7) * 0.3, 0, 1))
    out = np.stack(planes, axis=-1) * (2**depth - 1)
    noise = np.random.default_rng(seed).integers(0, 3, out.shape)
    return np.clip(np.rint(out) + noise * (2**depth // 256), 0, 2**depth - 1).astype(np.uint16)


def rgb(width, height, seed):
    return Image.fromarray(samples(width, height, 3, seed).astype(np.uint8))


def rgba(width, height, seed):
    return Image.fromarray(samples(width, height, 4, seed).astype(np.uint8), "RGBA")


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def jpegs():
    seed = 0
    for (w, h), subsampling, progressive in itertools.product(SIZES, (0, 1, 2), (False, True)):
        seed += 1
        options = {"quality": (25, 80, 96)[seed % 3], "subsampling": subsampling, "progressive": progressive}
        if seed % 5 == 0:
            options["restart_marker_blocks"] = 1
        yield f"s{subsampling}{'p' if progressive else 'b'}_{w}x{h}.jpg", saved(rgb(w, h, seed), "JPEG", **options)
    for w, h in SIZES:
        seed += 1
        gray = rgb(w, h, seed).convert("L")
        yield f"gray_{w}x{h}.jpg", saved(gray, "JPEG", quality=85, progressive=seed % 2 == 0)
        cmyk = Image.fromarray(samples(w, h, 4, seed).astype(np.uint8), "CMYK")
        yield f"cmyk_{w}x{h}.jpg", saved(cmyk, "JPEG", quality=85, subsampling=seed % 3)
    for orientation in range(1, 9):
        for w, h in ((17, 31), (40, 23)):
            image = rgb(w, h, 100 + orientation)
            block = exif(orientation, little=orientation % 2 == 0)
            yield f"turn{orientation}_{w}x{h}.jpg", saved(image, "JPEG", subsampling=2, exif=block)


def pngs():
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
    depths = {0: (1, 2, 4, 8), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
    seed = 200
    for color, interlace in itertools.product(channels, (False, True)):
        for depth in depths[color]:
            for w, h in ((1, 1), (9, 1), (7, 5), (17, 31)):
                seed += 1
                before = b""
                if color == 3:
                    table = np.random.default_rng(seed).integers(0, 256, (2**depth, 3), dtype=np.uint8)
                    before = chunk(b"PLTE", table.tobytes())
                    if seed % 2:
                        alphas = np.random.default_rng(seed).integers(0, 256, 2**depth // 2 + 1, dtype=np.uint8)
                        before += chunk(b"tRNS", alphas.tobytes())
                if seed % 7 == 0:
                    before += chunk(b"eXIf", exif(seed % 8 + 1)[6:])
                data = make_png(samples(w, h, channels[color], seed, depth), depth, color, interlace=interlace, before=before)
                yield f"c{color}d{depth}{'i' if interlace else ''}_{w}x{h}.png", data


def webps():
    seed = 400
    for w, h in SIZES:
        for name, image, options in (
            ("lossy", rgb(w, h, seed + 1), {"quality": 80}),
            ("low", rgb(w, h, seed + 2), {"quality": 10}),
            ("lossless", rgb(w, h, seed + 3), {"lossless": True}),
            ("alpha", rgba(w, h, seed + 4), {"quality": 80}),
            ("alpha_lossless", rgba(w, h, seed + 5), {"lossless": True, "exact": True}),
        ):
            yield f"{name}_{w}x{h}.webp", saved(image, "WEBP", **options)
        seed += 5
    for orientation in range(1, 9):
        image = rgba(17, 31, seed + orientation) if orientation % 2 else rgb(17, 31, seed + orientation)
        yield f"turn{orientation}.webp", saved(image, "WEBP", quality=90, exif=exif(orientation))
    frames = [rgb(20, 12, seed + i) for i in range(3)]
    yield "animated.webp", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    clear = [rgba(20, 12, seed + i) for i in range(3)]
    yield "animated_alpha.webp", saved(clear[0], "WEBP", save_all=True, append_images=clear[1:], lossless=True)
    # A first frame that is smaller than its canvas.
    still = saved(rgb(8, 6, 9), "WEBP", lossless=True)[12:]
    for name, flags in (("part", 0x02), ("part_alpha", 0x12)):
        def part(kind, body):
            return kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)

        def three(value):
            return struct.pack("<I", value)[:3]

        body = part(b"VP8X", bytes([flags, 0, 0, 0]) + three(19) + three(11))
        body += part(b"ANIM", b"\x10\x20\x30\x40\0\0")
        body += part(b"ANMF", three(2) + three(3) + three(7) + three(5) + three(100) + b"\0" + still)
        yield f"animated_{name}.webp", b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def lzw(indices, bits):
    """GIF's LZW in sub-blocks."""
    clear, end = 1 << bits, (1 << bits) + 1
    table, width, out, held = {}, bits + 1, 0, 0
    coded = bytearray()

    def put(code):
        nonlocal out, held
        out |= code << held
        held += width
        while held >= 8:
            coded.append(out & 255)
            out >>= 8
            held -= 8

    def reset():
        nonlocal table, width
        table = {(i,): i for i in range(clear)}
        width = bits + 1

    reset()
    put(clear)
    word = ()
    for index in indices:
        if word + (index,) in table:
            word += (index,)
            continue
        put(table[word])
        if len(table) + 2 < 4096:
            table[word + (index,)] = len(table) + 2
            if len(table) + 2 > 1 << width and width < 12:
                width += 1
        elif index % 2:  # some streams go on with a full table, as "deferred clear" does
            put(clear)
            reset()
        word = (index,)
    put(table[word])
    put(end)
    if held:
        coded.append(out & 255)
    return bytes([bits]) + b"".join(bytes([len(p)]) + p for p in (bytes(coded[i : i + 255]) for i in range(0, len(coded), 255))) + b"\0"


def gif(screen, frame, indices, palette, *, clear=None, local=False, interlace=False, bits=None, version=b"89a"):
    """frame: x, y, width, height; palette: RGB triples, a power of two of them, or none."""
    def flags(extra):
        return extra | 0x80 | (len(palette) // 3).bit_length() - 2 if palette else extra

    x, y, w, h = frame
    out = b"GIF" + version + struct.pack("<HHBBB", *screen, 0 if local else flags(0x70), 0, 0)
    out += b"" if local else palette
    if clear is not None:
        out += b"\x21\xf9\x04" + bytes([1, 5, 0, clear]) + b"\0"
    out += b"," + struct.pack("<HHHHB", x, y, w, h, (flags(0) if local else 0) | (0x40 if interlace else 0))
    out += palette if local else b""
    rows = indices.reshape(h, w)
    if interlace:
        order = [*range(0, h, 8), *range(4, h, 8), *range(2, h, 4), *range(1, h, 2)]
        rows = rows[order]
    bits = bits or max(2, (len(palette) // 3 - 1).bit_length() if palette else 8)
    return out + lzw([int(v) for v in rows.reshape(-1)], bits) + b";"


def gifs():
    for seed, (w, h) in enumerate(SIZES):
        yield f"saved_{w}x{h}.gif", saved(rgb(w, h, 600 + seed), "GIF")
        yield f"clear_{w}x{h}.gif", saved(rgba(w, h, 620 + seed), "GIF")
    for colors in (2, 4, 16, 64, 256):
        table = np.random.default_rng(colors).integers(0, 256, (colors, 3), dtype=np.uint8).tobytes()
        for w, h in ((1, 1), (9, 7), (23, 17)):
            pixels = np.random.default_rng(colors + w).integers(0, colors, w * h)
            for name, options in (
                ("plain", {}),
                ("interlaced", {"interlace": True}),
                ("local", {"local": True, "clear": 1}),
            ):
                yield f"{name}{colors}_{w}x{h}.gif", gif((w, h), (0, 0, w, h), pixels, table, **options)
    table = np.random.default_rng(7).integers(0, 256, (8, 3), dtype=np.uint8).tobytes()
    pixels = np.random.default_rng(8).integers(0, 8, 48)
    yield "inside.gif", gif((20, 15), (3, 4, 8, 6), pixels, table)
    yield "inside_clear.gif", gif((20, 15), (3, 4, 8, 6), pixels, table, clear=5)
    yield "beyond.gif", gif((5, 5), (2, 3, 8, 6), pixels, table)
    yield "no_palette.gif", gif((8, 6), (0, 0, 8, 6), pixels * 30, b"")
    yield "old.gif", gif((8, 6), (0, 0, 8, 6), pixels, table, version=b"87a")
    yield "full_table.gif", gif((100, 90), (0, 0, 100, 90), np.random.default_rng(3).integers(0, 256, 9000), bytes(range(256)) * 3)
    frames = [rgb(20, 12, 640 + i) for i in range(3)]
    yield "animated.gif", saved(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=50)


def bmp(width, height, bits, rows, *, compression=0, palette=b"", masks=b"", colors=0, header=40, extra=b""):
    if header == 12:
        dib = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        dib = struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, compression, len(rows), 0, 0, colors, 0)
    dib += masks + extra + palette
    return b"BM" + struct.pack("<IHHI", 14 + len(dib) + len(rows), 0, 0, 14 + len(dib)) + dib + rows


def padded(rows):
    return b"".join(bytes(r) + b"\0" * (-len(r) % 4) for r in rows)


def bmps():
    for seed, (w, h) in enumerate(SIZES):
        image = rgb(w, h, 700 + seed)
        yield f"rgb_{w}x{h}.bmp", saved(image, "BMP")
        yield f"palette_{w}x{h}.bmp", saved(image.quantize(31), "BMP")
        yield f"gray_{w}x{h}.bmp", saved(image.convert("L"), "BMP")
        yield f"bits_{w}x{h}.bmp", saved(image.convert("1"), "BMP")
        yield f"rgba_{w}x{h}.bmp", saved(rgba(w, h, 720 + seed), "BMP")
    w, h = 13, 9
    rng = np.random.default_rng(5)
    table = rng.integers(0, 256, (16, 4), dtype=np.uint8).tobytes()
    four = rng.integers(0, 256, (h, (w + 1) // 2), dtype=np.uint8)
    yield "four_bits.bmp", bmp(w, h, 4, padded(four), palette=table)
    yield "four_bits_few.bmp", bmp(w, h, 4, padded(four & 0x77), palette=table[:32], colors=8)
    words = rng.integers(0, 65536, (h, w)).astype("<u2")
    yield "bits555.bmp", bmp(w, h, 16, padded(r.tobytes() for r in words))
    for name, masks in (("565", (0xF800, 0x7E0, 0x1F)), ("555", (0x7C00, 0x3E0, 0x1F))):
        packed = struct.pack("<III", *masks)
        yield f"fields{name}.bmp", bmp(w, h, 16, padded(r.tobytes() for r in words), compression=3, masks=packed)
    quads = rng.integers(0, 2**32, (h, w)).astype("<u4")
    for name, masks in (
        ("bgra", (0xFF0000, 0xFF00, 0xFF, 0xFF000000)),
        ("rgba", (0xFF, 0xFF00, 0xFF0000, 0xFF000000)),
        ("abgr", (0xFF000000, 0xFF0000, 0xFF00, 0xFF)),
        ("bgar", (0xFF000000, 0xFF00, 0xFF, 0xFF0000)),
        ("xbgr", (0xFF000000, 0xFF0000, 0xFF00, 0)),
        ("none", (0, 0, 0, 0)),
    ):
        packed = struct.pack("<IIII", *masks)
        rows = padded(r.tobytes() for r in quads)
        yield f"v4_{name}.bmp", bmp(w, h, 32, rows, compression=3, masks=packed, header=108, extra=b"\0" * 52)
    yield "x32.bmp", bmp(w, h, 32, padded(r.tobytes() for r in quads))
    rows24 = rng.integers(0, 256, (h, 3 * w), dtype=np.uint8)
    yield "top_down.bmp", bmp(w, -h, 24, padded(rows24))
    yield "os2.bmp", bmp(w, h, 24, padded(rows24), header=12)
    small = rng.integers(0, 256, (16, 3), dtype=np.uint8).tobytes()
    yield "os2_palette.bmp", bmp(w, h, 4, padded(four), palette=small, header=12)
    big = rng.integers(0, 256, (256, 4), dtype=np.uint8).tobytes()
    line = lambda v: bytes([w - 3, v, 0, 3, v, 1, v, 0, 0, 0])
    yield "rle8.bmp", bmp(w, h, 8, b"".join(line(20 * y) for y in range(h)) + b"\0\1", compression=1, palette=big)
    skip = bytes([4, 9, 0, 0, 0, 2, 3, 2, 5, 7, 0, 0]) + b"".join(map(line, range(60, 160, 20)))
    yield "rle8_skip.bmp", bmp(w, h, 8, skip + b"\0\1", compression=1, palette=big)
    runs = b"".join(bytes([w - 4, 0x10 + y, 0, 4, 0x12, 0x34, 0, 0]) for y in range(h))
    yield "rle4.bmp", bmp(w, h, 4, runs + b"\0\1", compression=2, palette=table)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests" / "data" / "media"
    processor = Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 6)
    lines = [
        "# file offset bytes (in corpus.bin) width height (oriented) fnv64(RGB8) grid_h grid_w"
        " fnv64(float32 patch rows; min_pixels 784, max_pixels 4704)"
    ]
    pack = bytearray()
    names = set()
    for name, data in itertools.chain(jpegs(), pngs(), webps(), gifs(), bmps()):
        assert name not in names, name
        names.add(name)
        image = rgb_reference(data)
        result = processor(images=[image], return_tensors="np")
        t, grid_h, grid_w = (int(v) for v in result["image_grid_thw"][0])
        assert t == 1
        rows = fnv64(np.ascontiguousarray(result["pixel_values"], np.float32).tobytes())
        lines.append(
            f"{name} {len(pack)} {len(data)} {image.width} {image.height}"
            f" {fnv64(image.tobytes())} {grid_h} {grid_w} {rows}"
        )
        pack += data
    (out / "corpus.bin").write_bytes(bytes(pack))
    (out / "corpus.txt").write_text("\n".join(lines) + "\n")
    print(len(names), "files,", len(pack), "bytes")


if __name__ == "__main__":
    main()
