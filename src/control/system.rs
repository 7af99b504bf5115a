//! `GET health`, `GET ca.pem`: whether the emulator is ready, and the certificate authority to trust.

use clap::Args;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ControlError;
use super::call::{Call, ControlCall, JSON_OR_TEXT, Made, Options, Tag, USUAL};
use super::command::{CallCommand, Sent};
use super::context::Context;
use super::fields::DurationInput;
use super::render::Text;
use crate::advice::Audience;
use crate::http::answer::answer;

/// Check that the emulator is ready.
///
/// Answered as soon as the emulator serves requests, without a token. `scenarios` is `as saved`, or `last good` while a broken or
/// deleted file is kept in its last valid version.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct AskHealth {}

impl ControlCall for AskHealth {
    type Answer = Made<Ready>;
    // Answered by the async worker, so that it tells whether that one is alive, however busy the other threads are.
    fn call() -> Call {
        Call::waits::<Self, _>(Tag::EMULATOR, "GET health", |_, cx| async move { Ok(health(&cx)) }).with(Options {
            is_open: true,
            media: Some(JSON_OR_TEXT),
            ..USUAL
        })
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &["health", "health --wait 10s", "health --url http://emulator:9770"];
        let sent = |HealthArgs { wait }| Sent { patience: wait.get().unwrap_or_default(), ..Self {}.sent() };
        let command = CallCommand::new("health", examples, sent);
        vec![command.about("Exit with 0 when the emulator is ready").after("mcp")]
    }
}

/// The command's own arguments.
#[derive(Args)]
struct HealthArgs {
    /// Wait this long for the emulator to be reachable.
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    wait: DurationInput,
}

/// The emulator is ready.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Ready {
    #[schemars(extend("const" = "ready"))]
    pub(crate) status: String,
    pub(crate) version: String,
    pub(crate) generation: u64,
    /// True if all scenarios match their saved files.
    #[schemars(extend("enum" = ["as saved", "last good"]))]
    pub(crate) scenarios: String,
    /// The bytes that the process has allocated, of `--max-memory-bytes`; 0 if it does not count them.
    pub(crate) memory_bytes: usize,
}

impl Text for Ready {
    fn text(&self, _: &Audience) -> String {
        let Self { status, version, scenarios, .. } = self;
        format!("{status} (version {version}, scenarios {scenarios})\n")
    }
}

fn health(cx: &Context) -> Made<Ready> {
    // A broken or deleted file leaves the last valid version active; only this field shows it.
    let scenarios = if cx.engine.library.is_as_saved() { "as saved" } else { "last good" };
    let ready = Ready {
        status: "ready".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        generation: cx.engine.library.load().number,
        scenarios: scenarios.to_owned(),
        memory_bytes: cx.engine.journal.budget().allocated(),
    };
    cx.reply(&ready).into()
}

/// The CA certificate made for --tls self-signed.
///
/// The certificate that clients must trust to call an emulator that was started with `--tls self-signed`. Needs no token.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct GetAuthority {}

impl ControlCall for GetAuthority {
    type Answer = Made<String>;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::EMULATOR, "GET ca.pem", authority).with(Options {
            is_open: true,
            media: Some(&["application/x-pem-file"]),
            errors: &[(404, "There is none without --tls self-signed.")],
            ..USUAL
        })
    }
}

fn authority(_: GetAuthority, cx: &Context) -> Result<Made<String>, ControlError> {
    match &cx.control.ca_pem {
        None => Err(ControlError::not_found("no authority was made; start with --tls self-signed")),
        Some(pem) => {
            let pem_type = HeaderValue::from_static("application/x-pem-file");
            Ok(answer(StatusCode::OK, pem_type, pem.clone()).into())
        }
    }
}
