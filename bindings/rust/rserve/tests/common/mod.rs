//! What the tests share: the shipped model, its pictures and questions.

#![allow(dead_code)] // each test program uses a part

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs};

use rserve::{Config, Event, EventKind, Request, Scheme};

/// The shipped model's folder.
pub fn model() -> PathBuf {
    match env::var_os("RSERVE_MODEL") {
        Some(folder) => folder.into(),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits")),
    }
}

pub fn config() -> Config {
    // Rserve: whose workers do not depend on what is measured.
    Config {
        scheme: Scheme::Rserve,
        encode_batch_tokens: 1,
        no_pinning: true,
        kv_tokens: 8192,
        ..Config::new(model())
    }
}

pub fn picture(number: usize) -> Vec<u8> {
    let path = model().join(format!("eval/pictures/{number:04}.png"));
    fs::read(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

/// Pictures, question and answer, from the model's held-out prompts.
pub const PROMPTS: [(&[usize], &str, &str); 4] = [
    (&[248], "Which digit is in picture 1?", "4"),
    (&[104], "What colour is picture 1?", "blue"),
    (&[154, 191], "Which digit is in picture 1?", "4"),
    (&[23, 119], "What colour is picture 1?", "pink"),
];

/// Prompt `index`, its pictures owned by the request.
pub fn prompt(index: usize) -> Request<'static> {
    let (pictures, question, _) = PROMPTS[index % PROMPTS.len()];
    let request = Request::new().chat().number_images().user_data(index as u64);
    pictures.iter().fold(request, |r, &number| r.image(picture(number))).text(question)
}

pub fn answer(index: usize) -> &'static str {
    PROMPTS[index % PROMPTS.len()].2
}

/// A grey picture of 56 x 56 pixels.
pub fn pixels() -> Vec<u8> {
    vec![128; 56 * 56 * 3]
}

/// Eight pictures that the request shares with the caller, so that there is time to interfere.
pub fn long_request(frame: &Arc<Vec<u8>>) -> Request<'static> {
    let request = Request::new().chat().number_images();
    (0..8)
        .fold(request, |r, _| r.pixels(frame.clone(), 56, 56))
        .text("Which digit is in picture 1?")
}

/// Checks that each request's events come in a legal order, and counts the ended ones.
#[derive(Default)]
pub struct Order {
    requests: HashMap<u64, Seen>,
    pub ended: usize,
}

#[derive(Default)]
struct Seen {
    events: usize,
    encoded: Vec<usize>,
    released: Vec<usize>,
    token: bool,
    ended: bool,
}

impl Order {
    pub fn check(&mut self, event: &Event, pictures: usize) {
        let seen = self.requests.entry(event.request_id).or_default();
        assert!(!seen.ended, "an event after the terminal one: {event:?}");
        assert_eq!(seen.events == 0, event.kind == EventKind::Accepted, "{event:?}");
        assert!(event.time_ns > 0);
        seen.events += 1;
        match event.kind {
            EventKind::Accepted => {}
            EventKind::ItemEncoded { item, tokens } => {
                assert!(item < pictures && !seen.encoded.contains(&item), "{event:?}");
                assert!(tokens > 0 && !seen.token, "{event:?}");
                seen.encoded.push(item);
            }
            EventKind::InputReleased { item } => {
                assert!(item < pictures && !seen.released.contains(&item), "{event:?}");
                seen.released.push(item);
            }
            EventKind::FirstToken { logprob, .. } => {
                assert!(seen.encoded.len() == pictures && !seen.token, "{event:?}");
                assert!(logprob <= 0.0);
                seen.token = true;
            }
            EventKind::Finished { .. } => {
                assert!(seen.token && seen.released.len() == pictures, "{event:?}");
            }
            EventKind::Failed { .. } | EventKind::Cancelled { .. } => assert!(!seen.token),
            other => panic!("unknown event {other:?}"),
        }
        let terminal = matches!(
            event.kind,
            EventKind::Finished { .. } | EventKind::Failed { .. } | EventKind::Cancelled { .. }
        );
        assert_eq!(event.more, !terminal, "{event:?}");
        seen.ended = terminal;
        self.ended += usize::from(terminal);
    }
}
