//! A run document as the command line reads it, made by an emulator or saved in a file. It is read into its own type: as a value of any
//! form, a text would need many times its size.

use std::path::Path;

use serde::Deserialize;

use super::client::{ControlClient, MAX_RUN, parsed};
use super::failure::{Failure, FailureCode};
use super::profile::mask_by_rows;
use crate::control::api::{ControlCall as _, ExecFacts, GetRun, Query, RUN_FORMAT, RUN_VERSION, RecordedRun};
use crate::redact::Redactor;
use crate::ui::{DATA_END, DATA_START};
use crate::util::expansion::{MOST, check_expansion};
use crate::util::file::{self, FileProblem};

/// Maximum bytes of a file that is read: more than is written, and than the emulator accepts.
pub(super) const MAX: u64 = 64 * 1024 * 1024;

impl RecordedRun {
    /// About a key, or with `*` all.
    pub(super) fn ask(call: ControlClient<'_>, key: &str) -> Result<Self, Failure> {
        let sent = Query { query: GetRun { key: key.into(), limit: None } }.sent();
        let run: Self = parsed(sent.path, &call.max_answer(MAX_RUN).exchange(&sent)?)?;
        run.mask_by_settings();
        Ok(run)
    }

    /// Reads a document, whether it was saved as JSON or within a report. Refuses one of another version of the format.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let refused = refusal(path);
        let bytes = file::read_input(path, MAX).map_err(|problem| match problem {
            FileProblem::TooLarge(_) => refused(
                &problem.to_string(),
                "files of `wrs-emulator run save` and `exec --report` are smaller; is it another file?",
            ),
            problem => Failure { code: FailureCode::Io, hint: None, ..refused(&problem.to_string(), "") },
        })?;
        Self::parse(path, bytes)
    }

    pub(super) fn parse(path: &Path, bytes: Vec<u8>) -> Result<Self, Failure> {
        let refused = refusal(path);
        let text = String::from_utf8(bytes).map_err(|_| refused("it is not text", SAVE))?;
        let json = document_in(&text).map_err(|cause| refused(cause, SAVE))?;
        check_expansion(json.as_bytes(), MOST).map_err(|cause| refused(&cause, SAVE))?;
        let start: RunStart = match serde_json::from_slice(json.as_bytes()) {
            Ok(start) => start,
            Err(error) if error.is_eof() => return Err(refused("it is cut off", "save or copy it again")),
            Err(error) if error.is_data() => RunStart::default(),
            Err(error) => return Err(refused(&format!("it is not JSON: {error}"), SAVE)),
        };
        if start.format.as_deref() != Some(RUN_FORMAT) {
            return Err(refused("it is not a run of wrs-emulator", SAVE));
        }
        let writer = start.emulator.map_or_else(
            || "use the wrs-emulator that saved it".to_owned(),
            |emulator| format!("use wrs-emulator {}, which saved it", emulator.version),
        );
        if start.version != Some(RUN_VERSION) {
            let version = start.version.unwrap_or_default();
            let own = env!("CARGO_PKG_VERSION");
            let cause =
                format!("it has version {version} of the format, and wrs-emulator {own} reads version {RUN_VERSION}");
            return Err(refused(&cause, &writer));
        }
        let changed = |error| refused(&format!("it is not as it was saved: {error}"), &format!("{writer}; or {SAVE}"));
        let run: Self = serde_json::from_slice(json.as_bytes()).map_err(changed)?;
        run.mask_by_settings();
        // The emulator masked it, but anyone may have edited it since.
        serde_json::from_slice(run.json().as_bytes()).map_err(changed)
    }

    /// From now on, masks by the settings that the run itself shows.
    fn mask_by_settings(&self) {
        mask_by_rows(self.assumptions.data.iter().map(|row| (&*row.setting, &row.value)));
    }

    /// The document of a command that has ended.
    pub(super) fn after(mut self, exec: ExecFacts) -> Self {
        self.verification.conclude(Some(&exec));
        self.exec = Some(exec);
        self
    }

    pub(super) fn json(self) -> String {
        let mut json = Vec::new();
        self.write(Redactor::default(), &mut json).expect("writing to memory cannot fail");
        String::from_utf8(json).expect("JSON is text")
    }
}

fn refusal(path: &Path) -> impl Fn(&str, &str) -> Failure {
    move |cause, hint| Failure::invalid_file(format!("cannot use `{}`: {cause}", path.display())).with_hint(hint)
}

/// The fields of every version of a document.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RunStart {
    format: Option<String>,
    version: Option<u64>,
    emulator: Option<SavedBy>,
}

#[derive(Deserialize)]
struct SavedBy {
    version: String,
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
