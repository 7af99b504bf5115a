//! One run of calls and events, the same whatever the preset, and everything that a client and a receiver got to see of it.

use std::sync::Arc;

use serde_json::{Value, json};
use wrs_emulator::Builder;
use wrs_emulator::state::engine::deliveries::DeliveryStatus;
use wrs_emulator::state::engine::sink::Receipt;
use wrs_emulator::state::workspace::{EventRecord, FireRequest};

use crate::openapi::Document;
use crate::support::{Answer, KEY, PATIENCE, builder, get, get_as, send, started, subscribe};

pub(super) const STATUS: &str = "/v1/system/status";
pub(super) const SUBSCRIBE: &str = "/v1/events/subscribe";
pub(super) const HELLO: &str = "/v1/hello";
pub(super) const TYPES: [&str; 2] = ["workflow.completed", "reference.matched"];

/// Everything that one client and one receiver get to see of a preset.
pub(super) struct Run {
    pub(super) document: Document,
    pub(super) statuses: Vec<Answer>,
    pub(super) checks: Vec<Answer>,
    pub(super) created: Vec<Answer>,
    pub(super) updated: Vec<Answer>,
    pub(super) hellos: Vec<Answer>,
    /// With the status that they must have.
    pub(super) errors: Vec<(u16, &'static str, Answer)>,
    pub(super) fired: Vec<Arc<EventRecord>>,
    pub(super) receipts: Vec<Receipt>,
}

impl Run {
    /// Plays the same calls and events whatever the preset.
    pub(super) async fn of(builder: Builder) -> Self {
        let emulator = started(builder.set("rate_limit.requests=30")).await;
        let document = Document::of(&emulator).await;
        let (mut statuses, mut checks, mut created, mut hellos) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for number in 0..6 {
            statuses.push(get(&emulator, STATUS).await);
            checks.push(get(&emulator, &format!("{STATUS}?include_checks=true")).await);
            hellos.push(send(&emulator, "GET", HELLO, &[], "").await);
            let hook =
                json!({ "url": format!("https://other.sink.localhost/{number}"), "events": [TYPES[number % 2]] });
            created.push(subscribe(&emulator, &hook).await);
        }
        let hook = json!({ "url": "https://app.sink.localhost/hooks", "events": TYPES, "description": "label" });
        created.push(subscribe(&emulator, &hook).await);
        let updated = vec![subscribe(&emulator, &hook).await];
        let mut errors = vec![
            (401, STATUS, send(&emulator, "GET", STATUS, &[], "").await),
            (401, STATUS, get_as(&emulator, "nonsense", STATUS).await),
            (401, SUBSCRIBE, send(&emulator, "POST", SUBSCRIBE, &[], "{}").await),
            (422, STATUS, get(&emulator, &format!("{STATUS}?include_checks=maybe")).await),
            (422, SUBSCRIBE, subscribe(&emulator, &json!({ "url": "http://x.example/", "events": [] })).await),
            (422, SUBSCRIBE, subscribe(&emulator, &json!({ "url": "https://x.example/", "events": ["none"] })).await),
        ];
        while errors.iter().all(|(status, ..)| *status != 429) {
            let answer = get(&emulator, STATUS).await;
            match answer.status {
                200 => statuses.push(answer),
                status => errors.push((status, STATUS, answer)),
            }
        }
        let control = emulator.control();
        let id = updated[0].json()["id"].as_str().expect("an id").to_owned();
        let fire = |number: usize| {
            let event_type = TYPES[number % 2].to_owned();
            let request = FireRequest { event_type, subscription: Some(id.clone()), ..FireRequest::default() };
            control.fire(KEY, request).expect("the event is fired")
        };
        let fired: Vec<_> = (0..12).map(fire).collect();
        // Time moves on to each event in turn and waits there until it has arrived, so the order of arrival is the plan's.
        let mut planned = fired.clone();
        planned.sort_by_key(|event| event.due);
        for event in planned {
            control.clock().advance(event.due.since(control.clock().instant()));
            let ids: Vec<String> = event.deliveries.iter().map(|delivery| delivery.id.clone()).collect();
            let settled = control.deliveries().wait_settled(&ids, PATIENCE).await;
            assert!(settled.iter().all(|record| record.status == DeliveryStatus::Delivered), "{settled:?}");
        }
        let receipts = control.received("app");
        Self { document, statuses, checks, created, updated, hellos, errors, fired, receipts }
    }

    pub(super) async fn of_preset(name: &str) -> Self {
        Self::of(builder().preset(name)).await
    }

    /// Each answer with its method and path.
    pub(super) fn answers(&self) -> impl Iterator<Item = (&'static str, &'static str, &Answer)> {
        let of = |method, path| move |answer| (method, path, answer);
        let errors = self
            .errors
            .iter()
            .map(|(_, path, answer)| (if *path == SUBSCRIBE { "post" } else { "get" }, *path, answer));
        (self.statuses.iter().chain(&self.checks).map(of("get", STATUS)))
            .chain(self.created.iter().chain(&self.updated).map(of("post", SUBSCRIBE)))
            .chain(self.hellos.iter().map(of("get", HELLO)))
            .chain(errors)
    }

    pub(super) fn envelopes(&self) -> impl Iterator<Item = Value> {
        self.receipts.iter().map(|receipt| serde_json::from_slice(&receipt.body).expect("an event is JSON"))
    }
}
