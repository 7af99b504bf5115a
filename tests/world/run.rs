//! Runs one world: the emulator, its receivers and clients, and what is done to it, all by one seed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use wrs_emulator::app::ClockSetting;
use wrs_emulator::clock::simulated;
use wrs_emulator::util::net::simulated::Network;
use wrs_emulator::{Emulator, Settings};

use crate::clients::{self, Exchange};
use crate::facts::{Fact, Reading};
use crate::plan::{Mode, Plan, START, chance, key};
use crate::receivers::{Posts, Receiver};
use crate::wire::{Connection, PORT, control, emulator};

/// Longest that a world lasts, in its own time.
const LONGEST: Duration = Duration::from_hours(6);

/// Something after which what was under way before may be unknown.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// Whose; everybody's if there is none.
    pub(crate) key: Option<String>,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) is_reset: bool,
}

/// What a viewer of the stream has seen of one life of the emulator.
#[derive(Debug, Default)]
pub(crate) struct Viewed {
    pub(crate) numbers: Vec<u64>,
    pub(crate) cleared: bool,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) network: Network,
    pub(crate) posts: Posts,
    pub(crate) facts: Mutex<Vec<Fact>>,
    reading: Mutex<Option<Reading>>,
    pub(crate) exchanges: Mutex<Vec<Exchange>>,
    pub(crate) cuts: Mutex<Vec<Cut>>,
    /// When and for how long hosts were cut off.
    pub(crate) silences: Mutex<Vec<(IpAddr, Instant, Instant)>>,
    pub(crate) problems: Mutex<Vec<String>>,
    pub(crate) viewed: Mutex<Vec<Viewed>>,
    /// How many changes there were that move quotas in a way that a client cannot know.
    pub(crate) disturbances: AtomicUsize,
    pub(crate) connections: AtomicUsize,
    version: AtomicUsize,
    marker: AtomicUsize,
    emulator: tokio::sync::Mutex<Option<Emulator>>,
    folder: PathBuf,
    /// When each marked event was fired.
    pub(crate) fired: Mutex<BTreeMap<String, Instant>>,
    /// What listings said of the deliveries of each key at the end.
    pub(crate) listed: Mutex<Vec<(String, Vec<Value>)>>,
}

/// What there is to compare and to judge.
pub(crate) struct Played {
    pub(crate) trace: String,
    pub(crate) world: Arc<World>,
}

/// Where the scenarios and states of this process are: of the same length in every process, so that a seed repeats.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("world/{:010}", std::process::id()))
}

pub(crate) fn play(seed: u64) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        let plan = Plan::of(seed);
        let epoch = Duration::try_from(START.as_duration()).expect("it is after 1970");
        simulated::begin(epoch, seed);
        let network = Network::begin(seed, plan.latency_ms);
        let world = Arc::new(World::new(plan, network));
        if timeout(LONGEST, world.live()).await.is_err() {
            world.problem("the world does not come to its end".to_owned());
        }
        let state = std::fs::read_to_string(world.folder.join("state.json")).unwrap_or_default();
        let _ = std::fs::remove_dir_all(&world.folder);
        Played { trace: format!("{}{state}", world.network.trace()), world }
    })
}

impl World {
    fn new(plan: Plan, network: Network) -> Self {
        let folder = folder().join(plan.seed.to_string());
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("scenarios")).expect("the folder can be made");
        Self {
            plan,
            network,
            posts: Posts::default(),
            facts: Mutex::default(),
            reading: Mutex::default(),
            exchanges: Mutex::default(),
            cuts: Mutex::default(),
            silences: Mutex::default(),
            problems: Mutex::default(),
            viewed: Mutex::default(),
            disturbances: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            version: AtomicUsize::new(0),
            marker: AtomicUsize::new(0),
            emulator: tokio::sync::Mutex::default(),
            folder,
            listed: Mutex::default(),
            fired: Mutex::default(),
        }
    }

    pub(crate) fn problem(&self, text: String) {
        self.network.note(&format!("PROBLEM {text}"));
        self.problems.lock().push(text);
    }

    /// Reads what was appended to the journal, then adds a mark.
    fn mark(&self, mark: Option<Fact>) {
        let mut facts = self.facts.lock();
        if let Some(reading) = &mut *self.reading.lock() {
            reading.read(&mut facts);
        }
        facts.extend(mark);
    }

    fn write_scenario(&self) {
        let version = self.version.fetch_add(1, Ordering::Relaxed);
        let text = self.plan.scenario(version);
        std::fs::write(self.folder.join("scenarios/story.toml"), text).expect("the file can be written");
    }

    async fn start(self: &Arc<Self>) {
        let at = (self.plan.mode != Mode::Real).then_some(START);
        let mut builder = Emulator::builder()
            .listen(emulator())
            .seed(self.plan.seed)
            .scenario_folder(self.folder.join("scenarios"))
            .scenario("story");
        for setting in &self.plan.settings {
            builder = builder.set(setting);
        }
        let state = self.folder.join("state.json");
        let builder = builder.configure(|settings: &mut Settings| {
            settings.limits.connections = 100;
            settings.state = Some(state);
            settings.clock = match self.plan.mode {
                Mode::Real => ClockSetting::Real,
                Mode::Frozen => ClockSetting::Frozen(at),
                Mode::Auto => ClockSetting::Auto(at),
            };
        });
        let started = builder.start().await;
        let emulator = started.unwrap_or_else(|problem| panic!("the emulator does not start: {problem}"));
        let journal = Arc::clone(emulator.control().journal());
        *self.reading.lock() = Some(Reading { journal: Arc::clone(&journal), next: 1 });
        *self.emulator.lock().await = Some(emulator);
        self.viewed.lock().push(Viewed::default());
        let life = self.viewed.lock().len() - 1;
        let reader = journal.reader(wrs_emulator::state::journal::Interest::Everything);
        let following = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                reader.appended().await;
                if following.viewed.lock().len() - 1 > life {
                    return;
                }
                following.mark(None);
            }
        });
        tokio::spawn(Arc::clone(self).view(life));
    }

    /// Follows the stream for as long as the emulator lives.
    async fn view(self: Arc<Self>, life: usize) {
        let Some(mut connection) = Connection::open(Ipv4Addr::new(10, 1, 1, 1).into()).await else { return };
        let request =
            format!("GET /_emulator/stream?key=* HTTP/1.1\r\nhost: 127.0.0.1:{PORT}\r\nlast-event-id: 0\r\n\r\n");
        if connection.send(request.as_bytes()).await.is_none() || connection.head().await.is_none() {
            return;
        }
        let mut unread = Vec::new();
        while let Some(Some(chunk)) = connection.chunk().await {
            unread.extend(chunk);
            let Some(end) = unread.windows(2).rposition(|two| two == b"\n\n") else { continue };
            let whole: Vec<u8> = unread.drain(..end + 2).collect();
            let text = String::from_utf8_lossy(&whole).into_owned();
            let numbers =
                text.lines().filter_map(|line| line.strip_prefix("id: ")?.rsplit_once('-')?.1.parse::<u64>().ok());
            let mut viewed = self.viewed.lock();
            viewed[life].numbers.extend(numbers);
        }
    }

    async fn stop(&self) {
        if let Some(emulator) = self.emulator.lock().await.take()
            && let Err(problem) = emulator.stop().await
        {
            self.problem(format!("the state is not saved: {problem}"));
        }
        self.mark(None);
    }

    fn state_file(&self) -> Value {
        let text = std::fs::read_to_string(self.folder.join("state.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    async fn restart(self: &Arc<Self>) {
        let began = Instant::now();
        self.disturb();
        self.stop().await;
        self.mark(Some(Fact::Restarted));
        let saved = self.state_file();
        self.start().await;
        self.cut(None, began, false);
        if let Some(difference) = difference(self.plan.mode, "", &saved, &self.state_file()) {
            self.problem(format!("the state after the restart is not the one saved: {difference}"));
        }
    }

    fn disturb(&self) {
        self.disturbances.fetch_add(1, Ordering::Relaxed);
    }

    fn cut(&self, key: Option<String>, began: Instant, is_reset: bool) {
        self.cuts.lock().push(Cut { key, began, ended: Instant::now(), is_reset });
    }

    /// Makes a call that is answered with 200; says so if it is not, unless the emulator is just starting again.
    async fn call(&self, method: &str, path: &str, body: Option<Value>, accepted: &[u16]) -> Option<Value> {
        let restarts = self.viewed.lock().len();
        let answer = control(method, path, body.as_ref()).await;
        match answer {
            Some(answer) if accepted.contains(&answer.status) => (answer.status == 200).then(|| answer.json()),
            Some(answer) => {
                let said = String::from_utf8_lossy(&answer.body).into_owned();
                self.problem(format!("{method} {path} {body:?}: {} {said}", answer.status));
                None
            }
            None if self.viewed.lock().len() > restarts => None,
            None => {
                self.problem(format!("{method} {path}: no answer"));
                None
            }
        }
    }

    async fn live(self: &Arc<Self>) {
        self.write_scenario();
        let mut receivers: Vec<Receiver> =
            (0..self.plan.receivers).map(|number| Receiver::new(&self.plan, number, &self.posts)).collect();
        receivers.iter_mut().for_each(Receiver::start);
        self.start().await;
        clients::begin(Arc::clone(self)).await;
        let mut saved = None;
        for round in 0..self.plan.rounds {
            let mut actors = JoinSet::new();
            let mut chance = chance(self.plan.seed, &format!("round {round}"));
            for client in 0..chance.random_range(2..=5) {
                actors.spawn(clients::act(Arc::clone(self), round, client));
            }
            actors.spawn(Arc::clone(self).steer(round));
            self.trouble(&mut receivers, round).await;
            actors.join_all().await;
            // Nothing is asked now, so what is counted is known.
            match chance.random_range(0..6) {
                0 => saved = Some(self.save().await),
                1 => {
                    if let Some(saved) = &saved {
                        self.load(saved).await;
                    }
                }
                2 => self.restart().await,
                _ => {}
            }
        }
        self.finish(&mut receivers).await;
    }

    /// Both without a socket, so that it is known what came before and what after.
    async fn save(&self) -> Vec<u8> {
        let emulator = self.emulator.lock().await;
        let saved = emulator.as_ref().expect("it runs").control().snapshot().await;
        self.mark(Some(Fact::Saved));
        saved
    }

    async fn load(&self, saved: &[u8]) {
        let emulator = self.emulator.lock().await;
        let began = Instant::now();
        self.disturb();
        self.note_cleared();
        self.mark(None);
        if let Err(problem) = emulator.as_ref().expect("it runs").control().restore(saved) {
            self.problem(format!("the saved state is refused: {problem}"));
        }
        self.facts.lock().push(Fact::Loaded);
        self.mark(None);
        self.cut(None, began, false);
    }

    fn note_cleared(&self) {
        if let Some(viewed) = self.viewed.lock().last_mut() {
            viewed.cleared = true;
        }
    }

    /// Lets receivers go away and come back.
    async fn trouble(&self, receivers: &mut [Receiver], round: usize) {
        let mut chance = chance(self.plan.seed, &format!("trouble {round}"));
        for receiver in receivers {
            sleep(Duration::from_millis(chance.random_range(0..1_500))).await;
            let pause = Duration::from_millis(chance.random_range(50..3_000));
            match chance.random_range(0..4) {
                0 => {
                    receiver.stop();
                    sleep(pause).await;
                    receiver.start();
                }
                1 => {
                    let began = Instant::now();
                    self.network.cut_off(receiver.host);
                    sleep(pause).await;
                    self.network.restore(receiver.host);
                    self.silences.lock().push((receiver.host, began, Instant::now()));
                }
                _ => {}
            }
        }
    }

    /// Control calls, one after the other.
    async fn steer(self: Arc<Self>, round: usize) {
        let mut chance = chance(self.plan.seed, &format!("control {round}"));
        for _ in 0..chance.random_range(4..=12) {
            sleep(Duration::from_millis(chance.random_range(0..800))).await;
            let key = key(chance.random_range(0..self.plan.keys));
            match chance.random_range(0..24) {
                0..=7 => {
                    let marker = self.marker.fetch_add(1, Ordering::Relaxed);
                    let kind = if chance.random_bool(0.7) { "workflow.completed" } else { "reference.matched" };
                    let wait = if chance.random_bool(0.3) { "?wait=3s" } else { "" };
                    let marker = format!("m{marker}.");
                    self.fired.lock().insert(marker.clone(), Instant::now());
                    let body = json!({ "key": key, "type": kind, "data": { "marker": marker },
                        "count": chance.random_range(1..4) });
                    self.call("POST", &format!("events{wait}"), Some(body), &[200, 404]).await;
                }
                8 => drop(self.call("POST", "events", Some(json!({ "key": key, "emit": "burst" })), &[200]).await),
                9..=11 => {
                    self.disturb();
                    let by = format!("{}ms", chance.random_range(1..6_000));
                    let body = if chance.random_bool(0.5) {
                        json!({ "advance": by })
                    } else {
                        json!({ "advance": by, "key": key })
                    };
                    self.call("POST", "clock", Some(body), &[200]).await;
                }
                12 | 13 => {
                    let key = chance.random_bool(0.7).then_some(key);
                    self.note_cleared();
                    self.disturb();
                    let began = Instant::now();
                    let body = json!({ "key": key.as_deref().unwrap_or("*") });
                    self.call("POST", "reset", Some(body), &[200]).await;
                    self.cut(key, began, true);
                }
                14 => {
                    self.disturb();
                    self.write_scenario();
                    self.call("POST", "scenarios/reload", None, &[200]).await;
                }
                15..=17 => {
                    let Some(id) = self.known_subscription(&key, &mut chance).await else { continue };
                    let body = json!({ "key": key });
                    let path = format!("subscriptions/{id}/rotate");
                    if let Some(answer) = self.call("POST", &path, Some(body), &[200, 404]).await {
                        let secret = answer["secret"].as_str().unwrap_or_default().to_owned();
                        self.mark(Some(Fact::Rotated { key, id, secret }));
                    }
                }
                18 => {
                    let Some(id) = self.known_subscription(&key, &mut chance).await else { continue };
                    self.mark(Some(Fact::Deleting { key: key.clone(), id: id.clone(), is_done: false }));
                    let body = json!({ "key": key });
                    let path = format!("subscriptions/{id}");
                    if self.call("DELETE", &path, Some(body), &[200, 404]).await.is_some() {
                        self.mark(Some(Fact::Deleting { key, id, is_done: true }));
                    }
                }
                19 => drop(self.call("GET", "run?key=*", None, &[200]).await),
                20 => drop(self.call("GET", &format!("verdict?key={key}"), None, &[200]).await),
                21 => drop(self.call("GET", "explain/latest?key=*", None, &[200, 404]).await),
                22 => drop(self.call("GET", "deliveries?key=*", None, &[200]).await),
                _ => self.restart().await,
            }
        }
    }

    async fn known_subscription(&self, key: &str, chance: &mut impl rand::Rng) -> Option<String> {
        let listed = self.call("GET", &format!("subscriptions?key={key}"), None, &[200]).await?;
        let ids: Vec<&str> = listed["data"].as_array()?.iter().filter_map(|one| one["id"].as_str()).collect();
        (!ids.is_empty()).then(|| ids[chance.random_range(0..ids.len())].to_owned())
    }

    /// Lets everything come to its end, and looks.
    async fn finish(self: &Arc<Self>, receivers: &mut [Receiver]) {
        receivers.iter_mut().for_each(Receiver::start);
        let body = json!({ "advance": "2h", "timeout": "300s" });
        self.call("POST", "clock", Some(body), &[200]).await;
        sleep(Duration::from_secs(2)).await;
        for number in 0..self.plan.keys {
            let key = key(number);
            let mut all = Vec::new();
            let mut cursor = String::new();
            while let Some(page) =
                self.call("GET", &format!("deliveries?key={key}&limit=100{cursor}"), None, &[200]).await
            {
                all.extend(page["data"].as_array().cloned().unwrap_or_default());
                let Some(next) = page["next_cursor"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            self.listed.lock().push((key, all));
        }
        self.call("GET", "run?key=*", None, &[200]).await;
        self.call("GET", "snapshot?key=*", None, &[200]).await;
        sleep(Duration::from_secs(1)).await;
        self.stop().await;
        receivers.iter_mut().for_each(Receiver::stop);
    }
}

/// Where two documents differ first.
fn difference(mode: Mode, path: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        // A clock that runs has gone on since.
        _ if mode == Mode::Real && [".moment", ".now", ".active_for", ".turns"].iter().any(|of| path.ends_with(of)) => {
            None
        }
        // What is due is fired as soon as the state is in place.
        _ if [".planned", ".deliveries", ".event_random", ".event_serial"].iter().any(|of| path.ends_with(of)) => None,
        (Value::Object(one), Value::Object(other)) => {
            let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let (one, other) = (one.get(name).unwrap_or(&Value::Null), other.get(name).unwrap_or(&Value::Null));
                difference(mode, &format!("{path}.{name}"), one, other)
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            (0..one.len()).find_map(|at| difference(mode, &format!("{path}[{at}]"), &one[at], &other[at]))
        }
        _ => (one != other).then(|| format!("{path}: {one} and {other}")),
    }
}
