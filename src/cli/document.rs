//! A run document as the command line reads it: its text, made by an emulator or saved in a file, and the records in it.

use std::path::Path;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::client::{Call, MAX_RUN, parsed};
use super::expansion::check_expansion;
use super::failure::{Code, Failure};
use super::output::{as_value, compact};
use super::profile::mask_by_rows;
use crate::control::api::{
    ControlCall as _, DeliveryWhole, EmulatorFacts, ExecFacts, Findings, GetRun, Omitted, Query, RUN_FORMAT,
    RUN_VERSION, RequestWhole, Verification, WorkspaceId,
};
use crate::redact::Redactor;
use crate::scenario::RuleTrace;
use crate::ui::{DATA_END, DATA_START};
use crate::util::file::{self, FileProblem};

/// Most bytes of a file that is read: more than is written, and than the emulator accepts.
pub(super) const MAX: u64 = 64 * 1024 * 1024;

/// A run document as the emulator made it, and the records that are read of it here.
pub(super) struct RunDocument {
    pub(super) json: String,
    pub(super) records: RunRecords,
}

#[derive(Deserialize)]
pub(super) struct RunRecords {
    pub(super) emulator: EmulatorFacts,
    pub(super) keys: Vec<RunKey>,
    pub(super) requests: Vec<ExplainedRequest>,
    pub(super) deliveries: Vec<DeliveryWhole>,
    pub(super) omitted: Omitted,
    pub(super) verification: Verification,
    #[serde(default)]
    pub(super) findings: Option<Findings>,
    #[serde(default)]
    pub(super) exec: Option<ExecFacts>,
    /// What only the page reads, which must be there.
    #[serde(rename = "clock")]
    _clock: IgnoredAny,
    #[serde(rename = "profile")]
    _profile: IgnoredAny,
    #[serde(rename = "events")]
    _events: IgnoredAny,
    #[serde(rename = "notices")]
    _notices: IgnoredAny,
    #[serde(rename = "subscriptions")]
    _subscriptions: IgnoredAny,
    #[serde(rename = "scenarios")]
    _scenarios: IgnoredAny,
}

#[derive(Deserialize)]
pub(super) struct RunKey {
    pub(super) key: String,
    pub(super) workspace: WorkspaceId,
}

#[derive(Deserialize)]
pub(super) struct ExplainedRequest {
    #[serde(flatten)]
    pub(super) request: RequestWhole,
    pub(super) explanation: Why,
}

#[derive(Deserialize)]
pub(super) struct Why {
    pub(super) summary: String,
    pub(super) rules: Option<Vec<RuleTrace>>,
}

impl RunDocument {
    /// About a key, or with `*` all.
    pub(super) fn ask(call: Call<'_>, key: &str) -> Result<Self, Failure> {
        let sent = Query { query: GetRun { key: key.into(), limit: None } }.sent();
        let answer = call.max_answer(MAX_RUN).exchange(&sent)?;
        let records = parsed(sent.path, &answer)?;
        Ok(Self { json: String::from_utf8_lossy(&answer).into_owned(), records })
    }

    /// Reads a document, whether it was saved as JSON or within a report. Refuses one of another version of the format.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let refused = refusal(path);
        let bytes = file::read_input(path, MAX).map_err(|problem| match problem {
            FileProblem::TooLarge(_) => refused(
                &problem.to_string(),
                "files of `wrs-emulator run save` and `exec --report` are smaller; is it another file?",
            ),
            problem => Failure { code: Code::Io, hint: None, ..refused(&problem.to_string(), "") },
        })?;
        Self::parse(path, bytes)
    }

    pub(super) fn parse(path: &Path, bytes: Vec<u8>) -> Result<Self, Failure> {
        let refused = refusal(path);
        let text = String::from_utf8(bytes).map_err(|_| refused("it is not text", SAVE))?;
        let json = document_in(&text).map_err(|cause| refused(cause, SAVE))?;
        check_expansion(json.as_bytes()).map_err(|cause| refused(&cause, SAVE))?;
        let mut value: Value = match serde_json::from_str(json) {
            Ok(value) => value,
            Err(error) if error.is_eof() => return Err(refused("it is cut off", "save or copy it again")),
            Err(error) => return Err(refused(&format!("it is not JSON: {error}"), SAVE)),
        };
        if value["format"] != RUN_FORMAT {
            return Err(refused("it is not a run of wrs-emulator", SAVE));
        }
        let writer = value["emulator"]["version"].as_str().map_or_else(
            || "use the wrs-emulator that saved it".to_owned(),
            |version| format!("use wrs-emulator {version}, which saved it"),
        );
        if value["version"] != RUN_VERSION {
            let version = value["version"].as_u64().unwrap_or_default();
            let own = env!("CARGO_PKG_VERSION");
            let cause =
                format!("it has version {version} of the format, and wrs-emulator {own} reads version {RUN_VERSION}");
            return Err(refused(&cause, &writer));
        }
        let changed = |error| refused(&format!("it is not as it was saved: {error}"), &format!("{writer}; or {SAVE}"));
        // The emulator masked it, but anyone may have edited it since. What masks is what the run itself shows of its settings.
        let settings = RunSettings::deserialize(&value).map_err(changed)?;
        mask_by_rows(settings.assumptions.data.iter().map(|row| (row.setting.as_str(), &row.value)));
        Redactor::default().value(&mut value);
        let json = compact(&value) + "\n";
        Ok(Self { json, records: serde_json::from_value(value).map_err(changed)? })
    }

    /// The document of a command that has ended.
    pub(super) fn after(mut self, exec: ExecFacts) -> Self {
        let mut verification = std::mem::take(&mut self.records.verification);
        verification.conclude(Some(&exec));
        let mut run = self.with("exec", &exec).with("verification", &verification);
        (run.records.exec, run.records.verification) = (Some(exec), verification);
        run
    }

    /// The document with a field that the emulator does not know.
    pub(super) fn with(self, name: &str, field: &impl Serialize) -> Self {
        let mut fields: Map<String, Value> = serde_json::from_str(&self.json).expect("its records were read");
        fields.insert(name.to_owned(), as_value(field));
        Self { json: compact(&fields) + "\n", ..self }
    }
}

fn refusal(path: &Path) -> impl Fn(&str, &str) -> Failure {
    move |cause, hint| Failure::invalid_file(format!("cannot use `{}`: {cause}", path.display())).with_hint(hint)
}

/// The settings that a document shows.
#[derive(Deserialize)]
struct RunSettings {
    assumptions: RunRows,
}

#[derive(Deserialize)]
struct RunRows {
    data: Vec<RunRow>,
}

#[derive(Deserialize)]
struct RunRow {
    setting: String,
    value: Value,
}

/// How to get a file that can be shown.
const SAVE: &str = "save one with `wrs-emulator run save FILE`, or with `wrs-emulator exec --report FILE -- CMD`";

/// The JSON of a file: all of it, or what a report contains.
fn document_in(text: &str) -> Result<&str, &'static str> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err("it is empty");
    }
    if !text.starts_with('<') {
        return Ok(text);
    }
    let (_, rest) = text.split_once(DATA_START).ok_or("it is a page, but no report of wrs-emulator")?;
    let (json, _) = rest.split_once(DATA_END).ok_or("it is cut off")?;
    Ok(json)
}
