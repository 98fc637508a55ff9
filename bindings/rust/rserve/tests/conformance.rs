//! What every binding must do, on the shipped model: answers, order of events, cancel, bad input,
//! shutdown in flight, two engines, many requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rserve::{
    Code, Config, Embeddings, Engine, Error, EventKind, Events, FrameTimes, Frames, Layout, Plan,
    Request, Scheme,
};

mod common;
use common::{answer, config, long_request, picture, pixels, prompt, Order, PROMPTS};

/// The answer to one request, everything else checked on the way.
fn ask(engine: &Engine, events: &mut Events, request: &Request<'_>) -> Result<String, Error> {
    let id = engine.submit(request)?;
    let mut order = Order::default();
    let mut text = String::new();
    let mut failed = None;
    for event in events.iter() {
        let event = event?;
        assert_eq!(event.request_id, id);
        order.check(&event, request.num_pictures());
        match event.kind {
            EventKind::FirstToken { token, .. } => text = engine.decode(&[token])?,
            EventKind::Failed { code, .. } => failed = Some(code),
            EventKind::Cancelled { .. } => failed = Some(Code::Cancelled),
            _ => {}
        }
    }
    let message = engine.detail(id)?.message();
    engine.acknowledge(id)?;
    assert_eq!(engine.acknowledge(id).unwrap_err().code(), Code::NotFound);
    failed.map_or(Ok(text), |code| Err(Error::new(code, message)))
}

fn create(config: Config) -> (Engine, Events) {
    Engine::create(config).unwrap_or_else(|err| panic!("{err}"))
}

#[test]
fn answers_are_the_references_and_events_come_in_a_legal_order() {
    let (engine, mut events) = create(config());
    for index in 0..PROMPTS.len() {
        assert_eq!(ask(&engine, &mut events, &prompt(index)).unwrap(), answer(index));
    }
    let stats = engine.stats().unwrap();
    assert_eq!((stats.accepted, stats.finished), (4, 4));
    assert!(events.iter().next().is_none(), "nothing is open");
    assert!(events.next_timeout(Some(Duration::from_millis(1))).unwrap().is_none());
}

#[test]
fn gray_and_opaque_pixels_are_those_of_the_same_rgb_picture_at_any_stride() {
    let (engine, mut events) = create(config());
    let gray: Vec<u8> = (0..56 * 56).map(|i| (i * 7 % 251) as u8).collect();
    let rgb: Vec<u8> = gray.iter().flat_map(|&g| [g, g, g]).collect();
    let rgba: Vec<u8> = gray.iter().flat_map(|&g| [g, g, g, 255]).collect();
    let gapped: Vec<u8> = gray.chunks(56).flat_map(|row| [row, &[0; 8]].concat()).collect();
    let mut logits = |layout, bytes: &[u8], stride| {
        let request = Request::new().pixels_in(layout, bytes, 56, 56, stride).keep_logits();
        let id = engine.submit(&request).unwrap();
        assert!(!events.iter().last().unwrap().unwrap().more);
        engine.detail(id).unwrap().logits().to_vec()
    };
    let want = logits(Layout::Rgb8, &rgb, 0);
    assert!(!want.is_empty());
    assert_eq!(logits(Layout::Rgba8, &rgba, 0), want);
    assert_eq!(logits(Layout::Gray8, &gray, 0), want);
    assert_eq!(logits(Layout::Gray8, &gapped, 64), want);
}

#[test]
fn frames_and_embeddings_are_taken_and_what_comes_again_is_cached() {
    let (engine, mut events) = create(Config { embedding_cache_bytes: 1 << 20, ..config() });
    let mut run = |request: Request<'_>| {
        let id = engine.submit(&request.keep_logits().keep_embeddings())?;
        assert!(!events.iter().last().unwrap().unwrap().more);
        let detail = engine.detail(id)?;
        Ok::<_, Error>((detail.logits().to_vec(), detail.embeddings().to_vec()))
    };
    let video: Vec<u8> = (0..4 * 56 * 56).map(|i| (i * 7 % 251) as u8).collect();
    let frames = |times| Frames {
        layout: Layout::Gray8,
        width: 56,
        height: 56,
        row_stride_bytes: 0,
        num_frames: 4,
        frame_stride_bytes: 0,
        times,
    };
    let by_rate = run(Request::new().frames(&video, frames(FrameTimes::Fps(1.0)))).unwrap();
    let seconds = || FrameTimes::Seconds(vec![0.0, 1.0, 2.0, 3.0].into());
    assert_eq!(run(Request::new().frames(&video, frames(seconds()))).unwrap(), by_rate);
    run(Request::new().frames(&video, frames(seconds())).cache_salt("another tenant")).unwrap();
    let stats = engine.stats().unwrap();
    assert_eq!((stats.cache_hits, stats.cache_misses), (2, 4));
    let rate = frames(FrameTimes::Fps(0.0));
    assert_eq!(run(Request::new().frames(&video, rate)).unwrap_err().code(), Code::InvalidArgument);

    // A picture's own embeddings give its logits.
    let picture =
        run(Request::new().pixels_in(Layout::Gray8, &video[..56 * 56], 56, 56, 0)).unwrap();
    let rows: Vec<u8> = picture.1.iter().flat_map(|value| value.to_le_bytes()).collect();
    let info = engine.model_info().unwrap();
    let grid = 56 / (info.patch_size * info.merge_size);
    let shape = Embeddings {
        rows: i64::from(grid * grid),
        width: i64::from(info.hidden_size),
        grid_h: grid,
        grid_w: grid,
        ..Embeddings::default()
    };
    assert_eq!(run(Request::new().embeddings(&rows, shape)).unwrap().0, picture.0);
    let odd = Embeddings { grid_w: grid + 1, ..shape };
    let refused = run(Request::new().embeddings(&rows, odd)).unwrap_err();
    assert!(refused.to_string().contains("grid"), "{refused}");
}

#[test]
fn prefill_begins_before_the_last_picture_is_encoded_and_under_epd_after() {
    let frame = Arc::new(pixels());
    for scheme in [Scheme::Rserve, Scheme::Epd] {
        let (engine, mut events) = create(Config { scheme, ..config() });
        let id = engine.submit(&long_request(&frame)).unwrap();
        let mut order = Order::default();
        for event in events.iter() {
            order.check(&event.unwrap(), 8);
        }
        let detail = engine.detail(id).unwrap();
        let info = detail.info().unwrap();
        assert_eq!(info.first_prefill_ns < info.last_encode_ns, scheme == Scheme::Rserve);
        assert_eq!(info.num_items, 8);
        assert_eq!(detail.tokens().len() as i64, info.prompt_tokens);
        let last = detail.item(7).unwrap();
        assert!(last.tokens > 0 && last.token_begin + last.tokens <= info.prompt_tokens);
        assert_eq!(detail.item(8).unwrap_err().code(), Code::OutOfRange);
        drop((engine, events));
        assert!(!detail.tokens().is_empty(), "a detail outlives its engine");
    }
}

#[test]
fn a_cancelled_request_ends_once_and_gives_its_pictures_back() {
    let (engine, mut events) = create(config());
    let frame = Arc::new(pixels());
    // Best effort: on a busy machine all may have finished before the cancels, but not every time.
    for _ in 0..100 {
        let ids: Vec<u64> = (0..6).map(|_| engine.submit(&long_request(&frame)).unwrap()).collect();
        for &id in &ids {
            let cancelled = engine.cancel(id);
            assert!(cancelled.is_ok() || cancelled.unwrap_err().code() == Code::NotFound);
        }
        let mut order = Order::default();
        let mut cancelled = 0;
        for event in events.iter() {
            let event = event.unwrap();
            order.check(&event, 8);
            cancelled += usize::from(matches!(event.kind, EventKind::Cancelled { .. }));
        }
        assert_eq!(order.ended, ids.len());
        assert_eq!(Arc::strong_count(&frame), 1);
        assert_eq!(engine.cancel(ids[0]).unwrap_err().code(), Code::NotFound);
        if cancelled > 0 {
            return;
        }
    }
    panic!("600 requests, none cancelled");
}

#[track_caller]
fn assert_fails<T>(result: Result<T, Error>, code: Code, words: &[&str]) {
    let err = result.err().expect("a failure");
    assert_eq!(err.code(), code, "{err}");
    for word in words {
        assert!(err.message().contains(word), "{word:?} is not in: {err}");
    }
    assert!(err.to_string().starts_with(code.name()));
}

#[test]
fn bad_input_is_an_error_with_the_value_and_the_limit() {
    let nowhere = Engine::create(Config::new("/nowhere/at/all"));
    assert_fails(nowhere, Code::NotFound, &["/nowhere/at/all"]);
    let stages = Engine::create(Config { stages: -3, ..config() });
    assert_fails(stages, Code::InvalidArgument, &["stages", "-3"]);
    assert_fails("fast".parse::<Scheme>(), Code::InvalidArgument, &["fast", "epd"]);

    let (engine, mut events) =
        create(Config { max_prompt_tokens: 40, embedding_bytes: 300, ..config() });
    let frame = pixels();
    let short = Request::new().pixels(&frame[1..], 56, 56);
    assert_fails(engine.submit(&short), Code::InvalidArgument, &["part 0", "9407", "9408"]);
    let long = Request::new().tokens(vec![5; 41]);
    assert_fails(engine.submit(&long), Code::ResourceExhausted, &["41", "40"]);
    assert_fails(engine.plan(&long), Code::ResourceExhausted, &["41", "40"]);
    let large = Request::new().pixels(&frame, 56, 56);
    let words = ["embedding_bytes", "300"];
    assert_fails(engine.submit(&large), Code::ResourceExhausted, &words);
    let plan: Plan = engine.plan(&large).expect("a plan that says why it does not fit");
    assert_fails(plan.fits(), Code::ResourceExhausted, &words);
    assert_eq!(plan.positions().len(), 3 * plan.tokens().len());
    let token = Request::new().tokens(vec![-7]);
    assert_fails(engine.submit(&token), Code::InvalidArgument, &["-7"]);
    let garbage = Request::new().image(&[0u8; 64]);
    assert_fails(engine.submit(&garbage), Code::InvalidArgument, &["part 0"]);
    assert!(engine.submit(&Request::new()).is_err(), "an empty prompt");

    // A file whose header is right and whose pixels are not fails later.
    let mut cut = picture(1);
    cut.truncate(cut.len() / 2);
    let (tolerant, mut its_events) = create(config());
    let failed = ask(&tolerant, &mut its_events, &Request::new().image(cut));
    assert_fails(failed, Code::InvalidArgument, &[]);
    let late = Request::new().text("a").timeout(Duration::ZERO);
    assert_fails(ask(&engine, &mut events, &late), Code::DeadlineExceeded, &[]);
    // And the engine goes on.
    assert!(ask(&engine, &mut events, &Request::new().text("a")).is_ok());
}

#[test]
fn after_drain_and_abort_new_requests_are_refused_and_open_ones_end() {
    for abort in [false, true] {
        let (engine, mut events) = create(config());
        engine.submit(&prompt(0)).unwrap();
        if abort {
            engine.abort().unwrap()
        } else {
            engine.drain().unwrap()
        }
        assert_fails(engine.submit(&prompt(0)), Code::FailedPrecondition, &[]);
        let last = events.iter().last().expect("a terminal event").unwrap();
        assert!(!last.more);
        assert!(abort || matches!(last.kind, EventKind::Finished { .. }));
    }
}

#[test]
fn an_engine_that_is_dropped_in_flight_gives_all_pictures_back() {
    let frame = Arc::new(pixels());
    let (engine, events) = create(config());
    for _ in 0..20 {
        engine.submit(&long_request(&frame)).unwrap();
    }
    assert_eq!(Arc::strong_count(&frame), 161);
    let other = engine.clone();
    drop(events);
    drop(engine);
    assert!(other.stats().is_ok(), "a clone keeps it alive");
    drop(other);
    assert_eq!(Arc::strong_count(&frame), 1);
}

#[test]
fn two_engines_run_at_once() {
    let threads: Vec<_> = [Scheme::Rserve, Scheme::Colocated, Scheme::Adaptive]
        .into_iter()
        .map(|scheme| {
            thread::spawn(move || {
                let (engine, mut events) = create(Config { scheme, ..config() });
                for index in 0..8 {
                    assert_eq!(ask(&engine, &mut events, &prompt(index)).unwrap(), answer(index));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn many_requests_from_many_threads_are_all_answered() {
    const THREADS: usize = 4;
    const EACH: usize = 40;
    let (engine, mut events) = create(config());
    let submitters: Vec<_> = (0..THREADS)
        .map(|_| {
            let engine = engine.clone();
            thread::spawn(move || {
                for index in 0..EACH {
                    engine.submit(&prompt(index).no_detail()).unwrap();
                }
            })
        })
        .collect();
    let mut order = Order::default();
    while order.ended < THREADS * EACH {
        let event = events.next_timeout(Some(Duration::from_secs(60))).unwrap().expect("an event");
        let index = event.user_data as usize;
        order.check(&event, PROMPTS[index % PROMPTS.len()].0.len());
        if let Some(first) = event.first_token() {
            assert_eq!(engine.decode(&[first.token]).unwrap(), answer(index));
        }
    }
    for submitter in submitters {
        submitter.join().unwrap();
    }
    assert_eq!(engine.stats().unwrap().finished, (THREADS * EACH) as i64);
}

#[test]
fn callbacks_are_called_and_dropped_and_their_panics_stay_in_them() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (logs, reports) = (calls.clone(), calls.clone());
    let config = config()
        .log(move |record| {
            assert!(record.time_ns > 0);
            logs.fetch_add(1, Ordering::Relaxed);
        })
        .load_progress(move |done, total| {
            assert!(0 <= done && done <= total);
            reports.fetch_add(1, Ordering::Relaxed);
        });
    let engine = create(config);
    assert!(calls.load(Ordering::Relaxed) > 0);
    assert_eq!(Arc::strong_count(&calls), 2, "the progress is gone, the log is not");
    drop(engine);
    assert_eq!(Arc::strong_count(&calls), 1);

    let held = calls.clone();
    let spoiled = Config { stages: -1, ..common::config() }.log(move |_| drop(held.clone()));
    assert!(Engine::create(spoiled).is_err());
    assert_eq!(Arc::strong_count(&calls), 1, "also when creation fails");
}
