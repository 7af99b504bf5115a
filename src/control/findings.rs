//! `GET findings`: what the traffic shows about the client and its receivers.
//!
//! Each call judges the journal and the deliveries anew, and changes neither. The rules are in `review::findings`.

use std::sync::Arc;

use super::api::{self, Finding, Findings, NotExercised, Shown};
use super::call::Input;
use super::scope::{Scope, scope_or_all};
use super::{Control, ControlError};
use crate::clock::ClockMode;
use crate::journal::Entry;
use crate::review::findings::{BEYOND, Check, Confidence, Sighting, Traffic, checks};

/// Most requests or deliveries named for a finding; `count` counts all.
pub(crate) const MOST_SHOWN: usize = 20;

pub(super) async fn show(
    control: Arc<Control>,
    input: Arc<Input<api::ShowFindings>>,
) -> Result<Findings, ControlError> {
    let scope = scope_or_all(&control, &input)?;
    let judging = Arc::clone(&control);
    Ok(control.blocking.run(move || judge(&judging, &scope)).await)
}

/// The findings about a scope, the worst first.
pub(super) fn judge(control: &Control, scope: &Scope) -> Findings {
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
    let key = scope.key();
    let profile = control.profile_for(key.as_deref());
    let clock =
        scope.0.as_ref().map_or_else(|| control.registry.clock().clone(), |workspace| workspace.clock().clone());
    let traffic = Traffic {
        requests: &requests,
        deliveries: &deliveries,
        profile: &profile,
        clock_runs: clock.mode() == ClockMode::Real,
    };
    let mut answer = Findings {
        beyond: BEYOND.map(str::to_owned).to_vec(),
        judged_requests: requests.len(),
        judged_deliveries: deliveries.len(),
        forgotten_entries: control.journal.fill().evicted,
        ..Findings::default()
    };
    for rule in checks() {
        let judged = (rule.judge)(&traffic);
        if judged.judged == 0 {
            let (code, title) = (rule.code.to_owned(), rule.title.to_owned());
            answer.not_exercised.push(NotExercised { code, title, exercise: rule.exercise.to_owned() });
        }
        for confidence in Confidence::ALL {
            answer.data.extend(finding(rule, confidence, &judged.found));
        }
    }
    let rank = |finding: &Finding| checks().find(|rule| rule.code == finding.code).map(|rule| rule.severity as usize);
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
