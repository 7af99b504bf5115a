//! `verify`: checks the signature of a delivery and, if it is wrong, prints what would make it right. Works offline;
//! `contract::signature` finds the causes.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::failure::Failure;
use super::help::examples;
use super::output::show;
use super::signing::{Signing, SigningArgs, read_file, signed_url, unix_seconds};
use crate::contract::signature::{Evidence, Rejection, Remedy};
use crate::redact::visible;

#[derive(Debug, Args)]
#[command(after_help = examples([
    "verify --secret whsec_... --headers headers.txt body.json",
    "verify --scheme github --header 'x-hub-signature-256: sha256=...' - <body.json",
]) + "\n\nExit status: 0 verified, 1 not, 2 wrong usage.")]
pub(super) struct VerifyArgs {
    /// The body, exactly as it was received; `-` for stdin.
    file: String,
    #[command(flatten)]
    signing: SigningArgs,
    /// A header of the delivery: `name: value`. Repeatable.
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The headers, one per line or as a JSON object; `-` for stdin.
    #[arg(long, value_name = "FILE")]
    headers: Option<String>,
    /// The URL of the subscription, for a custom scheme that signs it.
    // The alias is its former name; `--url` is the emulator's address in other commands.
    #[arg(long, alias = "url", value_name = "URL")]
    webhook_url: Option<String>,
    /// The time of verification: Unix seconds, or `now`.
    #[arg(long, default_value = "now", value_name = "SECONDS", allow_hyphen_values = true)]
    now: String,
    /// Seconds that a timestamp may be off.
    #[arg(long, default_value_t = 300, value_name = "SECONDS", allow_hyphen_values = true, value_parser = clap::value_parser!(i64).range(0..))]
    tolerance: i64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let (signing, scheme) = Signing::resolve_one(&args.signing)?;
    let now = unix_seconds("--now", &args.now)?;
    let url = signed_url(args.webhook_url.as_deref(), &scheme)?;
    if args.file == "-" && args.headers.as_deref() == Some("-") {
        return Err(Failure::usage("the body and --headers cannot both come from stdin"));
    }
    let headers = headers(args)?;
    let body = read_file("the body", &args.file)?;
    let header = |sought: &str| headers.iter().find(|(name, _)| name == sought).map(|(_, value)| value.clone());
    let evidence = Evidence {
        scheme: &scheme,
        custom: &signing.custom,
        secrets: &signing.secrets,
        reading: signing.reading,
        header: &header,
        url,
        body: &body,
        now,
        tolerance: args.tolerance,
    };
    let verdict = evidence.verify();
    let remedies = evidence.remedies();
    let checked = Checked {
        verified: verdict.is_ok(),
        scheme: scheme.name().name(),
        matched: verdict.as_ref().ok().map(|found| Matched { id: &found.id, timestamp: found.timestamp }),
        rejected: verdict.as_ref().err().map(|rejection| Rejected::new(rejection, &remedies)),
    };
    show(args.json, &checked, || match &verdict {
        Ok(_) => "verified\n".to_owned(),
        Err(rejection) => explanation(rejection, &remedies),
    });
    Ok(if verdict.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn explanation(rejection: &Rejection, remedies: &[Remedy]) -> String {
    let mut text = format!("not verified: {}\n", visible(&rejection.to_string()));
    for remedy in remedies {
        text.push_str(&format!("would verify: {}\n", visible(&remedy.to_string())));
    }
    if remedies.is_empty() {
        text.push_str(
            "nothing tried would verify: other readings of the secret, trailing newlines, line ends, the body \
             reformatted as JSON, other schemes; the secret is a different one, or the delivery was changed\n",
        );
    }
    text
}

/// What `verify --json` prints.
#[derive(Serialize)]
struct Checked<'a> {
    verified: bool,
    scheme: &'static str,
    #[serde(flatten)]
    matched: Option<Matched<'a>>,
    #[serde(flatten)]
    rejected: Option<Rejected>,
}

/// The id and timestamp that were signed.
#[derive(Serialize)]
struct Matched<'a> {
    id: &'a Option<String>,
    timestamp: Option<i64>,
}

/// Why a signature is wrong and what would verify.
#[derive(Serialize)]
pub(super) struct Rejected {
    rejection: Reason,
    #[serde(skip_serializing_if = "Option::is_none")]
    would_verify: Option<Vec<RemedyShown>>,
}

#[derive(Serialize)]
struct Reason {
    kind: &'static str,
    message: String,
}

#[derive(Serialize)]
struct RemedyShown {
    message: String,
    changes: Vec<ChangeShown>,
}

#[derive(Serialize)]
struct ChangeShown {
    change: &'static str,
    value: Option<&'static str>,
}

impl Rejected {
    pub(super) fn new(rejection: &Rejection, remedies: &[Remedy]) -> Self {
        let shown = |remedy: &Remedy| {
            let changes =
                remedy.changes.iter().map(|change| ChangeShown { change: change.kind(), value: change.value() });
            RemedyShown { message: remedy.to_string(), changes: changes.collect() }
        };
        let would_verify = Some(remedies.iter().map(shown).collect());
        Self { rejection: Reason { kind: kind(rejection), message: rejection.to_string() }, would_verify }
    }

    /// A body that could not be read.
    pub(super) fn unreadable(message: String) -> Self {
        Self { rejection: Reason { kind: "unreadable_body", message }, would_verify: None }
    }
}

/// The stable name of a kind of rejection.
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

type Headers = Vec<(String, String)>;

/// The headers given, with names in lower case; those of --header come first and win.
fn headers(args: &VerifyArgs) -> Result<Headers, Failure> {
    let mut headers = Vec::new();
    for line in &args.header {
        headers.push(header_line(line).ok_or_else(|| {
            Failure::usage(format!("--header: expected `name: value`, found `{}`", line.escape_debug()))
        })?);
    }
    if let Some(path) = &args.headers {
        let text = String::from_utf8(read_file("--headers", path)?)
            .map_err(|_| Failure::invalid_file(format!("--headers: `{}` is not UTF-8", path.escape_debug())))?;
        headers.extend(if text.trim_start().starts_with('{') { json_headers(&text)? } else { text_headers(&text)? });
    }
    if headers.is_empty() {
        return Err(Failure::usage("expected the delivery's headers")
            .with_hint("pass --header 'name: value' for each, or --headers FILE with one a line"));
    }
    Ok(headers)
}

fn header_line(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let name = name.trim();
    let is_name = !name.is_empty() && hyper::header::HeaderName::from_bytes(name.as_bytes()).is_ok();
    is_name.then(|| (name.to_ascii_lowercase(), value.trim().to_owned()))
}

/// Parses one header a line. A leading request or status line, as in captures, is skipped.
fn text_headers(text: &str) -> Result<Headers, Failure> {
    let lines = text.lines().enumerate().filter(|(at, line)| {
        let first_line = *at == 0 && (line.starts_with("HTTP/") || line.contains(" HTTP/"));
        !line.trim().is_empty() && !first_line
    });
    lines
        .map(|(at, line)| {
            header_line(line).ok_or_else(|| {
                let line = line.escape_debug();
                Failure::invalid_file(format!("--headers: line {}: expected `name: value`, found `{line}`", at + 1))
            })
        })
        .collect()
}

/// Parses a JSON object of strings, or the output of `sign --json`.
fn json_headers(text: &str) -> Result<Headers, Failure> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| Failure::invalid_file(format!("--headers: {error}")))?;
    let object = value.get("headers").unwrap_or(&value).as_object();
    let pairs = object.into_iter().flatten().map(|(name, value)| {
        let value = value.as_str().ok_or_else(|| {
            Failure::invalid_file(format!("--headers: expected a string for `{}`, found {value}", name.escape_debug()))
        })?;
        Ok((name.to_ascii_lowercase(), value.to_owned()))
    });
    pairs.collect()
}
