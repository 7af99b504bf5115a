//! `GET report.html`: the run document as a page to be saved, and what that says in plain elements: the first sentence, and the causes of the
//! verdict, as the page shows them.

use std::io;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ControlError;
use super::call::{Call, ControlCall, Made, Options, Query, Tag, USUAL};
use super::cause::{Cause, Standing};
use super::conclusion::ending;
use super::context::Context;
use super::exec_facts::ExecFacts;
use super::fields::KeyFilter;
use super::run::{GetRun, RecordedRun};
use super::verdict::Verdict;
use crate::advice::Audience;
use crate::http::answer::{answer, header_value};
use crate::redact::Redactor;
use crate::ui::{self, Plain, PlainCause};
use crate::util::wording::shell_word;

/// The same as one HTML file, which any browser shows without a network.
///
/// The run document in a separate page, to be saved as an artefact of a build.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct GetReport {
    #[serde(default)]
    pub(crate) key: KeyFilter,
    /// At most this many records of each kind, the newest; 0 shows the state alone. Absent, 2,000.
    #[schemars(range(min = 0, max = 100_000))]
    pub(crate) limit: Option<u32>,
}

impl ControlCall for Query<GetReport> {
    type Answer = Made<String>;

    fn call() -> Call {
        Call::waits::<Self, _>(Tag::RESULTS, "GET report.html", |Self { query }, cx| report(query, cx))
            .with(Options { media: Some(&["text/html"]), ..USUAL })
    }
}

/// The name that a browser saves it by.
const FILE: &str = "report.html";

/// The document within a page, to be saved: it need not be opened on the emulator's address.
async fn report(GetReport { key, limit }: GetReport, cx: Arc<Context>) -> Result<Made<String>, ControlError> {
    let page = GetRun { key, limit }.sent(&cx, write).await?;
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = answer(StatusCode::OK, html, page);
    let disposition = header_value(&format!("attachment; filename=\"{FILE}\""));
    response.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response.into())
}

fn write(run: RecordedRun, redactor: Redactor<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    // Masked, like the document.
    let verdict = serde_json::from_value(redactor.shown(&run.verification)).expect("its texts stay texts");
    ui::report(out, &plain(&verdict, None, FILE), |out| run.write(redactor, out))
}

/// The report of a verdict, after the command of `exec`, in a file of this name.
pub(crate) fn plain(verdict: &Verdict, exec: Option<&ExecFacts>, file: &str) -> Plain {
    let tests = verdict.test_of_key();
    let causes: Vec<&Cause> = verdict.causes.iter().filter(|cause| cause.standing != Standing::Elsewhere).collect();
    let reader = Audience::File(file.to_owned());
    let file = shell_word(file);
    let first = causes.iter().find_map(|cause| cause.records.first());
    let commands = [
        Some(format!("wrs-emulator verdict --from {file}")),
        first.map(|id| format!("wrs-emulator explain {} --from {file}", shell_word(id))),
        Some(format!("wrs-emulator run view {file}")),
    ];
    let shown =
        |cause: &&Cause| PlainCause { sentence: cause.sentence.clone(), lines: cause.details(&reader, None, &tests) };
    Plain {
        sentence: verdict.headline.sentence.clone(),
        command: exec.map(|exec| format!("{}: {}", command_line(exec), ending(exec))),
        causes: causes.iter().map(shown).collect(),
        commands: commands.into_iter().flatten().collect(),
    }
}

fn command_line(exec: &ExecFacts) -> String {
    exec.command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}
