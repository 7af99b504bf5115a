//! What happened in an emulator so far, as one document: the page shows it live, a file keeps it.

use serde::{Deserialize, Serialize};

use super::{
    Assumption, Clock, DeliveryId, DeliveryWhole, Event, Explanation, Findings, Form, List, LogLine, Millis, Nothing,
    Profile, QuotaState, RequestWhole, ScenarioWhole, Subscription, Time, Verification, WorkspaceId, endpoint,
};
use crate::control::render::Text;

/// The format of the document, by which a file is recognised.
pub(crate) const RUN_FORMAT: &str = "wrs-emulator-run";
/// Why older records are not in a document.
pub(crate) const DOCUMENT_BOUND: &str = "a document has at most 2,000 records, or 8 MiB, of each kind";
/// The version of the format. It rises when a reader of an earlier version would misread the document.
pub(crate) const RUN_VERSION: u64 = 1;

endpoint! {
    /// What happened so far and the present state, as one document.
    ShowRun: GET "run", Form::Plain, RunQuery, Nothing => Run;
    /// The same as one HTML file, which any browser shows without a network.
    ShowReport: GET "report.html", Form::Other("text/html"), RunQuery, Nothing => String;
}

/// How much of what happened is shown.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunQuery {
    /// Most records of each kind, the newest; 0 shows the state alone. Absent, 2,000.
    #[cfg_attr(test, schemars(range(min = 0, max = 100_000), with = "Option<u32>"))]
    pub(crate) limit: Option<String>,
}

/// What happened so far and the present state, with the newest records of each kind. Credentials are masked.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Run {
    #[cfg_attr(test, schemars(extend("const" = RUN_FORMAT)))]
    pub(crate) format: String,
    #[cfg_attr(test, schemars(extend("const" = RUN_VERSION)))]
    pub(crate) version: u64,
    pub(crate) emulator: EmulatorFacts,
    /// When the document was made, by the emulator's clock.
    pub(crate) recorded_at: Time,
    /// Whose it is; null for all keys.
    pub(crate) key: Option<String>,
    /// The command that `exec` ran, in a report of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exec: Option<ExecFacts>,
    /// The name of the file that `run view` shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) viewing: Option<String>,
    /// The newest entry in the document, as `Last-Event-ID` of the event stream.
    pub(crate) last_event_id: String,
    /// The problems found, as `GET verdict` has them.
    pub(crate) verification: Verification,
    /// What the traffic shows, as `GET findings` has it; absent if `limit` was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) findings: Option<Findings>,
    /// The emulator's clock, or that of the key.
    pub(crate) clock: Clock,
    /// What happens next, the earliest first.
    pub(crate) due: Vec<Due>,
    pub(crate) keys: Vec<KeyState>,
    /// Newest first.
    pub(crate) requests: Vec<RunRequest>,
    /// Newest first.
    pub(crate) deliveries: Vec<DeliveryWhole>,
    /// Newest first.
    pub(crate) events: Vec<Event>,
    /// Lines of the log, newest first.
    pub(crate) notices: Vec<LogLine>,
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) scenarios: Vec<RunScenario>,
    pub(crate) profile: Profile,
    pub(crate) assumptions: List<Assumption>,
    /// What is not in the document.
    pub(crate) omitted: Omitted,
    /// Where the listings continue with what was left out.
    pub(crate) next_cursor: NextCursors,
}

impl Text for Run {}

/// What every version of the document has.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RunStart {
    pub(crate) format: Option<String>,
    pub(crate) version: Option<u64>,
    pub(crate) emulator: Option<SavedBy>,
}

/// The emulator that saved a document.
#[derive(Debug, Deserialize)]
pub(crate) struct SavedBy {
    pub(crate) version: String,
}

/// The emulator that a document is about.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct EmulatorFacts {
    pub(crate) version: String,
    /// The number given by `--seed`; null if the seed was drawn.
    pub(crate) seed: Option<u64>,
    pub(crate) generation: u64,
    /// By the emulator's clock.
    pub(crate) started_at: Time,
    /// Where the emulated API is served.
    pub(crate) base_url: String,
    /// Where the control API is served.
    pub(crate) control_url: String,
    /// Whether the control API requires a token.
    pub(crate) control: bool,
    /// The folders that scenarios are read from.
    pub(crate) scenario_folders: Vec<String>,
}

/// A command that was run with an emulator, and how it ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct ExecFacts {
    /// The command and its arguments, credentials masked.
    pub(crate) command: Vec<String>,
    /// Its exit status, by the rules of shells: 128 and the number of a signal, 127 if it is not there, 126 if it cannot be run.
    pub(crate) exit_status: u8,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Why it could not be run.
    pub(crate) problem: Option<String>,
}

/// Something that happens once the clock reaches its time.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Due {
    /// By the clock of the workspace.
    pub(crate) at: Time,
    pub(crate) in_ms: Millis,
    pub(crate) what: DueKind,
    pub(crate) workspace: WorkspaceId,
    pub(crate) key: String,
    /// The delivery to be attempted.
    pub(crate) delivery: Option<DeliveryId>,
    /// The scenario that planned it.
    pub(crate) scenario: Option<String>,
    /// What it is, in words.
    pub(crate) message: String,
}

/// What is due.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub(crate) enum DueKind {
    /// An attempt at a delivery.
    Attempt,
    /// An event that a scenario has planned.
    Event,
    /// Something else that waits for the clock, such as a delayed answer or a scenario's timer.
    Timer,
}

/// A key, or a group of keys, and what it uses.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct KeyState {
    /// A test key whole, any other masked; the name of a group of keys.
    pub(crate) key: String,
    pub(crate) workspace: WorkspaceId,
    /// What is left at present; null if the quota is disabled.
    pub(crate) quota: Option<QuotaState>,
    /// Requests in the journal.
    pub(crate) requests: usize,
    pub(crate) subscriptions: usize,
    /// The scenarios active for it, in order.
    pub(crate) scenarios: Vec<String>,
    /// Its own clock; null if it follows the emulator's.
    pub(crate) clock: Option<Clock>,
}

/// A request with its explanation, in which the request itself is absent.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct RunRequest {
    #[serde(flatten)]
    pub(crate) request: RequestWhole,
    pub(crate) explanation: Explanation,
}

/// A scenario with its text and its progress.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct RunScenario {
    #[serde(flatten)]
    pub(crate) scenario: ScenarioWhole,
    /// For each key that it has applied to; empty if it is not active, or no request has reached it.
    pub(crate) progress: Vec<Progress>,
}

/// How far a scenario is for a key.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Progress {
    /// Null for requests without a key.
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) key: Option<String>,
    /// In the order of the scenario.
    pub(crate) rules: Vec<RuleProgress>,
    /// The present step of its story, if it has one that ends.
    pub(crate) step: Option<String>,
    /// The steps at which the story ends.
    pub(crate) ends: Vec<String>,
    pub(crate) emissions: Vec<EmissionProgress>,
}

/// How often a rule has applied.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct RuleProgress {
    pub(crate) rule: String,
    /// Where it begins in the scenario's text; from 1.
    pub(crate) line: usize,
    pub(crate) applied: u64,
    /// How often it applies in all; null if without end.
    pub(crate) turns: Option<u64>,
}

/// How often an emission was triggered.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct EmissionProgress {
    pub(crate) emission: String,
    pub(crate) fired: u64,
    /// Events planned and yet to come.
    pub(crate) planned: u64,
}

/// How much is not in the document: because of its bounds or the requested limit, or evicted before.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Omitted {
    pub(crate) requests: usize,
    pub(crate) deliveries: usize,
    pub(crate) events: usize,
    pub(crate) notices: usize,
    pub(crate) keys: usize,
    pub(crate) subscriptions: usize,
    pub(crate) scenarios: usize,
    /// Keys in the `progress` of scenarios.
    pub(crate) progress: usize,
    pub(crate) due: usize,
    /// Entries of the journal that were evicted, of all kinds and keys.
    pub(crate) evicted_entries: u64,
    /// Finished deliveries that were evicted, of all keys.
    pub(crate) evicted_deliveries: u64,
}

/// The `cursor` with which a listing continues after the records of the document; null if none are left out.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct NextCursors {
    pub(crate) requests: Option<String>,
    pub(crate) deliveries: Option<String>,
}
