//! The probe: sends one receiver every [`Case`] of a table and judges what comes back. Needs no running emulator.
//!
//! The valid delivery comes first, then all others, a few at a time, within ten seconds and a hundred requests. Each request has a
//! separate connection, so that no case depends on how another one left it. `cases` has all of them, and their requests.

pub(crate) mod command;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HOST};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::cases::{
    ANOTHER_SECRET, CASES, Case, Expectation, Occasion, ProbeRequest, ProbeSigning, VALID, VERIFY_FIRST, is_applicable,
    make, variations,
};
use crate::clock::machine;
use crate::contract::named::named;
use crate::http::body::ResponseBody;
use crate::redact::Redactor;
use crate::settings::Profile;
use crate::state::workspace::{AttemptOutcome, FailureReason, status_text};
use crate::util::html;
use crate::util::wording::shorten;
use crate::webhook::client::{Progress, send_once};
use crate::webhook::dial::DialContext;
use crate::webhook::egress::{DialProblem, DialTarget, Original};

pub const MAX: Duration = Duration::from_secs(10);
/// How many cases run at a time: many receivers in development handle one request at a time.
const CONCURRENT: usize = 4;
/// A later answer is slow, even if the probe is over before the limit for one request.
const ENOUGH: Duration = Duration::from_secs(3);
/// How many pieces a slow body is cut into, and the pause before each but the first.
const PIECES: usize = 8;
const PAUSE: Duration = Duration::from_millis(125);
const MAX_SHOWN: usize = 1024;

#[derive(Debug)]
pub struct Probe {
    pub target: Arc<DialTarget>,
    pub reach: DialContext,
    pub signing: ProbeSigning,
    /// The settings, by which events are made; [`check_events`](crate::cases::check_events) accepts them.
    pub profile: Arc<Profile>,
    /// Limit for each request, its connect included.
    pub timeout: Duration,
    /// Names of the cases to run besides the valid delivery and those that they build on; all if empty.
    pub only: Vec<String>,
    /// Send all of them even if the valid delivery was not accepted.
    pub all: bool,
}

#[derive(Debug, Serialize)]
pub struct ProbeReport {
    pub url: String,
    /// The URL that was called: another one if a forward covers it.
    pub dialled: String,
    pub scheme: &'static str,
    pub took_ms: u128,
    pub requests: usize,
    pub passed: usize,
    pub failed: usize,
    pub incomplete: usize,
    /// The problem and the remedy if the valid delivery was not accepted: all other results depend on that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<String>,
    /// Cases that were not sent, because they prove nothing about a receiver that does not accept the valid delivery.
    pub not_sent: usize,
    /// One for each case that was sent, in the order of the table.
    pub cases: Vec<ProbedCase>,
    /// Names of cases that mean nothing under the scheme.
    pub not_applicable: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
pub struct ProbedCase {
    pub name: &'static str,
    pub outcome: Outcome,
    pub sent: &'static str,
    pub expected: Expectation,
    pub observed: String,
    /// Why it ended so, if that is not obvious.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    pub clause: &'static str,
    /// The change to make, if it failed; for the valid delivery it is in the diagnosis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
    pub took_ms: u128,
    pub requests: Vec<SentRequest>,
    /// The status of the last answer, if there was one.
    #[serde(skip)]
    status: Option<u16>,
}

#[derive(Debug, Serialize)]
pub struct SentRequest {
    method: &'static str,
    headers: Map<String, Value>,
    body: String,
    body_bytes: usize,
    observed: String,
    took_ms: u128,
}

/// A request, what came back, and how long that took.
type TimedExchange = (ProbeRequest, Reply, Duration);

impl Probe {
    /// Runs the probe. The error: the receiver cannot be reached, or must not be.
    pub async fn run(&self) -> Result<ProbeReport, DialProblem> {
        let share = Arc::new(Semaphore::new(1));
        let looked_up = timeout(self.timeout, self.reach.resolver.addresses(&self.target, &share)).await;
        let addresses = looked_up.unwrap_or_else(|_| {
            let (host, limit) = (self.target.host_text(), self.timeout.as_secs_f64());
            let detail = format!("the look-up of the name `{host}` did not end within {limit} s (--timeout)");
            Err(DialProblem::new(FailureReason::Timeout, detail))
        })?;
        let name = format!("probe{:016x}", u64::from_be_bytes(machine::entropy()));
        let (started, began) = (machine::wall_time(), machine::monotonic());
        Run { probe: self, addresses, name, started, began, sent: AtomicUsize::new(0) }.all().await
    }
}

struct Run<'a> {
    probe: &'a Probe,
    addresses: Vec<SocketAddr>,
    /// Part of every id, so that no event of an earlier probe is repeated.
    name: String,
    /// When every event was created, so that a repeated one has the same bytes.
    started: jiff::Timestamp,
    began: Instant,
    sent: AtomicUsize,
}

impl Run<'_> {
    async fn all(&self) -> Result<ProbeReport, DialProblem> {
        let Probe { signing, only, all, .. } = self.probe;
        let is_named = |name: &str| only.iter().any(|named| named == name);
        let is_chosen = |case: &&Case| {
            let is_built_on = CASES.iter().any(|other| other.builds_on == Some(case.name) && is_named(other.name));
            // One secret is usual; that others are not tried with two is not worth a line.
            let is_usual = only.is_empty() && (signing.secrets.len() > 1 || !case.needs_two_secrets());
            is_usual || case.name == VALID || is_named(case.name) || is_built_on
        };
        let occasion = self.occasion("probe", "probe");
        let (cases, not_applicable): (Vec<&Case>, Vec<&Case>) =
            CASES.iter().filter(is_chosen).partition(|case| is_applicable(case, signing, occasion));
        let (valid, rest) = cases.split_first().expect("the valid delivery always applies");
        let request = self.request(valid, 0, 0);
        // That the receiver cannot be reached is one problem, and not one for each case.
        let (reply, took) = self.send(request.clone()).await?;
        let accepts_valid = reply.is_success();
        let diagnosis = if accepts_valid { None } else { Some(self.diagnose(&reply).await) };
        let (rest, not_sent) = if accepts_valid || *all { (rest, 0) } else { (&[][..], rest.len()) };
        let mut probed =
            vec![ProbedCase { remedy: None, ..probed_case(valid, true, &[(request, reply, took)], self.redactor()) }];

        // A receiver that handles one request at a time cannot answer others during a slow one.
        let answers = probed[0].outcome != Outcome::Slow;
        let is_slow = |case: &&Case| answers && case.requests.iter().any(|sending| sending.is_slow);
        let (slow, rest): (Vec<_>, Vec<_>) = rest.iter().copied().partition(is_slow);
        let concurrent = if answers { CONCURRENT } else { rest.len().max(1) };
        for (cases, concurrent) in [(rest, concurrent), (slow, 1)] {
            let running = stream::iter(cases).map(|case| self.case(case, accepts_valid));
            probed.extend(running.buffer_unordered(concurrent).collect::<Vec<_>>().await);
        }
        probed.sort_by_key(|probed| CASES.iter().position(|case| case.name == probed.name));
        attribute(&mut probed);
        let count = |is_counted: fn(Outcome) -> bool| probed.iter().filter(|probed| is_counted(probed.outcome)).count();
        Ok(ProbeReport {
            url: self.probe.signing.url.clone(),
            dialled: self.probe.target.text.to_string(),
            scheme: self.probe.signing.scheme.name().name(),
            took_ms: self.elapsed().as_millis(),
            requests: self.sent.load(Ordering::Relaxed),
            passed: count(|outcome| outcome == Outcome::Pass),
            failed: count(Outcome::is_failure),
            incomplete: count(|outcome| outcome == Outcome::Incomplete),
            diagnosis,
            not_sent,
            cases: probed,
            not_applicable: not_applicable.iter().map(|case| case.name).collect(),
        })
    }

    async fn case(&self, case: &'static Case, accepts_valid: bool) -> ProbedCase {
        let (mut exchanges, mut event) = (Vec::new(), 0);
        for (at, sending) in case.requests.iter().enumerate() {
            event += usize::from(at > 0 && !sending.repeats);
            let request = self.request(case, at, event);
            let (reply, took) =
                self.send(request.clone()).await.unwrap_or_else(|DialProblem { reason, detail, .. }| {
                    (Reply::Failed { reason, detail }, Duration::ZERO)
                });
            let is_unsent = matches!(reply, Reply::Unsent(_));
            exchanges.push((request, reply, took));
            if is_unsent {
                break;
            }
        }
        probed_case(case, accepts_valid, &exchanges, self.redactor())
    }

    fn elapsed(&self) -> Duration {
        machine::monotonic().duration_since(self.began)
    }

    fn redactor(&self) -> Redactor<'_> {
        Redactor::new(&self.probe.profile.keys)
    }

    /// Why the valid delivery was not accepted, as far as further deliveries can show it.
    async fn diagnose(&self, reply: &Reply) -> String {
        let text = match reply {
            Reply::Failed { reason: FailureReason::Timeout, .. } | Reply::Unsent(_) => {
                "it accepts requests but does not answer them in time; answer first and work later, or look at its log"
            }
            Reply::Failed { .. } => "it ends connections without a valid answer; look at its log",
            Reply::Answered { status, .. } => match status {
                429 => "it answered 429 to the first request; raise its limit of requests",
                404 => {
                    "it answered 404 to a POST; check the path of the URL, and that it does not look for the workflow of the event"
                }
                405 => "it answered 405 to a POST; check the path of the URL",
                300..=399 => {
                    "it redirects deliveries, and redirects are not followed: let it answer at this URL itself, or probe the URL that answers"
                }
                400..=499 => return self.accepted_variation(reply).await,
                _ => return format!("it answered {status} to the valid delivery; look at its log"),
            },
        };
        text.to_owned()
    }

    async fn accepted_variation(&self, reply: &Reply) -> String {
        let id = format!("{}diagnosis", self.name);
        let occasion = self.occasion(&id, &self.name);
        for (what, request) in variations(&self.probe.signing, occasion) {
            // With --all, the cases need time as well.
            if self.elapsed() > MAX / 2 {
                break;
            }
            if matches!(self.send(request).await, Ok((reply, _)) if reply.is_success()) {
                return what;
            }
        }
        if matches!(reply, Reply::Answered { text, .. } if text.trim_start().starts_with('<')) {
            return "it answers a page, as what comes before a handler does: check that it serves this host, and that its check of \
                    CSRF leaves this path out"
                .to_owned();
        }
        "it accepts no other reading of the secret, scheme, form of the signature or of the body either; check that it has this \
         secret (`wrs-emulator subscriptions show ID --secret` prints a subscription's), that its clock is right, that it \
         does not look for the workflow of the event, and that it asks for no field that the event does not have"
            .to_owned()
    }

    fn request(&self, case: &Case, at: usize, event: usize) -> ProbeRequest {
        let workflow = format!("{}{}", self.name, case.name.replace('-', ""));
        let id = format!("{workflow}{event}");
        make(&case.requests[at], &self.probe.signing, self.occasion(&id, &workflow))
    }

    fn occasion<'o>(&'o self, event: &'o str, subject: &'o str) -> Occasion<'o> {
        Occasion { profile: &self.probe.profile, event, subject, created: self.started, now: machine::wall_time() }
    }

    /// Sends a request, within the limits of the probe; the reply, and how long it took.
    async fn send(&self, request: ProbeRequest) -> Result<(Reply, Duration), DialProblem> {
        let limit = self.probe.timeout.min(MAX.saturating_sub(self.elapsed()));
        let over = |what: &str| Reply::Unsent(format!("{what} the {} s of the probe were over", MAX.as_secs()));
        if limit.is_zero() {
            return Ok((over("not sent:"), Duration::ZERO));
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
        let began = machine::monotonic();
        let Probe { target, reach, .. } = self.probe;
        let progress = Progress::default();
        let letters = request.letters;
        let request = (outgoing(target, request), letters);
        let sent = send_once(target, &self.addresses, reach, limit / 2, request, &progress);
        let reply = match timeout(limit, sent).await {
            Ok(Ok(answered)) => match answered.outcome {
                AttemptOutcome::Answered { status, body, note, .. } => {
                    Reply::Answered { status, note, text: beginning(&body) }
                }
                AttemptOutcome::Failed { reason, detail, .. } => Reply::Failed { reason, detail },
            },
            Ok(Err(problem)) => return Err(problem),
            Err(_) if limit < self.probe.timeout && limit < ENOUGH => over("no answer before"),
            Err(_) => Reply::Failed {
                reason: FailureReason::Timeout,
                detail: progress.late(&format!("{:.1} s (--timeout)", limit.as_secs_f64())),
            },
        };
        Ok((reply, machine::monotonic().duration_since(began)))
    }
}

/// Attributes the outcome of a case to another case where the two have one cause: no fault is reported that the receiver may not have.
fn attribute(probed: &mut [ProbedCase]) {
    let results: Vec<_> = probed.iter().map(|probed| (probed.name, probed.outcome, probed.status)).collect();
    let result = |name: &str| results.iter().find(|(other, ..)| *other == name);
    let accepts_any_signature =
        result(ANOTHER_SECRET).is_some_and(|(_, outcome, _)| *outcome == Outcome::AcceptedForged);
    for probed in probed.iter_mut().filter(|probed| probed.name != VALID) {
        let fails_like = |name: &str| {
            result(name).is_some_and(|(_, outcome, status)| {
                let is_alike = *status == probed.status && (status.is_some() || *outcome == probed.outcome);
                *outcome != Outcome::Pass && probed.outcome.is_failure() && is_alike
            })
        };
        let built_on = CASES.iter().find(|case| case.name == probed.name).and_then(|case| case.builds_on);
        if fails_like(VALID) {
            let is_refused = probed.outcome == Outcome::RefusedValid;
            let first = "it gives the same answer as to the valid delivery: first make it accept that one";
            probed.remedy = if is_refused { Some(first) } else { probed.remedy };
        } else if let Some(other) = built_on.filter(|other| fails_like(other)) {
            probed.outcome = Outcome::Incomplete;
            probed.detail =
                Some(format!("it answers `{other}` in the same way, from which this case differs in one thing only"));
            probed.remedy = None;
        } else if probed.outcome == Outcome::AcceptedForged && accepts_any_signature {
            probed.remedy = Some(VERIFY_FIRST);
        }
    }
}

fn probed_case(
    case: &'static Case,
    accepts_valid: bool,
    exchanges: &[TimedExchange],
    redactor: Redactor<'_>,
) -> ProbedCase {
    let replies: Vec<Reply> = exchanges.iter().map(|(_, reply, _)| reply.clone()).collect();
    let observed = |reply: &Reply| redactor.text(&reply.to_string()).into_owned();
    let (outcome, detail) = assess_replies(case.expects, &replies, accepts_valid);
    ProbedCase {
        name: case.name,
        outcome,
        sent: case.sends,
        expected: case.expects,
        observed: replies.iter().map(&observed).collect::<Vec<_>>().join(", then "),
        detail,
        clause: case.clause,
        remedy: outcome.remedy(case),
        status: replies.last().and_then(Reply::status),
        took_ms: exchanges.iter().map(|(.., took)| took.as_millis()).sum(),
        requests: exchanges
            .iter()
            .map(|(request, reply, took)| SentRequest {
                method: request.method,
                headers: request.headers.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect(),
                body: beginning(&request.body),
                body_bytes: request.body.len(),
                observed: observed(reply),
                took_ms: took.as_millis(),
            })
            .collect(),
    }
}

fn beginning(body: &Bytes) -> String {
    String::from_utf8_lossy(&body[..body.len().min(MAX_SHOWN)]).into_owned()
}

fn outgoing(target: &DialTarget, request: ProbeRequest) -> Request<ResponseBody> {
    let body = match (request.is_slow, request.is_chunked) {
        (true, _) => in_pieces(request.body),
        (false, true) => ResponseBody::chunked(request.body),
        (false, false) => request.body.into(),
    };
    let mut head = Request::builder().method(request.method).uri(target.uri.clone()).header(HOST, target.host.clone());
    if let Some(authorization) = &target.authorization {
        head = head.header(AUTHORIZATION, authorization.clone());
    }
    for (name, value) in target.original.iter().flat_map(Original::headers) {
        head = head.header(name, value);
    }
    for (name, value) in request.headers {
        head = head.header(name, value);
    }
    head.body(body).expect("ids, numbers and signatures are valid in headers")
}

fn in_pieces(body: Bytes) -> ResponseBody {
    let size = body.len().div_ceil(PIECES).max(1);
    let pieces = stream::unfold((body, true), move |(mut rest, is_first)| async move {
        if rest.is_empty() {
            return None;
        }
        if !is_first {
            sleep(PAUSE).await;
        }
        let piece = rest.split_to(size.min(rest.len()));
        Some((Ok(piece), (rest, false)))
    });
    ResponseBody::stream(pieces)
}

#[derive(Clone, Debug)]
enum Reply {
    Answered {
        status: u16,
        /// Further details: where it redirects to, or that its body broke off.
        note: Option<Box<str>>,
        text: String,
    },
    /// No connection, no answer in time, or a connection that broke.
    Failed { reason: FailureReason, detail: String },
    /// It was not sent, or not given the time that it may take; why.
    Unsent(String),
}

impl Reply {
    fn is_success(&self) -> bool {
        matches!(self, Self::Answered { status: 200..=299, .. })
    }

    fn status(&self) -> Option<u16> {
        match self {
            Self::Answered { status, .. } => Some(*status),
            Self::Failed { .. } | Self::Unsent(_) => None,
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { status, note, text } => {
                f.write_str(&status_text(*status, note.as_deref()))?;
                let page = html::is_page(text.as_bytes()).then(|| html::visible_text(text).unwrap_or_default());
                let shown = page.as_deref().or_else(|| text.lines().next());
                match shown.map(str::trim).filter(|line| !line.is_empty()) {
                    Some(line) => write!(f, " \"{}\"", shorten(line, 120)),
                    None => Ok(()),
                }
            }
            Self::Failed { detail: text, .. } | Self::Unsent(text) => f.write_str(text),
        }
    }
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Outcome {
        Pass = "pass",
        Incomplete = "incomplete",
        AcceptedForged = "accepted-forged",
        RefusedValid = "refused-valid",
        Slow = "slow",
        /// An answer of 5xx, or a connection that broke before there was an answer.
        Crashed = "crashed",
        Redirected = "redirected",
        /// There was no connection, although the receiver had answered before.
        NoAnswer = "no-answer",
    }
}

impl Outcome {
    /// True if it is a fault of the receiver.
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Pass | Self::Incomplete)
    }

    /// The change to make in a receiver for which a case ended this way.
    fn remedy(self, case: &Case) -> Option<&'static str> {
        self.is_failure().then(|| match self {
            Self::Slow => {
                "answer first and work later: after its timeout the service counts the delivery as failed and retries"
            }
            Self::Redirected => "answer at the subscribed URL itself, or subscribe with the URL that answers: redirects are not followed",
            Self::Crashed if case.expects == Expectation::Refused => {
                "refuse with a 4xx: after a 5xx or a closed connection the delivery is sent again, and it may be a crash"
            }
            Self::NoAnswer => "look at the receiver's log: it stopped accepting connections during the probe",
            _ => case.remedy,
        })
    }
}

type Judgement = (Outcome, Option<String>);

/// Judges a case. If the receiver did not accept the valid delivery, its refusals prove nothing.
fn assess_replies(expects: Expectation, replies: &[Reply], accepts_valid: bool) -> Judgement {
    let judged = replies.iter().map(|reply| judge_reply(expects, reply, accepts_valid));
    let worst = judged.fold((Outcome::Pass, None), |worst, next| match (worst.0, next.0) {
        (Outcome::Pass, _) => next,
        (Outcome::Incomplete, found) if found.is_failure() => next,
        _ => worst,
    });
    let needs_evidence = matches!(expects, Expectation::OneEffect | Expectation::NoEffect);
    if worst.0 == Outcome::Pass && needs_evidence && replies.iter().any(Reply::is_success) {
        return incomplete("2xx proves nothing about its effect; see in your receiver whether there was one");
    }
    worst
}

fn incomplete(why: &str) -> Judgement {
    (Outcome::Incomplete, Some(why.to_owned()))
}

fn judge_reply(expects: Expectation, reply: &Reply, accepts_valid: bool) -> Judgement {
    use Expectation::{Accepted, Either, IfSubscribed, NoEffect, OneEffect, Refused};
    let status = match reply {
        Reply::Unsent(why) => return incomplete(why),
        Reply::Failed { reason, .. } => {
            let outcome = match reason {
                FailureReason::Timeout => Outcome::Slow,
                FailureReason::ConnectionReset | FailureReason::InvalidAnswer => Outcome::Crashed,
                _ => Outcome::NoAnswer,
            };
            return (outcome, None);
        }
        Reply::Answered { status, .. } => *status,
    };
    match (expects, status) {
        (_, 429) => incomplete("429 proves nothing; raise the limit of requests and run the probe again"),
        (Refused, 200..=299) => (Outcome::AcceptedForged, None),
        (Accepted | OneEffect | Either | IfSubscribed, 200..=299) | (NoEffect, 200..=499 | 501) => {
            (Outcome::Pass, None)
        }
        (_, 300..=399) => (Outcome::Redirected, None),
        (Accepted | OneEffect, 400..=499) => (Outcome::RefusedValid, None),
        (Refused | Either, 400..=499) if accepts_valid => (Outcome::Pass, None),
        (IfSubscribed, 400..=499) if accepts_valid => {
            incomplete("a refusal is right if you do not subscribe to the type, and a fault if you do")
        }
        (Refused | Either | IfSubscribed, 400..=499) => incomplete("the valid delivery was not accepted either"),
        _ => (Outcome::Crashed, None),
    }
}
