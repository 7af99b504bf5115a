//! Arguments that several commands share: the emulator's address, whether to print JSON, files to write; parsers of values; the examples in
//! help.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use clap::Args;
use url::{Host, Url};

use super::failure::Failure;
use super::started::{BackgroundState, Record, Served, started_here};
use crate::advice::Audience;
use crate::contract::{DEFAULT_ADDRESS, DEFAULT_PORT, DEFAULT_URL};
use crate::http::listener::{ListenAddress, Listener};
use crate::util::duration::parse_duration;
use crate::util::file::{self, FileProblem};
use crate::util::wording::shell_word;

/// The display order of `--json`, after all other options.
pub(crate) const LAST: usize = 900;

/// The examples below a command's help, each without the program's name; one may end in a comment, two spaces apart.
pub(crate) fn examples<'a>(lines: impl AsRef<[&'a str]>) -> String {
    let line = |line: &&str| format!("\n  {}", format!("wrs-emulator {line}").trim_end());
    format!("Examples:{}", lines.as_ref().iter().map(line).collect::<String>())
}

/// The emulator that was started in the background for the present folder.
static STARTED: LazyLock<BackgroundState> = LazyLock::new(started_here);

fn started() -> Option<&'static Served> {
    match &*STARTED {
        BackgroundState::Running(Record { served, .. }) => served.as_ref(),
        _ => None,
    }
}

/// The process of the emulator that was started for the present folder, if it has ended without `stop`.
pub(super) fn died() -> Option<u32> {
    match &*STARTED {
        BackgroundState::Died(record) => Some(record.process),
        _ => None,
    }
}

/// The address of the emulator that was started for the present folder, whatever listens at the default address: that may belong to another
/// project. Else of the one that this environment starts: a command in a container calls the server next to it.
fn default_url() -> String {
    if let Some(started) = started() {
        return started.control_url.clone();
    }
    let set = |name: &str| std::env::var(name).ok().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
    let scheme = if set("WRS_EMULATOR_TLS").is_some() { "https" } else { "http" };
    // Commands call the control API, which may have its own listener.
    let listen = set("WRS_EMULATOR_CONTROL_LISTEN").or_else(|| set("WRS_EMULATOR_LISTEN"));
    let address = listen.filter(|address| !address.ends_with(":0"));
    let address = address.unwrap_or_else(|| DEFAULT_ADDRESS.to_owned());
    let host = if address.starts_with(':') { "127.0.0.1" } else { "" };
    reachable(&format!("{scheme}://{host}{address}")).trim_end_matches('/').to_owned()
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// The emulator's address.
    // The alias is its former name in `listen`.
    #[arg(long, alias = "emulator", env = "WRS_EMULATOR_URL", hide_env_values = true, default_value_t = default_url(), value_name = "URL")]
    pub(crate) url: String,
    /// The control API's token, if it requires one.
    #[arg(long, env, value_name = "TOKEN", hide_env_values = true)]
    pub(crate) control_token: Option<String>,
    /// Trust the authority in this PEM file, for an emulator that serves TLS: its /_emulator/ca.pem.
    #[arg(long, env, value_name = "FILE")]
    pub(crate) ca: Vec<PathBuf>,
    /// Trust any certificate of the emulator.
    #[arg(long, env)]
    pub(crate) insecure: bool,
}

impl Target {
    /// The person who typed the command.
    pub(super) fn reader(&self) -> Audience {
        Audience::person(&self.url)
    }

    /// The option of a command for this emulator, after a space; nothing for the default address.
    pub(super) fn option(&self) -> String {
        match self.reader() {
            Audience::Person { url: Some(url) } => format!(" --url {}", shell_word(&url)),
            _ => String::new(),
        }
    }

    /// The token that was given, or the one of the emulator that was started for this folder.
    pub(super) fn token(&self) -> Option<&str> {
        let started = || started().filter(|started| started.control_url == self.url)?.control_token.as_deref();
        self.control_token.as_deref().or_else(started)
    }

    /// True if any certificate is trusted: as requested, or for the server that this environment starts with its own certificate.
    pub(crate) fn trusts_any(&self) -> bool {
        self.insecure || self.url == default_url()
    }
}

/// Arguments of every command that prints an answer of the control API.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print JSON.
    #[arg(long, display_order = LAST)]
    pub(crate) json: bool,
}

/// The base URL of an emulator, as people type it: `localhost:9770` has no scheme.
pub(crate) fn base(text: &str) -> Result<Url, Failure> {
    let port = text.split('/').next().and_then(|authority| authority.rsplit_once(':')).map(|(_, port)| port);
    let is_address = port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let spelled = if is_address { format!("http://{text}") } else { text.to_owned() };
    let url = Url::parse(&spelled).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
    url.ok_or_else(|| {
        let hint = match text.parse::<u16>() {
            Ok(port) => format!("use `--url http://127.0.0.1:{port}`"),
            Err(_) => format!("for example `--url {DEFAULT_URL}`"),
        };
        Failure::usage(format!("--url: expected the address of an emulator, found `{text}`")).with_hint(hint)
    })
}

/// True if this looks like the URL of a webhook: https and a public host name.
pub(crate) fn is_webhook_url(text: &str) -> bool {
    let url = Url::parse(text).ok().filter(|url| url.scheme() == "https");
    let host = url.as_ref().and_then(Url::host);
    matches!(host, Some(Host::Domain(name)) if name.contains('.') && !name.ends_with(".localhost"))
}

/// Replaces an unspecified address, such as 0.0.0.0, by the loopback address.
pub(crate) fn reachable(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else { return text.to_owned() };
    let loopback = match url.host() {
        Some(Host::Ipv4(address)) if address.is_unspecified() => "127.0.0.1",
        Some(Host::Ipv6(address)) if address.is_unspecified() => "[::1]",
        _ => return text.to_owned(),
    };
    match url.set_host(Some(loopback)) {
        Ok(()) => url.as_str().trim_end_matches('/').to_owned(),
        Err(_) => text.to_owned(),
    }
}

pub(crate) fn address(flag: &str, text: &str) -> Result<ListenAddress, Failure> {
    text.parse().map_err(|_| {
        let hint = match (text.parse::<u16>(), text.parse::<IpAddr>()) {
            (Ok(port), _) => format!("use `{flag} 127.0.0.1:{port}`"),
            (_, Ok(ip)) => format!("add a port: `{flag} {}`", SocketAddr::new(ip, DEFAULT_PORT)),
            _ => format!("for example `{flag} {DEFAULT_ADDRESS}`, or 0.0.0.0:{DEFAULT_PORT} for every interface"),
        };
        Failure::usage(format!("{flag}: expected an IP address and a port, found `{text}`")).with_hint(hint)
    })
}

/// Listens on an address of --listen; returns which one that is.
pub(crate) fn bound(requested: ListenAddress) -> Result<(Listener, SocketAddr), Failure> {
    let bound = Listener::bind(requested).and_then(|listener| listener.local_addr().map(|local| (listener, local)));
    bound.map_err(|error| {
        Failure::io(format!("cannot listen on {requested}: {error}"))
            .with_hint("choose another with --listen 127.0.0.1:0 (a free port)")
    })
}

/// Creates the results file that a flag names, or empties it. Done before any work, so that an unwritable path fails at once
/// and no older results remain.
pub(crate) fn created(flag: &str, path: &Path) -> Result<File, Failure> {
    file::create(path).map_err(|problem| Failure::io(format!("{flag}: cannot write `{}`: {problem}", path.display())))
}

/// A file that a command will write, as a flag or an argument names it.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    /// The flag that names it, for messages; empty for an argument.
    flag: &'static str,
}

impl OutputFile {
    /// Refuses a path that cannot be written, before any work.
    pub(crate) fn at(flag: &'static str, path: &Path) -> Result<Self, Failure> {
        // A link stays, and its target is replaced.
        let target = path.canonicalize().ok().filter(|_| path.is_symlink());
        let found = Self { path: target.unwrap_or_else(|| path.to_owned()), flag };
        file::check_whole(&found.path).map_err(|problem| found.unwritable(&problem))?;
        Ok(found)
    }

    /// Removes an older file, which would be taken for the new one if that is never written.
    pub(crate) fn cleared(self) -> Result<Self, Failure> {
        file::remove(&self.path).map_err(|problem| self.unwritable(&problem))?;
        Ok(self)
    }

    /// Writes a file that other users may read.
    pub(crate) fn write_shared(&self, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
        file::write_shared(&self.path, contents).map_err(|error| self.unwritable(&error.into()))
    }

    /// Its name, without folders.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The ending of its name, in lower case.
    pub(crate) fn ending(&self) -> Option<String> {
        self.path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase())
    }

    fn unwritable(&self, problem: &FileProblem) -> Failure {
        let flag = if self.flag.is_empty() { String::new() } else { format!("{}: ", self.flag) };
        let failure = Failure::io(format!("{flag}cannot write `{}`: {problem}", self.path.display()));
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        match folder {
            Some(folder) if problem.is_missing() => {
                failure.with_hint(format!("create the folder first: mkdir -p {0}", folder.display()))
            }
            _ => failure,
        }
    }
}

/// A duration above 0.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    let period = parse_duration(text)?;
    if period.is_zero() { Err("expected more than 0".to_owned()) } else { Ok(period) }
}

/// A whole number of at least this much.
pub(crate) fn at_least(least: usize) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync {
    move |text| match text.parse::<usize>() {
        Ok(number) if number < least => Err(format!("expected at least {least}")),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}
