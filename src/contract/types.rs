//! Bodies exactly as on the wire (contract: Resources and their fields).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::contract::setting::settings;
use crate::contract::timestamp::{ShownTime, push_timestamp};

/// The published event types.
pub const EVENT_TYPES: [&str; 2] = [WORKFLOW_COMPLETED, REFERENCE_MATCHED];
/// A workflow reached the status `completed`.
pub const WORKFLOW_COMPLETED: &str = "workflow.completed";
/// A reference was matched; its payload is not shown in the contract.
pub const REFERENCE_MATCHED: &str = "reference.matched";

settings! {
    /// Event types and their `data`.
    pub struct Events {
        /// Types in addition to the two published ones.
        pub extra: Vec<String> = [] {
            contract: "values shown: workflow.completed, reference.matched; the full list is not shown",
            assumed: "workflow.completed and reference.matched",
            values: "a list of event types such as [\"workflow.failed\"]",
            observed_by: "the 422 of an unknown event type, if it lists the types",
        },
        /// The `data` of an event fired without data, by event type, with templates in strings.
        pub data: BTreeMap<String, Map<String, Value>> = {
            "workflow.completed": { "workflow_id": "wf_{{ ulid() }}", "status": "completed" },
            "reference.matched": { "reference_id": "ref_{{ ulid() }}", "workflow_id": "wf_{{ ulid() }}" },
        } {
            contract: "workflow.completed: workflow_id, status; reference.matched: payload not shown",
            assumed: "reference.matched carries reference_id and workflow_id",
            values: "event type = an object, such as \"workflow.failed\" = { workflow_id = \"{{ ulid() }}\" }; strings may \
                use {{ ulid() }}, {{ uuid() }}, {{ now }}",
            observed_by: "not by calls: a delivery shows one value, and not how it is made",
        },
    }
}

impl Events {
    /// The event types that can be subscribed: the two published ones, then `events.extra`.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        EVENT_TYPES.into_iter().chain(self.extra.iter().map(String::as_str))
    }
}

/// The answer of `GET /v1/system/status`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SystemStatus {
    /// True when the service is reachable and the key is valid.
    pub ok: bool,
    /// `sandbox` or `production`.
    pub environment: Environment,
    /// API version label, form `v<major>.<minor>`.
    pub version: &'static str,
    /// ISO 8601 UTC timestamp.
    pub checked_at: ShownTime,
    /// Dependency health, only with `include_checks=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<Map<String, Value>>,
}

impl SystemStatus {
    /// The body as bytes: the same as any serialiser would write. Nothing in the usual one needs escapes, so its parts are only
    /// joined; no other answer is asked for as often.
    pub fn to_json(&self) -> Vec<u8> {
        if !self.ok || self.checks.is_some() {
            return serde_json::to_vec(self).expect("strings and JSON values always serialise");
        }
        let start = match self.environment {
            Environment::Sandbox => r#"{"ok":true,"environment":"sandbox","version":""#,
            Environment::Production => r#"{"ok":true,"environment":"production","version":""#,
        };
        // The capacity for milliseconds, so that the bytes can usually be taken over without a copy.
        let length = start.len() + self.version.len() + r#"","checked_at":"2026-01-31T09:30:00.000Z"}"#.len();
        let mut body = String::with_capacity(length);
        for part in [start, self.version, r#"","checked_at":""#] {
            body.push_str(part);
        }
        push_timestamp(&mut body, self.checked_at.instant, self.checked_at.precision);
        body.push_str(r#""}"#);
        body.into_bytes()
    }
}

/// The environments of the contract (Authentication 2 and 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Environment {
    /// Used during integration: test keys are valid.
    Sandbox,
    /// For use after the integration is reviewed: live keys are valid.
    Production,
}

/// The body of `POST /v1/events/subscribe`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SubscribeRequest {
    /// HTTPS endpoint that receives signed webhook POSTs, as the client wrote it.
    pub url: String,
    /// Event types to subscribe to, without repetition.
    pub events: Vec<String>,
    /// Signing secret; when omitted the service generates one and returns it once. How it becomes a key is assumed.
    pub secret: Option<String>,
    /// Short label.
    pub description: Option<String>,
}

/// The answer of `POST /v1/events/subscribe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subscription {
    /// Form `sub_<id>`.
    pub id: String,
    /// The endpoint, as the client wrote it.
    pub url: String,
    /// Subscribed event types.
    pub events: Vec<String>,
    /// `active` is the only value the contract shows.
    pub status: SubscriptionStatus,
    /// ISO 8601 UTC timestamp of when the URL was first subscribed.
    pub created_at: String,
}

/// True if events are delivered. The contract shows only `active`; `disabled` is what a 410 leads to and never appears
/// in an answer of the emulated API, as subscribing again makes the subscription active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriptionStatus {
    /// Events are delivered.
    Active,
    /// A receiver answered 410 Gone.
    Disabled,
}

/// The body that a subscribed endpoint receives (contract: Event envelope).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventEnvelope {
    /// Form `evt_<id>`.
    pub id: String,
    /// Event type, such as `workflow.completed`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// ISO 8601 UTC timestamp.
    pub created_at: String,
    /// Event-specific body.
    pub data: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::timestamp::Precision;

    #[test]
    fn the_status_is_joined_as_it_would_be_serialised() {
        for environment in [Environment::Sandbox, Environment::Production] {
            for (ok, checks) in [(true, None), (false, None), (true, Some(Map::new()))] {
                let instant = "2026-01-31T09:30:00.123456Z".parse().expect("an instant");
                let checked_at = ShownTime { instant, precision: Precision::Milliseconds };
                let status = SystemStatus { ok, environment, version: crate::contract::VERSION, checked_at, checks };
                assert_eq!(status.to_json(), serde_json::to_vec(&status).expect("it serialises"), "{status:?}");
            }
        }
    }
}
