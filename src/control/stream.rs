//! `GET stream`: everything that happens as server-sent events, resumable by `Last-Event-ID`.
//!
//! Each viewer reads the journal with its own cursor, so a slow one delays nothing: it misses evicted entries and gets an event with
//! their number. Entries are sent in pieces of bounded size, and at most one unsent piece is buffered per viewer. All viewers share the
//! text of an entry ([`Texts`]), which is made once, and each pauses briefly after a piece, so that viewers of a busy emulator cost
//! little.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::unfold;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use jiff::Timestamp;
use parking_lot::Mutex;
use rand::Rng as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use super::call::{Call, ControlCall, Made, Options, Query, Tag, USUAL};
use super::context::{Context, KeyScope};
use super::document::PIECE_BYTES;
use super::fields::KeyFilter;
use super::render::cell;
use super::story::{damage_text, destination, outcome_text};
use super::{ControlError, deliveries, events, requests};
use crate::clock::Seed;
use crate::contract::error::ErrorKind;
use crate::http::body::ResponseBody;
use crate::redact::Redactor;
use crate::state::engine::Engine;
use crate::state::journal::record::{Attempt, DeliveryId, EventId, LogLine, SubscriptionId, WorkspaceId, time};
use crate::state::journal::{self, Entry, Interest, Reader};
use crate::util::flag::Flag;

pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// Everything that happens, as server-sent events.
///
/// Requests, events, attempts and notices, each as an event of that name. Resumes after the id in `Last-Event-ID`; after a restart, an
/// event `restarted` is followed by what happens from then on. 64 viewers, each with a write deadline.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct FollowStream {
    #[serde(default)]
    pub(crate) key: KeyFilter,
    /// Kinds of events, joined by commas: request, event, attempt, notice.
    pub(crate) kind: Option<String>,
}

impl ControlCall for Query<FollowStream> {
    type Answer = Made<String>;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::RESULTS, "GET stream", follow).with(Options {
            media: Some(&[EVENT_STREAM]),
            errors: &[(429, "Too many viewers follow the stream already.")],
            ..USUAL
        })
    }
}

/// An attempt as the stream shows it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct StreamedAttempt {
    #[serde(flatten)]
    pub(crate) attempt: Attempt,
    pub(crate) delivery: DeliveryId,
    pub(crate) event: EventId,
    #[serde(rename = "type")]
    pub(crate) event_type: String,
    pub(crate) subscription: SubscriptionId,
    pub(crate) workspace: Option<WorkspaceId>,
}

/// How many journal entries were evicted before they could be sent.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Missed {
    pub(crate) missed: u64,
}

/// The emulator was restarted since the event that the viewer resumes at.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Restarted {
    pub(crate) message: String,
}

impl StreamedAttempt {
    pub(crate) fn line(&self) -> String {
        let Self { attempt, delivery, event_type, .. } = self;
        let Attempt { at, number, url, dialled, outcome, damage, .. } = attempt;
        let (to, answer) = (destination(url, Some(dialled)), outcome_text(Some(outcome)));
        format!("{at}  {delivery}  {}  {number}  {to}  {answer}{}", cell(event_type), damage_text(damage.as_deref()))
    }
}

/// Maximum number of viewers at a time.
pub const MAX_VIEWERS: usize = 64;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// A comment is sent after this much silence, which reveals viewers that have disconnected.
const SILENCE: Duration = Duration::from_secs(15);
const PIECE: usize = 256;
/// The least pause after a piece, so that entries are sent together. It differs between viewers by a millisecond, so that they do
/// not all run at once.
const PAUSE: Duration = Duration::from_millis(25);
/// The first bytes of every stream.
const GREETING: &str = ": events from now on\n\n";
/// The message to a viewer that resumes at an event from before a restart.
const RESTARTED: &str = "the emulator was restarted: earlier events are gone, and new ones follow";
/// Maximum number of texts in the cache, and most bytes of them.
pub(crate) const TEXTS: usize = 256;
pub(crate) const TEXT_BYTES: usize = 8 * 1024 * 1024;

/// A cache of the texts of the last entries, shared by all viewers.
#[derive(Debug)]
pub struct Texts {
    /// This run of the program, as part of event ids, so that ids from before a restart are recognized.
    instance: String,
    kept: Mutex<CachedTexts>,
}

#[derive(Debug, Default)]
struct CachedTexts {
    /// Texts with the number of their entry, oldest first.
    texts: VecDeque<(u64, Bytes)>,
    bytes: usize,
}

impl Texts {
    /// An empty cache. The same seed and start give the same event ids.
    pub fn new(seed: &Seed, start: Timestamp) -> Self {
        let mut random = seed.source(&format!("event stream {}", start.as_nanosecond()));
        Self { instance: format!("{:08x}", random.next_u32()), kept: Mutex::default() }
    }

    /// The entry's number in an event id; `None` for an id of another run. A plain number belongs to this run.
    fn number(&self, id: &str) -> Result<Option<u64>, ControlError> {
        let (instance, number) = id.trim().rsplit_once('-').unwrap_or((&self.instance, id.trim()));
        let is_name = !instance.is_empty() && instance.bytes().all(|byte| byte.is_ascii_hexdigit());
        match number.parse() {
            Ok(number) if is_name => Ok((instance == self.instance).then_some(number)),
            _ => Err(ControlError::invalid("Last-Event-ID: expected the id of an event")),
        }
    }

    /// The id of the entry with this number, as in the stream.
    pub(super) fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.instance)
    }

    /// One server-sent event; JSON has no line ends.
    fn event<T: Serialize>(&self, number: u64, kind: &str, data: &T) -> String {
        let data = serde_json::to_string(data).expect("texts and numbers always serialise");
        format!("id: {}\nevent: {kind}\ndata: {data}\n\n", self.id(number))
    }

    /// The text of an entry, made if it is not in the cache. Other viewers wait for it meanwhile, because they most likely want the same.
    fn of(&self, number: u64, make: impl FnOnce() -> String) -> Bytes {
        let mut kept = self.kept.lock();
        if let Some((_, text)) = kept.texts.iter().rev().find(|(known, _)| *known == number) {
            return text.clone();
        }
        let text = Bytes::from(make());
        kept.bytes += text.len();
        kept.texts.push_back((number, text.clone()));
        while kept.texts.len() > TEXTS || kept.bytes > TEXT_BYTES {
            let Some((_, left)) = kept.texts.pop_front() else { break };
            kept.bytes -= left.len();
        }
        text
    }
}

fn follow(Query { query: request }: Query<FollowStream>, cx: &Context) -> Result<Made<String>, ControlError> {
    let kinds = kinds(request.kind.as_deref())?;
    let (scope, control) = (request.key.scope(&cx.engine)?, &cx.control);
    let Ok(permit) = Arc::clone(&control.viewers).try_acquire_owned() else {
        let message = format!("{MAX_VIEWERS} viewers follow the stream already, which is the limit");
        return Err(ControlError::new(ErrorKind::RateLimitExceeded, message).coded("too_many_viewers"));
    };
    let now = control.engine.journal.next_number();
    let last = cx.parts.headers.get(LAST_EVENT_ID).map(|id| control.texts.number(id.to_str().unwrap_or_default()));
    let (next, greeting) = match last.transpose()? {
        None => (now, GREETING.to_owned()),
        Some(Some(last)) if last < now => (last + 1, GREETING.to_owned()),
        // The id is of another run, or of an earlier run with the same seed.
        Some(_) => (
            now,
            format!(
                "{GREETING}{}",
                control.texts.event(now - 1, "restarted", &Restarted { message: RESTARTED.to_owned() })
            ),
        ),
    };
    let viewer = StreamViewer {
        reader: control.engine.journal.reader(Interest::Everything),
        engine: Arc::clone(&control.engine),
        texts: Arc::clone(&control.texts),
        scope,
        kinds,
        next,
        greeting: Some(greeting.into()),
        pause: PAUSE + Duration::from_millis(1) * u32::try_from(control.viewers.available_permits()).unwrap_or(0),
        pauses: false,
        stopping: control.stopping.clone(),
        _permit: permit,
    };
    let pieces = unfold(viewer, |mut viewer| async {
        let stopping = viewer.stopping.clone();
        let piece = tokio::select! {
            biased;
            () = stopping.raised() => return None,
            piece = viewer.piece() => piece,
        };
        Some((Ok(piece), viewer))
    });
    let mut response = Response::new(ResponseBody::stream(pieces));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response.into())
}

/// The kinds of events that can be selected. Events about missed entries are always sent.
const KINDS: [&str; 4] = ["request", "event", "attempt", "notice"];

fn kind_of(entry: &Entry) -> Option<&'static str> {
    Some(match entry {
        Entry::Request(_) => KINDS[0],
        Entry::Event(_) => KINDS[1],
        Entry::Attempt(_) => KINDS[2],
        Entry::Notice(_) => KINDS[3],
        Entry::Cleared => return None,
    })
}

/// Parses `kind`: names joined by commas; all by default.
fn kinds(text: Option<&str>) -> Result<Vec<&'static str>, ControlError> {
    let Some(text) = text else { return Ok(KINDS.to_vec()) };
    let kind = |name: &str| {
        KINDS.into_iter().find(|known| *known == name).ok_or_else(|| {
            ControlError::unexpected("kind", &format!("some of {}, joined by commas", KINDS.join(", ")), name)
        })
    };
    text.split(',').map(str::trim).map(kind).collect()
}

pub(super) fn to_line(notice: &journal::Notice, redactor: Redactor<'_>) -> LogLine {
    LogLine {
        kind: notice.kind.name().to_owned(),
        at: time(notice.at),
        key: notice.workspace.as_ref().map(|key| redactor.key(key).into_owned()),
        message: notice.message.clone(),
        warning: notice.warning,
    }
}

struct StreamViewer {
    reader: Reader,
    engine: Arc<Engine>,
    texts: Arc<Texts>,
    scope: KeyScope,
    kinds: Vec<&'static str>,
    next: u64,
    greeting: Option<Bytes>,
    pause: Duration,
    /// True if to pause before the next piece.
    pauses: bool,
    stopping: Flag,
    _permit: OwnedSemaphorePermit,
}

impl StreamViewer {
    /// Waits for the next piece of the stream. A piece is made only after the one before was sent.
    async fn piece(&mut self) -> Bytes {
        // Sent at once, because the head of the answer goes out with the first bytes.
        if let Some(greeting) = self.greeting.take() {
            return greeting;
        }
        if std::mem::take(&mut self.pauses) {
            tokio::time::sleep(self.pause).await;
        }
        loop {
            let mut appended = Box::pin(self.reader.appended());
            appended.as_mut().enable();
            let entries = self.reader.journal.read(self.next, PIECE);
            let (piece, next) = self.join(&entries);
            self.next = next;
            if !piece.is_empty() {
                // If not all entries were sent, the next piece follows without a pause.
                let all = entries.last().is_some_and(|(last, _)| *last < self.next);
                self.pauses = all && entries.len() < PIECE;
                return piece;
            }
            if entries.is_empty() && tokio::time::timeout(SILENCE, appended).await.is_err() {
                return Bytes::from_static(b": still here\n\n");
            }
        }
    }

    /// Joins the texts of as many entries as one piece allows; returns them and the number of the next entry.
    fn join(&self, entries: &[(u64, Entry)]) -> (Bytes, u64) {
        let (mut piece, mut next) = (String::new(), self.next);
        let profile = self.engine.profile_for(None);
        for (number, entry) in entries {
            if *number > next {
                piece.push_str(&self.texts.event(number - 1, "skipped", &Missed { missed: number - next }));
                next = *number;
            }
            // Selected by the entry and not by a cached text, which may be of an entry that was cleared.
            let kind = kind_of(entry)
                .filter(|kind| self.kinds.contains(kind) && self.scope.covers_entry(entry, &profile.keys));
            if let Some(kind) = kind {
                let text = self.texts.of(*number, || self.text(*number, kind, entry));
                if piece.is_empty() && text.len() > PIECE_BYTES {
                    return (text, number + 1);
                }
                if piece.len() + text.len() > PIECE_BYTES {
                    break;
                }
                piece.push_str(std::str::from_utf8(&text).unwrap_or_default());
            }
            next = number + 1;
        }
        (Bytes::from(piece), next)
    }

    fn text(&self, number: u64, kind: &str, entry: &Entry) -> String {
        let profile = self.engine.profile_for(None);
        let redactor = Redactor::new(&profile.keys);
        let shown = match entry {
            Entry::Request(request) => serde_json::to_value(requests::row(request, redactor)),
            Entry::Event(event) => serde_json::to_value(events::to_view(event, &self.engine.registry, redactor)),
            Entry::Attempt(record) => serde_json::to_value(StreamedAttempt {
                attempt: deliveries::attempt(record, redactor),
                delivery: record.delivery.id.as_str().into(),
                event: record.event.id.as_str().into(),
                event_type: record.event.event_type.clone(),
                subscription: record.delivery.subscription.as_str().into(),
                workspace: self.engine.registry.find(&record.event.workspace).map(|found| found.id().into()),
            }),
            Entry::Cleared => Ok(Value::Null),
            Entry::Notice(notice) => serde_json::to_value(to_line(notice, redactor)),
        };
        let mut view = shown.expect("texts and numbers always serialise");
        redactor.value(&mut view);
        self.texts.event(number, kind, &view)
    }
}
