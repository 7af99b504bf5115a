//! Wrong control tokens: each is answered after a pause and reported in the journal, and delays no other caller.

use std::time::Duration;

use serde_json::Value;
use wrs_emulator::Emulator;
use wrs_emulator::clock::Clock;

use crate::support::{Answer, builder, notices, send, started};

const PATH: &str = "/_emulator/requests";

async fn guarded() -> Emulator {
    let token = |settings: &mut wrs_emulator::Settings| settings.control_token = Some("the-right-token".to_owned());
    started(builder().configure(token)).await
}

async fn guess(emulator: &Emulator) -> Answer {
    send(emulator, "GET", PATH, &[("authorization", "Bearer a-wrong-token")], "").await
}

/// Warnings about wrong tokens in the journal.
fn reported(emulator: &Emulator) -> Vec<String> {
    let mut found = notices(emulator, true);
    found.retain(|message| message.contains("wrong control token"));
    assert!(found.iter().all(|message| message.contains("127.0.0.1")), "{found:?}");
    found
}

#[tokio::test]
async fn a_wrong_token_is_answered_after_a_pause_and_the_right_one_at_once() {
    let emulator = guarded().await;
    let machine = Clock::real();
    for _ in 0..3 {
        assert_eq!(guess(&emulator).await.json()["error"]["code"], Value::from("unauthorized"));
    }
    let spent = machine.instant().since_start();
    assert!(spent >= Duration::from_millis(300), "{spent:?}");
    let (begun, guessing) = (machine.instant(), guess(&emulator));
    let right = [("authorization", "Bearer the-right-token")];
    let (wrong, right) = tokio::join!(guessing, async {
        let answer = send(&emulator, "GET", PATH, &right, "").await;
        (answer.status, machine.instant().since(begun))
    });
    assert_eq!((wrong.status, right.0), (401, 200));
    assert!(machine.instant().since(begun) >= Duration::from_millis(100));
    assert_eq!(reported(&emulator)[0], "a wrong control token came from 127.0.0.1");
}

#[tokio::test]
async fn a_flood_of_wrong_tokens_is_a_line_a_second() {
    let emulator = std::sync::Arc::new(guarded().await);
    let machine = Clock::real();
    let guesses = (0..100).map(|_| guess(&emulator));
    futures_util::future::join_all(guesses).await;
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    guess(&emulator).await;
    let lines = reported(&emulator);
    let seconds = machine.instant().since_start().as_secs();
    assert!(lines.len() as u64 <= seconds + 1, "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("more wrong control tokens")), "{lines:?}");
}
