//! Carries out what a scenario rule decided: a delay, a scripted answer, a patch of the ordinary one, or a fault.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;

use crate::clock::Instant;
use crate::contract::error::{Error, ErrorKind, envelope};
use crate::contract::routes::Operation;
use crate::contract::variation::Outermost;
use crate::http::answer::{JSON, answer};
use crate::http::blocking::Blocking;
use crate::http::exchange::{Exchange, Outcome};
use crate::http::fault::{ConnectionFault, Pace, paced};
use crate::http::handlers::perform;
use crate::journal::{Reason, Scripted};
use crate::scenario::{Action, Decision, Fault, Inputs, Patch, ReplyBody, Rule, ScriptedReply, Templated};
use crate::template::TemplateProblem;
use crate::workspace::Workspace;

/// Answers by the scenario rule that decides, or by the operation itself.
pub async fn scripted_or_ordinary(exchange: &mut Exchange, operation: Operation, blocking: &Blocking) -> Outcome {
    // Without rules nothing of this costs anything.
    if exchange.config.rules.is_empty() {
        return perform(exchange, operation);
    }
    let Some(decision) = decide(exchange) else { return perform(exchange, operation) };
    exchange.note_scripted(Scripted {
        scenario: Arc::clone(&decision.scenario),
        rule: Arc::clone(&decision.rule),
        turn: decision.turn,
        action: describe(&decision),
    });
    if let Some(rule) = decision.unsettled {
        let (workspace, action) = (Arc::clone(exchange.workspace()), decision.action.clone());
        let activation = exchange.config.activation;
        exchange.unsettled = Some(Unsettled { workspace, rule, action, activation, status: 0 });
    }
    if let Some(delay) = decision.delay {
        wait(exchange, exchange.now.instant.plus(delay)).await;
    }
    match decision.action {
        Action::Pass => perform(exchange, operation),
        Action::Reply(reply) => scripted(exchange, reply, blocking).await,
        Action::Patch(patch) => patched(exchange, operation, patch, blocking).await,
        Action::Fault(fault) => faulty(exchange, operation, fault),
    }
}

/// A request whose answer decides where a story continues; one that ends without an answer counts as one with status 0.
#[derive(Debug)]
pub(super) struct Unsettled {
    workspace: Arc<Workspace>,
    rule: Arc<Rule>,
    action: Action,
    activation: u64,
    status: u16,
}

impl Unsettled {
    /// The request was answered.
    pub(super) fn answered(mut self, status: u16) {
        self.status = status;
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        let mut state = self.workspace.lock();
        let (counters, _) = state.counters_and_random();
        // The counters of an activation that is over may be gone.
        if self.activation == 0 || counters.has_met(self.activation) {
            counters.begin(self.activation);
            self.rule.settle(&self.action, self.status, counters);
        }
    }
}

/// Waits by the workspace's clock. What is done then is under way for it until the request has its answer.
async fn wait(exchange: &mut Exchange, due: Instant) {
    let workspace = Arc::clone(exchange.workspace());
    let mut slot = workspace.agenda().slot();
    slot.set(Some(due));
    workspace.clock().sleep_until(due).await;
    exchange.task = Some(workspace.agenda().begin());
}

fn describe(decision: &Decision) -> String {
    match decision.delay {
        Some(delay) => format!("after {} ms: {}", delay.as_millis(), decision.action),
        None => decision.action.to_string(),
    }
}

fn decide(exchange: &Exchange) -> Option<Decision> {
    let view = exchange.view();
    let mut state = exchange.workspace().lock();
    let began = state.began(exchange.config.activation).unwrap_or(exchange.config.activated_at);
    let since = exchange.now.instant.since(began);
    let (counters, random) = state.counters_and_random();
    exchange.config.decide(&view, counters, since, random)
}

/// The action with its templates rendered and their gaps logged; where there are many, beside the async workers.
async fn rendered<T: Templated + Send + Sync + 'static>(
    exchange: &mut Exchange,
    action: Arc<T>,
    blocking: &Blocking,
) -> Result<Arc<T>, TemplateProblem> {
    // A source of its own, so that what templates draw does not shift what is drawn after them.
    let random = || exchange.workspace().lock().random().fork();
    let rendered = match Inputs::of(&*action, &exchange.view(), exchange.now.wall, random) {
        None => return Ok(action),
        Some(inputs) if inputs.is_large() => blocking.run(move || action.rendered(inputs)).await,
        Some(inputs) => action.rendered(inputs),
    };
    let (rendered, gaps) = rendered?;
    exchange.warn_of_gaps(&gaps);
    Ok(Arc::new(rendered))
}

async fn scripted(exchange: &mut Exchange, reply: Arc<ScriptedReply>, blocking: &Blocking) -> Outcome {
    let reply = match rendered(exchange, reply, blocking).await {
        Ok(reply) => reply,
        Err(problem) => return broken(exchange, &problem.to_string()),
    };
    match reply.error {
        Some(ErrorKind::Unauthorized) => exchange.forget_quota(),
        Some(ErrorKind::RateLimitExceeded) => exchange.show_quota_used_up(),
        _ => {}
    }
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut outcome = match (&reply.body, reply.error) {
        (Some(ReplyBody::Json(body)), _) => Outcome::json(status, body.to_string().into_bytes(), Reason::Scripted),
        (Some(ReplyBody::Text(text)), _) => {
            let body = Bytes::from(text.clone());
            let plain = HeaderValue::from_static("text/plain; charset=utf-8");
            Outcome { response: answer(status, plain, body.clone()), body, reason: Reason::Scripted }
        }
        (None, _) if reply.has_envelope() => enveloped(exchange, &reply, status),
        (None, _) => Outcome::json(status, Vec::new(), Reason::Scripted),
    };
    for (name, value) in &reply.headers {
        outcome.response.headers_mut().insert(name.clone(), value.clone());
    }
    outcome
}

fn enveloped(exchange: &Exchange, reply: &ScriptedReply, status: StatusCode) -> Outcome {
    let kind = reply.error.unwrap_or(ErrorKind::InternalError);
    let message = reply.message.as_deref().unwrap_or_else(|| kind.message());
    let error = Error { status: status.as_u16(), ..Error::new(kind, message) };
    let outcome = exchange.error(&error, Reason::Scripted);
    match (&reply.code, reply.error) {
        (None, Some(_)) => outcome,
        // A code of the scenario's own, or a message alone: the headers of an error kind do not belong to it.
        (code, _) => {
            let profile = &exchange.config.profile;
            let code = code.as_deref().unwrap_or_else(|| profile.errors.code(kind_of(status)));
            let body = envelope(&profile.errors, code, message, &[], &exchange.id);
            Outcome::json(status, exchange.varied(body, Outermost::Stays), Reason::Scripted)
        }
    }
}

/// The kind whose code goes with a status, for a reply that gives a message but no code.
fn kind_of(status: StatusCode) -> ErrorKind {
    ErrorKind::ALL.into_iter().find(|kind| kind.status() == status.as_u16()).unwrap_or(ErrorKind::InternalError)
}

async fn patched(exchange: &mut Exchange, operation: Operation, patch: Arc<Patch>, blocking: &Blocking) -> Outcome {
    let outcome = perform(exchange, operation);
    let Ok(mut body) = serde_json::from_slice::<Value>(&outcome.body) else { return outcome };
    match rendered(exchange, patch, blocking).await {
        Ok(patch) => {
            patch.apply(&mut body);
            let status = outcome.response.status();
            let mut changed = Outcome::json(status, body.to_string().into_bytes(), outcome.reason);
            let mut headers = outcome.response.headers().clone();
            headers.remove(CONTENT_LENGTH);
            headers.insert(CONTENT_TYPE, JSON);
            *changed.response.headers_mut() = headers;
            changed
        }
        Err(problem) => broken(exchange, &problem.to_string()),
    }
}

fn faulty(exchange: &mut Exchange, operation: Operation, fault: Fault) -> Outcome {
    let ordinary = perform(exchange, operation);
    let workspace = Arc::clone(exchange.workspace());
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let paced = |outcome: Outcome, pace| Outcome {
        response: paced(outcome.response, outcome.body.clone(), pace, &workspace),
        reason: Reason::Scripted,
        ..outcome
    };
    match fault {
        Fault::Truncate { bytes } => {
            let most = bytes.map_or(ordinary.body.len() / 2, size);
            paced(ordinary, Pace::Truncate(most))
        }
        Fault::Stall { bytes, duration } => paced(ordinary, Pace::Stall(size(bytes), duration)),
        Fault::Drip { bytes, interval } => paced(ordinary, Pace::Drip(size(bytes), interval)),
        Fault::Reset => broken_off(exchange, ConnectionFault::Reset),
        Fault::Empty => broken_off(exchange, ConnectionFault::Empty),
        Fault::Garbage { bytes } => {
            let mut garbage = vec![0; size(bytes)];
            exchange.workspace().lock().random().fill_bytes(&mut garbage);
            broken_off(exchange, ConnectionFault::Garbage(garbage.into()))
        }
    }
}

/// Nothing of HTTP goes out: the connection does something else in its place.
fn broken_off(exchange: &mut Exchange, how: ConnectionFault) -> Outcome {
    exchange.break_connection(how);
    Outcome::json(StatusCode::OK, Vec::new(), Reason::Scripted)
}

/// A template of the scenario failed while rendering, which no check can foresee.
fn broken(exchange: &Exchange, problem: &str) -> Outcome {
    let error = Error::new(ErrorKind::InternalError, format!("a scenario's {problem}"));
    exchange.error(&error, Reason::Scripted)
}
