//! `GET deliveries`, `GET deliveries/{id}`, `POST deliveries/wait`, `POST deliveries/{id}/redeliver`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::call::KeyField;
use super::duration::{timeout, wait_of};
use super::events::too_many_pending;
use super::filter::checked_count;
use super::paging::Page;
use super::scope::{scope, scope_or_all};
use super::view::{delivery_row, delivery_whole};
use super::whole::Whole;
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::error::ErrorKind;
use crate::contract::ids::IdKind;
use crate::webhook::book::{Book, DeliveryRecord};
use crate::webhook::deliver::hand_over;
use crate::workspace::{EventRecord, PlannedDelivery};

pub(super) fn list(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["limit", "cursor", "status", "event", "type", "subscription"])?;
    let scope = scope(control, call)?;
    let page = Page::read(call)?;
    let (status, event, subscription) = (call.query("status"), call.query("event"), call.query("subscription"));
    let event_type = call.query("type");
    check_status(status.as_deref())?;
    let wanted = |delivery: &DeliveryRecord| {
        scope.covers(Some(&delivery.event.workspace))
            && status.as_deref().is_none_or(|status| json!(delivery.status) == status)
            && event.as_deref().is_none_or(|id| delivery.event.id == id)
            && event_type.as_deref().is_none_or(|name| delivery.event.event_type == name)
            && subscription.as_deref().is_none_or(|id| delivery.planned.subscription == id)
    };
    let rows = control.book.list(page.before, page.limit + 1, wanted);
    let rows = rows
        .into_iter()
        .map(|(serial, delivery)| (serial, delivery_row(&delivery, &control.registry, call.redactor())))
        .collect();
    Ok(ok(page.wrap(rows)))
}

fn check_status(status: Option<&str>) -> Result<(), ControlError> {
    match status {
        None | Some("pending" | "delivered" | "exhausted" | "cancelled") => Ok(()),
        Some(other) => {
            let found = other.escape_debug();
            Err(ControlError::invalid(format!(
                "status: expected pending, delivered, exhausted or cancelled, found `{found}`"
            )))
        }
    }
}

pub(super) fn show(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let delivery = find(control, call, &call.segment)?;
    Ok(ok(delivery_whole(&delivery, &control.registry, call.redactor())))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wait {
    #[serde(default, rename = "key")]
    _key: KeyField,
    status: Option<String>,
    event: Option<String>,
    subscription: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    count: Option<Whole<usize>>,
    timeout: Option<String>,
}

/// Waits until `count` deliveries fit: 200 with them, or 408 with the nearest ones and what differed.
pub(super) async fn wait(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let wish: Wait = call.json()?;
    let scope = scope(control, call)?;
    check_status(wish.status.as_deref())?;
    let limit = timeout(wish.timeout.as_deref(), "10s")?;
    let count = checked_count(wish.count)?;
    let differs = |delivery: &DeliveryRecord| -> Vec<String> {
        let fields = [
            ("status", &wish.status, json!(delivery.status).as_str().unwrap_or_default().to_owned()),
            ("event", &wish.event, delivery.event.id.clone()),
            ("type", &wish.event_type, delivery.event.event_type.clone()),
            ("subscription", &wish.subscription, delivery.planned.subscription.clone()),
        ];
        let different = fields.into_iter().filter_map(|(name, wanted, found)| {
            let wanted = wanted.as_ref().filter(|wanted| **wanted != found)?;
            Some(format!("{name}: wanted {wanted}, found {found}"))
        });
        different.collect()
    };
    let in_scope = |delivery: &DeliveryRecord| scope.covers(Some(&delivery.event.workspace));
    let fits = |delivery: &DeliveryRecord| in_scope(delivery) && differs(delivery).is_empty();
    let mut fitting = Vec::new();
    let enough = until_enough(&control.book, count, &mut fitting, fits);
    let row = |delivery: &DeliveryRecord| delivery_row(delivery, &control.registry, call.redactor());
    if tokio::time::timeout(limit, enough).await.is_ok() {
        let rows: Vec<_> = fitting.iter().map(|(_, delivery)| row(delivery)).collect();
        return Ok(ok(json!({ "data": rows })));
    }
    let fitting = fitting.len();
    let mut others = control.book.list(None, 100, |delivery| in_scope(delivery) && !differs(delivery).is_empty());
    others.sort_by_key(|(_, delivery)| differs(delivery).len());
    let nearest =
        others.iter().take(5).map(|(_, delivery)| json!({ "delivery": row(delivery), "differs": differs(delivery) }));
    let message = format!("{fitting} of {count} deliveries fitted within {} s", limit.as_secs_f64());
    Err(ControlError::new(ErrorKind::RequestTimeout, message).beside("nearest", nearest.collect()))
}

/// Returns when `count` deliveries fit, which are then in `fitting`, newest first. The whole book is looked through once;
/// after that only what changed, so a call that waits costs nothing while nothing happens.
async fn until_enough(
    book: &Book,
    count: usize,
    fitting: &mut Vec<(u64, DeliveryRecord)>,
    fits: impl Fn(&DeliveryRecord) -> bool,
) {
    let mut seen = None;
    loop {
        let mut changed = Box::pin(book.changed());
        changed.as_mut().enable();
        match seen.and_then(|seen| book.changed_since(seen)) {
            // The first look, or so much has happened that the book no longer knows what.
            None => {
                seen = Some(book.changes());
                *fitting = book.list(None, count, &fits);
            }
            Some((now, touched)) => {
                seen = Some(now);
                for (serial, delivery) in touched {
                    let place = fitting.iter().position(|(known, _)| *known == serial);
                    match (place, fits(&delivery)) {
                        (Some(place), true) => fitting[place].1 = delivery,
                        (Some(place), false) => drop(fitting.remove(place)),
                        (None, true) => fitting.insert(0, (serial, delivery)),
                        (None, false) => {}
                    }
                }
            }
        }
        if fitting.len() >= count {
            fitting.sort_by_key(|(serial, _)| std::cmp::Reverse(*serial));
            fitting.truncate(count);
            return;
        }
        changed.await;
    }
}

/// Sends the same event, with the same id and body, to the same subscription again, signed afresh.
pub(super) async fn redeliver(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["wait"])?;
    call.no_body()?;
    let wait = wait_of(call)?;
    let old = find(control, call, &call.segment)?;
    let Some(workspace) = control.registry.find(&old.event.workspace) else {
        return Err(ControlError::not_found("the delivery's workspace is gone"));
    };
    let now = workspace.clock().now();
    let profile = Arc::clone(&control.library.load().setup_for(Some(workspace.name())).profile);
    let id = workspace.lock().make_id(IdKind::Delivery, &profile, now);
    let planned = PlannedDelivery { id: id.clone(), attempts_before: 0, ..PlannedDelivery::clone(&old.planned) };
    let event = EventRecord {
        deliveries: vec![Arc::new(planned)],
        skipped: Vec::new(),
        due: now.moment,
        handed_at: now.wall,
        ..EventRecord::clone(&old.event)
    };
    hand_over(&control.journal, &control.book, &workspace, Arc::new(event)).map_err(too_many_pending)?;
    let delivery = match wait {
        Some(limit) => control.book.wait_attempted(&[id], limit).await.into_iter().next(),
        None => control.book.get(&id),
    };
    Ok(ok(
        json!({ "delivery": delivery.map(|delivery| delivery_whole(&delivery, &control.registry, call.redactor())) }),
    ))
}

/// The delivery with this id, unless the call names a key that it is not of.
pub(super) fn find(control: &Control, call: &Call, id: &str) -> Result<DeliveryRecord, ControlError> {
    let scope = scope_or_all(control, call)?;
    let found = control.book.get(id).filter(|delivery| scope.covers(Some(&delivery.event.workspace)));
    found.ok_or_else(|| {
        ControlError::not_found(format!("there is no delivery `{}`{}", id.escape_debug(), scope.owner()))
    })
}
