"""What a prompt is made of."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from . import _ffi

_TOKENS, _TEXT, _TEMPLATE, _IMAGE, _PIXELS, _ROLE = 1, 2, 3, 4, 5, 6
_BORROW = 0x1


@dataclass(frozen=True)
class Image:
    """A picture file: anything with the buffer protocol. Not copied."""

    data: Any


@dataclass(frozen=True)
class Pixels:
    """RGB pixels: a buffer of unsigned bytes of shape (height, width, 3), such as a NumPy array. Rows
    may lie apart, pixels may not. Not copied: do not change it until the engine has let go of it."""

    data: Any


@dataclass(frozen=True)
class Template:
    """Text in which names of special tokens become the tokens. Never for a user's text."""

    text: str


@dataclass(frozen=True)
class Role:
    """Begins a message of a chat: "system", "user" or "assistant"."""

    name: str


Part = Union[str, Sequence[int], Image, Pixels, Template, Role]


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


def _image_part(image: Image) -> tuple[_ffi.Part, Borrowed]:
    held = Borrowed(image.data)
    if held.nbytes > 1 and held.strides and held.strides[-1] != 1:
        raise ValueError("a picture file's bytes must be contiguous")
    part = _ffi.Part(type=_IMAGE, flags=_BORROW, data=held.address, count=held.nbytes)
    return part, held


def _pixels_part(pixels: Pixels) -> tuple[_ffi.Part, Borrowed]:
    held = Borrowed(pixels.data)
    shape, strides = held.shape, held.strides
    if held.format not in ("B", "<B", ">B") or len(shape) != 3 or shape[2] != 3:
        raise ValueError(f"pixels are {shape} of format {held.format!r}, want (height, width, 3) of uint8")
    if strides[2] != 1 or strides[1] != 3 or strides[0] < 3 * shape[1]:
        raise ValueError(f"pixels have strides {strides}, want (any, 3, 1): copy them into one block")
    height, width = shape[0], shape[1]
    count = strides[0] * (height - 1) + 3 * width if height > 0 else 0
    part = _ffi.Part(type=_PIXELS, flags=_BORROW, data=held.address, count=count, width=width,
                     height=height, row_stride_bytes=strides[0])  # fmt: skip
    return part, held


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
        elif isinstance(part, (Image, Pixels)):
            made, held = _image_part(part) if isinstance(part, Image) else _pixels_part(part)
            out.append(made)
            pictures.append(held)
        elif isinstance(part, Sequence) and not isinstance(part, (bytes, bytearray, memoryview)):
            tokens = array.array("i", part)
            keep.append(tokens)
            out.append(_ffi.Part(type=_TOKENS, data=tokens.buffer_info()[0], count=len(tokens)))
        else:
            raise TypeError(f"a part is {type(part).__name__}; wrap picture files in Image, pixels in Pixels")
    return (_ffi.Part * len(out))(*out), pictures, keep
