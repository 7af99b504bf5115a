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
    pub(super) fn answer_operation(&self, cx: &RequestContext, operation: Operation) -> Answer {
        match operation {
            Operation::SystemStatus => system_status(cx),
            Operation::EventsSubscribe => events_subscribe(cx),
            Operation::Hello => cx.ok(&cx.profile().hello.body, Reason::Answered),
            Operation::WorkflowsList => list_workflows(cx),
            Operation::WorkflowsCreate => create_workflow(cx),
            Operation::WorkflowsRead => read_workflow(cx),
            Operation::WorkflowsUpdate => update_workflow(cx),
            Operation::WorkflowsCancel => cancel_workflow(cx),
            Operation::UsersList => list_users(cx),
            Operation::UsersRead => read_user(cx),
            Operation::OauthToken => issue_token(cx, &self.engine.registry),
        }
    }
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
    cx.ok(&status, Reason::Answered)
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
        if !given.contains(&warning) {
            given.push(warning);
        }
        given
    })
}

fn list_workflows(cx: &RequestContext) -> Answer {
    let profile = cx.profile();
    let listed = parse_workflow_query(cx.request.query(), &profile.validation, &profile.preview)
        .and_then(|query| cx.workspace().lock().workflows.list(&query, profile, cx.request.now));
    page(cx, listed)
}

fn create_workflow(cx: &RequestContext) -> Answer {
    let created = workflow_fields(cx)
        .and_then(|fields| cx.workspace().lock().create_workflow(fields, cx.profile(), cx.request.now));
    result(cx, created)
}

fn read_workflow(cx: &RequestContext) -> Answer {
    let id = id_in(cx.request.path());
    let found = cx.workspace().lock().workflows.read(id, cx.profile(), cx.request.now);
    found_or_missing(cx, "workflow", found.map(Ok))
}

fn update_workflow(cx: &RequestContext) -> Answer {
    let id = id_in(cx.request.path());
    match workflow_fields(cx) {
        Ok(fields) => {
            let (profile, now) = (cx.profile(), cx.request.now);
            let changed = cx.workspace().lock().workflows.update(id, fields, profile, now);
            found_or_missing(cx, "workflow", changed.map(Ok))
        }
        Err(error) => cx.validation_error(error),
    }
}

fn cancel_workflow(cx: &RequestContext) -> Answer {
    let id = id_in(cx.request.path());
    let cancelled = cx.workspace().lock().workflows.cancel(id, cx.profile(), cx.request.now);
    found_or_missing(cx, "workflow", cancelled)
}

fn list_users(cx: &RequestContext) -> Answer {
    let profile = cx.profile();
    let listed = parse_user_query(cx.request.query(), &profile.validation, &profile.preview)
        .and_then(|page| cx.workspace().lock().workflows.list_users(&page));
    page(cx, listed)
}

fn read_user(cx: &RequestContext) -> Answer {
    let found = cx.workspace().lock().workflows.read_user(id_in(cx.request.path())).cloned();
    found_or_missing(cx, "user", found.map(Ok))
}

fn issue_token(cx: &RequestContext, registry: &Registry) -> Answer {
    let profile = cx.profile();
    let headers = &cx.request.head.headers;
    let mut answer = match parse_token_request(headers, &cx.body, &profile.validation, profile.key_rules()) {
        Ok(key) => {
            let workspace = registry.open(workspace_of(&key, &profile.keys), cx.request.now);
            let lifetime = profile.oauth.token_lifetime.get();
            let expires = workspace.clock().instant().plus(lifetime);
            let token = registry.tokens().issue(&key, expires, &mut workspace.lock().sources.random);
            let body = Token { access_token: &token, token_type: "Bearer", expires_in: lifetime.as_secs() };
            cx.ok(&body, Reason::Answered)
        }
        Err(problem) => refuse_token(cx, &problem),
    };
    answer.headers.push((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    answer
}

fn refuse_token(cx: &RequestContext, problem: &OauthProblem) -> Answer {
    let error = problem.error();
    let reason = Reason::Refused(error.kind, problem.text.to_owned());
    let mut answer = match problem.body(cx.profile().oauth.error_shape) {
        Some((status, body)) => {
            let status = StatusCode::from_u16(status).expect("400 and 401 are statuses");
            let body = cx.vary_body(json_bytes(body), BodyKind::Answer);
            Answer::json(status, body, reason)
        }
        None => cx.error(&error, reason),
    };
    if error.kind == ErrorKind::Unauthorized {
        answer.headers.push((WWW_AUTHENTICATE, HeaderValue::from_static("Basic")));
    }
    answer
}

fn workflow_fields(cx: &RequestContext) -> Result<WorkflowFields, Error> {
    let profile = cx.profile();
    check_content_type(&cx.request.head.headers, &profile.validation)?;
    parse_workflow(&cx.body, &profile.validation, profile.errors.malformed_json_status)
}

fn result<T: Serialize>(cx: &RequestContext, done: Result<T, Error>) -> Answer {
    match done {
        Ok(body) => cx.ok(&body, Reason::Answered),
        Err(error) => cx.validation_error(error),
    }
}

fn found_or_missing<T: Serialize>(cx: &RequestContext, what: &str, found: Option<Result<T, Error>>) -> Answer {
    if let Some(found) = found {
        return result(cx, found);
    }
    let shown: String = id_in(cx.request.path()).chars().take(64).flat_map(char::escape_debug).collect();
    cx.refusal(ErrorKind::NotFound, &format!("there is no {what} `{shown}` in this workspace"))
}

fn page<T: Serialize>(cx: &RequestContext, listed: Result<Listed<T>, Error>) -> Answer {
    let body = |Listed { data, next_cursor }| Listing { data, has_more: next_cursor.is_some(), next_cursor };
    result(cx, listed.map(body))
}
