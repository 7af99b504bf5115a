//! `GET verdict`: the problems found so far. Requests that matched no endpoint, deliveries that failed, forged ones that were
//! accepted, scenarios that were not played to their end; and which of these checks had nothing to judge.
//!
//! Each call computes it from the journal, the deliveries and the rule counters, and changes none of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call::{Call, ControlCall, Query, Tag};
use super::cause::{Cause, CauseKind, NO_REQUEST};
use super::conclusion::{Headline, JudgedCounts, conclude};
use super::context::{Context, KeyScope, wait_limit};
use super::diagnosis::Diagnosis;
use super::exec_facts::ExecFacts;
use super::facts::Judge;
use super::fields::{DurationInput, KeyFilter};
use super::findings::Findings;
use super::grid::{Coverage, GridRow, MetStatuses};
use super::judged::{JudgedKey, judged_keys};
use super::problems::{CountedProblems, MAX_SHOWN, ProblemCounts, ProblemWith, Unused};
use super::render::{Text, cell};
use super::test_runs::TestRuns;
use super::unfinished::{Unfinished, configs, unfinished};
use super::{Control, ControlError, deliveries, findings, requests, story};
use crate::advice::{Advice, Audience};
use crate::clock::ClockMode;
use crate::redact::Redactor;
use crate::state::engine::deliveries::{DeliveryRecord, DeliveryStatus};
use crate::state::engine::wait_idle_ahead;
use crate::state::journal::RequestRecord;
use crate::state::journal::record::{DeliveryRow, Request, WorkspaceId};
use crate::state::workspace::Forgery;
use crate::util::wording::counted;

/// The problems found so far.
///
/// Requests that matched no endpoint, deliveries that failed, forgeries that were accepted, and rules that were not used up. `wait` first
/// completes everything due within that time.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct GetVerdict {
    #[serde(default)]
    pub(crate) key: KeyFilter,
    /// At most 300s.
    pub(crate) wait: Option<DurationInput>,
}

impl ControlCall for Query<GetVerdict> {
    type Answer = Verdict;

    fn call() -> Call {
        Call::waits::<Self, _>(Tag::RESULTS, "GET verdict", |Self { query }, cx| wait_then_judge(query, cx))
    }
}

/// The problems found, by kind, the oldest first; `counts` has the number of all.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Verdict {
    /// Requests that matched no endpoint.
    pub(crate) unmatched: Vec<ProblemWith<Request>>,
    /// Deliveries that failed.
    pub(crate) undelivered: Vec<ProblemWith<DeliveryRow>>,
    /// Forged deliveries that were accepted.
    pub(crate) forged: Vec<ProblemWith<DeliveryRow>>,
    /// Scenarios that were not played to their end.
    pub(crate) unfinished: Vec<Unfinished>,
    /// The kinds that had nothing to judge: an empty list of them proves nothing.
    pub(crate) unused: Vec<Unused>,
    pub(crate) counts: ProblemCounts,
    /// The keys of the scope, those of tests first; at most 1,000.
    #[serde(default)]
    pub(crate) keys: Vec<JudgedKey>,
    /// The first sentence about the run.
    #[serde(default)]
    pub(crate) headline: Headline,
    /// Why the tests failed, and every other problem, once: what failed the run first, then the causes of failed tests, then the worst.
    #[serde(default)]
    pub(crate) causes: Vec<Cause>,
    /// How many tests reported how they ended, how many of them failed, and how many others had neither a request nor a delivery.
    #[serde(default)]
    pub(crate) tests: usize,
    #[serde(default)]
    pub(crate) failed_tests: usize,
    #[serde(default)]
    pub(crate) silent_tests: usize,
    pub(crate) active_scenarios: Vec<String>,
    /// For each operation of the contract, how many requests got each status.
    #[serde(default)]
    pub(crate) grid: Vec<GridRow>,
    #[serde(default)]
    pub(crate) coverage: Coverage,
    pub(crate) judged_requests: usize,
    pub(crate) judged_deliveries: usize,
    /// Events that were signed for handlers in the tests' own processes, without being sent.
    #[serde(default)]
    pub(crate) signed_in_process: usize,
    /// Forged deliveries that were refused, as they should be; they are not undelivered.
    pub(crate) refused_forgeries: usize,
    /// Entries that were evicted from the journal.
    pub(crate) forgotten_entries: u64,
    /// Finished deliveries that were evicted.
    pub(crate) forgotten_deliveries: u64,
}

impl Verdict {
    /// The same with what follows from it: the kinds that had nothing to judge.
    pub(super) fn concluded(mut self, is_of_key: bool) -> Self {
        let no_requests = match self.causes.iter().find(|cause| cause.kind == CauseKind::ControlCall) {
            Some(refused) => format!("0 requests arrived; {}", refused.sentence),
            None if self.signed_in_process > 0 => {
                format!("0 requests arrived; {}", story::signed_text(self.signed_in_process))
            }
            None if is_of_key => {
                "0 requests arrived with this key; does your code read WRS_BASE_URL and WRS_API_KEY?".to_owned()
            }
            None if self.judged_deliveries > 0 => "0 requests arrived".to_owned(),
            None => NO_REQUEST.to_owned(),
        };
        let unused_kinds = [
            (self.judged_requests == 0 && self.forgotten_entries == 0, "unmatched", &*no_requests),
            (self.judged_deliveries == 0 && self.forgotten_deliveries == 0, "undelivered", "there was no delivery"),
            (
                self.counts.forged == 0 && self.refused_forgeries == 0 && self.forgotten_deliveries == 0,
                "forged",
                "no receiver accepted or refused a forged webhook",
            ),
            (self.active_scenarios.is_empty(), "unfinished", "no scenario is active"),
        ];
        let unused = unused_kinds.into_iter().filter(|(is_unused, ..)| *is_unused);
        self.unused =
            unused.map(|(_, kind, message)| Unused { kind: kind.to_owned(), message: message.to_owned() }).collect();
        self.counts.unused = self.unused.len();
        self.coverage = Coverage::of(&self.grid);
        self.keys.sort_by(|a, b| (a.test.is_none(), &a.key).cmp(&(b.test.is_none(), &b.key)));
        self.keys.truncate(MAX_SHOWN);
        self.conclude(None);
        self
    }

    /// Judges which causes failed the run, after the command of `exec` if there was one.
    pub(crate) fn conclude(&mut self, exec: Option<&ExecFacts>) {
        let judged = self.judged();
        self.headline = conclude(&mut self.causes, self.tests, judged, exec);
    }

    fn judged(&self) -> JudgedCounts {
        JudgedCounts {
            requests: self.judged_requests,
            deliveries: self.judged_deliveries,
            signed: self.signed_in_process,
        }
    }

    /// The tests of keys, in words, by key.
    pub(crate) fn test_of_key(&self) -> HashMap<&str, String> {
        self.keys.iter().filter(|key| key.test.is_some()).map(|key| (&*key.key, key.text())).collect()
    }

    /// The kinds of problems with how many there are, and whether there was something to judge.
    pub(crate) fn kinds(&self) -> [(&'static str, usize, bool); 5] {
        let ProblemCounts { unmatched, undelivered, forged, unfinished, unused } = self.counts;
        let kinds = [
            ("unmatched", unmatched),
            ("undelivered", undelivered),
            ("forged", forged),
            ("unfinished", unfinished),
            ("unused", unused),
        ];
        kinds.map(|(kind, count)| (kind, count, self.unused.iter().all(|unused| unused.kind != kind)))
    }
}

impl Text for Verdict {
    fn text(&self, reader: &Audience) -> String {
        let mut text = String::new();
        if self.failed_tests > 0 {
            text.push_str(&format!("✗ tests: {} failed\n", counted(self.failed_tests, "test")));
        }
        for (kind, count, is_judged) in self.kinds() {
            let mark = if count > 0 {
                '✗'
            } else if is_judged {
                '✓'
            } else {
                '·'
            };
            text.push_str(&format!("{mark} {kind}: {count}\n"));
        }
        text.extend(self.unused.iter().map(|unused| format!("    {}\n", cell(&unused.message))));
        let tests = self.test_of_key();
        for (number, cause) in (1..).zip(&self.causes).take(MAX_IN_TEXT) {
            text.push_str(&format!("{number}. {}\n", cell(&cause.sentence)));
            let more = cause.records.first().map(|id| reader.look(&Advice::explain(cell(id))));
            text.extend(cause.details(reader, more.as_deref(), &tests).iter().map(|line| format!("    {line}\n")));
        }
        let more = self.causes.len().saturating_sub(MAX_IN_TEXT);
        if more > 0 {
            text.push_str(&format!("… and {}; {}\n", counted(more, "more cause"), reader.all_causes(None)));
        }
        text + &format!("judged: {}\n", self.judged().text())
    }
}

/// Maximum number of causes in a text; JSON has all.
pub(crate) const MAX_IN_TEXT: usize = 10;
/// How long attempts that became due during a wait may last beyond it.
const LAST_ATTEMPTS: Duration = Duration::from_secs(1);

async fn wait_then_judge(request: GetVerdict, cx: Arc<Context>) -> Result<Verdict, ControlError> {
    let scope = request.key.scope_soon(&cx.control).await?;
    if let Some(wait) = &request.wait {
        wait_for_what_is_due(&cx.control, &scope, wait_limit("wait", wait)?).await;
    }
    let (control, is_disconnected) = (Arc::clone(&cx.control), Arc::clone(&cx.is_disconnected));
    control
        .read(&is_disconnected, move |control| {
            let findings = findings::compute_findings(control, &scope);
            compute_verdict(control, &scope, Some(&findings), cx.redactor())
        })
        .await
}

/// The problems of a scope. With its findings, the causes have those that are about no other problem.
pub(super) fn compute_verdict(
    control: &Control,
    scope: &KeyScope,
    findings: Option<&Findings>,
    redactor: Redactor<'_>,
) -> Verdict {
    let snapshot = control.engine.library.load();
    let configs = configs(&snapshot, scope);
    let runs = TestRuns::read(control, scope, redactor);
    let mut met = MetStatuses::default();
    runs.requests.iter().for_each(|request| met.count(request));
    let unmatched = unmatched(&runs, redactor);
    let found =
        control.engine.deliveries.list(None, usize::MAX, |delivery| scope.covers(Some(&delivery.event.workspace)));
    let deliveries: Vec<DeliveryRecord> = found.into_iter().rev().map(|(_, delivery)| delivery).collect();
    let problem = |delivery: &DeliveryRecord, what: String| {
        let row = deliveries::row(delivery, &control.engine.registry, redactor);
        ProblemWith { message: format!("{} to {}: {what}", row.event_type, row.url), row, remedy: None }
    };
    let lost = |delivery: &DeliveryRecord| {
        let what = story::delivery_summary(delivery, redactor);
        match Diagnosis::new(control, delivery, redactor).remedy() {
            None => problem(delivery, what),
            Some(remedy) => {
                let of = problem(delivery, format!("{what}; {remedy}"));
                ProblemWith { remedy: Some(remedy.to_owned()), ..of }
            }
        }
    };
    let failed = deliveries.iter().filter(|it| it.status != DeliveryStatus::Delivered && !story::is_on_purpose(it));
    let undelivered = CountedProblems::of(failed, lost);
    let answered = |forgery: Forgery| deliveries.iter().filter(move |it| it.forgery() == Some(forgery));
    let forged = CountedProblems::of(answered(Forgery::Accepted), |it| problem(it, story::accepted_forgery(it)));
    let unfinished = unfinished(control, scope, &snapshot, &configs, redactor);
    let active: BTreeSet<&str> =
        configs.iter().flat_map(|config| config.active.iter()).map(|scenario| scenario.name.as_ref()).collect();
    let counts = ProblemCounts {
        unmatched: unmatched.count,
        undelivered: undelivered.count,
        forged: forged.count,
        unfinished: unfinished.count,
        unused: 0,
    };
    let keys = judged_keys(control, scope, &runs, &deliveries, redactor);
    let of: HashMap<&WorkspaceId, &String> = keys.iter().map(|key| (&key.workspace, &key.key)).collect();
    let key =
        |part: &Unfinished| part.workspace.as_ref().and_then(|workspace| of.get(workspace)).map(|key| (*key).clone());
    let parts =
        unfinished.shown.iter().map(|part| (format!("scenario {}", part.scenario), part.message.clone(), key(part)));
    let (causes, failed_tests) = Judge { control, redactor }.causes(&runs, &deliveries, parts, findings);
    let failed: HashSet<&str> = runs.failed.iter().map(|run| run.workspace.id()).collect();
    let is_silent = |key: &&JudgedKey| key.is_silent() && !failed.contains(&*key.workspace.0);
    let (tests, silent_tests) =
        (keys.iter().filter(|key| key.test.is_some()).count(), keys.iter().filter(is_silent).count());
    let verdict = Verdict {
        unmatched: unmatched.shown,
        undelivered: undelivered.shown,
        forged: forged.shown,
        unfinished: unfinished.shown,
        unused: Vec::new(),
        counts,
        keys,
        headline: Headline::default(),
        causes,
        tests,
        failed_tests,
        silent_tests,
        active_scenarios: active.into_iter().map(str::to_owned).collect(),
        grid: met.grid(&snapshot),
        coverage: Coverage::default(),
        // A poll is no sign that the code under test called.
        judged_requests: runs.requests.iter().filter(|request| !request.is_incidental()).count(),
        judged_deliveries: deliveries.len(),
        signed_in_process: runs.signed,
        refused_forgeries: answered(Forgery::Refused).count(),
        forgotten_entries: control.engine.journal.fill().evicted,
        forgotten_deliveries: control.engine.deliveries.evicted(),
    };
    verdict.concluded(scope.0.is_some())
}

/// Waits until planned events, attempts and retries that become due within `limit` are done. With a frozen clock, only those due already; with an
/// automatic one, all of them.
async fn wait_for_what_is_due(control: &Control, scope: &KeyScope, limit: Duration) {
    let clock = control.engine.registry.clock();
    let began = clock.instant();
    let workspaces = scope.workspaces(&control.engine);
    // One after the other, so that a call waits for one agenda at a time, however many keys there are.
    let settled = async {
        for workspace in &workspaces {
            let ahead = || match workspace.clock().mode() {
                ClockMode::Frozen => Duration::ZERO,
                ClockMode::Real => limit.saturating_sub(clock.instant().since(began)),
                ClockMode::Auto => Duration::MAX,
            };
            wait_idle_ahead(workspace, ahead).await;
            // Of ten thousand keys with nothing due, none would let other calls run.
            tokio::task::coop::consume_budget().await;
        }
    };
    let settled = control.engine.while_time_passes(scope.0.clone(), settled);
    // An attempt that became due just before the limit may finish. What is pending after that is reported as undelivered.
    let _ = tokio::time::timeout(limit + limit.min(LAST_ATTEMPTS), settled).await;
}

/// Requests that matched no endpoint, oldest first.
fn unmatched(runs: &TestRuns, redactor: Redactor<'_>) -> CountedProblems<ProblemWith<Request>> {
    let is_unmatched = |request: &&Arc<RequestRecord>| !request.is_incidental() && story::is_unmatched(request);
    CountedProblems::of(runs.requests.iter().rev().filter(is_unmatched), |request| {
        let why = story::decision(request).1;
        let row = requests::row(request, redactor);
        let (line, status) = (story::request_line(&row.method, &row.path), row.status_text());
        ProblemWith { message: format!("{line}: {why} ({status})"), row, remedy: None }
    })
}
