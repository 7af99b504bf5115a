//! Wrong control tokens: reported in the journal, slowed for the address that sends them, and for nobody else.

use std::time::Duration;

use serde_json::Value;
use wrs_emulator::Emulator;
use wrs_emulator::clock::Clock;

use crate::support::{Answer, builder, send, send_from};

const PATH: &str = "/_emulator/requests";

async fn guarded() -> Emulator {
    let token = |settings: &mut wrs_emulator::Settings| settings.control_token = Some("the-right-token".to_owned());
    builder().configure(token).start().await.expect("it starts")
}

async fn guess(emulator: &Emulator, from: &str) -> Answer {
    let wrong = [("authorization", "Bearer a-wrong-token")];
    send_from(emulator, Some(from.parse().expect("an address")), "GET", PATH, &wrong, "").await
}

/// Lines about wrong tokens in the journal, and how many tokens they count in all.
async fn reported(emulator: &Emulator) -> (usize, u64) {
    let right = [("authorization", "Bearer the-right-token"), ("last-event-id", "0")];
    let _ = send(emulator, "GET", PATH, &right, "").await;
    let entries = emulator.control().journal().read(0, usize::MAX);
    let lines: Vec<String> = entries
        .into_iter()
        .filter_map(|(_, entry)| match entry {
            wrs_emulator::journal::Entry::Notice(notice) if notice.message.contains("wrong control token") => {
                assert!(notice.warning && notice.message.contains("127.0.0."), "{notice:?}");
                Some(notice.message.clone())
            }
            _ => None,
        })
        .collect();
    let count = |line: &String| line.split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(1);
    (lines.len(), lines.iter().map(count).sum())
}

#[tokio::test]
async fn wrong_tokens_are_slowed_for_their_address_and_for_nobody_else() {
    let emulator = std::sync::Arc::new(guarded().await);
    let machine = Clock::real();
    let guesses: Vec<_> = (0..31)
        .map(|_| {
            let emulator = std::sync::Arc::clone(&emulator);
            tokio::spawn(async move { guess(&emulator, "127.0.0.1").await.status })
        })
        .collect();
    told_in_the_end(&emulator, 1).await;
    let right = [("authorization", "Bearer the-right-token")];
    for _ in 0..20 {
        assert_eq!(send(&emulator, "GET", PATH, &right, "").await.status, 200);
    }
    assert_eq!(guess(&emulator, "127.0.0.2").await.status, 401);
    assert!(guesses.iter().any(|guess| !guess.is_finished()), "others are not held back by those who wait");
    for guess in guesses {
        assert_eq!(guess.await.expect("no panic"), 401);
    }
    // Ten at once, then ten in each second.
    let spent = machine.instant().since_start();
    assert!(spent >= Duration::from_millis(2900), "{spent:?}");
    let (lines, tokens) = told_in_the_end(&emulator, 32).await;
    assert!(lines as u64 <= spent.as_secs() + 3, "{lines} lines in {spent:?}");
    assert_eq!(tokens, 32);
}

/// What is reported once all are.
async fn told_in_the_end(emulator: &Emulator, tokens: u64) -> (usize, u64) {
    let all = async {
        loop {
            let reported = reported(emulator).await;
            if reported.1 >= tokens {
                return reported;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, all).await.expect("each is counted")
}

#[tokio::test]
async fn a_call_without_a_token_is_no_guess() {
    let emulator = guarded().await;
    for _ in 0..30 {
        assert_eq!(send(&emulator, "GET", PATH, &[], "").await.status, 401);
    }
    assert_eq!(reported(&emulator).await, (0, 0));
    assert_eq!(guess(&emulator, "127.0.0.1").await.json()["error"]["code"], Value::from("unauthorized"));
    assert_eq!(told_in_the_end(&emulator, 1).await, (1, 1));
}

/// A client that does not wait for its answer gives its place up: three hundred would take longer than a test waits.
#[tokio::test]
async fn guesses_that_are_given_up_hold_nobody_back() {
    let emulator = std::sync::Arc::new(guarded().await);
    let guesses: Vec<_> = (0..300)
        .map(|_| {
            let emulator = std::sync::Arc::clone(&emulator);
            tokio::spawn(async move { guess(&emulator, "127.0.0.1").await.status })
        })
        .collect();
    told_in_the_end(&emulator, 300).await;
    for guess in guesses {
        guess.abort();
    }
    assert_eq!(guess(&emulator, "127.0.0.1").await.status, 401);
}
