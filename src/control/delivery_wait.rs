//! `POST deliveries/wait`: returns when deliveries match, or proves that none does and none will.

use std::cmp::Reverse;
use std::sync::Arc;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ControlError;
use super::absence::{self, MAX_NAMED, MAY_ASK_FOR_NONE, nothing_due, rest};
use super::call::{Body, Call, ControlCall, JSON_OR_TEXT, Made, Options, Tag};
use super::command::CallCommand;
use super::context::{Context, KeyScope, TIMEOUT, timeout};
use super::deliveries::{check_status, differs, event_id, row, subscription_id};
use super::document::waited_for;
use super::fields::{DurationInput, Integer, KeyFilter, List, count_parser};
use super::reply::Nearest;
use super::request_wait::checked_count;
use crate::contract::error::ErrorKind;
use crate::contract::rules::unsupported;
use crate::settings::Profile;
use crate::state::engine::deliveries::{DeliveryRecord, DeliveryStore};
use crate::state::journal::record::DeliveryRow;
use crate::state::workspace::{DeliveryStatus, Workspace};
use crate::util::wording::quoted;

/// Wait until deliveries match.
///
/// Answers as soon as `count` deliveries match. On timeout it returns a 408 with the nearest deliveries and how they differ. With `none` it
/// proves the opposite: 200 at once if none matches and nothing that would match is due, planned or under way, else a 409 that says what.
#[derive(Args, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitForDeliveries {
    #[command(flatten)]
    #[serde(default)]
    pub(crate) key: KeyFilter,
    /// Only these: pending, delivered, exhausted or cancelled.
    #[arg(long)]
    #[schemars(with = "Option<DeliveryStatus>")]
    pub(crate) status: Option<String>,
    /// Only deliveries of the event with this id.
    #[arg(long, value_name = "ID", value_parser = event_id)]
    #[schemars(regex(pattern = "^evt_"))]
    pub(crate) event: Option<String>,
    /// Only deliveries of this event type.
    #[arg(long = "type", id = "type", value_name = "TYPE")]
    #[serde(rename = "type")]
    pub(crate) event_type: Option<String>,
    /// Only deliveries to the subscription with this id.
    #[arg(long, value_name = "ID", value_parser = subscription_id)]
    pub(crate) subscription: Option<String>,
    /// Only deliveries with at least this many attempts.
    #[arg(long, value_name = "N", value_parser = count_parser())]
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) attempts: Option<Integer<usize>>,
    /// How many must match.
    #[arg(long, default_value = "1", value_parser = count_parser())]
    #[schemars(range(min = 1, max = 10_000), extend("default" = 1))]
    pub(crate) count: Option<Integer<usize>>,
    /// Succeed only if fewer than COUNT match, so none by default, and none that would match is due or planned. Waits only for attempts
    /// and requests under way.
    #[arg(long)]
    #[serde(default)]
    pub(crate) none: bool,
    /// How long to wait, at most 300s.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    #[schemars(extend("default" = "10s"))]
    pub(crate) timeout: Option<DurationInput>,
}

impl ControlCall for Body<WaitForDeliveries> {
    type Answer = Made<List<DeliveryRow>>;

    fn call() -> Call {
        Call::waits::<Self, _>(Tag::WEBHOOKS, "POST deliveries/wait", |Self { body }, cx| wait(body, cx))
            .with(Options { media: Some(JSON_OR_TEXT), ..MAY_ASK_FOR_NONE })
    }

    fn timeout(&self) -> Option<&DurationInput> {
        self.body.timeout.as_ref()
    }

    fn commands() -> Vec<CallCommand> {
        let about = "Wait until deliveries match; on timeout, show the nearest ones and what differs, and exit 1";
        let examples = &[
            "deliveries wait --status delivered --type workflow.completed --timeout 30s",
            "deliveries wait --count 3 --key sk_test_mine",
            "deliveries wait --none --key sk_test_mine",
        ];
        vec![CallCommand::new("deliveries wait", examples, |body| Self { body }.sent()).about(about)]
    }
}

/// Refuses what no delivery can have, because a wait for it would prove nothing: a type that no key of the scope supports, an unknown
/// subscription.
fn check_filters(request: &WaitForDeliveries, cx: &Context, scope: &KeyScope) -> Result<(), ControlError> {
    let WaitForDeliveries { status, event, event_type, subscription, .. } = request;
    check_status(status.as_deref())?;
    let in_scope = |delivery: &DeliveryRecord| scope.covers(Some(&delivery.event.workspace));
    let was_sent = |differs: &dyn Fn(&DeliveryRecord) -> bool| {
        !cx.engine.deliveries.list(None, 1, |delivery| in_scope(delivery) && !differs(delivery)).is_empty()
    };
    if let Some(event) = event {
        event_id(event).map_err(|problem| {
            ControlError::invalid(format!("event: {problem}, found `{}`; an event type is `type`", quoted(event)))
        })?;
    }
    if let Some(wanted) = event_type {
        let profile = cx.engine.profile_for(scope.key().as_deref());
        let supports = |profile: &Profile| profile.events.types().any(|known| known == wanted);
        let of_a_key = |workspace: &Arc<Workspace>| supports(&cx.engine.profile_for(Some(workspace.name())));
        let is_supported = supports(&profile) || scope.workspaces(&cx.engine).iter().any(of_a_key);
        if !is_supported && !was_sent(&|delivery| delivery.event.event_type != *wanted) {
            return Err(ControlError::not_found(format!("type: {}", unsupported(wanted, &profile.events))));
        }
    }
    if let Some(wanted) = subscription {
        let owns = |workspace: &Arc<Workspace>| workspace.lock().subscriptions.get(wanted).is_some();
        let is_known = scope.workspaces(&cx.engine).iter().any(owns);
        if !is_known && !was_sent(&|delivery| delivery.planned.subscription != *wanted) {
            let (id, whose) = (quoted(wanted), scope.of_this_key());
            return Err(ControlError::not_found(format!(
                "subscription: there is no `{id}`{whose}, and none was sent to it"
            )));
        }
    }
    Ok(())
}

/// Waits until `count` deliveries match: 200 with them, or on timeout 408 with the nearest ones and what differs.
async fn wait(request: WaitForDeliveries, cx: Arc<Context>) -> Result<Made<List<DeliveryRow>>, ControlError> {
    let scope = request.key.scope_soon(&cx.control).await?;
    // On a blocking thread, because there may be ten thousand keys.
    let (looking, whose) = (Arc::clone(&cx), scope.clone());
    let request = cx.control.run_to_end(move |_| check_filters(&request, &looking, &whose).map(|()| request)).await?;
    let limit = timeout(request.timeout.as_ref(), TIMEOUT)?;
    let (count, attempts) = (checked_count("count", request.count)?, checked_count("attempts", request.attempts)?);
    let filter = [&request.status, &request.event, &request.event_type, &request.subscription];
    let in_scope = |delivery: &DeliveryRecord| scope.covers(Some(&delivery.event.workspace));
    if request.none {
        rest(&cx, &scope, limit).await?;
        let looking = Arc::clone(&cx);
        cx.control.run_to_end(move |_| check_none(&request, (count, attempts), &looking, &scope)).await?;
        return waited_for(&cx, Vec::new(), |(_, delivery): &(u64, DeliveryRecord), cx| {
            row(delivery, &cx.engine.registry, cx.redactor())
        })
        .await;
    }
    let differs = |delivery: &DeliveryRecord| {
        let mut all = differs(filter, delivery);
        let made = usize::try_from(delivery.attempts_made()).unwrap_or(usize::MAX);
        if request.attempts.is_some() && made < attempts {
            all.push(format!("attempts: expected {attempts} or more, found {made}"));
        }
        all
    };
    let matches = |delivery: &DeliveryRecord| in_scope(delivery) && differs(delivery).is_empty();
    let mut matching = Vec::new();
    let enough = until_enough(&cx.engine.deliveries, count, &mut matching, matches);
    let enough = cx.engine.while_time_passes(scope.0.clone(), enough);
    let is_enough = tokio::time::timeout(limit, enough).await.is_ok();
    if is_enough {
        return waited_for(&cx, matching, |(_, delivery), cx| row(delivery, &cx.engine.registry, cx.redactor())).await;
    }
    let matching = matching.len();
    let mut others =
        cx.engine.deliveries.list(None, 100, |delivery| in_scope(delivery) && !differs(delivery).is_empty());
    others.sort_by_cached_key(|(_, delivery)| differs(delivery).len());
    let nearest = others.iter().take(5).map(|(_, delivery)| Nearest {
        request: None,
        delivery: Some(row(delivery, &cx.engine.registry, cx.redactor())),
        differs: differs(delivery),
    });
    let message = format!("{matching} of {count} deliveries matched within {} s (timeout)", limit.as_secs_f64());
    Err(ControlError::new(ErrorKind::RequestTimeout, message).with(|error| error.nearest = Some(nearest.collect())))
}

/// Fails if `count` deliveries match, or one that would match is due or planned.
fn check_none(
    request: &WaitForDeliveries,
    (count, attempts): (usize, usize),
    cx: &Context,
    scope: &KeyScope,
) -> Result<(), ControlError> {
    let WaitForDeliveries { status, event, event_type, subscription, .. } = request;
    let in_scope = |delivery: &DeliveryRecord| scope.covers(Some(&delivery.event.workspace));
    let matches = |delivery: &DeliveryRecord| {
        let made = usize::try_from(delivery.attempts_made()).unwrap_or(usize::MAX);
        let is_tried = request.attempts.is_none() || made >= attempts;
        in_scope(delivery) && is_tried && differs([status, event, event_type, subscription], delivery).is_empty()
    };
    let all = cx.engine.deliveries.count(matches);
    if all >= count {
        let found = cx.engine.deliveries.list(None, MAX_NAMED, matches);
        let newest = found.iter().map(|(_, delivery)| Nearest {
            request: None,
            delivery: Some(row(delivery, &cx.engine.registry, cx.redactor())),
            differs: Vec::new(),
        });
        return Err(absence::found(all, count, "delivery", newest.collect()));
    }
    // Whatever becomes of it.
    let may_match = |delivery: &DeliveryRecord| differs([&None, event, event_type, subscription], delivery).is_empty();
    let may_fire = |fired: &str| event.is_none() && event_type.as_ref().is_none_or(|wanted| wanted == fired);
    nothing_due(cx, scope, &may_fire, &may_match)
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
