//! One request on its way to an answer: what is known of it so far, and the answers that every operation may need.

use std::any::Any;
use std::sync::{Arc, Weak};

use hyper::body::Bytes;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use rand::{Rng as _, SeedableRng as _};
use serde::Serialize;

use crate::agenda::Task;
use crate::clock::{Instant, Now, Random};
use crate::contract::error::{Error, ErrorKind};
use crate::contract::ids::IdKind;
use crate::contract::keys::{KeyRefusal, bearer_token, workspace_of};
use crate::contract::not_found::no_endpoint;
use crate::contract::routes::{Lookup, Operation};
use crate::contract::variation::{Outermost, vary};
use crate::http::answer::{AnswerBody, JSON, answer, header_value};
use crate::http::fault::ConnectionFault;
use crate::http::preview::PreviewParts;
use crate::http::scripted::Unsettled;
use crate::journal::{Reason, RequestRecord, Scripted, Transcript};
use crate::profile::Profile;
use crate::rate_limit::Verdict;
use crate::scenario::{EffectiveConfig, Generation, RequestView};
use crate::template::Gap;
use crate::workspace::{State, Tokens, Workspace};

/// Chooses scenarios for one request: names joined by commas.
pub const SCENARIO: HeaderName = HeaderName::from_static("x-emulator-scenario");
/// The challenge to a client that sent a key.
const INVALID_TOKEN: HeaderValue = HeaderValue::from_static("Bearer error=\"invalid_token\"");

/// What is known of a request while it is being answered.
pub struct Exchange {
    /// The request without its body.
    pub parts: Parts,
    /// When it arrived.
    pub now: Now,
    /// The profile and scenarios that answer it.
    pub config: Arc<EffectiveConfig>,
    /// Its id; made as soon as it is known whose source it draws from.
    pub id: String,
    /// Where the variation of its answer is drawn from, if the profile wants any; made with the id.
    variety: Option<u64>,
    /// The body, once read.
    pub body: Bytes,
    /// Whose it is, once a valid key was seen.
    owner: Option<Arc<Workspace>>,
    /// Where it draws chance from without a valid key; only scenarios ask.
    pub(super) anonymous: Option<Arc<Workspace>>,
    /// The key, where the workspace is not named after it.
    group_key: Option<Arc<str>>,
    pub(super) operation: Option<Operation>,
    pub(super) quota: Option<Verdict>,
    pub(super) scripted: Option<Scripted>,
    pub(super) broken: Option<ConnectionFault>,
    /// What its answer lacks that was meant to be there.
    warnings: Vec<String>,
    /// A story waits for the status of the answer.
    pub(super) unsettled: Option<Unsettled>,
    /// Under way for the workspace's clock, after a scenario's delay.
    pub(super) task: Option<Task>,
    /// What announced endpoints need; there while one of them answers.
    pub(super) preview: Option<Arc<PreviewParts>>,
    pub(super) generation: u64,
}

/// An answer before ids and headers are added.
pub struct Outcome {
    /// Status, content type and body.
    pub response: Response<AnswerBody>,
    /// The body's bytes, for the journal.
    pub body: Bytes,
    /// Why.
    pub reason: Reason,
}

impl Outcome {
    /// A JSON answer.
    pub fn json(status: StatusCode, body: Vec<u8>, reason: Reason) -> Self {
        let body = Bytes::from(body);
        Self { response: answer(status, JSON, body.clone()), body, reason }
    }
}

impl Exchange {
    /// An exchange of which nothing is known but the request's head.
    pub(super) fn begin(parts: Parts, now: Now, generation: &Generation) -> Self {
        Self {
            parts,
            now,
            config: Arc::clone(generation.config_for(None)),
            id: String::new(),
            variety: None,
            body: Bytes::new(),
            owner: None,
            anonymous: None,
            group_key: None,
            operation: None,
            quota: None,
            scripted: None,
            broken: None,
            warnings: Vec::new(),
            unsettled: None,
            task: None,
            preview: None,
            generation: generation.number,
        }
    }

    /// Whose it is; the anonymous workspace without a valid key.
    pub fn workspace(&self) -> &Arc<Workspace> {
        let workspace = self.owner.as_ref().or(self.anonymous.as_ref());
        workspace.expect("an operation with a key has its owner, and scenarios without one the anonymous workspace")
    }

    /// Whose it is, if a valid key came.
    pub(super) fn owner(&self) -> Option<&Arc<Workspace>> {
        self.owner.as_ref()
    }

    /// The key, if a valid one came.
    pub fn key(&self) -> Option<&str> {
        self.group_key.as_deref().or(self.owner.as_ref().map(|owner| owner.name().as_ref()))
    }

    /// A valid key came: the request is `owner`'s.
    pub(super) fn belong_to(&mut self, owner: Arc<Workspace>, group_key: Option<Arc<str>>) {
        self.owner = Some(owner);
        self.group_key = group_key;
    }

    /// Draws the request's id from the source of requests without a valid key.
    pub(super) fn identify(&mut self, anonymous: &Workspace) {
        let drawn = draw(&mut anonymous.lock(), &self.config.profile, self.now);
        self.take_drawn(drawn);
    }

    /// Takes what was drawn for the request.
    pub(super) fn take_drawn(&mut self, drawn: Drawn) {
        (self.id, self.variety) = (drawn.id, drawn.variety);
    }

    /// A 200 with this body, varied as the profile wants it.
    pub fn answered(&self, body: &impl Serialize, reason: Reason) -> Outcome {
        self.answered_json(serde_json::to_vec(body).expect("strings and JSON values always serialise"), reason)
    }

    /// The same for a body that is JSON already.
    pub fn answered_json(&self, body: Vec<u8>, reason: Reason) -> Outcome {
        Outcome::json(StatusCode::OK, self.varied(body, Outermost::Grows), reason)
    }

    /// A body of the API, varied as the profile wants it.
    pub fn varied(&self, body: Vec<u8>, outermost: Outermost) -> Vec<u8> {
        match self.variety {
            None => body,
            Some(seed) => vary(body, outermost, &self.config.profile.variation, &mut Random::seed_from_u64(seed)),
        }
    }

    /// Takes the effective configuration of the key that the request carries, or the one that it asks for by header.
    pub(super) fn choose_config(&mut self, generation: &Generation, tokens: &Tokens) -> Result<(), String> {
        let headers = &self.parts.headers;
        let token = if generation.has_key_configs() { bearer_token(headers).ok() } else { None };
        let alias = token.and_then(|token| tokens.find(token));
        let key = alias.as_ref().map(|alias| &*alias.key).or(token);
        let workspace = key.map(|key| workspace_of(key, &generation.base.profile().keys));
        if let Some(wanted) = headers.get(SCENARIO) {
            let text = wanted
                .to_str()
                .map_err(|_| "X-Emulator-Scenario: expected scenario names, joined by commas".to_owned())?;
            let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            self.config = generation.config_named(workspace, &names).map_err(|problems| {
                let texts: Vec<String> =
                    problems.iter().map(|problem| format!("{}; {}", problem.message, problem.hint)).collect();
                format!("X-Emulator-Scenario: {}", texts.join("; "))
            })?;
        } else if workspace.is_some() {
            self.config = Arc::clone(generation.config_for(workspace));
        }
        Ok(())
    }

    /// An error in the envelope.
    pub fn error(&self, error: &Error, reason: Reason) -> Outcome {
        let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = error.body(&self.config.profile.errors, &self.id);
        let mut outcome = Outcome::json(status, self.varied(body, Outermost::Stays), reason);
        let headers = outcome.response.headers_mut();
        match error.kind {
            ErrorKind::Unauthorized => {
                // A key that is refused although it was accepted before: a scenario says that it is no good.
                let challenge = if self.owner.is_some() { INVALID_TOKEN } else { HeaderValue::from_static("Bearer") };
                headers.insert(WWW_AUTHENTICATE, challenge);
            }
            // The rest of the request may still be on its way; nobody will read it.
            ErrorKind::PayloadTooLarge
            | ErrorKind::RequestTimeout
            | ErrorKind::BadRequest
            | ErrorKind::UnsupportedMediaType => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        outcome
    }

    /// A refusal that is none of the contract's own errors.
    pub fn refused(&self, kind: ErrorKind, text: &str) -> Outcome {
        self.error(&Error::new(kind, text), Reason::Refused(kind, text.to_owned()))
    }

    /// What is answered in place of an answer that a panic ended. What the scenario wanted of it is forgotten.
    pub(super) fn panicked(&mut self, text: String, anonymous: &Workspace) -> Outcome {
        self.broken = None;
        if self.id.is_empty() {
            self.identify(anonymous);
        }
        let error = Error::new(ErrorKind::InternalError, ErrorKind::InternalError.message());
        self.error(&error, Reason::Panicked(text))
    }

    pub(super) fn unauthorized(&self, refusal: KeyRefusal) -> Outcome {
        let error = Error::new(ErrorKind::Unauthorized, refusal.advice(self.config.profile.key_rules()));
        let advice = error.message.clone().into_boxed_str();
        let mut outcome = self.error(&error, Reason::Unauthorized { refusal, advice });
        if refusal.token_came() {
            outcome.response.headers_mut().insert(WWW_AUTHENTICATE, INVALID_TOKEN);
        }
        outcome
    }

    /// 404 and 405.
    pub(super) fn not_found(&self, lookup: &Lookup) -> Outcome {
        match lookup {
            Lookup::MethodNotAllowed(allow) => {
                let message = format!("this endpoint takes {allow}");
                let mut outcome = self
                    .error(&Error::new(ErrorKind::MethodNotAllowed, message), Reason::MethodNotAllowed(allow.clone()));
                outcome.response.headers_mut().insert(ALLOW, header_value(allow));
                outcome
            }
            Lookup::Announced(entry) => {
                let message = format!(
                    "{} ({}) are announced by the contract as upcoming and not open yet; --preview serves them in assumed shapes",
                    entry.path, entry.what
                );
                self.error(&Error::new(ErrorKind::NotFound, message), Reason::Announced(entry.path))
            }
            _ => {
                let serves_announced = self.config.profile.preview.enabled;
                let message = no_endpoint(&self.parts.method, self.parts.uri.path(), serves_announced);
                self.error(&Error::new(ErrorKind::NotFound, message.as_str()), Reason::NotFound(message.into()))
            }
        }
    }

    /// Notes the scenario rule that decides this request.
    pub fn note_scripted(&mut self, scripted: Scripted) {
        self.scripted = Some(scripted);
    }

    /// Notes the parts of the request that templates of the deciding rule name and it does not have.
    pub fn warn_of_gaps(&mut self, gaps: &[Gap]) {
        let Some(scripted) = &self.scripted else { return };
        let (scenario, rule) = (&scripted.scenario, &scripted.rule);
        let by = format!("scenario `{scenario}`, {rule},");
        self.warnings.extend(gaps.iter().map(|gap| gap.text(&by, "which the request does not have")));
    }

    /// Lets the connection do something else in place of writing the answer.
    pub fn break_connection(&mut self, how: ConnectionFault) {
        self.broken = Some(how);
    }

    /// Leaves the quota headers out and gives the request back, as on any 401: a refused key is not counted.
    pub fn forget_quota(&mut self) {
        if let (Some(owner), Some(verdict)) = (&self.owner, self.quota.take())
            && verdict.allowed
        {
            let key = self.group_key.as_ref().unwrap_or(owner.name());
            owner.lock().uncount_request(key, &self.config.profile);
        }
    }

    /// Shows the quota as used up, as on any 429.
    pub fn show_quota_used_up(&mut self) {
        // Given back first where such answers cost nothing: from here on it looks as if it had not been counted.
        self.refund(StatusCode::TOO_MANY_REQUESTS);
        if let Some(verdict) = &mut self.quota {
            *verdict = Verdict { allowed: false, remaining: 0, wait: verdict.reset, ..*verdict };
        }
    }

    /// What scenarios see of the request.
    pub fn view(&self) -> RequestView<'_> {
        RequestView {
            operation: self.operation,
            method: &self.parts.method,
            path: self.parts.uri.path(),
            query: self.parts.uri.query(),
            headers: &self.parts.headers,
            body: &self.body,
            key: self.key(),
            keys: &self.config.profile.keys,
        }
    }

    /// Gives the request back to the quota where the profile says that such an answer costs nothing.
    pub(super) fn refund(&mut self, status: StatusCode) {
        if status == StatusCode::OK || !self.quota.is_some_and(|verdict| verdict.allowed) {
            return;
        }
        let (Some(owner), Some(mut verdict)) = (&self.owner, self.quota) else { return };
        let key = self.group_key.as_ref().unwrap_or(owner.name());
        owner.lock().refund_request(key, &self.config.profile, &mut verdict);
        self.quota = Some(verdict);
    }

    /// The journal's record of the whole exchange, which is over. Status 0 stands for a connection that was broken off.
    pub(super) fn record(
        &mut self,
        transcript: Transcript,
        status: u16,
        reason: Reason,
        ended: Instant,
    ) -> RequestRecord {
        RequestRecord {
            transcript,
            at: self.now.wall,
            workspace: self.owner.take(),
            group_key: self.group_key.take(),
            operation: self.operation,
            status,
            broken: None,
            latency: ended.since(self.now.instant),
            reason,
            quota: self.quota,
            scripted: self.scripted.take(),
            warnings: std::mem::take(&mut self.warnings),
            generation: self.generation,
            config: Arc::<EffectiveConfig>::downgrade(&self.config) as Weak<dyn Any + Send + Sync>,
            instant: self.now.instant,
        }
    }
}

/// What is drawn for a request as soon as it is known whose source it draws from.
pub(super) struct Drawn {
    /// Its id.
    id: String,
    /// What the variation of its answer is drawn from.
    variety: Option<u64>,
}

/// Draws a request's id and, only if the profile varies answers, what the variation is drawn from.
pub(super) fn draw(state: &mut State, profile: &Profile, now: Now) -> Drawn {
    let id = state.make_id(IdKind::Request, profile, now);
    Drawn { id, variety: profile.variation.is_on().then(|| state.random().next_u64()) }
}

/// The `Content-Type` headers of a request, as bytes.
pub fn content_types(parts: &Parts) -> Vec<&[u8]> {
    parts.headers.get_all(CONTENT_TYPE).iter().map(HeaderValue::as_bytes).collect()
}
