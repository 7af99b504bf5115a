//! A panic in one request: a 500 with the envelope, recorded in the journal; the next request works.

use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::sync::watch;

use super::*;
use crate::clock::{Clock, Seed};
use crate::contract::routes::Operation;
use crate::http::limits::Limits;
use crate::journal::{Journal, Reason};
use crate::profile::Layered;
use crate::scenario::{Folders, Library};
use crate::workspace::Registry;

fn api() -> Api {
    let (journal, limits) = (Arc::new(Journal::new(10, 10_000)), Limits::default());
    let registry = Registry::new(Seed::from_number(7), Clock::real(), 10, Arc::clone(&journal));
    let stopping = watch::Sender::new(false).subscribe();
    let (engine, _) = Engine::new(Library::new(Layered::default()), registry, journal, Folders::default(), stopping);
    Api { engine, bodies: Arc::new(BodyReader::new(&limits)), uri_bytes: limits.uri_bytes }
}

fn admitted(api: &Api) -> Admitted {
    let head = hyper::Request::get("/v1/hello").header("host", "localhost").body(()).expect("a request");
    let request = Request::new(head.into_parts().0, api.engine.registry.clock().now(), &api.engine.library.load());
    let identity = api.anonymous(&request);
    Admitted::new(request, identity)
}

async fn json(response: Response<Outgoing>) -> Value {
    let body = response.into_body().collect().await.expect("bytes at hand").to_bytes();
    serde_json::from_slice(&body).expect("the body is JSON")
}

#[tokio::test]
async fn a_panic_is_a_500_and_the_next_request_works() {
    let api = api();
    let mut first = admitted(&api);
    let progress = Progress::default();
    let responded = caught(async {
        let anonymous = api.engine.registry.anonymous();
        let _held = anonymous.lock();
        panic!("by the test")
    })
    .await;
    let response = api.finish(&mut first, responded, &progress);
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let id = response.headers()[REQUEST_ID].to_str().expect("text").to_owned();
    let body = json(response).await;
    assert_eq!(body["error"]["code"], "internal_error");
    assert_eq!(body["error"]["request_id"], id);
    assert!(!body.to_string().contains("by the test"), "{body}");
    let entries = api.engine.journal.read(0, 10);
    let recorded = entries.iter().any(|(_, entry)| match entry {
        Entry::Request(record) => {
            record.transcript.id() == id
                && record.status == 500
                && matches!(&record.reason, Reason::Panicked(text) if text == "by the test")
        }
        _ => false,
    });
    assert!(recorded, "{entries:?}");

    // The workspace's lock was held by the one that panicked.
    let mut next = admitted(&api);
    let answer = api.perform(&next, Operation::Hello);
    let response = api.finish(&mut next, Ok(answer), &progress);
    assert_eq!(response.status(), StatusCode::OK);
    assert_ne!(response.headers()[REQUEST_ID].to_str().expect("text"), id);
}

#[tokio::test]
async fn a_panic_before_a_request_has_its_id_is_answered_with_one() {
    let api = api();
    let mut admitted = admitted(&api);
    let answer = admitted.denied(AdmissionError::Panicked(String::new()));
    let response = api.finish(&mut admitted, Ok(answer), &Progress::default());
    let id = response.headers()[REQUEST_ID].to_str().expect("text").to_owned();
    assert!(id.starts_with("req_"), "{id}");
    assert_eq!(json(response).await["error"]["request_id"], id);
}
