//! Asks a model about pictures and prints what happens until the first token.
//!
//!   first_token MODEL_FOLDER [PICTURE...] QUESTION
//!
//! One thread. Pictures are lent, not copied: the scope gives them back before it returns.

use std::process::ExitCode;
use std::{env, fs};

use rserve::{Code, Config, Engine, Error, EventKind, Request, Result};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let [model, pictures @ .., question] = &args[..] else {
        eprintln!("usage: first_token MODEL_FOLDER [PICTURE...] QUESTION");
        return ExitCode::from(2);
    };
    match ask(model, pictures, question) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("{err}");
            ExitCode::FAILURE
        }
    }
}

fn ask(model: &str, pictures: &[String], question: &str) -> Result<()> {
    let read = |path: &String| {
        fs::read(path).map_err(|err| Error::new(Code::NotFound, format!("{path}: {err}")))
    };
    let files = pictures.iter().map(read).collect::<Result<Vec<_>>>()?;
    let (engine, mut events) = Engine::create(Config::new(model))?;

    let mut request = Request::new().chat().number_images();
    for file in &files {
        request = request.image(file);
    }
    request = request.text(question);

    events.scope(|scope| {
        let id = scope.submit(&request)?;
        for event in scope.iter() {
            match event?.kind {
                EventKind::Accepted => println!("accepted"),
                EventKind::InputReleased { item } => {
                    println!("picture {item}: read, its memory is free");
                }
                EventKind::ItemEncoded { item, tokens } => {
                    println!("picture {item}: encoded to {tokens} tokens");
                }
                EventKind::FirstToken { token, logprob, ttft } => {
                    let text = engine.decode(&[token])?;
                    let ms = ttft.as_secs_f64() * 1e3;
                    println!("first token: {text:?} (id {token}, log-probability {logprob:.3}) after {ms:.1} ms");
                }
                EventKind::Finished { .. } => println!("finished"),
                EventKind::Failed { code, .. } => {
                    return Err(Error::new(code, engine.detail(id)?.message()));
                }
                _ => {} // a newer library says more
            }
        }
        engine.acknowledge(id)
    })
}
