//! One short function per operation: check, apply, answer. Scenario rules come before (`scripted`).

use crate::contract::VERSION;
use crate::contract::routes::{Operation, look_up};
use crate::contract::rules::{check_content_type, parse_status_query, parse_subscribe};
use crate::contract::signature::secret_warnings;
use crate::contract::timestamp::ShownTime;
use crate::contract::types::SystemStatus;
use crate::http::answer::Answer;
use crate::http::request::RequestContext;
use crate::settings::Profile;
use crate::state::journal::Reason;

/// The answer that no scenario makes.
pub(super) fn answer_operation(cx: &mut RequestContext, operation: Operation) -> Answer {
    match operation {
        Operation::SystemStatus => system_status(cx),
        Operation::EventsSubscribe => events_subscribe(cx),
        Operation::Hello => cx.ok(&cx.profile().hello.body, Reason::Answered),
        Operation::Stub => no_stub(cx),
    }
}

/// The 404 of a path that a scenario answers, but not this request. Like any other, it costs the key nothing.
fn no_stub(cx: &mut RequestContext) -> Answer {
    cx.forget_key();
    cx.request.operation = None;
    cx.not_found(look_up(&cx.request.head.method, cx.request.path()))
}

fn system_status(cx: &RequestContext) -> Answer {
    let profile = cx.profile();
    let query = match parse_status_query(cx.request.query(), &profile.validation) {
        Ok(query) => query,
        Err(error) => return cx.validation_error(error),
    };
    let status = SystemStatus {
        ok: true,
        environment: profile.environment,
        version: VERSION,
        checked_at: ShownTime { instant: cx.request.now.wall, precision: profile.time.precision.of(&cx.identity.id) },
        checks: query.include_checks.then(|| profile.status.checks.clone()),
    };
    cx.ok_json(status.to_json(), Reason::Answered)
}

fn events_subscribe(cx: &RequestContext) -> Answer {
    let profile = cx.profile();
    let checked = check_content_type(&cx.request.head.headers, &profile.validation)
        .and_then(|()| parse_subscribe(&cx.body, &profile.subscribe_rules()));
    let secret = checked.as_ref().ok().and_then(|checked| checked.request.secret.as_deref());
    let warnings = secret.map(|secret| warnings(secret, profile)).unwrap_or_default();
    let subscribed = checked.and_then(|checked| cx.workspace().lock().subscribe(checked, profile, cx.request.now));
    match subscribed {
        Ok(subscribed) => {
            let reason = Reason::Subscribed { id: subscribed.id, created: subscribed.created, warnings };
            cx.ok(&subscribed.body, reason)
        }
        Err(error) => cx.validation_error(error),
    }
}

/// Where receivers' libraries may read the secret differently, by scheme; each warning once.
fn warnings(secret: &str, profile: &Profile) -> Vec<String> {
    let schemes = profile.schemes();
    let all = schemes.iter().flat_map(|scheme| secret_warnings(secret, scheme, profile.webhooks.secret_key));
    all.fold(Vec::new(), |mut given, warning| {
        if !given.contains(&warning.text) {
            given.push(warning.text);
        }
        given
    })
}
