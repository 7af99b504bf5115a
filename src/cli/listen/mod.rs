//! `listen`: a webhook receiver for trying things out. Verifies and prints each delivery, and answers with scripted statuses or
//! forwards to an application.
//!
//! This file has the flags and the life cycle; `receiver` handles one delivery, `application` forwards it, and `emulator` subscribes at a
//! running emulator or checks whether it delivers here. The accept loop, deadlines and limits are those of `crate::http`.

mod application;
mod emulator;
mod receiver;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use url::Url;

use super::client::run_task;
use super::failure::{self, Failure};
use super::help::examples;
use super::output::{print, ready_line};
use super::signals::Signals;
use super::signatures::{Signing, SigningArgs, check_url};
use super::target::{address, bound};
use crate::http::handler::Limits;
use crate::http::serve;
use crate::http::tls::{ServerTls, TlsSetting};
use application::{Application, application_url};
use emulator::{Registration, RegistrationArgs, registered};
use receiver::{Answers, Receiver, Tally};

const MOST_CONNECTIONS: usize = 64;

const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = examples([
    "listen --secret whsec_...",
    "listen --forward-to localhost:3000/hooks",
    "listen --respond 500,500,200 --count 3 --json",
    "forwards add https://app.example.com=http://127.0.0.1:9780",
]) + "\n\nExit status: 0 ended by a signal, or --count deliveries came and none failed to verify; 1 one did; 2 wrong usage.")]
pub(super) struct ListenArgs {
    /// Where to listen; port 0 picks a free one.
    #[arg(long, default_value = "127.0.0.1:9780", value_name = "ADDRESS")]
    listen: String,
    #[command(flatten)]
    signing: SigningArgs,
    /// Statuses to answer with, one for each delivery; the last one repeats. They do not depend on verification: `--respond 401`
    /// refuses every delivery.
    #[arg(long, default_value = "200", value_name = "STATUSES", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(200..=599))]
    respond: Vec<u16>,
    /// Forward each delivery to this application, such as `localhost:3000/hooks`, and return its answer. Subscribe at the running
    /// emulator, with --secret if it is given and else with a new one, and unsubscribe at the end.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "respond")]
    forward_to: Option<String>,
    /// Allow --forward-to this public host, or `any`. Repeatable.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    allow_egress: Vec<String>,
    #[command(flatten)]
    registration: RegistrationArgs,
    /// End after this many deliveries.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The URL of the subscription, for a custom scheme that signs it; this receiver's own if left out.
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,
    /// Serve HTTPS with these PEM files, or with a self-signed certificate, which senders must accept unverified
    /// (`serve --webhook-insecure`).
    #[arg(long, value_name = "self-signed|CERT:KEY")]
    tls: Option<String>,
    /// Print one JSON object per delivery, with headers and body.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: ListenArgs) -> Result<ExitCode, Failure> {
    let signing = Signing::resolve(&args.signing)?;
    let application = args.forward_to.as_deref().map(application_url).transpose()?;
    if let Some(url) = &args.webhook_url {
        check_url(url)?;
    }
    let tls = args.tls.as_deref().map(server_tls).transpose()?;
    run_task(listen(args, signing, tls, application))?
}

async fn listen(
    args: ListenArgs,
    mut signing: Signing,
    tls: Option<ServerTls>,
    application: Option<Url>,
) -> Result<ExitCode, Failure> {
    // Installed before the ready line, as a signal may follow it at once.
    let mut signals = Signals::install()?;
    let requested = address("--listen", &args.listen)?;
    let (listener, local) = bound(requested)?;
    let url = format!("{}://{local}", if tls.is_some() { "https" } else { "http" });
    let application = application.map(|to| Application::new(to, url.clone(), &args.allow_egress));
    if let Some(application) = &application {
        application.check().await?;
    }
    signing.warn();
    let given = signing.secrets.first();
    let (registration, note) = match &application {
        Some(_) => (registered(&args.registration, given, &url, local).await?, None),
        None => (None, emulator::note(&args.registration, &url, local).await?),
    };
    if signing.secrets.is_empty() {
        signing.secrets.extend(registration.iter().map(|registration| registration.secret.clone()));
    }
    if signing.secrets.is_empty() {
        failure::warn(
            "no secret is set, so no delivery is verified; pass the subscription's with --secret or in WRS_WEBHOOK_SECRET",
        );
    }
    announce(&url, registration.as_ref(), args.json);
    if let Some(note) = note {
        failure::note(&note);
    }
    let (stop, stopping) = watch::channel(false);
    let limits = Limits { connections: MOST_CONNECTIONS, ..Limits::default() };
    let answers = match application {
        None => Answers::Script(args.respond),
        Some(application) => Answers::Application(application),
    };
    let receiver = Arc::new(Receiver {
        signing,
        base: url,
        webhook_url: args.webhook_url,
        answers,
        count: args.count,
        json: args.json,
        bodies: limits.body_reader(),
        tally: Mutex::default(),
        stop: stop.clone(),
    });
    let mut served = tokio::spawn(serve(listener, Arc::new(Arc::clone(&receiver)), tls, limits, stopping, GRACE));
    let code = tokio::select! {
        _ = &mut served => outcome(*receiver.tally.lock()),
        _ = signals.wait() => {
            let _ = stop.send(true);
            tokio::select! {
                _ = served => Ok(ExitCode::SUCCESS),
                number = signals.wait() => Ok(ExitCode::from(128u8.saturating_add(number))),
            }
        }
    };
    if let Some(registration) = registration {
        registration.remove().await;
    }
    code
}

/// Prints the ready line, and the secret of the subscription, with which the application can verify deliveries itself.
fn announce(url: &str, registration: Option<&Registration>, json: bool) {
    if json {
        let subscription = registration.map(|Registration { subscription, secret, .. }| {
            json!({ "url": url, "subscription": subscription, "secret": secret })
        });
        return print(&ready_line(subscription.unwrap_or_else(|| json!({ "url": url }))));
    }
    print(&format!("wrs-emulator listening on {url}\n"));
    if let Some(Registration { subscription, secret, key, .. }) = registration {
        print(&format!(
            "{subscription} of {key} is delivered here; its signing secret is {secret} (--secret keeps it for the next start)\n"
        ));
    }
}

fn outcome(tally: Tally) -> Result<ExitCode, Failure> {
    if tally.rejected > 0 {
        return Err(Failure::check_failed(format!(
            "{} of {} deliveries did not verify",
            tally.rejected, tally.received
        )));
    }
    Ok(ExitCode::SUCCESS)
}

fn server_tls(text: &str) -> Result<ServerTls, Failure> {
    let setting = TlsSetting::parse(text).map_err(|problem| Failure::usage(format!("--tls: {problem}")))?;
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    ServerTls::new(&setting, &names).map_err(|problem| Failure::invalid_file(format!("--tls: {problem}")))
}
