//! `GET findings`: what the traffic shows about the client and its receivers, judged by the rules of `findings`.

use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Control;
use super::call::{Call, ControlCall, Query, Tag};
use super::context::KeyScope;
use super::fields::KeyFilter;
use super::render::{Text, cell};
use crate::advice::Audience;
use crate::clock::ClockMode;
use crate::findings::{self, ShownGroup, Traffic};
pub(crate) use crate::findings::{Finding, Findings};
use crate::state::journal::{Entry, Fill};
use crate::util::wording::counted;

/// Mistakes of the client and its receivers, found in the traffic.
///
/// Each finding with its evidence and how sure it is, and the checks that had nothing to judge.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct GetFindings {
    #[serde(default)]
    pub(crate) key: KeyFilter,
}

impl ControlCall for Query<GetFindings> {
    type Answer = Findings;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::RESULTS, "GET findings", |Self { query }, cx| {
            Ok(compute_findings(&cx.control, &query.key.scope(&cx.engine)?))
        })
    }
}

impl Text for Findings {
    fn text(&self, reader: &Audience) -> String {
        let mut text = String::new();
        for finding in &self.data {
            let Finding { title, code, severity, confidence, count, .. } = finding;
            let (severity, confidence) = (severity.name(), confidence.name());
            text.push_str(&format!(
                "! {title} ({code}, {severity}, {confidence}), {count} in all\n{}",
                finding.details()
            ));
        }
        let (requests, deliveries) = (self.judged_requests, self.judged_deliveries);
        let found = counted(self.data.len(), "finding");
        let judged = format!("{} and {}", counted(requests, "request"), counted(deliveries, "delivery"));
        text + &format!("{}{found}; judged: {judged}\n", self.unproven(reader))
    }
}

impl ShownGroup {
    /// How often, with the first and the last.
    pub(crate) fn line(&self) -> String {
        let Self { count, first, last } = self;
        let (detail, first, last) = (cell(&first.detail), cell(first.id()), cell(last.id()));
        match count {
            1 => format!("{first} {detail}"),
            count => format!("{count} times: {detail}; first {first}, last {last}"),
        }
    }
}

impl Finding {
    /// What the first request or delivery shows, and what that is.
    pub(crate) fn sentence(&self) -> String {
        let Self { code, title, severity, count, .. } = self;
        let times = if *count > 1 { format!(", {count} times") } else { String::new() };
        let detail = self.evidence.first().map_or_else(String::new, |shown| format!("{}: ", shown.detail));
        cell(format!("{detail}{title} ({code}, {}{times})", severity.name()))
    }

    /// The evidence, and what to do, as lines.
    pub(crate) fn details(&self) -> String {
        let mut text: String = self.groups.iter().map(|group| format!("    {}\n", group.line())).collect();
        let more = self.count.saturating_sub(self.groups.iter().map(|group| group.count).sum());
        if more > 0 {
            text.push_str(&format!("    … and {more} more\n"));
        }
        text + &format!("    why:  {}\n    do:   {}\n    by:   {}\n", self.why, self.remedy, self.clause)
    }
}

impl Findings {
    /// The checks with nothing to judge, and the limits of the review, as lines.
    pub(crate) fn unproven(&self, reader: &Audience) -> String {
        let mut text = String::new();
        if !self.not_exercised.is_empty() {
            text.push_str("not exercised, so unproven:\n");
            text.extend(self.not_exercised.iter().map(|idle| format!("    {}: {}\n", idle.code, idle.line(reader))));
        }
        text + &format!("no traffic can show: {}\n", self.beyond.join("; "))
    }
}

/// The last findings, and their input: the page and several reports may ask for the same ones.
#[derive(Debug, Default)]
pub struct LastFindings(Mutex<Option<(FindingsInput, Findings)>>);

/// Findings made from the same are the same.
#[derive(Debug, PartialEq)]
struct FindingsInput {
    key: Option<Arc<str>>,
    next_entry: u64,
    fill: Fill,
    deliveries: u64,
    generation: u64,
    clock: ClockMode,
}

/// The findings about a scope, the worst first.
pub(super) fn compute_findings(control: &Control, scope: &KeyScope) -> Findings {
    let clock = scope.0.as_ref().map_or_else(|| control.engine.registry.clock(), |workspace| workspace.clock()).mode();
    let source = FindingsInput {
        key: scope.key(),
        next_entry: control.engine.journal.next_number(),
        fill: control.engine.journal.fill(),
        deliveries: control.engine.deliveries.changes(),
        generation: control.engine.library.load().number,
        clock,
    };
    // Others wait for it meanwhile, because they most likely want the same.
    let mut last = control.last_findings.0.lock();
    match &*last {
        Some((made_from, found)) if *made_from == source => found.clone(),
        _ => {
            let found = judge_anew(control, scope, clock);
            *last = Some((source, found.clone()));
            found
        }
    }
}

fn judge_anew(control: &Control, scope: &KeyScope, clock: ClockMode) -> Findings {
    let keys = &control.engine.profile_for(None).keys;
    let mut requests = control.engine.journal.search(None, usize::MAX, |_, entry| match entry {
        Entry::Request(request) if scope.covers_request(request, keys) => Some(Arc::clone(request)),
        _ => None,
    });
    requests.reverse();
    let found =
        control.engine.deliveries.list(None, usize::MAX, |delivery| scope.covers(Some(&delivery.event.workspace)));
    let deliveries: Vec<_> = found.into_iter().rev().map(|(_, delivery)| delivery).collect();
    let profile = control.engine.profile_for(scope.key().as_deref());
    let clock_runs = clock == ClockMode::Real;
    let traffic = Traffic { requests: &requests, deliveries: &deliveries, profile: &profile, clock_runs };
    Findings { forgotten_entries: control.engine.journal.fill().evicted, ..findings::judge(&traffic) }
}
