//! One short function per operation: check, apply, answer. Scenarios have had their say before (`scripted`).

use std::sync::Arc;

use crate::contract::VERSION;
use crate::contract::error::Error;
use crate::contract::routes::Operation;
use crate::contract::rules::{check_content_type, parse_status_query, parse_subscribe};
use crate::contract::signature::secret_warnings;
use crate::contract::timestamp::timestamp_of;
use crate::contract::types::SystemStatus;
use crate::http::exchange::{Exchange, Outcome, content_types};
use crate::http::preview::perform_announced;
use crate::journal::Reason;
use crate::profile::Profile;

/// Performs an operation.
pub fn perform(exchange: &Exchange, operation: Operation) -> Outcome {
    match operation {
        Operation::SystemStatus => system_status(exchange),
        Operation::EventsSubscribe => events_subscribe(exchange),
        Operation::Hello => hello(exchange),
        announced => perform_announced(exchange, announced).expect("every operation that is not open is announced"),
    }
}

fn system_status(exchange: &Exchange) -> Outcome {
    let profile = &exchange.config.profile;
    let query = match parse_status_query(exchange.parts.uri.query(), &profile.validation) {
        Ok(query) => query,
        Err(error) => return invalid(exchange, error),
    };
    let status = SystemStatus {
        ok: true,
        environment: profile.environment,
        version: VERSION,
        checked_at: timestamp_of(&exchange.id, exchange.now.wall, profile.time.precision),
        checks: query.include_checks.then(|| profile.status.checks.clone()),
    };
    exchange.answered_json(status.to_json(), Reason::Answered)
}

fn events_subscribe(exchange: &Exchange) -> Outcome {
    let profile = Arc::clone(&exchange.config.profile);
    let checked = check_content_type(&content_types(&exchange.parts), &profile.validation)
        .and_then(|()| parse_subscribe(&exchange.body, &profile.subscribe_rules()));
    let secret = checked.as_ref().ok().and_then(|checked| checked.request.secret.as_deref());
    let warnings = secret.map(|secret| warnings(secret, &profile)).unwrap_or_default();
    let subscribed = checked.and_then(|checked| exchange.workspace().lock().subscribe(checked, &profile, exchange.now));
    match subscribed {
        Ok(subscribed) => {
            let reason = Reason::Subscribed { id: subscribed.id, created: subscribed.created, warnings };
            exchange.answered(&subscribed.body, reason)
        }
        Err(error) => invalid(exchange, error),
    }
}

/// Where receivers' libraries may read the secret otherwise, by scheme; each said once.
fn warnings(secret: &str, profile: &Profile) -> Vec<String> {
    let schemes = profile.schemes();
    let all = schemes.iter().flat_map(|scheme| secret_warnings(secret, scheme, profile.webhooks.secret_key));
    all.fold(Vec::new(), |mut said, warning| {
        if !said.contains(&warning) {
            said.push(warning);
        }
        said
    })
}

fn hello(exchange: &Exchange) -> Outcome {
    exchange.answered(&exchange.config.profile.hello.body, Reason::Answered)
}

/// A 422 with every field at fault.
pub fn invalid(exchange: &Exchange, error: Error) -> Outcome {
    let outcome = exchange.error(&error, Reason::Invalid(Vec::new()));
    Outcome { reason: Reason::Invalid(error.problems), ..outcome }
}
