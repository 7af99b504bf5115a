//! Layer 7, the whole emulator: builds the parts from [`Settings`], owns their tasks, drains them in order; the embedding API.
//!
//! A Rust test starts an emulator, calls it with any HTTP client, and stops it. Each test can have its own: a start needs a few
//! milliseconds and a free port.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use wrs_emulator::Emulator;
//!
//! let emulator = Emulator::builder().seed(7).set("rate_limit.requests=5").start().await?;
//! let url = emulator.base_url(); // a free port on loopback
//! // … your client, with `Authorization: Bearer sk_test_local` …
//! emulator.stop().await?;
//! # drop(url);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! [`ControlHandle`] controls time, events, resets and snapshots. Everything else is in the control API at
//! [`Emulator::control_url`].

mod builder;
mod file_limit;
mod handle;
mod settings;
mod state;

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hyper::body::Bytes;
use hyper::{Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, JoinHandle};

pub use builder::Builder;
pub use handle::{ControlHandle, ResetProblem};
pub use settings::{ClockSetting, Settings, StartError};
pub use state::StopProblem;

use crate::clock::{Clock, Now, Random, Seed, machine};
use crate::contract::error::ErrorKind;
use crate::contract::variation::HeaderLetters;
use crate::control::{Access, Control, ControlError, LastFindings, MAX_VIEWERS, PREFIX, Texts, WrongTokens};
use crate::http::body::{RequestBody, ResponseBody};
use crate::http::connection_state::ConnectionState;
use crate::http::handler::{Handler, HandlerResponse, Limits, Unreadable};
use crate::http::host::check_head;
use crate::http::listener::{ListenAddress, Listener};
use crate::http::serve;
use crate::http::service::Api;
use crate::http::tls::{ServerTls, Trust};
use crate::redact::Redactor;
use crate::scenario::{FileTexts, ScenarioStore, Watcher};
use crate::state::budget::Budget;
use crate::state::engine::Engine;
use crate::state::journal::Journal;
use crate::state::workspace::{Registry, Workspace};
use crate::ui::{asks_for_page, to_page};
use crate::util::flag::Flag;
use crate::util::tasks::catch_panic;
use crate::webhook::client::Client;
use crate::webhook::deliver::Deliverer;
use crate::webhook::dial::DialContext;
use crate::webhook::egress::Egress;
use crate::webhook::resolve::Resolver;
pub(crate) use file_limit::FileLimit;
use file_limit::Shares;
use state::StateFile;

/// A running emulator. Dropping it stops it without a drain; [`Emulator::stop`] drains first.
#[derive(Debug)]
pub struct Emulator {
    base_url: String,
    control_url: String,
    control_token: Option<String>,
    ca_pem: Option<String>,
    handle: ControlHandle,
    stop: Flag,
    tasks: Vec<JoinHandle<()>>,
    /// The file of the state, and the task that saves changes until the end.
    state: Option<(Arc<StateFile>, JoinHandle<()>)>,
    grace: Duration,
    _watcher: Option<Watcher>,
}

impl Emulator {
    /// Starts an emulator. Everything is bound and built before anything runs, so a returned emulator is ready.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        settings.check_clocks()?;
        let names = settings.certificate_names();
        let tls = settings.tls.as_ref().map(|setting| ServerTls::new(setting, &names)).transpose()?;
        let trust = Trust::new(&settings.webhook_ca, settings.webhook_insecure)?;
        settings.check_folders()?;
        let seed = settings.seed.map_or_else(Seed::from_entropy, Seed::from_number);
        let stop = Flag::default();
        let (engine, to_deliver) = new_engine(&settings, seed, stop.clone());
        let started_at = engine.registry.clock().now().wall;
        let watcher = load_scenarios(&settings, &engine)?;
        // Bound only now, so that problems in the settings are reported whether or not the port is free.
        let (listener, address) = bind_listener(settings.listen)?;
        let (control_listener, control_address) = settings.control_listen.map(bind_listener).transpose()?.unzip();
        let shares = Shares::for_process(settings.limits.connections, 1 + usize::from(control_listener.is_some()));
        if let Some(message) = shares.warning() {
            engine.note(None, message, false);
        }
        let scheme = if tls.is_some() { "https" } else { "http" };
        let base_url = format!("{scheme}://{address}");
        let control_url = format!("{scheme}://{}", control_address.unwrap_or(address));
        let ca_pem = tls.as_ref().and_then(ServerTls::ca_pem).map(str::to_owned);
        let control_token = control_token(&settings);
        let bodies = Arc::new(settings.limits.body_reader());
        let api = Arc::new(Api {
            engine: Arc::clone(&engine),
            bodies: Arc::clone(&bodies),
            uri_bytes: settings.limits.uri_bytes,
        });
        let control = Arc::new(Control {
            engine: Arc::clone(&engine),
            bodies,
            ca_pem: ca_pem.clone(),
            viewers: Arc::new(Semaphore::new(MAX_VIEWERS)),
            texts: Arc::new(Texts::new(&seed, started_at)),
            access: Access::new(control_token.clone(), &settings.allow_hosts),
            stopping: stop.clone(),
            wrong_tokens: WrongTokens::new(settings.wrong_token_pause),
            last_refused: Mutex::default(),
            last_findings: LastFindings::default(),
            seed: settings.seed,
            started_at,
            base_url: base_url.clone(),
            control_url: control_url.clone(),
        });
        let deliverer = new_deliverer(&settings, &engine, trust, &shares);

        let mut tasks = Vec::new();
        let state = match settings.state {
            Some(file) => {
                let file = StateFile::open(Arc::clone(&engine), file).await?;
                Some((Arc::clone(&file), tokio::spawn(file.keep())))
            }
            None => None,
        };
        let (limits, grace) = (Limits { connections: shares.connections, ..settings.limits }, settings.grace);
        let mut spawn_server = |listener, router| {
            let server = serve(listener, Arc::new(router), tls.clone(), limits, stop.clone(), grace);
            tasks.push(tokio::spawn(server));
        };
        let on_main_port = control_listener.is_none().then(|| Arc::clone(&control));
        spawn_server(listener, Router { api: Arc::clone(&api), serves_api: true, control: on_main_port });
        if let Some(listener) = control_listener {
            spawn_server(listener, Router { api, serves_api: false, control: Some(control) });
        }
        tasks.push(tokio::spawn(deliverer.run(to_deliver, stop.clone())));
        let handle = ControlHandle::new(engine);
        Ok(Self { base_url, control_url, control_token, ca_pem, handle, stop, tasks, state, grace, _watcher: watcher })
    }

    /// Where the emulated API is served, such as `http://127.0.0.1:9770`.
    pub fn base_url(&self) -> String {
        self.base_url.clone()
    }

    /// Where the control API is served: the base URL, unless it has its own listener.
    pub fn control_url(&self) -> String {
        self.control_url.clone()
    }

    /// The authority made for `--tls self-signed`, as PEM.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// The token that control calls need, given or made at start.
    pub fn control_token(&self) -> Option<&str> {
        self.control_token.as_deref()
    }

    /// Controls this emulator without a socket.
    pub fn control(&self) -> &ControlHandle {
        &self.handle
    }

    /// Stops accepting connections, ends streams and waiting calls, finishes requests, and attempts deliveries that are due. After
    /// the grace period, whatever is left is aborted. Then the state is saved, if anything has changed, however long that takes.
    ///
    /// Fails if the state could not be saved; the emulator has stopped all the same.
    pub async fn stop(self) -> Result<(), StopProblem> {
        self.stop_by(pending()).await
    }

    /// Stops as [`Self::stop`] does. Once `hurry` completes, nothing is waited for any more but the save.
    pub(crate) async fn stop_by(mut self, hurry: impl Future<Output = ()>) -> Result<(), StopProblem> {
        self.stop.raise();
        let tasks = std::mem::take(&mut self.tasks);
        let aborts: Vec<_> = tasks.iter().map(JoinHandle::abort_handle).collect();
        tokio::select! {
            biased;
            // A task that panicked has nothing left to drain.
            _ = join_all(tasks) => {}
            () = tokio::time::sleep(self.grace) => {}
            () = hurry => {}
        }
        aborts.iter().for_each(AbortHandle::abort);
        match self.state.take() {
            Some((file, keeper)) => {
                keeper.abort();
                file.save().await
            }
            None => Ok(()),
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop.raise();
        for task in self.tasks.iter().chain(self.state.iter().map(|(_, keeper)| keeper)) {
            task.abort();
        }
    }
}

/// Routes each request of a listener to the control API, the page or the emulated API.
struct Router {
    /// The emulated API. On every listener it also answers bytes that are not an HTTP request.
    api: Arc<Api>,
    serves_api: bool,
    /// The control API, if this listener serves it.
    control: Option<Arc<Control>>,
}

impl Handler for Router {
    fn handle(&self, request: Request<RequestBody>, connection: &Arc<ConnectionState>) -> HandlerResponse {
        let path = request.uri().path();
        let for_control = path.starts_with(PREFIX) || path == PREFIX.trim_end_matches('/');
        match &self.control {
            Some(control) if for_control => {
                let (control, connection) = (Arc::clone(control), Arc::clone(connection));
                HandlerResponse::Later(Box::pin(async move { call(&control, request, &connection).await }))
            }
            Some(_) if path == "/" && asks_for_page(request.method(), request.headers()) => {
                HandlerResponse::Ready(to_page())
            }
            _ if self.serves_api => self.api.handle(request, connection),
            _ => {
                let nothing = ControlError::new(ErrorKind::NotFound, "this port serves the control API only");
                HandlerResponse::Ready(nothing.into_response(Redactor::new(&self.api.engine.profile_for(None).keys)))
            }
        }
    }

    fn now(&self) -> Now {
        self.api.engine.registry.clock().now()
    }

    fn header_names(&self) -> HeaderLetters {
        self.api.engine.profile_for(None).variation.header_names
    }

    fn warn(&self, message: &str) {
        self.api.engine.note(None, message, true);
    }

    fn refuse(&self, status: StatusCode, sent: Unreadable) -> Bytes {
        self.api.refuse(status, sent)
    }
}

async fn call(
    control: &Arc<Control>,
    request: Request<RequestBody>,
    connection: &ConnectionState,
) -> Response<ResponseBody> {
    let profile = control.profile();
    let redactor = Redactor::new(&profile.keys);
    let host = check_head(request.method(), request.uri(), request.version(), request.headers());
    match host.map(|host| String::from_utf8_lossy(host).into_owned()) {
        Ok(host) => catch_panic(control.handle(request, &host, connection))
            .await
            .unwrap_or_else(|_| ControlError::internal().into_response(redactor)),
        Err(problem) => ControlError::new(problem.kind(), problem.to_string()).into_response(redactor),
    }
}

/// The engine by these settings, with an empty library.
fn new_engine(settings: &Settings, seed: Seed, stopping: Flag) -> (Arc<Engine>, UnboundedReceiver<Arc<Workspace>>) {
    let clock = match settings.clock {
        ClockSetting::Real => Clock::real(),
        ClockSetting::Frozen(at) => Clock::frozen(at.unwrap_or_else(machine::wall_time)),
        ClockSetting::Auto(at) => Clock::auto(at.unwrap_or_else(machine::wall_time)),
    };
    let journal = Arc::new(Journal::new(settings.max_journal_entries, &Budget::new(settings.max_memory_bytes)));
    let registry = Registry::new(seed, clock, settings.max_workspaces, Arc::clone(&journal));
    let library = ScenarioStore::new(settings.profile.clone());
    Engine::new(library, registry, journal, settings.scenario_folders.clone(), stopping)
}

/// Starts watching the scenario folders, loads their present files and activates the initial scenarios. Without folders nothing is
/// watched.
fn load_scenarios(settings: &Settings, engine: &Arc<Engine>) -> Result<Option<Watcher>, StartError> {
    let (watcher, files) = if settings.scenario_folders.paths().next().is_some() {
        let reloading = Arc::clone(engine);
        let watched =
            Watcher::start(settings.scenario_folders.clone(), move |texts| drop(reloading.reload_changed(texts)));
        let (watcher, files) =
            watched.map_err(|error| StartError::Setting(format!("cannot watch the scenario folders: {error}")))?;
        (Some(watcher), files)
    } else {
        (None, FileTexts::default())
    };
    settings.fill(&engine.library, files, engine.registry.clock().now())?;
    engine.log_start();
    Ok(watcher)
}

fn new_deliverer(settings: &Settings, engine: &Arc<Engine>, trust: Trust, shares: &Shares) -> Arc<Deliverer> {
    let egress = Arc::new(Egress::new(&settings.allow_egress));
    let resolver = Arc::new(Resolver::new(settings.look_up.clone()));
    let context = DialContext { egress: Arc::clone(&egress), trust: Arc::new(trust), resolver };
    Deliverer::new(Arc::clone(engine), egress, Client::new(context, shares.kept), shares.attempts)
}

fn bind_listener(requested: ListenAddress) -> Result<(Listener, SocketAddr), StartError> {
    let refused = |source| StartError::Bind { address: requested, source };
    let listener = Listener::bind(requested).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// The token given, or a generated one if the control API is reachable beyond loopback and `control_open` is not set.
fn control_token(settings: &Settings) -> Option<String> {
    let address = settings.control_listen.unwrap_or(settings.listen);
    token_for(settings.control_token.clone(), address, settings.control_open)
}

/// The token that is required at an address: the one given, or a generated one beyond loopback unless `is_open`.
pub(crate) fn token_for(given: Option<String>, address: ListenAddress, is_open: bool) -> Option<String> {
    use rand::Rng as _;
    // An empty token comes from an unset variable and would protect nothing.
    given.filter(|token| !token.is_empty()).or_else(|| {
        (!address.ip().is_loopback() && !is_open).then(|| {
            let mut random: Random = Seed::from_entropy().source("control token");
            format!("ctl_{:016x}{:016x}", random.next_u64(), random.next_u64())
        })
    })
}
