"""What a prompt is made of."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from . import _ffi

_TOKENS, _TEXT, _TEMPLATE, _IMAGE, _PIXELS, _ROLE = 1, 2, 3, 4, 5, 6
_FRAMES, _EMBEDDINGS, _VIDEO = 7, 8, 9
_LAYOUTS = {3: 0, 4: 1, 1: 2}  # by channels: RGB8, RGBA8, gray8
_DTYPES = {"f": (0, 4), "e": (2, 2)}  # by format: number and bytes; bfloat16 has no format
_BF16 = 1
_BORROW = 0x1


@dataclass(frozen=True)
class Image:
    """A picture file: anything with the buffer protocol. Not copied."""

    data: Any


@dataclass(frozen=True)
class Pixels:
    """Pixels: a buffer of unsigned bytes of shape (height, width, channels), such as a NumPy array,
    with 3 channels (RGB), 4 (RGBA, shown over white) or 1 (gray). Rows may lie apart, pixels may not.
    Not copied: do not change it until the engine has let go of it."""

    data: Any


@dataclass(frozen=True)
class Frames:
    """A video: as Pixels, of shape (frames, height, width, channels). Exactly one of `fps` and
    `timestamps` (seconds, one a frame, ascending) says when the frames are; it is never guessed."""

    data: Any
    fps: float = 0.0
    timestamps: Sequence[float] = ()


@dataclass(frozen=True)
class Video:
    """An animated GIF file as a video: anything with the buffer protocol, of which `fps` frames a second
    (0: 2) or `num_frames` in all are taken. Not copied."""

    data: Any
    fps: float = 0.0
    num_frames: int = 0


@dataclass(frozen=True)
class Embeddings:
    """Embeddings that the same encoder made elsewhere: a contiguous buffer of shape (rows, hidden size)
    of float32, float16, or, with `bfloat16`, of any 16-bit numbers. `grid` is (height, width) or
    (time, height, width) in rows; a video has `seconds_per_grid`. Not copied, as Pixels."""

    data: Any
    grid: Sequence[int]
    seconds_per_grid: float = 0.0
    bfloat16: bool = False


@dataclass(frozen=True)
class Template:
    """Text in which names of special tokens become the tokens. Never for a user's text."""

    text: str


@dataclass(frozen=True)
class Role:
    """Begins a message of a chat: "system", "user" or "assistant"."""

    name: str


Part = Union[str, Sequence[int], Image, Pixels, Frames, Video, Embeddings, Template, Role]


class Borrowed:
    """A buffer of a Python object, held until `release`."""

    _PyBUF_STRIDED_RO = 0x0010 | 0x0008
    _PyBUF_FORMAT = 0x0004

    def __init__(self, source: Any) -> None:
        self._view = _ffi.PyBuffer()
        api = ctypes.pythonapi
        api.PyObject_GetBuffer.argtypes = [ctypes.py_object, ctypes.POINTER(_ffi.PyBuffer), ctypes.c_int]
        api.PyObject_GetBuffer(source, self._view, self._PyBUF_STRIDED_RO | self._PyBUF_FORMAT)
        self._held = True

    @property
    def address(self) -> int:
        return self._view.buf or 0

    @property
    def nbytes(self) -> int:
        return self._view.len

    @property
    def format(self) -> str:
        return (self._view.format or b"B").decode()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._view.shape[i] for i in range(self._view.ndim))

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(self._view.strides[i] for i in range(self._view.ndim))

    def release(self) -> None:
        if not self._held:
            return
        self._held = False
        api = ctypes.pythonapi
        api.PyBuffer_Release.argtypes = [ctypes.POINTER(_ffi.PyBuffer)]
        api.PyBuffer_Release.restype = None
        api.PyBuffer_Release(self._view)

    def __del__(self) -> None:
        self.release()


def _bytes_part(kind: int, data: bytes, keep: list[Any]) -> _ffi.Part:
    keep.append(data)
    address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p)
    return _ffi.Part(type=kind, data=address, count=len(data))


def _image_part(image: Image | Video, kind: int = _IMAGE) -> tuple[_ffi.Part, Borrowed]:
    held = Borrowed(image.data)
    if held.nbytes > 1 and held.strides and held.strides[-1] != 1:
        raise ValueError("a picture file's bytes must be contiguous")
    part = _ffi.Part(type=kind, flags=_BORROW, data=held.address, count=held.nbytes)
    return part, held


def _pixels_of(held: Borrowed, lead: int) -> dict[str, int]:
    """The fields of pixels whose last three dimensions, after `lead` others, are height, width and
    channels."""
    shape, strides = held.shape, held.strides
    want = "(frames, height, width, channels)" if lead else "(height, width, channels)"
    if held.format not in ("B", "<B", ">B") or len(shape) != lead + 3 or shape[-1] not in _LAYOUTS:
        raise ValueError(
            f"pixels are {shape} of format {held.format!r}, want {want} of uint8, 1, 3 or 4 channels"
        )
    height, width, channels = shape[-3:]
    if strides[-1] != 1 or strides[-2] != channels or strides[-3] < channels * width:
        raise ValueError(f"pixels have strides {strides}, want rows without gaps inside: copy them into one block")
    return {"width": width, "height": height, "row_stride_bytes": strides[-3], "layout": _LAYOUTS[channels],
            "count": strides[-3] * (height - 1) + channels * width if height > 0 else 0}  # fmt: skip


def _pixels_part(pixels: Pixels) -> tuple[_ffi.Part, Borrowed]:
    held = Borrowed(pixels.data)
    fields = _pixels_of(held, 0)
    return _ffi.Part(type=_PIXELS, flags=_BORROW, data=held.address, **fields), held


def _frames_part(frames: Frames, keep: list[Any]) -> tuple[_ffi.Part, Borrowed]:
    held = Borrowed(frames.data)
    fields = _pixels_of(held, 1)
    count, stride = held.shape[0], held.strides[0]
    if count > 0 and stride < 0:
        raise ValueError(f"frames have strides {held.strides}: copy them into one block")
    fields["count"] += stride * (count - 1) if count > 0 else 0
    times = array.array("d", frames.timestamps)
    beside = _ffi.Frames(struct_size=ctypes.sizeof(_ffi.Frames), num_frames=count, frame_stride_bytes=stride,
                         fps=frames.fps, timestamps_s=times.buffer_info()[0] if times else None,
                         num_timestamps=len(times))  # fmt: skip
    keep += [times, beside]
    part = _ffi.Part(type=_FRAMES, flags=_BORROW, data=held.address, frames=ctypes.pointer(beside), **fields)
    return part, held


def _embeddings_part(embeddings: Embeddings, keep: list[Any]) -> tuple[_ffi.Part, Borrowed]:
    held = Borrowed(embeddings.data)
    shape, strides = held.shape, held.strides
    dtype, size = (_BF16, 2) if embeddings.bfloat16 else _DTYPES.get(held.format.lstrip("<="), (0, 0))
    if len(shape) != 2 or strides != (shape[1] * size, size):
        raise ValueError(f"embeddings are {shape} of format {held.format!r} with strides {strides}, "
                         "want (rows, hidden size) of float32 or float16, contiguous")  # fmt: skip
    if len(embeddings.grid) not in (2, 3):
        raise ValueError(f"a grid of {tuple(embeddings.grid)}, want (height, width) or (time, height, width)")
    t, h, w = (1, *embeddings.grid)[-3:]
    beside = _ffi.Embeddings(struct_size=ctypes.sizeof(_ffi.Embeddings), dtype=dtype, rows=shape[0],
                             width=shape[1], grid_t=t, grid_h=h, grid_w=w,
                             seconds_per_grid=embeddings.seconds_per_grid)  # fmt: skip
    keep.append(beside)
    part = _ffi.Part(type=_EMBEDDINGS, flags=_BORROW, data=held.address, count=held.nbytes,
                     embeddings=ctypes.pointer(beside))  # fmt: skip
    return part, held


def _item_part(part: Any, keep: list[Any]) -> tuple[_ffi.Part, Borrowed]:
    if isinstance(part, Image):
        return _image_part(part)
    if isinstance(part, Video):
        made, held = _image_part(part, _VIDEO)
        beside = _ffi.Frames(struct_size=ctypes.sizeof(_ffi.Frames), fps=part.fps, num_frames=part.num_frames)
        keep.append(beside)
        made.frames = ctypes.pointer(beside)
        return made, held
    if isinstance(part, Pixels):
        return _pixels_part(part)
    return _frames_part(part, keep) if isinstance(part, Frames) else _embeddings_part(part, keep)


def make_parts(parts: Sequence[Part]) -> tuple[ctypes.Array, list[Borrowed], list[Any]]:
    """The C array, the pictures in their order, and what must live until the call is over."""
    out: list[_ffi.Part] = []
    pictures: list[Borrowed] = []
    keep: list[Any] = []
    for part in parts:
        if isinstance(part, str):
            out.append(_bytes_part(_TEXT, part.encode(), keep))
        elif isinstance(part, Template):
            out.append(_bytes_part(_TEMPLATE, part.text.encode(), keep))
        elif isinstance(part, Role):
            out.append(_bytes_part(_ROLE, part.name.encode(), keep))
        elif isinstance(part, (Image, Pixels, Frames, Video, Embeddings)):
            made, held = _item_part(part, keep)
            out.append(made)
            pictures.append(held)
        elif isinstance(part, Sequence) and not isinstance(part, (bytes, bytearray, memoryview)):
            tokens = array.array("i", part)
            keep.append(tokens)
            out.append(_ffi.Part(type=_TOKENS, data=tokens.buffer_info()[0], count=len(tokens)))
        else:
            raise TypeError(f"a part is {type(part).__name__}; wrap picture files in Image, pixels in Pixels")
    return (_ffi.Part * len(out))(*out), pictures, keep
