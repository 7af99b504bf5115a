//! What a Rust test may do with an emulator that it embeds, and the refusals; the examples in the documentation of
//! `ControlHandle` show the ordinary way.

use serde_json::json;
use wrs_emulator::{Emulator, FireRequest, ResetProblem};

use crate::support::{KEY, get_as, start, subscribe_sink};

async fn status(emulator: &Emulator, key: &str) -> u16 {
    get_as(emulator, key, "/v1/system/status").await.status
}

#[tokio::test]
async fn scenarios_are_chosen_and_everything_is_reset() {
    let emulator = start().await;
    let control = emulator.control();
    control.use_scenarios(Some(KEY), &["always-422"]).expect("it is shipped");
    assert_eq!((status(&emulator, KEY).await, status(&emulator, "sk_test_b").await), (422, 200));
    control.use_scenarios(None, &["always-401"]).expect("it is shipped");
    assert_eq!((status(&emulator, KEY).await, status(&emulator, "sk_test_b").await), (422, 401));
    let unknown = control.use_scenarios(None, &["alway-401"]).expect_err("there is none of this name");
    assert!(unknown[0].one_line().contains("alway-401"), "{unknown:?}");
    control.reset(KEY).expect("the key is valid");
    assert_eq!(status(&emulator, KEY).await, 401, "without its own list it follows the one for everybody");
    control.reset_all().expect("the start had no scenarios");
    assert_eq!((status(&emulator, KEY).await, status(&emulator, "sk_test_b").await), (200, 200));
    let refused = control.reset("nonsense").expect_err("the key is not valid");
    assert!(matches!(&refused, ResetProblem::Key(text) if text.contains("not an API key")), "{refused}");
}

#[tokio::test]
async fn a_snapshot_brings_a_subscription_back() {
    let emulator = start().await;
    let control = emulator.control();
    subscribe_sink(&emulator, "app").await;
    let before = control.snapshot().await;
    let event = || FireRequest { event_type: "workflow.completed".to_owned(), ..FireRequest::default() };
    control.reset_all().expect("the start had no scenarios");
    assert!(control.fire(KEY, event()).expect("the type is known").deliveries.is_empty(), "nobody is subscribed");
    assert_eq!(control.restore(&before).expect("it was just taken"), Vec::<String>::new());
    let fired = control.fire(KEY, event()).expect("the type is known");
    assert_eq!(fired.deliveries.len(), 1, "the subscription exists again");
    control.settle().await;
    assert!(control.received("app").iter().all(|receipt| receipt.verified.is_ok()));
    assert_eq!(control.received("app").len(), 1);
    let refused = control.restore(json!({ "format": "other" }).to_string().as_bytes());
    assert!(refused.expect_err("it is no snapshot").to_string().contains("format"));
}
