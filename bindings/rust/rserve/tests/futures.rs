//! The engine behind futures.

use std::future::IntoFuture;
use std::sync::Arc;
use std::thread;

use rserve::future::{block_on, Client};
use rserve::{Code, Engine, EventKind};

mod common;
use common::{answer, config, long_request, pixels, prompt, Order, PROMPTS};

fn client() -> Client {
    let (engine, events) = Engine::create(config()).unwrap();
    Client::start(engine, events).unwrap()
}

#[test]
fn calls_from_many_threads_are_answered_each_with_its_own_events() {
    let client = Arc::new(client());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || {
                let calls: Vec<_> =
                    (0..10).map(|i| (i, client.submit(&prompt(i)).unwrap())).collect();
                block_on(async {
                    for (index, mut call) in calls {
                        let mut order = Order::default();
                        let mut events = 0;
                        while let Some(event) = call.next().await {
                            assert_eq!(event.request_id, call.id());
                            order.check(&event, PROMPTS[index % PROMPTS.len()].0.len());
                            events += 1;
                        }
                        assert!(order.ended == 1 && events >= 5);
                        let first = call.first_token().await.unwrap();
                        let text = client.engine().decode(&[first.token]).unwrap();
                        assert_eq!(text, answer(index));
                        let info = call.take_detail().unwrap().info().unwrap();
                        assert_eq!(info.token, first.token);
                    }
                });
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let id = block_on(async {
        let mut call = client.submit(&prompt(0)).unwrap();
        call.first_token().await.unwrap();
        call.id()
    });
    let err = client.engine().acknowledge(id).unwrap_err();
    assert_eq!(err.code(), Code::NotFound, "a call acknowledges itself");
}

#[test]
fn a_dropped_future_cancels_its_request() {
    let client = client();
    let frame = Arc::new(pixels());
    for _ in 0..4 {
        drop(client.submit(&long_request(&frame)).unwrap().into_future());
    }
    let mut call = client.submit(&long_request(&frame)).unwrap();
    let _ = call.cancel(); // NotFound when it was faster
    let result = block_on(call.first_token());
    let stats = client.engine().stats().unwrap();
    match result {
        Ok(_) => assert!(stats.finished > 0, "it was faster than the cancel"),
        Err(err) => assert_eq!(err.code(), Code::Cancelled),
    }
    assert!(block_on(call.next()).is_none());
    drop((call, client));
    assert_eq!(Arc::strong_count(&frame), 1);
}

#[test]
fn a_client_that_stops_in_flight_ends_its_calls_and_gives_the_events_back() {
    let (engine, mut events) = Engine::create(config()).unwrap();
    let frame = Arc::new(pixels());
    // On a busy machine all calls may have ended before the stop, but not every time.
    for _ in 0..100 {
        let client = Client::start(engine.clone(), events).unwrap();
        let calls: Vec<_> =
            (0..10).map(|_| client.submit(&long_request(&frame)).unwrap()).collect();
        events = client.stop();
        let errors: Vec<_> = calls.into_iter().filter_map(|call| block_on(call).err()).collect();
        assert!(errors.iter().all(|err| err.code() == Code::Aborted), "{errors:?}");
        // Their requests went on, to their ends.
        let ended = events.iter().filter(|event| !event.as_ref().unwrap().more).count();
        assert!(ended >= errors.len());
        assert_eq!(Arc::strong_count(&frame), 1);
        if !errors.is_empty() {
            return;
        }
    }
    panic!("1000 calls, all over before the stop");
}

#[test]
fn a_failure_is_the_futures_error() {
    let client = client();
    let mut cut = common::picture(1);
    cut.truncate(cut.len() / 2);
    let mut call = client.submit(&rserve::Request::new().image(cut)).unwrap();
    let err = block_on(call.first_token()).unwrap_err();
    assert_eq!(err.code(), Code::InvalidArgument);
    assert!(!err.message().is_empty());
    let mut call = client.submit(&prompt(0).no_detail()).unwrap();
    let accepted = block_on(call.next()).unwrap();
    assert_eq!(accepted.kind, EventKind::Accepted);
    assert!(block_on(call.first_token()).is_ok());
    assert!(call.take_detail().is_none());
}
