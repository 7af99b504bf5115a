//! Wrong control tokens: each is answered after a pause and reported in the journal, and delays no other caller.

use std::pin::pin;
use std::time::Duration;

use wrs_emulator::Emulator;

use crate::support::{Answer, builder, notices, send, started};

const PATH: &str = "/_emulator/requests";

/// An emulator with a token, where each wrong one waits for so long.
async fn guarded(pause: Duration) -> Emulator {
    let guarded = |settings: &mut wrs_emulator::Settings| {
        settings.control_token = Some("the-right-token".to_owned());
        settings.wrong_token_pause = pause;
    };
    started(builder().configure(guarded)).await
}

async fn call(emulator: &Emulator, token: &str) -> Answer {
    send(emulator, "GET", PATH, &[("authorization", &format!("Bearer {token}"))], "").await
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_reported() {
    let emulator = guarded(Duration::ZERO).await;
    for _ in 0..3 {
        let refused = call(&emulator, "a-wrong-token").await;
        assert_eq!((refused.status, refused.code().as_str()), (401, "unauthorized"));
    }
    assert_eq!(notices(&emulator, true)[0], "127.0.0.1 sent a wrong control token");
}

#[tokio::test]
async fn a_wrong_token_is_answered_after_a_pause_and_the_right_one_at_once() {
    let emulator = guarded(Duration::from_hours(1)).await;
    let mut wrong = pin!(call(&emulator, "a-wrong-token"));
    let right = async {
        while notices(&emulator, true).is_empty() {
            assert_eq!(call(&emulator, "the-right-token").await.status, 200);
        }
        assert_eq!(call(&emulator, "the-right-token").await.status, 200);
    };
    tokio::select! {
        answer = &mut wrong => panic!("answered without a pause: {answer:?}"),
        () = right => {}
    }
}
