//! One short function per operation: check, apply, answer. Scenario rules come before (`scripted`).

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue, WWW_AUTHENTICATE};
use serde::Serialize;
use serde_json::json;

use crate::contract::VERSION;
use crate::contract::error::{Error, ErrorKind};
use crate::contract::keys::workspace_of;
use crate::contract::preview::{
    OauthProblem, WorkflowFields, parse_token_request, parse_user_query, parse_workflow, parse_workflow_query,
};
use crate::contract::routes::{Operation, id_in};
use crate::contract::rules::{check_content_type, parse_status_query, parse_subscribe};
use crate::contract::signature::secret_warnings;
use crate::contract::timestamp::ShownTime;
use crate::contract::types::SystemStatus;
use crate::contract::variation::BodyKind;
use crate::http::answer::{Answer, json_bytes};
use crate::http::request::Admitted;
use crate::http::service::Api;
use crate::settings::Profile;
use crate::state::engine::Engine;
use crate::state::journal::Reason;
use crate::state::workspace::{Listed, Registry};

impl Api {
    pub(super) fn perform(&self, admitted: &Admitted, operation: Operation) -> Answer {
        match operation {
            Operation::SystemStatus => system_status(admitted),
            Operation::EventsSubscribe => events_subscribe(admitted),
            Operation::Hello => admitted.answered(&admitted.profile().hello.body, Reason::Answered),
            Operation::WorkflowsList => list_workflows(admitted),
            Operation::WorkflowsCreate => create_workflow(admitted, &self.engine),
            Operation::WorkflowsRead => read_workflow(admitted),
            Operation::WorkflowsUpdate => update_workflow(admitted),
            Operation::WorkflowsCancel => cancel_workflow(admitted),
            Operation::UsersList => list_users(admitted),
            Operation::UsersRead => read_user(admitted),
            Operation::OauthToken => issue_token(admitted, &self.engine.registry),
        }
    }
}

fn system_status(admitted: &Admitted) -> Answer {
    let profile = admitted.profile();
    let query = match parse_status_query(admitted.request.query(), &profile.validation) {
        Ok(query) => query,
        Err(error) => return admitted.invalid(error),
    };
    let status = SystemStatus {
        ok: true,
        environment: profile.environment,
        version: VERSION,
        checked_at: ShownTime {
            instant: admitted.request.now.wall,
            precision: profile.time.precision.of(&admitted.identity.id),
        },
        checks: query.include_checks.then(|| profile.status.checks.clone()),
    };
    admitted.answered_json(status.to_json(), Reason::Answered)
}

fn events_subscribe(admitted: &Admitted) -> Answer {
    let profile = admitted.profile();
    let checked = check_content_type(&admitted.request.head.headers, &profile.validation)
        .and_then(|()| parse_subscribe(&admitted.body, &profile.subscribe_rules()));
    let secret = checked.as_ref().ok().and_then(|checked| checked.request.secret.as_deref());
    let warnings = secret.map(|secret| warnings(secret, profile)).unwrap_or_default();
    let subscribed =
        checked.and_then(|checked| admitted.workspace().lock().subscribe(checked, profile, admitted.request.now));
    match subscribed {
        Ok(subscribed) => {
            let reason = Reason::Subscribed { id: subscribed.id, created: subscribed.created, warnings };
            admitted.answered(&subscribed.body, reason)
        }
        Err(error) => admitted.invalid(error),
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

fn list_workflows(admitted: &Admitted) -> Answer {
    let profile = admitted.profile();
    let listed = parse_workflow_query(admitted.request.query(), &profile.validation, &profile.preview)
        .and_then(|query| admitted.workspace().lock().list_workflows(&query, profile, admitted.request.now));
    page(admitted, listed)
}

fn create_workflow(admitted: &Admitted, engine: &Arc<Engine>) -> Answer {
    let created = workflow_fields(admitted).and_then(|fields| {
        admitted.workspace().lock().create_workflow(fields, admitted.profile(), admitted.request.now)
    });
    if created.is_ok() {
        engine.wake_emitter(admitted.workspace());
    }
    result(admitted, created)
}

fn read_workflow(admitted: &Admitted) -> Answer {
    let id = id_in(admitted.request.path());
    let found = admitted.workspace().lock().read_workflow(&id, admitted.profile(), admitted.request.now);
    found_or_missing(admitted, "workflow", found.map(Ok))
}

fn update_workflow(admitted: &Admitted) -> Answer {
    let id = id_in(admitted.request.path());
    match workflow_fields(admitted) {
        Ok(fields) => {
            let (profile, now) = (admitted.profile(), admitted.request.now);
            let changed = admitted.workspace().lock().update_workflow(&id, fields, profile, now);
            found_or_missing(admitted, "workflow", changed.map(Ok))
        }
        Err(error) => admitted.invalid(error),
    }
}

fn cancel_workflow(admitted: &Admitted) -> Answer {
    let id = id_in(admitted.request.path());
    let cancelled = admitted.workspace().lock().cancel_workflow(&id, admitted.profile(), admitted.request.now);
    found_or_missing(admitted, "workflow", cancelled)
}

fn list_users(admitted: &Admitted) -> Answer {
    let profile = admitted.profile();
    let listed = parse_user_query(admitted.request.query(), &profile.validation, &profile.preview)
        .and_then(|page| admitted.workspace().lock().list_users(&page));
    page(admitted, listed)
}

fn read_user(admitted: &Admitted) -> Answer {
    let found = admitted.workspace().lock().read_user(&id_in(admitted.request.path())).cloned();
    found_or_missing(admitted, "user", found.map(Ok))
}

fn issue_token(admitted: &Admitted, registry: &Registry) -> Answer {
    let profile = admitted.profile();
    let headers = &admitted.request.head.headers;
    let mut answer = match parse_token_request(headers, &admitted.body, &profile.validation, profile.key_rules()) {
        Ok(key) => {
            let workspace = registry.open(workspace_of(&key, &profile.keys), admitted.request.now);
            let lifetime = profile.oauth.token_lifetime.get();
            let expires = workspace.clock().instant().plus(lifetime);
            let token = registry.tokens().issue(&key, expires, &mut workspace.lock().random);
            let body = json!({ "access_token": &*token, "token_type": "Bearer", "expires_in": lifetime.as_secs() });
            admitted.answered(&body, Reason::Answered)
        }
        Err(problem) => refuse_token(admitted, &problem),
    };
    answer.headers.push((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    answer
}

fn refuse_token(admitted: &Admitted, problem: &OauthProblem) -> Answer {
    let error = problem.error();
    let reason = Reason::Refused(error.kind, problem.text.to_owned());
    let mut answer = match problem.body(admitted.profile().oauth.error_shape) {
        Some((status, body)) => {
            let status = StatusCode::from_u16(status).expect("400 and 401 are statuses");
            let body = admitted.varied(json_bytes(&body), BodyKind::Answer);
            Answer::json(status, body, reason)
        }
        None => admitted.error(&error, reason),
    };
    if error.kind == ErrorKind::Unauthorized {
        answer.headers.push((WWW_AUTHENTICATE, HeaderValue::from_static("Basic")));
    }
    answer
}

fn workflow_fields(admitted: &Admitted) -> Result<WorkflowFields, Error> {
    let profile = admitted.profile();
    check_content_type(&admitted.request.head.headers, &profile.validation)?;
    parse_workflow(&admitted.body, &profile.validation, profile.errors.malformed_json_status)
}

fn result<T: Serialize>(admitted: &Admitted, done: Result<T, Error>) -> Answer {
    match done {
        Ok(body) => admitted.answered(&body, Reason::Answered),
        Err(error) => admitted.invalid(error),
    }
}

fn found_or_missing<T: Serialize>(admitted: &Admitted, what: &str, found: Option<Result<T, Error>>) -> Answer {
    if let Some(found) = found {
        return result(admitted, found);
    }
    let shown: String = id_in(admitted.request.path()).chars().take(64).flat_map(char::escape_debug).collect();
    admitted.refused(ErrorKind::NotFound, &format!("there is no {what} `{shown}` in this workspace"))
}

fn page<T: Serialize>(admitted: &Admitted, listed: Result<Listed<T>, Error>) -> Answer {
    let body = |Listed { data, next_cursor }| json!({ "data": data, "has_more": next_cursor.is_some(), "next_cursor": next_cursor });
    result(admitted, listed.map(body))
}
