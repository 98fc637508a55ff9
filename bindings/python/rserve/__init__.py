"""Encode/prefill overlap for multimodal inference, through the C ABI of librserve."""

from __future__ import annotations

from ._ffi import load
from .aio import AsyncEngine, AsyncRequest
from .engine import ENCODE_ALL, Detail, Engine, Event, EventType
from .errors import Error, Status
from .parts import Image, Part, Pixels, Role, Template


def version() -> str:
    """The library's version."""
    return load().rserve_version().decode()


__all__ = [
    "ENCODE_ALL", "AsyncEngine", "AsyncRequest", "Detail", "Engine", "Error", "Event", "EventType",
    "Image", "Part", "Pixels", "Role", "Status", "Template", "load", "version",
]  # fmt: skip
