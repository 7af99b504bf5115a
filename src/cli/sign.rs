//! `sign`: prints the headers that sign a body, as a delivery would have them. Works offline.

use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use hyper::header::HeaderValue;
use serde::Serialize;
use serde_json::{Map, Value};

use super::failure::Failure;
use super::help::examples;
use super::output::show;
use super::signing::{Signing, SigningArgs, read_file, signed_url, unix_seconds};
use crate::contract::signature::{Message, sign};

#[derive(Debug, Args)]
#[command(after_help = examples([
    "sign --secret whsec_... body.json",
    "sign --scheme stripe --timestamp 1700000000 body.json",
    "sign --scheme custom --set webhooks.custom.hash=sha512 - <body.json",
]))]
pub(super) struct SignArgs {
    /// The body, exactly as it will be sent; `-` for stdin.
    file: String,
    #[command(flatten)]
    signing: SigningArgs,
    /// The event's id.
    #[arg(long, default_value = "evt_1")]
    id: String,
    /// Unix seconds of the attempt, or `now`.
    #[arg(long, default_value = "now", value_name = "SECONDS", allow_hyphen_values = true)]
    timestamp: String,
    /// The URL of the subscription, for a custom scheme that signs it.
    // The alias is its former name; `--url` is the emulator's address in other commands.
    #[arg(long, alias = "url", value_name = "URL")]
    webhook_url: Option<String>,
    /// Print JSON: headers, signed content, signatures.
    #[arg(long)]
    json: bool,
}

/// What `sign --json` prints.
#[derive(Serialize)]
struct Shown {
    scheme: &'static str,
    headers: Map<String, Value>,
    #[serde(flatten)]
    content: Content,
    signatures: Vec<String>,
}

/// The signed content: text, or base64 if it is not UTF-8.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    SignedContent(String),
    SignedContentBase64(String),
}

pub(super) fn run(args: &SignArgs) -> Result<ExitCode, Failure> {
    let (signing, scheme) = Signing::resolve_one(&args.signing)?;
    let timestamp = unix_seconds("--timestamp", &args.timestamp)?;
    if args.id.is_empty() || HeaderValue::from_str(&args.id).is_err() || !args.id.is_ascii() {
        return Err(Failure::usage(format!("--id: `{}` cannot be sent in a header", args.id.escape_debug())));
    }
    let url = signed_url(args.webhook_url.as_deref(), &scheme)?;
    let body = read_file("the body", &args.file)?;
    let signed = sign(&scheme, &signing.keys(&scheme), &Message { id: &args.id, timestamp, url, body: &body });
    signing.warn();
    let lines = signed.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let content = match String::from_utf8(signed.content) {
        Ok(text) => Content::SignedContent(text),
        Err(error) => Content::SignedContentBase64(STANDARD.encode(error.as_bytes())),
    };
    let headers = signed.headers.into_iter().map(|(name, value)| (name.into_owned(), Value::from(value))).collect();
    let shown = Shown { scheme: scheme.name().name(), headers, content, signatures: signed.signatures };
    Ok(show(args.json, &shown, || lines))
}
