//! One short function per operation: check, apply, answer. Scenario rules come before (`scripted`).

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue, WWW_AUTHENTICATE};
use serde::Serialize;

use crate::contract::VERSION;
use crate::contract::error::{Error, ErrorKind};
use crate::contract::keys::workspace_of;
use crate::contract::preview::{
    Listing, OauthProblem, Token, WorkflowFields, parse_token_request, parse_user_query, parse_workflow,
    parse_workflow_query,
};
use crate::contract::routes::{Operation, id_in};
use crate::contract::rules::{check_content_type, parse_status_query, parse_subscribe};
use crate::contract::signature::secret_warnings;
use crate::contract::timestamp::ShownTime;
use crate::contract::types::SystemStatus;
use crate::contract::variation::BodyKind;
use crate::http::answer::{Answer, json_bytes};
use crate::http::request::RequestContext;
use crate::http::service::Api;
use crate::settings::Profile;
use crate::state::journal::Reason;
use crate::state::workspace::{Listed, Registry};

impl Api {
    pub(super) fn answer_operation(&self, identified: &RequestContext, operation: Operation) -> Answer {
        match operation {
            Operation::SystemStatus => system_status(identified),
            Operation::EventsSubscribe => events_subscribe(identified),
            Operation::Hello => identified.ok(&identified.profile().hello.body, Reason::Answered),
            Operation::WorkflowsList => list_workflows(identified),
            Operation::WorkflowsCreate => create_workflow(identified),
            Operation::WorkflowsRead => read_workflow(identified),
            Operation::WorkflowsUpdate => update_workflow(identified),
            Operation::WorkflowsCancel => cancel_workflow(identified),
            Operation::UsersList => list_users(identified),
            Operation::UsersRead => read_user(identified),
            Operation::OauthToken => issue_token(identified, &self.engine.registry),
        }
    }
}

fn system_status(identified: &RequestContext) -> Answer {
    let profile = identified.profile();
    let query = match parse_status_query(identified.request.query(), &profile.validation) {
        Ok(query) => query,
        Err(error) => return identified.validation_error(error),
    };
    let status = SystemStatus {
        ok: true,
        environment: profile.environment,
        version: VERSION,
        checked_at: ShownTime {
            instant: identified.request.now.wall,
            precision: profile.time.precision.of(&identified.identity.id),
        },
        checks: query.include_checks.then(|| profile.status.checks.clone()),
    };
    identified.ok_json(status.to_json(), Reason::Answered)
}

fn events_subscribe(identified: &RequestContext) -> Answer {
    let profile = identified.profile();
    let checked = check_content_type(&identified.request.head.headers, &profile.validation)
        .and_then(|()| parse_subscribe(&identified.body, &profile.subscribe_rules()));
    let secret = checked.as_ref().ok().and_then(|checked| checked.request.secret.as_deref());
    let warnings = secret.map(|secret| warnings(secret, profile)).unwrap_or_default();
    let subscribed =
        checked.and_then(|checked| identified.workspace().lock().subscribe(checked, profile, identified.request.now));
    match subscribed {
        Ok(subscribed) => {
            let reason = Reason::Subscribed { id: subscribed.id, created: subscribed.created, warnings };
            identified.ok(&subscribed.body, reason)
        }
        Err(error) => identified.validation_error(error),
    }
}

/// Where receivers' libraries may read the secret differently, by scheme; each warning once.
fn warnings(secret: &str, profile: &Profile) -> Vec<String> {
    let schemes = profile.schemes();
    let all = schemes.iter().flat_map(|scheme| secret_warnings(secret, scheme, profile.webhooks.secret_key));
    all.fold(Vec::new(), |mut given, warning| {
        if !given.contains(&warning) {
            given.push(warning);
        }
        given
    })
}

fn list_workflows(identified: &RequestContext) -> Answer {
    let profile = identified.profile();
    let listed = parse_workflow_query(identified.request.query(), &profile.validation, &profile.preview)
        .and_then(|query| identified.workspace().lock().workflows.list(&query, profile, identified.request.now));
    page(identified, listed)
}

fn create_workflow(identified: &RequestContext) -> Answer {
    let created = workflow_fields(identified).and_then(|fields| {
        identified.workspace().lock().create_workflow(fields, identified.profile(), identified.request.now)
    });
    result(identified, created)
}

fn read_workflow(identified: &RequestContext) -> Answer {
    let id = id_in(identified.request.path());
    let found = identified.workspace().lock().workflows.read(id, identified.profile(), identified.request.now);
    found_or_missing(identified, "workflow", found.map(Ok))
}

fn update_workflow(identified: &RequestContext) -> Answer {
    let id = id_in(identified.request.path());
    match workflow_fields(identified) {
        Ok(fields) => {
            let (profile, now) = (identified.profile(), identified.request.now);
            let changed = identified.workspace().lock().workflows.update(id, fields, profile, now);
            found_or_missing(identified, "workflow", changed.map(Ok))
        }
        Err(error) => identified.validation_error(error),
    }
}

fn cancel_workflow(identified: &RequestContext) -> Answer {
    let id = id_in(identified.request.path());
    let cancelled = identified.workspace().lock().workflows.cancel(id, identified.profile(), identified.request.now);
    found_or_missing(identified, "workflow", cancelled)
}

fn list_users(identified: &RequestContext) -> Answer {
    let profile = identified.profile();
    let listed = parse_user_query(identified.request.query(), &profile.validation, &profile.preview)
        .and_then(|page| identified.workspace().lock().workflows.list_users(&page));
    page(identified, listed)
}

fn read_user(identified: &RequestContext) -> Answer {
    let found = identified.workspace().lock().workflows.read_user(id_in(identified.request.path())).cloned();
    found_or_missing(identified, "user", found.map(Ok))
}

fn issue_token(identified: &RequestContext, registry: &Registry) -> Answer {
    let profile = identified.profile();
    let headers = &identified.request.head.headers;
    let mut answer = match parse_token_request(headers, &identified.body, &profile.validation, profile.key_rules()) {
        Ok(key) => {
            let workspace = registry.open(workspace_of(&key, &profile.keys), identified.request.now);
            let lifetime = profile.oauth.token_lifetime.get();
            let expires = workspace.clock().instant().plus(lifetime);
            let token = registry.tokens().issue(&key, expires, &mut workspace.lock().sources.random);
            let body = Token { access_token: &token, token_type: "Bearer", expires_in: lifetime.as_secs() };
            identified.ok(&body, Reason::Answered)
        }
        Err(problem) => refuse_token(identified, &problem),
    };
    answer.headers.push((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    answer
}

fn refuse_token(identified: &RequestContext, problem: &OauthProblem) -> Answer {
    let error = problem.error();
    let reason = Reason::Refused(error.kind, problem.text.to_owned());
    let mut answer = match problem.body(identified.profile().oauth.error_shape) {
        Some((status, body)) => {
            let status = StatusCode::from_u16(status).expect("400 and 401 are statuses");
            let body = identified.vary_body(json_bytes(body), BodyKind::Answer);
            Answer::json(status, body, reason)
        }
        None => identified.error(&error, reason),
    };
    if error.kind == ErrorKind::Unauthorized {
        answer.headers.push((WWW_AUTHENTICATE, HeaderValue::from_static("Basic")));
    }
    answer
}

fn workflow_fields(identified: &RequestContext) -> Result<WorkflowFields, Error> {
    let profile = identified.profile();
    check_content_type(&identified.request.head.headers, &profile.validation)?;
    parse_workflow(&identified.body, &profile.validation, profile.errors.malformed_json_status)
}

fn result<T: Serialize>(identified: &RequestContext, done: Result<T, Error>) -> Answer {
    match done {
        Ok(body) => identified.ok(&body, Reason::Answered),
        Err(error) => identified.validation_error(error),
    }
}

fn found_or_missing<T: Serialize>(identified: &RequestContext, what: &str, found: Option<Result<T, Error>>) -> Answer {
    if let Some(found) = found {
        return result(identified, found);
    }
    let shown: String = id_in(identified.request.path()).chars().take(64).flat_map(char::escape_debug).collect();
    identified.refusal(ErrorKind::NotFound, &format!("there is no {what} `{shown}` in this workspace"))
}

fn page<T: Serialize>(identified: &RequestContext, listed: Result<Listed<T>, Error>) -> Answer {
    let body = |Listed { data, next_cursor }| Listing { data, has_more: next_cursor.is_some(), next_cursor };
    result(identified, listed.map(body))
}
