//! Causes: one for each failed test, joined with its refusals, deliveries and findings, and one for each other
//! problem. The terminal, CI systems, `JUnit` XML and the report show these causes; none of them makes its own.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::cause::{Cause, CauseKind, FailedTest};
use super::diagnosis::{is_clock_off, sign_by_machine};
use super::facts::{Facts, Judge};
use super::render::bytes_of;
use super::reply::NOT_NONE;
use super::story;
use super::test_runs::{TestRun, TestRuns};
use crate::advice::Hint;
use crate::clock::ClockMode;
use crate::findings::{self, Findings, Severity, Traffic};
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::journal::RequestRecord;
use crate::state::workspace::{RefusedCall, TestOutcome};
use crate::util::wording::counted;

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
        let is_silent = runs.is_whole && runs.arrived == 0 && runs.signed == 0 && deliveries.is_empty();
        let new = deliveries.iter().filter(|delivery| is_new(&delivery.planned.id));
        new.filter_map(|delivery| self.delivery_fact(delivery)).for_each(|fact| others.add(fact));
        let most = causes.all.len() + MAX_CAUSES;
        for fact in others.all {
            causes.add(fact.cause(None));
        }
        if is_silent && causes.all.is_empty() {
            let refused = self.control.last_refused.lock().clone();
            causes.all.push(refused.map_or_else(Cause::silent, |call| Cause::from_control_call(&call, false)));
        }
        causes.join(findings);
        self.name_keys(&mut causes.all, runs, deliveries);
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

    /// Names the keys of the records that show a finding.
    fn name_keys(&self, causes: &mut [Cause], runs: &TestRuns, deliveries: &[DeliveryRecord]) {
        let is_finding = |cause: &&mut Cause| cause.kind == CauseKind::Finding;
        let shown: HashSet<String> = causes.iter_mut().filter(is_finding).flat_map(|it| it.records.clone()).collect();
        let keys = self.redactor.key_settings();
        let requests = runs.requests.iter().filter(|it| shown.contains(it.transcript.id()));
        let deliveries = deliveries.iter().filter(|it| shown.contains(&it.planned.id));
        let owners = requests.filter_map(|it| Some((it.transcript.id(), it.owner(keys)?)));
        let owners = owners.chain(deliveries.map(|it| (&*it.planned.id, Cow::Borrowed(&*it.event.workspace))));
        let owners: HashMap<&str, String> =
            owners.map(|(id, owner)| (id, self.redactor.key(&owner).into_owned())).collect();
        for cause in causes.iter_mut().filter(is_finding) {
            cause.keys = cause.records.iter().filter_map(|id| owners.get(&**id).cloned()).collect();
        }
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
                Some(fact) => fact.cause(Some(test)),
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
            return Cause { sentence, count: records.len(), records, remedy, advice: None, ..fact.cause(None) };
        }
        // That no webhook came says nothing of requests.
        let waited = run.test.refused.as_ref().filter(|call| is_wait(call) && call.call == "POST deliveries/wait");
        if let Some(call) = waited.filter(|_| run.requests.is_empty()) {
            let remedy =
                (call.status == 408).then(|| "trigger what the test waits for, or wait for what came".to_owned());
            return unfired(run, &said)
                .unwrap_or_else(|| Cause { remedy, ..Cause::plain(CauseKind::Runner, run.test.test.clone(), said) });
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
            if let Some(cause) = unfired(run, &said) {
                return cause;
            }
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
        if foreign.is_none()
            && runs.strangers_to(run).is_empty()
            && let Some(cause) = unfired(run, &format!("{said}; the test made no request with its key"))
        {
            return cause;
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
}

/// The cause of a test that subscribed, and for which no event was fired: it may wait for one in its own code.
fn unfired(run: &TestRun, said: &str) -> Option<Cause> {
    let event_type = {
        let state = run.workspace.lock();
        let subscription = state.subscriptions.iter().find(|it| !it.disabled).filter(|_| run.fired_nothing())?;
        subscription.events.first()?.clone()
    };
    let fact = "no event was fired for the test's subscription";
    // It is why a wait for one ended, and perhaps not why anything else failed.
    let sentence = if run.test.refused.as_ref().is_some_and(is_wait) {
        format!("{fact}: {said}")
    } else {
        format!("{said}; {fact}")
    };
    let plain = Cause::plain(CauseKind::Runner, run.test.test.clone(), sentence);
    let remedy =
        format!("if the test waits for a webhook, fire the event: `wrs.trigger(\"{event_type}\")`, or `POST events`");
    Some(Cause { remedy: Some(remedy), ..plain })
}

/// True if a call waited for what did not happen, or for nothing although something did: the emulator did as it was asked.
fn is_wait(call: &RefusedCall) -> bool {
    call.status == 408 || call.code == NOT_NONE
}

/// What a wait of a failed test says, or else the runner's message.
fn said(test: &TestOutcome) -> String {
    let waited = test.refused.as_ref().filter(|call| is_wait(call)).map(|call| call.message.clone());
    let said = waited.or_else(|| test.message.clone()).unwrap_or_else(|| "it failed".to_owned());
    said.trim_end_matches('.').to_owned()
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
