//! `POST requests/wait`: returns when requests match, or proves that none does.
//!
//! A waiting call is woken only by requests that may match. It keeps a cursor in the journal and checks each entry once; at the end it
//! looks for the nearest requests that did not match.

use std::sync::Arc;

use clap::{Args, builder::TypedValueParser as _, value_parser};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ControlError;
use super::absence::{self, MAX_NAMED, MAY_ASK_FOR_NONE, rest};
use super::call::{Body, Call, ControlCall, JSON_OR_TEXT, Made, Options, Tag};
use super::command::CallCommand;
use super::context::{Context, TIMEOUT, timeout};
use super::document::waited_for;
use super::fields::{DurationInput, Integer, KeyFilter, List, Since, count_parser};
use super::reply::Nearest;
use super::request_filter::{AnswerStatus, RequestFilter, operation_names};
use super::requests::row;
use crate::contract::error::ErrorKind;
use crate::state::journal::record::Request;
use crate::state::journal::{Entry, Interest};

/// Wait until requests match.
///
/// Answers as soon as `count` requests match. On timeout it returns a 408 with the nearest requests and how they differ. With `none` it
/// proves the opposite: 200 if none matches once no request is under way, else a 409 with those that do.
#[derive(Args, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitForRequests {
    #[command(flatten)]
    #[serde(default)]
    pub(crate) key: KeyFilter,
    /// Only this operation, such as system.status.
    #[arg(long)]
    #[schemars(extend("enum" = operation_names()))]
    pub(crate) operation: Option<String>,
    /// Only answers with this status; 0 is a broken connection.
    #[arg(long, value_parser = value_parser!(u16).range(0..=599).map(Integer))]
    #[schemars(with = "Option<AnswerStatus>")]
    pub(crate) status: Option<Integer<u16>>,
    /// Only this method.
    #[arg(long)]
    pub(crate) method: Option<String>,
    /// Only this path.
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// Only from this time on: a timestamp, or `now`.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// How many must match.
    #[arg(long, default_value = "1", value_parser = count_parser())]
    #[schemars(range(min = 1, max = 10_000), extend("default" = 1))]
    pub(crate) count: Option<Integer<usize>>,
    /// Succeed only if fewer than COUNT match, so none by default. Waits only for requests under way.
    #[arg(long)]
    #[serde(default)]
    pub(crate) none: bool,
    /// How long to wait, at most 300s.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    #[schemars(extend("default" = "10s"))]
    pub(crate) timeout: Option<DurationInput>,
}

impl ControlCall for Body<WaitForRequests> {
    type Answer = Made<List<Request>>;

    fn call() -> Call {
        Call::waits::<Self, _>(Tag::REQUESTS, "POST requests/wait", |Self { body }, cx| wait(body, cx))
            .with(Options { media: Some(JSON_OR_TEXT), ..MAY_ASK_FOR_NONE })
    }

    fn timeout(&self) -> Option<&DurationInput> {
        self.body.timeout.as_ref()
    }

    fn commands() -> Vec<CallCommand> {
        let about = "Wait until requests match; on timeout, show the nearest ones and what differs, and exit 1";
        let examples = &[
            "requests wait --operation events.subscribe --timeout 30s",
            "requests wait --status 429 --count 3 --since now",
        ];
        vec![CallCommand::new("requests wait", examples, |body| Self { body }.sent()).about(about)]
    }
}

/// Waits until `count` requests match: 200 with them, or on timeout 408 with the nearest ones and what differs.
async fn wait(request: WaitForRequests, cx: Arc<Context>) -> Result<Made<List<Request>>, ControlError> {
    let scope = request.key.scope_soon(&cx.control).await?;
    let limit = timeout(request.timeout.as_ref(), TIMEOUT)?;
    let count = checked_count("count", request.count)?;
    let WaitForRequests { operation, status, since, method, path, .. } = &request;
    let status = status.map(|Integer(status)| status);
    let filter = RequestFilter::read(operation.as_deref(), status, since.as_ref(), &cx.engine.journal)?;
    let filter = filter.of_target(method.as_deref(), path.as_deref());
    let reader = cx.engine.journal.reader(Interest::Requests(filter.interest(scope.key())));
    let (mut next, mut found) = (filter.first, Vec::new());
    let mut look = || {
        for (number, entry) in cx.engine.journal.read(next, usize::MAX) {
            next = number + 1;
            if let Entry::Request(request) = entry
                && scope.covers_request(&request, &cx.profile.keys)
                && filter.differs(number, &request).is_empty()
            {
                found.push(request);
            }
        }
        found.len() >= count
    };
    if request.none {
        rest(&cx, &scope, limit).await?;
        look();
        if found.len() < count {
            return waited_for(&cx, Vec::new(), |request, cx| row(request, cx.redactor())).await;
        }
        let newest = found.iter().rev().take(MAX_NAMED).map(|request| Nearest {
            request: Some(row(request, cx.redactor())),
            delivery: None,
            differs: Vec::new(),
        });
        return Err(absence::found(found.len(), count, "request", newest.collect()));
    }
    let enough = async {
        while !look() {
            reader.appended().await;
        }
    };
    let enough = cx.engine.while_time_passes(scope.0.clone(), enough);
    if tokio::time::timeout(limit, enough).await.is_ok() {
        found.truncate(count);
        return waited_for(&cx, found, |request, cx| row(request, cx.redactor())).await;
    }
    // Of equally near requests, the newest comes first.
    let mut others = cx.engine.journal.search(None, usize::MAX, |number, entry| match entry {
        Entry::Request(request) if number >= filter.first && scope.covers_request(request, &cx.profile.keys) => {
            Some((filter.differs(number, request), Arc::clone(request)))
        }
        _ => None,
    });
    others.retain(|(differs, _)| !differs.is_empty());
    others.sort_by_key(|(differs, _)| differs.len());
    let nearest = others.into_iter().take(5).map(|(differs, request)| Nearest {
        request: Some(row(&request, cx.redactor())),
        delivery: None,
        differs,
    });
    let message = format!("{} of {count} requests matched within {} s (timeout)", found.len(), limit.as_secs_f64());
    Err(ControlError::new(ErrorKind::RequestTimeout, message).with(|error| error.nearest = Some(nearest.collect())))
}

/// A count that a call waits for.
pub(super) fn checked_count(name: &str, count: Option<Integer<usize>>) -> Result<usize, ControlError> {
    /// The default size of the journal.
    const MAX: usize = 10_000;
    match count.map_or(1, |Integer(count)| count) {
        count @ 1..=MAX => Ok(count),
        count => Err(ControlError::invalid(format!("{name}: expected 1 to {MAX}, found {count}"))),
    }
}
