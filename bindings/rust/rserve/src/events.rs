//! The driver of an engine: its events, and the scope of lent memory.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rserve_sys as sys;

use crate::engine::Shared;
use crate::error::{call, Code, Error, Result};
use crate::event::Event;
use crate::request::Request;
use crate::wait::readable;

/// Events taken from the library at once.
const BATCH: usize = 64;

/// The events of an engine. There is one of it, so that polls cannot overlap.
pub struct Events {
    shared: Arc<Shared>,
    /// Polled and not yet given out.
    queue: VecDeque<Event>,
}

impl AsFd for Events {
    /// Readable while there may be events: for event loops. Wake-ups coalesce, so take events with
    /// [`Events::try_next`] until there is none.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the engine's, open as long as the engine, which `self` keeps.
        unsafe { BorrowedFd::borrow_raw(self.shared.wait_fd()) }
    }
}

impl Events {
    pub(crate) fn new(shared: Arc<Shared>) -> Events {
        Events { shared, queue: VecDeque::new() }
    }

    /// Moves what the library has into `queue`.
    fn fill(&mut self) -> Result<()> {
        // SAFETY: plain integers and a union of them; zero is a value.
        let mut batch: [sys::rserve_event; BATCH] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        let size = std::mem::size_of::<sys::rserve_event>();
        // Before the poll: what it returns must not be lost.
        self.queue.reserve(BATCH);
        // SAFETY: the handle lives; `&mut self` of the only Events keeps other polls away.
        call(|err| unsafe {
            let handle = self.shared.handle();
            sys::rserve_engine_poll(handle, batch.as_mut_ptr(), BATCH, size, &mut count, err)
        })?;
        for event in batch.iter().take(count).map(Event::from_c) {
            self.queue.push_back(event);
            if let Some(route) = self.shared.settle(&event) {
                route.deliver(&self.shared, event);
            }
        }
        Ok(())
    }

    /// The next event that is there already.
    pub fn try_next(&mut self) -> Result<Option<Event>> {
        if self.queue.is_empty() {
            self.fill()?;
        }
        Ok(self.queue.pop_front())
    }

    /// The next event, for which it waits at most so long (None: as long as it takes, which is for
    /// ever when nothing is open and nobody submits).
    pub fn next_timeout(&mut self, timeout: Option<Duration>) -> Result<Option<Event>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(Some(event));
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            self.wait(left)?;
        }
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        match readable([self.shared.wait_fd()], timeout) {
            Ok(_) => Ok(()),
            Err(err) => Err(Error::new(Code::Internal, format!("poll(2) failed: {err}"))),
        }
    }

    /// Events as they come, waiting for each; ends when no request is open.
    pub fn iter(&mut self) -> Iter<'_> {
        Iter { events: self }
    }

    /// Runs `f`, which may submit requests that borrow pictures without a copy. Before it returns, it
    /// has the memory back: requests whose pictures the engine still holds are cancelled. Their events
    /// are not lost, they come after the scope.
    ///
    /// ```no_run
    /// # use rserve::{Config, Engine, Request};
    /// # let (engine, mut events) = Engine::create(Config::new("model"))?;
    /// let frame = vec![0u8; 84 * 84 * 3];
    /// events.scope(|scope| {
    ///     scope.submit(&Request::new().pixels(&frame, 84, 84).text("What is it?"))?;
    ///     scope.iter().try_for_each(|event| Ok(println!("{:?}", event?)))
    /// })?;
    /// drop(frame); // nobody reads it any more
    /// # Ok::<(), rserve::Error>(())
    /// ```
    ///
    /// What is lent must outlive the scope:
    ///
    /// ```compile_fail,E0597
    /// # use rserve::{Config, Engine, Request};
    /// # let (engine, mut events) = Engine::create(Config::new("model"))?;
    /// events.scope(|scope| {
    ///     let frame = vec![0u8; 84 * 84 * 3];
    ///     scope.submit(&Request::new().pixels(&frame, 84, 84)).map(drop)
    /// })?;
    /// # Ok::<(), rserve::Error>(())
    /// ```
    pub fn scope<'env, R>(&mut self, f: impl FnOnce(&mut Scope<'_, 'env>) -> R) -> R {
        let mut scope = Scope { events: self, lent: Vec::new(), env: PhantomData };
        let result = catch_unwind(AssertUnwindSafe(|| f(&mut scope)));
        scope.reclaim();
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Blocking iterator, see [`Events::iter`].
pub struct Iter<'a> {
    events: &'a mut Events,
}

impl Iterator for Iter<'_> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        loop {
            match self.events.try_next() {
                Ok(Some(event)) => return Some(Ok(event)),
                Ok(None) if self.events.shared.is_idle() => return None,
                Ok(None) => {}
                Err(err) => return Some(Err(err)),
            }
            if let Err(err) = self.events.wait(None) {
                return Some(Err(err));
            }
        }
    }
}

/// Where requests may lend memory that lives for `'env`. See [`Events::scope`].
pub struct Scope<'a, 'env> {
    events: &'a mut Events,
    lent: Vec<u64>,
    /// Invariant: a shorter life cannot be passed off as `'env`.
    env: PhantomData<&'env mut &'env ()>,
}

impl<'env> Scope<'_, 'env> {
    /// As [`crate::Engine::submit`], without copying the pictures that the request borrows.
    pub fn submit(&mut self, request: &Request<'env>) -> Result<u64> {
        self.lent.reserve(1);
        // SAFETY: `'env` outlives the call to Events::scope, which does not return (also not by a
        // panic, and nobody can forget it) before reclaim has seen all of it free.
        let id = unsafe { self.events.shared.submit(request, true, None)? };
        self.lent.push(id);
        Ok(id)
    }

    /// As [`Events::try_next`].
    pub fn try_next(&mut self) -> Result<Option<Event>> {
        self.events.try_next()
    }

    /// As [`Events::next_timeout`].
    pub fn next_timeout(&mut self, timeout: Option<Duration>) -> Result<Option<Event>> {
        self.events.next_timeout(timeout)
    }

    /// As [`Events::iter`].
    pub fn iter(&mut self) -> Iter<'_> {
        self.events.iter()
    }

    fn reclaim(&mut self) {
        for &id in &self.lent {
            if self.events.shared.holds_lent(id) {
                // NotFound: it has ended, and its events say so.
                let _ = self.events.shared.cancel(id);
            }
        }
        while self.lent.iter().any(|&id| self.events.shared.holds_lent(id)) {
            if let Err(err) = self.events.fill().and_then(|()| self.wait_for_lent()) {
                // Nothing says when the memory is free, and this function must not return before.
                eprintln!("rserve: lent memory cannot be taken back: {err}");
                std::process::abort();
            }
        }
    }

    fn wait_for_lent(&self) -> Result<()> {
        if self.lent.iter().any(|&id| self.events.shared.holds_lent(id)) {
            return self.events.wait(None);
        }
        Ok(())
    }
}
