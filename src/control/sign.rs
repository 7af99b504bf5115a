//! `POST events/sign` and `POST events/cases`: what a receiver would get, for a handler that a test calls in its own process. Nothing is
//! sent, and no event is kept.

use std::collections::BTreeMap;

use rand::RngExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ControlError;
use super::call::{Body, Call, ControlCall, Options, Tag, USUAL};
use super::context::Context;
use super::events::{tamper_named, tamper_names};
use super::fields::{KeyOrSample, List};
use super::render::{TableRow, Text, cell, table};
use crate::advice::{Advice, Audience, BUILT_IN_RECEIVER};
use crate::cases::{CASES, Case, Occasion, ProbeRequest, ProbeSigning, check_events, is_applicable, make};
use crate::contract::signature::{SchemeName, SchemeNames, Tamper};
use crate::settings::Profile;
use crate::state::engine::event_content;
use crate::state::journal::record::EventId;
use crate::state::workspace::{FireRequest, Secret, Workspace};
use crate::util::header_lines::HeaderLines;
use crate::util::wording::quoted;
use crate::webhook::signed::{Unsigned, sign_delivery, signature_time};

/// The URL of a receiver that is only called in process, where a scheme signs one.
const IN_PROCESS: &str = "https://app.example.com/webhooks";

/// Sign an event without sending it.
///
/// Returns the headers and the body that a receiver would get, for a handler that a test calls in its own process. Nothing is sent, and no
/// event is kept. `tamper` forges it: the handler must refuse it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(extend("examples" = [{ "type": "workflow.completed", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" }]))]
#[serde(deny_unknown_fields)]
pub(crate) struct SignEvent {
    /// The event type, such as workflow.completed.
    #[serde(rename = "type")]
    pub(crate) event_type: String,
    /// The whole data; the profile's default for the type if absent.
    pub(crate) data: Option<Map<String, Value>>,
    /// Single fields of the data, by dotted path.
    #[serde(default)]
    pub(crate) set: Map<String, Value>,
    /// The falsified part, which a handler must refuse: body, signature, secret, timestamp, …
    #[schemars(extend("enum" = tamper_names()))]
    pub(crate) tamper: Option<String>,
    #[serde(default)]
    pub(crate) key: KeyOrSample,
    /// The signing secret that the handler verifies with; that of the key's subscription if absent.
    pub(crate) secret: Option<String>,
    /// Whose secret signs, sub_…; the key's first subscription that is enabled if absent.
    pub(crate) subscription: Option<String>,
    /// The signature scheme; that of the settings if absent.
    pub(crate) scheme: Option<SchemeName>,
    /// The URL of the receiver, which a custom scheme may sign; that of the subscription if absent.
    #[schemars(regex(pattern = "^https?://[!-~]+$"))]
    pub(crate) url: Option<String>,
}

/// An event as a receiver would get it.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct SignedEvent {
    /// The event's id.
    pub(crate) id: EventId,
    /// Names in lower case, without `host` and `content-length`.
    pub(crate) headers: BTreeMap<String, String>,
    /// The body; its bytes in UTF-8 were signed.
    pub(crate) body: String,
}

/// Every case of the probe, as requests.
///
/// The genuine and forged deliveries that `wrs-emulator review probe` sends, with the answer that is expected to each, for a handler that a
/// test calls in its own process. Cases that differ only on the wire (in chunks, slowly, the letters of header names) are left out, and those
/// that mean nothing under the scheme.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(extend("examples" = [{ "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" }]))]
#[serde(deny_unknown_fields)]
pub(crate) struct ListCases {
    #[serde(default)]
    pub(crate) key: KeyOrSample,
    /// The signing secret that the handler verifies with; that of the key's subscription if absent.
    pub(crate) secret: Option<String>,
    /// Whose secret signs, sub_…; the key's first subscription that is enabled if absent.
    pub(crate) subscription: Option<String>,
    /// The signature scheme; that of the settings if absent.
    pub(crate) scheme: Option<SchemeName>,
    /// The URL of the receiver, which a custom scheme may sign; that of the subscription if absent.
    #[schemars(regex(pattern = "^https?://[!-~]+$"))]
    pub(crate) url: Option<String>,
}

/// A case: one request, or several that belong together.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct DeliveryCase {
    pub(crate) name: String,
    /// The content of the delivery, in words.
    pub(crate) sends: String,
    /// The expected answer, in words.
    pub(crate) expects: String,
    /// The classes of status that are right, such as 2xx.
    pub(crate) accepted: Vec<String>,
    /// Where the expectation comes from.
    pub(crate) clause: String,
    /// The change to make in a handler that answers otherwise.
    pub(crate) remedy: String,
    pub(crate) requests: Vec<CaseRequest>,
}

/// One request of a case.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct CaseRequest {
    pub(crate) method: String,
    /// Names in lower case, without `host` and `content-length`.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// Maximum bytes of all bodies of the cases. With the data of the built-in settings they have less than a tenth of it.
const MAX_CASES_BYTES: usize = 1024 * 1024;

/// The answer has headers that a key signed, and a body that must not be masked.
const UNMASKED: Options = Options { shows_secrets: true, ..USUAL };

impl ControlCall for Body<SignEvent> {
    type Answer = SignedEvent;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::WEBHOOKS, "POST events/sign", sign_event).with(UNMASKED)
    }
}

impl ControlCall for Body<ListCases> {
    type Answer = List<DeliveryCase>;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::WEBHOOKS, "POST events/cases", cases).with(UNMASKED)
    }
}

/// As a raw HTTP message, without its first line.
impl Text for SignedEvent {
    fn text(&self, _: &Audience) -> String {
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        // Nothing after the body: whatever reads the message would count it as part of it.
        format!("{headers}\n{}", self.body)
    }
}

impl TableRow for DeliveryCase {
    fn table(rows: &[Self]) -> String {
        table(["CASE", "EXPECTED", "SENT"], rows.iter().map(|row| [&row.name, &row.expects, &row.sends].map(cell)))
    }
}

/// Secrets, newest first, the URL that may be signed, and the settings with the scheme.
struct Signer {
    secrets: Vec<Secret>,
    /// The part to falsify after signing.
    tamper: Option<Tamper>,
    url: String,
    profile: Profile,
}

impl ListCases {
    /// The signing secret: this one, or that of a subscription.
    fn signer(&self, workspace: &Workspace, profile: &Profile, tamper: Option<Tamper>) -> Result<Signer, ControlError> {
        if let Some(url) = self.url.as_ref().filter(|url| !is_url(url)) {
            return Err(ControlError::unexpected("url", "the URL of a receiver, in ASCII", url));
        }
        let mut profile = profile.clone();
        if let Some(scheme) = self.scheme {
            profile.webhooks.scheme = SchemeNames::One(scheme);
        }
        let url =
            |of_subscription: Option<&str>| self.url.as_deref().or(of_subscription).unwrap_or(IN_PROCESS).to_owned();
        if let Some(secret) = &self.secret {
            return Ok(Signer { secrets: vec![Secret::new(secret.trim())], tamper, url: url(None), profile });
        }
        let now = workspace.clock().now();
        let state = workspace.lock();
        let record = match &self.subscription {
            Some(id) => state.subscriptions.get(id).ok_or_else(|| {
                ControlError::not_found(format!("there is no subscription `{}` of this key", quoted(id)))
            })?,
            None => state.subscriptions.iter().find(|record| !record.disabled).ok_or_else(no_secret)?,
        };
        let (secrets, tamper) = match record.forging_secret(tamper) {
            Some(old) => (vec![old], None),
            None => (record.signing_secrets(now), tamper),
        };
        Ok(Signer { secrets, tamper, url: url(Some(&record.url)), profile })
    }
}

/// As in the schema: nothing that could not be in a header.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic()))
}

fn no_secret() -> ControlError {
    ControlError::not_found(
        "no secret to sign with: pass `secret`, the one that the handler verifies with, or subscribe first",
    )
    .coded("no_secret")
    .advising(vec![Advice::Subscribe { url: BUILT_IN_RECEIVER.to_owned(), key: None }])
}

fn sign_event(Body { body: request }: Body<SignEvent>, cx: &Context) -> Result<SignedEvent, ControlError> {
    let SignEvent { event_type, data, set, tamper, key, secret, subscription, scheme, url } = request;
    let workspace = cx.engine.workspace(key.meant())?;
    let by = ListCases { key, secret, subscription, scheme, url };
    let profile = cx.engine.profile_for(Some(workspace.name()));
    let signer = by.signer(&workspace, &profile, tamper_named(tamper.as_deref())?)?;
    let Signer { secrets, tamper, url, profile } = signer;
    let now = workspace.clock().now();
    let mut event = FireRequest { event_type, data, set: set.into_iter().collect(), ..FireRequest::default() };
    let content = event_content(&mut event, &profile, now, &mut workspace.lock().sources);
    let (id, body, _) = content.map_err(|problem| ControlError::invalid(problem.to_string()))?;
    let unsigned = Unsigned { id: &id, event_type: &event.event_type, body: &body, url: &url, tamper, delivery: None };
    let signed = sign_delivery(unsigned, &secrets, &profile, signature_time(workspace.clock(), now, &profile));
    let signed = signed.map_err(ControlError::invalid)?;
    let headers = HeaderLines::of(&signed.headers);
    workspace.lock().count_signed(1);
    Ok(SignedEvent {
        id: id.into(),
        headers: headers.iter().map(|(name, value)| (name.to_owned(), value.into_owned())).collect(),
        body: text_of(&signed.body),
    })
}

/// Events are JSON, forged ones as well.
fn text_of(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

fn cases(Body { body: by }: Body<ListCases>, cx: &Context) -> Result<List<DeliveryCase>, ControlError> {
    let workspace = cx.engine.workspace(by.key.meant())?;
    let Signer { secrets, url, profile, .. } =
        by.signer(&workspace, &cx.engine.profile_for(Some(workspace.name())), None)?;
    check_events(&profile).map_err(ControlError::invalid)?;
    let scheme = profile.schemes().swap_remove(0);
    let reading = profile.webhooks.secret_key;
    for secret in &secrets {
        secret.signing_key(&scheme, reading).map_err(|problem| ControlError::invalid(format!("secret: {problem}")))?;
    }
    let signing = ProbeSigning {
        scheme,
        secrets: secrets.iter().map(|secret| secret.reveal().to_owned()).collect(),
        reading,
        custom: profile.webhooks.custom.clone(),
        url,
    };
    let clock = workspace.clock();
    let now = signature_time(clock, clock.now(), &profile);
    // The ids are new, so that a handler that remembers earlier events accepts each case.
    let run: u64 = workspace.lock().sources.event_random.random();
    let made = |case: &Case| {
        let subject = format!("case{run:016x}{}", case.name.replace('-', ""));
        let mut number = 0;
        let requests: Vec<ProbeRequest> = case
            .requests
            .iter()
            .enumerate()
            .map(|(at, sending)| {
                number += usize::from(at > 0 && !sending.repeats);
                let event = format!("{subject}{number}");
                make(
                    sending,
                    &signing,
                    Occasion { profile: &profile, event: &event, subject: &subject, created: now, now },
                )
            })
            .collect();
        to_view(case, requests)
    };
    let trial = Occasion { profile: &profile, event: "trial", subject: "trial", created: now, now };
    let data: Vec<DeliveryCase> =
        CASES.iter().filter(|case| !case.is_of_the_wire() && is_applicable(case, &signing, trial)).map(made).collect();
    let bytes: usize = data.iter().flat_map(|case| &case.requests).map(|request| request.body.len()).sum();
    if bytes > MAX_CASES_BYTES {
        let message =
            format!("the cases have {bytes} bytes, and at most {MAX_CASES_BYTES} are answered: shorten `events.data`");
        return Err(ControlError::invalid(message));
    }
    workspace.lock().count_signed(data.len());
    Ok(List { data })
}

fn to_view(case: &Case, requests: Vec<ProbeRequest>) -> DeliveryCase {
    DeliveryCase {
        name: case.name.to_owned(),
        sends: case.sends.to_owned(),
        expects: case.expects.name().to_owned(),
        accepted: case.expects.accepted().iter().map(|class| (*class).to_owned()).collect(),
        clause: case.clause.to_owned(),
        remedy: case.remedy.to_owned(),
        requests: requests
            .into_iter()
            .map(|request| CaseRequest {
                method: request.method.to_owned(),
                headers: request.headers.into_iter().filter(|(name, _)| name != "content-length").collect(),
                body: text_of(&request.body),
            })
            .collect(),
    }
}
