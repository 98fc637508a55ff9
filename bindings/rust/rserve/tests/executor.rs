//! A model of the host's own behind the engine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use rserve::executor::{Completion, EncodeJob, Executor, StageJob};
use rserve::orchestrator::{HostConfig, HostRequest, Span, Unit};
use rserve::{Code, Engine, Error, EventKind, Request, Result};

/// An "embedding" is one number a picture, prefill adds them up, the first token is the sum.
struct Model {
    embeddings: Mutex<HashMap<(u64, i32), i32>>,
    sums: Mutex<HashMap<u64, i32>>,
    /// Encodes are completed by another thread.
    device: Sender<Completion>,
    dropped: Arc<AtomicUsize>,
}

/// What the pictures of this request do.
const FAILS: u64 = 100;
const PANICS: u64 = 101;
const IS_DROPPED: u64 = 102;

impl Executor for Model {
    fn encode(&self, job: EncodeJob<'_>, done: Completion) {
        for unit in job.units {
            match unit.request_id {
                FAILS => return done.complete(Err(Error::new(Code::DataLoss, "bad picture"))),
                PANICS => panic!("on purpose"),
                IS_DROPPED => return,
                id => self.embeddings.lock().unwrap().insert((id, unit.unit), 1 << unit.unit),
            };
        }
        self.device.send(done).unwrap();
    }

    fn forward(&self, job: StageJob<'_>, done: Completion) {
        assert!(job.last && job.stage == 0);
        for entry in job.entries.iter().filter(|entry| !entry.ended()) {
            let mut sums = self.sums.lock().unwrap();
            let sum = sums.entry(entry.request_id()).or_default();
            for slice in entry.slices().iter().filter(|slice| slice.row_begin == 0) {
                *sum += self.embeddings.lock().unwrap()[&(entry.request_id(), slice.unit)];
            }
        }
        done.complete(Ok(()));
    }

    fn take_first_token(&self, request_id: u64) -> Result<(i32, f32)> {
        Ok((self.sums.lock().unwrap()[&request_id], -0.5))
    }

    fn release_embedding(&self, request_id: u64, unit: i32) {
        self.embeddings.lock().unwrap().remove(&(request_id, unit));
    }

    fn forget(&self, request_id: u64) {
        self.sums.lock().unwrap().remove(&request_id);
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        assert!(self.embeddings.lock().unwrap().is_empty(), "each embedding was released");
        assert!(self.sums.lock().unwrap().is_empty(), "each request was forgotten");
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

fn model(dropped: &Arc<AtomicUsize>) -> (Model, thread::JoinHandle<()>) {
    let (device, work) = channel::<Completion>();
    let thread = thread::spawn(move || work.into_iter().for_each(|done| done.complete(Ok(()))));
    let dropped = dropped.clone();
    let model = Model { embeddings: Mutex::default(), sums: Mutex::default(), device, dropped };
    (model, thread)
}

fn request(request_id: u64, pictures: i32) -> HostRequest {
    let mut request = HostRequest { request_id, num_items: pictures, ..Default::default() };
    for item in 0..pictures {
        let (tokens, token_begin) = (4, i64::from(item) * 6 + 2);
        request.units.push(Unit { item, tokens, embedding_bytes: 64, ..Default::default() });
        request.spans.push(Span { item, tokens, token_begin, ..Default::default() });
    }
    request.prompt_tokens = i64::from(pictures) * 6 + 2;
    request
}

#[test]
fn every_chunk_finds_its_embeddings_and_failures_stay_with_their_request() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let (model, device) = model(&dropped);
    let config = HostConfig { encode_batch_tokens: 4, token_budget: 16, ..Default::default() };
    let (engine, mut events) = Engine::with_executor(&config, model, None).unwrap();
    for id in 1..=20 {
        engine.submit_plan(&request(id, 5)).unwrap();
    }
    for id in [FAILS, PANICS, IS_DROPPED] {
        engine.submit_plan(&request(id, 1)).unwrap();
    }
    let twice = engine.submit_plan(&request(1, 1)).unwrap_err();
    assert_eq!(twice.code(), Code::AlreadyExists);
    let refused = engine.submit(&Request::new().text("a")).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);

    let mut tokens = 0;
    let mut failed = HashMap::new();
    for event in events.iter() {
        let event = event.unwrap();
        match event.kind {
            EventKind::FirstToken { token, logprob, .. } => {
                assert_eq!((token, logprob), (0b11111, -0.5));
                tokens += 1;
            }
            EventKind::Failed { code, .. } => {
                let message = engine.detail(event.request_id).unwrap().message();
                failed.insert(event.request_id, Error::new(code, message));
            }
            _ => {}
        }
        if !event.more {
            engine.acknowledge(event.request_id).unwrap();
        }
    }
    assert_eq!((tokens, failed.len()), (20, 3));
    assert_eq!(failed[&FAILS], Error::new(Code::DataLoss, "bad picture"));
    for id in [PANICS, IS_DROPPED] {
        assert_eq!(failed[&id].code(), Code::Internal);
        assert!(failed[&id].message().contains("dropped"), "{}", failed[&id]);
    }
    drop((engine, events));
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    device.join().unwrap();
}

#[test]
fn an_engine_that_ends_in_flight_waits_for_its_executor_and_drops_it() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let (model, device) = self::model(&dropped);
    let (engine, events) = Engine::with_executor(&HostConfig::default(), model, None).unwrap();
    for id in 1..=50 {
        engine.submit_plan(&HostRequest { no_detail: true, ..request(id, 3) }).unwrap();
    }
    drop((engine, events));
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    device.join().unwrap();

    let (model, device) = self::model(&dropped);
    let bad = HostConfig { stages: -2, ..Default::default() };
    assert!(Engine::with_executor(&bad, model, None).is_err());
    assert_eq!(dropped.load(Ordering::Relaxed), 2, "also when the creation fails");
    device.join().unwrap();
}
