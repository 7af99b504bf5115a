//! `GET run`: what happened so far and the present state, as one document for the page, for files and for reports.
//!
//! It adds nothing: each record is made by the same function as for the call that returns it. It has, of each kind, the
//! newest records; the others are counted.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::{Call, ControlCall, Made, Query, Tag};
use super::clock::ClockView;
use super::context::{Context, KeyScope, Paging};
use super::diagnosis::Diagnosis;
use super::document::write_list;
use super::due::due;
use super::exec_facts::ExecFacts;
use super::explain::Explanation;
use super::fields::Due;
use super::fields::{KeyFilter, List};
use super::profile::{ProfileView, SettingView};
use super::progress::{ScenarioProgress, progress};
use super::refusal::AdviceTime;
use super::render::bytes_of;
use super::scenarios::ScenarioWhole;
use super::subscriptions::SubscriptionView;
use super::test_outcome::{Ending, TestOutcome};
use super::verdict::{Verdict, compute_verdict};
use super::{
    Control, ControlError, clock, deliveries, document, events, explain, findings, profile, requests, scenarios, story,
    stream, subscriptions,
};
use crate::advice::Hint;
use crate::contract::keys::Keys;
use crate::findings::Findings;
use crate::http::answer::{JSON, answer};
use crate::http::body::ResponseBody;
use crate::redact::Redactor;
use crate::scenario::ScenarioSnapshot;
use crate::settings::LedgerRow;
use crate::state::engine::deliveries::{DeliveryRecord, DeliveryStatus};
use crate::state::journal::record::{DeliveryWhole, Event, LogLine, QuotaState, RequestWhole, Time, WorkspaceId, time};
use crate::state::journal::{Entry, Notice, RequestRecord};
use crate::state::workspace::{AttemptRecord, EventRecord, Forgery, Workspace};

/// The format of the document, by which a file is recognised.
pub(crate) const RUN_FORMAT: &str = "wrs-emulator-run";
/// The version of the format. It rises when a reader of an earlier version would misread the document.
pub(crate) const RUN_VERSION: u64 = 1;

/// What happened so far and the present state, as one document.
///
/// The problems found, requests with their explanations, deliveries with their attempts, events, keys, subscriptions, scenarios and
/// settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct GetRun {
    #[serde(default)]
    pub(crate) key: KeyFilter,
    /// At most this many records of each kind, the newest; 0 shows the state alone. Absent, 2,000.
    #[schemars(range(min = 0, max = 100_000))]
    pub(crate) limit: Option<u32>,
}

impl ControlCall for Query<GetRun> {
    type Answer = Made<RecordedRun>;

    fn call() -> Call {
        Call::waits::<Self, _>(Tag::RESULTS, "GET run", |Self { query }, cx| send(query, cx))
    }
}

/// What happened so far and the present state, with the newest records of each kind. Credentials are masked.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Run")]
pub(crate) struct RecordedRun {
    #[schemars(extend("const" = RUN_FORMAT))]
    pub(crate) format: String,
    #[schemars(extend("const" = RUN_VERSION))]
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
    pub(crate) verification: Verdict,
    /// The findings, as in `GET findings`; absent if `limit` was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) findings: Option<Findings>,
    /// The emulator's clock, or that of the key.
    pub(crate) clock: ClockView,
    /// The next events, the earliest first.
    pub(crate) due: Vec<Due>,
    pub(crate) keys: Vec<KeyState>,
    /// Newest first.
    pub(crate) requests: Vec<RunRequest>,
    /// Newest first.
    pub(crate) deliveries: Vec<RunRecord<DeliveryWhole>>,
    /// Newest first.
    pub(crate) events: Vec<RunRecord<Event>>,
    /// Lines of the log, newest first.
    pub(crate) notices: Vec<LogLine>,
    pub(crate) subscriptions: Vec<SubscriptionView>,
    pub(crate) scenarios: Vec<RunScenario>,
    /// The scenarios active for every key without its own list, in order; absent in a document about one key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) active: Option<Vec<String>>,
    pub(crate) profile: ProfileView,
    pub(crate) assumptions: List<LedgerRow>,
    /// Records left out of the document.
    pub(crate) omitted: Omitted,
    /// Where the listings continue with the rest.
    pub(crate) next_cursor: NextCursors,
}

/// The emulator that a document is about.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
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
    /// True if the control API requires a token.
    pub(crate) control: bool,
    /// The folders that scenarios are read from.
    pub(crate) scenario_folders: Vec<String>,
}

/// A key and its usage.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct KeyState {
    /// A test key whole, any other masked.
    pub(crate) key: String,
    pub(crate) workspace: WorkspaceId,
    /// The rest at present; null if the quota is disabled.
    pub(crate) quota: Option<QuotaState>,
    /// Requests in the journal.
    pub(crate) requests: usize,
    pub(crate) subscriptions: usize,
    /// The scenarios active for it, in order.
    pub(crate) scenarios: Vec<String>,
    /// Its own clock; null if it follows the emulator's.
    pub(crate) clock: Option<ClockView>,
    /// The settings that are other than in `profile`.
    #[serde(default)]
    pub(crate) settings: Vec<SettingView>,
    /// How the test with this key ended, if its runner reported that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) test: Option<TestOutcome>,
}

/// A request with its explanation, in which the request itself is absent.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RunRequest {
    /// Its place among the requests, events and attempts of the document, newest first, from 1: it orders records of one time.
    #[serde(default)]
    pub(crate) place: u64,
    #[serde(flatten)]
    pub(crate) request: RequestWhole,
    pub(crate) explanation: Explanation,
}

/// A delivery or an event with what happened to it.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Run{T}")]
pub(crate) struct RunRecord<T> {
    /// Its place, as of a request; of a delivery, that of each attempt; 0 for an attempt that the journal no longer has.
    #[serde(default)]
    pub(crate) places: Vec<u64>,
    #[serde(flatten)]
    pub(crate) record: T,
    /// In a sentence, as `GET explain/{id}` has it.
    pub(crate) summary: String,
    /// The first check or step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<Hint>,
}

/// A scenario with its text and its progress.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RunScenario {
    #[serde(flatten)]
    pub(crate) scenario: ScenarioWhole,
    /// For each key that it has applied to; empty if it is not active, or no request has reached it.
    pub(crate) progress: Vec<ScenarioProgress>,
}

/// How much is not in the document: because of its bounds or the requested limit, or evicted before.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
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

impl Omitted {
    /// Records left out because of the bound of each kind; `progress` and `due` have smaller ones.
    pub(crate) fn records(&self) -> usize {
        let Self { requests, deliveries, events, notices, keys, subscriptions, scenarios, .. } = *self;
        [requests, deliveries, events, notices, keys, subscriptions, scenarios]
            .into_iter()
            .fold(0, usize::saturating_add)
    }
}

/// The `cursor` with which a listing continues after the records of the document; null if none are left out.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct NextCursors {
    pub(crate) requests: Option<String>,
    pub(crate) deliveries: Option<String>,
}

/// Why records are not in a document, whose size is capped.
pub(crate) fn document_bound() -> String {
    format!("a document has at most {MAX_RECORDS} records, or {} MiB, of each kind", MAX_BYTES / (1024 * 1024))
}

/// Maximum number of records of each kind, unless the call limits them.
pub(crate) const MAX_RECORDS: usize = 2_000;
/// Once the requests, deliveries or events have this many bytes of JSON, no older one is added.
pub(crate) const MAX_BYTES: usize = 8 * 1024 * 1024;
/// With so many keys and entries of the journal, a document is too long to be made whole.
const SURELY_LONG: usize = 2_000;

impl GetRun {
    fn document(&self, cx: &Context) -> Result<RecordedRun, ControlError> {
        let scope = self.key.scope(&cx.engine)?;
        Ok(run(&cx.control, &scope, self.limit.map(|limit| limit as usize), cx.redactor()))
    }

    /// The document as `write` writes it: made whole if it is short, or else while it is sent.
    pub(super) async fn sent(
        self,
        cx: &Arc<Context>,
        write: fn(RecordedRun, Redactor<'_>, &mut dyn io::Write) -> io::Result<()>,
    ) -> Result<ResponseBody, ControlError> {
        let scope = self.key.scope_soon(&cx.control).await?;
        let of = Arc::clone(cx);
        let records = cx.engine.journal.fill().entries + scope.workspaces(&cx.engine).len();
        let write = move |out: &mut dyn io::Write| {
            let document = self.document(&of).map_err(|_| io::Error::other("the key is gone"))?;
            write(document, of.redactor(), out)
        };
        let short = write.clone();
        let whole = match records {
            // Made whole, it would only be thrown away.
            SURELY_LONG.. if scope.0.is_none() => None,
            _ => cx.control.read(&cx.is_disconnected, |_| document::short(short)).await?,
        };
        match whole {
            Some(text) => Ok(ResponseBody::from(text)),
            None => document::made_while_sent(&cx.engine.blocking.runs, write).await,
        }
    }
}

/// A long document is made by few callers at a time, and while it is sent.
async fn send(request: GetRun, cx: Arc<Context>) -> Result<Made<RecordedRun>, ControlError> {
    let body = request.sent(&cx, |document, redactor, out| document.write(redactor, out)).await?;
    Ok(answer(StatusCode::OK, JSON, body).into())
}

impl RecordedRun {
    /// Writes it with credentials masked, one record after the other: masked as a whole, it would need several times as much memory.
    pub(crate) fn write(mut self, redactor: Redactor<'_>, out: &mut dyn io::Write) -> io::Result<()> {
        let (keys, requests) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.requests));
        let (deliveries, events) = (std::mem::take(&mut self.deliveries), std::mem::take(&mut self.events));
        let Value::Object(fields) = redactor.shown(&self) else { unreachable!("a struct is an object") };
        drop(self);
        let mut before = "{";
        let (mut keys, mut requests) = (Some(keys), Some(requests));
        let (mut deliveries, mut events) = (Some(deliveries), Some(events));
        for (name, value) in fields {
            write!(out, "{before}{}:", Value::from(name.as_str()))?;
            before = ",";
            match name.as_str() {
                "keys" => write_list(keys.take().unwrap_or_default(), redactor, out)?,
                "requests" => write_list(requests.take().unwrap_or_default(), redactor, out)?,
                "deliveries" => write_list(deliveries.take().unwrap_or_default(), redactor, out)?,
                "events" => write_list(events.take().unwrap_or_default(), redactor, out)?,
                _ => serde_json::to_writer(&mut *out, &value)?,
            }
        }
        out.write_all(b"}\n")
    }
}

/// The document with at most `limit` records of each kind.
fn run(control: &Control, scope: &KeyScope, limit: Option<usize>, redactor: Redactor<'_>) -> RecordedRun {
    // Read first, so that a viewer who then follows the stream misses nothing; duplicates share an id.
    let history = EntriesByKind::read(control, scope, redactor.key_settings());
    let snapshot = control.engine.library.load();
    let mover = control.engine.clock_driver(scope.0.clone());
    let name = scope.key();
    // Judging reads every record, so a call for a part of the document, as the page makes all the time, does without it.
    let findings = limit.is_none().then(|| findings::compute_findings(control, scope));
    let (due, due_later) = due(control, scope, redactor);
    // The page asks for the state alone every few seconds, and shows no test's output.
    let (keys, keys_omitted) = keys(control, scope, &snapshot, &history, limit != Some(0), redactor);
    let (subscriptions, kept_subscriptions) =
        subscriptions::page_of(control, scope, &Paging::first(MAX_RECORDS), redactor);
    let (mut progress, progress_omitted) = progress(control, scope, &snapshot, redactor);
    let mut names = snapshot.names();
    // Read before the records are made, as `next_attempt_in_ms` in them counts from about then.
    let now = mover.clock().now();
    let records = Records::newest(control, scope, &history, limit.unwrap_or(MAX_RECORDS), redactor);
    let omitted = Omitted {
        keys: keys_omitted,
        subscriptions: kept_subscriptions - subscriptions.data.len(),
        scenarios: names.split_off(names.len().min(MAX_RECORDS)).len(),
        progress: progress_omitted,
        due: due_later,
        evicted_entries: control.engine.journal.fill().evicted,
        evicted_deliveries: control.engine.deliveries.evicted(),
        ..records.omitted
    };
    let scenario = |name: Arc<str>| RunScenario {
        scenario: scenarios::whole(&snapshot, &name),
        progress: progress.remove(&name).unwrap_or_default(),
    };
    RecordedRun {
        format: RUN_FORMAT.to_owned(),
        version: RUN_VERSION,
        emulator: facts(control, &snapshot, redactor),
        recorded_at: time(now.wall),
        key: name.as_deref().map(|name| redactor.key(name).into_owned()),
        exec: None,
        viewing: None,
        last_event_id: control.texts.id(history.next - 1),
        verification: compute_verdict(control, scope, findings.as_ref(), redactor),
        findings,
        clock: clock::to_view(&mover, now, redactor),
        due,
        keys,
        requests: records.requests,
        deliveries: records.deliveries,
        events: records.events,
        notices: records.notices,
        subscriptions: subscriptions.data,
        scenarios: names.into_iter().map(scenario).collect(),
        active: name.is_none().then(|| snapshot.active().names.iter().map(ToString::to_string).collect()),
        profile: profile::settings(control, name.as_deref(), redactor),
        assumptions: List { data: profile::in_force(control, name.as_deref(), redactor) },
        omitted,
        next_cursor: records.next_cursor,
    }
}

/// The newest records of a scope, and what of them is left out.
struct Records {
    requests: Vec<RunRequest>,
    deliveries: Vec<RunRecord<DeliveryWhole>>,
    events: Vec<RunRecord<Event>>,
    notices: Vec<LogLine>,
    omitted: Omitted,
    next_cursor: NextCursors,
}

impl Records {
    fn newest(
        control: &Control,
        scope: &KeyScope,
        history: &EntriesByKind,
        most: usize,
        redactor: Redactor<'_>,
    ) -> Self {
        let in_scope = |delivery: &DeliveryRecord| scope.covers(Some(&delivery.event.workspace));
        let found = control.engine.deliveries.list(None, most, in_scope);
        let registry = &control.engine.registry;
        let requests = newest(&history.requests, most, |(_, record)| requests::whole(record, redactor));
        // A delivery keeps the records that the journal has. The page asks for none of them every few seconds.
        let attempts = if most == 0 { &[] } else { &history.attempts[..] };
        let numbers: HashMap<_, _> = attempts.iter().map(|(number, attempt)| (Arc::as_ptr(attempt), *number)).collect();
        let places = if most == 0 { HashMap::new() } else { history.places() };
        let place = |number: &u64| places.get(number).copied().unwrap_or_default();
        let place_of = |attempt: &Arc<AttemptRecord>| numbers.get(&Arc::as_ptr(attempt)).map_or(0, place);
        let deliveries = newest(&found, most, |(_, delivery)| RunRecord {
            places: delivery.attempts.iter().map(place_of).collect(),
            record: deliveries::whole(delivery, registry, redactor),
            summary: story::delivery_summary(delivery, redactor),
            advice: match Diagnosis::new(control, delivery, redactor) {
                diagnosis if delivery.forgery() == Some(Forgery::Accepted) => diagnosis.judged_receiver(),
                diagnosis if delivery.status != DeliveryStatus::Delivered && !story::is_on_purpose(delivery) => {
                    diagnosis.first_advice()
                }
                _ => None,
            },
        });
        let events = newest(&history.events, most, |(number, event)| RunRecord {
            places: vec![place(number)],
            record: events::to_view(event, registry, redactor),
            summary: story::event_summary(event),
            advice: None,
        });
        let notices = newest(&history.notices, most, |notice| stream::to_line(notice, redactor));
        let omitted = Omitted {
            requests: history.requests.len() - requests.len(),
            // Deliveries may have been evicted since they were listed.
            deliveries: control.engine.deliveries.count(in_scope).saturating_sub(deliveries.len()),
            events: history.events.len() - events.len(),
            notices: history.notices.len() - notices.len(),
            ..Omitted::default()
        };
        let cursor = |omitted: usize, last: Option<u64>| last.filter(|_| omitted > 0).map(|number| number.to_string());
        let next_cursor = NextCursors {
            requests: cursor(omitted.requests, history.requests[..requests.len()].last().map(|(number, _)| *number)),
            deliveries: cursor(omitted.deliveries, found[..deliveries.len()].last().map(|(serial, _)| *serial)),
        };
        let explained = |(request, (number, record)): (RequestWhole, &(u64, Arc<RequestRecord>))| RunRequest {
            place: place(number),
            request,
            explanation: explain::explain_request(control, record, AdviceTime::Later, redactor),
        };
        let requests = requests.into_iter().zip(&history.requests).map(explained).collect();
        Self { requests, deliveries, events, notices, omitted, next_cursor }
    }
}

/// The first of these records that a document has room for, as it shows them.
fn newest<T, S: Serialize>(records: impl IntoIterator<Item = T>, most: usize, shown: impl Fn(T) -> S) -> Vec<S> {
    let mut written = 0;
    let next = |record| {
        let record = shown(record);
        written += bytes_of(&record);
        (record, written)
    };
    let mut before = 0;
    let has_room = |(_, after): &(S, usize)| std::mem::replace(&mut before, *after) < MAX_BYTES;
    records.into_iter().take(most).map(next).take_while(has_room).map(|(record, _)| record).collect()
}

fn facts(control: &Control, snapshot: &ScenarioSnapshot, redactor: Redactor<'_>) -> EmulatorFacts {
    let folder = |path: &std::path::PathBuf| redactor.text(&path.display().to_string()).into_owned();
    EmulatorFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: control.seed,
        generation: snapshot.number,
        started_at: time(control.started_at),
        base_url: control.base_url.clone(),
        control_url: control.control_url.clone(),
        control: control.access.requires_token(),
        scenario_folders: control.engine.scenario_folders.paths().map(folder).collect(),
    }
}

/// The keys that a document has room for, those of failed tests first, and how many are left out.
fn keys(
    control: &Control,
    scope: &KeyScope,
    snapshot: &ScenarioSnapshot,
    history: &EntriesByKind,
    with_output: bool,
    redactor: Redactor<'_>,
) -> (Vec<KeyState>, usize) {
    let mut requests: HashMap<Cow<'_, str>, usize> = HashMap::new();
    for (_, request) in &history.requests {
        if let Some(owner) = request.owner(redactor.key_settings()) {
            *requests.entry(owner).or_default() += 1;
        }
    }
    let own_clock = |workspace: &Arc<Workspace>| -> Option<ClockView> {
        let mover = control.engine.clock_driver(Some(Arc::clone(workspace)));
        (!workspace.clock().follows()).then(|| clock::to_view(&mover, mover.clock().now(), redactor))
    };
    let base = snapshot.config_for(scope.key().as_deref());
    let key = |workspace: &Arc<Workspace>| {
        let config = snapshot.config_for(Some(workspace.name()));
        let (quota, subscriptions, test) = {
            let state = workspace.lock();
            let quota = state.quota(&config.profile, workspace.clock().now());
            (quota, state.subscriptions.iter().count(), state.test().cloned())
        };
        KeyState {
            key: redactor.key(workspace.name()).into_owned(),
            workspace: workspace.id().into(),
            quota: quota.as_ref().map(requests::quota),
            requests: requests.get(&**workspace.name()).copied().unwrap_or_default(),
            subscriptions,
            scenarios: config.active.iter().map(|scenario| scenario.name.to_string()).collect(),
            clock: own_clock(workspace),
            test: test.map(|test| TestOutcome { output: test.output.filter(|_| with_output), ..test }),
            settings: if Arc::ptr_eq(config, base) { Vec::new() } else { profile::differing(config, base) },
        }
    };
    let mut workspaces = scope.workspaces(&control.engine);
    let has_failed = |workspace: &Workspace| workspace.lock().test().is_some_and(|test| test.outcome == Ending::Failed);
    workspaces.sort_by_cached_key(|workspace| (!has_failed(workspace), workspace.name().clone()));
    let keys = newest(&workspaces, MAX_RECORDS, key);
    let omitted = workspaces.len() - keys.len();
    (keys, omitted)
}

/// The journal's entries of a scope by kind, newest first.
struct EntriesByKind {
    /// The number of the next entry.
    next: u64,
    requests: Vec<(u64, Arc<RequestRecord>)>,
    events: Vec<(u64, Arc<EventRecord>)>,
    attempts: Vec<(u64, Arc<AttemptRecord>)>,
    notices: Vec<Arc<Notice>>,
}

impl EntriesByKind {
    fn read(control: &Control, scope: &KeyScope, keys: &Keys) -> Self {
        let next = control.engine.journal.next_number();
        let mut history =
            Self { next, requests: Vec::new(), events: Vec::new(), attempts: Vec::new(), notices: Vec::new() };
        control.engine.journal.search(Some(next), usize::MAX, |number, entry| {
            if !scope.covers_entry(entry, keys) {
                return None::<()>;
            }
            match entry {
                Entry::Request(request) => history.requests.push((number, Arc::clone(request))),
                Entry::Event(event) => history.events.push((number, Arc::clone(event))),
                Entry::Notice(notice) => history.notices.push(Arc::clone(notice)),
                Entry::Attempt(attempt) => history.attempts.push((number, Arc::clone(attempt))),
                Entry::Cleared => {}
            }
            None
        });
        history
    }

    /// The places of the entries, by their numbers. By time, then in the order of the journal, in which attempts stand wherever they ended
    /// beside what came meanwhile: so a first attempt comes after its event, and those that became due come first.
    fn places(&self) -> HashMap<u64, u64> {
        let events: HashMap<_, u64> = self.events.iter().map(|(number, event)| (Arc::as_ptr(event), *number)).collect();
        let of_attempt = |(number, attempt): &(u64, Arc<AttemptRecord>)| {
            let after = events.get(&Arc::as_ptr(&attempt.event)).filter(|_| attempt.at == attempt.event.handed_at);
            let serial = attempt.delivery.serial.get().copied();
            ((attempt.at, after.copied().unwrap_or_default(), serial, attempt.number), *number)
        };
        let requests = self.requests.iter().map(|(number, request)| ((request.at, *number, None, 0), *number));
        let fired = self.events.iter().map(|(number, event)| ((event.handed_at, *number, None, 0), *number));
        let mut all: Vec<_> = requests.chain(fired).chain(self.attempts.iter().map(of_attempt)).collect();
        all.sort_unstable();
        (1..).zip(all.into_iter().rev()).map(|(place, (_, number))| (number, place)).collect()
    }
}
