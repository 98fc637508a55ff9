//! The scheduler alone, in virtual time.

use rserve::orchestrator::*;
use rserve::{Code, Error, Scheme};

const PICTURES: i64 = 8;
const PICTURE_TOKENS: i64 = 256;
const TEXT_TOKENS: i64 = 16;
const ENCODE_NS: i64 = 20_000_000;
const PREFILL_TOKEN_NS: i64 = 75_000;

/// Pictures with some text before each, and text at the end.
fn request(request_id: u64) -> HostRequest {
    let mut request = HostRequest { request_id, num_items: PICTURES as i32, ..Default::default() };
    for item in 0..PICTURES {
        let token_begin = item * (TEXT_TOKENS + PICTURE_TOKENS) + TEXT_TOKENS;
        let (item, tokens) = (item as i32, PICTURE_TOKENS);
        let embedding_bytes = tokens * 4096;
        request.units.push(Unit { item, tokens, embedding_bytes, ..Default::default() });
        request.spans.push(Span { item, tokens, token_begin, ..Default::default() });
    }
    request.prompt_tokens = PICTURES * (TEXT_TOKENS + PICTURE_TOKENS) + 32;
    request
}

fn create(scheme: Scheme) -> Orchestrator {
    let config = HostConfig { scheme, encode_batch_tokens: PICTURE_TOKENS, ..Default::default() };
    Orchestrator::create(&config).unwrap()
}

/// TTFT of one request when encode and prefill take what the constants say.
fn ttft_ns(scheme: Scheme) -> i64 {
    let mut orchestrator = create(scheme);
    orchestrator.submit(&request(1)).unwrap();
    let mut now_ns = 1;
    let mut running: Vec<(i64, Work)> = Vec::new();
    let mut encoded = 0;
    loop {
        orchestrator.step(now_ns).unwrap();
        for action in orchestrator.actions() {
            match action.unwrap() {
                Action::Encode(Encode { work, units, .. }) => {
                    assert!(units.iter().all(|unit| unit.request_id == 1));
                    orchestrator.started(&work).unwrap();
                    running.push((now_ns + units.len() as i64 * ENCODE_NS, work));
                }
                Action::Stage(stage) => {
                    assert!(stage.last && stage.stage == 0);
                    for entry in stage.entries {
                        let blocks = (entry.token_begin() + entry.tokens() + 15) / 16;
                        assert!(entry.kv_blocks().len() as i64 >= blocks);
                        let reads: i64 = entry.slices().iter().map(|slice| slice.tokens).sum();
                        assert!(reads <= entry.tokens());
                    }
                    running.push((now_ns + stage.tokens * PREFILL_TOKEN_NS, stage.work));
                }
                Action::Event(event) => match event.kind {
                    HostEventKind::ItemEncoded { item } => {
                        assert_eq!(item, encoded);
                        encoded += 1;
                    }
                    HostEventKind::FirstToken => {
                        return event.times.first_token_ns - event.times.submitted_ns;
                    }
                    HostEventKind::Accepted | HostEventKind::InputReleased { .. } => {}
                    other => panic!("{other:?}"),
                },
                Action::ReleasePixels { .. } | Action::ReleaseEmbedding { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(orchestrator.next_wake_ns(), None);
        now_ns = running.iter().map(|(end_ns, _)| *end_ns).min().expect("work");
        let (over, left) = running.into_iter().partition(|(end_ns, _)| *end_ns <= now_ns);
        running = left;
        let over: Vec<(i64, Work)> = over;
        for (_, work) in over {
            orchestrator.finish(work, Ok(())).unwrap();
        }
    }
}

#[test]
fn ttft_is_the_critical_path_under_rserve_and_the_sum_under_epd() {
    let last_begin = request(1).spans[7].token_begin;
    let prompt = request(1).prompt_tokens;
    let path = PICTURES * ENCODE_NS + (prompt - last_begin) * PREFILL_TOKEN_NS;
    let longest = path.max(prompt * PREFILL_TOKEN_NS);
    let ttft = ttft_ns(Scheme::Rserve);
    assert!(ttft >= longest && ttft <= longest * 103 / 100, "{ttft} for {longest}");
    assert_eq!(ttft_ns(Scheme::Epd), PICTURES * ENCODE_NS + prompt * PREFILL_TOKEN_NS);
}

fn events(orchestrator: &mut Orchestrator, now_ns: i64) -> (Vec<HostEventKind>, Vec<Work>) {
    let (mut events, mut started) = (Vec::new(), Vec::new());
    orchestrator.step(now_ns).unwrap();
    for action in orchestrator.actions() {
        match action.unwrap() {
            Action::Event(event) => events.push(event.kind),
            Action::Encode(encode) => started.push(encode.work),
            Action::Stage(stage) => started.push(stage.work),
            _ => {}
        }
    }
    (events, started)
}

#[test]
fn a_failed_action_ends_its_request_with_the_hosts_words() {
    let mut orchestrator = create(Scheme::Rserve);
    orchestrator.submit(&request(7)).unwrap();
    let (_, started) = events(&mut orchestrator, 1);
    let gone = Error::new(Code::DataLoss, "the device is gone");
    for work in started {
        orchestrator.finish(work, Err(gone.clone())).unwrap();
    }
    let (seen, _) = events(&mut orchestrator, 2);
    assert!(seen.contains(&HostEventKind::Failed(gone)), "{seen:?}");
    assert_eq!(orchestrator.stats().unwrap().idle, 1);
}

#[test]
fn an_encode_may_end_with_one_result_a_unit() {
    let mut orchestrator = create(Scheme::Epd);
    orchestrator.submit(&request(7)).unwrap();
    let (_, mut started) = events(&mut orchestrator, 1);
    assert_eq!(started.len(), 1);
    orchestrator.finish_units(started.remove(0), &[Err(Code::Internal)]).unwrap();
    let (seen, _) = events(&mut orchestrator, 2);
    assert!(matches!(seen.last(), Some(HostEventKind::Failed(_))), "{seen:?}");
}

#[test]
fn cancels_deadlines_and_lost_workers_end_requests() {
    let mut orchestrator = create(Scheme::Rserve);
    let text = HostRequest { request_id: 1, prompt_tokens: 9, ..Default::default() };
    orchestrator.submit(&HostRequest { deadline_ns: 50, ..text }).unwrap();
    orchestrator.submit(&request(2)).unwrap();
    orchestrator.submit(&request(3)).unwrap();
    events(&mut orchestrator, 1);
    orchestrator.cancel(3).unwrap();
    assert_eq!(orchestrator.next_wake_ns(), Some(50));
    let (seen, _) = events(&mut orchestrator, 50);
    let late = |kind: &HostEventKind| matches!(kind, HostEventKind::Failed(err) if err.code() == Code::DeadlineExceeded);
    assert!(seen.contains(&HostEventKind::Cancelled) && seen.iter().any(late), "{seen:?}");
    orchestrator.lose_worker(0, "pulled out").unwrap();
    let (seen, _) = events(&mut orchestrator, 51);
    let lost = |kind: &HostEventKind| matches!(kind, HostEventKind::Failed(err) if err.message().contains("pulled out"));
    assert!(!seen.iter().any(lost), "its encode still reads its pictures: {seen:?}");
    orchestrator.lose_worker(1, "pulled out too").unwrap();
    let (seen, _) = events(&mut orchestrator, 52);
    assert!(seen.iter().any(lost), "{seen:?}");
}

#[test]
fn bad_input_is_an_error_with_the_value_and_the_limit() {
    let bad = Orchestrator::create(&HostConfig { token_budget: -5, ..Default::default() });
    let err = bad.err().expect("a failure");
    assert!(err.code() == Code::InvalidArgument && err.message().contains("-5"), "{err}");

    let config = HostConfig { embedding_bytes: 1000, ..Default::default() };
    let mut orchestrator = Orchestrator::create(&config).unwrap();
    let err = orchestrator.check(&request(1)).unwrap_err();
    assert_eq!(err.code(), Code::ResourceExhausted);
    assert!(err.message().contains("1048576") && err.message().contains("1000"), "{err}");
    orchestrator.submit(&request(1)).unwrap();
    let (seen, _) = events(&mut orchestrator, 1);
    assert_eq!(seen, [HostEventKind::Refused(err)]);

    orchestrator.drain().unwrap();
    orchestrator
        .submit(&HostRequest { request_id: 2, prompt_tokens: 1, ..Default::default() })
        .unwrap();
    let (seen, _) = events(&mut orchestrator, 2);
    assert!(matches!(&seen[..], [HostEventKind::Refused(_)]), "{seen:?}");
    assert!(orchestrator.lose_worker(9, "").is_err());
    orchestrator.abort().unwrap();
}
