"""Engine: a model with its workers and open requests, driven by submit and poll."""

from __future__ import annotations

import ctypes
import enum
import select
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import _ffi
from .errors import Error, Status, check
from .parts import Borrowed, Part, make_parts

ENCODE_ALL = 2**63 - 1
"""`encode_batch_tokens`: all pictures of a request in one batch."""

_MORE = 0x1
_KEEP_LOGITS, _CHAT, _NUMBER_IMAGES = 0x1, 0x8, 0x20
_KV_REUSE, _NOT_DETERMINISTIC, _CUDNN_ATTENTION, _HOST_EMBEDDINGS = 0x8, 0x10, 0x20, 0x40
_POLL = 64
_CONFIG_FIELDS = {name for name, *_ in _ffi.EngineConfig._fields_} - {
    "struct_size", "scheme", "model_path", "model_path_length", "log", "load_progress",
    "stage_layers", "num_stage_layers", "worker_threads", "num_worker_threads", "worker_cores",
    "num_worker_cores", "reserved", "backend", "devices", "num_devices", "cuda_library",
    "cuda_library_length", "device_sharing", "stage_handover",
}  # fmt: skip
_BACKENDS = ("cpu", "cuda")
_DEVICE_SHARING = ("streams", "turns", "parts")
_STAGE_HANDOVER = ("peer", "nccl", "host")


def _number_of(option: str, name: str, names: tuple[str, ...]) -> int:
    if name not in names:
        raise ValueError(f"{option} is {name!r}; known are {', '.join(names)}")
    return names.index(name)


class EventType(enum.IntEnum):
    ACCEPTED = 1
    ITEM_ENCODED = 2
    INPUT_RELEASED = 3
    FIRST_TOKEN = 4
    FINISHED = 5
    FAILED = 6
    CANCELLED = 7


@dataclass(frozen=True)
class Event:
    """Something happened to a request. `terminal` on its last one."""

    request: int
    type: int  # an EventType, or a number that a newer library knows
    status: Status
    terminal: bool
    time_ns: int  # CLOCK_MONOTONIC
    item: int = -1  # number of the picture; ITEM_ENCODED, INPUT_RELEASED
    item_tokens: int = 0
    token: int = -1  # FIRST_TOKEN
    logprob: float = 0.0
    ttft_ns: int = 0
    elapsed_ns: int = 0  # terminal


@dataclass(frozen=True)
class Detail:
    """What is known of a request, from its submit to its acknowledgement. Times are on
    CLOCK_MONOTONIC, 0: not reached."""

    request: int
    status: Status
    message: str  # why it failed, or ""
    token: int  # -1: none yet
    logprob: float
    tokens: list[int]  # the prompt's, placeholders expanded
    logits: list[float]  # if kept
    submitted_ns: int
    first_encode_ns: int
    last_encode_ns: int
    first_prefill_ns: int
    first_token_ns: int
    ended_ns: int
    first_prepare_ns: int  # first picture given to a media thread
    last_prepare_ns: int
    reused_tokens: int  # of the prompt, whose KV was there


def _make_event(raw: _ffi.Event) -> Event:
    fields: dict[str, Any] = {}
    terminal = not raw.flags & _MORE
    if terminal:
        fields["elapsed_ns"] = raw.u.terminal.elapsed_ns
    elif raw.type == EventType.FIRST_TOKEN:
        first = raw.u.first_token
        fields.update(token=first.token, logprob=first.logprob, ttft_ns=first.ttft_ns)
    elif raw.type in (EventType.ITEM_ENCODED, EventType.INPUT_RELEASED):
        fields.update(item=raw.u.item.item, item_tokens=raw.u.item.tokens)
    known = raw.type in EventType._value2member_map_
    return Event(
        request=raw.request_id,
        type=EventType(raw.type) if known else raw.type,
        status=Status(raw.status),
        terminal=terminal,
        time_ns=raw.t_mono_ns,
        **fields,
    )


class Engine:
    """Loads a checkpoint and serves requests. Options are the fields of rserve_engine_config
    (`stages`, `encoders`, `encode_batch_tokens`, `token_budget`, `threads`, `kv_tokens`, ...).
    `backend` is "cpu" or "cuda"; `devices`: GPU numbers, one a rank of each stage, then one an
    encoder, or a single one for all; `device_sharing`: "streams", "turns" or "parts";
    `stage_handover`: "peer", "nccl" or "host". On GPUs, without `deterministic` a row's bits may
    depend on its batch, and `cudnn_attention` then takes cuDNN's attention for the vision tower;
    without `device_embeddings` pictures' embeddings go through host memory. With `kv_reuse` prompts
    that begin alike, with the same `cache_salt`, reuse their KV.

    `submit`, `cancel`, `detail` and `stats` may be called from any thread; `poll`, `wait` and
    `events` from one thread at a time."""

    def __init__(self, model: str, *, scheme: str = "adaptive", library: str | None = None,
                 backend: str = "cpu", devices: Sequence[int] = (), cuda_library: str = "",
                 device_sharing: str = "streams", stage_handover: str = "peer", kv_reuse: bool = False,
                 deterministic: bool = True, cudnn_attention: bool = False,
                 device_embeddings: bool = True, **options: int) -> None:  # fmt: skip
        self._handle = ctypes.c_void_p()
        self._lock = threading.Lock()  # submits against the release of what they lend
        self._lent: dict[int, list[Borrowed]] = {}
        self._library = _ffi.load(library)
        unknown = set(options) - _CONFIG_FIELDS
        if unknown:
            raise TypeError(f"unknown options {sorted(unknown)}; there are {sorted(_CONFIG_FIELDS)}")
        for chosen, flag in ((kv_reuse, _KV_REUSE), (not deterministic, _NOT_DETERMINISTIC),
                             (cudnn_attention, _CUDNN_ATTENTION),
                             (not device_embeddings, _HOST_EMBEDDINGS)):  # fmt: skip
            options["flags"] = options.get("flags", 0) | (flag if chosen else 0)
        number = ctypes.c_int32()
        name = scheme.encode()
        check(self._library.rserve_scheme_parse, name, len(name), ctypes.byref(number))
        path = str(model).encode()
        file = str(cuda_library).encode()
        config = _ffi.EngineConfig(
            struct_size=ctypes.sizeof(_ffi.EngineConfig), scheme=number.value, model_path=path,
            model_path_length=len(path), backend=_number_of("backend", backend, _BACKENDS),
            devices=(ctypes.c_int32 * len(devices))(*devices), num_devices=len(devices),
            cuda_library=file, cuda_library_length=len(file),
            device_sharing=_number_of("device_sharing", device_sharing, _DEVICE_SHARING),
            stage_handover=_number_of("stage_handover", stage_handover, _STAGE_HANDOVER), **options,
        )  # fmt: skip
        check(self._library.rserve_engine_create, ctypes.byref(config), ctypes.byref(self._handle))
        self._events = (_ffi.Event * _POLL)()

    def submit(self, parts: Sequence[Part], *, chat: bool = False, number_images: bool = False,
               keep_logits: bool = False, timeout: float | None = None, temperature: float = 0.0,
               top_p: float = 0.0, seed: int = 0, user_data: int = 0,
               cache_salt: str = "") -> int:  # fmt: skip
        """Queues a request and returns its id. Never waits for other requests. `timeout` in seconds.
        With `chat` the model's template is written around the parts. With the option
        `embedding_cache_bytes`, embeddings are shared with requests of the same `cache_salt`."""
        array, pictures, keep = make_parts(parts)
        flags = (_KEEP_LOGITS if keep_logits else 0) | (_CHAT if chat else 0)
        flags |= _NUMBER_IMAGES if number_images else 0
        salt = cache_salt.encode()
        request = _ffi.Request(
            struct_size=ctypes.sizeof(_ffi.Request), part_size=ctypes.sizeof(_ffi.Part), parts=array,
            num_parts=len(array), user_data=user_data, flags=flags, temperature=temperature,
            timeout_ns=0 if timeout is None else max(1, int(timeout * 1e9)), top_p=top_p, seed=seed,
            cache_salt=salt, cache_salt_length=len(salt),
        )  # fmt: skip
        number = ctypes.c_uint64()
        with self._lock:
            check(self._library.rserve_engine_submit, self._handle, ctypes.byref(request),
                  ctypes.byref(number))  # fmt: skip
            if pictures:
                self._lent[number.value] = pictures
        del keep
        return number.value

    def cancel(self, request: int) -> None:
        """Asks for the request's end; its terminal event still comes."""
        check(self._library.rserve_engine_cancel, self._handle, request)

    def drain(self) -> None:
        """Refuses new requests; the open ones finish."""
        check(self._library.rserve_engine_drain, self._handle)

    def abort(self) -> None:
        """Refuses new requests; the open ones end as cancelled."""
        check(self._library.rserve_engine_abort, self._handle)

    def poll(self) -> list[Event]:
        """What has happened since the last call. Never blocks."""
        events: list[Event] = []
        count = ctypes.c_size_t(_POLL)
        while count.value == _POLL:
            check(self._library.rserve_engine_poll, self._handle, self._events, _POLL,
                  ctypes.sizeof(_ffi.Event), ctypes.byref(count))  # fmt: skip
            events += [_make_event(self._events[i]) for i in range(count.value)]
        for event in events:
            self._give_back(event)
        return events

    def _give_back(self, event: Event) -> None:
        with self._lock:
            if event.terminal:
                for picture in self._lent.pop(event.request, []):
                    picture.release()
            elif event.type == EventType.INPUT_RELEASED and event.request in self._lent:
                self._lent[event.request][event.item].release()

    def fileno(self) -> int:
        """Readable while there may be events: for select, poll and event loops."""
        return self._library.rserve_engine_wait_fd(self._handle)

    def wait(self, timeout: float | None = None) -> list[Event]:
        """Blocks until something has happened, or for `timeout` seconds."""
        select.select([self.fileno()], [], [], timeout)
        return self.poll()

    def events(self, request: int, others: Callable[[Event], None] | None = None) -> Iterator[Event]:
        """The events of one request up to its terminal one; those of other requests go to `others`."""
        while True:
            found = self.wait()
            for event in found:
                if event.request != request and others is not None:
                    others(event)
            for event in found:
                if event.request == request:
                    yield event
                    if event.terminal:
                        return

    def detail(self, request: int) -> Detail:
        """A snapshot of a request that is not acknowledged."""
        library = self._library
        handle = ctypes.c_void_p()
        check(library.rserve_request_detail, self._handle, request, ctypes.byref(handle))
        try:
            info = _ffi.DetailInfo(struct_size=ctypes.sizeof(_ffi.DetailInfo))
            check(library.rserve_detail_get_info, handle, ctypes.byref(info))
            count = ctypes.c_size_t()
            tokens = library.rserve_detail_tokens(handle, ctypes.byref(count))
            token_list = tokens[: count.value] if count.value else []
            logits = library.rserve_detail_logits(handle, ctypes.byref(count))
            logit_list = logits[: count.value] if count.value else []
            message = library.rserve_detail_message(handle, None).decode("utf-8", "replace")
        finally:
            library.rserve_detail_destroy(handle)
        return Detail(
            request=request, status=Status(info.status), message=message, token=info.token,
            logprob=info.logprob, tokens=token_list, logits=logit_list,
            submitted_ns=info.submitted_ns, first_encode_ns=info.first_encode_ns,
            last_encode_ns=info.last_encode_ns, first_prefill_ns=info.first_prefill_ns,
            first_token_ns=info.first_token_ns, ended_ns=info.ended_ns,
            first_prepare_ns=info.first_prepare_ns, last_prepare_ns=info.last_prepare_ns,
            reused_tokens=info.reused_tokens,
        )  # fmt: skip

    def acknowledge(self, request: int) -> None:
        """Lets go of an ended request's detail."""
        check(self._library.rserve_engine_acknowledge, self._handle, request)

    def stats(self) -> dict[str, int]:
        raw = _ffi.Stats(struct_size=ctypes.sizeof(_ffi.Stats))
        check(self._library.rserve_engine_get_stats, self._handle, ctypes.byref(raw))
        return {name: getattr(raw, name) for name, _ in _ffi.Stats._fields_ if name != "struct_size"}

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; what ends inside a character is replaced."""
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        length = ctypes.c_size_t()
        decode = self._library.rserve_engine_decode
        check(decode, self._handle, array, len(tokens), None, 0, ctypes.byref(length))
        text = ctypes.create_string_buffer(length.value + 1)
        check(decode, self._handle, array, len(tokens), text, length.value, ctypes.byref(length))
        return text.raw[: length.value].decode("utf-8", "replace")

    def close(self) -> None:
        """Aborts what is open and waits for computations under way. Idempotent."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        self._library.rserve_engine_destroy(handle)
        with self._lock:
            for pictures in self._lent.values():
                for picture in pictures:
                    picture.release()
            self._lent.clear()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()


__all__ = ["ENCODE_ALL", "Detail", "Engine", "Error", "Event", "EventType"]
