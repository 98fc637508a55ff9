//! What a request needs, in sizes.

use std::ptr::null;

use rserve_sys::host as c;
use rserve_sys::RSERVE_REQUEST_F_NO_DETAIL;

/// The smallest part that is encoded alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unit {
    /// Which item it is a part of; units of an item follow each other.
    pub item: i32,
    /// Embedding rows, at least 1.
    pub tokens: i64,
    /// What the encoder writes; held until the rows are prefilled.
    pub embedding_bytes: i64,
    /// Prepared input; held from its preparation to its encode.
    pub pixel_bytes: i64,
}

/// The prompt's tokens from `token_begin` on take the item's rows from `row_begin` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// In the prompt.
    pub token_begin: i64,
    /// At least 1.
    pub tokens: i64,
    /// Counted over all units of the item.
    pub row_begin: i64,
    /// Whose rows.
    pub item: i32,
    /// Attended in both directions: in one micro-batch or not at all.
    pub atomic: bool,
}

/// What a request needs. Zero is the default of what is not said to be needed.
#[derive(Clone, Debug, Default)]
pub struct HostRequest {
    /// The host's number, not 0, not in use.
    pub request_id: u64,
    /// Comes back in every event.
    pub user_data: u64,
    /// At least 1.
    pub prompt_tokens: i64,
    /// KV room beside the prompt's; 0: 1.
    pub max_new_tokens: i64,
    /// Pictures, clips: the items that units and spans name, from 0.
    pub num_items: i32,
    /// Grouped by item, items ascending.
    pub units: Vec<Unit>,
    /// Ascending, not overlapping; every unit is read by one.
    pub spans: Vec<Span>,
    /// On the clock of `step`; 0: none.
    pub deadline_ns: i64,
    /// Host memory held for it, counted against the limit.
    pub input_bytes: i64,
    /// The last stage that reads its embeddings.
    pub last_reader_stage: i32,
    /// With an executor: the request needs no acknowledge.
    pub no_detail: bool,
    /// Keys of the prompt's full KV blocks, from the first one on: digests of all that they hold.
    /// Blocks that others have written under the same keys are reused.
    pub kv_block_keys: Vec<[u8; 32]>,
}

impl HostRequest {
    /// Calls `f` with the C form, which lives for the call.
    pub(crate) fn lower<R>(&self, f: impl FnOnce(*const c::rserve_host_request) -> R) -> R {
        let units: Vec<c::rserve_unit> = self
            .units
            .iter()
            .map(|unit| c::rserve_unit {
                item: unit.item,
                reserved: 0,
                tokens: unit.tokens,
                embedding_bytes: unit.embedding_bytes,
                pixel_bytes: unit.pixel_bytes,
            })
            .collect();
        let spans: Vec<c::rserve_span> = self
            .spans
            .iter()
            .map(|span| c::rserve_span {
                token_begin: span.token_begin,
                tokens: span.tokens,
                row_begin: span.row_begin,
                item: span.item,
                flags: if span.atomic { c::RSERVE_SPAN_F_ATOMIC } else { 0 },
            })
            .collect();
        let request = c::rserve_host_request {
            num_items: self.num_items,
            request_id: self.request_id,
            user_data: self.user_data,
            prompt_tokens: self.prompt_tokens,
            max_new_tokens: self.max_new_tokens,
            units: if units.is_empty() { null() } else { units.as_ptr() },
            num_units: units.len(),
            spans: if spans.is_empty() { null() } else { spans.as_ptr() },
            num_spans: spans.len(),
            deadline_ns: self.deadline_ns,
            input_bytes: self.input_bytes,
            last_reader_stage: self.last_reader_stage,
            flags: if self.no_detail { RSERVE_REQUEST_F_NO_DETAIL } else { 0 },
            kv_block_keys: if self.kv_block_keys.is_empty() {
                null()
            } else {
                self.kv_block_keys.as_ptr().cast()
            },
            num_kv_block_keys: self.kv_block_keys.len(),
            ..c::rserve_host_request::init()
        };
        f(&request)
    }
}
