//! Asks the scenarios for the rule that applies to a request, and carries it out: a delay, a scripted answer, a patch of the ordinary one, or a fault.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use rand::{Rng as _, SeedableRng as _};

use crate::contract::error::{Error, ErrorKind, envelope};
use crate::contract::routes::Operation;
use crate::contract::variation::BodyKind;
use crate::http::answer::{Answer, JSON, SendFault, push_quota_headers};
use crate::http::body::Pace;
use crate::http::connection_state::ConnectionFault;
use crate::http::operations::answer_operation;
use crate::http::request::{AppliedRule, RequestContext, UnsettledRule};
use crate::http::service::Api;
use crate::scenario::{
    Action, Decision, Fault, Patch, ReplyBody, ScriptedQuota, ScriptedReply, Templated, When, request_facts,
};
use crate::state::journal::{DecidingRule, Reason};
use crate::state::quota::QuotaCheck;
use crate::state::workspace::WorkspaceState;

/// Templates longer than this together, with the body that they may copy, hold up other requests on the thread.
const LARGE: usize = 8 * 1024;

impl RequestContext {
    pub(super) fn decide_by_scenarios(&mut self) -> Option<Decision> {
        let config = &self.request.config;
        if config.rules.is_empty() {
            return None;
        }
        let view = self.view();
        let mut state = self.workspace().lock();
        let began = state.started_at(config.activation).unwrap_or(config.activated_at);
        let since = self.request.now.instant.since(began);
        let WorkspaceState { counters, sources, .. } = &mut *state;
        counters.switch_to(config.activation);
        let (decision, tried) = config.rules.first_decision(&view, counters, since, &mut sources.random);
        drop(state);
        self.tried_rules = Some(Box::new(tried));
        decision
    }

    /// Waits for a rule's delay by the workspace's clock. An automatic clock stands still while a request is in flight; the delay then
    /// follows the machine's time, as the client's timeout does.
    async fn wait(&mut self, delay: Duration) {
        let (workspace, due) = (self.workspace(), self.request.now.instant.plus(delay));
        if workspace.clock().is_auto() {
            tokio::time::sleep(delay).await;
            self.slept = delay;
            return;
        }
        let mut slot = workspace.agenda().slot();
        slot.set(Some(due));
        let _held = workspace.agenda().hold();
        workspace.clock().sleep_until(due).await;
        self.identity.running = Some(self.workspace().agenda().begin());
    }

    /// Records the rule that decided; returns its action.
    pub(super) fn record_rule(&mut self, decision: Decision) -> Action {
        let Decision { rule, turn, delay, action, description, .. } = decision;
        let unsettled = rule.depends_on_status().then(|| UnsettledRule {
            workspace: Arc::clone(self.workspace()),
            rule: Arc::clone(&rule),
            action: action.clone(),
            activation: self.request.config.activation,
            status: 0,
        });
        let description = match delay {
            Some(delay) => format!("after {} ms: {description}", delay.as_millis()).into(),
            None => description,
        };
        let (scenario, label) = (Arc::clone(&rule.scenario), Arc::clone(&rule.label));
        let scripted = DecidingRule { scenario, rule: label, line: rule.line, turn, action: description };
        self.rule = Some(AppliedRule { scripted, warnings: Vec::new(), unsettled });
        action
    }
}

impl Api {
    pub(super) async fn apply_rule(&self, cx: &mut RequestContext, operation: Operation, decision: Decision) -> Answer {
        let (delay, has_templates, rule) = (decision.delay, decision.has_templates, Arc::clone(&decision.rule));
        let action = cx.record_rule(decision);
        if let Some(delay) = delay {
            cx.wait(delay).await;
        }
        match action {
            Action::Reply(reply) if has_templates => match self.render(cx, &rule.when, reply).await {
                Ok(reply) => scripted_reply(cx, &reply),
                Err(problem) => template_failure(cx, &problem),
            },
            Action::Patch(patch) if has_templates => {
                let answer = answer_operation(cx, operation);
                match self.render(cx, &rule.when, patch).await {
                    Ok(patch) => apply_patch(answer, &patch),
                    Err(problem) => template_failure(cx, &problem),
                }
            }
            action => Self::apply_action(cx, operation, action),
        }
    }

    /// Carries out an action without templates, or whose templates are rendered.
    pub(super) fn apply_action(cx: &mut RequestContext, operation: Operation, action: Action) -> Answer {
        match action {
            Action::Patch(patch) => apply_patch(answer_operation(cx, operation), &patch),
            Action::Pass => answer_operation(cx, operation),
            Action::Reply(reply) => scripted_reply(cx, &reply),
            Action::Fault(fault) => apply_fault(cx, operation, fault),
        }
    }

    /// The action with its templates rendered and their gaps recorded; if they are long, on a blocking thread.
    async fn render<T: Templated + Send + Sync + 'static>(
        &self,
        cx: &mut RequestContext,
        when: &When,
        action: Arc<T>,
    ) -> Result<T, String> {
        // A separate source, so that templates do not shift the random values drawn after them.
        let random = cx.workspace().lock().sources.random.fork();
        let wall = cx.request.now.wall;
        let (facts, body) = (request_facts(&cx.view(), when), cx.body.len());
        let rendered = if action.template_bytes() + body > LARGE {
            self.engine.blocking.answers.run(move || action.rendered(&facts, wall, random)).await
        } else {
            action.rendered(&facts, wall, random)
        };
        let (rendered, gaps) = rendered?;
        if let Some(rule) = &mut cx.rule {
            rule.warn_of_gaps(&gaps);
        }
        Ok(rendered)
    }
}

fn apply_fault(cx: &mut RequestContext, operation: Operation, fault: Fault) -> Answer {
    // A fault in the sending leaves the answer, and the reason for it, to the API.
    let mut answer = match operation {
        Operation::Stub => Answer::json(StatusCode::OK, Vec::new(), Reason::Scripted),
        operation => answer_operation(cx, operation),
    };
    let length = answer.body.len();
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let fault = match fault {
        Fault::Truncate { bytes } => SendFault::Paced(Pace::Truncate(bytes.map_or(length / 2, size))),
        Fault::Stall { bytes, duration } => SendFault::Paced(Pace::Stall(size(bytes), duration)),
        Fault::Drip { bytes, interval } => SendFault::Paced(Pace::Drip(size(bytes), interval)),
        Fault::Reset => SendFault::Connection(ConnectionFault::Reset),
        Fault::Empty => SendFault::Connection(ConnectionFault::Empty),
        Fault::Garbage { bytes } => {
            let mut garbage = vec![0; size(bytes)];
            cx.workspace().lock().sources.random.fill_bytes(&mut garbage);
            SendFault::Connection(ConnectionFault::Garbage(garbage.into()))
        }
    };
    match fault {
        // The header announces the whole body.
        SendFault::Paced(_) => {
            answer.headers.push((CONTENT_LENGTH, HeaderValue::from(length)));
        }
        // Nothing of the ordinary answer is sent.
        SendFault::Connection(_) => answer = Answer::json(StatusCode::OK, Vec::new(), Reason::Scripted),
    }
    Answer { fault: Some(fault), ..answer }
}

fn scripted_reply(cx: &mut RequestContext, reply: &ScriptedReply) -> Answer {
    match reply.error {
        Some(ErrorKind::Unauthorized) => cx.forget_key(),
        Some(ErrorKind::RateLimitExceeded) => cx.show_quota_used_up(),
        _ => {}
    }
    let status = StatusCode::from_u16(reply.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = |text| {
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        Answer::new(status, plain, text, Reason::Scripted)
    };
    let mut answer = match &reply.body {
        Some(ReplyBody::Json(_, body)) => Answer::new(status, JSON, body.clone(), Reason::Scripted),
        Some(ReplyBody::Text(body)) => text(body.clone()),
        None if reply.has_envelope() => error_reply(cx, reply, status),
        // Nothing is not JSON.
        None => text(Bytes::new()),
    };
    if let (Some(scripted), Some(quota)) = (reply.quota, cx.identity.quota()) {
        let headers = quota_headers(cx, scripted, quota, status);
        answer.headers.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    answer.headers.extend_from_slice(&reply.headers);
    answer
}

/// The quota headers with what the scenario says. They replace those of the key's own quota, which stays as it is.
fn quota_headers(cx: &RequestContext, scripted: ScriptedQuota, quota: &QuotaCheck, status: StatusCode) -> HeaderMap {
    let reset = scripted.reset.unwrap_or(quota.reset);
    let remaining = scripted.remaining.unwrap_or(quota.remaining);
    let allowed = status != StatusCode::TOO_MANY_REQUESTS;
    let quota = QuotaCheck { allowed, remaining, reset, wait: reset, ..*quota };
    let (clock, now) = (cx.workspace().clock(), cx.request.now);
    let mut headers = HeaderMap::new();
    push_quota_headers(&mut headers, &quota, cx.profile(), || clock.shared_time(now));
    headers
}

fn apply_patch(mut answer: Answer, patch: &Patch) -> Answer {
    if let Some(body) = patch.applied(&answer.body) {
        answer.body = body.into();
        answer.content_type = JSON;
    }
    answer
}

fn error_reply(cx: &RequestContext, reply: &ScriptedReply, status: StatusCode) -> Answer {
    let of_status = ErrorKind::from_status(status.as_u16()).unwrap_or(ErrorKind::InternalError);
    let kind = reply.error.unwrap_or(of_status);
    let message = reply.message.as_deref().unwrap_or_else(|| kind.message());
    if reply.code.is_none() && reply.error.is_some() {
        let error = Error { status: status.as_u16(), ..Error::new(kind, message) };
        return cx.error(&error, Reason::Scripted);
    }
    // A code of the scenario's own, or a message alone: the headers of an error kind do not belong to it.
    let errors = &cx.profile().errors;
    let (code, message) = match reply.code.as_deref() {
        Some(code) => (code, message),
        None => (errors.code(of_status), errors.message(of_status, message)),
    };
    let body = envelope(errors, code, message, &[], &cx.identity.id);
    Answer::json(status, cx.vary_body(body, BodyKind::Error), Reason::Scripted)
}

/// The answer where a template of the scenario fails while it is rendered, which no check can foresee.
fn template_failure(cx: &RequestContext, problem: &str) -> Answer {
    let error = Error::new(ErrorKind::InternalError, format!("a scenario's {problem}"));
    cx.error(&error, Reason::Scripted)
}
