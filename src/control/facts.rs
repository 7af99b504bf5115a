//! Facts: what went wrong with requests and deliveries, grouped by how.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::Control;
use super::cause::{Cause, CauseKind, FailedTest};
use super::diagnosis::{Diagnosis, OWN_LOG, own_log};
use super::refusal;
use super::render::cell;
use super::story::{self, AFTER_429};
use crate::advice::Hint;
use crate::contract::signature::Tamper;
use crate::redact::Redactor;
use crate::state::engine::deliveries::{DeliveryRecord, DeliveryStatus};
use crate::state::journal::{Reason, RequestRecord};
use crate::state::workspace::{AttemptOutcome, FailureReason, Forgery, TestOutcome};
use crate::util::wording::shorten;

/// Maximum characters of a sentence: paths and URLs may be as long as a header block.
const MAX_SENTENCE: usize = 1_000;

/// Requests or deliveries that went wrong in the same way.
pub(super) struct Fact {
    pub(super) kind: CauseKind,
    pub(super) name: String,
    /// The problem, without the parts that differ from record to record.
    pub(super) what: String,
    /// The event types or forgeries, with how many records are of each.
    pub(super) parts: BTreeMap<String, usize>,
    pub(super) outcome: Option<String>,
    pub(super) remedy: Option<Hint>,
    pub(super) records: Vec<String>,
    pub(super) keys: BTreeSet<String>,
    /// The status that a request was answered with.
    pub(super) status: Option<u16>,
    /// True if a scenario, or the script of a built-in receiver, decided so, or nothing has happened yet: less likely why a test failed.
    pub(super) is_planned: bool,
    /// True if the request succeeded when it was sent again.
    pub(super) is_survived: bool,
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

    pub(super) fn sentence(&self) -> String {
        match self.kind {
            CauseKind::Undelivered => format!("{} {}", self.parts_text(), self.what),
            CauseKind::Forged => format!("{}; tampered: {}", self.what, self.parts_text()),
            _ => self.what.clone(),
        }
    }

    /// The cause of these records alone, or of the test that failed.
    pub(super) fn cause(&self, test: Option<FailedTest>) -> Cause {
        Cause {
            // A test failed because of what had happened until then.
            outcome: self.outcome.clone().filter(|_| test.is_none()),
            remedy: self.remedy.as_ref().map(|remedy| remedy.text.clone()),
            advice: self.remedy.as_ref().and_then(|remedy| remedy.advice.clone()),
            tests: test.into_iter().collect(),
            records: self.records.clone(),
            keys: self.keys.iter().cloned().collect(),
            count: self.records.len(),
            survived: self.is_survived,
            ..Cause::plain(self.kind, self.name.clone(), self.sentence())
        }
    }

    /// True if a test that said this may have failed because of it.
    pub(super) fn may_fail(&self, test: &TestOutcome) -> bool {
        self.is_named(test) || !self.is_survived
    }

    fn is_named(&self, test: &TestOutcome) -> bool {
        let said = test.message.as_deref().unwrap_or_default();
        self.status.is_some_and(|status| names_number(said, status))
    }

    /// How likely it is not why a test failed.
    pub(super) fn rank(&self, test: &TestOutcome) -> (bool, bool, bool, CauseKind) {
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
pub(super) struct Facts {
    pub(super) all: Vec<Fact>,
    known: HashMap<(CauseKind, String), usize>,
}

impl Facts {
    pub(super) fn add(&mut self, fact: Fact) {
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
    /// A text without credentials, and not too long.
    fn masked(&self, text: &str) -> String {
        shorten(&self.redactor.text(text), MAX_SENTENCE).into_owned()
    }

    /// The problems of requests, given the newest first; returned the oldest first.
    pub(super) fn request_facts<'r>(&self, requests: impl Iterator<Item = &'r Arc<RequestRecord>>) -> Vec<Fact> {
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
    pub(super) fn request_fact(&self, request: &RequestRecord) -> Option<Fact> {
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
    pub(super) fn delivery_fact(&self, delivery: &DeliveryRecord) -> Option<Fact> {
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
            let diagnosis = Diagnosis::new(self.control, delivery, self.redactor);
            let what = if diagnosis.is_under_way() {
                format!("to {to}: the receiver had sent no answer yet")
            } else {
                format!("to {to}: {}", story::failure_of(delivery, self.redactor))
            };
            let remedy = diagnosis.first_advice().unwrap_or_else(|| first_step(delivery).into());
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
        Failed { reason: FailureReason::ConnectionReset | FailureReason::InvalidAnswer, .. } => OWN_LOG,
        Answered { .. } => own_log(&attempt.outcome).unwrap_or("why does the receiver refuse it?"),
        Failed { .. } => "what keeps the emulator from sending it?",
    }
}
