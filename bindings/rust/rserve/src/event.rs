//! What happens to requests.

use std::time::Duration;

use rserve_sys as sys;

use crate::error::Code;

/// The answer.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct FirstToken {
    /// Its id.
    pub token: i32,
    /// Natural logarithm of its probability, before temperature and top_p.
    pub logprob: f32,
    /// Since the submit.
    pub ttft: Duration,
}

/// Something happened to a request.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Event {
    /// Of the submit.
    pub request_id: u64,
    /// Of the request.
    pub user_data: u64,
    /// When, on CLOCK_MONOTONIC.
    pub time_ns: i64,
    /// False on the request's terminal event, which is its last.
    pub more: bool,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// Always the first.
    Accepted,
    /// A picture was encoded.
    ItemEncoded {
        /// Number of the picture in the request, from 0.
        item: usize,
        /// Rows of its embedding.
        tokens: i64,
    },
    /// The engine has let go of a picture's memory; before or after `ItemEncoded`.
    InputReleased {
        /// Number of the picture in the request, from 0.
        item: usize,
    },
    /// The answer; `Finished` follows.
    FirstToken {
        /// Its id.
        token: i32,
        /// Natural logarithm of its probability, before temperature and top_p.
        logprob: f32,
        /// Since the submit.
        ttft: Duration,
    },
    /// Terminal.
    Finished {
        /// Since the submit.
        elapsed: Duration,
    },
    /// Terminal; the text is in the [`crate::Detail`].
    Failed {
        /// Why.
        code: Code,
        /// Since the submit.
        elapsed: Duration,
    },
    /// Terminal.
    Cancelled {
        /// Since the submit.
        elapsed: Duration,
    },
    /// A type that these bindings do not know, from a newer library.
    Other(i32),
}

fn duration(ns: i64) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
}

impl Event {
    pub(crate) fn from_c(event: &sys::rserve_event) -> Event {
        // SAFETY: the union is plain integers and a float; any member may be read of any type.
        let (item, first_token, terminal) =
            unsafe { (event.u.item, event.u.first_token, event.u.terminal) };
        let index = usize::try_from(item.item).unwrap_or(usize::MAX);
        let elapsed = duration(terminal.elapsed_ns);
        let kind = match event.r#type {
            sys::RSERVE_EVENT_ACCEPTED => EventKind::Accepted,
            sys::RSERVE_EVENT_ITEM_ENCODED => {
                EventKind::ItemEncoded { item: index, tokens: item.tokens }
            }
            sys::RSERVE_EVENT_INPUT_RELEASED => EventKind::InputReleased { item: index },
            sys::RSERVE_EVENT_FIRST_TOKEN => EventKind::FirstToken {
                token: first_token.token,
                logprob: first_token.logprob,
                ttft: duration(first_token.ttft_ns),
            },
            sys::RSERVE_EVENT_FINISHED => EventKind::Finished { elapsed },
            sys::RSERVE_EVENT_FAILED => EventKind::Failed { code: Code::of(event.status), elapsed },
            sys::RSERVE_EVENT_CANCELLED => EventKind::Cancelled { elapsed },
            other => EventKind::Other(other),
        };
        Event {
            request_id: event.request_id,
            user_data: event.user_data,
            time_ns: event.t_mono_ns,
            more: event.flags & sys::RSERVE_EVENT_F_MORE != 0,
            kind,
        }
    }

    /// The answer, if this event brings it.
    pub fn first_token(&self) -> Option<FirstToken> {
        match self.kind {
            EventKind::FirstToken { token, logprob, ttft } => {
                Some(FirstToken { token, logprob, ttft })
            }
            _ => None,
        }
    }
}
