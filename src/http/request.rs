//! One request on its way to its answer: as it arrived ([`RequestHead`]), then with its id and its sender ([`RequestContext`]).
//!
//! `service` admits requests; `answer` has the answers that any operation may give.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::HeaderName;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use rand::Rng as _;
use tokio::task::JoinHandle;

use crate::clock::Now;
use crate::clock::agenda::Running;
use crate::contract::ids::IdKind;
use crate::contract::keys::{KeyRefusal, bearer_token, check_key, values_of};
use crate::contract::routes::{Credential, Operation, RequestTarget, plain_path};
use crate::scenario::template::Gap;
use crate::scenario::{Action, EffectiveConfig, RequestView, Rule, ScenarioSnapshot, TriedRules};
use crate::settings::Profile;
use crate::state::journal::{ConnectionInfo, DecidingRule, Reason, RequestRecord, Transcript, WrittenAt};
use crate::state::quota::QuotaCheck;
use crate::state::workspace::{Workspace, WorkspaceState};

/// Chooses scenarios for one request: names joined by commas.
pub(crate) const SCENARIO: HeaderName = HeaderName::from_static("x-emulator-scenario");

/// A request as it arrived, without its body.
pub(super) struct RequestHead {
    pub(super) head: Parts,
    /// The [`plain_path`] where it differs from the path as sent.
    path: Option<String>,
    /// When it arrived; by the clock of its workspace once that is known.
    pub(super) now: Now,
    pub(super) config: Arc<EffectiveConfig>,
    pub(super) generation: u64,
    pub(super) operation: Option<Operation>,
    /// The task firing events that were due before the request, and so come first.
    pub(super) due_before: Option<JoinHandle<()>>,
}

impl RequestHead {
    pub(super) fn new(head: Parts, now: Now, snapshot: &ScenarioSnapshot) -> Self {
        let config = Arc::clone(snapshot.config_for(None));
        let path = match plain_path(head.uri.path()) {
            Cow::Borrowed(_) => None,
            Cow::Owned(path) => Some(path),
        };
        let generation = snapshot.number;
        Self { head, path, now, config, generation, operation: None, due_before: None }
    }

    pub(super) fn path(&self) -> &str {
        self.path.as_deref().unwrap_or_else(|| self.head.uri.path())
    }

    pub(super) fn query(&self) -> Option<&str> {
        self.head.uri.query()
    }

    /// Takes the configuration of the key that the request carries, or of the scenarios that it names in a header. An error says
    /// the problem of that header, and leaves the configuration as it is.
    pub(super) fn choose_config(&mut self, snapshot: &ScenarioSnapshot) -> Result<(), String> {
        let headers = &self.head.headers;
        let workspace = if snapshot.has_key_configs() { bearer_token(headers).ok() } else { None };
        if let Some(names) = values_of(headers, &SCENARIO).next() {
            let names = names
                .to_str()
                .map_err(|_| "X-Emulator-Scenario: expected scenario names, joined by commas".to_owned())?;
            let names: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            self.config = snapshot.config_named(workspace, &names).map_err(|problems| {
                let texts: Vec<String> =
                    problems.iter().map(|problem| format!("{}; {}", problem.message, problem.hint)).collect();
                format!("X-Emulator-Scenario: {}", texts.join("; "))
            })?;
        } else if workspace.is_some() {
            self.config = Arc::clone(snapshot.config_for(workspace));
        }
        Ok(())
    }

    /// The target of the request if a scenario answers its path, which no endpoint has.
    pub(super) fn stub(&self) -> Option<RequestTarget> {
        let needs_key = self.config.rules.stub_needs_key(&RequestView {
            operation: Some(Operation::Stub),
            method: &self.head.method,
            path: self.path(),
            query: self.query(),
            headers: &self.head.headers,
            body: &[],
            key: None,
            keys: &self.config.profile.keys,
        })?;
        Some(RequestTarget {
            operation: Operation::Stub,
            credential: if needs_key { Credential::Bearer } else { Credential::None },
            has_body: ![Method::GET, Method::HEAD].contains(&self.head.method),
        })
    }
}

pub(super) struct Identity {
    pub(super) id: String,
    /// The seed for the variation of its answer, if the profile varies answers.
    pub(super) variation_seed: Option<u64>,
    /// The workspace of its key, or the anonymous one, from which requests without a valid key draw random values.
    pub(super) workspace: Arc<Workspace>,
    pub(super) key: Option<AuthenticatedKey>,
    /// Counts as in flight for the workspace's clock until the request is in the journal: after a rule's delay, and always if the clock
    /// is automatic.
    pub(super) running: Option<Running>,
}

/// The valid key of a request, after which its workspace is named.
pub(super) struct AuthenticatedKey {
    pub(super) quota: Option<QuotaCheck>,
}

impl Identity {
    /// The identity of a request before it is authenticated.
    pub(super) fn unknown(anonymous: Arc<Workspace>) -> Self {
        Self { id: String::new(), variation_seed: None, workspace: anonymous, key: None, running: None }
    }

    pub(super) fn quota(&self) -> Option<&QuotaCheck> {
        self.key.as_ref()?.quota.as_ref()
    }
}

/// Draws a request's id and, only if the profile varies answers, the seed for the variation.
pub(super) fn draw_id(state: &mut WorkspaceState, profile: &Profile, now: Now) -> (String, Option<u64>) {
    let id = state.sources.make_id(IdKind::Request, profile, now);
    (id, profile.variation.is_on().then(|| state.sources.random.next_u64()))
}

/// A request with its id and its sender: any answer can be given to it.
pub(super) struct RequestContext {
    pub(super) request: RequestHead,
    pub(super) identity: Identity,
    /// Empty until it is read.
    pub(super) body: Bytes,
    pub(super) rule: Option<AppliedRule>,
    /// The rules that did not apply; `None` if none is active, or it did not come to them.
    pub(super) tried_rules: Option<Box<TriedRules>>,
    /// How long a rule's delay lasted by the machine's time, while an automatic clock stood still.
    pub(super) slept: Duration,
}

impl RequestContext {
    pub(super) fn new(request: RequestHead, identity: Identity) -> Self {
        Self { request, identity, body: Bytes::new(), rule: None, tried_rules: None, slept: Duration::ZERO }
    }

    pub(super) fn profile(&self) -> &Profile {
        &self.request.config.profile
    }

    pub(super) fn workspace(&self) -> &Arc<Workspace> {
        &self.identity.workspace
    }

    pub(super) fn owner(&self) -> Option<&Arc<Workspace>> {
        self.identity.key.as_ref().map(|_| &self.identity.workspace)
    }

    pub(super) fn view(&self) -> RequestView<'_> {
        let Identity { workspace, key, .. } = &self.identity;
        RequestView {
            operation: self.request.operation,
            method: &self.request.head.method,
            path: self.request.path(),
            query: self.request.query(),
            headers: &self.request.head.headers,
            body: &self.body,
            key: key.as_ref().map(|_| &**workspace.name()),
            keys: &self.profile().keys,
        }
    }

    /// Leaves the quota headers out and gives the request back, as on any 401: a refused key is not counted.
    pub(super) fn forget_key(&mut self) {
        if let Identity { workspace, key: Some(AuthenticatedKey { quota }), .. } = &mut self.identity
            && quota.take().is_some_and(|quota| quota.allowed)
        {
            workspace.lock().refund(&self.request.config.profile);
        }
    }

    /// Shows the quota as used up, as the quota's own 429 does.
    pub(super) fn show_quota_used_up(&mut self) {
        // Refunded first if only a 200 costs quota.
        self.refund_if_free(StatusCode::TOO_MANY_REQUESTS);
        if let Some(quota) = self.identity.key.as_mut().and_then(|key| key.quota.as_mut()) {
            *quota = QuotaCheck { allowed: false, remaining: 0, wait: quota.reset, ..*quota };
        }
    }

    /// Refunds the request if answers with this status are free under the profile.
    pub(super) fn refund_if_free(&mut self, status: StatusCode) {
        if status != StatusCode::OK
            && let Identity { workspace, key: Some(AuthenticatedKey { quota: Some(quota) }), .. } = &mut self.identity
            && quota.allowed
        {
            workspace.lock().refund_if_only_successes_count(&self.request.config.profile, quota);
        }
    }

    /// The request's entry for the journal. Takes its rule and its key's details, so it comes last.
    pub(super) fn take_record(
        &mut self,
        transcript: Transcript,
        status: u16,
        broken: Option<&'static str>,
        reason: Reason,
        arrival: ConnectionInfo,
    ) -> RequestRecord {
        let ended = self.identity.workspace.clock().instant().plus(self.slept);
        let Self { request, identity, rule, tried_rules, .. } = self;
        let (workspace, quota) = match &mut identity.key {
            Some(key) => (Some(Arc::clone(&identity.workspace)), key.quota.take()),
            None => (None, None),
        };
        let (scripted, warnings) = rule.take().map_or((None, Vec::new()), |rule| (Some(rule.scripted), rule.warnings));
        RequestRecord {
            transcript,
            at: request.now.wall,
            workspace,
            operation: request.operation,
            status,
            broken,
            latency: ended.since(request.now.instant),
            reason,
            quota,
            scripted,
            tried_rules: tried_rules.take(),
            warnings,
            generation: request.generation,
            arrival,
            written: WrittenAt::default(),
        }
    }
}

pub(super) struct AppliedRule {
    pub(super) scripted: DecidingRule,
    pub(super) warnings: Vec<String>,
    /// Set where the rule's story continues by the status of the answer.
    pub(super) unsettled: Option<UnsettledRule>,
}

impl AppliedRule {
    pub(super) fn warn_of_gaps(&mut self, gaps: &[Gap]) {
        let (scenario, rule) = (&self.scripted.scenario, &self.scripted.rule);
        let by = format!("scenario `{scenario}`, {rule},");
        self.warnings.extend(gaps.iter().map(|gap| gap.text(&by, "which the request does not have")));
    }
}

/// A rule whose story depends on the status of the answer. Settled when this is dropped; until `status` is set it is 0, for no answer.
#[derive(Debug)]
pub(super) struct UnsettledRule {
    pub(super) workspace: Arc<Workspace>,
    pub(super) rule: Arc<Rule>,
    pub(super) action: Action,
    pub(super) activation: u64,
    pub(super) status: u16,
}

impl Drop for UnsettledRule {
    fn drop(&mut self) {
        let mut state = self.workspace.lock();
        let counters = &mut state.counters;
        // The counters of an activation that is over may be gone.
        if self.activation == 0 || counters.has_started(self.activation) {
            counters.switch_to(self.activation);
            self.rule.settle(&self.action, self.status, counters);
        }
    }
}

/// The request's key, if it is valid.
pub(super) fn authenticate(request: &RequestHead) -> Result<&str, KeyRefusal> {
    let key = bearer_token(&request.head.headers)?;
    check_key(key, request.config.profile.key_rules()).map(|()| key)
}
