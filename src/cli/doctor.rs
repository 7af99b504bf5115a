//! `doctor`: checks the set-up of a user, from the variables of the shell to the receivers of webhooks, and prints the command that mends
//! each problem.
//!
//! It only reads, and connects to ports without a request. A key that made no request yet is opened, as by any call about it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::arguments::{CallArgs, Target, base, examples, is_webhook_url, reachable};
use super::child::{PROXIES, unproxied};
use super::client::{Call, MAX_RUN, SHORT, emulator_at, parsed};
use super::failure::{Code, Failure, colored};
use super::output::{YELLOW, cell, mark, painted, show};
use super::profile::forwards_in_force;
use super::trust::BUNDLE_VARIABLES;
use crate::clock::machine;
use crate::contract::keys::SAMPLE_KEY;
use crate::control::api::{
    AnyKey, AskHealth, AttemptResult, ClockMode, DeliveryRow, DeliveryStatus, EmulatorFacts, Forgery, GetAuthority,
    GetRun, ListDeliveries, ListScenarios, ListSubscriptions, OneKey, Ready, Sent, ShowClock, ShowProfile,
    Subscription, SubscriptionState,
};
use crate::control::story;
use crate::redact::Redactor;
use crate::scenario::read_folder;
use crate::settings::Forwards;
use crate::util::wording::{any_of, counted, shell_word};

/// How long a program may need to accept a connection, and an emulator to answer.
const CONNECTING: Duration = Duration::from_secs(1);
const ANSWERING: Duration = Duration::from_secs(3);
/// A clock that is further than this from the machine's was moved.
const MAX_DRIFT_SECONDS: u64 = 5;
/// Most subscriptions that are checked.
const MAX_SUBSCRIPTIONS: usize = 20;

#[derive(Debug, Args)]
#[command(after_help = examples([
    "doctor",
    "doctor --key sk_test_shop",
    "doctor --url http://127.0.0.1:9771 --json",
]) + "\n\nEach line begins with ✓, with ! for something unusual, or with ✗ for a problem, and has the commands that mend it below.\n\nExit status: 0 no problem, 1 a problem was found, 2 wrong usage, 3 no emulator answers.")]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    common: CallArgs,
    #[command(flatten)]
    key: OneKey,
}

#[derive(Debug, Serialize)]
struct Diagnosis {
    /// True if no check failed.
    healthy: bool,
    checks: Vec<Check>,
}

/// What one check found, and the commands that mend it.
#[derive(Debug, Serialize)]
struct Check {
    #[serde(rename = "check")]
    name: &'static str,
    state: State,
    detail: String,
    commands: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warning,
    Failed,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, state: State::Ok, detail: detail.into(), commands: Vec::new() }
    }

    fn warning(name: &'static str, detail: impl Into<String>, command: impl Into<String>) -> Self {
        Self { state: State::Warning, commands: vec![command.into()], ..Self::ok(name, detail) }
    }

    fn failed(name: &'static str, detail: impl Into<String>, command: impl Into<String>) -> Self {
        Self { state: State::Failed, ..Self::warning(name, detail, command) }
    }

    fn then(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    fn text(&self, colors: bool) -> String {
        let mark = match self.state {
            State::Ok => mark(true, colors),
            State::Warning => painted(YELLOW, '!', colors),
            State::Failed => mark(false, colors),
        };
        let commands: String = self.commands.iter().map(|command| format!("    {}\n", cell(command))).collect();
        format!("{mark} {:<13} {}\n{commands}", self.name, cell(&self.detail))
    }
}

pub(super) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let url = base(&args.common.target.url)?;
    let mut target = args.common.target.clone();
    let mut checks = Vec::new();
    let (health, is_trusted) = reach(&mut target, &url);
    let is_reached = health.is_ok();
    match health {
        Ok(ready) => checks.extend(running(&url, &ready)),
        Err(failure) => checks.push(absent(&url, &failure)),
    }
    checks.push(proxies(&url));
    if is_reached {
        if url.scheme() == "https" {
            checks.push(certificate(&target, &url, is_trusted));
        }
        let rest = Doctor::new(&target, &url).and_then(|doctor| doctor.checks(args.key.key.as_deref()));
        checks.extend(rest.unwrap_or_else(|failure| vec![refused(&failure)]));
    }
    let redactor = Redactor::default();
    for check in &mut checks {
        check.detail = redactor.text(&check.detail).into_owned();
        check.commands.iter_mut().for_each(|command| *command = redactor.text(command).into_owned());
    }
    let diagnosis = Diagnosis { healthy: checks.iter().all(|check| check.state != State::Failed), checks };
    let colors = colored(&std::io::stdout());
    show(args.common.json, &diagnosis, || diagnosis.checks.iter().map(|check| check.text(colors)).collect());
    Ok(match (is_reached, diagnosis.healthy) {
        (false, _) => ExitCode::from(3),
        (true, false) => ExitCode::FAILURE,
        (true, true) => ExitCode::SUCCESS,
    })
}

/// Asks the emulator whether it is ready; if its certificate is not trusted, all calls trust any from then on.
fn reach(target: &mut Target, url: &Url) -> (Result<Ready, Failure>, bool) {
    let ask = |target: &Target| Call::new(target).limit(ANSWERING).send(&AskHealth {});
    let health = ask(target);
    if health.is_ok() || url.scheme() != "https" {
        return (health, true);
    }
    let blind = Target { insecure: true, ..target.clone() };
    match ask(&blind) {
        Ok(ready) => {
            *target = blind;
            (Ok(ready), false)
        }
        Err(_) => (health, true),
    }
}

fn running(url: &Url, ready: &Ready) -> Vec<Check> {
    let own = env!("CARGO_PKG_VERSION");
    let mut checks = vec![Check::ok("emulator", format!("{} answers, version {}", typed(url), ready.version))];
    if ready.version != own {
        let detail =
            format!("the emulator is version {}, this program is {own}; stop that one and start this:", ready.version);
        checks.push(Check::warning("version", detail, start(url)));
    }
    checks
}

/// Nothing that is an emulator answers; names what does.
fn absent(url: &Url, failure: &Failure) -> Check {
    let at = typed(url);
    let Some(addresses) = addresses(url) else {
        let command = "export WRS_EMULATOR_URL=http://127.0.0.1:9770";
        return Check::failed("emulator", format!("the name in {at} has no address"), command);
    };
    let Some(address) = addresses.into_iter().find(accepts) else {
        return Check::failed("emulator", format!("nothing listens at {at}; to start it:"), start(url));
    };
    let cause = failure.message.strip_prefix("cannot reach the emulator at ").and_then(|rest| rest.split_once(": "));
    let cause = cause.map_or(&*failure.message, |(_, cause)| cause);
    if let Some(other) = emulator_at(address) {
        return if is_same_origin(&other, &at) {
            let detail = format!(
                "an emulator listens at {at}, but its control API has another address, that of its --control-listen"
            );
            Check::failed("emulator", detail, "export WRS_EMULATOR_URL=URL")
        } else {
            let detail = format!("the emulator listens at {other}, not at {at}: {cause}");
            Check::failed("emulator", detail, format!("export WRS_EMULATOR_URL={}", shell_word(&other)))
        };
    }
    let cause = if failure.is_unreachable() { cause } else { "its answer is not an emulator's" };
    let free = free_port_after(address.port());
    let detail = format!("another program listens at {at}: {cause}; to use another port:");
    Check::failed("emulator", detail, format!("wrs-emulator --listen 127.0.0.1:{free}"))
        .then(format!("export WRS_EMULATOR_URL=http://127.0.0.1:{free}"))
}

/// The command that starts an emulator at this address.
fn start(url: &Url) -> String {
    let host = match url.host() {
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => format!("[{address}]"),
        _ => Ipv4Addr::LOCALHOST.to_string(),
    };
    let tls = if url.scheme() == "https" { " --tls self-signed" } else { "" };
    match (&*host, url.port_or_known_default().unwrap_or(80)) {
        ("127.0.0.1", 9770) => format!("wrs-emulator{tls}"),
        (host, port) => format!("wrs-emulator --listen {}{tls}", shell_word(&format!("{host}:{port}"))),
    }
}

fn free_port_after(port: u16) -> u16 {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (port.saturating_add(1)..=u16::MAX).find(is_free).unwrap_or_default()
}

/// A call that the control API refused, such as one without its token.
fn refused(failure: &Failure) -> Check {
    let command = if failure.hint.as_deref().is_some_and(|hint| hint.contains("WRS_EMULATOR_CONTROL_TOKEN")) {
        "export WRS_EMULATOR_CONTROL_TOKEN=TOKEN"
    } else {
        "wrs-emulator health"
    };
    let hint = failure.hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
    Check::failed("control API", format!("{}{hint}", failure.message), command)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// A proxy that clients would use for the emulator, which it does not reach.
fn proxies(url: &Url) -> Check {
    let Some(name) = PROXIES.into_iter().find(|name| variable(name).is_some()) else {
        return Check::ok("proxy", "no variable names one");
    };
    let host = host_of(url);
    let lists: Vec<String> = ["NO_PROXY", "no_proxy"].into_iter().filter_map(variable).collect();
    if !lists.is_empty() && lists.iter().all(|list| excludes(list, &host)) {
        return Check::ok("proxy", format!("`{name}` is set, and `NO_PROXY` excludes {host}"));
    }
    let lists = unproxied(&[url.as_str()], variable).map(|(name, list)| format!("{name}={}", shell_word(&list)));
    let detail = format!("`{name}` is set and `NO_PROXY` does not exclude {host}: your code's calls go to the proxy");
    Check::failed("proxy", detail, format!("export {}", lists.join(" ")))
}

/// True if a list as `NO_PROXY` has it names this host.
fn excludes(list: &str, host: &str) -> bool {
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    list.split(',').map(str::trim).any(|entry| {
        let name = entry.trim_start_matches("*.").trim_start_matches('.');
        // A port may follow, unless these are the colons of an IPv6 address.
        let name = name.rsplit_once(':').filter(|(name, _)| !name.contains(':')).map_or(name, |(name, _)| name);
        let is_below = host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
        entry == "*"
            || name == host
            || (is_below && !name.is_empty())
            || (is_loopback && name.starts_with("127.") && name.contains('/'))
    })
}

/// Which variables make clients trust the certificate of an emulator that serves TLS.
fn certificate(target: &Target, url: &Url, is_trusted: bool) -> Check {
    let trusts = |name: &&str| {
        let Some(path) = variable(name) else { return false };
        let call = Call::new(target).trusting_only(PathBuf::from(path)).limit(ANSWERING);
        call.send(&AskHealth {}).is_ok()
    };
    let own = (!is_trusted).then_some("WRS_EMULATOR_CA");
    let missing: Vec<&str> = BUNDLE_VARIABLES.into_iter().filter(|name| !trusts(name)).chain(own).collect();
    if missing.is_empty() {
        return Check::ok("certificate", format!("trusted by clients that read {}", BUNDLE_VARIABLES.join(", ")));
    }
    let by_none = missing.iter().filter(|name| BUNDLE_VARIABLES.contains(name)).count() == BUNDLE_VARIABLES.len();
    let by_machine = is_trusted && variable("WRS_EMULATOR_CA").is_none();
    let state = if by_none && !by_machine { State::Failed } else { State::Warning };
    let detail = format!(
        "not trusted by clients that read {}{}; all variables but NODE_EXTRA_CA_CERTS replace the client's own trust store; `exec --tls` keeps it",
        any_of(&missing),
        if by_machine { ", but by those that read the authorities of this machine" } else { "" }
    );
    let is_made = match Call::new(target).exchange(&Sent::of(&GetAuthority {})) {
        Ok(_) => true,
        // It is not JSON.
        Err(failure) => failure.code != Code::NotFound,
    };
    let (file, fetch) = if is_made {
        let authority = format!("{}/_emulator/ca.pem", typed(url));
        ("\"$PWD/ca.pem\"", Some(format!("curl -sk -o ca.pem {}", shell_word(&authority))))
    } else {
        ("FILE-OF-ITS-AUTHORITY", None)
    };
    let exports: Vec<String> = missing.iter().map(|name| format!("{name}={file}")).collect();
    let mut check = Check { state, ..Check::ok("certificate", detail) };
    check.commands.extend(fetch);
    check.then(format!("export {}", exports.join(" ")))
}

/// The checks that ask a running emulator.
struct Doctor<'a> {
    target: &'a Target,
    /// Where the control API was reached.
    url: &'a Url,
    facts: EmulatorFacts,
}

#[derive(Deserialize)]
struct RunHead {
    emulator: EmulatorFacts,
}

#[derive(Deserialize)]
struct Listed<T> {
    data: Vec<T>,
}

#[derive(Deserialize)]
struct ListedScenario {
    name: String,
    origin: String,
    state: String,
    problem: Option<Problem>,
}

#[derive(Deserialize)]
struct Problem {
    message: String,
    line: usize,
    column: usize,
}

impl<'a> Doctor<'a> {
    fn new(target: &'a Target, url: &'a Url) -> Result<Self, Failure> {
        let head = Sent::of(&GetRun { key: AnyKey::default(), limit: Some(0) });
        let RunHead { emulator } = parsed(head.path, &Call::new(target).max_answer(MAX_RUN).exchange(&head)?)?;
        Ok(Self { target, url, facts: emulator })
    }

    fn checks(&self, key: Option<&str>) -> Result<Vec<Check>, Failure> {
        let (of_key, key) = self.key(key)?;
        let mut checks = vec![self.base_url(), of_key, self.scenarios()?];
        checks.extend(self.subscriptions(key)?);
        checks.push(self.clock(key)?);
        Ok(checks)
    }

    fn base_url(&self) -> Check {
        const NAME: &str = "WRS_BASE_URL";
        let served = reachable(&self.facts.base_url);
        // The control API may have its own address; otherwise the emulator is where it was reached.
        let own = if self.facts.base_url == self.facts.control_url { typed(self.url) } else { served.clone() };
        let export = format!("export {NAME}={}", shell_word(&own));
        let Some(set) = variable(NAME) else {
            return Check::warning("base URL", format!("`{NAME}` is not set; if your code reads it:"), export);
        };
        let Ok(url) = Url::parse(&set) else {
            return Check::failed("base URL", format!("`{NAME}` is not a URL: {set}"), export);
        };
        if is_same_origin(&set, &own) || is_same_origin(&set, &served) {
            let path = url.path().trim_end_matches('/');
            return if path == self.url.path().trim_end_matches('/') {
                Check::ok("base URL", format!("`{NAME}` leads to this emulator"))
            } else {
                let detail = format!("`{NAME}` ends with the path {path}, which is part of each endpoint's own path");
                Check::failed("base URL", detail, export)
            };
        }
        let listening =
            if is_webhook_url(&set) { None } else { addresses(&url).and_then(|all| all.into_iter().find(accepts)) };
        let what = match listening {
            _ if is_webhook_url(&set) => "another service",
            None => "an address where nothing listens",
            Some(address) if emulator_at(address).is_some() => "another emulator",
            Some(_) => "another program",
        };
        Check::failed("base URL", format!("`{NAME}` leads to {what}, {set}, not to this emulator"), export)
    }

    /// The check of the key, and the key if the emulator accepts it.
    fn key<'k>(&self, key: Option<&'k str>) -> Result<(Check, Option<&'k str>), Failure> {
        let export = format!("export WRS_API_KEY={SAMPLE_KEY}");
        let Some(key) = key else {
            return Ok((Check::warning("key", "`WRS_API_KEY` is not set; if your code reads it:", export), None));
        };
        let request = ShowProfile { prefix: Some("keys.live_prefix".to_owned()), ..Default::default() };
        let live = Call::new(self.target).send(&request)?;
        let is_live = |prefix: &str| !prefix.is_empty() && key.starts_with(prefix);
        if live.data.iter().filter_map(|setting| setting.value.as_str()).any(is_live) {
            let detail = "a live key: an emulator needs none, and whatever prints the environment reveals it";
            return Ok((Check::failed("key", detail, export), None));
        }
        let request = ShowProfile { key: key.into(), prefix: Some("keys".to_owned()), ..Default::default() };
        match Call::new(self.target).send(&request) {
            Ok(_) => Ok((Check::ok("key", format!("{} is valid", Redactor::default().key(key))), Some(key))),
            Err(failure) if failure.code == Code::NotFound => Ok((Check::failed("key", failure.message, export), None)),
            Err(failure) => Err(failure),
        }
    }

    fn scenarios(&self) -> Result<Check, Failure> {
        const NAME: &str = "scenarios";
        let sent = Sent::of(&ListScenarios { key: OneKey::default() });
        let listed: Listed<ListedScenario> = parsed(sent.path, &Call::new(self.target).exchange(&sent)?)?;
        let own: Vec<&ListedScenario> =
            listed.data.iter().filter(|row| !matches!(&*row.origin, "built-in" | "inline")).collect();
        let broken: Vec<String> = own.iter().filter(|row| row.state != "ok").map(|row| broken(row)).collect();
        if !broken.is_empty() {
            let is_here = own.iter().filter(|row| row.state == "broken").all(|row| Path::new(&row.origin).exists());
            let command = if is_here { check_command(&own) } else { "wrs-emulator scenarios reload".to_owned() };
            return Ok(Check::failed(NAME, broken.join("; "), command));
        }
        let here = read_folder(Path::new(NAME));
        // Without the folder there is one entry, which says so.
        let names = here.iter().filter(|(_, text)| text.is_ok()).filter_map(|(file, _)| file.file_stem()?.to_str());
        let unread: Vec<&str> = names.filter(|name| own.iter().all(|row| row.name != *name)).collect();
        if !unread.is_empty() {
            let detail = format!(
                "the emulator does not read ./scenarios, so it lacks {}; start it in this folder, or:",
                unread.join(", ")
            );
            let folder = std::env::current_dir().unwrap_or_default().join(NAME);
            let folder = shell_word(&folder.to_string_lossy()).into_owned();
            return Ok(Check::warning(NAME, detail, format!("{} --scenarios {folder}", start(self.url))));
        }
        let shipped = listed.data.iter().filter(|row| row.origin == "built-in").count();
        Ok(Check::ok(NAME, format!("{shipped} built in, {} of yours, none broken", counted(own.len(), "file"))))
    }

    fn subscriptions(&self, key: Option<&str>) -> Result<Vec<Check>, Failure> {
        let request = ListSubscriptions { key: key.map(AnyKey::from).unwrap_or_default() };
        let found = Call::new(self.target).send(&request)?.data;
        if found.is_empty() {
            return Ok(vec![Check::ok(
                "subscriptions",
                "none, so no webhook is sent; `wrs-emulator listen --forward-to localhost:3000/hooks` subscribes your app",
            )]);
        }
        let mut forwards: BTreeMap<String, Forwards> = BTreeMap::new();
        let mut checks = Vec::new();
        for subscription in found.iter().take(MAX_SUBSCRIPTIONS) {
            let workspace = &*subscription.workspace.0;
            if !forwards.contains_key(workspace) {
                let rules = forwards_in_force(self.target, &OneKey::from(workspace), SHORT)?;
                forwards.insert(workspace.to_owned(), Forwards::try_from(rules).unwrap_or_default());
            }
            checks.push(self.subscription(subscription, &forwards[workspace])?);
        }
        if found.len() > MAX_SUBSCRIPTIONS {
            let detail = format!("{} more were not checked; those of one key:", found.len() - MAX_SUBSCRIPTIONS);
            checks.push(Check::warning("subscriptions", detail, format!("wrs-emulator doctor --key {SAMPLE_KEY}")));
        }
        Ok(checks)
    }

    /// Where events of a subscription go, whether something listens there, and how the last delivery ended.
    fn subscription(&self, subscription: &Subscription, forwards: &Forwards) -> Result<Check, Failure> {
        const NAME: &str = "subscription";
        let Subscription { id, url, .. } = subscription;
        let id = &*id.0;
        if subscription.status == SubscriptionState::Disabled {
            let detail = format!("{id} to {url} is disabled");
            return Ok(Check::warning(NAME, detail, format!("wrs-emulator subscriptions enable {id}")));
        }
        let parsed_url = Url::parse(url).ok();
        let forwarded = parsed_url.as_ref().and_then(|url| forwards.covering(url)?.apply(url));
        let to = forwarded.as_ref().or(parsed_url.as_ref());
        let goes = match &forwarded {
            Some(to) => format!("{id}: {url}, forwarded to {to}"),
            None => format!("{id}: {url}"),
        };
        let elsewhere = parsed_url.as_ref().map_or_else(String::new, |url| {
            let rule = format!("{}=http://localhost:3000", url.origin().ascii_serialization());
            format!("wrs-emulator forwards add {}", shell_word(&rule))
        });
        if let Some(to) = to.filter(|to| self.is_checked(to)) {
            match addresses(to) {
                None => return Ok(Check::failed(NAME, format!("{goes}: the name has no address"), elsewhere)),
                Some(found) if !found.iter().any(accepts) => {
                    let detail = format!("{goes}: nothing listens there; start your app, or see its webhooks with:");
                    let port = to.port_or_known_default().unwrap_or(80);
                    let command = match found.first().filter(|address| address.ip().is_loopback()) {
                        Some(_) if to.scheme() == "http" => format!("wrs-emulator listen --listen 127.0.0.1:{port}"),
                        _ => elsewhere,
                    };
                    return Ok(Check::failed(NAME, detail, command));
                }
                Some(_) => {}
            }
        }
        let last = self.last_delivery(id)?;
        if let Some(last) = last.as_ref().filter(|last| failed(last)) {
            let ended = story::outcome_text(last.last.as_ref());
            let detail = format!("{goes}: the last delivery failed: {ended}{}", story::forgery_text(last.forgery));
            return Ok(Check::failed(NAME, detail, format!("wrs-emulator explain {}", last.id.0)));
        }
        let was_delivered = last.is_some_and(|last| last.status == DeliveryStatus::Delivered);
        if forwarded.is_none() && is_webhook_url(url) && !was_delivered {
            let detail =
                format!("{goes} is not forwarded, and webhooks stay on this machine; to send them to your app:");
            return Ok(Check::warning(NAME, detail, elsewhere));
        }
        Ok(Check::ok(NAME, goes))
    }

    /// True if this program sees the same ports as the emulator, and may look a name up without asking the internet.
    fn is_checked(&self, to: &Url) -> bool {
        let is_sink = to.host_str().is_some_and(|host| host.ends_with(".sink.localhost"));
        is_loopback(self.url) && !is_sink && (is_loopback(to) || !host_of(to).contains('.'))
    }

    fn last_delivery(&self, subscription: &str) -> Result<Option<DeliveryRow>, Failure> {
        let request =
            ListDeliveries { subscription: Some(subscription.to_owned()), limit: Some(1), ..Default::default() };
        let sent = Sent::of(&request);
        let listed: Listed<DeliveryRow> = parsed(sent.path, &Call::new(self.target).exchange(&sent)?)?;
        Ok(listed.data.into_iter().next())
    }

    fn clock(&self, key: Option<&str>) -> Result<Check, Failure> {
        let clock = Call::new(self.target).send(&ShowClock { key: key.map(Into::into).unwrap_or_default() })?;
        let own = key.filter(|_| clock.follows == Some(false));
        let whose = own.map_or_else(String::new, |key| format!(" --key {}", shell_word(key)));
        let off = clock.now.0.parse::<Timestamp>().map_or(0, |now| {
            let off = machine::wall_time().as_second() - now.as_second();
            off.unsigned_abs()
        });
        let how = match clock.mode {
            ClockMode::Frozen => "frozen: time does not pass, so retries and quotas wait; to let it run:",
            ClockMode::Auto => "in the mode auto: time passes only while a call waits; to let it run:",
            ClockMode::Real if off <= MAX_DRIFT_SECONDS => return Ok(Check::ok("clock", "shows the real time")),
            ClockMode::Real => {
                let detail = format!("moved: it shows {}; to go back:", clock.now);
                return Ok(Check::warning("clock", detail, format!("wrs-emulator clock set now{whose}")));
            }
        };
        Ok(Check::warning("clock", how, format!("wrs-emulator clock resume{whose}")))
    }
}

/// A scenario that differs from its file, and why.
fn broken(row: &ListedScenario) -> String {
    match &row.problem {
        Some(Problem { message, line, column }) => format!("{}:{line}:{column}: {message}", row.origin),
        None => format!("{} was deleted, and its last version is active", row.origin),
    }
}

fn check_command(own: &[&ListedScenario]) -> String {
    let files = own.iter().filter(|row| row.state == "broken").map(|row| shell_word(&row.origin));
    let files: Vec<_> = files.collect();
    if files.is_empty() {
        "wrs-emulator scenarios list".to_owned()
    } else {
        format!("wrs-emulator check {}", files.join(" "))
    }
}

/// True if the last attempt went wrong, and not on purpose.
fn failed(delivery: &DeliveryRow) -> bool {
    let is_refused = match &delivery.last {
        Some(AttemptResult::Answered { accepted, .. } | AttemptResult::Failed { accepted, .. }) => !accepted,
        None => false,
    };
    let is_over = matches!(delivery.status, DeliveryStatus::Pending | DeliveryStatus::Exhausted);
    delivery.forgery == Some(Forgery::Accepted) || (delivery.damage.is_none() && is_over && is_refused)
}

/// An address as people type it, without the slash at the end.
fn typed(url: &Url) -> String {
    url.as_str().trim_end_matches('/').split('?').next().unwrap_or_default().to_owned()
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// True if two URLs lead to the same port, by whatever name of this machine.
fn is_same_origin(one: &str, other: &str) -> bool {
    let (Ok(one), Ok(other)) = (Url::parse(&reachable(one)), Url::parse(&reachable(other))) else { return false };
    let is_same_host = one.host() == other.host() || (is_loopback(&one) && is_loopback(&other));
    one.scheme() == other.scheme() && one.port_or_known_default() == other.port_or_known_default() && is_same_host
}

/// The addresses of a URL; `None` if its name has none.
fn addresses(url: &Url) -> Option<Vec<SocketAddr>> {
    let (host, port) = (host_of(url), url.port_or_known_default().unwrap_or(80));
    // Not every resolver knows the names below `localhost`.
    let host = if host.ends_with(".localhost") { "localhost" } else { &host };
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs().ok()?.collect();
    (!found.is_empty()).then_some(found)
}

fn accepts(address: &SocketAddr) -> bool {
    TcpStream::connect_timeout(address, CONNECTING).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_hosts_without_a_proxy_are_read_as_clients_do() {
        for (list, host, expected) in [
            ("localhost,127.0.0.1", "127.0.0.1", true),
            ("localhost", "127.0.0.1", false),
            ("*", "127.0.0.1", true),
            ("127.0.0.0/8", "127.0.0.1", true),
            ("10.0.0.0/8", "127.0.0.1", false),
            ("127.0.0.1:9770", "127.0.0.1", true),
            (".internal", "emulator.internal", true),
            ("*.internal", "emulator.internal", true),
            ("internal", "emulatorinternal", false),
            ("::1", "::1", true),
            ("", "127.0.0.1", false),
        ] {
            assert_eq!(excludes(list, host), expected, "{list} {host}");
        }
    }
}
