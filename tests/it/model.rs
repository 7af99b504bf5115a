//! The engine against a reference: random commands over the wire, for several keys, each answer and everything that can be seen
//! afterwards compared with what a small model says. Failures shrink, and print the commands that are left.
//!
//! `WRS_MODEL_CASES=2000 cargo test --test it model` plays more cases than the ordinary run does.

mod commands;
mod machine;
mod quota;
mod reference;
mod requests;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use commands::{Command, Rules};
use machine::Machine;

use crate::support::sized;

impl Command {
    /// The key that is touched; `None` if all may be.
    fn key(&self) -> Option<usize> {
        match *self {
            Self::Status { key }
            | Self::BadQuery { key }
            | Self::Named { key }
            | Self::Nowhere { key }
            | Self::Subscribe { key, .. }
            | Self::BadSubscribe { key }
            | Self::Fire { key, .. }
            | Self::Answer { key, .. }
            | Self::Rotate { key, .. }
            | Self::Delete { key, .. }
            | Self::Switch { key, .. }
            | Self::Requests { key, .. }
            | Self::Freeze { key }
            | Self::Resume { key }
            | Self::Follow { key } => Some(key),
            Self::Scenarios { key, .. }
            | Self::Advance { key, .. }
            | Self::Set { key, .. }
            | Self::Reset { key }
            | Self::Save { key } => key,
            Self::Load => None,
        }
    }
}

async fn play(rules: &Rules, commands: &[Command]) -> Result<(), String> {
    let mut machine = Machine::start(rules).await;
    for (number, command) in (1..).zip(commands) {
        machine.act(command).await.map_err(|problem| format!("command {number}, {command:?}: {problem}"))?;
    }
    Ok(())
}

#[test]
fn the_engine_does_what_the_reference_says() {
    let cases =
        std::env::var("WRS_MODEL_CASES").map_or(sized(80, 400), |cases| cases.parse().expect("a number of cases"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 2_000, ..ProptestConfig::default() };
    let (played, failed) = (Cell::new(0_u32), Cell::new(None));
    // The same cases each time, so that every commit is tested with them; with a given number of cases they differ each time.
    let mut runner = match std::env::var_os("WRS_MODEL_CASES") {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let outcome = runner.run(&(commands::rules(), commands::commands()), |(rules, commands)| {
        played.set(played.get() + 1);
        runtime.block_on(play(&rules, &commands)).map_err(|problem| {
            failed.set(failed.get().or(Some(played.get())));
            TestCaseError::fail(problem)
        })
    });
    outcome.unwrap_or_else(|failure| panic!("case {}: {failure}", failed.get().unwrap_or_default()));
}
