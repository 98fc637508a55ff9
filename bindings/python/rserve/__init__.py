"""Encode/prefill overlap for multimodal inference, through the C ABI of librserve."""

from __future__ import annotations

from ._ffi import load
from .aio import AsyncEngine, AsyncRequest
from .engine import ENCODE_ALL, Detail, Engine, Event, EventType
from .errors import Error, Status
from .parts import Embeddings, Frames, Image, Part, Pixels, Role, Template, Video


def version() -> str:
    """The library's version."""
    return load().rserve_version().decode()


__all__ = [
    "ENCODE_ALL", "AsyncEngine", "AsyncRequest", "Detail", "Embeddings", "Engine", "Error", "Event",
    "EventType", "Frames", "Image", "Part", "Pixels", "Role", "Status", "Template", "Video", "load",
    "version",
]  # fmt: skip
