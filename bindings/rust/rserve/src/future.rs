//! Futures over the wait fd, for any executor: one thread waits for the engine and wakes tasks.
//!
//! ```no_run
//! use rserve::{future::block_on, future::Client, Config, Engine, Request};
//!
//! let (engine, events) = Engine::create(Config::new("models/digits"))?;
//! let client = Client::start(engine, events).expect("a thread");
//! let call = client.submit(&Request::new().text("Hello").chat())?;
//! println!("{}", block_on(call)?.token);
//! # Ok::<(), rserve::Error>(())
//! ```

use std::collections::VecDeque;
use std::future::{poll_fn, Future, IntoFuture};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::pin::{pin, Pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};

use crate::detail::Detail;
use crate::engine::{Engine, Shared};
use crate::error::{Code, Error, Result};
use crate::event::{Event, EventKind, FirstToken};
use crate::events::Events;
use crate::request::Request;
use crate::wait::readable;

/// Where the events of one call go.
pub(crate) struct Route {
    has_detail: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    token: Option<FirstToken>,
    /// Once nothing more comes.
    outcome: Option<Result<()>>,
    detail: Option<Detail>,
    waker: Option<Waker>,
}

impl Route {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On the driver's thread.
    pub(crate) fn deliver(&self, engine: &Shared, event: Event) {
        let mut detail = None;
        let mut outcome = None;
        if !event.more {
            if self.has_detail {
                // SAFETY: the handle lives.
                detail = unsafe { Detail::take(engine.handle(), event.request_id) }.ok();
                let _ = engine.acknowledge(event.request_id);
            }
            let message = || detail.as_ref().map_or_else(String::new, Detail::message);
            outcome = Some(match event.kind {
                EventKind::Failed { code, .. } => Err(Error::new(code, message())),
                EventKind::Cancelled { .. } => Err(Error::new(Code::Cancelled, message())),
                _ => Ok(()),
            });
        }
        let mut state = self.state();
        state.token = event.first_token().or(state.token);
        state.events.push_back(event);
        state.detail = detail;
        state.outcome = outcome;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn close(&self, error: Error) {
        let mut state = self.state();
        state.outcome.get_or_insert(Err(error));
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// An engine behind futures. Submits from any thread.
///
/// It is the only taker of the engine's events: requests that were submitted through a clone of the
/// [`Engine`] run, but nobody hears of them.
pub struct Client {
    engine: Engine,
    /// A byte in it ends the thread.
    stop: UnixStream,
    /// None: stopped.
    thread: Option<JoinHandle<Events>>,
}

impl Client {
    /// Starts the thread that waits for events.
    pub fn start(engine: Engine, events: Events) -> io::Result<Client> {
        let (stop, stopped) = UnixStream::pair()?;
        let thread = thread::Builder::new()
            .name("rserve-events".into())
            .spawn(move || run(events, &stopped))?;
        Ok(Client { engine, stop, thread: Some(thread) })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Queues a request. Pictures are copied or shared as with [`Engine::submit`].
    pub fn submit(&self, request: &Request<'_>) -> Result<Call> {
        let route = Arc::new(Route { has_detail: request.has_detail(), state: Mutex::default() });
        // SAFETY: nothing is lent.
        let id = unsafe { self.engine.shared().submit(request, false, Some(route.clone()))? };
        Ok(Call { engine: self.engine.clone(), route, id })
    }

    /// Stops the thread and gives the events back. Open calls end with `Aborted`; their requests go on,
    /// and are the caller's to acknowledge.
    pub fn stop(mut self) -> Events {
        self.join().expect("stopped once")
    }

    fn join(&mut self) -> Option<Events> {
        let thread = self.thread.take()?;
        // A thread that has ended by a panic has closed the other end: nothing to tell it.
        let _ = self.stop.write_all(&[0]);
        let ended = thread.join();
        for route in self.engine.shared().take_routes() {
            route.close(Error::new(
                Code::Aborted,
                "the client was stopped before the request ended",
            ));
        }
        match ended {
            Ok(events) => Some(events),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.join();
    }
}

/// Takes events, which settles and delivers them, until there is a byte in `stopped`.
fn run(mut events: Events, stopped: &UnixStream) -> Events {
    loop {
        let fds = [events.as_fd().as_raw_fd(), stopped.as_raw_fd()];
        // An error of poll(2) is one of its arguments; so is none of ours.
        match readable(fds, None) {
            Ok([_, false]) => while matches!(events.try_next(), Ok(Some(_))) {},
            Ok([_, true]) | Err(_) => return events,
        }
    }
}

/// A request under way: its events as futures, its answer by `await`. Dropping it cancels the request.
/// It needs no acknowledge.
pub struct Call {
    engine: Engine,
    route: Arc<Route>,
    id: u64,
}

impl Call {
    /// The request's id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// As [`Engine::cancel`].
    pub fn cancel(&self) -> Result<()> {
        self.engine.cancel(self.id)
    }

    /// The next event, None after the terminal one; wakes the task when there is more.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.route.state();
        if let Some(event) = state.events.pop_front() {
            return Poll::Ready(Some(event));
        }
        if state.outcome.is_some() {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The next event, None after the terminal one.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The answer, or why there is none, once the request has ended.
    pub async fn first_token(&mut self) -> Result<FirstToken> {
        while self.next().await.is_some() {}
        let state = self.route.state();
        if let Some(Err(err)) = &state.outcome {
            return Err(err.clone());
        }
        state.token.ok_or_else(|| Error::new(Code::Internal, "finished without a first token"))
    }

    /// What is known of the request: its last snapshot, once it has ended.
    pub fn take_detail(&mut self) -> Option<Detail> {
        self.route.state().detail.take()
    }
}

impl IntoFuture for Call {
    type Output = Result<FirstToken>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<FirstToken>> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { self.first_token().await })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.route.state().outcome.is_none() {
            // NotFound: it ended just now.
            let _ = self.cancel();
        }
    }
}

/// Runs a future on this thread: an executor for programs and tests that have none.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future.into_future());
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
