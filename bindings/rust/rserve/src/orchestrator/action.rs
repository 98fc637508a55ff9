//! What a step says to do.

use rserve_sys as sys;
use rserve_sys::host as c;

use super::text;
use crate::error::{slice, Code, Error};

/// A unit of a request, by the host's id and the index in [`super::HostRequest::units`].
pub type UnitRef = c::rserve_unit_ref;
/// The prompt tokens from `token_begin` on take the unit's rows from `row_begin` on.
pub type EmbeddingSlice = c::rserve_embedding_slice;

/// An action under way: to be given to [`super::Orchestrator::finish`] exactly once, also after its
/// request was cancelled, and not after its worker was lost. May travel to the worker's thread.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "every action with work is finished exactly once"]
pub struct Work {
    pub(super) kind: c::rserve_action_kind_t,
    pub(super) token: u64,
}

/// One thing to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action<'a> {
    /// Make the unit's input ready.
    #[allow(missing_docs)]
    Prepare { work: Work, request_id: u64, unit: i32 },
    /// Run the encoder.
    Encode(Encode<'a>),
    /// Run a stage.
    Stage(Stage<'a>),
    /// The micro-batch goes no further: its hand-over can go.
    #[allow(missing_docs)]
    DropMicroBatch { micro_batch: u64 },
    /// The unit's prepared input is free.
    #[allow(missing_docs)]
    ReleasePixels { request_id: u64, unit: i32 },
    /// The unit's embedding is free.
    #[allow(missing_docs)]
    ReleaseEmbedding { request_id: u64, unit: i32 },
    /// Tell the user.
    Event(HostEvent),
    /// Nothing refers to the request any more.
    #[allow(missing_docs)]
    Forget { request_id: u64 },
    /// A kind that these bindings do not know, from a newer library.
    Other(i32),
}

/// Run the encoder over units.
#[derive(Debug)]
#[non_exhaustive]
#[allow(missing_docs)]
pub struct Encode<'a> {
    pub work: Work,
    pub worker: i32,
    pub units: &'a [UnitRef],
    pub tokens: i64,
}

/// Run a stage over a micro-batch.
#[derive(Debug)]
#[non_exhaustive]
pub struct Stage<'a> {
    /// To finish.
    pub work: Work,
    /// Where.
    pub worker: i32,
    /// Which.
    pub stage: i32,
    /// Whether it is the pipeline's last.
    pub last: bool,
    /// The same number on every stage: keys the hand-over.
    pub micro_batch: u64,
    /// A chunk each.
    pub entries: &'a [StageEntry],
    /// Of all entries.
    pub tokens: i64,
}

/// A chunk of one request in a micro-batch.
#[repr(transparent)]
pub struct StageEntry(c::rserve_stage_entry);

// SAFETY: what it points to does not change as long as it can be reached.
unsafe impl Sync for StageEntry {}

impl StageEntry {
    /// Whose.
    pub fn request_id(&self) -> u64 {
        self.0.request_id
    }

    /// The first of its prompt tokens.
    pub fn token_begin(&self) -> i64 {
        self.0.token_begin
    }

    /// How many.
    pub fn tokens(&self) -> i64 {
        self.0.tokens
    }

    /// The request's block table, in token order.
    pub fn kv_blocks(&self) -> &[i32] {
        // SAFETY: the entry is only reached through an action, whose pointers hold as long.
        unsafe { slice(self.0.kv_blocks, self.0.num_kv_blocks) }
    }

    /// The embedding rows that the chunk reads; on stages that read embeddings.
    pub fn slices(&self) -> &[EmbeddingSlice] {
        // SAFETY: the same.
        unsafe { slice(self.0.slices, self.0.num_slices) }
    }

    /// Ends the prompt: the last stage yields a token.
    pub fn last_chunk(&self) -> bool {
        self.0.flags & c::RSERVE_ENTRY_F_LAST_CHUNK != 0
    }

    /// Its request has ended: rows must exist, values not.
    pub fn ended(&self) -> bool {
        self.0.flags & c::RSERVE_ENTRY_F_ENDED != 0
    }
}

impl std::fmt::Debug for StageEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.token_begin() + self.tokens();
        write!(f, "{}[{}, {end})", self.request_id(), self.token_begin())
    }
}

/// When a request passed which point, on the clock of `step`; 0: not yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Times {
    /// Its submit took effect.
    pub submitted_ns: i64,
    /// First batch with a unit of it issued.
    pub first_encode_ns: i64,
    /// Last unit encoded.
    pub last_encode_ns: i64,
    /// First chunk issued to stage 0.
    pub first_prefill_ns: i64,
    /// The answer.
    pub first_token_ns: i64,
}

/// Something happened to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HostEvent {
    /// The host's number.
    pub request_id: u64,
    /// Of the request.
    pub user_data: u64,
    /// What.
    pub kind: HostEventKind,
    /// Of first tokens and terminal events.
    pub times: Times,
}

/// What happened to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HostEventKind {
    /// Always the first, unless refused.
    Accepted,
    /// All units of an item are encoded.
    #[allow(missing_docs)]
    ItemEncoded { item: i32 },
    /// All prepared input of an item is free.
    #[allow(missing_docs)]
    InputReleased { item: i32 },
    /// The last stage is through with the prompt.
    FirstToken,
    /// Terminal.
    Finished,
    /// Terminal.
    Failed(Error),
    /// Terminal.
    Cancelled,
    /// The submit was not accepted; nothing else follows.
    Refused(Error),
    /// A type that these bindings do not know, from a newer library.
    Other(i32),
}

impl<'a> Action<'a> {
    /// None for the end of the actions.
    ///
    /// # Safety
    /// What the action points to holds for `'a`.
    pub(super) unsafe fn from_c(action: &c::rserve_action) -> Option<Action<'a>> {
        let (request_id, unit) = (action.request_id, action.unit);
        let work = || Work { kind: action.kind, token: action.token };
        Some(match action.kind {
            c::RSERVE_ACTION_NONE => return None,
            c::RSERVE_ACTION_PREPARE => Action::Prepare { work: work(), request_id, unit },
            c::RSERVE_ACTION_ENCODE => Action::Encode(Encode {
                work: work(),
                worker: action.worker,
                // SAFETY: the caller's promise; so below.
                units: unsafe { slice(action.units, action.num_units) },
                tokens: action.tokens,
            }),
            c::RSERVE_ACTION_STAGE => Action::Stage(Stage {
                work: work(),
                worker: action.worker,
                stage: action.stage,
                last: action.flags & c::RSERVE_ACTION_F_LAST_STAGE != 0,
                micro_batch: action.micro_batch,
                // SAFETY: StageEntry is a transparent rserve_stage_entry.
                entries: unsafe { slice(action.entries.cast::<StageEntry>(), action.num_entries) },
                tokens: action.tokens,
            }),
            c::RSERVE_ACTION_DROP_MICRO_BATCH => {
                Action::DropMicroBatch { micro_batch: action.micro_batch }
            }
            c::RSERVE_ACTION_RELEASE_PIXELS => Action::ReleasePixels { request_id, unit },
            c::RSERVE_ACTION_RELEASE_EMBEDDING => Action::ReleaseEmbedding { request_id, unit },
            // SAFETY: the caller's promise.
            c::RSERVE_ACTION_EVENT => Action::Event(unsafe { HostEvent::from_c(action) }),
            c::RSERVE_ACTION_FORGET => Action::Forget { request_id },
            other => Action::Other(other),
        })
    }
}

impl HostEvent {
    /// # Safety
    /// What the action points to lives.
    unsafe fn from_c(action: &c::rserve_action) -> HostEvent {
        let error = || {
            // SAFETY: the caller's promise.
            let message = unsafe { text(action.message, action.message_length) };
            Error::new(Code::of(action.status), message)
        };
        let item = action.item;
        let kind = match action.event_type {
            sys::RSERVE_EVENT_ACCEPTED => HostEventKind::Accepted,
            sys::RSERVE_EVENT_ITEM_ENCODED => HostEventKind::ItemEncoded { item },
            sys::RSERVE_EVENT_INPUT_RELEASED => HostEventKind::InputReleased { item },
            sys::RSERVE_EVENT_FIRST_TOKEN => HostEventKind::FirstToken,
            sys::RSERVE_EVENT_FINISHED => HostEventKind::Finished,
            sys::RSERVE_EVENT_FAILED => HostEventKind::Failed(error()),
            sys::RSERVE_EVENT_CANCELLED => HostEventKind::Cancelled,
            c::RSERVE_EVENT_REFUSED => HostEventKind::Refused(error()),
            other => HostEventKind::Other(other),
        };
        // SAFETY: the caller's promise; NULL when there are none.
        let times = unsafe { action.times.as_ref() };
        let times = times.map_or_else(Times::default, |times| Times {
            submitted_ns: times.submitted_ns,
            first_encode_ns: times.first_encode_ns,
            last_encode_ns: times.last_encode_ns,
            first_prefill_ns: times.first_prefill_ns,
            first_token_ns: times.first_token_ns,
        });
        HostEvent { request_id: action.request_id, user_data: action.user_data, kind, times }
    }
}
