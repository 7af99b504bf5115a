//! `GET deliveries`, `GET deliveries/{id}`, `POST deliveries/wait`, `POST deliveries/{id}/redeliver`; `GET sink/{name}` and
//! `POST sink/{name}`, a built-in receiver.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::call::{Call, Input, Paging, Scope, TIMEOUT, key_or_all, scope_or_all, scope_soon, timeout, wait_of};
use super::endpoint::{DurationInput, Empty, Integer, KeyField, List, Nothing, Page, Wait};
use super::render::{Row, Text, body_text, cell, header_text, table};
use super::reply::Nearest;
use super::requests::{checked_count, shown_body, shown_headers};
use super::{Control, ControlError};
use crate::contract::error::ErrorKind;
use crate::redact::Redactor;
use crate::state::engine::deliveries::{DeliveryRecord, DeliveryStore};
use crate::state::engine::sink;
use crate::state::journal::record::{
    Attempt, AttemptCount, AttemptRequest, AttemptResult, Attempts, Bytes, DeliveryRow, DeliveryWhole, DeliveryWith,
    Headers, Time, name_of, time,
};
use crate::state::workspace::{AttemptOutcome, AttemptRecord, Registry, is_elsewhere, status_text};
pub(crate) use crate::state::workspace::{DeliveryStatus, Forgery};

/// Which deliveries are listed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DeliveriesQuery {
    #[cfg_attr(test, schemars(range(min = 1, max = 1000), with = "Option<u16>", extend("default" = 20)))]
    pub(crate) limit: Option<String>,
    /// The `next_cursor` of another page.
    #[cfg_attr(test, schemars(regex(pattern = "^[0-9]{1,18}$"), extend("examples" = ["41"])))]
    pub(crate) cursor: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<DeliveryStatus>"))]
    pub(crate) status: Option<String>,
    pub(crate) event: Option<String>,
    #[serde(rename = "type")]
    pub(crate) event_type: Option<String>,
    pub(crate) subscription: Option<String>,
}

/// Which deliveries are awaited, and how many.
#[derive(Debug, Default, Deserialize)]
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
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Receipt {
    pub(crate) at: Time,
    pub(crate) target: String,
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
    /// True if the signature was right.
    pub(crate) verified: bool,
    /// Why it was not.
    pub(crate) problem: Option<String>,
    /// What the receiver answered.
    pub(crate) status: u16,
}

/// What a built-in receiver answers next.
#[derive(Debug, Default, Deserialize)]
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
#[derive(Debug, Serialize)]
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
                AttemptResult::Answered { status, body: answer, note, .. } => {
                    format!("answered: {} {}\n", cell(status_text(*status, note.as_deref())), body_text(answer))
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
        Some(AttemptResult::Answered { status, body, note, .. }) => {
            let answered = format!("answered {}", cell(status_text(*status, note.as_deref())));
            let line = match body {
                Bytes::Text(body) => Redactor::default().first_line(body.as_bytes()),
                Bytes::Binary { .. } => None,
            };
            line.map_or_else(|| answered.clone(), |line| format!("{answered}: {}", cell(line)))
        }
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

pub(super) fn list(control: &Control, input: &Input<DeliveriesQuery>) -> Result<Page<DeliveryRow>, ControlError> {
    let query = &input.query;
    let scope = scope_or_all(control, input)?;
    let page = Paging::read(query.limit.as_deref(), query.cursor.as_deref())?;
    check_status(query.status.as_deref())?;
    let filter = [&query.status, &query.event, &query.event_type, &query.subscription];
    let rows = control.deliveries.list(page.before, page.limit + 1, |delivery| {
        scope.covers(Some(&delivery.event.workspace)) && differs(filter, delivery).is_empty()
    });
    let shown = |(serial, delivery)| (serial, row(&delivery, &control.registry, input.redactor()));
    Ok(page.wrap(rows.into_iter().map(shown).collect()))
}

fn check_status(status: Option<&str>) -> Result<(), ControlError> {
    match status {
        None | Some("pending" | "delivered" | "exhausted" | "cancelled") => Ok(()),
        Some(other) => Err(ControlError::unexpected("status", "pending, delivered, exhausted or cancelled", other)),
    }
}

/// The fields of a delivery that differ from the filters of a call, in words; empty if it matches. An absent filter matches everything.
fn differs(filter: [&Option<String>; 4], delivery: &DeliveryRecord) -> Vec<String> {
    let status = name_of(delivery.status);
    let fields = [
        ("status", &status),
        ("event", &delivery.event.id),
        ("type", &delivery.event.event_type),
        ("subscription", &delivery.planned.subscription),
    ];
    let different = filter.into_iter().zip(fields).filter_map(|(expected, (name, found))| {
        let expected = expected.as_ref().filter(|expected| *expected != found)?;
        Some(format!("{name}: expected {expected}, found {found}"))
    });
    different.collect()
}

pub(super) fn show(control: &Control, input: &Input) -> Result<DeliveryWhole, ControlError> {
    let delivery = find(control, input, &input.segment)?;
    Ok(whole(&delivery, &control.registry, input.redactor()))
}

/// Waits until `count` deliveries match: 200 with them, or on timeout 408 with the nearest ones and what differs.
pub(super) async fn wait(
    control: Arc<Control>,
    input: Arc<Input<Nothing, WaitForDeliveries>>,
) -> Result<List<DeliveryRow>, ControlError> {
    let body = &input.body;
    let scope = scope_soon(&control, key_or_all(&input)?).await?;
    check_status(body.status.as_deref())?;
    let limit = timeout(body.timeout.as_ref(), TIMEOUT)?;
    let count = checked_count(body.count)?;
    let filter = [&body.status, &body.event, &body.event_type, &body.subscription];
    let in_scope = |delivery: &DeliveryRecord| scope.covers(Some(&delivery.event.workspace));
    let matches = |delivery: &DeliveryRecord| in_scope(delivery) && differs(filter, delivery).is_empty();
    let mut matching = Vec::new();
    let enough = until_enough(&control.deliveries, count, &mut matching, matches);
    let is_enough = tokio::time::timeout(limit, enough).await.is_ok();
    let shown = |delivery: &DeliveryRecord| row(delivery, &control.registry, input.redactor());
    if is_enough {
        return Ok(List { data: matching.iter().map(|(_, delivery)| shown(delivery)).collect() });
    }
    let matching = matching.len();
    let mut others =
        control.deliveries.list(None, 100, |delivery| in_scope(delivery) && !differs(filter, delivery).is_empty());
    others.sort_by_cached_key(|(_, delivery)| differs(filter, delivery).len());
    let nearest = others.iter().take(5).map(|(_, delivery)| Nearest {
        request: None,
        delivery: Some(shown(delivery)),
        differs: differs(filter, delivery),
    });
    let message = format!("{matching} of {count} deliveries matched within {} s", limit.as_secs_f64());
    Err(ControlError::new(ErrorKind::RequestTimeout, message).with(|error| error.nearest = Some(nearest.collect())))
}

/// Returns when `count` deliveries match; they are then in `matching`, newest first. The store is searched once, and after that only
/// changed deliveries are checked, so waiting costs nothing while nothing happens.
async fn until_enough(
    store: &DeliveryStore,
    count: usize,
    matching: &mut Vec<(u64, DeliveryRecord)>,
    matches: impl Fn(&DeliveryRecord) -> bool,
) {
    let mut seen = None;
    loop {
        let mut changed = Box::pin(store.changed());
        changed.as_mut().enable();
        match seen.and_then(|seen| store.changed_since(seen)) {
            // The first search, or so many changes that the store no longer knows them.
            None => {
                seen = Some(store.changes());
                *matching = store.list(None, count, &matches);
            }
            Some((now, touched)) => {
                seen = Some(now);
                for (serial, delivery) in touched {
                    let place = matching.iter().position(|(known, _)| *known == serial);
                    match (place, matches(&delivery)) {
                        (Some(place), true) => matching[place].1 = delivery,
                        (Some(place), false) => drop(matching.remove(place)),
                        (None, true) => matching.insert(0, (serial, delivery)),
                        (None, false) => {}
                    }
                }
            }
        }
        if matching.len() >= count {
            matching.sort_by_key(|(serial, _)| Reverse(*serial));
            matching.truncate(count);
            return;
        }
        changed.await;
    }
}

/// Sends the same event, with the same id and body, to the same subscription again, with a new signature.
pub(super) async fn redeliver(
    control: Arc<Control>,
    input: Arc<Input<Wait, Empty>>,
) -> Result<Redelivered, ControlError> {
    let wait = wait_of(&input.query)?;
    let scope = scope_soon(&control, key_or_all(&input)?).await?;
    let old = found_in(&scope, &control, &input.segment)?;
    let Some(workspace) = control.registry.find(&old.event.workspace) else {
        return Err(ControlError::not_found("the delivery's workspace is gone"));
    };
    let id = control.redeliver(&workspace, &old).map_err(ControlError::too_many_pending)?;
    let delivery = match wait {
        Some(limit) => control.deliveries.wait_attempted(&[id], limit).await.into_iter().next(),
        None => control.deliveries.get(&id),
    };
    let shown = |delivery: DeliveryRecord| whole(&delivery, &control.registry, input.redactor());
    Ok(Redelivered { delivery: delivery.map(shown) })
}

/// The delivery with this id, if it belongs to the key that the call names, or the call names none.
pub(super) fn find(control: &Control, call: &Call, id: &str) -> Result<DeliveryRecord, ControlError> {
    found_in(&scope_or_all(control, call)?, control, id)
}

fn found_in(scope: &Scope, control: &Control, id: &str) -> Result<DeliveryRecord, ControlError> {
    let found = control.deliveries.get(id).filter(|delivery| scope.covers(Some(&delivery.event.workspace)));
    found.ok_or_else(|| {
        ControlError::not_found(format!("there is no delivery `{}`{}", id.escape_debug(), scope.of_this_key()))
    })
}

pub(super) fn row(delivery: &DeliveryRecord, registry: &Registry, redactor: Redactor<'_>) -> DeliveryRow {
    with(delivery, AttemptCount(delivery.made.into()), registry, redactor)
}

pub(super) fn whole(delivery: &DeliveryRecord, registry: &Registry, redactor: Redactor<'_>) -> DeliveryWhole {
    with(delivery, Attempts(attempts(delivery, redactor)), registry, redactor)
}

pub(super) fn attempts(delivery: &DeliveryRecord, redactor: Redactor<'_>) -> Vec<Attempt> {
    delivery.attempts.iter().map(|record| attempt(record, redactor)).collect()
}

pub(super) fn with<A>(
    delivery: &DeliveryRecord,
    attempts: A,
    registry: &Registry,
    redactor: Redactor<'_>,
) -> DeliveryWith<A> {
    let workspace = registry.find(&delivery.event.workspace);
    let instant =
        workspace.as_ref().map_or_else(|| registry.clock().instant(), |workspace| workspace.clock().instant());
    DeliveryWith {
        id: delivery.planned.id.as_str().into(),
        event: delivery.event.id.as_str().into(),
        event_type: delivery.event.event_type.clone(),
        subscription: delivery.planned.subscription.as_str().into(),
        url: delivery.planned.url.to_string(),
        workspace: workspace.as_ref().map(|workspace| workspace.id().into()),
        created_at: time(delivery.event.created_at),
        status: delivery.status,
        attempts,
        last: delivery.attempts.last().map(|attempt| outcome(&attempt.outcome, redactor)),
        next_attempt_in_ms: delivery.next.map(|due| due.since(instant).into()),
        note: delivery.note.clone(),
        damage: delivery.event.damage.as_deref().map(str::to_owned),
        forgery: delivery.forgery(),
    }
}

pub(super) fn attempt(attempt: &AttemptRecord, redactor: Redactor<'_>) -> Attempt {
    Attempt {
        number: attempt.number,
        at: time(attempt.at),
        url: attempt.delivery.url.to_string(),
        dialled: attempt.dialled.to_string(),
        damage: attempt.event.damage.as_deref().map(str::to_owned),
        forged: attempt.forged,
        request: AttemptRequest {
            headers: shown_headers(redactor, attempt.headers.iter()),
            body: shown_body(redactor, &attempt.body),
        },
        signed_content: Bytes::from(&*redactor.signed(&attempt.signed.to_vec(), &attempt.body)),
        outcome: outcome(&attempt.outcome, redactor),
        latency_ms: attempt.latency.into(),
    }
}

fn outcome(outcome: &AttemptOutcome, redactor: Redactor<'_>) -> AttemptResult {
    match outcome {
        AttemptOutcome::Answered { status, body, note, .. } => AttemptResult::Answered {
            accepted: outcome.is_success(),
            status: *status,
            body: shown_body(redactor, body),
            note: note.as_deref().map(|note| redactor.text(note).into_owned()),
        },
        AttemptOutcome::Failed { reason, detail } => {
            AttemptResult::Failed { accepted: false, failure: name_of(reason), detail: detail.clone() }
        }
    }
}

pub(super) fn sink(control: &Control, input: &Input) -> List<Receipt> {
    let shown = |receipt: &sink::Receipt| {
        let sent = receipt.headers.iter().map(|(name, value)| (name.as_str(), Cow::Borrowed(value.as_str())));
        Receipt {
            at: time(receipt.at),
            target: receipt.target.clone(),
            headers: shown_headers(input.redactor(), sent),
            body: shown_body(input.redactor(), &receipt.body),
            verified: receipt.verified.is_ok(),
            problem: receipt.verified.as_ref().err().map(ToString::to_string),
            status: receipt.status,
        }
    };
    List { data: control.sinks.received(&input.segment).iter().map(shown).collect() }
}

pub(super) fn script(control: &Control, input: &Input<Nothing, SinkScript>) -> Result<Scripted, ControlError> {
    let statuses: Vec<u16> = input.body.respond.iter().map(|Integer(status)| *status).collect();
    if let Some(status) = statuses.iter().find(|status| !(200..=599).contains(*status)) {
        return Err(ControlError::invalid(format!("respond: expected statuses from 200 to 599, found {status}")));
    }
    if statuses.len() > 1000 {
        return Err(ControlError::invalid("respond: at most 1000 statuses"));
    }
    control.sinks.script(&input.segment, statuses);
    Ok(Scripted { scripted: true })
}
