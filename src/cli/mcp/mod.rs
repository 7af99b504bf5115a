//! `mcp`: a server of the Model Context Protocol on stdin and stdout, so that agents can ask a running emulator questions.
//!
//! One thread reads lines, one answers them in order; so a ping or a cancellation is handled while a tool waits. Nothing but messages
//! of the protocol goes to stdout. `protocol` knows the messages, `tools` what each tool does.

mod protocol;
mod session;
mod tools;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use self::protocol::{INVALID_REQUEST, LONGEST_LINE, MOST_BATCHED, Message, PARSE_ERROR, Request, Response, Server};
use self::session::Session;
use super::failure::note;
use super::help::examples;
use super::target::Target;

/// Lines that wait while a tool runs; further ones stay in the pipe.
const MOST_WAITING: usize = 16;

#[derive(Debug, Args)]
#[command(after_help = examples(["mcp", "mcp --url http://127.0.0.1:9771"]))]
pub(super) struct McpArgs {
    #[command(flatten)]
    target: Target,
}

/// One line that was read: requests, or what to answer at once.
struct Line {
    requests: Vec<Result<Request, Response>>,
    is_batch: bool,
}

/// Requests that are not answered yet, by their id, and whether they were cancelled.
#[derive(Default)]
struct Pending(Mutex<BTreeMap<String, bool>>);

impl Pending {
    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, bool>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_cancelled(&self, id: &Value) -> bool {
        self.with(|pending| pending.get(&id.to_string()) == Some(&true))
    }
}

/// Serves until stdin is closed, or nobody reads stdout.
pub(super) fn run(args: McpArgs) -> ExitCode {
    let session = Session::new(args.target);
    note(&format!("tools for the emulator at {}, with the key {}", session.target.url, session.key));
    let (server, pending) = (Server::new(session), Pending::default());
    let (lines, waiting) = sync_channel(MOST_WAITING);
    thread::scope(|scope| {
        scope.spawn(|| answer(&server, &pending, waiting));
        let mut stdin = BufReader::new(std::io::stdin());
        while let Some(read) = read_line(&mut stdin) {
            let Some(line) = parsed(read, &pending) else { continue };
            if matches!(line.requests.as_slice(), [Ok(request)] if request.method == "ping") {
                // Answered while a tool waits.
                for ping in line.requests.into_iter().flatten() {
                    let id = ping.id.clone();
                    if !write(&server.answer(ping)) {
                        return;
                    }
                    pending.with(|pending| pending.remove(&id.to_string()));
                }
            } else if lines.send(line).is_err() {
                return;
            }
        }
        drop(lines);
    });
    ExitCode::SUCCESS
}

/// Answers lines in order, until stdin has ended or stdout is closed.
fn answer(server: &Server, pending: &Pending, lines: Receiver<Line>) {
    for line in lines {
        let mut answers = Vec::new();
        for request in line.requests {
            let request = match request {
                Ok(request) => request,
                Err(refusal) => {
                    answers.push(refusal);
                    continue;
                }
            };
            let id = request.id.clone();
            let answer = (!pending.is_cancelled(&id)).then(|| server.answer(request));
            // A request that was cancelled while its tool ran is not answered either.
            let was_cancelled = pending.with(|pending| pending.remove(&id.to_string())) == Some(true);
            answers.extend(answer.filter(|_| !was_cancelled));
        }
        let written = match answers.as_slice() {
            [] => true,
            answers if line.is_batch => write(&answers),
            [answer, ..] => write(answer),
        };
        if !written {
            return;
        }
    }
}

/// Writes one message. Returns whether anybody still reads.
fn write(message: &impl Serialize) -> bool {
    let mut line = serde_json::to_vec(message).expect("texts, flags and JSON always serialise");
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line).and_then(|()| stdout.flush()).is_ok()
}

/// The next line without its end, or that it is too long; `None` at the end.
fn read_line(stdin: &mut impl BufRead) -> Option<Result<Vec<u8>, ()>> {
    let mut line = Vec::new();
    loop {
        let room = (LONGEST_LINE + 1).saturating_sub(line.len());
        match stdin.take(room as u64).read_until(b'\n', &mut line) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) if line.is_empty() => return None,
            _ if line.last() == Some(&b'\n') || line.len() <= LONGEST_LINE => return Some(Ok(line)),
            _ => {
                let _ = stdin.skip_until(b'\n');
                return Some(Err(()));
            }
        }
    }
}

/// What a line asks for; `None` if it needs no answer.
fn parsed(line: Result<Vec<u8>, ()>, pending: &Pending) -> Option<Line> {
    let refused = |code, message: String| {
        let refusal = Err(Response::refusal(Value::Null, code, message));
        Some(Line { requests: vec![refusal], is_batch: false })
    };
    let Ok(line) = line else { return refused(INVALID_REQUEST, format!("a line is longer than {LONGEST_LINE} bytes")) };
    if line.trim_ascii().is_empty() {
        return None;
    }
    let (messages, is_batch) = match serde_json::from_slice(&line) {
        Err(error) => return refused(PARSE_ERROR, format!("not JSON: {error}")),
        Ok(Value::Array(messages)) if messages.is_empty() => {
            return refused(INVALID_REQUEST, "an empty batch".to_owned());
        }
        Ok(Value::Array(messages)) if messages.len() > MOST_BATCHED => {
            return refused(
                INVALID_REQUEST,
                format!("a batch has more than {MOST_BATCHED} messages; send them one a line"),
            );
        }
        Ok(Value::Array(messages)) => (messages, true),
        Ok(message) => (vec![message], false),
    };
    let mut requests = Vec::new();
    for message in messages {
        match Message::read(message) {
            Message::Request(request) => {
                pending.with(|pending| pending.insert(request.id.to_string(), false));
                requests.push(Ok(request));
            }
            Message::Invalid(refusal) => requests.push(Err(refusal)),
            Message::Cancelled(id) => pending.with(|pending| {
                pending.entry(id.to_string()).and_modify(|is_cancelled| *is_cancelled = true);
            }),
            Message::Other => {}
        }
    }
    (!requests.is_empty()).then_some(Line { requests, is_batch })
}
