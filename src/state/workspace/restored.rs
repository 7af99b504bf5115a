//! Reads the JSON of a snapshot straight into new workspaces, which the engine then puts in place. There must be room for each item of
//! a list before the next is read, so that no document exceeds the budget, whatever is in it.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use url::Url;

use super::events::{EventRecord, HookUrl, PlannedDelivery};
use super::saved::{
    SNAPSHOT_FORMAT, SNAPSHOT_VERSION, SavedDelivery, SavedEmission, SavedScenarios, SavedWorkspace, SnapshotProblem,
};
use super::sources::{RandomSources, SavedSources};
use super::subscriptions::{SubscriptionRecord, Subscriptions};
use super::{Registry, Workspace, WorkspaceState};
use crate::clock::{SavedClock, Seed};
use crate::contract::ids::IdKind;
use crate::contract::keys::check_token;
use crate::contract::signature::Tamper;
use crate::redact::Redactor;
use crate::settings::Profile;
use crate::state::budget::Budget;
use crate::state::quota::Quota;

/// A snapshot that was read. Nothing of it is in force yet.
#[derive(Debug)]
pub struct RestoredSnapshot {
    pub clock: SavedClock,
    pub whole: Option<RestoredGlobal>,
    pub workspaces: Vec<RestoredWorkspace>,
}

#[derive(Debug)]
pub struct RestoredGlobal {
    pub seed: Seed,
    pub anonymous: RestoredWorkspace,
    pub scenarios: BTreeMap<String, String>,
    pub active: Vec<String>,
    pub active_for: u64,
    pub knobs: Box<RawValue>,
    pub sinks: BTreeMap<String, Vec<u16>>,
}

/// A workspace that is not in the registry yet, and its records that are kept elsewhere.
#[derive(Debug)]
pub struct RestoredWorkspace {
    pub workspace: Arc<Workspace>,
    pub clock: SavedClock,
    pub scenarios: SavedScenarios,
    pub knobs: Box<RawValue>,
    pub planned: Vec<SavedEmission>,
    pub events: Vec<EventRecord>,
}

impl RestoredWorkspace {
    /// The same for another key, with new ids for its subscriptions, as ids are unique. The error says why there is no room for it.
    pub(crate) fn copied(
        saved: SavedWorkspace,
        key: &Arc<str>,
        registry: &Registry,
        profile: &Profile,
    ) -> Result<Self, String> {
        let SavedWorkspace { clock, state: kept, scenarios, knobs, planned, .. } = saved;
        let workspace = registry.fresh(Arc::clone(key));
        let mut state = workspace.lock();
        let WorkspaceState { sources, quota, subscriptions, counters, .. } = &mut *state;
        *quota = kept.quota.unwrap_or_default();
        for record in &kept.subscriptions {
            let mut copy = SubscriptionRecord::clone(record);
            copy.id = sources.make_id(IdKind::Subscription, profile, registry.clock().now());
            subscriptions.restore(copy)?;
        }
        counters.restore(0, &scenarios.named_turns, &scenarios.named_steps);
        drop(state);
        Ok(Self { workspace: Arc::new(workspace), clock, scenarios, knobs, planned, events: Vec::new() })
    }
}

/// What a snapshot is read with.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotReader<'a> {
    pub registry: &'a Registry,
    pub budget: &'a Budget,
    pub redactor: Redactor<'a>,
}

impl SnapshotReader<'_> {
    /// Reads a document; the error says why it cannot be loaded. `open` is called again to find that out.
    pub fn read<'de, R: serde_json::de::Read<'de>>(
        &self,
        mut open: impl FnMut() -> io::Result<serde_json::Deserializer<R>>,
    ) -> Result<RestoredSnapshot, SnapshotProblem> {
        let mut read = || {
            let mut draft = DocumentDraft { with: *self, clock: None, whole: None, workspaces: Vec::new() };
            let mut document = open().map_err(serde_json::Error::io)?;
            Fill(&mut draft).deserialize(&mut document)?;
            document.end()?;
            draft.finish().ok_or_else(|| serde_json::Error::custom("it is incomplete"))
        };
        read().or_else(|error| {
            open().map_or(Ok(()), |mut document| check_version(&mut document))?;
            Err(SnapshotProblem(format!("the snapshot cannot be read: {error}")))
        })
    }
}

/// Refuses documents that are not snapshots of this version.
fn check_version<'de, R: serde_json::de::Read<'de>>(
    document: &mut serde_json::Deserializer<R>,
) -> Result<(), SnapshotProblem> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Frame {
        format: Box<RawValue>,
        version: Box<RawValue>,
    }
    let frame = match Frame::deserialize(&mut *document).and_then(|frame| document.end().map(|()| frame)) {
        Err(error) if !error.is_data() => {
            return Err(SnapshotProblem(format!("the snapshot is not JSON: {error}")));
        }
        frame => frame.unwrap_or_default(),
    };
    if serde_json::from_str::<String>(frame.format.get()).ok().as_deref() != Some(SNAPSHOT_FORMAT) {
        return Err(SnapshotProblem(format!("expected a snapshot (`format` is `{SNAPSHOT_FORMAT}`)")));
    }
    if frame.version.get() != SNAPSHOT_VERSION.to_string() {
        let version: String = frame.version.get().chars().take(40).collect();
        return Err(SnapshotProblem(format!(
            "the snapshot has version {version}, and this emulator reads version {SNAPSHOT_VERSION}; make the snapshot again with this one"
        )));
    }
    Ok(())
}

/// Something that is read from an object, field by field. Each field occurs once.
trait Draft {
    const FIELDS: &'static [&'static str];
    const OPTIONAL: &'static [&'static str] = &[];

    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<(), A::Error>;
}

/// Reads the fields of an object into a draft; false if there is `null` in its place.
struct Fill<'d, D>(&'d mut D);

impl<'de, D: Draft> DeserializeSeed<'de> for Fill<'_, D> {
    type Value = bool;

    fn deserialize<S: Deserializer<'de>>(self, source: S) -> Result<bool, S::Error> {
        source.deserialize_option(self)
    }
}

impl<'de, D: Draft> Visitor<'de> for Fill<'_, D> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_some<S: Deserializer<'de>>(self, source: S) -> Result<bool, S::Error> {
        source.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut open = D::FIELDS.to_vec();
        while let Some(name) = map.next_key::<String>()? {
            let Some(at) = open.iter().position(|field| *field == name) else {
                return Err(A::Error::custom(format!("field `{name}` is unknown, or there twice")));
            };
            self.0.read(open.remove(at), &mut map)?;
        }
        match open.into_iter().find(|field| !D::OPTIONAL.contains(field)) {
            Some(missing) => Err(A::Error::missing_field(missing)),
            None => Ok(true),
        }
    }
}

/// Most bytes of a parsed value, as a multiple of its text: `[1,1,1]` as JSON.
const EXPANSION: usize = 20;
/// So much of that needs no room: the values of real snapshots are short.
const FREE: usize = 16 * 1024 * 1024;

/// Parses one value, if there is room for what a long one may become.
fn parse<T: DeserializeOwned>(text: &RawValue, budget: &Budget) -> Result<T, String> {
    let expanded = (text.get().len() * EXPANSION).saturating_sub(FREE);
    budget.room_to_load(expanded).map_err(|full| full.to_string())?;
    serde_json::from_str(text.get()).map_err(|error| error.to_string())
}

fn value<'de, T: DeserializeOwned, A: MapAccess<'de>>(map: &mut A, budget: &Budget) -> Result<T, A::Error> {
    let text: Box<RawValue> = map.next_value()?;
    parse(&text, budget).map_err(A::Error::custom)
}

/// Reads a list, and passes on each item before it reads the next.
struct Each<'a, T, F> {
    budget: &'a Budget,
    pass: F,
    item: PhantomData<T>,
}

fn each<'de, T, A>(map: &mut A, budget: &Budget, pass: impl FnMut(T) -> Result<(), String>) -> Result<(), A::Error>
where
    T: DeserializeOwned,
    A: MapAccess<'de>,
{
    map.next_value_seed(Each { budget, pass, item: PhantomData })
}

impl<'de, T: DeserializeOwned, F: FnMut(T) -> Result<(), String>> DeserializeSeed<'de> for Each<'_, T, F> {
    type Value = ();

    fn deserialize<S: Deserializer<'de>>(self, source: S) -> Result<(), S::Error> {
        source.deserialize_seq(self)
    }
}

impl<'de, T: DeserializeOwned, F: FnMut(T) -> Result<(), String>> Visitor<'de> for Each<'_, T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(text) = list.next_element::<Box<RawValue>>()? {
            let item = parse(&text, self.budget);
            drop(text);
            item.and_then(|item| (self.pass)(item)).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// Scenarios by name.
struct Texts<'a>(&'a mut BTreeMap<String, String>, &'a Budget);

impl<'de> DeserializeSeed<'de> for Texts<'_> {
    type Value = ();

    fn deserialize<S: Deserializer<'de>>(self, source: S) -> Result<(), S::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Texts<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("texts by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(texts, budget) = self;
        while let Some((name, text)) = map.next_entry::<String, String>()? {
            budget.room_to_load(0).map_err(A::Error::custom)?;
            texts.insert(name, text);
        }
        Ok(())
    }
}

struct DocumentDraft<'a> {
    with: SnapshotReader<'a>,
    clock: Option<SavedClock>,
    whole: Option<GlobalDraft<'a>>,
    workspaces: Vec<RestoredWorkspace>,
}

impl DocumentDraft<'_> {
    fn finish(self) -> Option<RestoredSnapshot> {
        let Self { clock, whole, workspaces, .. } = self;
        let whole = match whole {
            Some(whole) => Some(whole.finish()?),
            None => None,
        };
        Some(RestoredSnapshot { clock: clock?, whole, workspaces })
    }
}

impl Draft for DocumentDraft<'_> {
    /// `key` is that of the call that sends it.
    const FIELDS: &'static [&'static str] = &["format", "version", "clock", "whole", "workspaces", "key"];
    const OPTIONAL: &'static [&'static str] = &["whole", "key"];

    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<(), A::Error> {
        match field {
            // `check_version` reports the problem.
            "format" if map.next_value::<String>()? != SNAPSHOT_FORMAT => return Err(A::Error::custom("the format")),
            "version" if map.next_value::<u32>()? != SNAPSHOT_VERSION => return Err(A::Error::custom("the version")),
            "clock" => self.clock = Some(value(map, self.with.budget)?),
            "whole" => {
                let mut whole = GlobalDraft::new(self.with);
                self.whole = map.next_value_seed(Fill(&mut whole))?.then_some(whole);
            }
            "workspaces" => map.next_value_seed(Workspaces(self.with, &mut self.workspaces))?,
            "key" => drop(map.next_value::<IgnoredAny>()?),
            _ => {}
        }
        Ok(())
    }
}

struct GlobalDraft<'a> {
    with: SnapshotReader<'a>,
    seed: Option<Seed>,
    anonymous: Option<RestoredWorkspace>,
    scenarios: BTreeMap<String, String>,
    active: Vec<String>,
    active_for: u64,
    knobs: Box<RawValue>,
    sinks: BTreeMap<String, Vec<u16>>,
}

impl<'a> GlobalDraft<'a> {
    fn new(with: SnapshotReader<'a>) -> Self {
        Self {
            with,
            seed: None,
            anonymous: None,
            scenarios: BTreeMap::new(),
            active: Vec::new(),
            active_for: 0,
            knobs: Box::default(),
            sinks: BTreeMap::new(),
        }
    }

    fn finish(self) -> Option<RestoredGlobal> {
        let Self { seed, anonymous, scenarios, active, active_for, knobs, sinks, .. } = self;
        Some(RestoredGlobal { seed: seed?, anonymous: anonymous?, scenarios, active, active_for, knobs, sinks })
    }
}

impl Draft for GlobalDraft<'_> {
    const FIELDS: &'static [&'static str] =
        &["seed", "anonymous", "scenarios", "active", "active_for", "knobs", "sinks"];

    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<(), A::Error> {
        let budget = self.with.budget;
        match field {
            "seed" => {
                let seed = Seed::from_text(&value::<String, _>(map, budget)?);
                self.seed = Some(seed.ok_or_else(|| A::Error::custom("whole.seed: expected 32 bytes as base64"))?);
            }
            "anonymous" => {
                let text: Box<RawValue> = map.next_value()?;
                let read = self.with.anonymous(&text);
                self.anonymous = Some(read.map_err(|problem| A::Error::custom(format!("whole.anonymous: {problem}")))?);
            }
            "scenarios" => map.next_value_seed(Texts(&mut self.scenarios, budget))?,
            "active" => self.active = value(map, budget)?,
            "active_for" => self.active_for = value(map, budget)?,
            "knobs" => self.knobs = map.next_value()?,
            _ => self.sinks = value(map, budget)?,
        }
        Ok(())
    }
}

impl SnapshotReader<'_> {
    /// The workspace of requests without a key. Older versions saved only its random sources.
    fn anonymous(&self, text: &RawValue) -> Result<RestoredWorkspace, String> {
        let mut draft = WorkspaceDraft::new(*self, true);
        if let Ok(sources) = parse::<SavedSources>(text, self.budget) {
            draft.sources = Some(RandomSources::restored(&sources)?);
        } else {
            let read = Fill(&mut draft).deserialize(&mut serde_json::Deserializer::from_str(text.get()));
            read.map_err(|error| error.to_string())?;
        }
        draft.finish().ok_or_else(|| "it is incomplete".to_owned())
    }
}

/// Reads the workspaces into a list.
struct Workspaces<'a, 'l>(SnapshotReader<'a>, &'l mut Vec<RestoredWorkspace>);

impl<'de> DeserializeSeed<'de> for Workspaces<'_, '_> {
    type Value = ();

    fn deserialize<S: Deserializer<'de>>(self, source: S) -> Result<(), S::Error> {
        source.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Workspaces<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of workspaces")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self(with, read) = self;
        loop {
            let mut draft = WorkspaceDraft::new(with, false);
            if list.next_element_seed(Fill(&mut draft))?.is_none() {
                return Ok(());
            }
            read.push(draft.finish().ok_or_else(|| A::Error::custom("a workspace is incomplete"))?);
            with.budget.room_to_load(0).map_err(A::Error::custom)?;
        }
    }
}

struct WorkspaceDraft<'a> {
    with: SnapshotReader<'a>,
    is_anonymous: bool,
    key: Option<String>,
    clock: Option<SavedClock>,
    sources: Option<RandomSources>,
    quota: Option<Quota>,
    subscriptions: Subscriptions,
    scenarios: SavedScenarios,
    knobs: Box<RawValue>,
    planned: Vec<SavedEmission>,
    events: Events,
}

impl<'a> WorkspaceDraft<'a> {
    fn new(with: SnapshotReader<'a>, is_anonymous: bool) -> Self {
        Self {
            with,
            is_anonymous,
            key: None,
            clock: None,
            sources: None,
            quota: None,
            subscriptions: Subscriptions::within(with.budget),
            scenarios: SavedScenarios::default(),
            knobs: Box::default(),
            planned: Vec::new(),
            events: Events::default(),
        }
    }

    /// A problem with a field, and whose workspace it is about.
    fn about(&self, field: &str, problem: &str) -> String {
        let whose = self.key.as_ref().filter(|_| !self.is_anonymous);
        let whose = whose.map_or_else(String::new, |key| format!("workspace of `{}`: ", self.with.redactor.key(key)));
        let field = if problem.starts_with(field) { String::new() } else { format!("{field}: ") };
        format!("{whose}{field}{problem}")
    }

    fn finish(self) -> Option<RestoredWorkspace> {
        let Self { with, is_anonymous, key, clock, sources, quota, .. } = self;
        let registry = with.registry;
        let (workspace, clock) = if is_anonymous {
            (registry.new_anonymous(), clock.unwrap_or_else(|| registry.clock().save()))
        } else {
            (registry.fresh(Arc::from(key?)), clock?)
        };
        let mut state = workspace.lock();
        state.sources = sources?;
        state.quota = quota.map(Quota::restored).unwrap_or_default();
        state.subscriptions = self.subscriptions;
        state.counters.restore(0, &self.scenarios.named_turns, &self.scenarios.named_steps);
        drop(state);
        let Self { scenarios, knobs, planned, events: Events { list: events, .. }, .. } = self;
        Some(RestoredWorkspace { workspace: Arc::new(workspace), clock, scenarios, knobs, planned, events })
    }
}

impl Draft for WorkspaceDraft<'_> {
    const FIELDS: &'static [&'static str] =
        &["key", "clock", "sources", "quota", "subscriptions", "scenarios", "knobs", "planned", "deliveries"];

    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<(), A::Error> {
        let budget = self.with.budget;
        let read = match field {
            "key" => value::<String, _>(map, budget).and_then(|key| {
                if !self.is_anonymous {
                    check_token(&key).map_err(|refusal| A::Error::custom(refusal.to_string()))?;
                }
                self.key = Some(key);
                Ok(())
            }),
            "clock" => value(map, budget).map(|clock| self.clock = Some(clock)),
            "sources" => value::<SavedSources, _>(map, budget)
                .and_then(|saved| RandomSources::restored(&saved).map_err(A::Error::custom))
                .map(|sources| self.sources = Some(sources)),
            "quota" => value(map, budget).map(|quota| self.quota = quota),
            "subscriptions" => each(map, budget, |record| self.subscriptions.restore(record)),
            "scenarios" => value(map, budget).map(|scenarios| self.scenarios = scenarios),
            "knobs" => map.next_value().map(|knobs| self.knobs = knobs),
            "planned" => each(map, budget, |planned| {
                self.planned.push(planned);
                budget.room_to_load(0).map_err(|full| full.to_string())
            }),
            _ => each(map, budget, |saved| self.events.add(saved, budget)),
        };
        read.map_err(|error| A::Error::custom(self.about(field, &error.to_string())))
    }
}

/// The events of the deliveries that are not settled, before they have a workspace. The deliveries of an event follow each other.
#[derive(Default)]
struct Events {
    list: Vec<EventRecord>,
    urls: HashMap<String, HookUrl>,
}

impl Events {
    fn add(&mut self, saved: SavedDelivery<'static>, budget: &Budget) -> Result<(), String> {
        let SavedDelivery { id, .. } = &saved;
        let tamper = |name: &str| Tamper::from_name(name).ok_or_else(|| format!("delivery {id}: tamper: no `{name}`"));
        let tamper = saved.tamper.as_deref().map(tamper).transpose()?;
        let delivery = PlannedDelivery {
            url: self.url(&saved.url).map_err(|error| format!("delivery {id}: url: {error}"))?,
            id: saved.id.into_owned(),
            subscription: saved.subscription.into_owned(),
            attempts_before: saved.attempts,
            due: Some(saved.due),
            serial: OnceLock::new(),
        };
        let is_same = |event: &&mut EventRecord| {
            event.id == saved.event
                && event.event_type == saved.event_type
                && event.created_at == saved.created_at
                && event.body == saved.body.as_bytes()
                && event.tamper == tamper
                && event.damage.as_deref() == saved.damage.as_deref()
        };
        budget.room_to_load(0).map_err(|full| full.to_string())?;
        match self.list.last_mut().filter(is_same) {
            Some(event) => event.deliveries.push(Arc::new(delivery)),
            None => self.list.push(EventRecord {
                id: saved.event.into_owned(),
                event_type: saved.event_type.into_owned(),
                created_at: saved.created_at,
                body: saved.body.into_owned().into_boxed_str().into_boxed_bytes().into(),
                due: saved.due,
                deliveries: vec![Arc::new(delivery)],
                tamper,
                damage: saved.damage.as_deref().map(Arc::from),
                ..EventRecord::default()
            }),
        }
        Ok(())
    }

    /// Deliveries to one URL share it.
    fn url(&mut self, text: &str) -> Result<HookUrl, url::ParseError> {
        if let Some(known) = self.urls.get(text) {
            return Ok(known.clone());
        }
        let url = HookUrl::new(text, Arc::new(Url::parse(text)?));
        self.urls.insert(text.to_owned(), url.clone());
        Ok(url)
    }
}
