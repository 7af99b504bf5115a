//! Layer 7, the whole: builds the parts from [`Settings`], owns their tasks, drains them in order; the embedding API.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use wrs_emulator::Emulator;
//!
//! let emulator = Emulator::builder().seed(7).set("rate_limit.requests=5").start().await?;
//! let status_url = format!("{}/v1/system/status", emulator.base_url());
//! // … call it with any client and `Authorization: Bearer sk_test_local` …
//! emulator.stop().await;
//! # drop(status_url);
//! # Ok::<(), wrs_emulator::StartError>(())
//! # }).unwrap();
//! ```

mod builder;
mod front;
mod reload;
mod settings;
mod state;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

pub use builder::Builder;
pub use settings::{ClockSetting, Settings, StartError};

use crate::clock::{Clock, Moment, Now, Random, Seed};
use crate::contract::profile::Profile;
use crate::control::{Access, Control, MOST_VIEWERS, Mover, settle};
use crate::http::body::BodyReader;
use crate::http::emissions::Emissions;
use crate::http::service::Api;
use crate::http::tls::ServerTls;
use crate::http::{bind, serve};
use crate::journal::{Entry, Journal, Notice};
use crate::scenario::{FileTexts, Library, Watcher};
use crate::webhook::book::Book;
use crate::webhook::client::Client;
use crate::webhook::deliver::{Deliverer, hand_over};
use crate::webhook::dial::Reach;
use crate::webhook::egress::Egress;
use crate::webhook::emitter::Emitter;
use crate::webhook::sink::{Receipt, Sinks};
use crate::webhook::tls::Trust;
use crate::workspace::{EventRecord, FireProblem, FireRequest, Registry};
use front::Front;
use reload::reload;
use state::StateFile;
pub(crate) use state::write_whole;

/// A running emulator. Dropping it stops it without a drain; [`Emulator::stop`] drains first.
#[derive(Debug)]
pub struct Emulator {
    address: SocketAddr,
    control_address: Option<SocketAddr>,
    control_token: Option<String>,
    tls: bool,
    handle: ControlHandle,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    state: Option<StateFile>,
    _watcher: Option<Watcher>,
}

/// What a test may do to a running emulator without going over a socket.
#[derive(Clone, Debug)]
pub struct ControlHandle {
    library: Arc<Library>,
    registry: Arc<Registry>,
    journal: Arc<Journal>,
    book: Arc<Book>,
    sinks: Arc<Sinks>,
}

impl Emulator {
    /// An emulator with default settings on a free loopback port, to be changed before it starts.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts an emulator. Everything is bound and built before anything runs, so a returned emulator is ready.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let listener =
            bind(settings.listen).await.map_err(|source| StartError::Bind { address: settings.listen, source })?;
        let address = listener.local_addr().map_err(|source| StartError::Bind { address: settings.listen, source })?;
        let control_listener = match settings.control_listen {
            None => None,
            Some(wanted) => Some(bind(wanted).await.map_err(|source| StartError::Bind { address: wanted, source })?),
        };
        let control_address = match &control_listener {
            None => None,
            Some(listener) => Some(listener.local_addr().map_err(|source| StartError::Bind { address, source })?),
        };
        let names = settings.certificate_names();
        let tls = settings.tls.as_ref().map(|setting| ServerTls::new(setting, &names)).transpose()?;
        let trust = Trust::new(&settings.webhook_ca, settings.webhook_insecure)?;
        let seed = settings.seed.map_or_else(Seed::from_entropy, Seed::from_number);
        let clock = match settings.clock {
            ClockSetting::Real => Clock::real(),
            ClockSetting::FrozenNow => Clock::frozen_now(),
            ClockSetting::FrozenAt(at) => Clock::frozen(at),
        };
        settings.check_folders()?;
        let library = Arc::new(Library::new(settings.profile.clone()));
        let registry = Arc::new(Registry::new(seed, clock, settings.most_workspaces));
        let journal = Arc::new(Journal::new(settings.most_journal_entries, settings.most_journal_bytes));
        let (book, sinks) = (Arc::new(Book::default()), Arc::new(Sinks::default()));
        let bodies = Arc::new(BodyReader::new(&settings.limits));
        let egress = Arc::new(Egress::new(settings.forwards.clone(), &settings.allow_egress));
        let client = Client::new(Reach { egress: Arc::clone(&egress), trust: Arc::new(trust) });
        let control_token = control_token(&settings, control_address.unwrap_or(address));
        let handle = ControlHandle {
            library: Arc::clone(&library),
            registry: Arc::clone(&registry),
            journal: Arc::clone(&journal),
            book: Arc::clone(&book),
            sinks: Arc::clone(&sinks),
        };
        let (emissions, orders) = Emissions::new();
        let (watcher, files) = watch(&settings, &handle)?;
        settings.fill(&library, files, registry.clock().now())?;
        let api = Arc::new(Api::new(
            Arc::clone(&library),
            Arc::clone(&registry),
            Arc::clone(&journal),
            Arc::clone(&bodies),
            emissions.clone(),
            &settings.limits,
        ));
        let emitter = Emitter::new(Arc::clone(&library), Arc::clone(&journal), Arc::clone(&book));
        let control = Arc::new(Control {
            library: Arc::clone(&library),
            registry: Arc::clone(&registry),
            journal: Arc::clone(&journal),
            book: Arc::clone(&book),
            sinks: Arc::clone(&sinks),
            bodies,
            emissions,
            emitter: Arc::clone(&emitter),
            ca_pem: tls.as_ref().and_then(ServerTls::ca_pem).map(str::to_owned),
            viewers: Arc::new(Semaphore::new(MOST_VIEWERS)),
            texts: Arc::default(),
            scenario_folders: settings.scenario_folders.clone(),
            access: Access::new(control_token.clone(), &settings.allow_hosts),
        });
        let deliverer = Deliverer::new(journal, registry, library, book, sinks, egress, client);

        let (stop, stopping) = watch::channel(false);
        let mut tasks = Vec::new();
        let state = settings.state.map(|file| StateFile::open(Arc::clone(&control), file)).transpose()?;
        if let Some(state) = &state {
            tasks.push(tokio::spawn(state.clone().keep(stopping.clone())));
        }
        let (limits, grace) = (settings.limits, settings.grace);
        let on_main_port = control_listener.is_none().then(|| Arc::clone(&control));
        let front = Arc::new(Front { api: Some(Arc::clone(&api)), control: on_main_port, refusals: Arc::clone(&api) });
        tasks.push(tokio::spawn(serve(listener, front, tls.clone(), limits, stopping.clone(), grace)));
        if let Some(listener) = control_listener {
            let front = Arc::new(Front { api: None, control: Some(control), refusals: api });
            tasks.push(tokio::spawn(serve(listener, front, tls.clone(), limits, stopping.clone(), grace)));
        }
        tasks.push(tokio::spawn(emitter.run(orders, stopping.clone())));
        tasks.push(tokio::spawn(deliverer.run(stopping)));
        Ok(Self {
            address,
            control_address,
            control_token,
            tls: tls.is_some(),
            handle,
            stop,
            tasks,
            state,
            _watcher: watcher,
        })
    }

    /// Where the emulated API is served, such as `http://127.0.0.1:9770`.
    pub fn base_url(&self) -> String {
        format!("{}://{}", self.scheme(), self.address)
    }

    /// Where the control API is served: the base URL, unless it has a listener of its own.
    pub fn control_url(&self) -> String {
        format!("{}://{}", self.scheme(), self.control_address.unwrap_or(self.address))
    }

    fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// The token that control calls need, given or made at start.
    pub fn control_token(&self) -> Option<&str> {
        self.control_token.as_deref()
    }

    /// What a test may do without going over a socket.
    pub fn control(&self) -> &ControlHandle {
        &self.handle
    }

    /// Stops accepting, finishes requests, tries due deliveries; returns when that is done or the grace period is over.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        for task in self.tasks.drain(..) {
            // A task that panicked has nothing left to drain.
            let _ = task.await;
        }
        if let Some(state) = &self.state {
            state.save_or_tell();
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl ControlHandle {
    /// The emulator's clock.
    pub fn clock(&self) -> &Clock {
        self.registry.clock()
    }

    /// Moves the emulator's clock forward and returns when everything that was due on the way is done, in order.
    pub async fn advance(&self, by: Duration) -> Now {
        Mover::Emulator(Arc::clone(&self.registry)).advance(by).await
    }

    /// Waits until everything that is due is done: events planned, deliveries attempted.
    pub async fn settle(&self) {
        for workspace in self.registry.all() {
            settle(&workspace).await;
        }
    }

    /// When something has to be done next for any key, or for requests without one, as time since the start.
    pub fn next_due_of_all(&self) -> Option<Moment> {
        let all = self.registry.all().into_iter().chain([self.registry.anonymous()]);
        all.filter_map(|workspace| workspace.agenda().next_due()).min()
    }

    /// When a key's workspace has something to do next, by its clock: an attempt, an emission, a delayed answer.
    pub fn next_due(&self, key: &str) -> Option<Moment> {
        self.registry.find(key)?.agenda().next_due()
    }

    /// The journal.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// The deliveries.
    pub fn deliveries(&self) -> &Arc<Book> {
        &self.book
    }

    /// What the built-in receiver `NAME.sink.localhost` got, oldest first.
    pub fn received(&self, sink: &str) -> Vec<Receipt> {
        self.sinks.received(sink)
    }

    /// The profile in force for a key.
    pub fn profile(&self, key: &str) -> Arc<Profile> {
        Arc::clone(&self.library.load().setup_for(Some(key)).profile)
    }

    /// Fires an event at the matching subscriptions of a key.
    pub fn fire(&self, key: &str, request: FireRequest) -> Result<Arc<EventRecord>, FireProblem> {
        let (workspace, _) = self.registry.open(key, self.registry.clock().now());
        let now = workspace.clock().now();
        let event = Arc::new(workspace.lock().fire(workspace.name(), request, &self.profile(key), now)?);
        hand_over(&self.journal, &self.book, &workspace, Arc::clone(&event));
        Ok(event)
    }

    /// Puts a line into the journal.
    pub fn note(&self, message: impl Into<String>) {
        let at = self.registry.clock().now().wall;
        let notice = Notice { at, workspace: None, message: message.into(), warning: false };
        self.journal.append(Entry::Notice(Arc::new(notice)));
    }
}

/// Starts watching the scenario folders; what they hold at present comes back. Nothing to watch is no watcher.
fn watch(settings: &Settings, handle: &ControlHandle) -> Result<(Option<Watcher>, FileTexts), StartError> {
    if settings.scenario_folders.is_empty() {
        return Ok((None, FileTexts::default()));
    }
    let handle = handle.clone();
    let watched = Watcher::start_with(settings.scenario_folders.clone(), move |texts| reload(&handle, texts));
    let (watcher, files) =
        watched.map_err(|error| StartError::Setting(format!("cannot watch the scenario folders: {error}")))?;
    Ok((Some(watcher), files))
}

/// The token given, or one made where the control API is reachable from beyond this machine and was not opened.
fn control_token(settings: &Settings, address: SocketAddr) -> Option<String> {
    use rand::Rng as _;
    let needed = !address.ip().is_loopback() && !settings.control_open;
    settings.control_token.clone().filter(|token| !token.is_empty()).or_else(|| {
        needed.then(|| {
            let mut random: Random = Seed::from_entropy().source("control token");
            format!("ctl_{:016x}{:016x}", random.next_u64(), random.next_u64())
        })
    })
}
