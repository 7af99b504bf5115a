//! The event stream, and metrics.

use serde::{Deserialize, Serialize};

use super::{
    Attempt, DeliveryId, EventId, Form, Nothing, SubscriptionId, WorkspaceId, damage_text, destination, endpoint,
    outcome_text,
};
use crate::control::render::cell;

/// The media type of the event stream.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

endpoint! {
    /// Everything that happens, as server-sent events.
    Stream: GET "stream", Form::Other(EVENT_STREAM), StreamQuery, Nothing => String;
    /// Counters and gauges in the text format of Prometheus.
    Metrics: GET "metrics", Form::Other("text/plain"), Nothing, Nothing => String;
}

/// Which events are streamed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StreamQuery {
    /// Kinds of events, joined by commas: request, event, attempt, notice.
    pub(crate) kind: Option<String>,
}

/// An attempt as the stream shows it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct StreamedAttempt {
    #[serde(flatten)]
    pub(crate) attempt: Attempt,
    pub(crate) delivery: DeliveryId,
    pub(crate) event: EventId,
    #[serde(rename = "type")]
    pub(crate) event_type: String,
    pub(crate) subscription: SubscriptionId,
    pub(crate) workspace: Option<WorkspaceId>,
}

/// How many journal entries were evicted before they could be sent.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Missed {
    pub(crate) missed: u64,
}

/// The emulator was restarted since the event that the viewer resumes at.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Restarted {
    pub(crate) message: String,
}

impl StreamedAttempt {
    /// The attempt on one line.
    pub(crate) fn line(&self) -> String {
        let Self { attempt, delivery, event_type, .. } = self;
        let Attempt { at, number, url, dialled, outcome, damage, .. } = attempt;
        let (to, answer) = (destination(url, Some(dialled)), outcome_text(Some(outcome)));
        format!("{at}  {delivery}  {}  {number}  {to}  {answer}{}", cell(event_type), damage_text(damage.as_deref()))
    }
}
