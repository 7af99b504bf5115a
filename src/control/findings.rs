//! `GET findings`: what the traffic shows about the client and its receivers.
//!
//! Made from the journal and the deliveries; the rules are in `review::findings`.

use std::sync::Arc;

use parking_lot::Mutex;

use super::api::{self, Finding, Findings, NotExercised, Shown};
use super::call::Input;
use super::scope::{Scope, scope_or_all};
use super::{Control, ControlError};
use crate::clock::ClockMode;
use crate::journal::{Entry, Fill};
use crate::review::findings::{self, BEYOND, Check, Confidence, Sighting, Traffic, check};

/// Most requests or deliveries named for a finding; `count` counts all.
pub(crate) const MOST_SHOWN: usize = 20;

/// The last findings, and what they were made from: the page and several reports may ask for the same ones.
#[derive(Debug, Default)]
pub struct LastFindings(Mutex<Option<(Source, Findings)>>);

/// Findings made from the same are the same.
#[derive(Debug, PartialEq)]
struct Source {
    key: Option<Arc<str>>,
    next_entry: u64,
    fill: Fill,
    deliveries: u64,
    generation: u64,
    clock: ClockMode,
}

pub(super) fn show(control: &Control, input: &Input<api::ShowFindings>) -> Result<Findings, ControlError> {
    Ok(judge(control, &scope_or_all(control, input)?))
}

/// The findings about a scope, the worst first.
pub(super) fn judge(control: &Control, scope: &Scope) -> Findings {
    let clock = scope.0.as_ref().map_or_else(|| control.registry.clock(), |workspace| workspace.clock()).mode();
    let source = Source {
        key: scope.key(),
        next_entry: control.journal.next_number(),
        fill: control.journal.fill(),
        deliveries: control.deliveries.changes(),
        generation: control.library.load().number,
        clock,
    };
    // Others wait for it meanwhile, as they most likely want the same.
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

fn judge_anew(control: &Control, scope: &Scope, clock: ClockMode) -> Findings {
    let mut requests = control.journal.search(None, usize::MAX, |_, entry| match entry {
        // A request without a valid key may be of the client in question.
        Entry::Request(request) => {
            let is_of = request.workspace.as_ref().is_none_or(|workspace| scope.covers(Some(workspace.name())));
            is_of.then(|| Arc::clone(request))
        }
        _ => None,
    });
    requests.reverse();
    let found = control.deliveries.list(None, usize::MAX, |delivery| scope.covers(Some(&delivery.event.workspace)));
    let deliveries: Vec<_> = found.into_iter().rev().map(|(_, delivery)| delivery).collect();
    let profile = control.profile_for(scope.key().as_deref());
    let clock_runs = clock == ClockMode::Real;
    let traffic = Traffic { requests: &requests, deliveries: &deliveries, profile: &profile, clock_runs };
    let mut answer = Findings {
        beyond: BEYOND.map(str::to_owned).to_vec(),
        judged_requests: requests.len(),
        judged_deliveries: deliveries.len(),
        forgotten_entries: control.journal.fill().evicted,
        ..Findings::default()
    };
    for (check, judged) in findings::judge(&traffic) {
        if judged.judged == 0 {
            let (code, title) = (check.code.to_owned(), check.title.to_owned());
            answer.not_exercised.push(NotExercised { code, title, exercise: check.exercise.to_owned() });
        }
        for confidence in Confidence::ALL {
            answer.data.extend(finding(check, confidence, &judged.found));
        }
    }
    let rank = |finding: &Finding| check(&finding.code).map(|check| check.severity as usize);
    answer.data.sort_by_key(rank);
    answer
}

/// The sightings of a rule with this confidence, if there are any.
fn finding(rule: &Check, confidence: Confidence, sightings: &[Sighting]) -> Option<Finding> {
    let sightings: Vec<&Sighting> = sightings.iter().filter(|sighting| sighting.confidence == confidence).collect();
    let shown = |sighting: &&Sighting| {
        let is_request = sighting.id.starts_with("req_");
        Shown {
            request: is_request.then(|| sighting.id.as_str().into()),
            delivery: (!is_request).then(|| sighting.id.as_str().into()),
            detail: sighting.detail.clone(),
        }
    };
    (!sightings.is_empty()).then(|| Finding {
        code: rule.code.to_owned(),
        title: rule.title.to_owned(),
        severity: rule.severity.name().to_owned(),
        confidence: confidence.name().to_owned(),
        clause: rule.clause.to_owned(),
        why: rule.why.to_owned(),
        remedy: rule.remedy.to_owned(),
        cwe: rule.cwe,
        count: sightings.len(),
        evidence: sightings.iter().take(MOST_SHOWN).map(shown).collect(),
    })
}
