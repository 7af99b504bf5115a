//! Causes: one for each failed test, joined with its refusals, deliveries and findings, and one for each other
//! problem. The terminal, CI systems, `JUnit` XML and the report show these causes; none of them makes its own.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Control;
use super::diagnosis::{Diagnosis, OWN_LOG, is_clock_off, sign_by_machine};
use super::refusal;
use super::render::{bytes_of, cell};
use super::reply::NOT_NONE;
use super::story::{self, AFTER_429};
use super::test_runs::{TestRun, TestRuns};
use crate::advice::{Advice, Audience, Hint};
use crate::clock::ClockMode;
use crate::contract::signature::Tamper;
use crate::findings::{self, Confidence, Finding, Findings, Severity, Traffic};
use crate::redact::Redactor;
use crate::state::engine::deliveries::{DeliveryRecord, DeliveryStatus};
use crate::state::journal::{Reason, RequestRecord};
use crate::state::workspace::{AttemptOutcome, FailureReason, Forgery, RefusedCall, TestOutcome};
use crate::util::wording::{counted, shorten};

/// Why something failed, however many tests, requests, deliveries and findings show it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Cause {
    pub(crate) kind: CauseKind,
    /// The subject in a few words: a request, a delivery, a finding.
    pub(crate) name: String,
    /// What happened. The same sentence wherever the cause is shown.
    pub(crate) sentence: String,
    /// The later outcome of its first delivery; absent for a failed test.
    pub(crate) outcome: Option<String>,
    /// The first check or step.
    pub(crate) remedy: Option<String>,
    /// The same as data, if the emulator can do it; the remedy then ends with a colon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<Advice>,
    /// Other problems in the same test.
    pub(crate) also: Vec<String>,
    /// The tests that failed because of it.
    pub(crate) tests: Vec<FailedTest>,
    /// The keys of its records; at most 20 of `key_count`. A test key whole, any other masked.
    pub(crate) keys: Vec<String>,
    #[serde(default)]
    pub(crate) key_count: usize,
    /// The requests or deliveries that show it, the oldest first; at most 20 of `count`.
    pub(crate) records: Vec<String>,
    pub(crate) count: usize,
    /// The codes of findings that show it as well.
    pub(crate) findings: Vec<String>,
    /// How sure a finding is; absent for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) confidence: Option<Confidence>,
    /// How bad a finding is; absent for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) severity: Option<Severity>,
    /// True if each of its requests succeeded when it was sent again.
    #[serde(default)]
    pub(crate) survived: bool,
    #[serde(default)]
    pub(crate) standing: Standing,
}

/// The meaning of a cause for the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    /// The run failed because of it, or would.
    Failed,
    Warning,
    /// It is shown elsewhere: a part of a scenario that was not played, a finding that another cause names. Or nothing has happened yet.
    #[default]
    Elsewhere,
}

/// A test that failed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct FailedTest {
    pub(crate) test: String,
    /// A test key whole, any other masked.
    pub(crate) key: String,
    /// The message of its runner.
    pub(crate) message: Option<String>,
}

/// Kinds of causes, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CauseKind {
    /// A receiver accepted a forged delivery.
    Forged,
    /// A delivery failed.
    Undelivered,
    /// A request matched no endpoint.
    Unmatched,
    /// The API refused a request.
    Refused,
    /// A request got no answer.
    Unanswered,
    /// A scenario refused a request.
    Scripted,
    /// The emulator refused a control call of the test itself, or of a command that sent no request.
    ControlCall,
    /// A test made no request with its key.
    Silent,
    /// Only what the runner of a failed test said.
    Runner,
    /// Part of a scenario was not played.
    Unfinished,
    /// A finding of the review about requests and deliveries of no other cause.
    Finding,
}

/// The sentence if no request arrived at all.
pub(super) const NO_REQUEST: &str = "0 requests arrived; does your code read WRS_BASE_URL?";

/// Maximum number of tests or keys named in a line.
const MAX_NAMED: usize = 5;
/// Maximum number of records, and most keys, named for a cause.
const MAX_RECORDS: usize = 20;
/// Maximum number of other problems named for a failed test.
const MAX_ALSO: usize = 5;
/// Maximum number of causes without a failed test.
const MAX_CAUSES: usize = 1_000;
/// Maximum number of failed tests named.
const MAX_TESTS: usize = 5_000;
/// Maximum bytes of JSON of all causes together; further causes are only counted.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum characters of a sentence: paths and URLs may be as long as a header block.
const MAX_SENTENCE: usize = 1_000;

/// Requests or deliveries that went wrong in the same way.
struct Fact {
    kind: CauseKind,
    name: String,
    /// The problem, without the parts that differ from record to record.
    what: String,
    /// The event types or forgeries, with how many records are of each.
    parts: BTreeMap<String, usize>,
    outcome: Option<String>,
    remedy: Option<Hint>,
    records: Vec<String>,
    keys: BTreeSet<String>,
    /// The status that a request was answered with.
    status: Option<u16>,
    /// True if a scenario, or the script of a built-in receiver, decided so, or nothing has happened yet: less likely why a test failed.
    is_planned: bool,
    /// True if the request succeeded when it was sent again.
    is_survived: bool,
}

impl Fact {
    /// Parts by frequency.
    fn parts_text(&self) -> String {
        let mut parts: Vec<(&String, &usize)> = self.parts.iter().collect();
        parts.sort_by(|(_, a), (_, b)| b.cmp(a));
        let is_one = parts.len() == 1;
        let text =
            |(part, count): &(&String, &usize)| if is_one { (*part).clone() } else { format!("{part} × {count}") };
        parts.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    fn sentence(&self) -> String {
        match self.kind {
            CauseKind::Undelivered => format!("{} {}", self.parts_text(), self.what),
            CauseKind::Forged => format!("{}; tampered: {}", self.what, self.parts_text()),
            _ => self.what.clone(),
        }
    }

    /// True if a test that said this may have failed because of it.
    fn may_fail(&self, test: &TestOutcome) -> bool {
        self.is_named(test) || !self.is_survived
    }

    fn is_named(&self, test: &TestOutcome) -> bool {
        let said = test.message.as_deref().unwrap_or_default();
        self.status.is_some_and(|status| names_number(said, status))
    }

    /// How likely it is not why a test failed.
    fn rank(&self, test: &TestOutcome) -> (bool, bool, bool, CauseKind) {
        (!self.is_named(test), self.is_survived, self.is_planned, self.kind)
    }
}

/// True if a text has a number as a separate word.
fn names_number(text: &str, number: u16) -> bool {
    let number = number.to_string();
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == number)
}

/// Groups facts by what went wrong, in the order of their first.
#[derive(Default)]
struct Facts {
    all: Vec<Fact>,
    known: HashMap<(CauseKind, String), usize>,
}

impl Facts {
    fn add(&mut self, fact: Fact) {
        let at = *self.known.entry((fact.kind, fact.what.clone())).or_insert(self.all.len());
        match self.all.get_mut(at) {
            Some(known) => {
                known.records.extend(fact.records);
                known.keys.extend(fact.keys);
                known.is_survived &= fact.is_survived;
                for (part, count) in fact.parts {
                    *known.parts.entry(part).or_default() += count;
                }
            }
            None => self.all.push(fact),
        }
    }
}

/// The records to judge, and how to show them.
pub(super) struct Judge<'a> {
    pub(super) control: &'a Control,
    pub(super) redactor: Redactor<'a>,
}

impl Judge<'_> {
    /// Every cause, those of failed tests first, then the worst; and how many tests failed. Of what is
    /// unfinished: where, what and whose.
    pub(super) fn causes(
        &self,
        runs: &TestRuns,
        deliveries: &[DeliveryRecord],
        unfinished: impl Iterator<Item = (String, String, Option<String>)>,
        findings: Option<&Findings>,
    ) -> (Vec<Cause>, usize) {
        let mut of: HashMap<&str, Vec<&DeliveryRecord>> = HashMap::new();
        for delivery in deliveries {
            of.entry(&delivery.event.workspace).or_default().push(delivery);
        }
        let mut causes = Causes::default();
        let are_all_silent = runs.is_whole && runs.arrived == 0 && runs.signed == 0 && runs.failed.len() > 1;
        for run in runs.failed.iter().take(MAX_TESTS) {
            let own = of.get(&**run.workspace.name()).map_or(&[][..], Vec::as_slice);
            let then: Vec<DeliveryRecord> = own.iter().filter_map(|delivery| run.as_it_was(delivery)).collect();
            let (cause, taken) = self.test_cause(run, runs, &then, are_all_silent);
            causes.taken.extend(taken);
            causes.add(cause);
        }
        let mut others = Facts::default();
        let is_new = |id: &str| !causes.taken.contains(id);
        let new = runs.requests.iter().filter(|request| is_new(request.transcript.id()));
        for fact in self.request_facts(new) {
            // A scenario's effects are planned, unless a test failed because of them.
            if fact.kind != CauseKind::Scripted && !fact.is_planned {
                others.add(fact);
            }
        }
        let deliveries = deliveries.iter().filter(|delivery| is_new(&delivery.planned.id));
        deliveries.filter_map(|delivery| self.delivery_fact(delivery)).for_each(|fact| others.add(fact));
        let most = causes.all.len() + MAX_CAUSES;
        for fact in others.all {
            causes.add(Cause::of(&fact, None));
        }
        if runs.is_whole && runs.arrived == 0 && runs.signed == 0 && causes.all.is_empty() {
            let refused = self.control.last_refused.lock().clone();
            causes.all.push(refused.map_or_else(Cause::silent, |call| Cause::from_control_call(&call, false)));
        }
        causes.join(findings);
        causes.all.extend(unfinished.map(|(name, message, key)| Cause {
            keys: key.into_iter().collect(),
            ..Cause::plain(CauseKind::Unfinished, name, message)
        }));
        causes.all.sort_by_key(|cause| (cause.tests.is_empty(), cause.kind));
        causes.all.truncate(most);
        let mut bytes = 0;
        causes.all.retain_mut(|cause| {
            cause.records.truncate(MAX_RECORDS);
            cause.keys.sort_unstable();
            cause.keys.dedup();
            cause.key_count = cause.keys.len();
            cause.keys.truncate(MAX_RECORDS);
            let has_room = bytes < MAX_BYTES;
            if has_room {
                bytes += bytes_of(cause);
            }
            has_room
        });
        (causes.all, runs.failed.len())
    }

    /// Why a test failed, and the records that show it or went wrong as well.
    fn test_cause(
        &self,
        run: &TestRun,
        runs: &TestRuns,
        deliveries: &[DeliveryRecord],
        are_all_silent: bool,
    ) -> (Cause, Vec<String>) {
        let mut facts = Facts::default();
        self.request_facts(run.requests.iter()).into_iter().for_each(|fact| facts.add(fact));
        deliveries.iter().filter_map(|delivery| self.delivery_fact(delivery)).for_each(|fact| facts.add(fact));
        // Of equal ones the first remains the first.
        facts.all.sort_by_key(|fact| fact.rank(&run.test));
        let test = FailedTest {
            test: run.test.test.clone(),
            key: self.redactor.key(run.workspace.name()).into_owned(),
            message: run.test.message.clone(),
        };
        let taken = facts.all.iter().flat_map(|fact| fact.records.iter().cloned()).collect();
        let mut facts = facts.all.into_iter().peekable();
        let is_survived = facts.peek().is_some_and(|fact| fact.is_survived);
        let mut cause = match run.test.refused.as_ref().filter(|call| !is_wait(call)) {
            Some(refused) => Cause { tests: vec![test], ..Cause::from_control_call(refused, true) },
            None => match facts.next_if(|fact| fact.may_fail(&run.test)) {
                Some(fact) => Cause::of(&fact, Some(test)),
                None => Cause {
                    tests: vec![test],
                    ..self.cause_without_fact(run, runs, deliveries, are_all_silent, is_survived)
                },
            },
        };
        for fact in facts {
            if cause.also.len() < MAX_ALSO {
                cause.also.push(fact.sentence());
            }
        }
        let profile = self.control.engine.profile_for(Some(run.workspace.name()));
        let requests: Vec<Arc<RequestRecord>> = run.requests.iter().rev().cloned().collect();
        let clock_runs = self.control.engine.registry.clock().mode() == ClockMode::Real;
        let found = findings::judge(&Traffic { requests: &requests, deliveries, profile: &profile, clock_runs });
        let records: HashSet<String> = cause.records.iter().cloned().collect();
        let found = found
            .data
            .iter()
            .filter(|it| it.severity != Severity::Info && !findings::is_about_credentials(&it.code))
            .filter(|it| it.shown_by().any(|id| records.contains(id)));
        found.for_each(|finding| cause.show_finding(finding));
        (cause, taken)
    }

    /// Why a test failed, if not of its requests and deliveries. `is_survived`: what went wrong with them was answered well in the end.
    fn cause_without_fact(
        &self,
        run: &TestRun,
        runs: &TestRuns,
        deliveries: &[DeliveryRecord],
        are_all_silent: bool,
        is_survived: bool,
    ) -> Cause {
        let said = said(&run.test);
        let is_silent = runs.is_whole && run.count == 0 && deliveries.is_empty();
        let all_foreign = runs.foreign_to(run);
        let foreign = all_foreign.last().filter(|_| run.requests.is_empty());
        if let Some(first) = foreign.filter(|_| !run.overlaps)
            && let Some(fact) = self.request_fact(first)
        {
            let sentence = format!("{}; it came while the test ran", fact.what);
            let records: Vec<String> = all_foreign.iter().rev().map(|it| it.transcript.id().to_owned()).collect();
            let remedy = Some("send the key of the test: WRS_API_KEY, or that of the fixture".to_owned());
            return Cause { sentence, count: records.len(), records, remedy, advice: None, ..Cause::of(&fact, None) };
        }
        // That no webhook came says nothing of requests.
        let waited = run.test.refused.as_ref().filter(|call| is_wait(call) && call.call == "POST deliveries/wait");
        if let Some(call) = waited.filter(|_| run.requests.is_empty()) {
            let remedy =
                (call.status == 408).then(|| "trigger what the test waits for, or wait for what came".to_owned());
            return Cause { remedy, ..Cause::plain(CauseKind::Runner, run.test.test.clone(), said) };
        }
        if are_all_silent && is_silent {
            return Cause::silent();
        }
        let signed = run.workspace.lock().signed_in_process();
        if is_silent && signed > 0 {
            return self.of_signed(run, said, signed);
        }
        if !is_silent {
            let made = counted(run.requests.len(), "request");
            let sentence = match run.requests.len() {
                0 => said,
                _ if is_survived => {
                    format!("{said}; every failed request succeeded when it was sent again")
                }
                1 => format!("{said}; its request was answered as the contract says"),
                _ => format!("{said}; its {made} were answered as the contract says"),
            };
            return Cause::plain(CauseKind::Runner, run.test.test.clone(), sentence);
        }
        let mut sentence = if runs.arrived == 0 {
            format!("{said}; 0 requests arrived")
        } else {
            format!("{said}; the test made no request with its key")
        };
        let mut records = Vec::new();
        let while_it_ran = if run.overlaps { "while it and other tests ran" } else { "while it ran" };
        if let Some(fact) = foreign.and_then(|first| self.request_fact(first)) {
            sentence.push_str(&format!("; {while_it_ran}, {}, because it came without a valid key", fact.what));
            records = fact.records;
        } else if let Some(first) = runs.strangers_to(run).last()
            && let Some(key) = first.carried_key(self.redactor.key_settings())
        {
            let (count, key) = (runs.strangers_to(run).len(), self.redactor.key(&key));
            let came = counted(count, "request");
            sentence.push_str(&format!("; {while_it_ran}, {came} came with the key {key}, which belongs to no test"));
            records = vec![first.transcript.id().to_owned()];
        }
        let remedy = if runs.arrived == 0 {
            "does your code read WRS_BASE_URL?"
        } else {
            "does your code read WRS_BASE_URL, and send the test's key?"
        };
        let plain = Cause::plain(CauseKind::Silent, run.test.test.clone(), sentence);
        Cause { remedy: Some(remedy.to_owned()), count: records.len(), records, ..plain }
    }

    /// Why a test failed that called its handler in its own process.
    fn of_signed(&self, run: &TestRun, said: String, signed: usize) -> Cause {
        let workspace = &run.workspace;
        let now = workspace.clock().now().wall.as_second();
        let profile = self.control.engine.profile_for(Some(workspace.name()));
        let off = is_clock_off(workspace, &profile, now).then(|| sign_by_machine(now)).flatten();
        let hint = off.unwrap_or_else(|| {
            Hint::from("does the handler verify with the secret that signed, over the body as it is, and what does its own log say?")
        });
        let sentence = format!("{said}; {}, and the test made no request", story::signed_text(signed));
        let plain = Cause::plain(CauseKind::Runner, run.test.test.clone(), sentence);
        Cause { remedy: Some(hint.text), advice: hint.advice, ..plain }
    }

    /// A text without credentials, and not too long.
    fn masked(&self, text: &str) -> String {
        shorten(&self.redactor.text(text), MAX_SENTENCE).into_owned()
    }

    /// The problems of requests, given the newest first; returned the oldest first.
    fn request_facts<'r>(&self, requests: impl Iterator<Item = &'r Arc<RequestRecord>>) -> Vec<Fact> {
        let mut answered_later = HashSet::new();
        let mut facts = Vec::new();
        for request in requests {
            let (method, target) = request.transcript.request_line();
            let line = (request.workspace.as_ref().map(|workspace| workspace.name()), method, target);
            // Any other refused request is refused again, unless the client changes it.
            let may_pass = matches!(request.status, 0 | 429 | 500..);
            match self.request_fact(request) {
                Some(fact) => facts.push(Fact { is_survived: may_pass && answered_later.contains(&line), ..fact }),
                None if request.status < 400 => {
                    answered_later.insert(line);
                }
                None => {}
            }
        }
        facts.reverse();
        facts
    }

    /// The problem of a request, if it has one.
    fn request_fact(&self, request: &RequestRecord) -> Option<Fact> {
        if request.is_incidental() {
            return None;
        }
        let (method, target) = request.transcript.request_line();
        let path = target.split('?').next().unwrap_or_default();
        let line = story::request_line(method, path);
        let answer = story::answer_text(request);
        let scripted = request.scripted.as_ref();
        let by = || scripted.map_or_else(String::new, |by| format!(" by scenario `{}`, {}", by.scenario, by.name()));
        let (kind, what, remedy) = if let Some(why) = story::no_endpoint(request) {
            let remedy = match request.reason {
                Reason::MethodNotAllowed(_) => "correct the method",
                Reason::NotFound(_) | Reason::Announced(..) => "correct the path",
                _ => "send a valid HTTP/1.1 request",
            };
            (CauseKind::Unmatched, format!("{line}: {why} ({})", request.status), remedy.to_owned())
        } else if story::is_refused_by_api(request) {
            let why = match (&request.reason, &request.quota) {
                (Reason::RateLimited, Some(quota)) => story::quota_limit(quota),
                // Its advice names a key, and the test has its own.
                (Reason::Unauthorized { refusal, .. }, _) => refusal.to_string(),
                _ => story::decision(request).1,
            };
            let remedy = match request.reason {
                Reason::RateLimited => AFTER_429.to_owned(),
                Reason::Unauthorized { .. } => {
                    "send the key of the test: WRS_API_KEY, or that of the fixture".to_owned()
                }
                Reason::Panicked(_) => "this is a fault of the emulator: please report it".to_owned(),
                _ => format!("correct what the client sends to {path}"),
            };
            (CauseKind::Refused, format!("{line} was refused with {answer}: {why}"), remedy)
        } else if request.broken.is_some() {
            let remedy = match request.broken {
                Some("client_left") => "is the client's timeout long enough?",
                _ => "the client should send the request again after a pause, if it may be sent twice",
            };
            (CauseKind::Unanswered, format!("{line}: {answer}{}", by()), remedy.to_owned())
        } else if request.status >= 400 {
            let remedy = if request.status == 429 {
                AFTER_429
            } else {
                "the scenario answers so as planned: can the client cope with it?"
            };
            (CauseKind::Scripted, format!("{line} was refused with {answer}{}", by()), remedy.to_owned())
        } else {
            return None;
        };
        let remedy = self.masked(&remedy);
        let remedy = match refusal::api_hint(request) {
            Some(hint) => Hint { text: format!("{remedy}; {}", hint.text), ..hint },
            None => remedy.into(),
        };
        let key = request.carried_key(self.redactor.key_settings());
        Some(Fact {
            kind,
            name: self.masked(&line),
            what: self.masked(&what),
            parts: BTreeMap::new(),
            outcome: None,
            remedy: Some(remedy),
            records: vec![request.transcript.id().to_owned()],
            keys: key.map(|key| self.redactor.key(&key).into_owned()).into_iter().collect(),
            status: (request.status >= 400).then_some(request.status),
            is_planned: scripted.is_some() && kind != CauseKind::Refused,
            is_survived: false,
        })
    }

    /// The problem of a delivery, if it has one.
    fn delivery_fact(&self, delivery: &DeliveryRecord) -> Option<Fact> {
        let deciding = delivery.deciding_attempt();
        let to = story::destination(
            &self.redactor.text(delivery.planned.url.as_str()),
            deciding.map(|attempt| &*attempt.dialled).filter(|dialled| !dialled.is_empty()),
        );
        let (kind, what, part, remedy) = if delivery.forgery() == Some(Forgery::Accepted) {
            let status = deciding.and_then(|attempt| attempt.outcome.status()).unwrap_or_default();
            let forged =
                if story::is_of_time(delivery) { "a delivery with the wrong time" } else { "a forged delivery" };
            let url = self.redactor.text(delivery.planned.url.as_str());
            let what = format!("{} accepted {forged} with {status}", cell(&url));
            let part = delivery.event.tamper.map_or("forged", Tamper::name).to_owned();
            (CauseKind::Forged, what, part, Hint::from(story::after_accepted(delivery)))
        } else if delivery.status != DeliveryStatus::Delivered && !story::is_on_purpose(delivery) {
            let what = format!("to {to}: {}", story::failure_of(delivery, self.redactor));
            let advice = Diagnosis::new(self.control, delivery, self.redactor).first_advice();
            let remedy = advice.unwrap_or_else(|| first_step(delivery).into());
            (CauseKind::Undelivered, what, delivery.event.event_type.clone(), remedy)
        } else {
            return None;
        };
        Some(Fact {
            kind,
            name: self.masked(&format!("{} to {}", delivery.event.event_type, delivery.planned.url)),
            what: self.masked(&what),
            parts: BTreeMap::from([(part, 1)]),
            outcome: story::outcome_of(delivery).filter(|_| kind == CauseKind::Undelivered),
            remedy: Some(remedy),
            records: vec![delivery.planned.id.clone()],
            keys: BTreeSet::from([self.redactor.key(&delivery.event.workspace).into_owned()]),
            status: None,
            is_planned: kind == CauseKind::Undelivered && deciding.is_none_or(|attempt| attempt.is_by_sink()),
            is_survived: false,
        })
    }
}

/// The first check for a failed delivery, if no refusal of a signature explains it.
fn first_step(delivery: &DeliveryRecord) -> &'static str {
    use AttemptOutcome::{Answered, Failed};
    let Some(attempt) = delivery.deciding_attempt() else {
        return "does the test wait for this event, or move its clock to it?";
    };
    match &attempt.outcome {
        _ if attempt.is_by_sink() => "the built-in receiver answers by its script; does the test wait for the retry?",
        outcome if outcome.is_unreached() => "is the receiver running, and at this address?",
        outcome if outcome.is_tls_problem() => {
            "does the receiver speak TLS there, with a certificate that the emulator accepts?"
        }
        Failed { reason: FailureReason::Timeout, .. } => "does the receiver acknowledge before it does its work?",
        Answered { status: 300..=399, .. } => {
            "does the receiver answer at the subscribed URL itself? redirects are not followed"
        }
        Answered { status: 404 | 405, .. } => "does the receiver accept POST at this path?",
        Answered { status: 413, .. } => "is the receiver's limit for bodies large enough?",
        Answered { status: 500.., .. }
        | Failed { reason: FailureReason::ConnectionReset | FailureReason::InvalidAnswer, .. } => OWN_LOG,
        Answered { .. } => "why does the receiver refuse it?",
        Failed { .. } => "what keeps the emulator from sending it?",
    }
}

/// True if a call waited for what did not happen, or for nothing although something did: the emulator did as it was asked.
fn is_wait(call: &RefusedCall) -> bool {
    call.status == 408 || call.code == NOT_NONE
}

/// What a wait of a failed test says, or else the runner's message.
fn said(test: &TestOutcome) -> String {
    let waited = test.refused.as_ref().filter(|call| is_wait(call)).map(|call| call.message.clone());
    waited.or_else(|| test.message.clone()).unwrap_or_else(|| "it failed".to_owned())
}

impl Cause {
    /// True if a command may have failed because of it, where no test reported how it ended.
    pub(crate) fn may_fail_a_command(&self) -> bool {
        use CauseKind::{Finding, Runner, Scripted, Unfinished};
        !self.survived && !matches!(self.kind, Scripted | Runner | Unfinished | Finding)
    }

    /// Nothing called the emulator.
    fn silent() -> Self {
        Self::plain(CauseKind::Silent, NO_REQUEST.to_owned(), NO_REQUEST.to_owned())
    }

    /// A test cannot go on without its call, whatever else happened. Without requests, any call is why a command sent none.
    fn from_control_call(RefusedCall { call, status, code, message }: &RefusedCall, is_of_test: bool) -> Self {
        let (whose, doer) = if is_of_test { ("the test's own", "test") } else { ("a", "command") };
        let sentence = format!("{whose} control call was refused: {call}: {status} {code}: {message}");
        let remedy = Some(format!("correct this call, or the steps of the {doer} before it"));
        Self { remedy, ..Self::plain(CauseKind::ControlCall, call.clone(), sentence) }
    }

    fn plain(kind: CauseKind, name: String, sentence: String) -> Self {
        Self {
            kind,
            name,
            sentence,
            outcome: None,
            remedy: None,
            advice: None,
            also: Vec::new(),
            tests: Vec::new(),
            keys: Vec::new(),
            key_count: 0,
            records: Vec::new(),
            count: 0,
            findings: Vec::new(),
            confidence: None,
            severity: None,
            survived: false,
            standing: Standing::default(),
        }
    }

    fn of(fact: &Fact, test: Option<FailedTest>) -> Self {
        Self {
            // A test failed because of what had happened until then.
            outcome: fact.outcome.clone().filter(|_| test.is_none()),
            remedy: fact.remedy.as_ref().map(|remedy| remedy.text.clone()),
            advice: fact.remedy.as_ref().and_then(|remedy| remedy.advice.clone()),
            tests: test.into_iter().collect(),
            records: fact.records.clone(),
            keys: fact.keys.iter().cloned().collect(),
            count: fact.records.len(),
            survived: fact.is_survived,
            ..Self::plain(fact.kind, fact.name.clone(), fact.sentence())
        }
    }

    /// Adds a finding that its records show: also to the sentence, if it tells more than that.
    fn show_finding(&mut self, finding: &Finding) {
        if self.findings.contains(&finding.code) {
            return;
        }
        self.findings.push(finding.code.clone());
        if matches!(self.kind, CauseKind::Refused | CauseKind::Scripted) {
            let likely = if finding.confidence == Confidence::Likely { "likely " } else { "" };
            let mut title = finding.title.clone();
            title[..1].make_ascii_lowercase();
            self.sentence.push_str(&format!("; {title} ({likely}{})", finding.code));
            // The worst comes first, and what to do about it is done first.
            if self.findings.len() == 1 {
                (self.remedy, self.advice) = (Some(finding.remedy.clone()), None);
            }
        }
    }

    /// What belongs to the sentence: how often and by whom, what to do first, and what else went wrong. `more` is where to read more, and
    /// `tests` has the tests of keys.
    pub(crate) fn details(&self, reader: &Audience, more: Option<&str>, tests: &HashMap<&str, String>) -> Vec<String> {
        let mut who = Vec::new();
        if self.count > 1 {
            who.push(format!("{} times", self.count));
        }
        who.extend(
            self.records.first().map(|id| if self.count > 1 { format!("first {}", cell(id)) } else { cell(id) }),
        );
        who.extend(self.whose(tests));
        // The sentence of these has it.
        let is_said = matches!(self.kind, CauseKind::Runner | CauseKind::Silent | CauseKind::ControlCall);
        let said = self.tests.iter().filter(|_| !is_said).find_map(|test| test.message.as_ref());
        let also = self.also.iter().map(|also| format!("also: {}", cell(also)));
        let hint = |text: &String| Hint { text: text.clone(), advice: self.advice.clone() };
        let remedy = self.remedy.as_ref().map(|text| hint(text).line(reader));
        let lines = remedy.iter().chain(&self.outcome).map(cell).chain(also);
        let lines = lines
            .chain(said.map(|said| format!("said: {}", cell(said))))
            .chain((!who.is_empty()).then(|| who.join("; ")));
        lines.chain(more.map(str::to_owned)).collect()
    }

    /// The tests that failed because of it, or else the keys with their tests.
    fn whose(&self, tests: &HashMap<&str, String>) -> Option<String> {
        let of_key = |key: &String| tests.get(&**key).cloned().unwrap_or_else(|| format!("key {}", cell(key)));
        let named: Vec<String> = match self.tests.as_slice() {
            [] => self.keys.iter().take(MAX_NAMED).map(of_key).collect(),
            failed => failed.iter().take(MAX_NAMED).map(|it| format!("test {}", cell(&it.test))).collect(),
        };
        let all = if self.tests.is_empty() { self.key_count } else { self.tests.len() };
        let more = match all.saturating_sub(named.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
    }

    /// True if two tests that failed so have one cause; false if only their runner knows.
    fn is_shared(&self) -> bool {
        match self.kind {
            CauseKind::Runner => false,
            CauseKind::Silent => self.sentence == NO_REQUEST,
            _ => true,
        }
    }
}

/// The causes so far, and the records that show them.
#[derive(Default)]
struct Causes {
    all: Vec<Cause>,
    known: HashMap<(CauseKind, String), usize>,
    taken: HashSet<String>,
}

impl Causes {
    fn add(&mut self, cause: Cause) {
        self.taken.extend(cause.records.iter().cloned());
        let place = (cause.kind, cause.sentence.clone());
        let known = self.known.get(&place).filter(|_| cause.is_shared());
        if let Some(known) = known.and_then(|at| self.all.get_mut(*at)) {
            known.tests.extend(cause.tests);
            known.records.extend(cause.records);
            known.count += cause.count;
            known.survived &= cause.survived;
            known.keys.extend(cause.keys);
            known.also.extend(cause.also);
            known.also.dedup();
            known.also.truncate(MAX_ALSO);
            return;
        }
        self.known.insert(place, self.all.len());
        self.all.push(cause);
    }

    /// Adds each finding to the causes that it is about, or else as a cause.
    fn join(&mut self, findings: Option<&Findings>) {
        let others = self.all.iter().enumerate().filter(|(_, cause)| cause.tests.is_empty());
        let places: HashMap<String, usize> =
            others.flat_map(|(at, cause)| cause.records.iter().map(move |record| (record.clone(), at))).collect();
        for finding in findings.iter().flat_map(|findings| &findings.data) {
            if finding.severity == Severity::Info {
                continue;
            }
            // A credential in the wrong place is never why something was refused.
            let is_joined = !findings::is_about_credentials(&finding.code);
            let shown: BTreeSet<usize> = finding.shown_by().filter_map(|id| places.get(id).copied()).collect();
            for at in shown.into_iter().filter(|_| is_joined) {
                self.all[at].show_finding(finding);
            }
            if !is_joined || !finding.shown_by().all(|id| self.taken.contains(id)) {
                let mut cause = Cause::plain(CauseKind::Finding, finding.code.clone(), finding.sentence());
                cause.records = finding.shown_by().map(str::to_owned).collect();
                (cause.count, cause.remedy) = (finding.count, Some(finding.remedy.clone()));
                (cause.confidence, cause.severity) = (Some(finding.confidence), Some(finding.severity));
                cause.findings.push(finding.code.clone());
                self.all.push(cause);
            }
        }
    }
}
