//! Findings about an integration, from its traffic.

use serde::{Deserialize, Serialize};

use super::{DeliveryId, Form, Nothing, RequestId, endpoint};
use crate::control::render::{Text, cell};
use crate::wording::counted;

endpoint! {
    /// What the traffic shows about the client and its receivers.
    ShowFindings: GET "findings", Form::Masked, Nothing, Nothing => Findings;
}

/// The findings, the worst first, and what had nothing to judge.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Findings {
    pub(crate) data: Vec<Finding>,
    /// Rules that had nothing to judge: that they found nothing proves nothing.
    pub(crate) not_exercised: Vec<NotExercised>,
    /// What no traffic can show.
    pub(crate) beyond: Vec<String>,
    pub(crate) judged_requests: usize,
    pub(crate) judged_deliveries: usize,
    /// Entries that were evicted from the journal, and so were not judged.
    pub(crate) forgotten_entries: u64,
}

/// One finding, with what showed it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Finding {
    /// Its stable name.
    pub(crate) code: String,
    pub(crate) title: String,
    #[cfg_attr(test, schemars(extend("enum" = severities())))]
    pub(crate) severity: String,
    #[cfg_attr(test, schemars(extend("enum" = confidences())))]
    pub(crate) confidence: String,
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
}

/// A request or delivery that shows a finding.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Shown {
    pub(crate) request: Option<RequestId>,
    pub(crate) delivery: Option<DeliveryId>,
    pub(crate) detail: String,
}

impl Shown {
    /// The id of the request or delivery.
    pub(crate) fn id(&self) -> String {
        let request = self.request.as_ref().map(ToString::to_string);
        request.or_else(|| self.delivery.as_ref().map(ToString::to_string)).unwrap_or_default()
    }
}

/// A rule that had nothing to judge.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct NotExercised {
    pub(crate) code: String,
    pub(crate) title: String,
    /// How to give it something to judge.
    pub(crate) exercise: String,
}

impl Text for Findings {
    fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.data {
            let Finding { title, code, severity, confidence, count, why, remedy, clause, .. } = finding;
            text.push_str(&format!("! {title} ({code}, {severity}, {confidence}), {count} in all\n"));
            text.extend(finding.evidence.iter().map(|it| format!("    {} {}\n", cell(it.id()), cell(&it.detail))));
            text.push_str(&format!("    why:  {why}\n    do:   {remedy}\n    by:   {clause}\n"));
        }
        if !self.not_exercised.is_empty() {
            text.push_str("not exercised, so unproven:\n");
            text.extend(self.not_exercised.iter().map(|idle| format!("    {}: {}\n", idle.code, idle.exercise)));
        }
        text.push_str(&format!("no traffic can show: {}\n", self.beyond.join("; ")));
        let (requests, deliveries) = (self.judged_requests, self.judged_deliveries);
        let found = counted(self.data.len(), "finding");
        text + &format!("{found}; judged: {} and {}\n", counted(requests, "request"), counted(deliveries, "delivery"))
    }
}

#[cfg(test)]
fn severities() -> impl serde::Serialize {
    use crate::review::findings::Severity;
    Severity::ALL.map(Severity::name)
}

#[cfg(test)]
fn confidences() -> impl serde::Serialize {
    use crate::review::findings::Confidence;
    Confidence::ALL.map(Confidence::name)
}
