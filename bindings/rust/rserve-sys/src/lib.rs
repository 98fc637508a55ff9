//! The C ABI of librserve, declared by hand: `include/rserve/rserve.h` here and `rserve/host.h` in
//! [`host`]. What the functions do, their threads, their ownership and their errors stand in those
//! headers; names are theirs. The tests compile a C program that compares every constant, size,
//! offset, field type and signature below with the headers.
//!
//! The safe interface is the crate `rserve`.

#![allow(non_camel_case_types)]
#![allow(clippy::missing_safety_doc)] // the safety contracts are the headers'

use std::ffi::{c_char, c_int, c_void};
use std::marker::{PhantomData, PhantomPinned};

#[macro_use]
mod declare;
mod engine;
pub mod host;

#[cfg(test)]
mod abi_test;

pub use engine::*;

/// `rserve_status_t` and the other enums cross the ABI as 32-bit integers.
pub type rserve_status_t = i32;
pub type rserve_scheme_t = i32;
pub type rserve_gate_t = i32;
pub type rserve_sharing_t = i32;
pub type rserve_trigger_t = i32;
pub type rserve_weights_t = i32;
pub type rserve_backend_t = i32;
pub type rserve_device_sharing_t = i32;
pub type rserve_stage_handover_t = i32;
pub type rserve_order_t = i32;
pub type rserve_choice_t = i32;
pub type rserve_part_type_t = i32;
pub type rserve_layout_t = i32;
pub type rserve_dtype_t = i32;
pub type rserve_event_type_t = i32;

/// The payload of an event, by its type.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rserve_event_u {
    pub first_token: rserve_event_first_token,
    pub item: rserve_event_item,
    pub terminal: rserve_event_terminal,
    pub bytes: [u8; 24],
}

impl std::fmt::Debug for rserve_event_u {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: every member is plain integers or floats without padding.
        unsafe { self.bytes }.fmt(f)
    }
}
