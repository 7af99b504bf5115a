//! `doctor`: nine questions about the set-up of a user, a line each with what to type. It only reads. Receivers get one HEAD request,
//! through the guard of deliveries. A key that made no request yet is opened, as by any call about it.

use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use tokio::runtime::Builder;
use url::Url;

use super::arguments::{CallArgs, Target, base, examples, is_webhook_url};
use super::child::{catching_proxy, host_of, unproxied};
use super::client::{ControlClient, SHORT, emulator_at, runtime};
use super::failure::{Failure, FailureCode, colored};
use super::output::{YELLOW, cell, mark, painted, show};
use super::profile::{forwards_in_force, keys_of, mask_as};
use super::trust::BUNDLE_VARIABLES;
use crate::advice::Advice;
use crate::clock::machine;
use crate::contract::keys::SAMPLE_KEY;
use crate::control::api::{
    AskHealth, ClockMode, KeyFilter, KeyOrAll, ListScenarios, ListSubscriptions, Query, ScenarioRow, ScenarioState,
    ShowClock, ShowProfile, SubscriptionState,
};
use crate::redact::Redactor;
use crate::settings::Forwards;
use crate::state::workspace::FailureReason;
use crate::util::wording::{any_of, counted, shell_word};
use crate::webhook::client::head;
use crate::webhook::egress::{Destination, DialTarget as Receiver, Egress, is_here, is_looked_up_far};

const ANSWERING: Duration = Duration::from_secs(3);
/// A clock that is further than this from the machine's was moved.
const MAX_DRIFT_SECONDS: u64 = 5;
const MAX_SUBSCRIPTIONS: usize = 20;
const EXAMPLE_APPLICATION: &str = "http://localhost:3000";

#[derive(Debug, Args)]
#[command(after_help = examples(["doctor", "doctor --key sk_test_shop", "doctor --url http://127.0.0.1:9771 --json"]) + "\n\nEach line begins with ✓, with ! for something unusual, or with ✗ for a problem, and has the commands that fix it below.\n\nExit status: 0 no problem, 1 a problem was found, 2 wrong usage, 3 no emulator answers.")]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    common: CallArgs,
    #[command(flatten)]
    key: KeyOrAll,
}

#[derive(Debug, Serialize)]
struct SetUpReport {
    healthy: bool,
    checks: Vec<CheckLine>,
}

/// The answer to one question, and what to type.
#[derive(Debug, Serialize)]
struct CheckLine {
    check: &'static str,
    state: CheckState,
    detail: String,
    commands: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckState {
    Ok,
    Warning,
    Failed,
}

impl CheckLine {
    fn new(check: &'static str, state: CheckState, detail: &str, command_lines: &str) -> Self {
        let masked = |text: &str| Redactor::default().text(text).into_owned();
        Self { check, state, detail: masked(detail), commands: command_lines.lines().map(masked).collect() }
    }

    fn ok(name: &'static str, detail: &str) -> Self {
        Self::new(name, CheckState::Ok, detail, "")
    }

    fn refused(name: &'static str, Failure { message, hint, .. }: Failure) -> Self {
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        Self::new(name, CheckState::Failed, &format!("{message}{hint}"), "")
    }

    fn text(&self, colors: bool) -> String {
        let mark = match self.state {
            CheckState::Warning => painted(YELLOW, '!', colors),
            state => mark(state == CheckState::Ok, colors),
        };
        let commands: String = self.commands.iter().map(|command| format!("    {}\n", cell(command))).collect();
        format!("{mark} {:<11} {}\n{commands}", self.check, cell(&self.detail))
    }
}

pub(super) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let mut target = args.common.target.clone();
    let url = base(&target.url)?;
    let mut health = ControlClient::new(&target).limit(ANSWERING).send(&AskHealth {});
    let is_trusted = health.is_ok();
    if !is_trusted && url.scheme() == "https" {
        // If that was for its certificate, all other calls trust any.
        target.insecure = true;
        health = ControlClient::new(&target).limit(ANSWERING).send(&AskHealth {});
    }
    let is_reached = health.is_ok();
    let mut checks = vec![emulator(&url, health.map(|ready| ready.version)), proxy(&url)];
    if is_reached {
        checks.extend((url.scheme() == "https").then(|| certificate(&target, &url, is_trusted)));
        let refused = ask(&target, &url, args.key.key.as_deref(), &mut checks).err();
        checks.extend(refused.map(|failure| CheckLine::refused("control API", failure)));
    } else {
        checks.insert(1, port(&url));
    }
    let diagnosis = SetUpReport { healthy: checks.iter().all(|check| check.state != CheckState::Failed), checks };
    let colors = colored(&std::io::stdout());
    show(args.common.json, &diagnosis, || diagnosis.checks.iter().map(|check| check.text(colors)).collect());
    Ok(if is_reached { ExitCode::from(u8::from(!diagnosis.healthy)) } else { ExitCode::from(3) })
}

/// The questions about a running emulator, until it refuses a call.
fn ask(target: &Target, url: &Url, named: Option<&str>, checks: &mut Vec<CheckLine>) -> Result<(), Failure> {
    mask_as(target)?;
    let of_key = key(target, named)?;
    let valid = named.filter(|_| of_key.state == CheckState::Ok);
    checks.extend([of_key, scenarios(target)?]);
    let routes = routes(target, valid)?;
    checks.extend([receiver(target, url, &routes)?, forward(target, valid, &routes)?, clock(target, valid)?]);
    Ok(())
}

/// Does an emulator answer, and which version?
fn emulator(url: &Url, version: Result<String, Failure>) -> CheckLine {
    let (at, own) = (url.as_str().trim_end_matches('/'), env!("CARGO_PKG_VERSION"));
    match version {
        Ok(version) if version == own => CheckLine::ok("emulator", &format!("{at} answers, version {own}")),
        Ok(other) => {
            let detail = format!("{at} answers, version {other}, but this is {own}; stop that one and start this:");
            CheckLine::new("emulator", CheckState::Warning, &detail, "wrs-emulator")
        }
        Err(failure) => CheckLine::refused("emulator", failure),
    }
}

/// Is the port taken, by what?
fn port(url: &Url) -> CheckLine {
    let at = url.as_str().trim_end_matches('/');
    let mut addresses = url.socket_addrs(|| None).into_iter().flatten();
    let listening = addresses.find(|address| TcpStream::connect_timeout(address, ANSWERING).is_ok());
    let (detail, command) = match listening.map(|address| (emulator_at(address), address.port())) {
        None => return CheckLine::ok("port", &format!("nothing listens at {at}")),
        Some((Some(other), _)) => (
            format!("an emulator has {at}; its control API is at {other}, or at the address of its --control-listen:"),
            format!("export WRS_EMULATOR_URL={}", shell_word(&other)),
        ),
        Some((None, port)) => (
            format!("another program listens at {at}; to see which, and to use a free port:"),
            format!("lsof -i :{port}\nwrs-emulator --listen 127.0.0.1:0"),
        ),
    };
    CheckLine::new("port", CheckState::Failed, &detail, &command)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Does a proxy variable catch it?
fn proxy(url: &Url) -> CheckLine {
    let host = host_of(url);
    let Some(name) = catching_proxy(&host, variable) else {
        return CheckLine::ok("proxy", &format!("no variable names one for {host}"));
    };
    let lists = unproxied(&[url.as_str()], |name| variable(name).map(Into::into));
    let lists = lists.map(|(name, list)| format!("{name}={}", shell_word(&list.to_string_lossy())));
    let detail = format!("`{name}` is set and `NO_PROXY` does not exclude {host}: your code's calls go to the proxy");
    CheckLine::new("proxy", CheckState::Failed, &detail, &format!("export {}", lists.join(" ")))
}

/// Does a TLS client trust it?
fn certificate(target: &Target, url: &Url, is_trusted: bool) -> CheckLine {
    let trusts = |name: &str| {
        let call = |file| ControlClient::new(target).trusting_only(file).limit(ANSWERING).send(&AskHealth {});
        variable(name).is_some_and(|file| call(file.into()).is_ok())
    };
    let missing: Vec<&str> = BUNDLE_VARIABLES.into_iter().filter(|name| !trusts(name)).collect();
    if missing.is_empty() && is_trusted {
        return CheckLine::ok("certificate", &format!("trusted by clients that read {}", BUNDLE_VARIABLES.join(", ")));
    }
    // The authorities of the machine may have it.
    let by_none = missing.len() == BUNDLE_VARIABLES.len() && (!is_trusted || variable("WRS_EMULATOR_CA").is_some());
    let detail = format!("not trusted by clients that read {}; `exec --tls` sets these", any_of(&missing));
    let exports: String =
        missing.into_iter().chain(["WRS_EMULATOR_CA"]).map(|name| format!(" {name}=\"$PWD/ca.pem\"")).collect();
    let authority = shell_word(url.as_str().trim_end_matches('/'));
    let commands = format!("curl -fsk -o ca.pem {authority}/_emulator/ca.pem\nexport{exports}");
    CheckLine::new("certificate", if by_none { CheckState::Failed } else { CheckState::Warning }, &detail, &commands)
}

/// Does the key look like a key?
fn key(target: &Target, key: Option<&str>) -> Result<CheckLine, Failure> {
    let export = format!("export WRS_API_KEY={SAMPLE_KEY}");
    let unset = "`WRS_API_KEY` is not set; if your code reads it:";
    let Some(key) = key else { return Ok(CheckLine::new("key", CheckState::Warning, unset, &export)) };
    let request = keys_of(key.into());
    match ControlClient::new(target).send(&request) {
        Ok(_) => Ok(CheckLine::ok("key", &format!("{} is valid", Redactor::default().key(key)))),
        Err(wrong) if wrong.code == FailureCode::NotFound => {
            Ok(CheckLine::new("key", CheckState::Failed, &wrong.message, &export))
        }
        Err(failure) => Err(failure),
    }
}

/// Are the scenario files sound?
fn scenarios(target: &Target) -> Result<CheckLine, Failure> {
    let mut own = ControlClient::new(target).send(&Query::<ListScenarios>::default())?.data;
    own.retain(|row| !matches!(&*row.origin, "built-in" | "inline"));
    let Some(ScenarioRow { origin, problem, .. }) = own.iter().find(|row| row.state != ScenarioState::Ok) else {
        return Ok(CheckLine::ok("scenarios", &format!("{} of yours, none broken", counted(own.len(), "file"))));
    };
    let deleted = || " was deleted, and its last version is active".to_owned();
    let why = problem.as_ref().map_or_else(deleted, |it| format!(":{}:{}: {}", it.line, it.column, it.message));
    let command = format!("wrs-emulator check {}", shell_word(origin));
    Ok(CheckLine::new("scenarios", CheckState::Failed, &format!("{origin}{why}"), &command))
}

/// An active subscription that no built-in receiver has.
struct DeliveryRoute {
    id: String,
    url: Url,
    /// Where its events go.
    to: Arc<Receiver>,
    /// The forward that nearly covers it, if none does.
    near_miss: Option<String>,
}

fn routes(target: &Target, key: Option<&str>) -> Result<Vec<DeliveryRoute>, Failure> {
    let send = |request: &_| ControlClient::new(target).send::<Query<ListSubscriptions>>(request);
    let found = ListSubscriptions::all(key.map(KeyFilter::from).unwrap_or_default(), send)?.into_iter();
    let mut routes = Vec::new();
    for found in found.filter(|found| found.status == SubscriptionState::Active).take(MAX_SUBSCRIPTIONS) {
        let Ok(url) = Url::parse(&found.url) else { continue };
        let rules = forwards_in_force(target, &KeyOrAll::from(&*found.workspace.0), SHORT)?;
        let forwards = Forwards::try_from(rules).unwrap_or_default();
        if let Some(Destination::Dial(to)) = Egress::default().destination(&forwards, &Arc::new(url.clone())) {
            let near_miss = forwards.near_miss(&url);
            routes.push(DeliveryRoute { id: found.id.0, url, to, near_miss });
        }
    }
    Ok(routes)
}

fn add_forward(target: &Target, from: &Url, to: &str) -> String {
    Advice::Forward { url: from.origin().ascii_serialization(), to: to.to_owned() }.worded(&target.reader())
}

/// Does the receiver answer, and over which protocol? Only asked where the emulator would ask it as well, without a look-up on the internet.
fn receiver(target: &Target, url: &Url, routes: &[DeliveryRoute]) -> Result<CheckLine, Failure> {
    let mut answering = Vec::new();
    for DeliveryRoute { id, url: from, to, .. } in
        routes.iter().filter(|route| is_here(url) && !is_looked_up_far(&route.to.url))
    {
        let is_tls = to.url.scheme() == "https";
        let problem = match runtime(Builder::new_current_thread())?.block_on(head(to, ANSWERING)) {
            Ok(()) => {
                answering.push(format!("{} answers over {}", to.origin, if is_tls { "TLS" } else { "plain HTTP" }));
                continue;
            }
            // The emulator may be allowed to.
            Err(problem) if problem.reason == FailureReason::EgressRefused => continue,
            Err(problem) => problem,
        };
        let listen = format!("wrs-emulator listen --listen 127.0.0.1:{}", to.url.port_or_known_default().unwrap_or(80));
        let advised = problem.hint.and_then(|hint| hint.advice);
        let command = match (problem.reason, advised) {
            (FailureReason::ConnectionRefused, _) if !is_tls => listen,
            (FailureReason::TlsExpected | FailureReason::NotTls, Some(advice)) => advice.worded(&target.reader()),
            _ => add_forward(target, from, EXAMPLE_APPLICATION),
        };
        let detail = format!("{id} to {}: {}", to.text, problem.detail);
        return Ok(CheckLine::new("receiver", CheckState::Failed, &detail, &command));
    }
    answering.dedup();
    let none = "no subscription leads to a program near this one".to_owned();
    Ok(CheckLine::ok("receiver", &if answering.is_empty() { none } else { answering.join("; ") }))
}

/// Does a forward lead to it, and can each be used?
fn forward(target: &Target, key: Option<&str>, routes: &[DeliveryRoute]) -> Result<CheckLine, Failure> {
    let direct = routes.iter().find(|route| route.to.forwarded.is_none() && is_webhook_url(route.url.as_str()));
    if let Some(DeliveryRoute { id, url, near_miss, .. }) = direct {
        let near = near_miss.as_ref().map_or_else(String::new, |near| format!("; {near}"));
        let detail = format!("{id} to {url} is not forwarded, and webhooks stay on this machine{near}:");
        return Ok(CheckLine::new(
            "forward",
            CheckState::Warning,
            &detail,
            &add_forward(target, url, EXAMPLE_APPLICATION),
        ));
    }
    let key = key.map(KeyOrAll::from).unwrap_or_default();
    let forwards = Forwards::try_from(forwards_in_force(target, &key, SHORT)?).unwrap_or_default();
    let prefix = Some("webhooks.allow_http".to_owned());
    let rows =
        ControlClient::new(target).send(&Query { query: ShowProfile { prefix, key, ..Default::default() } })?.data;
    let idle = forwards.idle(rows.iter().any(|row| row.value == true));
    Ok(match idle.first() {
        Some(idle) => CheckLine::new(
            "forward",
            CheckState::Warning,
            &idle.to_string(),
            &format!("wrs-emulator forwards list{}", target.option()),
        ),
        None => CheckLine::ok("forward", "no subscription lacks one"),
    })
}

/// Does its clock agree?
fn clock(target: &Target, key: Option<&str>) -> Result<CheckLine, Failure> {
    let clock = ControlClient::new(target)
        .send(&Query { query: ShowClock { key: key.map(Into::into).unwrap_or_default() } })?;
    let whose = key.filter(|_| clock.follows == Some(false)).map(|key| format!(" --key {}", shell_word(key)));
    let now = clock.now.0.parse::<Timestamp>().map_or(0, Timestamp::as_second);
    let is_right = machine::wall_time().as_second().abs_diff(now) <= MAX_DRIFT_SECONDS;
    let (detail, command) = match clock.mode {
        ClockMode::Frozen => ("frozen: time does not pass, so retries and quotas wait; to let it run:", "resume"),
        ClockMode::Auto => ("in the mode auto: time passes only while a call waits; to let it run:", "resume"),
        ClockMode::Real if is_right => return Ok(CheckLine::ok("clock", "shows the real time")),
        ClockMode::Real => ("moved: it shows another time than this machine; to go back:", "set now"),
    };
    let command = format!("wrs-emulator clock {command}{}{}", whose.unwrap_or_default(), target.option());
    Ok(CheckLine::new("clock", CheckState::Warning, detail, &command))
}
