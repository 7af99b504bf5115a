//! Deliveries of events to subscriptions: listed, shown, awaited, repeated; and what built-in receivers got.

use serde::{Deserialize, Serialize};

use super::{
    Attempt, AttemptResult, Bytes, DeliveryRow, DeliveryWhole, DurationInput, Empty, Form, Headers, Integer, KeyField,
    List, Nothing, Page, Time, Wait, body_text, endpoint, header_text, name_of,
};
use crate::control::render::{Row, Text, cell, table};
use crate::redact::Redactor;
pub(crate) use crate::state::workspace::DeliveryStatus;
pub(crate) use crate::state::workspace::Forgery;
use crate::state::workspace::is_elsewhere;

endpoint! {
    /// Deliveries, newest first.
    ListDeliveries: GET "deliveries", Form::Masked, DeliveriesQuery, Nothing => Page<DeliveryRow>;
    /// One delivery with each attempt.
    ShowDelivery: GET "deliveries/{id}", Form::Masked, Nothing, Nothing => DeliveryWhole;
    /// Wait until so many deliveries match.
    WaitDeliveries: POST "deliveries/wait", Form::Masked, Nothing, WaitForDeliveries => List<DeliveryRow>;
    /// Send the same event to the same subscription again.
    Redeliver: POST "deliveries/{id}/redeliver", Form::Masked, Wait, Empty => Redelivered;
    /// What a built-in receiver got.
    ShowSink: GET "sink/{name}", Form::Masked, Nothing, Nothing => List<Receipt>;
    /// What a built-in receiver answers next.
    ScriptSink: POST "sink/{name}", Form::Masked, Nothing, SinkScript => Scripted;
}

/// Which deliveries are listed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DeliveriesQuery {
    #[cfg_attr(test, schemars(range(min = 1, max = 1000), with = "Option<u16>", extend("default" = 20)))]
    pub(crate) limit: Option<String>,
    /// The `next_cursor` of another page.
    #[cfg_attr(test, schemars(regex(pattern = "^[0-9]{1,18}$")))]
    pub(crate) cursor: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<DeliveryStatus>"))]
    pub(crate) status: Option<String>,
    pub(crate) event: Option<String>,
    #[serde(rename = "type")]
    pub(crate) event_type: Option<String>,
    pub(crate) subscription: Option<String>,
}

/// Which deliveries are awaited, and how many.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitForDeliveries {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    #[cfg_attr(test, schemars(with = "Option<DeliveryStatus>"))]
    pub(crate) status: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) subscription: Option<String>,
    #[serde(rename = "type")]
    pub(crate) event_type: Option<String>,
    /// 1 if absent.
    #[cfg_attr(test, schemars(range(min = 1, max = 10_000)))]
    pub(crate) count: Option<Integer<usize>>,
    /// 10s if absent.
    pub(crate) timeout: Option<DurationInput>,
}

/// The new delivery.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Redelivered {
    pub(crate) delivery: Option<DeliveryWhole>,
}

/// What a built-in receiver got.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Receipt {
    pub(crate) at: Time,
    pub(crate) target: String,
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
    /// Whether the signature was right.
    pub(crate) verified: bool,
    /// Why it was not.
    pub(crate) problem: Option<String>,
    /// What the receiver answered.
    pub(crate) status: u16,
}

/// What a built-in receiver answers next.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SinkScript {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    /// Statuses, one for each answer.
    #[cfg_attr(test, schemars(length(max = 1000), inner(range(min = 200, max = 599))))]
    pub(crate) respond: Vec<Integer<u16>>,
}

/// The receiver is scripted.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Scripted {
    #[cfg_attr(test, schemars(extend("const" = true)))]
    pub(crate) scripted: bool,
}

impl Row for DeliveryRow {
    fn table(rows: &[Self]) -> String {
        let columns = |row: &Self| {
            let forgery = row.forgery.map_or_else(String::new, |forgery| format!(" (forgery {})", name_of(forgery)));
            let (status, attempts) = (name_of(row.status) + &forgery, row.attempts.0.to_string());
            [cell(&row.id), cell(&row.event), cell(&row.event_type), status, attempts, cell(&row.url)]
        };
        table(["ID", "EVENT", "TYPE", "STATUS", "ATTEMPTS", "URL"], rows.iter().map(columns))
    }
}

impl Text for DeliveryWhole {
    fn text(&self) -> String {
        let Self { id, status, event, url, .. } = self;
        let mut text = format!("{id} {} of {event} to {}\n", name_of(status), cell(url));
        text.extend(self.damage.iter().map(|damage| format!("{}\n", cell(damage))));
        for attempt in &self.attempts.0 {
            let Attempt { number, at, latency_ms, dialled, request, signed_content, .. } = attempt;
            text.push_str(&format!("\nattempt {number} at {at}, {latency_ms} ms, to {}\n\n", cell(dialled)));
            let (headers, sent, signed) =
                (header_text(&request.headers), body_text(&request.body), body_text(signed_content));
            text.push_str(&format!("{headers}\n{sent}\n\nsigned: {signed}\n"));
            text.push_str(&match &attempt.outcome {
                AttemptResult::Failed { failure, detail, .. } => format!("failed: {failure} ({})\n", cell(detail)),
                AttemptResult::Answered { status, body: answer, .. } => {
                    format!("answered: {status} {}\n", body_text(answer))
                }
            });
        }
        text
    }
}

impl Text for Redelivered {
    fn text(&self) -> String {
        self.delivery.as_ref().map(Text::text).unwrap_or_default()
    }
}

/// What a receiver answered, with the first line of its body, or why it did not answer.
pub(crate) fn outcome_text(outcome: Option<&AttemptResult>) -> String {
    match outcome {
        Some(AttemptResult::Answered { status, body: Bytes::Text(body), .. }) => {
            let line = Redactor::default().first_line(body.as_bytes());
            line.map_or_else(|| format!("answered {status}"), |line| format!("answered {status}: {}", cell(line)))
        }
        Some(AttemptResult::Answered { status, .. }) => format!("answered {status}"),
        Some(AttemptResult::Failed { detail, .. }) => cell(detail),
        None => "not tried yet".to_owned(),
    }
}

/// Where a delivery or an attempt goes: the subscription's URL, and the forward's target if there is one.
pub(crate) fn destination(url: &str, dialled: Option<&str>) -> String {
    match dialled {
        Some(dialled) if is_elsewhere(url, dialled) => format!("{}, sent to {}", cell(url), cell(dialled)),
        _ => cell(url),
    }
}

/// The deliberate damage of an event or a delivery, as the end of a line.
pub(crate) fn damage_text(damage: Option<&str>) -> String {
    damage.map_or_else(String::new, |damage| format!("; {}", cell(damage)))
}

impl Row for Receipt {
    fn table(rows: &[Self]) -> String {
        let columns = |row: &Self| {
            let verified = row.problem.as_ref().map_or_else(|| "verified".to_owned(), cell);
            [cell(&row.at), row.status.to_string(), cell(&row.target), verified]
        };
        table(["AT", "ANSWERED", "TARGET", "SIGNATURE"], rows.iter().map(columns))
    }
}

impl Text for Scripted {}
