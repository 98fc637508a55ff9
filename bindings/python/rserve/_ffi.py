"""The C ABI of librserve: structs and prototypes, as include/rserve/rserve.h declares them."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64
from ctypes import c_void_p

Status = c_int32


class EngineConfig(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("scheme", c_int32),
        ("model_path", c_char_p),
        ("model_path_length", c_size_t),
        ("stages", c_int32),
        ("encoders", c_int32),
        ("encode_batch_tokens", c_int64),
        ("token_budget", c_int64),
        ("flags", c_uint32),
        ("gate", c_int32),
        ("sharing", c_int32),
        ("trigger", c_int32),
        ("encode_flush_ns", c_int64),
        ("max_micro_batches", c_int32),
        ("media_threads", c_int32),
        ("threads", c_int32),
        ("kv_block_tokens", c_int32),
        ("stage_layers", c_void_p),
        ("num_stage_layers", c_size_t),
        ("worker_threads", c_void_p),
        ("num_worker_threads", c_size_t),
        ("worker_cores", c_void_p),
        ("num_worker_cores", c_size_t),
        ("kv_tokens", c_int64),
        ("embedding_bytes", c_int64),
        ("pixel_bytes", c_int64),
        ("encoder_batch_tokens", c_int64),
        ("units_in_flight", c_int64),
        ("input_bytes", c_int64),
        ("queue_requests", c_int64),
        ("max_prompt_tokens", c_int64),
        ("max_image_pixels", c_int64),
        ("max_unacknowledged", c_int64),
        ("log", c_void_p),
        ("load_progress", c_void_p),
        ("embedding_cache_bytes", c_int64),
        ("weights", c_int32),
        ("reserved", c_uint32),
        ("backend", c_int32),
        ("tensor_parallel", c_int32),
        ("devices", POINTER(c_int32)),
        ("num_devices", c_size_t),
        ("cuda_library", c_char_p),
        ("cuda_library_length", c_size_t),
        ("device_sharing", c_int32),
        ("encoder_percent", c_int32),
        ("order", c_int32),
        ("order_stretch", c_int32),
        ("order_guard_ns", c_int64),
        ("slo_ns", c_int64),
        ("min_token_budget", c_int64),
        ("square_root_budget", c_int32),
        ("adaptive_encode_batch", c_int32),
        ("stage_handover", c_int32),
        ("graph_rows", c_int32),
    ]


class Frames(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("num_frames", c_int32),
        ("frame_stride_bytes", c_int64),
        ("fps", c_double),
        ("timestamps_s", c_void_p),
        ("num_timestamps", c_size_t),
    ]


class Embeddings(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_int32),
        ("rows", c_int64),
        ("width", c_int64),
        ("grid_t", c_int32),
        ("grid_h", c_int32),
        ("grid_w", c_int32),
        ("reserved", c_uint32),
        ("seconds_per_grid", c_double),
    ]


class Part(ctypes.Structure):
    _fields_ = [
        ("type", c_int32),
        ("flags", c_uint32),
        ("data", c_void_p),
        ("count", c_size_t),
        ("width", c_int32),
        ("height", c_int32),
        ("row_stride_bytes", c_int64),
        ("layout", c_int32),
        ("reserved", c_uint32),
        ("frames", POINTER(Frames)),
        ("embeddings", POINTER(Embeddings)),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("part_size", c_uint32),
        ("parts", POINTER(Part)),
        ("num_parts", c_size_t),
        ("user_data", c_uint64),
        ("timeout_ns", c_int64),
        ("flags", c_uint32),
        ("temperature", c_float),
        ("top_p", c_float),
        ("reserved", c_uint32),
        ("seed", c_uint64),
        ("cache_salt", c_char_p),
        ("cache_salt_length", c_size_t),
    ]


class FirstToken(ctypes.Structure):
    _fields_ = [("token", c_int32), ("logprob", c_float), ("ttft_ns", c_int64), ("reserved", c_int64)]


class Item(ctypes.Structure):
    _fields_ = [("item", c_int32), ("reserved", c_int32), ("tokens", c_int64), ("reserved2", c_int64)]


class Terminal(ctypes.Structure):
    _fields_ = [("elapsed_ns", c_int64), ("reserved", c_int64 * 2)]


class EventUnion(ctypes.Union):
    _fields_ = [("first_token", FirstToken), ("item", Item), ("terminal", Terminal)]


class Event(ctypes.Structure):
    _fields_ = [
        ("request_id", c_uint64),
        ("user_data", c_uint64),
        ("type", c_int32),
        ("flags", c_uint32),
        ("status", c_int32),
        ("reserved", c_uint32),
        ("t_mono_ns", c_int64),
        ("u", EventUnion),
    ]


class DetailInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("last_event", c_int32),
        ("request_id", c_uint64),
        ("user_data", c_uint64),
        ("status", c_int32),
        ("token", c_int32),
        ("logprob", c_float),
        ("num_items", c_int32),
        ("prompt_tokens", c_int64),
        ("kv_blocks", c_int64),
        ("submitted_ns", c_int64),
        ("first_encode_ns", c_int64),
        ("last_encode_ns", c_int64),
        ("first_prefill_ns", c_int64),
        ("first_token_ns", c_int64),
        ("ended_ns", c_int64),
        ("first_prepare_ns", c_int64),
        ("last_prepare_ns", c_int64),
        ("reused_tokens", c_int64),
    ]


_STATS = (
    "open_requests lingering_requests embedding_bytes peak_embedding_bytes pixel_bytes "
    "peak_pixel_bytes units_in_flight kv_blocks_used peak_kv_blocks_used input_bytes encode_batches "
    "encoded_units encoded_tokens micro_batches prefilled_tokens accepted finished failed cancelled "
    "refused stale_tokens cache_hits cache_shared cache_misses cache_evictions cache_bytes "
    "peak_cache_bytes reused_tokens kv_blocks_cached kv_evictions"
).split()


class Stats(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("idle", c_uint32)] + [(name, c_int64) for name in _STATS]


class PyBuffer(ctypes.Structure):
    """CPython's Py_buffer."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", POINTER(ctypes.c_ssize_t)),
        ("strides", POINTER(ctypes.c_ssize_t)),
        ("suboffsets", POINTER(ctypes.c_ssize_t)),
        ("internal", c_void_p),
    ]


_ERR = POINTER(c_void_p)
_PROTOTYPES = {
    "rserve_version": (c_char_p, []),
    "rserve_abi_version": (c_uint32, []),
    "rserve_status_name": (c_char_p, [Status]),
    "rserve_error_message": (c_char_p, [c_void_p, POINTER(c_size_t)]),
    "rserve_error_destroy": (None, [c_void_p]),
    "rserve_scheme_parse": (Status, [c_char_p, c_size_t, POINTER(c_int32), _ERR]),
    "rserve_engine_create": (Status, [POINTER(EngineConfig), POINTER(c_void_p), _ERR]),
    "rserve_engine_destroy": (None, [c_void_p]),
    "rserve_engine_submit": (Status, [c_void_p, POINTER(Request), POINTER(c_uint64), _ERR]),
    "rserve_engine_cancel": (Status, [c_void_p, c_uint64, _ERR]),
    "rserve_engine_drain": (Status, [c_void_p, _ERR]),
    "rserve_engine_abort": (Status, [c_void_p, _ERR]),
    "rserve_engine_poll": (
        Status,
        [c_void_p, POINTER(Event), c_size_t, c_size_t, POINTER(c_size_t), _ERR],
    ),
    "rserve_engine_wait_fd": (c_int, [c_void_p]),
    "rserve_engine_acknowledge": (Status, [c_void_p, c_uint64, _ERR]),
    "rserve_request_detail": (Status, [c_void_p, c_uint64, POINTER(c_void_p), _ERR]),
    "rserve_detail_get_info": (Status, [c_void_p, POINTER(DetailInfo), _ERR]),
    "rserve_detail_message": (c_char_p, [c_void_p, POINTER(c_size_t)]),
    "rserve_detail_tokens": (POINTER(c_int32), [c_void_p, POINTER(c_size_t)]),
    "rserve_detail_logits": (POINTER(c_float), [c_void_p, POINTER(c_size_t)]),
    "rserve_detail_destroy": (None, [c_void_p]),
    "rserve_engine_get_stats": (Status, [c_void_p, POINTER(Stats), _ERR]),
    "rserve_engine_decode": (
        Status,
        [c_void_p, POINTER(c_int32), c_size_t, c_void_p, c_size_t, POINTER(c_size_t), _ERR],
    ),
}

ABI_MAJOR, ABI_MINOR = 0, 2

_library: ctypes.CDLL | None = None


def load(path: str | None = None) -> ctypes.CDLL:
    """Loads librserve once; later calls return it."""
    global _library
    if _library is not None:
        return _library
    name = path or os.environ.get("RSERVE_LIBRARY") or ctypes.util.find_library("rserve")
    library = ctypes.CDLL(name or "librserve.so.0")
    for function, (result, arguments) in _PROTOTYPES.items():
        prototype = getattr(library, function)
        prototype.restype = result
        prototype.argtypes = arguments
    abi = library.rserve_abi_version()
    if abi >> 16 != ABI_MAJOR or abi & 0xFFFF < ABI_MINOR:
        raise ImportError(
            f"{name} has the ABI {abi >> 16}.{abi & 0xFFFF}, this package needs {ABI_MAJOR}.{ABI_MINOR}"
        )
    _library = library
    return library
