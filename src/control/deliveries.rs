//! `GET deliveries`, `GET deliveries/{id}`, `POST deliveries/{id}/redeliver`; `GET sink/{name}` and
//! `POST sink/{name}`, a built-in receiver.

use std::borrow::Cow;
use std::sync::Arc;

use clap::{Args, value_parser};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call::{Call, ControlCall, Query, Tag};
use super::command::CallCommand;
use super::context::{Context, KeyScope, LISTED, Paging, RECENT, wait_limit};
use super::fields::{DurationInput, Integer, KeyFilter, NoFields, Page};
use super::render::{TableRow, Text, body_text, cell, header_text, table};
use super::requests::{shown_body, shown_headers};
use super::{Control, ControlError};
use crate::advice::Audience;
use crate::redact::Redactor;
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::engine::sink;
use crate::state::journal::record::{
    Attempt, AttemptCount, AttemptRequest, AttemptResult, Attempts, Bytes, DeliveryRow, DeliveryWhole, DeliveryWith,
    Headers, Time, name_of, time,
};
use crate::state::workspace::{AttemptOutcome, AttemptRecord, Registry, status_text};
pub(crate) use crate::state::workspace::{DeliveryStatus, Forgery};
use crate::util::wording::quoted;

/// List deliveries, newest first.
///
/// A page of deliveries. Each parameter narrows the list; pass `next_cursor` as `cursor` for the next page.
#[derive(Args, Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ListDeliveries {
    #[command(flatten)]
    #[serde(default)]
    pub(crate) key: KeyFilter,
    /// Only these: pending, delivered, exhausted or cancelled.
    #[arg(long)]
    #[schemars(with = "Option<DeliveryStatus>")]
    pub(crate) status: Option<String>,
    /// Only deliveries of the event with this id.
    #[arg(long, value_name = "ID", value_parser = event_id)]
    pub(crate) event: Option<String>,
    /// Only deliveries of this event type.
    #[arg(long = "type", id = "type", value_name = "TYPE")]
    #[serde(rename = "type")]
    pub(crate) event_type: Option<String>,
    /// Only deliveries to the subscription with this id.
    #[arg(long, value_name = "ID", value_parser = subscription_id)]
    pub(crate) subscription: Option<String>,
    /// At most this many; fewer if they are large.
    #[arg(long, default_value = "20", value_parser = value_parser!(u16).range(1..=1000))]
    #[schemars(range(min = 1, max = 1000), extend("default" = 20))]
    pub(crate) limit: Option<u16>,
    /// Continue after another page: its `next_cursor`.
    #[arg(long)]
    #[schemars(regex(pattern = "^[0-9]{1,18}$"), extend("examples" = ["41"]))]
    pub(crate) cursor: Option<String>,
}

impl ControlCall for Query<ListDeliveries> {
    type Answer = Page<DeliveryRow>;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::WEBHOOKS, "GET deliveries", list)
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &[
            "deliveries list --status pending",
            "deliveries list --event evt_01k... --json",
            "deliveries list --follow",
        ];
        let group = &["deliveries --status exhausted", "deliveries wait --count 2"];
        let command = CallCommand::new("deliveries list", examples, |query| Self { query }.sent()).follows("attempt");
        vec![command.leads("List, show, wait for and repeat deliveries", group)]
    }
}

pub(super) fn event_id(text: &str) -> Result<String, String> {
    parse_id(text, "evt_", "an event")
}

pub(super) fn subscription_id(text: &str) -> Result<String, String> {
    parse_id(text, "sub_", "a subscription")
}

fn parse_id(text: &str, prefix: &str, what: &str) -> Result<String, String> {
    let is_one = text.starts_with(prefix).then(|| text.to_owned());
    is_one.ok_or_else(|| format!("expected the id of {what}, such as {prefix}01k..."))
}

/// Show one delivery with each attempt.
///
/// Each attempt with the signed content, the request, the receiver's answer, and when the next one is due.
#[derive(Args, Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ShowDelivery {
    #[command(flatten)]
    pub(crate) path: DeliveryPath,
    #[command(flatten)]
    pub(crate) query: NoFields,
}

#[derive(Args, Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct DeliveryPath {
    /// Its id.
    #[schemars(length(min = 1), extend("examples" = ["dlv_01kg9tbs8075j3q2a1zqxhg4v6"]))]
    pub(crate) id: String,
}

impl ControlCall for ShowDelivery {
    type Answer = DeliveryWhole;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::WEBHOOKS, "GET deliveries/{id}", |Self { path, query }, cx| {
            Ok(whole(&find(&cx.control, &query.key.scope(&cx.engine)?, &path.id)?, &cx.engine.registry, cx.redactor()))
        })
    }

    fn commands() -> Vec<CallCommand> {
        let about = "Show one delivery with each attempt: signed content, request and answer";
        let examples = &["deliveries show dlv_01k...", "deliveries show dlv_01k... --json"];
        vec![CallCommand::new("deliveries show", examples, |request: Self| request.sent()).about(about)]
    }
}

/// Send the same event to the same subscription again.
///
/// With the same body and id, and a new signature.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct Redeliver {
    pub(crate) path: DeliveryPath,
    pub(crate) query: RedeliverQuery,
    pub(crate) body: NoFields,
}

#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct RedeliverQuery {
    /// At most 300s.
    pub(crate) wait: Option<DurationInput>,
}

impl ControlCall for Redeliver {
    type Answer = Redelivered;

    fn call() -> Call {
        Call::waits::<Self, _>(Tag::WEBHOOKS, "POST deliveries/{id}/redeliver", redeliver)
    }
}

/// The deliveries that a built-in receiver got.
///
/// Each delivery to `https://NAME.sink.localhost`, and whether its signature was right.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ShowSink {
    path: SinkPath,
    query: SinkQuery,
}

#[derive(Debug, Deserialize, JsonSchema, Serialize)]
struct SinkPath {
    #[schemars(length(min = 1), extend("examples" = ["app"]))]
    name: String,
}

#[derive(Debug, Deserialize, JsonSchema, Serialize)]
struct SinkQuery {
    #[serde(default)]
    key: KeyFilter,
    /// At most this many, the oldest first; fewer if they are large.
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    limit: Option<u16>,
    /// Continue after another page: its `next_cursor`.
    #[schemars(regex(pattern = "^[0-9]{1,18}$"), extend("examples" = ["41"]))]
    cursor: Option<String>,
}

impl ControlCall for ShowSink {
    type Answer = Page<ReceiptView>;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::WEBHOOKS, "GET sink/{name}", |request, cx| sink(&request, cx))
    }
}

/// Set the next answers of a built-in receiver.
///
/// One status for each incoming request, in this order.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ScriptSink {
    path: SinkPath,
    body: Script,
}

#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct Script {
    #[serde(default)]
    key: KeyFilter,
    /// Statuses, one for each answer.
    #[schemars(length(max = 1000), inner(range(min = 200, max = 599)))]
    respond: Vec<Integer<u16>>,
}

impl ControlCall for ScriptSink {
    type Answer = Scripted;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::WEBHOOKS, "POST sink/{name}", script)
    }
}

/// The new delivery.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Redelivered {
    pub(crate) delivery: Option<DeliveryWhole>,
}

/// A request that a built-in receiver got.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Receipt")]
pub(crate) struct ReceiptView {
    pub(crate) at: Time,
    pub(crate) target: String,
    pub(crate) headers: Headers,
    /// As it was sent, which is JSON.
    pub(crate) body: String,
    /// True if the signature was right.
    pub(crate) verified: bool,
    /// Why it was not.
    pub(crate) problem: Option<String>,
    /// The receiver's answer.
    pub(crate) status: u16,
}

/// The receiver is scripted.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Scripted {
    #[schemars(extend("const" = true))]
    pub(crate) scripted: bool,
}

impl TableRow for DeliveryRow {
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
    fn text(&self, reader: &Audience) -> String {
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
                AttemptResult::Failed { failure, detail, hint, .. } => {
                    let hint = hint.as_ref().map_or_else(String::new, |hint| format!("{}\n", cell(hint.line(reader))));
                    format!("failed: {failure} ({})\n{hint}", cell(detail))
                }
                AttemptResult::Answered { status, body: answer, note, .. } => {
                    format!("answered: {} {}\n", cell(status_text(*status, note.as_deref())), body_text(answer))
                }
            });
        }
        text
    }
}

impl Text for Redelivered {
    fn text(&self, reader: &Audience) -> String {
        self.delivery.as_ref().map(|delivery| delivery.text(reader)).unwrap_or_default()
    }
}

impl TableRow for ReceiptView {
    fn table(rows: &[Self]) -> String {
        let columns = |row: &Self| {
            let verified = row.problem.as_ref().map_or_else(|| "verified".to_owned(), cell);
            [cell(&row.at), row.status.to_string(), cell(&row.target), verified]
        };
        table(["AT", "ANSWERED", "TARGET", "SIGNATURE"], rows.iter().map(columns))
    }
}

impl Text for Scripted {}

fn list(Query { query: request }: Query<ListDeliveries>, cx: &Context) -> Result<Page<DeliveryRow>, ControlError> {
    let scope = request.key.scope(&cx.engine)?;
    let page = Paging::read(request.limit, RECENT, request.cursor.as_deref())?;
    check_status(request.status.as_deref())?;
    let filter = [&request.status, &request.event, &request.event_type, &request.subscription];
    let found = cx.engine.deliveries.list(page.after, page.limit + 1, |delivery| {
        scope.covers(Some(&delivery.event.workspace)) && differs(filter, delivery).is_empty()
    });
    Ok(page.page(found, |delivery| row(&delivery, &cx.engine.registry, cx.redactor())))
}

pub(super) fn check_status(status: Option<&str>) -> Result<(), ControlError> {
    match status {
        None | Some("pending" | "delivered" | "exhausted" | "cancelled") => Ok(()),
        Some(other) => Err(ControlError::unexpected("status", "pending, delivered, exhausted or cancelled", other)),
    }
}

/// The fields of a delivery that differ from the filters of a call, in words; empty if it matches. An absent filter matches everything.
pub(super) fn differs(filter: [&Option<String>; 4], delivery: &DeliveryRecord) -> Vec<String> {
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

/// Sends the same event, with the same id and body, to the same subscription again, with a new signature.
async fn redeliver(request: Redeliver, cx: Arc<Context>) -> Result<Redelivered, ControlError> {
    let Redeliver { path, query, body } = request;
    let wait = query.wait.map(|wait| wait_limit("wait", &wait)).transpose()?;
    let old = find(&cx.control, &body.key.scope_soon(&cx.control).await?, &path.id)?;
    let Some(workspace) = cx.engine.registry.find(&old.event.workspace) else {
        return Err(ControlError::not_found("the delivery's workspace is gone"));
    };
    let id = cx.engine.redeliver(&workspace, &old).map_err(ControlError::too_many_pending)?;
    let delivery = match wait {
        Some(limit) => {
            let clock = workspace.clock().clone();
            let tried = cx.engine.deliveries.wait_tried(std::slice::from_ref(&id), limit, &clock);
            cx.engine.while_time_passes(Some(workspace), tried).await.into_iter().next()
        }
        None => cx.engine.deliveries.get(&id),
    };
    let shown = |delivery: DeliveryRecord| whole(&delivery, &cx.engine.registry, cx.redactor());
    Ok(Redelivered { delivery: delivery.map(shown) })
}

/// The delivery with this id, if it belongs to the key that the call names, or the call names none.
pub(super) fn find(control: &Control, scope: &KeyScope, id: &str) -> Result<DeliveryRecord, ControlError> {
    let found = control.engine.deliveries.get(id).filter(|delivery| scope.covers(Some(&delivery.event.workspace)));
    found
        .ok_or_else(|| ControlError::not_found(format!("there is no delivery `{}`{}", quoted(id), scope.of_this_key())))
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
        note: delivery.note.as_ref().map(ToString::to_string),
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
        AttemptOutcome::Answered { status, body, location, note, .. } => AttemptResult::Answered {
            accepted: outcome.is_success(),
            status: *status,
            body: shown_body(redactor, body),
            location: location.as_deref().map(|location| redactor.text(location).into_owned()),
            note: note.as_deref().map(|note| redactor.text(note).into_owned()),
        },
        AttemptOutcome::Failed { reason, detail, hint } => AttemptResult::Failed {
            accepted: false,
            failure: name_of(reason),
            detail: redactor.text(detail).into_owned(),
            hint: hint.as_deref().cloned(),
        },
    }
}

fn sink(ShowSink { path, query }: &ShowSink, cx: &Context) -> Result<Page<ReceiptView>, ControlError> {
    let page = Paging::read(query.limit, LISTED, query.cursor.as_deref())?;
    let shown = |receipt: Arc<sink::Receipt>| {
        let sent = receipt.headers.iter().map(|(name, value)| (name.as_str(), Cow::Borrowed(value.as_str())));
        ReceiptView {
            at: time(receipt.at),
            target: receipt.target.clone(),
            headers: shown_headers(cx.redactor(), sent),
            body: shown_body(cx.redactor(), &receipt.body).as_text().to_owned(),
            verified: receipt.verified.is_ok(),
            problem: receipt.verified.as_ref().err().map(ToString::to_string),
            status: receipt.status,
        }
    };
    let received = cx
        .engine
        .sinks
        .received(&path.name)
        .into_iter()
        .filter(|(number, _)| page.after.is_none_or(|after| *number > after));
    Ok(page.page(received, shown))
}

fn script(ScriptSink { path, body }: ScriptSink, cx: &Context) -> Result<Scripted, ControlError> {
    let statuses: Vec<u16> = body.respond.iter().map(|Integer(status)| *status).collect();
    if let Some(status) = statuses.iter().find(|status| !(200..=599).contains(*status)) {
        return Err(ControlError::invalid(format!("respond: expected statuses from 200 to 599, found {status}")));
    }
    if statuses.len() > 1000 {
        return Err(ControlError::invalid("respond: at most 1000 statuses"));
    }
    cx.engine.sinks.script(&path.name, statuses).map_err(|full| ControlError::invalid(full.to_string()))?;
    Ok(Scripted { scripted: true })
}
