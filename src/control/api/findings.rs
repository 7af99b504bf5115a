//! Findings about an integration, from its traffic.

use super::{Form, Nothing, endpoint};
use crate::control::render::{Text, cell};
pub(crate) use crate::review::findings::{Finding, Findings};
use crate::util::wording::counted;

endpoint! {
    /// What the traffic shows about the client and its receivers.
    ShowFindings: GET "findings", Form::Masked, Nothing, Nothing => Findings;
}

impl Text for Findings {
    fn text(&self) -> String {
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
        text + &format!("{}{found}; judged: {judged}\n", self.unproven())
    }
}

impl Finding {
    /// The evidence, and what to do, as lines.
    pub(crate) fn details(&self) -> String {
        let shown = self.evidence.iter().map(|shown| format!("    {} {}\n", cell(shown.id()), cell(&shown.detail)));
        let mut text: String = shown.collect();
        let more = self.count.saturating_sub(self.evidence.len());
        if more > 0 {
            text.push_str(&format!("    … and {more} more\n"));
        }
        text + &format!("    why:  {}\n    do:   {}\n    by:   {}\n", self.why, self.remedy, self.clause)
    }
}

impl Findings {
    /// What had nothing to judge, and what no traffic can show, as lines.
    pub(crate) fn unproven(&self) -> String {
        let mut text = String::new();
        if !self.not_exercised.is_empty() {
            text.push_str("not exercised, so unproven:\n");
            text.extend(self.not_exercised.iter().map(|idle| format!("    {}: {}\n", idle.code, idle.exercise)));
        }
        text + &format!("no traffic can show: {}\n", self.beyond.join("; "))
    }
}
