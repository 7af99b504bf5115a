//! Explains a delivery: the part of `explain` for `dlv_…`.
//!
//! Steps report each attempt; advice names what to check or run next, with a command to paste.

use std::borrow::Cow;
use std::iter;
use std::time::Duration;

use hyper::header::CONTENT_TYPE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{Control, story};
use crate::advice::{Advice, Hint};
use crate::clock::{Instant, machine};
use crate::contract::keys::SAMPLE_KEY;
use crate::contract::nearest;
use crate::contract::signature::{KeyReading, SchemeName, TOLERANCE_SECONDS, Verified, verify};
use crate::redact::{Redactor, visible};
use crate::settings::Profile;
use crate::state::engine::deliveries::{Cancellation, DeliveryRecord, DeliveryStatus};
use crate::state::journal::record::time;
use crate::state::workspace::{
    AttemptOutcome, AttemptRecord, EventRecord, Forgery, LastRotation, Workspace, is_elsewhere,
};
use crate::util::duration::{DurationText, duration_text};
use crate::util::html;
use crate::webhook::client::NO_ANSWER;
use crate::webhook::signed::{DELIVERY, signing_keys, signs_by_clock};

/// One check on the way to an answer, or one attempt.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Step")]
pub(crate) struct ExplainedStep {
    /// The thing examined.
    pub(crate) check: String,
    /// How it went.
    pub(crate) verdict: StepVerdict,
    /// The result, in words.
    pub(crate) detail: String,
}

impl ExplainedStep {
    pub(crate) fn new(check: impl Into<String>, verdict: StepVerdict, detail: impl Into<String>) -> Self {
        Self { check: check.into(), verdict, detail: detail.into() }
    }
}

/// How a step went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepVerdict {
    /// The check passed, or the attempt was accepted.
    Passed,
    /// The attempt was not accepted.
    Failed,
    /// The check decided the answer.
    Decided,
    /// An earlier check decided, or the attempt is still to come.
    NotReached,
}

/// Maximum bytes of a body that is repeated in a command.
const MAX_PASTED: usize = 4096;
/// Maximum number of keys whose forwards are searched for one failed delivery: a verdict has thousands of both.
const MAX_KEYS_SEARCHED: usize = 200;
pub(super) const OWN_LOG: &str = "what does the receiver's own log say?";
/// What to ask about a refusal of a correct signature.
const SECRET: &str = "does your receiver use the secret of this subscription, verify the body as received, and answer this only to a wrong signature?";
const GENERATED: &str = "does your receiver use the secret that was generated for this subscription (its own is passed as `secret`), verify the body as received, and answer this only to a wrong signature?";
/// Statuses with which receivers refuse a signature.
const REFUSALS: [u16; 4] = [400, 401, 403, 422];

/// The furthest that the `Date` of an answer is from the time of a signature if both clocks are right.
const DATE_TOLERANCE_SECONDS: u64 = 60;

/// A clock for which the time of a signature, in seconds, is wrong.
enum OffClock {
    /// The emulator's, which signed at this time, is far from the machine's, with which the receiver compares.
    Emulator(i64),
    /// The receiver's is so many seconds ahead, and showed this time.
    Receiver(i64, jiff::Timestamp),
}

/// A delivery with everything needed to explain it.
pub(super) struct Diagnosis<'a> {
    control: &'a Control,
    delivery: &'a DeliveryRecord,
    redactor: Redactor<'a>,
}

impl<'a> Diagnosis<'a> {
    pub(super) fn new(control: &'a Control, delivery: &'a DeliveryRecord, redactor: Redactor<'a>) -> Self {
        Self { control, delivery, redactor }
    }

    /// Each attempt, the deliberate damage, and when the next attempt is due.
    pub(super) fn steps(&self) -> Vec<ExplainedStep> {
        let attempts = self.delivery.attempts.iter().map(|attempt| {
            let passed = story::went_well(attempt.outcome.is_success(), attempt.forgery());
            let verdict = if passed { StepVerdict::Passed } else { StepVerdict::Failed };
            ExplainedStep::new(
                format!("attempt {}", attempt.number),
                verdict,
                story::attempt_summary(attempt, self.redactor),
            )
        });
        let damage = damage_step(&self.delivery.event);
        attempts.chain(damage).chain(self.rotation_step()).chain(self.next_step()).collect()
    }

    /// The last rotation of the secret, if an attempt came after it.
    fn rotation_step(&self) -> Option<ExplainedStep> {
        let workspace = self.control.engine.registry.find(&self.delivery.event.workspace)?;
        let (rotation, ends) = rotation_before(self.delivery.attempts.last()?, &workspace)?;
        let now = workspace.clock().now();
        let (verb, until) = match ends.since(now.instant) {
            Duration::ZERO => ("signed", now.wall.saturating_sub(now.instant.since(ends))),
            rest => ("signs", now.wall.saturating_add(rest)),
        };
        let (replaced, until) = (replaced(&rotation), time(until.unwrap_or(now.wall)));
        let detail = format!("{replaced}; the old one {verb} as well until {until}");
        Some(ExplainedStep::new("secret", StepVerdict::Passed, self.redactor.text(&detail)))
    }

    pub(super) fn advice(&self) -> Vec<Hint> {
        let workspace = self.control.engine.registry.find(&self.delivery.event.workspace);
        let mut advice: Vec<Hint> = self.judged_receiver().into_iter().collect();
        if let Some(workspace) = &workspace {
            advice.extend(self.clocks(workspace));
        }
        advice.extend(self.near_miss().map(Hint::from));
        advice.extend(self.forward_of_another_key());
        advice.extend(self.next_of_failure().cloned());
        advice.extend(self.question().or_else(|| self.own_log()).map(Hint::from));
        if let Some(workspace) = &workspace {
            advice.extend(self.secret(workspace));
            advice.extend(self.run_next(workspace));
        }
        let refused = self.delivery.forgery() == Some(Forgery::Refused);
        if self.delivery.status != DeliveryStatus::Delivered && self.delivery.made > 0 && !refused {
            advice.push(Hint {
                text: "to send the event again now, signed afresh, as a separate delivery:".to_owned(),
                advice: Some(Advice::Redeliver { id: self.delivery.planned.id.clone() }),
            });
        }
        advice
    }

    fn next_step(&self) -> Option<ExplainedStep> {
        let registry = &self.control.engine.registry;
        let workspace = registry.find(&self.delivery.event.workspace);
        let now = workspace.map_or_else(|| registry.clock().now(), |workspace| workspace.clock().now());
        let wait = self.delivery.next?.since(now.instant);
        let number = self.delivery.attempts_made() + 1;
        let when = match now.wall.checked_add(wait) {
            Ok(at) if !wait.is_zero() => format!("is due in {}, at {}", duration_text(wait), time(at)),
            _ => "is due now".to_owned(),
        };
        Some(ExplainedStep::new(format!("attempt {number}"), StepVerdict::NotReached, when))
    }

    /// How to make the next attempt without waiting for it.
    fn run_next(&self, workspace: &Workspace) -> Option<Hint> {
        let wait = self.delivery.next?.since(workspace.clock().instant());
        if wait.is_zero() {
            return None;
        }
        Some(Hint {
            text: format!(
                "to run attempt {} now, with everything else that is due by then:",
                self.delivery.attempts_made() + 1
            ),
            advice: Some(advance_clock(wait, workspace, self.redactor)),
        })
    }

    /// A receiver that was sent a forged delivery has passed or failed a test.
    pub(super) fn judged_receiver(&self) -> Option<Hint> {
        Some(Hint::from(match self.delivery.forgery()? {
            Forgery::Accepted => {
                format!(
                    "the receiver accepted a delivery that it must refuse: {}",
                    story::after_accepted(self.delivery)
                )
            }
            Forgery::Refused => "the receiver refused the delivery, as it must".to_owned(),
        }))
    }

    /// The first advice on a refusal, in a sentence that reads alike for every subscription.
    pub(super) fn remedy(&self) -> Option<&'static str> {
        self.remedy_by(self.off_clock().as_ref())
    }

    fn off_clock(&self) -> Option<OffClock> {
        let workspace = self.control.engine.registry.find(&self.delivery.event.workspace)?;
        self.off_clocks(&workspace)
    }

    fn remedy_by(&self, clock: Option<&OffClock>) -> Option<&'static str> {
        if self.delivery.note == Some(Cancellation::ReceiverEnded) && self.delivery.made == 1 {
            return Some("should the test wait for this event?");
        }
        if self.is_under_way() {
            return Some(NO_ANSWER);
        }
        let secret = || {
            self.refused_attempt().map(|attempt| if self.has_generated_secret(attempt) { GENERATED } else { SECRET })
        };
        match clock {
            Some(OffClock::Emulator(_)) => Some(
                "it was signed by the emulator's clock, which is far from this machine's: does your receiver compare the time?",
            ),
            Some(OffClock::Receiver(..)) => Some(
                "the receiver's clock is far from the time of the signature, as the `Date` of its answer shows: does it compare the time?",
            ),
            None => self.question().or_else(secret),
        }
    }

    /// True if the emulator generated the secret. A receiver that has its own does not know it.
    fn has_generated_secret(&self, attempt: &AttemptRecord) -> bool {
        let workspace = self.control.engine.registry.find(&self.delivery.event.workspace);
        workspace.is_some_and(|workspace| {
            let state = workspace.lock();
            state.subscriptions.get(&attempt.delivery.subscription).is_some_and(|record| record.has_generated_secret)
        })
    }

    /// True if the first attempt has begun, and has not ended.
    pub(super) fn is_under_way(&self) -> bool {
        let workspace = self.control.engine.registry.find(&self.delivery.event.workspace);
        let now = workspace.map(|workspace| workspace.clock().instant());
        self.delivery.attempts_made() == 0 && now.zip(self.delivery.next).is_some_and(|(now, due)| due <= now)
    }

    /// The first check or step: the one advice of a verdict, a cause and a saved run.
    pub(super) fn first_advice(&self) -> Option<Hint> {
        let remedy = match self.off_clock() {
            // In a sentence that the machine's time does not change.
            Some(OffClock::Emulator(_)) => Some(Hint::new(
                "it was signed by the emulator's clock, which is far from this machine's, and a receiver that compares the time refuses that; to sign by the machine's clock:",
                Advice::set("webhooks.timestamp", "real"),
            )),
            clock => self.remedy_by(clock.as_ref()).map(Hint::from),
        };
        let forward = || self.near_miss().map(Hint::from).or_else(|| self.forward_of_another_key());
        remedy.or_else(forward).or_else(|| self.next_of_failure().cloned())
    }

    /// The advice of the deciding attempt, if it found no receiver or could not talk to it.
    fn next_of_failure(&self) -> Option<&'a Hint> {
        match &self.delivery.deciding_attempt()?.outcome {
            AttemptOutcome::Failed { hint, .. } => hint.as_deref(),
            AttemptOutcome::Answered { .. } => None,
        }
    }

    /// The first question about an answer that is probably not from the webhook code.
    fn question(&self) -> Option<&'static str> {
        let attempt = self.delivery.deciding_attempt().filter(|_| self.delivery.event.tamper.is_none())?;
        let AttemptOutcome::Answered { status, body, .. } = &attempt.outcome else { return None };
        match status {
            404 => Some("does your receiver have a route for POST at the path of this URL?"),
            405 => Some("does the route of your receiver accept POST?"),
            413 => Some("is a body of this size within the limit of your receiver, and of a proxy before it?"),
            400 if refuses_plain_http(body) => {
                Some("the port is one for TLS: does the forward, or the URL, lead to its https address?")
            }
            400 | 403 if html::is_page(body) => Some(
                "a page of HTML comes from a framework or a proxy: does it accept the host of this URL, and is the route exempt from its CSRF check?",
            ),
            _ => None,
        }
    }

    /// What to ask about a receiver that broke down.
    fn own_log(&self) -> Option<&'static str> {
        let attempt = self.delivery.deciding_attempt().filter(|attempt| !attempt.is_by_sink())?;
        own_log(&attempt.outcome)
    }

    /// The forward of another key alone that would have led the URL of a delivery elsewhere.
    fn forward_of_another_key(&self) -> Option<Hint> {
        let attempt = self.delivery.deciding_attempt().filter(|attempt| !attempt.outcome.is_success())?;
        let (url, own) = (&attempt.delivery.url, &self.delivery.event.workspace);
        let scenarios = self.control.engine.library.load();
        let covering =
            |key: Option<&str>| scenarios.config_for(key).profile.webhooks.forwards.covering(url.parsed()).cloned();
        if is_elsewhere(url.as_str(), &attempt.dialled) || covering(Some(own)).is_some() {
            return None;
        }
        let mut keys = scenarios.patches().keys.keys().take(MAX_KEYS_SEARCHED);
        let (key, forward) = keys.find_map(|key| Some((key, covering(Some(key))?)))?;
        let (url, to) = (forward.from().to_owned(), self.redactor.text(forward.to()).into_owned());
        let text =
            format!("a forward of {url} exists for {} alone; to make it one of all keys:", self.redactor.key(key));
        Some(Hint::new(text, Advice::Forward { url, to }))
    }

    /// Which forward nearly covers the URL of a delivery that failed there, or what its forward should lead to.
    fn near_miss(&self) -> Option<String> {
        let attempt = self.delivery.deciding_attempt().filter(|attempt| !attempt.outcome.is_success())?;
        let url = &attempt.delivery.url;
        if is_elsewhere(url.as_str(), &attempt.dialled) {
            let dialled: Url = attempt.dialled.parse().ok()?;
            let host = dialled.host_str().filter(|host| attempt.outcome.is_unreached() && !host.contains('.'))?;
            let near = nearest(host, iter::once("localhost")).filter(|near| host != *near)?;
            return Some(format!("it was forwarded to `{host}`; did you mean `{near}`?"));
        }
        let profile = self.control.engine.profile_for(Some(&self.delivery.event.workspace));
        let near = profile.webhooks.forwards.near_miss(url.parsed())?;
        Some(format!("it was not forwarded: {near}"))
    }

    /// The clock that makes a correct signature look too old or too new, if the delivery was refused.
    fn off_clocks(&self, workspace: &Workspace) -> Option<OffClock> {
        let attempt = self.refused_attempt()?;
        let profile = self.control.engine.profile_for(Some(workspace.name()));
        let signed_at = verified(attempt, workspace, &profile)?.timestamp?;
        let AttemptOutcome::Answered { date, .. } = &attempt.outcome else { return None };
        let of_receiver = date.map(|date| date.as_second().saturating_sub(signed_at));
        // The receiver answered after it was signed.
        let usual = DATE_TOLERANCE_SECONDS.saturating_add(attempt.latency.as_secs());
        if of_receiver.is_some_and(|off| off.unsigned_abs() <= usual) {
            return None;
        }
        if is_clock_off(workspace, &profile, signed_at) {
            return Some(OffClock::Emulator(signed_at));
        }
        of_receiver.zip(*date).map(|(off, date)| OffClock::Receiver(off, date))
    }

    fn clocks(&self, workspace: &Workspace) -> Option<Hint> {
        Some(match self.off_clocks(workspace)? {
            OffClock::Emulator(signed_at) => sign_by_machine(signed_at)?,
            OffClock::Receiver(off, date) => Hint::from(format!(
                "the `Date` of the receiver's answer was {}, {} {} the time of the signature: a receiver that checks the time refuses that; is its clock right?",
                time(date),
                seconds_text(off.unsigned_abs()),
                if off < 0 { "behind" } else { "ahead of" }
            )),
        })
    }

    /// The attempt that decided, if its receiver refused it and that may be about the signature.
    fn refused_attempt(&self) -> Option<&AttemptRecord> {
        let attempt = self.delivery.deciding_attempt()?;
        (self.delivery.event.tamper.is_none() && is_refusal(&attempt.outcome)).then_some(attempt)
    }

    /// Advice if a refusal may be about the signature.
    fn secret(&self, workspace: &Workspace) -> Vec<Hint> {
        let Some(attempt) = self.refused_attempt() else { return Vec::new() };
        let profile = self.control.engine.profile_for(Some(workspace.name()));
        let subscription = &attempt.delivery.subscription;
        let Some(verified) = verified(attempt, workspace, &profile) else {
            let text = format!("the secret of {subscription} was changed since: does your receiver use the newest?");
            return vec![text.into()];
        };
        if let Some((rotation, _)) = rotation_before(attempt, workspace) {
            let text = format!(
                "the secret of {subscription} was {}: does your receiver know only the old one? It needs both while both sign, and the new one after that",
                replaced(&rotation)
            );
            return vec![Hint { text, advice: Some(Advice::ShowSecret { id: subscription.clone() }) }];
        }
        let asked = format!(
            "signed correctly with the secret of {subscription}: does your receiver use the same one, and verify the body as received? To see the secret:"
        );
        let mut advice = vec![Hint { text: asked, advice: Some(Advice::ShowSecret { id: subscription.clone() }) }];
        advice.extend(self.verify(attempt, &verified, &profile).map(|verify| Hint {
            text: "to check, put your receiver's secret in WRS_WEBHOOK_SECRET and run:".to_owned(),
            advice: Some(verify),
        }));
        advice
    }

    /// How to verify the attempt with the secret in `WRS_WEBHOOK_SECRET`.
    fn verify(&self, attempt: &AttemptRecord, verified: &Verified, profile: &Profile) -> Option<Advice> {
        let scheme = profile.schemes().into_iter().next()?.name();
        // A custom scheme has too many settings for a command line.
        if scheme == SchemeName::Custom {
            return None;
        }
        let body = std::str::from_utf8(&attempt.body).ok();
        let shown_as_it_is =
            |text: &&str| text.len() <= MAX_PASTED && visible(text) == *text && self.redactor.text(text) == *text;
        let is_signed = |name: &str| name != CONTENT_TYPE.as_str() && name != DELIVERY.as_str();
        let headers = attempt.headers.iter().filter(|(name, _)| is_signed(name));
        let reading = profile.webhooks.secret_key;
        Some(Advice::Verify {
            body: body.filter(shown_as_it_is).map(str::to_owned),
            headers: headers.map(|(name, value)| format!("{name}: {value}")).collect(),
            now: verified.timestamp,
            scheme: (scheme != SchemeName::Standard).then(|| scheme.to_string()),
            secret_key: (reading != KeyReading::Auto).then(|| reading.to_string()),
        })
    }
}

/// True if signatures have the time of the key's clock, and a receiver that compares it with this machine's refuses that.
pub(super) fn is_clock_off(workspace: &Workspace, profile: &Profile, signed_at: i64) -> bool {
    let off = machine::wall_time().as_second().abs_diff(signed_at);
    signs_by_clock(workspace.clock(), profile) && off > TOLERANCE_SECONDS.unsigned_abs()
}

/// What to set if it is.
pub(super) fn sign_by_machine(signed_at: i64) -> Option<Hint> {
    let text = format!(
        "signed at {} by the emulator's clock, {} off this machine's: a receiver that checks the time refuses that; to sign by the machine's clock:",
        time(jiff::Timestamp::from_second(signed_at).ok()?),
        seconds_text(machine::wall_time().as_second().abs_diff(signed_at))
    );
    Some(Hint { text, advice: Some(Advice::set("webhooks.timestamp", "real")) })
}

fn seconds_text(seconds: u64) -> String {
    duration_text(Duration::from_secs(seconds))
}

/// Moves the clock of a key.
pub(super) fn advance_clock(by: Duration, workspace: &Workspace, redactor: Redactor<'_>) -> Advice {
    // Rounded up to a millisecond, so that the step reaches the due time.
    let millis = u64::try_from(by.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let is_default = workspace.name().as_ref() == SAMPLE_KEY && workspace.clock().is_plain();
    let key = (!is_default).then(|| key_to_name(workspace, redactor));
    Advice::AdvanceClock { advance: DurationText(Duration::from_millis(millis)).to_string(), key }
}

/// The key, as advice names it. A masked key names nothing, so its workspace is named instead.
pub(super) fn key_to_name(workspace: &Workspace, redactor: Redactor<'_>) -> String {
    let name = workspace.name();
    if redactor.masks(name) { workspace.id().into() } else { name.to_string() }
}

/// The last rotation of the secret if it was before this attempt, and when the old one stops signing.
fn rotation_before(attempt: &AttemptRecord, workspace: &Workspace) -> Option<(LastRotation, Instant)> {
    let state = workspace.lock();
    let rotation = state.subscriptions.get(&attempt.delivery.subscription)?.last_rotation()?;
    (rotation.0.at <= attempt.at).then_some(rotation)
}

fn replaced(LastRotation { at, by }: &LastRotation) -> String {
    let by = by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    format!("replaced{by} at {}", time(*at))
}

/// Verifies an attempt with the secrets that its subscription has now.
fn verified(attempt: &AttemptRecord, workspace: &Workspace, profile: &Profile) -> Option<Verified> {
    let scheme = profile.schemes().into_iter().next()?;
    let secrets =
        workspace.lock().subscriptions.signing_secrets(&attempt.delivery.subscription, workspace.clock().now())?;
    let keys = signing_keys(&secrets, &scheme, profile).ok()?;
    let header = |name: &str| attempt.headers.get(&name.to_ascii_lowercase()).map(Cow::into_owned);
    let now = attempt.at.as_second();
    verify(&scheme, &keys, &header, attempt.delivery.url.as_str(), &attempt.body, now, i64::MAX).ok()
}

/// What to ask about a receiver that answered that it broke down: frameworks in development answer with the stack.
pub(super) fn own_log(outcome: &AttemptOutcome) -> Option<&'static str> {
    let AttemptOutcome::Answered { status: 500.., body, .. } = outcome else { return None };
    let body = String::from_utf8_lossy(body);
    let has_stack =
        ["    at ", "&nbsp; at ", "Traceback (most recent call last)"].iter().any(|part| body.contains(part));
    Some(if has_stack { "did its handler throw an exception? The answer shows where" } else { OWN_LOG })
}

/// True for the words with which Go, nginx, Apache, Tomcat and others refuse plain HTTP on a port for TLS.
fn refuses_plain_http(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    ["HTTPS server", "to HTTPS port", "SSL-enabled server port", "requires TLS", "on a TLS port"]
        .iter()
        .any(|words| text.contains(words))
}

/// True for a refusal that may be about the signature.
fn is_refusal(outcome: &AttemptOutcome) -> bool {
    matches!(outcome, AttemptOutcome::Answered { status, body, .. } if REFUSALS.contains(status) && !refuses_plain_http(body))
}

/// The deliberate damage of an event's deliveries.
pub(super) fn damage_step(event: &EventRecord) -> Option<ExplainedStep> {
    let damage = event.damage.as_deref()?;
    Some(ExplainedStep::new("damage", StepVerdict::Decided, damage))
}
