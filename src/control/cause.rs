//! A cause: why something failed, and what to do about it.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::render::cell;
use crate::advice::{Advice, Audience, Hint};
use crate::findings::{Confidence, Finding, Severity};
use crate::state::workspace::RefusedCall;

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

impl Cause {
    /// True if a command may have failed because of it, where no test reported how it ended.
    pub(crate) fn may_fail_a_command(&self) -> bool {
        use CauseKind::{Finding, Runner, Scripted, Unfinished};
        !self.survived && !matches!(self.kind, Scripted | Runner | Unfinished | Finding)
    }

    /// Nothing called the emulator.
    pub(super) fn silent() -> Self {
        Self::plain(CauseKind::Silent, NO_REQUEST.to_owned(), NO_REQUEST.to_owned())
    }

    /// A test cannot go on without its call, whatever else happened. Without requests, any call is why a command sent none.
    pub(super) fn from_control_call(
        RefusedCall { call, status, code, message }: &RefusedCall,
        is_of_test: bool,
    ) -> Self {
        let (whose, doer) = if is_of_test { ("the test's own", "test") } else { ("a", "command") };
        let sentence = format!("{whose} control call was refused: {call}: {status} {code}: {message}");
        let remedy = Some(format!("correct this call, or the steps of the {doer} before it"));
        Self { remedy, ..Self::plain(CauseKind::ControlCall, call.clone(), sentence) }
    }

    pub(super) fn plain(kind: CauseKind, name: String, sentence: String) -> Self {
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

    /// Adds a finding that its records show: also to the sentence, if it tells more than that.
    pub(super) fn show_finding(&mut self, finding: &Finding) {
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
    pub(super) fn is_shared(&self) -> bool {
        match self.kind {
            CauseKind::Runner => false,
            CauseKind::Silent => self.sentence == NO_REQUEST,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Two remedies may contradict each other.
    #[test]
    fn of_several_findings_the_first_and_worst_says_what_to_do() {
        let finding = |code: &str, remedy: &str| -> Finding {
            let fields = json!({
                "code": code, "title": "The client hammers", "severity": "high", "confidence": "likely", "clause": "", "why": "",
                "remedy": remedy, "cwe": null, "count": 1, "evidence": [],
            });
            serde_json::from_value(fields).expect("a finding")
        };
        let mut cause = Cause::plain(CauseKind::Refused, "GET /".to_owned(), "GET / was refused".to_owned());
        for (code, remedy) in [("worst", "pause"), ("worst", "leave"), ("minor", "do not pause")] {
            cause.show_finding(&finding(code, remedy));
        }
        assert_eq!(cause.remedy.as_deref(), Some("pause"));
        let expected = "GET / was refused; the client hammers (likely worst); the client hammers (likely minor)";
        assert_eq!(cause.sentence, expected);
    }
}
