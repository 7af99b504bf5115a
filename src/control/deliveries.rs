//! `GET deliveries`, `GET deliveries/{id}`, `POST deliveries/wait`, `POST deliveries/{id}/redeliver`; `GET sink/{name}` and
//! `POST sink/{name}`, a built-in receiver.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

use super::api::{
    self, Attempt, AttemptCount, AttemptRequest, AttemptResult, Attempts, DeliveryRow, DeliveryWhole, DeliveryWith,
    Integer, List, Nearest, Page, Receipt, Redelivered, WaitForDeliveries,
};
use super::call::{Call, Input, PATIENCE, Paging, timeout, wait_of};
use super::filter::checked_count;
use super::requests::{shown_body, shown_headers};
use super::scope::{scope, scope_or_all};
use super::{Control, ControlError};
use crate::contract::error::ErrorKind;
use crate::redact::Redactor;
use crate::state::engine::deliveries::{DeliveryRecord, DeliveryStore};
use crate::state::engine::sink;
use crate::state::workspace::{AttemptOutcome, AttemptRecord, Registry};

pub(super) fn list(control: &Control, input: &Input<api::ListDeliveries>) -> Result<Page<DeliveryRow>, ControlError> {
    let query = &input.query;
    let scope = scope(control, input)?;
    let page = Paging::read(query.limit.as_deref(), query.cursor.as_deref())?;
    check_status(query.status.as_deref())?;
    let filter = WaitForDeliveries {
        status: query.status.clone(),
        event: query.event.clone(),
        event_type: query.event_type.clone(),
        subscription: query.subscription.clone(),
        ..WaitForDeliveries::default()
    };
    let rows = control.deliveries.list(page.before, page.limit + 1, |delivery| {
        scope.covers(Some(&delivery.event.workspace)) && differs(&filter, delivery).is_empty()
    });
    let shown = |(serial, delivery)| (serial, row(&delivery, &control.registry, input.redactor()));
    Ok(page.wrap(rows.into_iter().map(shown).collect()))
}

fn check_status(status: Option<&str>) -> Result<(), ControlError> {
    match status {
        None | Some("pending" | "delivered" | "exhausted" | "cancelled") => Ok(()),
        Some(other) => {
            let found = other.escape_debug();
            let message = format!("status: expected pending, delivered, exhausted or cancelled, found `{found}`");
            Err(ControlError::invalid(message))
        }
    }
}

/// The fields of a delivery that differ from the filters of a call, in words; empty if it matches. An absent filter matches everything.
fn differs(filter: &WaitForDeliveries, delivery: &DeliveryRecord) -> Vec<String> {
    let status = api::name_of(delivery.status);
    let fields = [
        ("status", &filter.status, &status),
        ("event", &filter.event, &delivery.event.id),
        ("type", &filter.event_type, &delivery.event.event_type),
        ("subscription", &filter.subscription, &delivery.planned.subscription),
    ];
    let different = fields.into_iter().filter_map(|(name, expected, found)| {
        let expected = expected.as_ref().filter(|expected| *expected != found)?;
        Some(format!("{name}: expected {expected}, found {found}"))
    });
    different.collect()
}

pub(super) fn show(control: &Control, input: &Input<api::ShowDelivery>) -> Result<DeliveryWhole, ControlError> {
    let delivery = find(control, input, &input.segment)?;
    Ok(whole(&delivery, &control.registry, input.redactor()))
}

/// Waits until `count` deliveries match: 200 with them, or on timeout 408 with the nearest ones and what differs.
pub(super) async fn wait(
    control: Arc<Control>,
    input: Arc<Input<api::WaitDeliveries>>,
) -> Result<List<DeliveryRow>, ControlError> {
    let body = &input.body;
    let scope = scope(&control, &input)?;
    check_status(body.status.as_deref())?;
    let limit = timeout(body.timeout.as_ref(), PATIENCE)?;
    let count = checked_count(body.count)?;
    let in_scope = |delivery: &DeliveryRecord| scope.covers(Some(&delivery.event.workspace));
    let matches = |delivery: &DeliveryRecord| in_scope(delivery) && differs(body, delivery).is_empty();
    let mut matching = Vec::new();
    let enough = until_enough(&control.deliveries, count, &mut matching, matches);
    let shown = |delivery: &DeliveryRecord| row(delivery, &control.registry, input.redactor());
    if tokio::time::timeout(limit, enough).await.is_ok() {
        return Ok(List { data: matching.iter().map(|(_, delivery)| shown(delivery)).collect() });
    }
    let matching = matching.len();
    let mut others =
        control.deliveries.list(None, 100, |delivery| in_scope(delivery) && !differs(body, delivery).is_empty());
    others.sort_by_cached_key(|(_, delivery)| differs(body, delivery).len());
    let nearest = others.iter().take(5).map(|(_, delivery)| Nearest {
        request: None,
        delivery: Some(shown(delivery)),
        differs: differs(body, delivery),
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
    input: Arc<Input<api::Redeliver>>,
) -> Result<Redelivered, ControlError> {
    let wait = wait_of(&input.query)?;
    let old = find(&control, &input, &input.segment)?;
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
    let scope = scope_or_all(control, call)?;
    let found = control.deliveries.get(id).filter(|delivery| scope.covers(Some(&delivery.event.workspace)));
    found.ok_or_else(|| {
        ControlError::not_found(format!("there is no delivery `{}`{}", id.escape_debug(), scope.owner()))
    })
}

pub(super) fn row(delivery: &DeliveryRecord, registry: &Registry, redactor: Redactor<'_>) -> DeliveryRow {
    with(delivery, AttemptCount(delivery.made.into()), registry, redactor)
}

pub(super) fn whole(delivery: &DeliveryRecord, registry: &Registry, redactor: Redactor<'_>) -> DeliveryWhole {
    let attempts = delivery.attempts.iter().map(|record| attempt(record, redactor)).collect();
    with(delivery, Attempts(attempts), registry, redactor)
}

fn with<A>(delivery: &DeliveryRecord, attempts: A, registry: &Registry, redactor: Redactor<'_>) -> DeliveryWith<A> {
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
        created_at: api::time(delivery.event.created_at),
        status: delivery.status,
        attempts,
        last: delivery.attempts.last().map(|attempt| outcome(&attempt.outcome, redactor)),
        next_attempt_in_ms: delivery.next.map(|due| due.since(instant).into()),
        note: delivery.note.clone(),
        damage: delivery.event.damage.as_deref().map(str::to_owned),
        forgery: delivery.forgery(),
    }
}

/// One attempt: what was signed and sent, what came back.
pub(super) fn attempt(attempt: &AttemptRecord, redactor: Redactor<'_>) -> Attempt {
    Attempt {
        number: attempt.number,
        at: api::time(attempt.at),
        url: attempt.delivery.url.to_string(),
        dialled: attempt.dialled.to_string(),
        damage: attempt.event.damage.as_deref().map(str::to_owned),
        request: AttemptRequest {
            headers: shown_headers(redactor, attempt.headers.iter()),
            body: shown_body(redactor, &attempt.body),
        },
        signed_content: api::Bytes::from(&*redactor.signed(&attempt.signed.to_vec(), &attempt.body)),
        outcome: outcome(&attempt.outcome, redactor),
        latency_ms: attempt.latency.into(),
    }
}

fn outcome(outcome: &AttemptOutcome, redactor: Redactor<'_>) -> AttemptResult {
    match outcome {
        AttemptOutcome::Answered { status, body, .. } => AttemptResult::Answered {
            accepted: outcome.is_success(),
            status: *status,
            body: shown_body(redactor, body),
        },
        AttemptOutcome::Failed { reason, detail } => {
            AttemptResult::Failed { accepted: false, failure: api::name_of(reason), detail: detail.clone() }
        }
    }
}

/// The deliveries that a built-in receiver received.
pub(super) fn sink(control: &Control, input: &Input<api::ShowSink>) -> List<Receipt> {
    let shown = |receipt: &sink::Receipt| {
        let sent = receipt.headers.iter().map(|(name, value)| (name.as_str(), Cow::Borrowed(value.as_str())));
        Receipt {
            at: api::time(receipt.at),
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

pub(super) fn script(control: &Control, input: &Input<api::ScriptSink>) -> Result<api::Scripted, ControlError> {
    let statuses: Vec<u16> = input.body.respond.iter().map(|Integer(status)| *status).collect();
    if let Some(status) = statuses.iter().find(|status| !(200..=599).contains(*status)) {
        return Err(ControlError::invalid(format!("respond: expected statuses from 200 to 599, found {status}")));
    }
    if statuses.len() > 1000 {
        return Err(ControlError::invalid("respond: at most 1000 statuses"));
    }
    control.sinks.script(&input.segment, statuses);
    Ok(api::Scripted { scripted: true })
}
