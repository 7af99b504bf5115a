//! Runs the cases against one receiver: the valid delivery first, then all others, a few at a time, within ten seconds and a
//! hundred requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::case::{Case, Expectation, Transfer};
use super::delivery::{Made, Occasion, ProbeSigning, is_applicable, make, variations};
use super::effect::{EffectCommand, EffectProblem};
use super::judge::{Evidence, Outcome, judge};
use super::reply::ProbeReply;
use super::report::{ProbeReport, Probed, SentRequest, observed};
use super::table::{CASES, VALID};
use super::wire::exchange;
use crate::clock::machine;
use crate::webhook::dial::{DialProblem, Reach, resolve};
use crate::webhook::egress::Target;
use crate::workspace::FailureReason;

/// The longest that a probe takes.
pub const LONGEST: Duration = Duration::from_secs(10);
/// Most requests of a probe.
const MOST_REQUESTS: usize = 100;
/// How many cases run at a time: many receivers in development handle one request at a time.
const CONCURRENT: usize = 4;
/// An answer that takes longer is slow, even if the probe is over before the limit for one request.
const ENOUGH: Duration = Duration::from_secs(3);
/// How long a first delivery may take until its effect can be seen.
const EFFECT_LIMIT: Duration = Duration::from_secs(1);
/// The shortest wait for an effect that must not come.
const EFFECT_PAUSE: Duration = Duration::from_millis(200);

/// A probe of one receiver.
#[derive(Debug)]
pub struct Probe {
    /// The receiver.
    pub target: Arc<Target>,
    /// How it may be reached.
    pub reach: Reach,
    /// What deliveries are signed with.
    pub signing: ProbeSigning,
    /// Limit for each request, its connect included.
    pub timeout: Duration,
    /// The command that shows effects.
    pub effect: Option<EffectCommand>,
    /// Names of the cases to run besides the valid delivery; all if empty.
    pub only: Vec<String>,
}

/// Why there is nothing to report.
#[derive(Debug, thiserror::Error)]
pub enum ProbeProblem {
    /// The receiver cannot be reached, or must not be.
    #[error("{}", .0.detail)]
    Unreachable(DialProblem),
    /// The effect command does not work.
    #[error("{0}")]
    Effect(#[from] EffectProblem),
}

impl Probe {
    /// Runs the probe. `done` counts the cases that have ended.
    pub async fn run(&self, done: &AtomicUsize) -> Result<ProbeReport, ProbeProblem> {
        let share = Arc::new(Semaphore::new(1));
        let looked_up = resolve(&self.target, &self.reach.resolver, &share);
        let addresses = match timeout(self.timeout, looked_up).await {
            Ok(found) => found.map_err(ProbeProblem::Unreachable)?,
            Err(_) => return Err(self.look_up_timeout()),
        };
        if let Some(effect) = &self.effect {
            effect.read(LONGEST).await?;
        }
        let name = u64::from_be_bytes(machine::entropy());
        let began = machine::monotonic();
        let run =
            Run { probe: self, addresses, name: format!("probe{name:016x}"), began, sent: AtomicUsize::new(0), done };
        run.all().await
    }

    /// How many cases the probe will run.
    pub fn count(&self) -> usize {
        self.chosen().filter(|case| self.applies(case)).count()
    }

    fn chosen(&self) -> impl Iterator<Item = &'static Case> {
        let is_chosen =
            |case: &&Case| self.only.is_empty() || case.name == VALID || self.only.iter().any(|name| name == case.name);
        CASES.iter().filter(is_chosen)
    }

    fn applies(&self, case: &Case) -> bool {
        is_applicable(case, &self.signing, Occasion { id: "probe", workflow: "probe", now: machine::wall_time() })
    }

    fn look_up_timeout(&self) -> ProbeProblem {
        let detail = format!(
            "the look-up of the name `{}` did not end within {} s (--timeout)",
            self.target.host_text(),
            self.timeout.as_secs_f64()
        );
        ProbeProblem::Unreachable(DialProblem { reason: FailureReason::Timeout, detail })
    }
}

/// A probe under way.
struct Run<'a> {
    probe: &'a Probe,
    addresses: Vec<SocketAddr>,
    /// Part of every id, so that no event of an earlier probe is repeated.
    name: String,
    began: Instant,
    sent: AtomicUsize,
    done: &'a AtomicUsize,
}

impl Run<'_> {
    async fn all(&self) -> Result<ProbeReport, ProbeProblem> {
        let (cases, not_applicable): (Vec<_>, Vec<_>) = self.probe.chosen().partition(|case| self.probe.applies(case));
        let (valid, rest) = cases.split_first().expect("the valid delivery always applies");
        let (made, first) = self.first(valid).await?;
        let accepts_valid = first.0.is_success();
        let diagnosis = if accepts_valid { None } else { Some(self.diagnose(&first.0).await) };
        let mut probed = vec![self.judged(valid, true, vec![(made, first)], None)];

        let answers = !matches!(probed[0].outcome, Outcome::Slow);
        let is_alone = |case: &&Case| self.probe.effect.is_some() && case.expects.needs_evidence();
        let (alone, rest): (Vec<_>, Vec<_>) = rest.iter().copied().partition(is_alone);
        // A receiver that handles one request at a time cannot answer others during a slow one.
        let is_slow =
            |case: &&Case| answers && case.requests.iter().any(|sending| sending.transfer == Transfer::InPieces);
        let (slow, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_slow);
        let concurrent = if answers { CONCURRENT } else { rest.len().max(1) };
        for (cases, concurrent) in [(alone, 1), (rest, concurrent), (slow, 1)] {
            let running = stream::iter(cases).map(|case| self.case(case, accepts_valid));
            probed.extend(running.buffer_unordered(concurrent).collect::<Vec<_>>().await);
        }
        let place = |name: &str| CASES.iter().position(|case| case.name == name);
        probed.sort_by_key(|probed| place(probed.name));
        Ok(ProbeReport {
            url: self.probe.signing.url.clone(),
            dialled: self.probe.target.text.to_string(),
            scheme: self.probe.signing.scheme.name().name(),
            took_ms: self.elapsed().as_millis(),
            requests: self.sent.load(Ordering::Relaxed),
            passed: count(&probed, |outcome| outcome == Outcome::Pass),
            failed: count(&probed, Outcome::is_failure),
            incomplete: count(&probed, |outcome| outcome == Outcome::Incomplete),
            diagnosis,
            cases: probed,
            not_applicable: not_applicable.iter().map(|case| case.name).collect(),
        })
    }

    /// The valid delivery. That it cannot be sent is one problem, and not one for each case.
    async fn first(&self, case: &Case) -> Result<(Made, (ProbeReply, Duration)), ProbeProblem> {
        let made = self.made(case, 0, 0);
        let replied = self.send(made.clone()).await.map_err(ProbeProblem::Unreachable)?;
        Ok((made, replied))
    }

    async fn case(&self, case: &'static Case, accepts_valid: bool) -> Probed {
        let effect = self.probe.effect.as_ref().filter(|_| case.expects.needs_evidence());
        let mut effects = match effect {
            Some(effect) => Some(effect.read(self.left()).await.map(|text| vec![text])),
            None => None,
        };
        let (mut exchanges, mut event, mut seen_after) = (Vec::new(), 0, Duration::ZERO);
        for (at, sending) in case.requests.iter().enumerate() {
            event += usize::from(at > 0 && !sending.repeats);
            let made = self.made(case, at, event);
            let replied = self.send(made.clone()).await;
            let replied = replied.unwrap_or_else(|DialProblem { reason, detail }| {
                (ProbeReply::Failed { reason, detail }, Duration::ZERO)
            });
            let is_sent = !matches!(replied.0, ProbeReply::Unsent(_));
            exchanges.push((made, replied));
            if !is_sent {
                break;
            }
            if let (Some(effect), Some(Ok(texts))) = (effect, &mut effects) {
                let read = if at == 0 && case.expects == Expectation::OneEffect {
                    let began = machine::monotonic();
                    let read = self.changed(effect, &texts[0]).await;
                    seen_after = began.elapsed();
                    read
                } else {
                    sleep(EFFECT_PAUSE.max(2 * seen_after).min(EFFECT_LIMIT).min(self.left())).await;
                    effect.read(self.left()).await
                };
                match read {
                    Ok(text) => texts.push(text),
                    Err(problem) => effects = Some(Err(problem)),
                }
            }
        }
        self.judged(case, accepts_valid, exchanges, effects)
    }

    fn judged(
        &self,
        case: &'static Case,
        accepts_valid: bool,
        exchanges: Vec<(Made, (ProbeReply, Duration))>,
        effects: Option<Result<Vec<String>, EffectProblem>>,
    ) -> Probed {
        let replies: Vec<ProbeReply> = exchanges.iter().map(|(_, (reply, _))| reply.clone()).collect();
        let texts = effects.as_ref().and_then(|effects| effects.as_deref().ok());
        let evidence = Evidence { replies: &replies, accepts_valid, effects: texts };
        let (outcome, mut detail) = judge(case.expects, &evidence);
        if let (Outcome::Incomplete, Some(Err(problem))) = (outcome, &effects) {
            detail = Some(format!("--effect-command: {problem}"));
        }
        let took: Duration = exchanges.iter().map(|(_, (_, took))| *took).sum();
        let requests = exchanges.iter().map(|(made, (reply, took))| SentRequest::new(made, reply, *took));
        self.done.fetch_add(1, Ordering::Relaxed);
        Probed {
            name: case.name,
            outcome,
            sent: case.sends,
            expected: case.expects,
            observed: replies.iter().map(observed).collect::<Vec<_>>().join(", then "),
            detail,
            clause: case.clause,
            remedy: Probed::remedy_of(case, outcome),
            took_ms: took.as_millis(),
            requests: requests.collect(),
        }
    }

    /// Why the valid delivery was not accepted, as far as further deliveries can show it.
    async fn diagnose(&self, reply: &ProbeReply) -> String {
        let status = match reply {
            ProbeReply::Answered { status, .. } => status,
            ProbeReply::Failed { reason: FailureReason::Timeout, .. } | ProbeReply::Unsent(_) => {
                return "it takes requests and does not answer them in time; look at its log".to_owned();
            }
            ProbeReply::Failed { .. } => {
                return "it ends connections without a valid answer; look at its log".to_owned();
            }
        };
        match status {
            429 => return "it answered 429 to the first request; raise its limit of requests".to_owned(),
            404 | 405 => return format!("it answered {status} to a POST; check the path of the URL"),
            300..=399 => return "it redirects deliveries; probe the URL that it redirects to".to_owned(),
            400..=499 => {}
            _ => return format!("it answered {status} to the valid delivery; look at its log"),
        }
        let id = format!("{}diagnosis", self.name);
        let occasion = Occasion { id: &id, workflow: &self.name, now: machine::wall_time() };
        for (what, made) in variations(&self.probe.signing, occasion) {
            if matches!(self.send(made).await, Ok((reply, _)) if reply.is_success()) {
                return what;
            }
        }
        "it accepts no other reading of the secret, scheme or form of the body either; check that it has this secret, that its \
         clock is right, and that it does not look for the workflow of the event"
            .to_owned()
    }

    fn made(&self, case: &Case, at: usize, event: usize) -> Made {
        let workflow = format!("{}{}", self.name, case.name.replace('-', ""));
        let id = format!("{workflow}{event}");
        make(
            &case.requests[at],
            &self.probe.signing,
            Occasion { id: &id, workflow: &workflow, now: machine::wall_time() },
        )
    }

    /// Sends a request, within the limits of the probe; the reply, and how long it took.
    async fn send(&self, made: Made) -> Result<(ProbeReply, Duration), DialProblem> {
        let limit = self.probe.timeout.min(self.left());
        if limit.is_zero() || self.sent.fetch_add(1, Ordering::Relaxed) >= MOST_REQUESTS {
            return Ok((
                ProbeReply::Unsent(format!("not sent: the {} s of the probe were over", LONGEST.as_secs())),
                Duration::ZERO,
            ));
        }
        let began = machine::monotonic();
        let exchanged = exchange(&self.probe.target, &self.addresses, &self.probe.reach, limit / 2, made);
        let reply = match timeout(limit, exchanged).await {
            Ok(reply) => reply?,
            Err(_) if limit < self.probe.timeout && limit < ENOUGH => {
                ProbeReply::Unsent(format!("no answer before the {} s of the probe were over", LONGEST.as_secs()))
            }
            Err(_) => ProbeReply::Failed {
                reason: FailureReason::Timeout,
                detail: format!("no answer within {:.1} s (--timeout)", limit.as_secs_f64()),
            },
        };
        Ok((reply, began.elapsed()))
    }

    /// The effect as soon as it differs, or as it is when the time is up.
    async fn changed(&self, effect: &EffectCommand, before: &str) -> Result<String, EffectProblem> {
        let began = machine::monotonic();
        loop {
            let now = effect.read(self.left()).await?;
            if now != before || began.elapsed() >= EFFECT_LIMIT {
                return Ok(now);
            }
            sleep(EFFECT_PAUSE / 4).await;
        }
    }

    fn elapsed(&self) -> Duration {
        machine::monotonic().duration_since(self.began)
    }

    /// What is left of the time of the probe.
    fn left(&self) -> Duration {
        LONGEST.saturating_sub(self.elapsed())
    }
}

fn count(probed: &[Probed], is_counted: impl Fn(Outcome) -> bool) -> usize {
    probed.iter().filter(|probed| is_counted(probed.outcome)).count()
}
