//! `sign` prints the headers that sign a body or an event, `verify` checks the signature of a delivery and prints what would make it right. Only
//! `sign --event` calls an emulator. `listen` and `review probe` share the flags; `contract::signature` has the schemes and finds the causes.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use hyper::header::HeaderValue;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::arguments::{Target, examples};
use super::client::ControlClient;
use super::failure::{Failure, note, warn};
use super::output::{bytes_field, show};
use super::profile::load_profile;
use super::trigger::assignments;
use crate::clock::machine;
use crate::contract::keys::SAMPLE_KEY;
use crate::contract::signature::{
    Change, CustomScheme, Evidence, KeyReading, Message, Rejection, Remedy, Scheme, SchemeName, SigningKey, Tamper,
    secret_warnings, sign, undecorated,
};
use crate::control::api::{Body, SignEvent};
use crate::control::render::Text as _;
use crate::redact::visible;
use crate::settings::Layered;
use crate::util::captured::{self, CapturedMessage, Header, header_line};
use crate::util::file;
use crate::util::wording::{any_of, counted, quoted, shell_word};

/// Maximum bytes of a file: far beyond any webhook, and harmless to memory.
const MAX: u64 = 16 * 1024 * 1024;

#[derive(Debug, Args)]
pub(crate) struct SigningArgs {
    /// The signing secret. Repeatable while one replaces another, newest first. Prefer `WRS_WEBHOOK_SECRET`: other
    /// users of this machine can see the arguments of a process.
    #[arg(long, env = "WRS_WEBHOOK_SECRET", value_name = "SECRET", hide_env_values = true)]
    secret: Vec<String>,
    #[arg(help = scheme_help(), long, value_name = "SCHEME", value_delimiter = ',', value_parser = parse_scheme)]
    scheme: Vec<SchemeName>,
    /// How the secret becomes a key: `auto` (as the scheme's libraries do), `base64`, `utf8`, `utf8_with_prefix` or `hex`.
    #[arg(long, value_name = "READING", value_parser = parse_reading)]
    secret_key: Option<KeyReading>,
    /// Change a setting of the profile, such as `webhooks.custom.hash=sha512`. Repeatable.
    #[arg(long, env, value_name = "PATH=VALUE", value_delimiter = ';')]
    set: Vec<String>,
}

fn scheme_help() -> String {
    let names = SchemeName::ALL.map(|name| match name {
        SchemeName::Standard => format!("`{name}` (the default)"),
        SchemeName::Custom => format!("`{name}`, which --set webhooks.custom.… describes"),
        _ => format!("`{name}`"),
    });
    any_of(&names)
}

pub(crate) struct ResolvedSigning {
    /// The secrets, newest first. Each makes a valid key under every scheme.
    pub(crate) secrets: Vec<String>,
    /// At least one.
    pub(crate) schemes: Vec<Scheme>,
    /// The custom scheme of the profile, whether or not it is in use.
    pub(crate) custom: CustomScheme,
    pub(crate) reading: KeyReading,
    pub(crate) settings: Layered,
}

impl ResolvedSigning {
    /// Resolves the flags; refuses a secret that does not make a key, with the reading that would.
    pub(crate) fn resolve(args: &SigningArgs) -> Result<Self, Failure> {
        let settings = load_profile("--profile", None, &args.set)?;
        let profile = settings.profile();
        let custom = profile.webhooks.custom.clone();
        let schemes = if args.scheme.is_empty() {
            profile.schemes()
        } else {
            args.scheme.iter().map(|name| Scheme::new(*name, &custom)).collect()
        };
        let reading = args.secret_key.unwrap_or(profile.webhooks.secret_key);
        let signing = Self { secrets: args.secret.clone(), schemes, custom, reading, settings };
        for (secret, scheme) in signing.pairs() {
            SigningKey::read(secret, scheme, reading).map_err(|problem| {
                let decorations: Vec<&str> = undecorated(secret).1.iter().map(|decoration| decoration.what).collect();
                let hint = match &decorations[..] {
                    [] => "`--secret-key utf8` uses the text as it is".to_owned(),
                    some => format!("pass the secret without {}", some.join(" and ")),
                };
                Failure::usage(format!("--secret, for scheme {}: {problem}", scheme.name())).with_hint(hint)
            })?;
        }
        Ok(signing)
    }

    fn pairs(&self) -> impl Iterator<Item = (&String, &Scheme)> {
        self.secrets.iter().flat_map(|secret| self.schemes.iter().map(move |scheme| (secret, scheme)))
    }

    /// Like [`ResolvedSigning::resolve`], for a command that requires a secret and exactly one scheme.
    pub(crate) fn resolve_one(args: &SigningArgs) -> Result<(Self, Scheme), Failure> {
        let signing = Self::resolve(args)?;
        if signing.secrets.is_empty() {
            return Err(Failure::usage("expected a signing secret").with_hint(
                "pass the one that the receiver verifies with as --secret SECRET or in WRS_WEBHOOK_SECRET; \
                 `subscriptions show ID --secret` prints that of a subscription",
            ));
        }
        let names: Vec<&str> = signing.schemes.iter().map(|scheme| scheme.name().name()).collect();
        if names.len() > 1 {
            return Err(Failure::usage(format!("expected one scheme, found {}", names.join(", ")))
                .with_hint(format!("name it: --scheme {}", names[0])));
        }
        let scheme = signing.schemes[0].clone();
        Ok((signing, scheme))
    }

    pub(crate) fn keys(&self, scheme: &Scheme) -> Vec<SigningKey> {
        let keys = self.secrets.iter().map(|secret| SigningKey::read(secret, scheme, self.reading));
        keys.collect::<Result<_, _>>().expect("every secret was read when the flags were resolved")
    }

    pub(crate) fn warn(&self) {
        for (secret, scheme) in self.pairs() {
            for warning in secret_warnings(secret, scheme, self.reading) {
                warn(&warning.text);
            }
        }
    }
}

fn parse_scheme(text: &str) -> Result<SchemeName, String> {
    SchemeName::from_name(text).ok_or_else(|| unknown_name(&SchemeName::ALL.map(SchemeName::name), text))
}

fn parse_reading(text: &str) -> Result<KeyReading, String> {
    KeyReading::from_name(text).ok_or_else(|| unknown_name(&KeyReading::ALL.map(KeyReading::name), text))
}

fn unknown_name(names: &[&str], text: &str) -> String {
    format!("expected one of {}, found `{}`", names.join(", "), quoted(text))
}

#[derive(Debug, Args)]
#[command(after_help = examples([
    "sign --secret whsec_... body.json",
    "sign --scheme stripe --timestamp 1700000000 body.json",
    "sign --scheme custom --set webhooks.custom.hash=sha512 - <body.json",
    "sign --event workflow.completed --secret whsec_... --output curl --webhook-url http://localhost:3000/hooks",
    "sign --event workflow.completed --tamper body  # for a handler that must refuse it",
]))]
pub(crate) struct SignArgs {
    /// The body, exactly as it will be sent; `-` for stdin.
    #[arg(required_unless_present = "event", conflicts_with = "event")]
    file: Option<String>,
    /// Sign an event of this type instead, made by the emulator as for `trigger`, without sending it.
    #[arg(long, value_name = "TYPE", conflicts_with_all = ["id", "timestamp", "set", "secret_key"])]
    event: Option<String>,
    /// Change one field of the event's data: `path=value`. Repeatable.
    #[arg(long, value_name = "PATH=VALUE", conflicts_with = "file")]
    data: Vec<String>,
    /// Forge it: a handler must refuse it.
    #[arg(long, conflicts_with = "file", value_parser = Tamper::ALL.map(Tamper::name))]
    tamper: Option<String>,
    /// How the signed event is printed.
    #[arg(long, conflicts_with = "file", default_value = "http", value_parser = ["http", "curl", "json"])]
    output: String,
    /// Whose subscription signs if no secret is given: a key, or a workspace `ws_…`.
    #[arg(long, env = "WRS_API_KEY", default_value = SAMPLE_KEY, hide_env_values = true)]
    key: String,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    signing: SigningArgs,
    /// The event's id.
    #[arg(long, default_value = "evt_1")]
    id: String,
    /// Unix seconds of the attempt, or `now`.
    #[arg(long, default_value = "now", value_name = "SECONDS", allow_hyphen_values = true, value_parser = unix_seconds)]
    timestamp: i64,
    /// The URL of the subscription, for a custom scheme that signs it.
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,
    /// Print JSON: headers, signed content, signatures.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_sign(args: &SignArgs) -> Result<ExitCode, Failure> {
    let Some(file) = &args.file else { return sign_event(args) };
    let (signing, scheme) = ResolvedSigning::resolve_one(&args.signing)?;
    if args.id.is_empty() || HeaderValue::from_str(&args.id).is_err() || !args.id.is_ascii() {
        return Err(Failure::usage(format!("--id: `{}` cannot be sent in a header", quoted(&args.id))));
    }
    let url = signed_url(args.webhook_url.as_deref(), &scheme)?;
    let body = read_file("the body", file)?;
    let signed =
        sign(&scheme, &signing.keys(&scheme), &Message { id: &args.id, timestamp: args.timestamp, url, body: &body });
    signing.warn();
    let lines = signed.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let headers = signed.headers.into_iter().map(|(name, value)| (name.into_owned(), Value::from(value)));
    let (content_field, content) = bytes_field("signed_content", signed.content);
    let shown = json!({
        "scheme": scheme.name().name(),
        "headers": headers.collect::<Map<_, _>>(),
        content_field: content,
        "signatures": signed.signatures,
    });
    Ok(show(args.json, &shown, || lines))
}

/// An event that the emulator makes and signs, but does not send.
fn sign_event(args: &SignArgs) -> Result<ExitCode, Failure> {
    let scheme = match &args.signing.scheme[..] {
        [] => None,
        [one] => Some(*one),
        _ => return Err(Failure::usage("expected one scheme").with_hint("name it: --scheme standard")),
    };
    if args.signing.secret.len() > 1 {
        return Err(
            Failure::usage("expected one secret").with_hint("an event is signed with the secret of its receiver")
        );
    }
    let url = args.webhook_url.as_deref();
    url.map_or(Ok(()), check_url)?;
    let request = Body {
        body: SignEvent {
            key: args.key.as_str().into(),
            secret: args.signing.secret.first().cloned(),
            scheme,
            url: url.map(str::to_owned),
            event_type: args.event.clone().unwrap_or_default(),
            set: assignments(&args.data)?,
            tamper: args.tamper.clone(),
            ..SignEvent::default()
        },
    };
    let event = ControlClient::new(&args.target).send(&request)?;
    let as_curl = || {
        let headers =
            event.headers.iter().map(|(name, value)| format!(" -H {}", shell_word(&format!("{name}: {value}"))));
        let url = shell_word(url.unwrap_or("URL"));
        format!("curl -sS -X POST{} --data-binary {} {url}\n", headers.collect::<String>(), shell_word(&event.body))
    };
    let as_http = || {
        // The prompt of a terminal starts on a new line.
        let end = if std::io::stdout().is_terminal() { "\n" } else { "" };
        event.text(&args.target.reader()) + end
    };
    Ok(show(args.json || args.output == "json", &event, || if args.output == "curl" { as_curl() } else { as_http() }))
}

#[derive(Debug, Args)]
#[command(after_help = examples([
    "verify --secret whsec_... --headers headers.txt body.json",
    "verify --scheme github --header 'x-hub-signature-256: sha256=...' - <body.json",
    "deliveries show dlv_01k... --json | wrs-emulator verify --headers -",
]) + "\n\nExit status: 0 verified, 1 not, 2 wrong usage.")]
pub(crate) struct VerifyArgs {
    /// The body, exactly as it was received; `-` for stdin. Without it, the body in --headers.
    file: Option<String>,
    #[command(flatten)]
    signing: SigningArgs,
    /// A header of the delivery: `name: value`. Repeatable.
    #[arg(long, value_name = "NAME: VALUE", value_parser = header_line)]
    header: Vec<Header>,
    /// The headers: one per line, a raw request, `curl -v`, HAR, or JSON as `deliveries show`, `listen` and others print
    /// it; `-` for stdin.
    #[arg(long, value_name = "FILE")]
    headers: Option<String>,
    /// The URL of the subscription, for a custom scheme that signs it.
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,
    /// The time of verification: Unix seconds, or `now`.
    #[arg(long, default_value = "now", value_name = "SECONDS", allow_hyphen_values = true, value_parser = unix_seconds)]
    now: i64,
    /// Seconds that a timestamp may be off.
    #[arg(long, default_value_t = 300, value_name = "SECONDS", allow_hyphen_values = true, value_parser = clap::value_parser!(i64).range(0..))]
    tolerance: i64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let (signing, scheme) = ResolvedSigning::resolve_one(&args.signing)?;
    if args.file.as_deref() == Some("-") && args.headers.as_deref() == Some("-") {
        return Err(Failure::usage("the body and --headers cannot both come from stdin"));
    }
    let given = args.file.as_deref().map(|file| read_file("the body", file)).transpose()?;
    let captured = captured(args, &scheme, given.as_deref())?;
    let body = given.as_deref().or_else(|| captured.sent_body().filter(|body| !body.is_empty()));
    let body = body.ok_or_else(|| {
        Failure::usage("expected the body, which --headers does not have")
            .with_hint("pass it as FILE, or `-` for stdin")
    })?;
    let target = captured.target.as_deref().filter(|target| check_url(target).is_ok());
    let url = signed_url(args.webhook_url.as_deref().or(target), &scheme)?;
    // The headers of --header win.
    let headers = |sought: &str| {
        let given: Vec<String> =
            args.header.iter().filter(|(name, _)| name == sought).map(|(_, value)| value.clone()).collect();
        if given.is_empty() { captured.values(sought).map(str::to_owned).collect() } else { given }
    };
    let evidence = Evidence {
        scheme: &scheme,
        custom: &signing.custom,
        secrets: &signing.secrets,
        reading: signing.reading,
        headers: &headers,
        url,
        body,
        now: args.now,
        tolerance: args.tolerance,
    };
    signing.warn();
    let verdict = evidence.verify();
    let mut remedies = evidence.remedies();
    if let (Err(_), Some(other)) = (&verdict, captured.sent_body().filter(|other| *other != body))
        && (Evidence { body: other, tolerance: i64::MAX, ..evidence }).verify().is_ok()
    {
        remedies.insert(0, Remedy { changes: vec![Change::Body("as --headers has it")] });
    }
    let hint = evidence.hint().filter(|_| remedies.is_empty());
    let checked = Checked {
        verified: verdict.is_ok(),
        scheme: scheme.name().name(),
        result: match &verdict {
            Ok(found) => json!({ "id": found.id, "timestamp": found.timestamp }),
            Err(rejection) => rejected(rejection, &remedies, hint),
        },
    };
    show(args.json, &checked, || match &verdict {
        Ok(_) => "verified\n".to_owned(),
        Err(rejection) => explanation(rejection, &remedies, hint),
    });
    Ok(if verdict.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn explanation(rejection: &Rejection, remedies: &[Remedy], hint: Option<&str>) -> String {
    let mut text = format!("not verified: {}\n", visible(&rejection.to_string()));
    for remedy in remedies {
        text.push_str(&format!("would verify: {}\n", visible(&remedy.to_string())));
    }
    if let Some(hint) = hint {
        text.push_str(&format!("{hint}\n"));
    } else if remedies.is_empty() {
        text.push_str(
            "nothing tried would verify: other readings of the secret, the secret without quotes and the like, or in hex, newlines, \
             encodings, the body reformatted as JSON, a signature in hex or over the body alone, other schemes; the secret is a different one, or the delivery was changed\n",
        );
    }
    text
}

#[derive(Serialize)]
struct Checked {
    verified: bool,
    scheme: &'static str,
    #[serde(flatten)]
    result: Value,
}

/// Why a delivery did not verify, and what would make it verify.
pub(crate) fn rejected(rejection: &Rejection, remedies: &[Remedy], hint: Option<&str>) -> Value {
    let change = |change: &Change| json!({ "change": change.kind(), "value": change.value() });
    let remedy = |remedy: &Remedy| {
        let changes: Vec<Value> = remedy.changes.iter().map(change).collect();
        json!({ "message": remedy.to_string(), "changes": changes })
    };
    json!({
        "rejection": { "kind": kind(rejection), "message": rejection.to_string() },
        "would_verify": remedies.iter().map(remedy).collect::<Vec<_>>(),
        "hint": hint,
    })
}

fn kind(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::NoKey => "no_key",
        Rejection::MissingHeader { .. } => "missing_header",
        Rejection::BadTimestamp { .. } => "bad_timestamp",
        Rejection::Stale { .. } => "stale",
        Rejection::Future { .. } => "future",
        Rejection::MalformedSignature { .. } => "malformed_signature",
        Rejection::Mismatch { .. } => "mismatch",
    }
}

/// The delivery in --headers: of several, the last with the scheme's signature, if possible with this body.
fn captured(args: &VerifyArgs, scheme: &Scheme, body: Option<&[u8]>) -> Result<CapturedMessage, Failure> {
    let Some(path) = &args.headers else {
        if args.header.is_empty() {
            return Err(Failure::usage("expected the delivery's headers")
                .with_hint("pass --header 'name: value' for each, or --headers FILE with one a line"));
        }
        return Ok(CapturedMessage::default());
    };
    let found = captured::messages(&read_file("--headers", path)?)
        .map_err(|problem| Failure::invalid_file(format!("--headers: {problem}")))?;
    let is_signed = |message: &&CapturedMessage| {
        let signature = scheme.header_names().last();
        signature.is_some_and(|name| message.values(name).next().is_some())
    };
    let has_body = |message: &&CapturedMessage| body.is_none() || message.sent_body() == body;
    let signed = found.iter().filter(is_signed).count();
    let message = found.iter().max_by_key(|message| (is_signed(message), has_body(message)));
    if signed > 1 {
        let which = if body.is_some() && message.as_ref().is_some_and(has_body) { " with this body" } else { "" };
        note(&format!("--headers has {}; this is about the last{which}", counted(signed, "signed message")));
    }
    Ok(message.cloned().unwrap_or_default())
}

/// The bytes of a file, or of stdin for `-`; `what` names them in messages.
fn read_file(what: &str, path: &str) -> Result<Vec<u8>, Failure> {
    let unreadable = |cause: String| Failure::io(format!("{what}: cannot read `{}`: {cause}", quoted(path)));
    file::read_input(Path::new(path), MAX).map_err(|problem| unreadable(problem.to_string()))
}

/// Unix seconds, or `now`.
fn unix_seconds(text: &str) -> Result<i64, String> {
    if text == "now" {
        return Ok(machine::wall_time().as_second());
    }
    let seconds = text.parse().ok().filter(|seconds| *seconds >= 0);
    seconds.ok_or_else(|| format!("expected Unix seconds or `now`, found `{}`", quoted(text)))
}

/// A URL that may be signed, exactly as it was written.
pub(crate) fn check_url(text: &str) -> Result<(), Failure> {
    if url::Url::parse(text).is_ok() && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Failure::usage(format!("--webhook-url: `{}` is not a URL", quoted(text))))
}

/// The URL of the subscription, or an empty one; required if `scheme` signs it.
fn signed_url<'a>(url: Option<&'a str>, scheme: &Scheme) -> Result<&'a str, Failure> {
    let content = |url| sign(scheme, &[], &Message { id: "", timestamp: 0, url, body: b"" }).content;
    match url {
        Some(url) => check_url(url).map(|()| url),
        // The scheme signs the URL if the content depends on it.
        None if content("a") != content("b") => {
            Err(Failure::usage("`webhooks.custom.content` signs `{url}`: expected --webhook-url URL"))
        }
        None => Ok(""),
    }
}
