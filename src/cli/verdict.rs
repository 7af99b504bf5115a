//! The verdict: the problems found, by kind, and which kinds fail a run; as text, JSON or `JUnit` XML. `exec` prints the same
//! after its command has ended.
//!
//! The control API finds the problems; `--fail-on` decides which kinds fail a run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::arguments::{LAST, Target, examples};
use super::ci::{Ci, print_to_stderr};
use super::client::{ControlClient, SHORT};
use super::failure::{Failure, colored};
use super::findings::Review;
use super::judging::{Judging, ProblemKind};
use super::output::{cell, pretty, print_as_is};
use super::report::{ReportCase, RunReport, ShownCause};
use super::run::is_stream;
use crate::advice::{Advice, Audience};
use crate::control::api::{
    Cause, CauseKind, Coverage, DeliveryId, DurationInput, ExecFacts, FailedFinding, Finding, GetFindings, GetVerdict,
    GridRow, JudgedKey, Query, RecordedRun, SharedGap, Unused, Verdict, grid_rows,
};
use crate::control::check_wait;
use crate::findings::Severity;
use crate::util::duration::parse_duration;
use crate::util::wording::counted;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum VerdictFormat {
    /// Lines for people.
    Text,
    /// One JSON object.
    Json,
    /// XML as test runners write it: a test case for each kind without a problem, each failed test, and each other cause.
    Junit,
}

impl VerdictFormat {
    /// The format that the ending of a file's name means.
    pub(super) fn from_file(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "xml" => Some(Self::Junit),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = examples([
    "verdict",
    "verdict --fail-on unmatched,undelivered --wait 10s",
    "verdict --fail-on unfinished --format junit > verdict.xml",
    "verdict --grid  # which answers of the contract no request got",
    "verdict --from run.json --fail-on unmatched  # of a saved run",
]) + "\n\nExit status: 0 nothing named by --fail-on was found, 1 something was, 2 wrong usage, 3 the emulator cannot be reached.")]
pub(super) struct VerdictArgs {
    #[command(flatten)]
    target: Target,
    /// Whose: a key, or a workspace `ws_…`; by default all keys and requests without one.
    // Not from WRS_API_KEY: that is the key of the client under test, and a verdict that ignored other requests would pass by
    // mistake.
    #[arg(long, default_value = "*", conflicts_with = "from")]
    key: String,
    /// Judge a file made by `run save` or `exec --report` instead of a running emulator; `-` is stdin.
    #[arg(long, value_name = "RUN")]
    from: Option<PathBuf>,
    /// Exit with 1 if one of these was found; separated by commas. Without it everything but findings is reported and the exit status
    /// is 0.
    #[arg(long, env, value_enum, value_delimiter = ',', value_name = "KINDS")]
    fail_on: Vec<ProblemKind>,
    /// Findings that have been accepted, as for `review findings`; with --fail-on findings.
    #[arg(long, value_name = "FILE")]
    accept: Option<PathBuf>,
    /// With --fail-on, exit with 0 even if nothing was judged: no request and no delivery.
    #[arg(long)]
    allow_unused: bool,
    /// In text, also list which answers of the contract requests got, and how to get the others. JSON always has this list.
    #[arg(long)]
    grid: bool,
    /// The format of the verdict.
    #[arg(long, value_enum, default_value = "text")]
    format: VerdictFormat,
    /// Print JSON; the same as --format json.
    #[arg(long, conflicts_with = "format", display_order = LAST)]
    json: bool,
    /// First wait for planned events, deliveries and retries that are due within this time.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = parse_wait, conflicts_with = "from")]
    wait: Duration,
}

pub(super) fn run(args: &VerdictArgs) -> Result<ExitCode, Failure> {
    let judging = Judging::new(&args.fail_on, args.accept.as_deref(), args.allow_unused)?;
    let verdict = match &args.from {
        Some(file) => RunVerdict::saved(file, &judging)?,
        None => RunVerdict::ask(&args.target, &args.key, args.wait, &judging, args.target.reader())?,
    };
    let format = if args.json { VerdictFormat::Json } else { args.format };
    let text = render(&verdict, format, colored(&std::io::stdout()));
    let text = if args.grid && format == VerdictFormat::Text { text + &grid(&verdict.body.grid) } else { text };
    match Ci::from_environment() {
        // The marks go to stderr, because stdout may be piped to a program.
        Some(Ci::GitLab) if format == VerdictFormat::Text => {
            let (start, end) = Ci::section(verdict.is_red());
            print_to_stderr(&start);
            print_as_is(&text);
            print_to_stderr(&end);
        }
        ci => {
            print_as_is(&text);
            if let Some(ci) = ci {
                ci.publish(&verdict.report(), verdict.is_red(), None);
            }
        }
    }
    Ok(if verdict.fails() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Parses a duration that the control API can wait.
pub(super) fn parse_wait(text: &str) -> Result<Duration, String> {
    check_wait(parse_duration(text)?).map_err(|most| format!("expected {most}, found {text}"))
}

/// The verdict in a format, ending with a line end.
pub(super) fn render(verdict: &RunVerdict, format: VerdictFormat, colors: bool) -> String {
    match format {
        VerdictFormat::Text => verdict.report().text(colors),
        VerdictFormat::Json => pretty(&verdict.to_json()) + "\n",
        VerdictFormat::Junit => verdict.report().junit(),
    }
}

/// Which answers of the contract requests got, and how to get the others.
fn grid(rows: &[GridRow]) -> String {
    if rows.is_empty() {
        return "the file has no grid: an earlier version of wrs-emulator saved it\n".to_owned();
    }
    // From the rows, because a file of an earlier version has no more.
    let Coverage { summary, gaps } = Coverage::of(rows);
    let line = |SharedGap { status, operations, gap }: &SharedGap| {
        let line = cell(format!("{status} of {}: {}", operations.join(", "), gap.advice));
        format!("    {line}\n")
    };
    // An edited file may have any name.
    let width = rows.iter().map(|row| row.operation.len()).max().unwrap_or_default().min(60);
    let rows =
        grid_rows(rows).into_iter().map(|[operation, cells]| format!("    {:width$}  {cells}\n", cell(&operation)));
    let to_get = if gaps.is_empty() { "" } else { "to get the others:\n" };
    let gaps: String = gaps.iter().map(line).collect();
    format!("{summary}\n{}{to_get}{gaps}", rows.collect::<String>())
}

/// Maximum number of tests without a request that are named.
const MAX_SILENT: usize = 20;

/// The reader of a verdict of `exec`, whose emulator ends: only its report can still be asked, unless that is an HTTP archive.
pub(super) fn reader_of_report(report: Option<&Path>) -> Audience {
    let is_archive = |path: &&Path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("har"));
    report.filter(|path| !is_archive(path)).map_or(Audience::Nobody, reader_of_file)
}

/// Who reads a saved run; for stdin the name is unknown.
pub(super) fn reader_of_file(file: &Path) -> Audience {
    Audience::File(if is_stream(file) { "FILE".to_owned() } else { file.to_string_lossy().into_owned() })
}

pub(super) struct RunVerdict {
    body: Verdict,
    /// If the kind `findings` is named.
    review: Option<Review>,
    /// The reader of its advice.
    reader: Audience,
    /// Whose it is, if it is of one key.
    key: Option<String>,
    fail_on: Vec<ProblemKind>,
    allows_unused: bool,
    /// How the command of `exec` ended.
    exit_status: Option<u8>,
}

#[derive(Serialize)]
struct JudgedVerdict<'a> {
    #[serde(flatten)]
    body: &'a Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    review: &'a Option<Review>,
    falls_short: Vec<ProblemKind>,
    fail_on: &'a [ProblemKind],
    failed: bool,
}

impl RunVerdict {
    pub(super) fn ask(
        target: &Target,
        key: &str,
        wait: Duration,
        judging: &Judging,
        reader: Audience,
    ) -> Result<Self, Failure> {
        let asked = DurationInput(format!("{}ms", wait.as_millis()));
        let request = Query { query: GetVerdict { key: key.into(), wait: Some(asked) } };
        let body = ControlClient::new(target).limit(wait + SHORT).send(&request)?;
        let review = if judging.fail_on.contains(&ProblemKind::Findings) {
            Some(judging.review(ControlClient::new(target).send(&Query { query: GetFindings { key: key.into() } })?))
        } else {
            None
        };
        let key = Some(key.to_owned()).filter(|key| key != "*");
        Ok(Self { key, ..Self::of(body, review, judging, reader) })
    }

    /// Of a saved run.
    fn saved(file: &Path, judging: &Judging) -> Result<Self, Failure> {
        let RecordedRun { verification, findings, exec, .. } = RecordedRun::read(file)?;
        let review = if judging.fail_on.contains(&ProblemKind::Findings) {
            let unjudged = |why: &str| {
                let cause = format!("cannot judge the findings of `{}`: {why}", file.display());
                Failure::invalid_file(cause).with_hint("save it with `wrs-emulator run save` or `exec --report`")
            };
            let findings = findings.ok_or_else(|| unjudged("it has none"))?;
            Some(judging.review(findings))
        } else {
            None
        };
        Ok(Self::of(verification, review, judging, reader_of_file(file)).after(exec.map(|exec| exec.exit_status)))
    }

    /// After the command of `exec` has ended with this status.
    pub(super) fn after(self, exit_status: Option<u8>) -> Self {
        Self { exit_status, ..self }
    }

    fn of(body: Verdict, review: Option<Review>, judging: &Judging, reader: Audience) -> Self {
        let Judging { fail_on, allows_unused, .. } = judging;
        Self {
            body,
            review,
            reader,
            key: None,
            fail_on: fail_on.clone(),
            allows_unused: *allows_unused,
            exit_status: None,
        }
    }

    /// True if nothing was judged, neither a request nor a delivery, which is rarely on purpose.
    pub(super) fn is_idle(&self) -> bool {
        let Verdict { judged_requests, judged_deliveries, forgotten_entries, forgotten_deliveries, .. } = self.body;
        judged_requests == 0 && judged_deliveries == 0 && forgotten_entries == 0 && forgotten_deliveries == 0
    }

    /// Why it is idle.
    pub(super) fn idle_message(&self) -> Option<&str> {
        let unused = self.body.unused.iter().find(|entry| entry.kind == ProblemKind::Unmatched.name());
        unused.filter(|_| self.is_idle()).map(|entry| entry.message.as_str())
    }

    /// The forgeries that were accepted, and what shows why.
    fn forged_text(&self, count: usize) -> String {
        let look = |id: &DeliveryId| format!("; {}", self.reader.look(&Advice::explain(cell(id))));
        let first = self.body.forged.first().map(|problem| look(&problem.row.id));
        ProblemKind::Forged.sentence(count) + &first.unwrap_or_default()
    }

    /// Why a kind without problems proves nothing, if it had nothing to judge.
    fn idle_of(&self, kind: ProblemKind) -> Option<String> {
        if kind == ProblemKind::Findings {
            return self.is_idle().then(|| "there was nothing to review".to_owned());
        }
        let unused = self.body.unused.iter().find(|entry| entry.kind == kind.name());
        unused.map(|entry| cell(&entry.message))
    }

    /// How many problems of a kind there are.
    fn count(&self, kind: ProblemKind) -> usize {
        let counts = &self.body.counts;
        match kind {
            ProblemKind::Unmatched => counts.unmatched,
            ProblemKind::Undelivered => counts.undelivered,
            ProblemKind::Forged => counts.forged,
            ProblemKind::Unfinished => counts.unfinished,
            ProblemKind::Findings | ProblemKind::LikelyFindings => {
                self.review.as_ref().map_or(0, |review| review.failing().count() + review.stale_lines().len())
            }
            ProblemKind::Unused => self.unused().count(),
        }
    }

    /// The checks with nothing to judge: the check of requests if nothing happened at all, or `unused` is named; any other only if it is named.
    fn unused(&self) -> impl Iterator<Item = &Unused> {
        let is_asked = self.is_idle() || self.fail_on.contains(&ProblemKind::Unused);
        let concerns = move |name: &str| {
            (is_asked && name == ProblemKind::Unmatched.name()) || self.fail_on.iter().any(|named| name == named.name())
        };
        self.body.unused.iter().filter(move |entry| concerns(&entry.kind))
    }

    /// True if the first case says already that no request arrived.
    fn is_told_first(&self, unused: &Unused) -> bool {
        let mut causes = self.body.causes.iter().filter(|cause| self.is_in_first_case(cause));
        unused.kind == ProblemKind::Unmatched.name()
            && causes.any(|cause| matches!(cause.kind, CauseKind::Silent | CauseKind::ControlCall))
    }

    /// The causes of a kind's problems, and how many of them failed tests have.
    fn causes(&self, kind: ProblemKind) -> (Vec<&Cause>, usize) {
        let case_of =
            self.body.causes.iter().filter(|cause| Some(cause.kind) == kind.cause() && !self.is_in_first_case(cause));
        if kind != ProblemKind::Findings {
            let causes: Vec<&Cause> = case_of.collect();
            let listed: usize = causes.iter().map(|cause| cause.count.max(1)).sum();
            return (causes, self.count(kind).saturating_sub(listed));
        }
        let (mut causes, mut others): (Vec<&Cause>, usize) = (Vec::new(), 0);
        for finding in self.review.iter().flat_map(Review::failing) {
            let is_of = |cause: &&Cause| {
                cause.findings.contains(&finding.code)
                    && (cause.kind != CauseKind::Finding || cause.confidence == Some(finding.confidence))
            };
            let before = causes.len();
            for cause in self.body.causes.iter().filter(is_of).filter(|cause| !self.is_above(cause)) {
                if causes.iter().all(|listed| !std::ptr::eq(*listed, cause)) {
                    causes.push(cause);
                }
            }
            others += usize::from(causes.len() == before);
        }
        (causes, others)
    }

    /// True if a case before that of the findings has this cause.
    fn is_above(&self, cause: &Cause) -> bool {
        let is_judged = ProblemKind::all()
            .any(|kind| kind != ProblemKind::Findings && self.judges(kind) && kind.cause() == Some(cause.kind));
        is_judged || self.is_in_first_case(cause)
    }

    /// True if the first case, of the tests or the command that failed, has this cause.
    fn is_in_first_case(&self, cause: &Cause) -> bool {
        !cause.tests.is_empty() || self.explains_command(cause)
    }

    /// Where a cause is explained.
    fn look(&self, cause: &Cause) -> Option<String> {
        let of_test = || Some(Advice::ListRequests { key: cause.tests.first()?.key.clone() });
        let look = cause.records.first().map(|id| Advice::explain(cell(id))).or_else(of_test)?;
        Some(self.reader.look(&look))
    }

    fn shown_cause(&self, cause: &Cause) -> ShownCause {
        let names = match cause.tests.as_slice() {
            [] => vec![cause.name.clone()],
            tests => tests.iter().map(|test| test.test.clone()).collect(),
        };
        let more = self.look(cause);
        ShownCause {
            names,
            is_of_tests: !cause.tests.is_empty(),
            sentence: cell(&cause.sentence),
            details: cause.details(&self.reader, more.as_deref(), &self.body.test_of_key()),
        }
    }

    /// True if a kind is reported: it is named by --fail-on, or none is and it is not `findings`, or nothing was judged.
    fn judges(&self, kind: ProblemKind) -> bool {
        self.fail_on.contains(&kind)
            || (self.fail_on.is_empty() && kind != ProblemKind::Findings)
            || (kind == ProblemKind::Unused && self.is_idle() && !self.allows_unused)
    }

    fn has(&self, kind: ProblemKind) -> bool {
        self.count(kind) > 0
    }

    /// The kinds that fail the run: those of --fail-on that were found, and `unused` if nothing was judged.
    fn failed_by(&self) -> impl Iterator<Item = ProblemKind> {
        let is_empty = self.fail_on.is_empty();
        ProblemKind::all().filter(move |kind| !is_empty && self.judges(*kind) && self.has(*kind))
    }

    /// Adds what failed the run to the facts about its command.
    pub(super) fn add_to(&self, facts: &mut ExecFacts) {
        facts.failed_by = self.failed_by().map(ProblemKind::name).collect();
        facts.failed_because = self.failed_by().map(|kind| self.sentence(kind)).collect();
        let failed = |it: &Finding| FailedFinding { code: it.code.clone(), confidence: it.confidence };
        facts.failed_findings = self.review.iter().flat_map(Review::failing).map(failed).collect();
    }

    /// Why the command or its tests failed, without the kinds of problems; `None` if nothing that happened may be why.
    pub(super) fn why(&self, colors: bool) -> Option<String> {
        let case = self.failed_tests().or_else(|| self.failed_command())?;
        Some(RunReport { cases: vec![case], all_causes: self.all_causes(), ..RunReport::empty("verdict") }.text(colors))
    }

    /// How many problems of all reported kinds there are.
    pub(super) fn problem_count(&self) -> usize {
        ProblemKind::all().filter(|kind| self.judges(*kind)).map(|kind| self.count(kind)).sum()
    }

    /// The first test that failed, as its runner reported it.
    pub(super) fn failed_test(&self) -> Option<&str> {
        self.test_causes().next()?.tests.first().map(|test| &*test.test)
    }

    /// How many problems of a kind there are, in words.
    fn sentence(&self, kind: ProblemKind) -> String {
        kind.sentence(self.count(kind))
    }

    pub(super) fn fails(&self) -> bool {
        self.failed_by().next().is_some()
    }

    /// Why the tests that failed did.
    fn test_causes(&self) -> impl Iterator<Item = &Cause> {
        self.body.causes.iter().filter(|cause| !cause.tests.is_empty())
    }

    /// True if the run failed: by --fail-on, its command or a test.
    pub(super) fn is_red(&self) -> bool {
        self.fails() || self.exit_status.is_some_and(|status| status != 0) || self.body.failed_tests > 0
    }

    /// Notes about why a list without problems may prove little.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let forgotten = self.body.forgotten_entries;
        if forgotten > 0 && self.judges(ProblemKind::Unmatched) {
            notes.push(format!(
                "{forgotten} entries were evicted from the journal, and requests among them are not judged; \
                 --max-journal-entries keeps more"
            ));
        }
        let forgotten = self.body.forgotten_deliveries;
        if forgotten > 0 && (self.judges(ProblemKind::Undelivered) || self.judges(ProblemKind::Forged)) {
            notes
                .push(format!("{forgotten} finished deliveries were evicted, and problems with them are not reported"));
        }
        let forged = self.body.counts.forged;
        if forged > 0 && !self.judges(ProblemKind::Forged) {
            notes.push(format!("{}; --fail-on forged makes a run fail for it", self.forged_text(forged)));
        }
        // Findings that no other kind reports.
        let is_untold = |cause: &&Cause| {
            matches!(cause.kind, CauseKind::Refused | CauseKind::Scripted | CauseKind::Finding)
                && cause.tests.is_empty()
                && cause.severity != Some(Severity::Low)
        };
        let is_judged = !self.fail_on.is_empty() && self.review.is_none();
        let mut untold = self.body.causes.iter().filter(|cause| is_judged && is_untold(cause));
        if let Some(first) = untold.find(|cause| !cause.findings.is_empty()) {
            let sentence = cell(&first.sentence);
            notes.push(format!("{sentence}; --fail-on findings=likely makes a run fail for what the review finds"));
        }
        let idle = self.review.as_ref().map_or(0, |review| review.findings.not_exercised.len());
        if idle > 0 {
            let rules = counted(idle, "rule");
            notes.push(format!(
                "{rules} of the review had nothing to judge; {}",
                self.reader.look(&Advice::ReviewFindings {})
            ));
        }
        notes
    }

    pub(super) fn to_json(&self) -> impl Serialize {
        JudgedVerdict {
            body: &self.body,
            review: &self.review,
            falls_short: ProblemKind::all().filter(|kind| self.has(*kind)).collect(),
            fail_on: &self.fail_on,
            failed: self.fails(),
        }
    }

    /// Possible problems that do not fail the run: likely findings, and tests that made no request.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.review.as_ref().map(Review::warnings).unwrap_or_default();
        // Of a failed one, that is the cause.
        let has_failed = |name: &str| self.test_causes().any(|cause| cause.tests.iter().any(|test| test.key == name));
        let is_silent = |key: &&JudgedKey| key.is_silent() && !has_failed(&key.key);
        if self.body.forgotten_entries == 0 && self.body.forgotten_deliveries == 0 {
            let silent: Vec<&JudgedKey> = self.body.keys.iter().filter(is_silent).collect();
            warnings.extend(
                silent.iter().take(MAX_SILENT).map(|key| format!("{} made no request with its key", key.text())),
            );
            let more = self.body.silent_tests.saturating_sub(silent.len().min(MAX_SILENT));
            if more > 0 {
                let whose = if more == 1 { "its key" } else { "their keys" };
                warnings.push(format!("{} made no request with {whose}", counted(more, "more test")));
            }
        }
        warnings
    }

    /// Possible reasons why the command failed, if no failed test says: every problem.
    fn failed_command(&self) -> Option<ReportCase> {
        let status = self.exit_status?;
        let causes = self.body.causes.iter().filter(|cause| self.explains_command(cause));
        let causes: Vec<ShownCause> = causes.map(|cause| self.shown_cause(cause)).collect();
        let message = format!("it exited with {status}, and this went wrong");
        (!causes.is_empty())
            .then(|| ReportCase { causes, ..ReportCase::failed("command", "command", message, Vec::new()) })
    }

    fn explains_command(&self, cause: &Cause) -> bool {
        self.exit_status.is_some_and(|status| status != 0) && self.body.failed_tests == 0 && cause.may_fail_a_command()
    }

    /// Why the tests failed.
    fn failed_tests(&self) -> Option<ReportCase> {
        let failed = self.body.failed_tests;
        let causes: Vec<ShownCause> = self.test_causes().map(|cause| self.shown_cause(cause)).collect();
        let listed: usize = causes.iter().map(|cause| cause.names.len()).sum();
        let lines = match failed.saturating_sub(listed) {
            0 => Vec::new(),
            more => vec![format!("… and {}", counted(more, "more failed test"))],
        };
        let message = format!("{} failed", counted(failed, "test"));
        (failed > 0).then(|| ReportCase { causes, ..ReportCase::failed("tests", "tests", message, lines) })
    }

    /// The tests that failed, or the command, then the kinds of problems.
    pub(super) fn report(&self) -> RunReport {
        let first = self.failed_tests().or_else(|| self.failed_command());
        let kinds = ProblemKind::all().filter(|kind| self.judges(*kind)).map(|kind| self.case_of(kind));
        let cases = first.into_iter().chain(kinds).collect();
        let all_causes = self.all_causes();
        RunReport { name: "verdict", cases, warnings: self.warnings(), notes: self.notes(), all_causes }
    }

    fn all_causes(&self) -> String {
        self.reader.all_causes(self.key.as_deref())
    }

    fn case_of(&self, kind: ProblemKind) -> ReportCase {
        let count = self.count(kind);
        let refused = match (kind, self.body.refused_forgeries) {
            (ProblemKind::Undelivered, 1) => "; 1 forged delivery was refused, as intended".to_owned(),
            (ProblemKind::Undelivered, 2..) => {
                format!("; {} forged deliveries were refused, as intended", self.body.refused_forgeries)
            }
            _ => String::new(),
        };
        if count == 0 {
            // A check that had nothing to judge has not passed.
            return match self.idle_of(kind) {
                Some(why) => ReportCase::idle(kind.name(), format!("{why}{refused}")),
                None => {
                    ReportCase { message: format!("{}{refused}", kind.sentence(0)), ..ReportCase::passed(kind.name()) }
                }
            };
        }
        let (causes, others) = self.causes(kind);
        let mut causes: Vec<ShownCause> = causes.into_iter().map(|cause| self.shown_cause(cause)).collect();
        let plain = match kind {
            ProblemKind::Unused => {
                let new = self.unused().filter(|unused| !self.is_told_first(unused));
                new.map(|unused| cell(&unused.message)).collect()
            }
            ProblemKind::Findings => self.review.as_ref().map(Review::stale_lines).unwrap_or_default(),
            _ => Vec::new(),
        };
        let plain = plain.into_iter();
        causes.extend(plain.map(|sentence| ShownCause {
            names: vec![kind.name()],
            is_of_tests: false,
            sentence,
            details: Vec::new(),
        }));
        // A saved run of an earlier version has no causes.
        let has_causes = !self.body.causes.is_empty();
        let others = if kind == ProblemKind::Unused { count - causes.len() } else { others };
        let all = if others == count { String::new() } else { format!("{others} of them: ") };
        let lines = match others {
            0 => Vec::new(),
            _ if has_causes => vec![format!("{all}see above")],
            _ => vec![format!("… and {others} more")],
        };
        let is_told = others == count && has_causes;
        let sentence = match kind {
            ProblemKind::Forged => self.forged_text(count),
            ProblemKind::Findings => {
                format!("{}; {}", kind.sentence(count), self.reader.look(&Advice::ReviewFindings {}))
            }
            _ => kind.sentence(count),
        };
        ReportCase {
            causes,
            is_told,
            ..ReportCase::failed(kind.name(), kind.name(), format!("{sentence}{refused}"), lines)
        }
    }
}
