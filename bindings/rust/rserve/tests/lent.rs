//! Memory that requests borrow is read in place, and is the caller's again after the scope.

use std::panic::{catch_unwind, AssertUnwindSafe};

use rserve::{Engine, EventKind, Orchestrator, Request};

mod common;
use common::{config, pixels, Order};

fn borrowing(frame: &[u8]) -> Request<'_> {
    let request = Request::new().chat().number_images();
    (0..8).fold(request, |r, _| r.pixels(frame, 56, 56)).text("Which digit is in picture 1?")
}

#[test]
fn a_scope_that_ends_early_has_its_memory_back_and_its_events_come_later() {
    let (engine, mut events) = Engine::create(config()).unwrap();
    let mut frame = pixels();
    for round in 0..10 {
        let ids = events.scope(|scope| {
            (0..3).map(|_| scope.submit(&borrowing(&frame)).unwrap()).collect::<Vec<_>>()
        });
        // Ours again: a reader left behind would be a race that the sanitizers see.
        frame.fill(round);
        // The scope has polled every release, so they are there without waiting.
        let mut order = Order::default();
        let mut released = 0;
        while let Some(event) = events.try_next().unwrap() {
            assert!(ids.contains(&event.request_id));
            order.check(&event, 8);
            released += usize::from(matches!(event.kind, EventKind::InputReleased { .. }));
        }
        assert_eq!(released, 3 * 8);
        for event in events.iter() {
            order.check(&event.unwrap(), 8);
        }
        assert_eq!(order.ended, 3);
        ids.into_iter().for_each(|id| engine.acknowledge(id).unwrap());
    }
}

#[test]
fn a_scope_whose_events_are_taken_inside_is_not_cancelled() {
    let (_engine, mut events) = Engine::create(config()).unwrap();
    let frame = pixels();
    let last = events.scope(|scope| {
        scope.submit(&borrowing(&frame).no_detail()).unwrap();
        assert!(scope.next_timeout(None).unwrap().is_some());
        scope.iter().last().unwrap().unwrap()
    });
    assert!(matches!(last.kind, EventKind::Finished { .. }));
    assert!(events.try_next().unwrap().is_none());
}

#[test]
fn a_panic_in_a_scope_passes_through_it_after_the_memory_is_back() {
    let (engine, mut events) = Engine::create(config()).unwrap();
    let mut frame = pixels();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        events.scope(|scope| {
            scope.submit(&borrowing(&frame)).unwrap();
            panic!("on purpose");
        })
    }));
    assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "on purpose");
    frame.fill(0);
    assert!(!events.iter().last().unwrap().unwrap().more);
    assert_eq!(engine.stats().unwrap().open_requests, 0);
}

#[test]
fn types_are_send_and_sync_as_the_header_says() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<rserve::Engine>();
    sync::<rserve::Engine>();
    send::<rserve::Events>();
    send::<Orchestrator>();
    send::<rserve::Detail>();
    sync::<rserve::Detail>();
    send::<rserve::Plan>();
    sync::<rserve::Plan>();
    send::<rserve::future::Call>();
    sync::<rserve::future::Client>();
}
