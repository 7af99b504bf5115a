//! `GET deliveries`, `GET deliveries/{id}`, `POST deliveries/{id}/redeliver`.

use std::sync::Arc;

use serde_json::json;

use super::events::wait_limit;
use super::paging::Page;
use super::scope::scope;
use super::view::{delivery_row, delivery_whole};
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::ids::IdKind;
use crate::webhook::book::DeliveryRecord;
use crate::webhook::deliver::hand_over;
use crate::workspace::{EventRecord, PlannedDelivery};

pub(super) fn list(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key", "limit", "cursor", "status", "event", "subscription"])?;
    let scope = scope(control, call.query("key").as_deref())?;
    let page = Page::read(call)?;
    let (status, event, subscription) = (call.query("status"), call.query("event"), call.query("subscription"));
    if let Some(status) =
        status.as_deref().filter(|status| !["pending", "delivered", "exhausted", "cancelled"].contains(status))
    {
        let message =
            format!("status: expected pending, delivered, exhausted or cancelled, found `{}`", status.escape_debug());
        return Err(ControlError::invalid(message));
    }
    let wanted = |delivery: &DeliveryRecord| {
        scope.covers(Some(&delivery.event.workspace))
            && status.as_deref().is_none_or(|status| json!(delivery.status) == status)
            && event.as_deref().is_none_or(|id| delivery.event.id == id)
            && subscription.as_deref().is_none_or(|id| delivery.planned.subscription == id)
    };
    let rows = control.book.list(page.before, page.limit + 1, wanted);
    let rows =
        rows.into_iter().map(|(serial, delivery)| (serial, delivery_row(&delivery, &control.registry))).collect();
    Ok(ok(&page.wrap(rows)))
}

pub(super) fn show(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    let delivery = find(control, &call.segment)?;
    Ok(ok(&delivery_whole(&delivery, &control.registry)))
}

/// Sends the same event, with the same id and body, to the same subscription again, signed afresh.
pub(super) async fn redeliver(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key", "wait"])?;
    let wait = call.query("wait").map(|text| wait_limit(&text)).transpose()?;
    let old = find(control, &call.segment)?;
    let Some(workspace) = control.registry.find(&old.event.workspace) else {
        return Err(ControlError::not_found("the delivery's workspace is gone"));
    };
    let now = workspace.clock().now();
    let profile = Arc::clone(&control.library.load().setup_for(Some(workspace.name())).profile);
    let id = workspace.lock().make_id(IdKind::Delivery, &profile, now);
    let planned = PlannedDelivery { id: id.clone(), ..old.planned };
    let event = EventRecord {
        deliveries: vec![planned],
        skipped: Vec::new(),
        due: now.moment,
        ..EventRecord::clone(&old.event)
    };
    hand_over(&control.journal, &control.book, Arc::new(event));
    let delivery = match wait {
        Some(limit) => control.book.wait_attempted(&[id], limit).await.into_iter().next(),
        None => control.book.get(&id),
    };
    Ok(ok(&json!({ "delivery": delivery.map(|delivery| delivery_whole(&delivery, &control.registry)) })))
}

pub(super) fn find(control: &Control, id: &str) -> Result<DeliveryRecord, ControlError> {
    control.book.get(id).ok_or_else(|| ControlError::not_found(format!("there is no delivery `{}`", id.escape_debug())))
}
