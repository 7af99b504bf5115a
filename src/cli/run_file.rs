//! Files with a run document, as JSON or within a report: checked before anything else happens, written whole, and read again.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::failure::{Code, Failure};
use super::har::archive;
use crate::control::api::{RUN_FORMAT, RUN_VERSION, Run, RunStart};
use crate::ui::{DATA_END, DATA_START, report};
use crate::util::file::{self, FileProblem};

/// Most bytes of a file that is read: more than is written.
const LARGEST: u64 = 64 * 1024 * 1024;

/// A file that a run document will be written to.
#[derive(Debug)]
pub(super) struct RunFile {
    path: PathBuf,
    /// The flag that names it, for messages; empty for an argument.
    flag: &'static str,
}

impl RunFile {
    /// Refuses a path that cannot be written. `flag` names it in messages, unless it is empty.
    pub(super) fn at(flag: &'static str, path: &Path) -> Result<Self, Failure> {
        let found = Self { path: path.to_owned(), flag };
        file::check_whole(path).map_err(|problem| found.unwritable(&problem))?;
        Ok(found)
    }

    /// Removes an older file, which would be taken for the new one if that is never written.
    pub(super) fn cleared(self) -> Result<Self, Failure> {
        file::remove(&self.path).map_err(|problem| self.unwritable(&problem))?;
        Ok(self)
    }

    /// Writes the document: as a report if the name ends in `.html` or `.htm`, as an archive if in `.har`, else as JSON.
    pub(super) fn write(&self, run: &Run) -> Result<(), Failure> {
        let end = self.path.extension().map(std::ffi::OsStr::to_ascii_lowercase);
        let text = match end.as_deref().and_then(std::ffi::OsStr::to_str) {
            Some("html" | "htm") => report(&as_json(run)),
            Some("har") => archive(run, |_| true, |_, _| true).json,
            _ => as_json(run),
        };
        self.write_text(text)
    }

    /// Writes a text.
    pub(super) fn write_text(&self, text: String) -> Result<(), Failure> {
        file::write_shared(&self.path, text).map_err(|error| self.unwritable(&error.into()))
    }

    fn unwritable(&self, problem: &FileProblem) -> Failure {
        let flag = if self.flag.is_empty() { String::new() } else { format!("{}: ", self.flag) };
        let failure = Failure::io(format!("{flag}cannot write `{}`: {problem}", self.path.display()));
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        match folder {
            Some(folder) if problem.is_missing() => {
                failure.with_hint(format!("create the folder first: mkdir -p {0}", folder.display()))
            }
            _ => failure,
        }
    }
}

/// The document as JSON, ending with a line end.
pub(super) fn as_json(run: &Run) -> String {
    let mut text = serde_json::to_string(run).expect("texts and numbers always serialise");
    text.push('\n');
    text
}

/// Reads a document, whether it was saved as JSON or within a report.
pub(super) fn read(path: &Path) -> Result<Run, Failure> {
    let refused = |cause: &str| Failure::invalid_file(format!("cannot use `{}`: {cause}", path.display()));
    let bytes = file::read_input(path, LARGEST).map_err(|problem| match problem {
        FileProblem::TooLarge(_) => refused(&problem.to_string())
            .with_hint("files of `wrs-emulator run save` and `exec --report` are smaller; is it another file?"),
        problem => Failure { code: Code::Io, ..refused(&problem.to_string()) },
    })?;
    let text = String::from_utf8(bytes).map_err(|_| refused("it is not text").with_hint(SAVE))?;
    let json = document_in(&text).map_err(|cause| refused(cause).with_hint(SAVE))?;
    let writer = check_format(json).map_err(|(cause, hint)| refused(&cause).with_hint(hint))?;
    serde_json::from_slice(json.as_bytes()).map_err(|error| {
        let hint =
            writer.map_or(SAVE.to_owned(), |version| format!("use wrs-emulator {version}, which saved it; or {SAVE}"));
        refused(&format!("it is not as it was saved: {error}")).with_hint(hint)
    })
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

/// The version of the emulator that saved a document. Refuses JSON that is not a run document, or has another version of the format:
/// what is wrong, and what to do.
fn check_format(json: &str) -> Result<Option<String>, (String, Cow<'static, str>)> {
    let start: RunStart = match serde_json::from_slice(json.as_bytes()) {
        Ok(start) => start,
        Err(error) if error.is_eof() => {
            return Err(("it is cut off".to_owned(), "save or copy it again".into()));
        }
        Err(error) if error.is_data() => RunStart::default(),
        Err(error) => return Err((format!("it is not JSON: {error}"), SAVE.into())),
    };
    match (start.format.as_deref(), start.version) {
        (Some(RUN_FORMAT), Some(RUN_VERSION)) => Ok(start.emulator.map(|emulator| emulator.version)),
        (Some(RUN_FORMAT), version) => {
            let version = version.map_or_else(|| "no version".to_owned(), |version| format!("version {version}"));
            let own = env!("CARGO_PKG_VERSION");
            let cause = format!("it has {version} of the format, and wrs-emulator {own} reads version {RUN_VERSION}");
            let writer =
                start.emulator.map(|emulator| format!("use wrs-emulator {}, which saved it", emulator.version));
            Err((cause, writer.map_or("use the wrs-emulator that saved it".into(), Cow::from)))
        }
        (Some(crate::state::workspace::SNAPSHOT_FORMAT), _) => {
            Err(("it is a snapshot of the state".to_owned(), "load it with `wrs-emulator snapshot load FILE`".into()))
        }
        _ => Err(("it is not a run of wrs-emulator".to_owned(), SAVE.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_run_is_refused_with_what_to_do() {
        for (text, cause, hint) in [
            (" \n", "it is empty", "run save FILE"),
            ("<!doctype html><p>x", "it is a page, but no report", "run save FILE"),
            (
                "<!doctype html><script type=\"application/json\" id=\"run\">{\"format\"",
                "it is cut off",
                "run save FILE",
            ),
            ("{\"format\":\"wrs-emulator-run\",\"version\":1", "it is cut off", "again"),
            ("{\"format\":", "it is cut off", "again"),
            ("nonsense", "it is not JSON", "run save FILE"),
            ("[]", "it is not a run", "run save FILE"),
            ("{\"a\":1}", "it is not a run", "run save FILE"),
            ("{\"format\":\"wrs-emulator snapshot\",\"version\":1}", "it is a snapshot", "snapshot load"),
            (
                "{\"format\":\"wrs-emulator-run\",\"version\":2,\"emulator\":{\"version\":\"9.9\"}}",
                "version 2",
                "wrs-emulator 9.9",
            ),
            ("{\"format\":\"wrs-emulator-run\"}", "no version", "that saved it"),
        ] {
            let found = document_in(text).map_err(|cause| (cause.to_owned(), Cow::from(SAVE))).and_then(check_format);
            let (found, what_to_do) = found.expect_err(text);
            assert!(found.contains(cause) && what_to_do.contains(hint), "{text}: {found}; {what_to_do}");
        }
        assert!(check_format("{\"format\":\"wrs-emulator-run\",\"version\":1,\"later\":true}").is_ok());
    }
}
