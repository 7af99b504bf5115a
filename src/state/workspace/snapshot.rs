//! The JSON of a saved emulator or workspace: one struct, which is written from what the workspaces share with it, and read within the
//! budget of memory. `engine/snapshot` takes it and puts it in place.
//!
//! Instants are nanoseconds of the workspace's own clock; wall times are RFC 3339. Secrets and keys are not masked, because the state
//! could not be restored without them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufReader, Read, Seek};
use std::sync::{Arc, OnceLock};
use std::{fmt, mem};

use jiff::Timestamp;
use serde::de::{Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

use super::events::{EventRecord, HookUrl, PlannedDelivery};
use super::sources::{RandomSources, SavedSources};
use super::subscriptions::SubscriptionRecord;
use super::{Workspace, WorkspaceState};
use crate::clock::{Instant, SavedClock};
use crate::contract::signature::Tamper;
use crate::scenario::rule_counters::SavedCounter;
use crate::state::budget::Budget;
use crate::state::quota::Quota;
use crate::util::wording::shorten;

/// The value of the first field of every snapshot.
pub const SNAPSHOT_FORMAT: &str = "wrs-emulator snapshot";
/// The version of the form; a snapshot of another version is refused.
pub const SNAPSHOT_VERSION: u32 = 1;

/// How much of a document is read at once. A few bytes of it may become many in memory, so there must be room before each piece.
const PIECE_BYTES: usize = 64 * 1024;

/// Why a snapshot cannot be loaded. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SnapshotProblem(pub(crate) String);

/// The state of some workspaces, or of everything.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a snapshot")]
pub struct Snapshot {
    format: Cow<'static, str>,
    version: u32,
    /// The emulator's clock when the snapshot was taken.
    pub(crate) clock: SavedClock,
    /// State that belongs to no key; present if everything was saved.
    pub(crate) whole: Option<SavedGlobal>,
    /// By id.
    pub(crate) workspaces: Vec<SavedWorkspace>,
    /// The key of the call that sends it.
    #[serde(default, rename = "key", skip_serializing)]
    _key: IgnoredAny,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct SavedGlobal {
    pub(crate) seed: String,
    /// The workspace of requests without a key.
    pub(crate) anonymous: SavedWorkspace,
    pub(crate) scenarios: BTreeMap<Arc<str>, Arc<str>>,
    /// The scenarios active for every key without its own list.
    pub(crate) active: Vec<String>,
    /// How long they have been active, by the emulator's clock, in nanoseconds.
    pub(crate) active_for: u64,
    #[serde(rename = "knobs")]
    pub(crate) settings: Box<RawValue>,
    /// The scripted answers of the built-in receivers, by name.
    pub(crate) sinks: BTreeMap<String, Vec<u16>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a workspace")]
pub struct SavedWorkspace {
    pub(crate) key: Arc<str>,
    pub(crate) clock: SavedClock,
    pub(crate) sources: SavedSources,
    /// Null if it was not used.
    pub(crate) quota: Option<Quota>,
    pub(crate) subscriptions: Vec<Arc<SubscriptionRecord>>,
    pub(crate) scenarios: SavedScenarios,
    #[serde(rename = "knobs")]
    pub(crate) settings: Box<RawValue>,
    pub(crate) planned: Vec<SavedEmission>,
    /// Deliveries that are not settled.
    #[serde(deserialize_with = "read_deliveries")]
    pub(crate) deliveries: Vec<PendingDelivery>,
}

/// The progress of a workspace's scenarios.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedScenarios {
    pub(crate) active: Vec<String>,
    pub(crate) own: bool,
    /// How long they have been active, by the emulator's clock, in nanoseconds.
    pub(crate) active_for: u64,
    /// When they started for it, if they have.
    pub(crate) began: Option<Instant>,
    pub(crate) turns: Vec<SavedCounter>,
    pub(crate) steps: Vec<(u64, String)>,
    /// The same of scenarios that requests named.
    pub(crate) named_turns: Vec<SavedCounter>,
    pub(crate) named_steps: Vec<(u64, String)>,
}

/// A planned event. An emission is part of a scenario, so it is named by its fingerprint.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedEmission {
    pub(crate) emission: u64,
    pub(crate) at: Instant,
    /// When it is sent, if later.
    pub(crate) leaves: Option<Instant>,
}

/// A delivery that is not settled. It is written as a `SavedDelivery`.
#[derive(Debug)]
pub struct PendingDelivery {
    pub(crate) planned: Arc<PlannedDelivery>,
    pub(crate) event: Arc<EventRecord>,
    pub(crate) attempts: u32,
    pub(crate) due: Instant,
}

/// A delivery with its event: the form in which several deliveries of an event are independent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedDelivery<'a> {
    id: Cow<'a, str>,
    subscription: Cow<'a, str>,
    url: Cow<'a, str>,
    attempts: u32,
    due: Instant,
    event: Cow<'a, str>,
    event_type: Cow<'a, str>,
    created_at: Timestamp,
    body: Cow<'a, str>,
    tamper: Option<Cow<'a, str>>,
    /// The deliberate fault and who asked for it, in words; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    damage: Option<Cow<'a, str>>,
}

impl Snapshot {
    pub(crate) fn new(clock: SavedClock, whole: Option<SavedGlobal>, workspaces: Vec<SavedWorkspace>) -> Self {
        let (format, version) = (SNAPSHOT_FORMAT.into(), SNAPSHOT_VERSION);
        Self { format, version, clock, whole, workspaces, _key: IgnoredAny }
    }

    pub fn write(&self, to: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer(to, self).map_err(io::Error::from)
    }

    pub fn written(&self) -> Vec<u8> {
        let mut written = Vec::new();
        self.write(&mut written).expect("strings and numbers always serialise");
        written
    }

    /// Reads a document as long as there is room for the result.
    pub fn read(mut document: impl Read + Seek, budget: &Budget) -> Result<Self, SnapshotProblem> {
        check_version(&mut document, budget)?;
        let unreadable = |error: &dyn fmt::Display| SnapshotProblem(format!("the snapshot cannot be read: {error}"));
        document.rewind().map_err(|error| unreadable(&error))?;
        let mut json = serde_json::Deserializer::from_reader(Metered::pieces(&mut document, budget));
        serde_path_to_error::deserialize(&mut json).map_err(|error| unreadable(&error))
    }
}

/// Refuses documents that are not snapshots of this version.
fn check_version(document: &mut dyn Read, budget: &Budget) -> Result<(), SnapshotProblem> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Frame {
        format: Value,
        version: Value,
    }
    let frame: Frame = match serde_json::from_reader(Metered::pieces(document, budget)) {
        Ok(frame) => frame,
        Err(error) if error.is_data() => Frame::default(),
        Err(error) if error.is_io() => return Err(SnapshotProblem(format!("the snapshot cannot be read: {error}"))),
        Err(error) => return Err(SnapshotProblem(format!("the snapshot is not JSON: {error}"))),
    };
    if frame.format != SNAPSHOT_FORMAT {
        return Err(SnapshotProblem(format!("expected a snapshot (`format` is `{SNAPSHOT_FORMAT}`)")));
    }
    if frame.version != SNAPSHOT_VERSION {
        let version = frame.version.to_string();
        let version = shorten(&version, 40);
        return Err(SnapshotProblem(format!(
            "the snapshot has version {version}, and this emulator reads version {SNAPSHOT_VERSION}; make the snapshot again with this one"
        )));
    }
    Ok(())
}

/// Reads only while there is room.
struct Metered<'a> {
    from: &'a mut dyn Read,
    budget: &'a Budget,
}

impl<'a> Metered<'a> {
    fn pieces(from: &'a mut dyn Read, budget: &'a Budget) -> BufReader<Self> {
        BufReader::with_capacity(PIECE_BYTES, Self { from, budget })
    }
}

impl Read for Metered<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.budget.room_to_load().map_err(io::Error::other)?;
        self.from.read(into)
    }
}

impl Serialize for PendingDelivery {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { planned, event, attempts, due } = self;
        let saved = SavedDelivery {
            id: Cow::from(&planned.id),
            subscription: Cow::from(&planned.subscription),
            url: Cow::from(planned.url.as_str()),
            attempts: *attempts,
            due: *due,
            event: Cow::from(&event.id),
            event_type: Cow::from(&event.event_type),
            created_at: event.created_at,
            body: String::from_utf8_lossy(&event.body),
            tamper: event.tamper.map(|tamper| Cow::from(tamper.name())),
            damage: event.damage.as_deref().map(Cow::from),
        };
        saved.serialize(serializer)
    }
}

/// Reads deliveries one by one. Those of an event follow each other, and share it again, as those to one URL share that: the document may
/// be many times as long as the saved state.
fn read_deliveries<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PendingDelivery>, D::Error> {
    struct Deliveries;
    impl<'de> Visitor<'de> for Deliveries {
        type Value = Vec<PendingDelivery>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of deliveries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut deliveries: Vec<PendingDelivery> = Vec::new();
            let mut urls = HashMap::new();
            while let Some(saved) = list.next_element()? {
                let delivery = pending(saved, deliveries.last(), &mut urls);
                deliveries.push(delivery.map_err(A::Error::custom)?);
            }
            Ok(deliveries)
        }
    }
    from.deserialize_seq(Deliveries)
}

fn pending(
    saved: SavedDelivery<'_>,
    previous: Option<&PendingDelivery>,
    urls: &mut HashMap<String, HookUrl>,
) -> Result<PendingDelivery, String> {
    let SavedDelivery { id, attempts, due, created_at, .. } = saved;
    let unknown = |name: &str| format!("delivery {id}: tamper: no `{name}`");
    let tamper =
        saved.tamper.as_deref().map(|name| Tamper::from_name(name).ok_or_else(|| unknown(name))).transpose()?;
    let url = if let Some(known) = urls.get(&*saved.url) {
        known.clone()
    } else {
        let parsed = Url::parse(&saved.url).map_err(|error| format!("delivery {id}: url: {error}"))?;
        let url = HookUrl::new(&saved.url, Arc::new(parsed));
        urls.insert(saved.url.into_owned(), url.clone());
        url
    };
    let is_its = |event: &&Arc<EventRecord>| {
        event.id == saved.event
            && event.event_type == saved.event_type
            && event.created_at == created_at
            && event.body == saved.body.as_bytes()
            && event.tamper == tamper
            && event.damage.as_deref() == saved.damage.as_deref()
    };
    let event = match previous.map(|delivery| &delivery.event).filter(is_its) {
        Some(event) => Arc::clone(event),
        None => Arc::new(EventRecord {
            id: saved.event.into_owned(),
            event_type: saved.event_type.into_owned(),
            created_at,
            body: saved.body.into_owned().into_boxed_str().into_boxed_bytes().into(),
            due,
            tamper,
            damage: saved.damage.as_deref().map(Arc::from),
            ..EventRecord::default()
        }),
    };
    let planned = PlannedDelivery {
        id: id.into_owned(),
        subscription: saved.subscription.into_owned(),
        url,
        attempts_before: attempts,
        due: Some(due),
        serial: OnceLock::new(),
    };
    Ok(PendingDelivery { planned: Arc::new(planned), event, attempts, due })
}

impl WorkspaceState {
    /// The used part of the quota, for a snapshot; `None` if nothing was used.
    pub(crate) fn used_quota(&self) -> Option<Quota> {
        Some(&self.quota).filter(|quota| quota.is_used()).cloned()
    }
}

impl SavedWorkspace {
    /// Moves what a workspace keeps itself into a new one, which is not in the registry yet. The engine restores the rest.
    pub(crate) fn restore_to(&mut self, workspace: Workspace) -> Result<Arc<Workspace>, String> {
        let mut state = workspace.lock();
        state.sources = RandomSources::restored(&self.sources)?;
        state.quota = self.quota.take().map(Quota::restored).unwrap_or_default();
        for record in mem::take(&mut self.subscriptions) {
            state.subscriptions.restore(record).map_err(|problem| format!("subscriptions: {problem}"))?;
        }
        state.counters.restore(0, &self.scenarios.named_turns, &self.scenarios.named_steps);
        drop(state);
        Ok(Arc::new(workspace))
    }
}
