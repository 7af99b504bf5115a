//! `none` of `POST requests/wait` and `POST deliveries/wait`: proves that nothing matches, and that nothing will before another call or the
//! clock brings it about. Nobody waits out a window: what could still come is known.

use std::time::Duration;

use super::ControlError;
use super::call::{Options, USUAL};
use super::context::{Context, KeyScope};
use super::due::yet_to_deliver;
use super::fields::Due;
use super::reply::Nearest;
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::engine::wait_idle;
use crate::util::duration::duration_text;
use crate::util::wording::counted;

/// The options of a call that can ask for none.
pub(super) const MAY_ASK_FOR_NONE: Options =
    Options { errors: &[(409, "With `none`: something matches, is due, or is still under way.")], ..USUAL };

/// Maximum number of records and due entries that a refusal names.
pub(super) const MAX_NAMED: usize = 5;

/// Waits until nothing is under way for the keys of the scope: no request, no attempt, no event that is due.
pub(super) async fn rest(cx: &Context, scope: &KeyScope, limit: Duration) -> Result<(), ControlError> {
    let rested = async {
        for workspace in scope.workspaces(&cx.engine) {
            wait_idle(&workspace).await;
            // Of ten thousand keys at rest, none would let other calls run.
            tokio::task::coop::consume_budget().await;
        }
    };
    tokio::time::timeout(limit, rested).await.map_err(|_| {
        let limit = duration_text(limit);
        ControlError::conflict(format!(
            "a request or an attempt{} was still under way after {limit}",
            scope.of_this_key()
        ))
    })
}

/// The refusal of a call that asked for none of these, or for fewer than `limit`: how many there are, and the newest.
pub(super) fn found(count: usize, limit: usize, what: &str, newest: Vec<Nearest>) -> ControlError {
    let exist = if count == 1 { "matches" } else { "match" };
    let expected = if limit == 1 { "none".to_owned() } else { format!("fewer than {limit}") };
    let message = format!("expected {expected}, but {} {exist}", counted(count, what));
    ControlError::conflict(message).with(|error| error.nearest = Some(newest))
}

/// Fails if an event of one of these types, or a delivery that is meant, is planned or due.
pub(super) fn nothing_due(
    cx: &Context,
    scope: &KeyScope,
    is_type: &dyn Fn(&str) -> bool,
    is_meant: &dyn Fn(&DeliveryRecord) -> bool,
) -> Result<(), ControlError> {
    let mut due = yet_to_deliver(&cx.control, scope, cx.redactor(), is_type, is_meant);
    if due.is_empty() {
        return Ok(());
    }
    let (is_one, has_more) = (due.len() == 1, due.len() > MAX_NAMED);
    due.truncate(MAX_NAMED);
    let line = |due: &Due| {
        let wait = Duration::from_secs_f64(due.in_ms.0.max(0.0) / 1000.0);
        format!("{} in {}", due.message, duration_text(wait))
    };
    let named: Vec<String> = due.iter().map(line).collect();
    let more = if has_more { "; and more" } else { "" };
    let message =
        format!("none came, but {} still due: {}{more}", if is_one { "one is" } else { "some are" }, named.join("; "));
    Err(ControlError::conflict(message).with(|error| error.due = Some(due)))
}
