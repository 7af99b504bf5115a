//! The settings with which an emulator is started, defaults filled in. The settings of the emulated API are in `crate::settings`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::machine::{UnusableClock, check_machine};
use crate::clock::{Now, check_wall};
use crate::diagnostic::{Diagnostic, render_all};
use crate::http::handler::Limits;
use crate::http::listener::ListenAddress;
use crate::http::tls::{TlsProblem, TlsSetting, TrustProblem};
use crate::scenario::{FileTexts, Folders, ScenarioStore};
use crate::settings::Layered;
use crate::state::budget::DEFAULT_BYTES;
use crate::state::journal::MAX_ENTRIES;
use crate::state::workspace::MAX_WORKSPACES;
use crate::webhook::resolve::LookUp;

/// How the clock starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockSetting {
    /// It runs with the machine's clock.
    #[default]
    Real,
    /// Frozen at this time, or at the machine's present time.
    Frozen(Option<Timestamp>),
    /// At this time, or the machine's present time; it jumps to the next due instant while a call waits and nothing is in flight.
    Auto(Option<Timestamp>),
}

/// The settings with which an emulator is started.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the emulated API is served; port 0 picks a free one.
    pub listen: ListenAddress,
    /// Where the control API is served, if not on the listener of the emulated API.
    pub control_listen: Option<ListenAddress>,
    /// The token that control calls require.
    pub control_token: Option<String>,
    /// How long a call with a wrong token waits for its answer.
    pub wrong_token_pause: Duration,
    /// Require no token even if the control API is reachable beyond loopback.
    pub control_open: bool,
    /// Host names that the control API accepts besides local ones.
    pub allow_hosts: Vec<String>,
    /// The profile: defaults, file and assignments.
    pub profile: Layered,
    /// Folders of scenario files, watched while running.
    pub scenario_folders: Folders,
    /// Scenarios active from the start, in order.
    pub scenarios: Vec<String>,
    /// Scenarios given as text; active from the start.
    pub scenario_texts: Vec<String>,
    /// Fixes every id, secret and dice roll; fresh entropy if absent.
    pub seed: Option<u64>,
    /// How the clock starts.
    pub clock: ClockSetting,
    /// Serve TLS instead of plain HTTP.
    pub tls: Option<TlsSetting>,
    /// PEM files with the certificate authorities trusted for webhook receivers.
    pub webhook_ca: Vec<PathBuf>,
    /// Accept any certificate of a webhook receiver.
    pub webhook_insecure: bool,
    /// Public hosts that webhooks may go to, or `any`.
    pub allow_egress: Vec<String>,
    /// Resolves the host names that webhooks go to.
    pub look_up: LookUp,
    /// Limits on connections and requests.
    pub limits: Limits,
    /// Maximum number of entries in the journal.
    pub max_journal_entries: usize,
    /// The budget of memory in bytes. It is measured by [`measure_memory_by`](crate::measure_memory_by): without that, as in a test that
    /// embeds emulators, only the limits on numbers and sizes bound the memory.
    pub max_memory_bytes: usize,
    /// Maximum number of workspaces.
    pub max_workspaces: usize,
    /// How long a stop may take.
    pub grace: Duration,
    /// The file that keeps the state between runs.
    pub state: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(),
            control_listen: None,
            control_token: None,
            wrong_token_pause: Duration::from_millis(100),
            control_open: false,
            allow_hosts: Vec::new(),
            profile: Layered::default(),
            scenario_folders: Folders::default(),
            scenarios: Vec::new(),
            scenario_texts: Vec::new(),
            seed: None,
            clock: ClockSetting::Real,
            tls: None,
            webhook_ca: Vec::new(),
            webhook_insecure: false,
            allow_egress: Vec::new(),
            look_up: LookUp::default(),
            limits: Limits::default(),
            max_journal_entries: MAX_ENTRIES,
            max_memory_bytes: DEFAULT_BYTES,
            max_workspaces: MAX_WORKSPACES,
            grace: Duration::from_secs(5),
            state: None,
        }
    }
}

impl Settings {
    /// The names in a self-signed certificate.
    pub(super) fn certificate_names(&self) -> Vec<String> {
        let local = ["localhost", "127.0.0.1", "::1", "host.docker.internal", "wrs-emulator"].map(str::to_owned);
        let own = Some(self.listen.ip()).filter(|address| !address.is_loopback() && !address.is_unspecified());
        local
            .into_iter()
            .chain(own.map(|address| address.to_string()))
            .chain(self.allow_hosts.iter().cloned())
            .collect()
    }

    /// Refuses a clock of the machine, or a time of the emulator's, with which no request could be answered.
    pub(super) fn check_clocks(&self) -> Result<(), StartError> {
        check_machine()?;
        match self.clock {
            ClockSetting::Frozen(Some(at)) | ClockSetting::Auto(Some(at)) => {
                check_wall(at).map(drop).map_err(|problem| StartError::Setting(format!("--clock: {problem}")))
            }
            ClockSetting::Real | ClockSetting::Frozen(None) | ClockSetting::Auto(None) => Ok(()),
        }
    }

    /// Refuses folders that were named but do not exist. While the emulator runs they may appear and disappear.
    pub(super) fn check_folders(&self) -> Result<(), StartError> {
        match self.scenario_folders.given.iter().find(|folder| !folder.is_dir()) {
            None => Ok(()),
            Some(folder) => {
                let message = format!("--scenarios: `{}` is not a folder that can be read", folder.display());
                Err(StartError::Setting(message))
            }
        }
    }

    /// Loads the scenario files and texts and activates the initial scenarios. A broken file fails the start only if its scenario
    /// is to be active.
    pub(super) fn fill(&self, library: &ScenarioStore, files: FileTexts, now: Now) -> Result<(), StartError> {
        let found = library.reload_files(files, now.instant).found;
        let mut active: Vec<String> = self.scenarios.clone();
        for (text, number) in self.scenario_texts.iter().zip(1..) {
            let name = format!("inline-{number}");
            library.put_inline(&name, text, now.instant).map_err(StartError::Scenarios)?;
            active.push(name);
        }
        if !active.is_empty() {
            let names: Vec<&str> = active.iter().map(String::as_str).collect();
            let activated = library.activate(None, &names, now.instant);
            activated.map_err(|problems| StartError::Scenarios(with_all_of_their_files(problems, &found)))?;
        }
        library.mark_start();
        Ok(())
    }
}

/// Extends each problem with the other problems of its file.
fn with_all_of_their_files(problems: Vec<Diagnostic>, found: &[Diagnostic]) -> Vec<Diagnostic> {
    let mut all = Vec::new();
    for problem in problems {
        let of_file: Vec<_> =
            found.iter().filter(|other| problem.file.is_some() && other.file == problem.file).collect();
        // Its message may have the number of the others.
        if of_file.iter().any(|other| other.code == problem.code && other.span == problem.span) {
            all.extend(of_file.into_iter().cloned());
        } else {
            all.push(problem);
        }
    }
    all
}

/// Why an emulator could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: ListenAddress,
        /// The system's error.
        source: std::io::Error,
    },
    /// A certificate file cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustProblem),
    /// The server's certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsProblem),
    /// A scenario is broken or missing.
    #[error("the scenarios cannot be used\n{}", render_all(.0, false))]
    Scenarios(Vec<Diagnostic>),
    /// The machine's clock cannot be used.
    #[error(transparent)]
    Clock(#[from] UnusableClock),
    /// A setting is wrong.
    #[error("{0}")]
    Setting(String),
}
