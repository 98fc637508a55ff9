//! rserve: first tokens for requests of text and pictures, encoding overlapped with prefill.
//!
//! ```no_run
//! use rserve::{Config, Engine, EventKind, Request};
//!
//! fn main() -> rserve::Result<()> {
//!     let (engine, mut events) = Engine::create(Config::new("models/digits"))?;
//!     let picture = std::fs::read("0001.png").expect("a picture");
//!     let request = Request::new().image(picture).text("Which digit is in picture 1?").chat();
//!     let id = engine.submit(&request)?;
//!     for event in events.iter() {
//!         if let EventKind::FirstToken { token, .. } = event?.kind {
//!             println!("{}", engine.decode(&[token])?);
//!         }
//!     }
//!     engine.acknowledge(id)
//! }
//! ```
//!
//! # Threads
//!
//! The types say what `rserve.h` says. [`Engine`] is what any thread may call at any time: `Send`,
//! `Sync` and cheap to clone. [`Events`] is the driver, whose calls must not overlap: there is one an
//! engine, it is `Send`, and polling needs `&mut`. The engine ends, blocking until computations under
//! way are over, when the last clone and the events are dropped. An [`Orchestrator`] belongs to one
//! thread at a time: `Send`, not `Sync`. Snapshots ([`Detail`], [`Plan`]) never change and go anywhere.
//!
//! # Pictures
//!
//! A picture that a request borrows is copied by [`Engine::submit`]. One that it owns ([`Bytes`]: a
//! `Vec<u8>`, an `Arc` of anything that has bytes) is not copied: the request's share of it is dropped
//! when its [`EventKind::InputReleased`] was polled. To lend borrowed memory without a copy, submit in
//! an [`Events::scope`], which gives it back before it returns.
//!
//! # Waiting
//!
//! [`Events`] blocks in `poll(2)` on the engine's wait fd, gives that fd to event loops (`AsFd`), or
//! becomes the thread behind futures ([`future::Client`]).

#![warn(missing_docs)]

mod callbacks;
mod config;
mod detail;
mod engine;
mod error;
mod event;
mod events;
pub mod executor;
pub mod future;
pub mod orchestrator;
mod plan;
mod request;
mod wait;

pub use callbacks::{LogLevel, LogRecord, LogSink, ProgressSink};
pub use config::{
    Backend, Config, DeviceSharing, Gate, Order, Scheme, Sharing, StageHandover, Trigger, Weights,
    ENCODERS_SHARED, ENCODE_ALL,
};
pub use detail::{Detail, Item};
pub use engine::{Engine, ModelInfo, Stats};
pub use error::{Code, Error, Result};
pub use event::{Event, EventKind, FirstToken};
pub use events::{Events, Iter, Scope};
pub use executor::Executor;
pub use orchestrator::Orchestrator;
pub use plan::Plan;
pub use request::{Bytes, Dtype, Embeddings, FrameTimes, Frames, Layout, Request};

/// The library's version, "major.minor.patch".
pub fn version() -> &'static str {
    // SAFETY: a static string with a NUL.
    let version = unsafe { std::ffi::CStr::from_ptr(rserve_sys::rserve_version()) };
    version.to_str().unwrap_or("")
}

/// Refuses a library that is older than the header these bindings were written from, or of another
/// major. Every constructor of the crate asks.
pub(crate) fn check_abi() -> Result<()> {
    // SAFETY: takes nothing.
    let abi = unsafe { rserve_sys::rserve_abi_version() };
    let (major, minor) = (abi >> 16, abi & 0xffff);
    let (wanted, least) = (rserve_sys::RSERVE_ABI_MAJOR, rserve_sys::RSERVE_ABI_MINOR);
    if major == wanted && minor >= least {
        return Ok(());
    }
    let message = format!("librserve has ABI {major}.{minor}; this crate needs {wanted}.{least}");
    Err(Error::new(Code::FailedPrecondition, message))
}
