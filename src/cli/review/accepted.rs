//! Accepted findings: a TOML file with a code, a reason and a last day for each.

use std::path::Path;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::cli::failure::Failure;
use crate::clock::machine;
use crate::contract::nearest;
use crate::control::api::{Finding, Findings};
use crate::file;
use crate::review::findings::{check, checks};

/// Most bytes of the file.
const MOST_BYTES: u64 = 1024 * 1024;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accepted {
    #[serde(default)]
    accept: Vec<Entry>,
}

/// One accepted finding.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    code: String,
    reason: String,
    /// The last day on which it is accepted.
    expires: toml::value::Datetime,
}

/// An accepted finding with what became of it.
#[derive(Debug, Serialize)]
pub(super) struct Acceptance {
    pub(super) code: String,
    pub(super) reason: String,
    pub(super) expires: String,
    /// What happened, in words.
    pub(super) outcome: String,
    /// Whether the entry itself fails the review.
    pub(super) fails: bool,
    #[serde(skip)]
    is_in_force: bool,
}

impl Acceptance {
    /// Whether a finding is accepted by this entry.
    pub(super) fn covers(&self, finding: &Finding) -> bool {
        self.is_in_force && self.code == finding.code
    }
}

impl Accepted {
    /// Reads the file, and checks it.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let bytes = file::read_input(path, MOST_BYTES)
            .map_err(|problem| Failure::io(format!("--accept: cannot read `{shown}`: {problem}")))?;
        let text = String::from_utf8_lossy(&bytes);
        Self::parse(&text).map_err(|problem| {
            let hint =
                "each entry is [[accept]] with code, reason and expires = YYYY-MM-DD; see review findings --help";
            Failure::invalid_file(format!("--accept: `{shown}`: {problem}")).with_hint(hint)
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let accepted: Self = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        for (at, Entry { code, reason, expires }) in accepted.accept.iter().enumerate() {
            let entry = format!("entry {} (`{}`)", at + 1, code.escape_debug());
            if check(code).is_none() {
                let near = nearest(code, checks().map(|rule| rule.code));
                let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                return Err(format!("{entry}: unknown code{hint}"));
            }
            if reason.trim().is_empty() {
                return Err(format!("{entry}: the reason is empty"));
            }
            if day(expires).is_none() {
                return Err(format!("{entry}: expected a day such as 2027-01-31 for `expires`, found {expires}"));
            }
            if accepted.accept[..at].iter().any(|earlier| earlier.code == *code) {
                return Err(format!("{entry}: the code is there twice"));
            }
        }
        Ok(accepted)
    }

    /// What becomes of each entry.
    pub(super) fn judge(&self, findings: &Findings) -> Vec<Acceptance> {
        let today = machine::wall_time().to_zoned(TimeZone::UTC).date();
        self.accept.iter().map(|entry| entry.judge(findings, today)).collect()
    }
}

/// A date without a time.
fn day(expires: &toml::value::Datetime) -> Option<Date> {
    if expires.time.is_some() || expires.offset.is_some() {
        return None;
    }
    let date = expires.date?;
    Date::new(date.year.try_into().ok()?, date.month.try_into().ok()?, date.day.try_into().ok()?).ok()
}

impl Entry {
    fn judge(&self, findings: &Findings, today: Date) -> Acceptance {
        let has_expired = day(&self.expires).is_none_or(|last| last < today);
        let is_found = findings.data.iter().any(|finding| finding.code == self.code);
        let is_exercised = findings.not_exercised.iter().all(|idle| idle.code != self.code);
        let (outcome, fails) = match (is_found, is_exercised, has_expired) {
            (true, _, true) => (format!("found, and accepted only until {}", self.expires), true),
            (true, _, false) => ("found, and accepted".to_owned(), false),
            (false, true, _) => ("no longer found: remove it from the file".to_owned(), true),
            (false, false, _) => ("not judged, as nothing exercised it".to_owned(), false),
        };
        Acceptance {
            code: self.code.clone(),
            reason: self.reason.clone(),
            expires: self.expires.to_string(),
            outcome,
            fails,
            is_in_force: !has_expired,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_wrong_say_where() {
        let entry = |code: &str, reason: &str, expires: &str| {
            format!("[[accept]]\ncode = \"{code}\"\nreason = \"{reason}\"\nexpires = {expires}\n")
        };
        for (text, expected) in [
            ("accept = 1".to_owned(), "line 1"),
            ("[[accepted]]".to_owned(), "unknown field `accepted`"),
            (entry("unknown-fields", "x", "2027-01-31"), "did you mean `unknown-field`?"),
            (entry("unknown-field", " ", "2027-01-31"), "the reason is empty"),
            (entry("unknown-field", "x", "2027-01-31T10:00:00Z"), "expected a day"),
            (entry("unknown-field", "x", "\"soon\""), "expires"),
            (entry("unknown-field", "x", "2027-01-31").repeat(2), "twice"),
        ] {
            let problem = Accepted::parse(&text).expect_err("it is wrong");
            assert!(problem.contains(expected), "{problem}");
        }
        assert!(Accepted::parse("").is_ok_and(|accepted| accepted.accept.is_empty()));
    }

    #[test]
    fn an_entry_ends_with_its_day_and_with_its_finding() {
        let text = "[[accept]]\ncode = \"unknown-field\"\nreason = \"x\"\nexpires = 2027-01-31\n";
        let accepted = Accepted::parse(text).expect("it is right");
        let finding: Finding = serde_json::from_value(serde_json::json!({
            "code": "unknown-field", "title": "", "severity": "low", "confidence": "certain", "clause": "", "why": "",
            "remedy": "", "cwe": null, "count": 1, "evidence": [],
        }))
        .expect("a finding");
        let idle = crate::control::api::NotExercised {
            code: "unknown-field".to_owned(),
            title: String::new(),
            exercise: String::new(),
        };
        let found = Findings { data: vec![finding.clone()], ..Findings::default() };
        let idle = Findings { not_exercised: vec![idle], ..Findings::default() };
        let [last, next] = [Date::constant(2027, 1, 31), Date::constant(2027, 2, 1)];
        for (findings, today, fails, covers) in [
            (&found, last, false, true),
            (&found, next, true, false),
            (&Findings::default(), last, true, true),
            (&idle, last, false, true),
        ] {
            let outcome = accepted.accept[0].judge(findings, today);
            assert_eq!((outcome.fails, outcome.covers(&finding)), (fails, covers), "{outcome:?}");
        }
    }
}
