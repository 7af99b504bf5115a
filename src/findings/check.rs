//! A kind of finding with its texts and its function; what the function returns; and the findings as they are shown.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::traffic::{JudgedRequest, Traffic};
use crate::advice::{Advice, Audience};
use crate::contract::named::named;
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::journal::record::{DeliveryId, RequestId};
use crate::util::wording::shorten;

pub(super) const ON_ONE_CONNECTION: &str = "certain if the second request has the method and path of the first and came on the same \
     connection, so that its sender had read the answer; otherwise likely";
pub(super) const SEND_REQUESTS: &str = "send any request";
pub(super) const SUBSCRIBE: &str = "subscribe to events: POST /v1/events/subscribe";
pub(super) const OWN_SECRET: &str = "subscribe with a secret of your own";
pub(super) const DELIVER: &str = "subscribe your receiver, then fire an event";

named! {
    // How bad a finding is, the worst first.
    #[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
    #[schemars(inline)]
    #[serde(rename_all = "lowercase")]
    pub enum Severity {
        // Anybody can forge what the receiver acts on.
        Critical = "critical",
        // A credential is exposed, or will be.
        High = "high",
        // Breaks the contract, or will fail in production.
        Medium = "medium",
        // Works today, by luck.
        Low = "low",
        // Worth knowing.
        Info = "info",
    }
}

named! {
    #[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
    #[schemars(inline)]
    #[serde(rename_all = "lowercase")]
    pub enum Confidence {
        // The traffic leaves no other explanation.
        Certain = "certain",
        Likely = "likely",
    }
}

/// One kind of finding.
#[derive(Debug)]
pub struct Check {
    /// Its stable name.
    pub code: &'static str,
    pub title: &'static str,
    pub why: &'static str,
    /// The clause of the contract, or of the standard, that it goes against.
    pub clause: &'static str,
    pub severity: Severity,
    /// When it is certain and when only likely.
    pub confidence: &'static str,
    pub remedy: &'static str,
    /// The number in the Common Weakness Enumeration, where one fits.
    pub cwe: Option<u16>,
    /// How to give it something to judge.
    pub exercise: &'static str,
    /// The commands for that.
    pub advice: fn() -> Vec<Advice>,
    pub(super) rule: FindingRule,
}

impl Check {
    /// A row of a table, certain whenever it is found.
    pub(super) const fn new(code: &'static str, severity: Severity, title: &'static str) -> Self {
        Self {
            code,
            title,
            why: "",
            clause: "",
            severity,
            confidence: "always certain",
            remedy: "",
            cwe: None,
            exercise: "",
            advice: Vec::new,
            rule: FindingRule::Request(|_| None),
        }
    }

    pub(super) const fn why(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    pub(super) const fn clause(self, clause: &'static str) -> Self {
        Self { clause, ..self }
    }

    pub(super) const fn remedy(self, remedy: &'static str) -> Self {
        Self { remedy, ..self }
    }

    pub(super) const fn confidence(self, confidence: &'static str) -> Self {
        Self { confidence, ..self }
    }

    pub(super) const fn cwe(self, number: u16) -> Self {
        Self { cwe: Some(number), ..self }
    }

    pub(super) const fn exercise(self, exercise: &'static str) -> Self {
        Self { exercise, ..self }
    }

    pub(super) const fn advice(self, advice: fn() -> Vec<Advice>) -> Self {
        Self { advice, ..self }
    }

    pub(super) const fn rule(self, rule: FindingRule) -> Self {
        Self { rule, ..self }
    }
}

/// How traffic is judged.
#[derive(Clone, Copy, Debug)]
pub(super) enum FindingRule {
    /// Each request by itself.
    Request(fn(&JudgedRequest<'_>) -> Assessment),
    /// Each delivery by itself.
    Delivery(fn(&DeliveryRecord, &Traffic<'_>) -> Assessment),
    /// All requests and deliveries together.
    All(fn(&Traffic<'_>) -> Judged),
}

/// `None` if something has nothing to do with a rule, `Some(None)` if it is sound.
pub(super) type Assessment = Option<Option<Occurrence>>;

/// A rule's findings in the traffic.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// How many requests or deliveries could have shown the finding.
    pub(super) subjects: usize,
    /// Those that did, oldest first.
    pub(super) found: Vec<Occurrence>,
    /// True if there were some, but their pauses mean nothing because the clock stood still.
    pub(super) without_time: bool,
}

/// One request or delivery that shows a finding.
#[derive(Debug)]
pub(super) struct Occurrence {
    pub(super) confidence: Confidence,
    pub(super) shown: Shown,
}

impl Judged {
    /// Counts one outcome.
    pub(super) fn count(&mut self, outcome: Assessment) {
        if let Some(outcome) = outcome {
            self.subjects += 1;
            self.found.extend(outcome);
        }
    }
}

impl Occurrence {
    /// The detail contains no secret.
    pub(super) fn new(confidence: Confidence, id: &str, detail: impl Into<String>) -> Self {
        /// Maximum characters of a detail, before `…`: URLs and paths may be as long as a body.
        const MAX_DETAIL: usize = 299;
        let is_request = id.starts_with("req_");
        let shown = Shown {
            request: is_request.then(|| id.into()),
            delivery: (!is_request).then(|| id.into()),
            detail: shorten(&detail.into(), MAX_DETAIL).into_owned(),
        };
        Self { confidence, shown }
    }

    pub(super) fn certain(id: &str, detail: impl Into<String>) -> Self {
        Self::new(Confidence::Certain, id, detail)
    }

    pub(super) fn likely(id: &str, detail: impl Into<String>) -> Self {
        Self::new(Confidence::Likely, id, detail)
    }
}

/// The findings, the worst first, and what had nothing to judge.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Findings {
    pub(crate) data: Vec<Finding>,
    /// Rules that had nothing to judge: that they found nothing proves nothing.
    pub(crate) not_exercised: Vec<NotExercised>,
    /// How many rules there are.
    #[serde(default)]
    pub(crate) rules: usize,
    /// The limits of the review.
    pub(crate) beyond: Vec<String>,
    pub(crate) judged_requests: usize,
    pub(crate) judged_deliveries: usize,
    /// Entries that were evicted from the journal, and so were not judged.
    pub(crate) forgotten_entries: u64,
}

/// One finding, with what showed it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Finding {
    /// Its stable name.
    pub(crate) code: String,
    pub(crate) title: String,
    pub(crate) severity: Severity,
    pub(crate) confidence: Confidence,
    /// The clause of the contract, or of a standard, that it goes against.
    pub(crate) clause: String,
    pub(crate) why: String,
    pub(crate) remedy: String,
    /// The number in the Common Weakness Enumeration.
    pub(crate) cwe: Option<u16>,
    /// How many requests or deliveries show it.
    pub(crate) count: usize,
    /// The first of them.
    pub(crate) evidence: Vec<Shown>,
    /// All of them, those that differ in numbers and ids alone together; at most 20.
    #[serde(default)]
    pub(crate) groups: Vec<ShownGroup>,
}

/// Requests or deliveries that show a finding in the same way.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct ShownGroup {
    pub(crate) count: usize,
    pub(crate) first: Shown,
    pub(crate) last: Shown,
}

/// A request or delivery that shows a finding.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Shown {
    request: Option<RequestId>,
    delivery: Option<DeliveryId>,
    pub(crate) detail: String,
}

/// A rule that had nothing to judge.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct NotExercised {
    pub(crate) code: String,
    pub(crate) title: String,
    /// How to give it something to judge.
    pub(crate) exercise: String,
    /// The commands for that.
    #[serde(default)]
    pub(crate) advice: Vec<Advice>,
}

impl NotExercised {
    /// How to give it something to judge, in a line.
    pub(crate) fn line(&self, reader: &Audience) -> String {
        let commands: Vec<String> = self.advice.iter().map(|advice| format!("`{}`", advice.worded(reader))).collect();
        if commands.is_empty() { self.exercise.clone() } else { format!("{}: {}", self.exercise, commands.join(", ")) }
    }
}

/// Maximum number of requests or deliveries named for a finding; `count` counts all.
const MAX_SHOWN: usize = 20;

impl Check {
    /// The finding with this confidence, if the rule found anything.
    pub(super) fn finding(&self, confidence: Confidence, judged: &Judged) -> Option<Finding> {
        let found = || judged.found.iter().filter(|sighting| sighting.confidence == confidence);
        let count = found().count();
        (count > 0).then(|| Finding {
            code: self.code.to_owned(),
            title: self.title.to_owned(),
            severity: self.severity,
            confidence,
            clause: self.clause.to_owned(),
            why: self.why.to_owned(),
            remedy: self.remedy.to_owned(),
            cwe: self.cwe,
            count,
            evidence: found().take(MAX_SHOWN).map(|sighting| sighting.shown.clone()).collect(),
            groups: grouped(found().map(|sighting| ShownGroup::of(&sighting.shown)), MAX_SHOWN),
        })
    }
}

/// The sightings that are alike, in the order of their first, of at most so many kinds.
fn grouped(sightings: impl Iterator<Item = ShownGroup>, most: usize) -> Vec<ShownGroup> {
    let mut groups: Vec<ShownGroup> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for shown in sightings {
        let at = *known.entry(template(&shown.first.detail)).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => {
                group.count = group.count.saturating_add(shown.count);
                group.last = shown.last;
            }
            None => groups.push(shown),
        }
    }
    groups.truncate(most);
    groups
}

impl Finding {
    /// The ids of requests and deliveries that show it, of those that are kept.
    pub(crate) fn shown_by(&self) -> impl Iterator<Item = &str> {
        self.evidence.iter().map(Shown::id)
    }
}

impl ShownGroup {
    fn of(shown: &Shown) -> Self {
        Self { count: 1, first: shown.clone(), last: shown.clone() }
    }
}

/// A detail without its numbers and ids.
fn template(detail: &str) -> String {
    let word = |word: &str| {
        if let Some(("req" | "dlv" | "evt" | "sub" | "wf", _)) = word.split_once('_') {
            return "#".to_owned();
        }
        let mut kept = String::new();
        for c in word.chars() {
            let c = if c.is_ascii_digit() { '#' } else { c };
            if c != '#' || !kept.ends_with('#') {
                kept.push(c);
            }
        }
        kept
    };
    detail.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

impl Shown {
    /// The id of the request or delivery.
    pub(crate) fn id(&self) -> &str {
        let request = self.request.as_ref().map(|id| &id.0);
        request.or(self.delivery.as_ref().map(|id| &id.0)).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sightings_that_differ_in_numbers_and_ids_are_one_group() {
        let shown =
            |id: usize, detail: String| Shown { request: Some(format!("req_{id}").into()), delivery: None, detail };
        let hammering =
            |id: usize| shown(id, format!("GET /v1/a followed 3 refusals in a row after {id}, 1{id}, 1 ms"));
        let early = shown(99, "GET /v1/a came 2 ms after the 429 of req_01kabc".to_owned());
        let sightings: Vec<Shown> = [hammering(1), early.clone()].into_iter().chain((2..=20).map(hammering)).collect();
        let groups = grouped(sightings.iter().map(ShownGroup::of), 20);
        let facts: Vec<_> = groups.iter().map(|group| (group.count, group.first.id(), group.last.id())).collect();
        assert_eq!(facts, [(20, "req_1", "req_20"), (1, "req_99", "req_99")]);
        assert_eq!(grouped(sightings.iter().map(ShownGroup::of), 1).len(), 1);
        assert_ne!(template("POST /v1/a"), template("GET /v1/a"));
        assert_eq!(template("12 ms after req_01k2"), template("3 ms after req_01kabc"));
    }
}
