//! The announced endpoints: one short function per operation. Every answer of theirs is marked (`service`).

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use serde::Serialize;
use serde_json::json;

use crate::contract::error::{Error, ErrorKind};
use crate::contract::keys::workspace_of;
use crate::contract::oauth::{OauthProblem, parse_token_request};
use crate::contract::preview::{parse_user_query, parse_workflow, parse_workflow_query};
use crate::contract::routes::{Operation, id_in};
use crate::contract::rules::check_content_type;
use crate::contract::variation::Outermost;
use crate::http::exchange::{Exchange, Outcome, content_types};
use crate::http::handlers::invalid;
use crate::journal::Reason;
use crate::workspace::Listed;

/// Marks every answer of an announced endpoint.
pub const PREVIEW: HeaderName = HeaderName::from_static("x-emulator-preview");
/// Its value.
pub const MARKED: HeaderValue = HeaderValue::from_static("true");

/// Performs an announced operation; `None` for an open one.
pub fn perform_announced(exchange: &Exchange, operation: Operation) -> Option<Outcome> {
    match operation {
        Operation::WorkflowsList => Some(list_workflows(exchange)),
        Operation::WorkflowsCreate => Some(create_workflow(exchange)),
        Operation::WorkflowsRead => Some(read_workflow(exchange)),
        Operation::WorkflowsUpdate => Some(update_workflow(exchange)),
        Operation::WorkflowsCancel => Some(cancel_workflow(exchange)),
        Operation::UsersList => Some(list_users(exchange)),
        Operation::UsersRead => Some(read_user(exchange)),
        Operation::OauthToken => Some(issue_token(exchange)),
        Operation::SystemStatus | Operation::EventsSubscribe | Operation::Hello => None,
    }
}

fn list_workflows(exchange: &Exchange) -> Outcome {
    let profile = &exchange.config.profile;
    let listed = parse_workflow_query(exchange.parts.uri.query(), &profile.validation, &profile.preview)
        .and_then(|query| exchange.workspace().lock().list_workflows(&query, profile, exchange.now));
    page(exchange, listed)
}

fn create_workflow(exchange: &Exchange) -> Outcome {
    let profile = &exchange.config.profile;
    let created = check_content_type(&content_types(&exchange.parts), &profile.validation)
        .and_then(|()| parse_workflow(&exchange.body, &profile.validation, profile.errors.malformed_json_status))
        .and_then(|fields| exchange.workspace().lock().create_workflow(fields, profile, exchange.now));
    match created {
        Ok(workflow) => {
            if let Some(engine) = &exchange.preview {
                engine.look(exchange.workspace());
            }
            exchange.answered(&workflow, Reason::Answered)
        }
        Err(error) => invalid(exchange, error),
    }
}

fn read_workflow(exchange: &Exchange) -> Outcome {
    let id = id_in(exchange.parts.uri.path());
    let found = exchange.workspace().lock().read_workflow(&id, &exchange.config.profile, exchange.now);
    found.map_or_else(|| missing(exchange, "workflow", &id), |workflow| exchange.answered(&workflow, Reason::Answered))
}

fn update_workflow(exchange: &Exchange) -> Outcome {
    let (profile, id) = (&exchange.config.profile, id_in(exchange.parts.uri.path()));
    let checked = check_content_type(&content_types(&exchange.parts), &profile.validation)
        .and_then(|()| parse_workflow(&exchange.body, &profile.validation, profile.errors.malformed_json_status));
    match checked {
        Ok(fields) => {
            let changed = exchange.workspace().lock().update_workflow(&id, fields, profile, exchange.now);
            changed.map_or_else(
                || missing(exchange, "workflow", &id),
                |workflow| exchange.answered(&workflow, Reason::Answered),
            )
        }
        Err(error) => invalid(exchange, error),
    }
}

fn cancel_workflow(exchange: &Exchange) -> Outcome {
    let id = id_in(exchange.parts.uri.path());
    let cancelled = exchange.workspace().lock().cancel_workflow(&id, &exchange.config.profile, exchange.now);
    match cancelled {
        Some(Ok(workflow)) => exchange.answered(&workflow, Reason::Answered),
        Some(Err(error)) => invalid(exchange, error),
        None => missing(exchange, "workflow", &id),
    }
}

fn list_users(exchange: &Exchange) -> Outcome {
    let profile = &exchange.config.profile;
    let listed = parse_user_query(exchange.parts.uri.query(), &profile.validation, &profile.preview)
        .and_then(|page| exchange.workspace().lock().list_users(&page));
    page(exchange, listed)
}

fn read_user(exchange: &Exchange) -> Outcome {
    let id = id_in(exchange.parts.uri.path());
    let found = exchange.workspace().lock().read_user(&id).cloned();
    found.map_or_else(|| missing(exchange, "user", &id), |user| exchange.answered(&user, Reason::Answered))
}

fn issue_token(exchange: &Exchange) -> Outcome {
    let profile = &exchange.config.profile;
    let (headers, body) = (&exchange.parts.headers, &exchange.body);
    let mut outcome = match parse_token_request(headers, body, &profile.validation, profile.key_rules()) {
        Ok(key) => {
            let engine = exchange.preview.as_ref().expect("announced endpoints have the engine");
            let workspace = engine.open(workspace_of(&key, &profile.keys), exchange.now);
            let lifetime = profile.oauth.token_lifetime.get();
            let expires = workspace.clock().instant().plus(lifetime);
            let token = engine.registry.tokens().issue(&key, expires, workspace.lock().random());
            let body = json!({ "access_token": &*token, "token_type": "Bearer", "expires_in": lifetime.as_secs() });
            exchange.answered(&body, Reason::Answered)
        }
        Err(problem) => refused_token(exchange, &problem),
    };
    outcome.response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    outcome
}

fn refused_token(exchange: &Exchange, problem: &OauthProblem) -> Outcome {
    let error = problem.error();
    let reason = Reason::Refused(error.kind, problem.text().to_owned());
    let mut outcome = match problem.body(exchange.config.profile.oauth.error_shape) {
        Some((status, body)) => {
            let status = StatusCode::from_u16(status).expect("400 and 401 are statuses");
            let body = exchange.varied(body.to_string().into_bytes(), Outermost::Grows);
            Outcome::json(status, body, reason)
        }
        None => exchange.error(&error, reason),
    };
    if error.kind == ErrorKind::Unauthorized {
        outcome.response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
    }
    outcome
}

fn page<T: Serialize>(exchange: &Exchange, listed: Result<Listed<T>, Error>) -> Outcome {
    match listed {
        Ok(Listed { data, next_cursor }) => {
            let body = json!({ "data": data, "has_more": next_cursor.is_some(), "next_cursor": next_cursor });
            exchange.answered(&body, Reason::Answered)
        }
        Err(error) => invalid(exchange, error),
    }
}

fn missing(exchange: &Exchange, what: &str, id: &str) -> Outcome {
    let shown: String = id.chars().take(64).flat_map(char::escape_debug).collect();
    exchange.refused(ErrorKind::NotFound, &format!("there is no {what} `{shown}` in this workspace"))
}
