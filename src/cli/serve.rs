//! `serve`: turns flags into settings and runs the emulator until a signal stops it.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures_util::FutureExt as _;
use serde_json::json;

use super::arguments::{LAST, OutputFile, address, at_least, period, reachable};
use super::client::{emulator_at, run_task};
use super::failure::{Failure, report, written};
use super::log::{LogFormat, LogThread};
use super::output::{compact, print, ready_line, try_print};
use super::profile::{load_profile, shown_forward, with_forwards};
use super::signals::{Adopted, Signals};
use super::started::Served;
use super::stream::Stream;
use super::trust::{BUNDLE_VARIABLES, TrustFiles};
use crate::advice::{Advice, Audience};
use crate::app::{ClockSetting, Emulator, FileLimit, Settings, StartError};
use crate::contract::keys::SAMPLE_KEY;
use crate::contract::{DEFAULT_ADDRESS, DEFAULT_PORT, DEFAULT_URL};
use crate::diagnostic::render_all;
use crate::http::handler::Limits;
use crate::http::host::host_name;
use crate::http::tls::TlsSetting;
use crate::redact::visible_lines;
use crate::scenario::Folders;
use crate::settings::Layered;
use crate::util::duration::parse_duration;
use crate::util::wording::{counted, shell_word};
use crate::webhook::resolve::LookUp;

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Where to serve; port 0 picks a free one.
    ///
    /// `localhost` is both `127.0.0.1` and `::1`.
    #[arg(long, env, default_value = DEFAULT_ADDRESS, value_name = "ADDRESS")]
    listen: String,
    /// Write the base URL to this file once ready.
    #[arg(long, env, value_name = "FILE")]
    pub(super) port_file: Option<PathBuf>,
    /// `contract`, `friendly`, `hostile`, or a TOML file.
    ///
    /// The profile: assumptions where the contract is silent.
    #[arg(long, env, value_name = "NAME|FILE")]
    profile: Option<PathBuf>,
    /// Set one setting of the profile. Repeatable.
    ///
    /// In the environment they are joined by `;`.
    #[arg(long, env, value_name = "PATH=VALUE", value_delimiter = ';')]
    set: Vec<String>,
    /// Fix every id, secret, jitter and dice roll.
    #[arg(long, env, value_name = "N")]
    seed: Option<u64>,
    /// `real`, `frozen`, `auto`, or the timestamp to freeze at.
    ///
    /// `frozen` stops it at the present time. `auto` also stops it, but moves it to the next retry or emission while a command or a test waits
    /// for one. `auto@TIME` begins at a timestamp.
    #[arg(long, env, default_value = "real", value_name = "CLOCK")]
    clock: String,
    /// Deliver elsewhere: `https://a.example=http://localhost:3000`.
    ///
    /// Webhooks for the first URL, or below it, go to the second. Repeatable.
    #[arg(help_heading = "Webhooks", long, env, value_name = "FROM=TO", value_delimiter = ';')]
    forward: Vec<String>,
    /// Trust the authorities in this PEM file.
    ///
    /// For receivers with their own certificate. Repeatable.
    #[arg(help_heading = "Webhooks", long, env, value_name = "FILE", value_delimiter = ';')]
    webhook_ca: Vec<PathBuf>,
    /// Accept any certificate of a receiver.
    #[arg(help_heading = "Webhooks", long, env)]
    webhook_insecure: bool,
    /// Allow webhooks to this public host, or to `any`.
    ///
    /// Webhooks go only to this machine and private networks otherwise. Repeatable.
    #[arg(help_heading = "Webhooks", long, env, value_name = "HOST", value_delimiter = ',')]
    allow_egress: Vec<String>,
    /// A folder of scenario files; else ./scenarios.
    ///
    /// Watched while running; ./scenarios may be created later. Repeatable.
    #[arg(help_heading = "Scenarios", long, env, value_name = "DIR", value_delimiter = ';')]
    scenarios: Vec<PathBuf>,
    /// Make this scenario active from the start.
    ///
    /// Repeatable; the first rule that applies decides.
    #[arg(help_heading = "Scenarios", long, env, value_name = "NAME", value_delimiter = ',')]
    scenario: Vec<String>,
    /// A scenario as text, active from the start.
    ///
    /// For containers without a folder.
    #[arg(help_heading = "Scenarios", long, env, value_name = "TOML")]
    scenario_text: Option<String>,
    /// Serve TLS: `self-signed`, or CERT:KEY (PEM files).
    ///
    /// The authority of a self-signed certificate is at /_emulator/ca.pem.
    #[arg(long, env, value_name = "SETTING", value_parser = TlsSetting::parse)]
    pub(super) tls: Option<TlsSetting>,
    /// The token that control calls require.
    ///
    /// If the control API is reachable beyond loopback, one is generated and printed unless given.
    #[arg(help_heading = "Control API", long, env, value_name = "TOKEN", hide_env_values = true)]
    control_token: Option<String>,
    /// Require no control token even beyond loopback.
    ///
    /// For closed networks.
    #[arg(hide_short_help = true, help_heading = "Control API", long, env)]
    control_open: bool,
    /// Serve the control API at this address.
    ///
    /// Without it, both APIs share an address.
    #[arg(hide_short_help = true, help_heading = "Control API", long, env, value_name = "ADDRESS")]
    control_listen: Option<String>,
    /// A further host name for the control API.
    ///
    /// Only local names are accepted otherwise. Repeatable.
    #[arg(hide_short_help = true, help_heading = "Control API", long, env, value_name = "HOST", value_delimiter = ',')]
    allow_host: Vec<String>,
    /// Keep the state in this file between runs.
    ///
    /// Loaded at the start, saved while running and at the end. It contains keys and secrets.
    #[arg(long, env, value_name = "FILE")]
    state: Option<PathBuf>,
    /// The format of the log on stderr.
    #[arg(long, env, value_enum, default_value = "text")]
    log: LogFormat,
    /// Print JSON: data, errors and the log.
    #[arg(long, env, global = true, display_order = LAST, hide_short_help = true)]
    pub(super) json: bool,
    /// No banner and no log.
    #[arg(long, env)]
    pub(super) quiet: bool,
    /// How long a stop may take; for `exec`, how long its command may take after a signal.
    #[arg(long, env, default_value = "5s", value_name = "DURATION", value_parser = parse_duration)]
    pub(super) grace: Duration,
    #[command(flatten)]
    limits: LimitArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Bytes of a header block (at least 8192).
    #[arg(hide_short_help = true, long, env, default_value_t = Limits::default().header_bytes, value_name = "N", value_parser = at_least(8192))]
    max_header_bytes: usize,
    /// Fields of a header block.
    #[arg(hide_short_help = true, long, env, default_value_t = Limits::default().header_fields, value_name = "N", value_parser = at_least(1))]
    max_header_fields: usize,
    /// Bytes of a request target.
    #[arg(hide_short_help = true, long, env, default_value_t = Limits::default().uri_bytes, value_name = "N", value_parser = at_least(1))]
    max_uri_bytes: usize,
    /// Bytes of a request body, on every route.
    #[arg(long, env, default_value_t = Limits::default().body_bytes, value_name = "N", value_parser = at_least(1))]
    max_body_bytes: usize,
    /// Connections at a time; further ones wait.
    #[arg(long, env, default_value_t = Limits::default().connections, value_name = "N", value_parser = at_least(1))]
    max_connections: usize,
    /// For a header block.
    #[arg(hide_short_help = true, long, env, default_value = "10s", value_name = "DURATION", value_parser = period)]
    header_timeout: Duration,
    /// For a request body.
    #[arg(hide_short_help = true, long, env, default_value = "10s", value_name = "DURATION", value_parser = period)]
    body_timeout: Duration,
    /// Between two requests of a connection.
    #[arg(hide_short_help = true, long, env, default_value = "60s", value_name = "DURATION", value_parser = period)]
    idle_timeout: Duration,
    /// For a client that does not read.
    #[arg(hide_short_help = true, long, env, default_value = "30s", value_name = "DURATION", value_parser = period)]
    write_timeout: Duration,
    /// Entries in the journal; the oldest are evicted first.
    #[arg(hide_short_help = true, long, env, default_value_t = crate::state::journal::MAX_ENTRIES, value_name = "N", value_parser = at_least(1))]
    max_journal_entries: usize,
    /// Bytes of everything in memory; when none are left, the oldest entries of the journal are evicted first.
    #[arg(hide_short_help = true, long, env, default_value_t = crate::state::budget::DEFAULT_BYTES, value_name = "N", value_parser = at_least(crate::state::budget::LEAST_BYTES), alias = "max-journal-bytes")]
    max_memory_bytes: usize,
    /// Workspaces; the least recently used are evicted first.
    #[arg(hide_short_help = true, long, env, default_value_t = crate::state::workspace::MAX_WORKSPACES, value_name = "N", value_parser = at_least(1))]
    max_workspaces: usize,
}

pub(super) fn run(args: ServeArgs) -> Result<ExitCode, Failure> {
    serve(&args, false)
}

/// Serves until a signal ends the process, for `start` if `in_background`.
pub(super) fn serve(args: &ServeArgs, in_background: bool) -> Result<ExitCode, Failure> {
    let settings = settings(args)?;
    FileLimit::raise();
    run_task(serve_until_signalled(args, settings, in_background))?
}

async fn serve_until_signalled(args: &ServeArgs, settings: Settings, in_background: bool) -> Result<ExitCode, Failure> {
    // Installed before the ready line, because a signal may follow it at once.
    let mut signals = Signals::install()?;
    Adopted::watch()?.reap_all();
    let port_file = PortFile::cleared(args)?;
    let (emulator, log) = start(args, settings, &port_file, true).await?;
    // Held until the end, as its files are.
    let _trust = if in_background { hand_over(args, &emulator)? } else { announce(args, &emulator) };
    // Without the ready line the address stays unknown.
    let announced = written(Stream::Out);
    if announced.is_ok() {
        signals.wait().await;
    }
    let stopped = stop(emulator, log, &mut signals, None).await;
    announced?;
    match stopped {
        (stopped, None) => stopped.map(|()| ExitCode::SUCCESS),
        (stopped, Some(number)) => {
            if let Err(failure) = stopped {
                report(&failure);
            }
            Ok(ExitCode::from(128 + number))
        }
    }
}

/// Starts the emulator, and its log if `logs`, and writes the port file.
pub(super) async fn start(
    args: &ServeArgs,
    settings: Settings,
    port_file: &PortFile,
    logs: bool,
) -> Result<(Emulator, Option<LogThread>), Failure> {
    let emulator = match Emulator::start(settings).await {
        Ok(emulator) => emulator,
        Err(error) => return Err(start_failure(error).await),
    };
    let log = (logs && !args.quiet).then(|| LogThread::start(emulator.control(), args.log_format())).transpose();
    let log = log.map_err(|error| Failure::io(format!("cannot start the log: {error}")))?;
    if let Some(file) = &port_file.0 {
        file.write_shared(format!("{}\n", emulator.base_url()))?;
    }
    Ok((emulator, log))
}

/// The file of `--port-file`. It exists only while the emulator is ready, and is written whole.
#[derive(Default)]
pub(super) struct PortFile(Option<OutputFile>);

impl PortFile {
    /// Removes the file of an earlier start.
    pub(super) fn cleared(args: &ServeArgs) -> Result<Self, Failure> {
        let file = args.port_file.as_deref().map(|path| OutputFile::at("--port-file", path)?.cleared());
        file.transpose().map(Self)
    }
}

impl Drop for PortFile {
    fn drop(&mut self) {
        if let Some(file) = self.0.take() {
            // A file left behind if this fails is replaced by the next start.
            let _ = file.cleared();
        }
    }
}

/// Stops the emulator, then its log. After a further signal, which is returned, or if there was one already, only the state is saved.
pub(super) async fn stop(
    emulator: Emulator,
    log: Option<LogThread>,
    signals: &mut Signals,
    mut signalled: Option<u8>,
) -> (Result<(), Failure>, Option<u8>) {
    let hurry = async {
        if signalled.is_none() {
            signalled = Some(signals.wait().await);
        }
    };
    let stopped = emulator.stop_by(hurry).await;
    // One may have come while the state was saved.
    signalled = signalled.or_else(|| signals.wait().now_or_never());
    if let (Some(log), None) = (log, signalled) {
        tokio::select! {
            () = log.finish() => {}
            number = signals.wait() => signalled = Some(number),
        }
    }
    (stopped.map_err(|problem| Failure::check_failed(problem.to_string())), signalled)
}

/// Prints the ready line, and at a terminal the banner; returns the files that the banner names.
fn announce(args: &ServeArgs, emulator: &Emulator) -> Option<TrustFiles> {
    let url = emulator.base_url();
    match args.log_format() {
        LogFormat::Text => print(&format!("wrs-emulator ready on {url}\n")),
        LogFormat::Json => print(&ready_line(json!({ "url": url }))),
    }
    if let Some(token) = emulator.control_token().filter(|token| args.control_token.as_deref() != Some(*token)) {
        announce_token(token, args.log_format());
    }
    if args.quiet || args.log_format() != LogFormat::Text || !std::io::stderr().is_terminal() {
        return None;
    }
    let profile = args.profile.as_ref().map(|profile| profile.display().to_string());
    // On a system without a place for temporary files the authority is still served.
    let trust = TrustFiles::write(emulator, args.tls.as_ref()).ok().flatten();
    Stream::Err.write(&*visible_lines(&banner(emulator, profile.as_deref(), trust.as_ref())));
    trust
}

/// Prints what the `start` that waits for it has to know, and writes the ready line to the log.
fn hand_over(args: &ServeArgs, emulator: &Emulator) -> Result<Option<TrustFiles>, Failure> {
    let url = emulator.base_url();
    let trust = TrustFiles::write(emulator, args.tls.as_ref())?;
    Stream::Err.write(match args.log_format() {
        LogFormat::Text => format!("wrs-emulator ready on {url}\n"),
        LogFormat::Json => ready_line(json!({ "url": url })),
    });
    let variables = trust.iter().flat_map(TrustFiles::variables);
    let served = Served {
        url: reachable(&url),
        control_url: reachable(&emulator.control_url()),
        control_token: emulator.control_token().map(str::to_owned),
        trust: variables.map(|(name, value)| (name.to_owned(), value.to_string_lossy().into_owned())).collect(),
    };
    if try_print(&(compact(&served) + "\n")) {
        return Ok(trust);
    }
    // Nobody would know that it serves.
    Err(Failure::io("the `wrs-emulator start` that waited for this emulator was ended"))
}

/// Prints a generated token, which is known only from this line.
pub(super) fn announce_token(token: &str, format: LogFormat) {
    let message = format!(
        "control token: {token} (commands read it from WRS_EMULATOR_CONTROL_TOKEN; set your own there or with --control-token)"
    );
    let line = match format {
        LogFormat::Text => message,
        LogFormat::Json => compact(&json!({ "event": "control_token", "control_token": token, "message": message })),
    };
    Stream::Err.write(line + "\n");
}

/// The banner of a running emulator; `profile` is the preset or file that it was started with, `trust` what makes clients trust it.
fn banner(emulator: &Emulator, profile: Option<&str>, trust: Option<&TrustFiles>) -> String {
    let (url, control) = (emulator.base_url(), emulator.control());
    let (active, files) = control.scenarios();
    let active = if active.is_empty() { "none active".to_owned() } else { format!("{} active", active.join(", ")) };
    let forwards = control.profile_of_all();
    let mut forwards: Vec<String> = forwards.webhooks.forwards.iter().map(shown_forward).collect();
    if forwards.is_empty() {
        let add = Advice::Forward { url: "https://HOST".to_owned(), to: "http://localhost:PORT".to_owned() };
        forwards.push(format!("none; to add one: {}", add.worded(&Audience::person(&url))));
    }
    let (mut trusting, mut exports) = (String::new(), String::new());
    if let Some(files) = trust {
        let word = |path: &OsStr| shell_word(&path.to_string_lossy()).into_owned();
        let own = word(files.own());
        trusting = format!("--cacert {own} ");
        let variables = files.variables().filter(|(name, _)| BUNDLE_VARIABLES.contains(name));
        let variables: String = variables.map(|(name, path)| format!("    export {name}={}\n", word(path))).collect();
        exports = format!("  its certificate is {own}; until it stops, clients also trust it with\n\n{variables}\n");
    }
    format!(
        "
  any key that begins with {prefix} works; try:

    curl {trusting}-H 'Authorization: Bearer {SAMPLE_KEY}' {url}/v1/system/status

{exports}  preset     {preset}
  scenarios  {active}; {files}
  forwards   {forwards}

  what happens is shown here, and in a browser at {control_url}/_emulator/; stop with Ctrl-C
{elsewhere}
",
        prefix = control.profile_of_all().keys.test_prefix,
        preset = profile.unwrap_or("contract"),
        files = counted(files, "scenario file"),
        forwards = forwards.join("\n             "),
        control_url = emulator.control_url(),
        elsewhere = match emulator.control_url() {
            usual if usual == DEFAULT_URL => String::new(),
            url => format!("  commands find it after `export WRS_EMULATOR_URL={}`\n", reachable(&url)),
        },
    )
}

impl ServeArgs {
    fn log_format(&self) -> LogFormat {
        if self.json { LogFormat::Json } else { self.log }
    }
}

async fn start_failure(error: StartError) -> Failure {
    match &error {
        StartError::Bind { address, source } if source.kind() == std::io::ErrorKind::AddrInUse => {
            let address = *address;
            let found = tokio::task::spawn_blocking(move || emulator_at(address.main())).await;
            match found.ok().flatten() {
                Some(url) => {
                    Failure::io(format!("{error}: a wrs-emulator already answers at {url}")).with_hint(format!(
                        "use that one (`--url {url}`), or start another on a free port with `--listen 127.0.0.1:0`"
                    ))
                }
                None => Failure::io(error.to_string()).with_hint(format!(
                    "another program listens there; stop it, or choose another port with --listen {}, and pass it to \
                     commands with --url or WRS_EMULATOR_URL",
                    address.with_port(address.port().checked_add(1).unwrap_or(DEFAULT_PORT))
                )),
            }
        }
        StartError::Scenarios(found) => {
            let rendered = render_all(found, false);
            let lines = [""].into_iter().chain(rendered.trim_end().lines()).map(str::to_owned).collect();
            Failure::invalid_file("the scenarios cannot be used").with_lines(lines)
        }
        StartError::Tls(_) => Failure::invalid_file(format!("--tls: {error}")),
        StartError::Trust(_) => Failure::invalid_file(format!("--webhook-ca: {error}")),
        StartError::Bind { .. } | StartError::Clock(_) => Failure::io(error.to_string()),
        StartError::Setting(_) => Failure::usage(error.to_string()),
    }
}

pub(super) fn settings(args: &ServeArgs) -> Result<Settings, Failure> {
    let limits = &args.limits;
    for (flag, hosts) in [("--allow-egress", &args.allow_egress), ("--allow-host", &args.allow_host)] {
        if let Some(host) = hosts.iter().find(|host| host_name(host) != Some(host.as_str())) {
            return Err(Failure::usage(format!(
                "{flag}: expected a host name such as app.example.com, found `{host}`"
            )));
        }
    }
    // It need not exist yet: it is read once it is created.
    let usual = args.scenarios.is_empty().then(|| PathBuf::from("scenarios"));
    let scenario_folders = Folders { given: args.scenarios.clone(), usual };
    Ok(Settings {
        listen: address("--listen", &args.listen)?,
        control_listen: args.control_listen.as_deref().map(|text| address("--control-listen", text)).transpose()?,
        // An empty token comes from an unset variable and would protect nothing.
        control_token: args.control_token.clone().filter(|token| !token.is_empty()),
        wrong_token_pause: Settings::default().wrong_token_pause,
        control_open: args.control_open,
        allow_hosts: args.allow_host.clone(),
        profile: profile(args, "--profile", args.profile.as_deref())?,
        scenario_folders,
        scenarios: args.scenario.clone(),
        scenario_texts: args.scenario_text.iter().cloned().collect(),
        seed: args.seed,
        clock: clock(&args.clock)?,
        tls: args.tls.clone(),
        webhook_ca: args.webhook_ca.clone(),
        webhook_insecure: args.webhook_insecure,
        allow_egress: args.allow_egress.clone(),
        look_up: LookUp::default(),
        limits: Limits {
            header_bytes: limits.max_header_bytes,
            header_fields: limits.max_header_fields,
            uri_bytes: limits.max_uri_bytes,
            body_bytes: limits.max_body_bytes,
            connections: limits.max_connections,
            header_timeout: limits.header_timeout,
            body_timeout: limits.body_timeout,
            idle_timeout: limits.idle_timeout,
            write_timeout: limits.write_timeout,
            ..Limits::default()
        },
        max_journal_entries: limits.max_journal_entries,
        max_memory_bytes: limits.max_memory_bytes,
        max_workspaces: limits.max_workspaces,
        grace: args.grace,
        state: args.state.clone(),
    })
}

/// The profile with a preset or file that this flag names.
pub(super) fn profile(args: &ServeArgs, flag: &str, named: Option<&Path>) -> Result<Layered, Failure> {
    with_forwards(load_profile(flag, named, &args.set)?, &args.forward)
}

fn clock(text: &str) -> Result<ClockSetting, Failure> {
    match text {
        "real" => Ok(ClockSetting::Real),
        "frozen" => Ok(ClockSetting::Frozen(None)),
        "auto" => Ok(ClockSetting::Auto(None)),
        other => {
            let (time, mode): (_, fn(_) -> _) = match other.strip_prefix("auto@") {
                Some(time) => (time, ClockSetting::Auto),
                None => (other, ClockSetting::Frozen),
            };
            let at = time.parse().map_err(|_| {
                Failure::usage(format!(
                    "--clock: expected `real`, `frozen`, `auto` or a timestamp such as 2026-01-31T09:30:00Z, found `{other}`"
                ))
            })?;
            Ok(mode(Some(at)))
        }
    }
}
