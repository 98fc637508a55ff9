"""Makes the golden files of tests/media: image files of every kind with the RGB pixels Pillow gives,
hashes of Pillow's bicubic resize, and hashes of the patch rows of the Qwen2-VL image processor.

Usage: python tools/golden/make_media_goldens.py [OUT]     (default: tests/data/media)

Deterministic: the same versions of Pillow, numpy and transformers (tools/golden/requirements.txt)
give the same bytes. What each table's columns mean is in its first line.
"""

import io
import pathlib
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

WIDTH, HEIGHT = 37, 23  # odd, no multiple of a DCT block, all seven Adam7 passes


def fnv64(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def lcg_pixels(seed: int, width: int, height: int) -> np.ndarray:
    """Half noise, half ramp; tests/media/media_test_util.h has the same generator."""
    state = seed
    out = bytearray(width * height * 3)
    for i in range(len(out)):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = (state >> 24) if (i // 96) % 2 == 0 else (i + (state >> 30)) & 0xFF
    return np.frombuffer(bytes(out), np.uint8).reshape(height, width, 3)


def picture(channels: int, depth: int = 8) -> np.ndarray:
    """A smooth picture with an edge and some noise, in samples of `depth` bits."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float64)
    planes = []
    for c in range(channels):
        wave = 0.5 + 0.5 * np.sin(x / (5.0 + c) + y / (7.0 - c) + c)
        edge = ((x + 2 * y + 9 * c) % 31 < 11) * 0.3
        planes.append(np.clip(0.75 * wave + edge, 0.0, 1.0))
    samples = np.stack(planes, axis=-1) * (2**depth - 1)
    noise = np.random.default_rng(depth * 10 + channels).uniform(-0.5, 0.5, samples.shape)
    return np.clip(np.rint(samples + noise), 0, 2**depth - 1).astype(np.uint16)


# ---- PNG -----------------------------------------------------------------------------------------

PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(kind: bytes, data: bytes, damage: int = 0) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data) ^ damage)


def pack_rows(samples: np.ndarray, depth: int) -> bytes:
    """Scan lines with the filters none, sub and up in turn (sub and up only for whole bytes)."""
    rows = bytearray()
    previous = None
    for y, row in enumerate(samples):
        flat = row.reshape(-1)
        if depth == 16:
            line = flat.astype(">u2").tobytes()
        elif depth == 8:
            line = flat.astype(np.uint8).tobytes()
        else:
            bits = "".join(f"{int(v):0{depth}b}" for v in flat)
            bits += "0" * (-len(bits) % 8)
            line = bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
        kind = y % 3 if previous is not None and depth >= 8 else 0
        raw = np.frombuffer(line, np.uint8)
        step = samples.shape[2] * max(depth // 8, 1)
        if kind == 1:
            left = np.concatenate([np.zeros(step, np.uint8), raw[:-step]])
            coded = raw - left
        elif kind == 2:
            coded = raw - previous
        else:
            coded = raw
        rows += bytes([kind]) + coded.tobytes()
        previous = raw
    return bytes(rows)


def make_png(samples, depth, color, *, interlace=False, before=b"", after=b"", idat_bytes=400) -> bytes:
    height, width, channels = samples.shape
    assert channels == PNG_CHANNELS[color]
    ihdr = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlace))
    if interlace:
        parts = [samples[y0::dy, x0::dx] for x0, y0, dx, dy in ADAM7]
        data = b"".join(pack_rows(part, depth) for part in parts if part.size)
    else:
        data = pack_rows(samples, depth)
    packed = zlib.compress(data, 9)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", ihdr) + before
    for at in range(0, len(packed), idat_bytes):
        out += chunk(b"IDAT", packed[at : at + idat_bytes])
    return out + after + chunk(b"IEND", b"")


def palette(entries: int) -> bytes:
    colors = np.random.default_rng(entries).integers(0, 256, (entries, 3), dtype=np.uint8)
    return chunk(b"PLTE", colors.tobytes())


def png_files() -> dict:
    """name -> (bytes, expected RGB or None for "as Pillow")"""
    files = {}
    for interlace in (False, True):
        suffix = "_adam7" if interlace else ""
        for depth in (1, 2, 4, 8):
            files[f"gray{depth}{suffix}"] = make_png(picture(1, depth), depth, 0, interlace=interlace)
            files[f"palette{depth}{suffix}"] = make_png(
                picture(1, depth), depth, 3, interlace=interlace, before=palette(2**depth)
            )
        for color, name in ((2, "rgb"), (4, "la"), (6, "rgba")):
            for depth in (8, 16):
                files[f"{name}{depth}{suffix}"] = make_png(
                    picture(PNG_CHANNELS[color], depth), depth, color, interlace=interlace
                )
    alphas = chunk(b"tRNS", bytes(range(0, 250, 17)))
    files["palette4_trns"] = make_png(picture(1, 4), 4, 3, before=palette(16) + alphas)
    files["palette8_trns"] = make_png(picture(1, 8), 8, 3, before=palette(256) + alphas)
    one_clear = chunk(b"tRNS", b"\xff\xff\x00")
    files["palette2_trns_one"] = make_png(picture(1, 2), 2, 3, before=palette(4) + one_clear)
    gray = picture(1)
    files["gray8_trns"] = make_png(gray, 8, 0, before=chunk(b"tRNS", struct.pack(">H", int(gray[5, 5, 0]))))
    files["gray1_trns"] = make_png(picture(1, 1), 1, 0, before=chunk(b"tRNS", struct.pack(">H", 1)))
    rgb = picture(3)
    files["rgb8_trns"] = make_png(
        rgb, 8, 2, before=chunk(b"tRNS", struct.pack(">3H", *(int(v) for v in rgb[7, 9])))
    )
    files["exif_before"] = make_png(rgb, 8, 2, before=chunk(b"eXIf", exif(6)[6:]))
    files["exif_after"] = make_png(rgb, 8, 2, after=chunk(b"eXIf", exif(3, little=False)[6:]))
    files["exif_rgba_adam7"] = make_png(
        picture(4), 8, 6, interlace=True, before=chunk(b"eXIf", exif(8)[6:])
    )
    files["pixel"] = make_png(picture(3)[:1, :1], 8, 2)
    files["column"] = make_png(picture(3)[:, :1], 8, 2, interlace=True)
    files = {name: (data, None) for name, data in files.items()}

    # Where we follow the PNG standard, or common sense, and Pillow does not.
    # 16-bit gray: the high byte, as Pillow does for all other 16-bit kinds (it clips gray at 255).
    gray16 = picture(1, 16)
    high = np.repeat(gray16 >> 8, 3, axis=2).astype(np.uint8)
    files["gray16"] = (make_png(gray16, 16, 0), high)
    files["gray16_adam7"] = (make_png(gray16, 16, 0, interlace=True), high)
    # tRNS names a value of the file's own depth (Pillow compares it with the widened sample).
    gray4 = picture(1, 4)
    clear = int(gray4[3, 3, 0])
    want = np.repeat(np.where(gray4 == clear, 255, gray4 * 17), 3, axis=2).astype(np.uint8)
    files["gray4_trns"] = (make_png(gray4, 4, 0, before=chunk(b"tRNS", struct.pack(">H", clear))), want)
    rgb16 = picture(3, 16)
    key = [int(v) for v in rgb16[4, 4]]
    match = (rgb16 == np.array(key)).all(axis=2, keepdims=True)
    files["rgb16_trns"] = (
        make_png(rgb16, 16, 2, before=chunk(b"tRNS", struct.pack(">3H", *key))),
        np.where(match, 255, rgb16 >> 8).astype(np.uint8),
    )
    # Damaged metadata is passed over (Pillow gives up on it).
    bad = (
        chunk(b"gAMA", b"\0\0\xb1\x8f", damage=1)
        + chunk(b"pHYs", b"\1\2")
        + chunk(b"iCCP", b"no profile")
        + chunk(b"zTXt", b"key\0\0not deflate")
        + chunk(b"tRNS", b"\1")
        + chunk(b"eXIf", b"MM\0*\0\0\xff\xff")
    )
    files["bad_metadata"] = (make_png(rgb, 8, 2, before=bad), rgb.astype(np.uint8))
    return {f"{name}.png": value for name, value in files.items()}


# ---- JPEG ----------------------------------------------------------------------------------------


def exif(orientation: int, *, little=True, kind=3) -> bytes:
    """An EXIF block with a few entries, the orientation in the middle of them."""
    order = "<" if little else ">"

    def entry(tag, type_, count, value):
        packed = struct.pack(order + ("H2x" if type_ == 3 else "I"), value)
        return struct.pack(order + "HHI", tag, type_, count) + packed

    entries = [entry(0x0100, 4, 1, WIDTH), entry(0x0112, kind, 1, orientation), entry(0x0128, 3, 1, 2)]
    head = (b"II" if little else b"MM") + struct.pack(order + "HI", 42, 8)
    return b"Exif\0\0" + head + struct.pack(order + "H", len(entries)) + b"".join(entries) + b"\0" * 4


def save_jpeg(image: Image.Image, **options) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", **{"quality": 88, "subsampling": 0, **options})
    return out.getvalue()


def jpeg_files() -> dict:
    rgb = Image.fromarray(picture(3).astype(np.uint8))
    gray = Image.fromarray(picture(1)[..., 0].astype(np.uint8))
    cmyk = Image.frombytes("CMYK", (WIDTH, HEIGHT), picture(4).astype(np.uint8).tobytes())
    files = {
        "gray": save_jpeg(gray),
        "gray_progressive": save_jpeg(gray, progressive=True),
        "rgb444": save_jpeg(rgb),
        "rgb422": save_jpeg(rgb, subsampling=1),
        "rgb420": save_jpeg(rgb, subsampling=2),
        "rgb420_low": save_jpeg(rgb, subsampling=2, quality=12),
        "rgb420_progressive": save_jpeg(rgb, subsampling=2, progressive=True),
        "rgb444_restart": save_jpeg(rgb, restart_marker_blocks=3),
        "rgb_stored": save_jpeg(rgb, keep_rgb=True),
        "cmyk_adobe": save_jpeg(cmyk),
        "cmyk_progressive": save_jpeg(cmyk, progressive=True),
        "pixel": save_jpeg(rgb.crop((0, 0, 1, 1)), subsampling=2),
        "row": save_jpeg(rgb.crop((0, 0, WIDTH, 1)), subsampling=2),
        "orientation_long": save_jpeg(rgb, exif=exif(5, kind=4)),
        "orientation_9": save_jpeg(rgb, exif=exif(9)),
        "orientation_0": save_jpeg(rgb, exif=exif(0, little=False)),
        "exif_cut": save_jpeg(rgb, exif=exif(6)[:30]),
        "exif_no_order": save_jpeg(rgb, exif=b"Exif\0\0XX" + exif(6)[8:]),
        "exif_far": save_jpeg(rgb, exif=b"Exif\0\0MM\0*\xff\xff\xff\xf0" + b"\0" * 20),
    }
    for orientation in range(1, 9):
        files[f"orientation_{orientation}"] = save_jpeg(
            rgb, subsampling=2 if orientation % 2 else 0, exif=exif(orientation, little=orientation < 5)
        )
    # The same samples read as YCCK (Adobe transform 2), and with no Adobe marker at all.
    adobe = files["cmyk_adobe"].index(b"\xff\xee\x00\x0eAdobe")
    assert files["cmyk_adobe"][adobe + 15] == 0
    data = bytearray(files["cmyk_adobe"])
    data[adobe + 15] = 2
    files["ycck_adobe"] = bytes(data)
    files["cmyk_plain"] = files["cmyk_adobe"][:adobe] + files["cmyk_adobe"][adobe + 16 :]

    upright = np.asarray(rgb_reference(files["rgb444"]))
    broken_exif = {"exif_cut", "exif_no_order", "exif_far"}  # Pillow may raise on these
    return {f"{n}.jpg": (d, upright if n in broken_exif else None) for n, d in files.items()}


# ---- expected values -----------------------------------------------------------------------------


def rgb_reference(data: bytes) -> Image.Image:
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = Image.new("RGB", image.size, (255, 255, 255))
    white.paste(image, mask=image.getchannel("A"))
    return white


def write_images(out: pathlib.Path) -> None:
    lines = ["# file width height offset_in_images_rgb.bin: oriented size; RGB8 pixels expected"]
    pixels = bytearray()
    for name, (data, expected) in sorted({**png_files(), **jpeg_files()}.items()):
        if expected is None:
            expected = np.asarray(rgb_reference(data))
        (out / name).write_bytes(data)
        lines.append(f"{name} {expected.shape[1]} {expected.shape[0]} {len(pixels)}")
        pixels += np.ascontiguousarray(expected).tobytes()
    (out / "images_rgb.bin").write_bytes(bytes(pixels))
    (out / "images.txt").write_text("\n".join(lines) + "\n")


RESIZES = [
    # source width, height, target width, height
    (1, 1, 1, 1), (1, 1, 7, 5), (1, 1, 1, 90), (2, 2, 3, 3), (3, 2, 2, 3), (5, 5, 5, 5),
    (1, 5000, 1, 13), (1, 13, 1, 5000), (5000, 1, 28, 28), (13, 1, 5000, 1), (1, 700, 56, 56),
    (64, 48, 64, 48), (64, 48, 28, 48), (64, 48, 64, 28), (64, 48, 28, 28), (64, 48, 196, 140),
    (64, 48, 65, 49), (64, 48, 63, 47), (100, 3, 3, 100), (3, 100, 100, 3), (200, 150, 28, 28),
    (321, 243, 308, 252), (321, 243, 28, 252), (127, 333, 336, 28), (512, 384, 56, 84),
    (28, 28, 392, 28), (33, 77, 112, 280), (255, 257, 1, 1), (255, 257, 2, 1), (17, 19, 340, 20),
]


def write_resizes(out: pathlib.Path) -> None:
    lines = ["# seed source_width source_height width height fnv64(RGB bytes)"]
    for i, (sw, sh, dw, dh) in enumerate(RESIZES):
        for extreme in (False, True):
            seed = 1000 + 2 * i + extreme
            source = lcg_pixels(seed, sw, sh)
            if extreme:  # black and white only: overshoot on both sides
                source = np.where(source < 128, 0, 255).astype(np.uint8)
            resized = Image.fromarray(source).resize((dw, dh), Image.Resampling.BICUBIC)
            lines.append(f"{seed} {sw} {sh} {dw} {dh} {fnv64(resized.tobytes())}")
    (out / "resize.txt").write_text("\n".join(lines) + "\n")


PATCHES = [
    # width, height, options of the processor
    (100, 80, {}),
    (56, 56, {}),
    (30, 200, {"max_pixels": 28 * 28 * 12}),
    (640, 40, {"min_pixels": 28 * 28 * 16, "max_pixels": 28 * 28 * 40}),
    (112, 84, {"do_normalize": False}),
    (112, 84, {"do_rescale": False}),
    (112, 84, {"do_rescale": False, "do_normalize": False}),
    (84, 56, {"do_resize": False}),
    (90, 70, {"patch_size": 16}),
    (90, 70, {"merge_size": 1, "temporal_patch_size": 1}),
    (97, 61, {"merge_size": 3, "temporal_patch_size": 3, "patch_size": 6}),
    (90, 70, {"image_mean": [0.5, 0.25, 0.1], "image_std": [0.3, 0.7, 0.9], "rescale_factor": 1 / 127.5}),
]


def write_patches(out: pathlib.Path) -> None:
    lines = [
        "# seed width height resized_width resized_height grid_h grid_w patch temporal merge do_resize"
        " do_rescale do_normalize rescale_factor mean*3 std*3 rows row_length fnv64(float32 bytes)"
    ]
    for i, (width, height, options) in enumerate(PATCHES):
        seed = 5000 + i
        # Small defaults: the models' limits would make large goldens slow to hash in Python.
        options = {"min_pixels": 56 * 56, "max_pixels": 28 * 28 * 24, **options}
        processor = Qwen2VLImageProcessorPil(**options)
        image = Image.fromarray(lcg_pixels(seed, width, height))
        result = processor(images=[image], return_tensors="np")
        values = np.asarray(result["pixel_values"])
        assert values.dtype == np.float32
        t, grid_h, grid_w = (int(v) for v in result["image_grid_thw"][0])
        assert t == 1
        p = processor
        fields = [
            seed, width, height, grid_w * p.patch_size, grid_h * p.patch_size, grid_h, grid_w,
            p.patch_size, p.temporal_patch_size, p.merge_size,
            int(p.do_resize), int(p.do_rescale), int(p.do_normalize), repr(float(p.rescale_factor)),
            *(repr(float(v)) for v in p.image_mean), *(repr(float(v)) for v in p.image_std),
            values.shape[0], values.shape[1], fnv64(np.ascontiguousarray(values).tobytes()),
        ]
        lines.append(" ".join(str(field) for field in fields))
    (out / "patches.txt").write_text("\n".join(lines) + "\n")


def main() -> None:
    root = pathlib.Path(__file__).resolve().parents[2]
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests" / "data" / "media"
    out.mkdir(parents=True, exist_ok=True)
    write_images(out)
    write_resizes(out)
    write_patches(out)


if __name__ == "__main__":
    main()
