//! `listen`: a webhook receiver for trying things out. Verifies and prints each delivery, and answers with scripted statuses or
//! forwards to an application.
//!
//! This file has the flags and the life cycle, and `listen` as a client of the running emulator: it subscribes for `--forward-to` and
//! removes that subscription at the end; otherwise it checks whether the emulator delivers here, and prints the commands to run if it does
//! not. `receiver` handles one delivery. The accept loop, deadlines and limits are those of `crate::http`.

mod receiver;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use url::{Host, Url};

use super::arguments::{Target, address, bound, examples, is_webhook_url};
use super::client::{ControlClient, in_background, run_task, runtime};
use super::failure::{Failure, FailureCode, note, note_with, warn};
use super::output::{print, ready_line};
use super::profile::{forwards_in_force, mask_as, patch_of_forwards};
use super::signals::{Adopted, Signals};
use super::signatures::{ResolvedSigning, SigningArgs, check_url};
use super::stream::Stream;
use crate::contract::DEFAULT_URL;
use crate::contract::keys::SAMPLE_KEY;
use crate::control::api::{self, ControlCall as _};
use crate::http::handler::Limits;
use crate::http::listener::Listener;
use crate::http::serve;
use crate::http::tls::{ServerTls, TlsSetting};
use crate::redact::Redactor;
use crate::settings::Forwards;
use crate::state::workspace::FailureReason;
use crate::util::flag::Flag;
use crate::util::wording::shell_word;
use crate::webhook::client::connects;
use crate::webhook::egress::{Destination, Egress, is_looked_up_far};
use receiver::{Answers, Application, DeliveryCounts, Receiver, VerifiesWith, application_url};

const MAX_CONNECTIONS: usize = 64;

/// How long the emulator may take to remove the subscription at the end.
const MAX_REMOVAL: Duration = Duration::from_secs(5);
const USUAL_ADDRESS: &str = "127.0.0.1:9780";

const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = examples([
    "listen --secret whsec_...",
    "listen --forward-to localhost:3000/hooks",
    "listen --respond 500,500,200 --count 3 --json",
    "forwards add https://app.example.com=http://127.0.0.1:9780",
]) + "\n\nExit status: 0 ended by a signal, or --count deliveries came and none failed to verify; 1 one did; 2 wrong usage.")]
pub(super) struct ListenArgs {
    /// Where to listen; port 0 picks a free one. If left out, 127.0.0.1:9780, or a free port if that is taken.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    #[command(flatten)]
    signing: SigningArgs,
    /// Statuses to answer with, one for each delivery, whether it verifies or not; the last one repeats. If left out: 200, or 401 for a
    /// delivery that does not verify.
    #[arg(long, value_name = "STATUSES", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(200..=599))]
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
    #[arg(long, value_name = "self-signed|CERT:KEY", value_parser = TlsSetting::parse)]
    tls: Option<TlsSetting>,
    /// Print one JSON object per delivery, with headers and body.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: ListenArgs) -> Result<ExitCode, Failure> {
    let signing = ResolvedSigning::resolve(&args.signing)?;
    args.webhook_url.as_deref().map(check_url).transpose()?;
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let tls = args.tls.as_ref().map(|setting| ServerTls::new(setting, &names)).transpose();
    let tls = tls.map_err(|problem| Failure::invalid_file(format!("--tls: {problem}")))?;
    run_task(listen(args, signing, tls))?
}

async fn listen(args: ListenArgs, signing: ResolvedSigning, tls: Option<ServerTls>) -> Result<ExitCode, Failure> {
    // Installed before the ready line, because a signal may follow it at once.
    let mut signals = Signals::install()?;
    Adopted::watch()?.reap_all();
    let application = args.forward_to.as_deref().map(application_url).transpose()?;
    let (listener, local) = bound_here(args.listen.as_deref())?;
    let url = format!("{}://{local}", if tls.is_some() { "https" } else { "http" });
    let application = application.map(|to| Application::new(to, url.clone(), &args.allow_egress));
    if let Some(application) = &application {
        application.check().await?;
    }
    signing.warn();
    let wanted = Wanted { args: args.registration, secret: signing.secrets.first().cloned(), here: url.clone(), local };
    let subscribes = application.is_some();
    let asked = wanted.clone();
    let (registration, nothing_delivered, is_early) = in_background(move || {
        if !subscribes {
            // The key that is named below may have its own prefix. Without an emulator there is none.
            let _ = mask_as(&asked.args.target);
            return Ok((None, undelivered(&asked, local)?, false));
        }
        let target = asked.args.target.clone();
        match register(asked) {
            Ok(registration) => Ok((registration, None, false)),
            Err(failure) => no_emulator(&target, failure).map(|()| (None, None, true)),
        }
    })
    .await?;
    let mut subscribed = registration.as_ref().map(Registration::subscribed).unwrap_or_default();
    subscribed.secrets = if signing.secrets.is_empty() { subscribed.secrets } else { signing.secrets.clone() };
    if subscribed.secrets.is_empty() && !is_early {
        warn(
            "no secret is set, so no delivery is verified; pass the subscription's with --secret or in WRS_WEBHOOK_SECRET",
        );
    }
    print(&ready_text(&url, registration.as_ref(), args.json));
    if is_early {
        let at = &wanted.args.target.url;
        let other = if at == DEFAULT_URL { " (another: --url or WRS_EMULATOR_URL)" } else { "" };
        note(&format!("waiting for the emulator at {at}{other}"));
    }
    if let Some(text) = nothing_delivered {
        let mut lines = text.lines().map(str::to_owned);
        note_with(&lines.next().unwrap_or_default(), &lines.collect::<Vec<_>>());
    }
    let stop = Flag::default();
    if Stream::Out.is_lost() {
        stop.raise();
    }
    let limits = Limits { connections: MAX_CONNECTIONS, ..Limits::default() };
    let answers = match application {
        None => Answers::Script(args.respond),
        Some(application) => Answers::Application(application),
    };
    let receiver = Arc::new(Receiver {
        signing,
        base: url,
        webhook_url: args.webhook_url,
        subscribed: Mutex::new(subscribed),
        answers,
        count: args.count,
        json: args.json,
        bodies: limits.body_reader(),
        tally: Mutex::default(),
        stop: stop.clone(),
    });
    let served = tokio::spawn(serve(listener, Arc::new(Arc::clone(&receiver)), tls, limits, stop, GRACE));
    let registration = Arc::new(Mutex::new(registration));
    let keeper = tokio::spawn(keep(Arc::clone(&receiver), Arc::clone(&registration), is_early.then_some(wanted)));
    let ended = until_the_end(served, &mut signals, &receiver).await;
    keeper.abort();
    // Errors are ignored: the emulator may have stopped.
    let removed =
        in_background(move || registration.lock().take().map_or(Ok(()), |registration| registration.remove()));
    tokio::select! {
        _ = removed => {}
        // An emulator that hangs does not keep the process.
        () = tokio::time::sleep(MAX_REMOVAL) => {}
        _ = signals.wait() => {}
    }
    ended
}

/// Listens where the user says, else at the usual address, or at a free port if that cannot be had.
fn bound_here(listen: Option<&str>) -> Result<(Listener, SocketAddr), Failure> {
    let on = |text: &str| bound(address("--listen", text)?);
    let Some(listen) = listen else {
        return on(USUAL_ADDRESS).or_else(|failure| {
            let found = on("127.0.0.1:0")?;
            note(&format!("{}; a free port is used instead", failure.message));
            Ok(found)
        });
    };
    on(listen)
}

fn ready_text(url: &str, registration: Option<&Registration>, is_json: bool) -> String {
    match registration {
        None if is_json => ready_line(json!({ "url": url })),
        Some(Registration { subscription, secret, .. }) if is_json => {
            ready_line(json!({ "url": url, "subscription": subscription, "secret": secret }))
        }
        None => format!("wrs-emulator listening on {url}\n"),
        Some(registration) => {
            format!("wrs-emulator listening on {url}\n{}", registration.text())
        }
    }
}

/// Waits until the receiver ends: by itself after so many deliveries, which have to verify, or by a signal; a second one does not wait
/// for deliveries under way.
async fn until_the_end(
    mut served: JoinHandle<()>,
    signals: &mut Signals,
    receiver: &Receiver,
) -> Result<ExitCode, Failure> {
    tokio::select! {
        _ = &mut served => {
            let DeliveryCounts { received, rejected } = *receiver.tally.lock();
            match rejected {
                0 => Ok(ExitCode::SUCCESS),
                _ => Err(Failure::check_failed(format!("{rejected} of {received} deliveries did not verify"))),
            }
        }
        _ = signals.wait() => {
            receiver.stop.raise();
            tokio::select! {
                _ = served => Ok(ExitCode::SUCCESS),
                number = signals.wait() => Ok(ExitCode::from(128u8.saturating_add(number))),
            }
        }
    }
}

/// The emulator that delivers here, and the key.
#[derive(Clone, Debug, Args)]
struct RegistrationArgs {
    #[command(flatten)]
    target: Target,
    /// The key whose events are delivered here; --forward-to subscribes with it.
    #[arg(long, env = "WRS_API_KEY", default_value = SAMPLE_KEY, hide_env_values = true)]
    key: String,
}

/// A subscription made for `--forward-to`, by which deliveries arrive here.
struct Registration {
    target: Target,
    /// The subscribed URL. Its host does not exist, so that deliveries arrive only by the forward.
    url: String,
    /// Where the forward leads.
    here: String,
    subscription: String,
    /// Empty until one was generated.
    secret: String,
    key: String,
    /// True if the emulator did not answer when it was last asked.
    is_lost: bool,
}

/// Marks the subscriptions of `listen`, so that those left behind by a process that was killed are recognised.
const DESCRIPTION: &str = "wrs-emulator listen";
const SUBSCRIBED_HOST: &str = "listen.localhost";

/// The subscription that `--forward-to` asks for: with this secret, if one is given, and delivered to `here`, bound to `local`.
#[derive(Clone)]
struct Wanted {
    args: RegistrationArgs,
    secret: Option<String>,
    here: String,
    local: SocketAddr,
}

/// Subscribes. Returns `None` if a secret is given with which deliveries to another URL come here already.
fn register(Wanted { args, secret, here, local }: Wanted) -> Result<Option<Registration>, Failure> {
    // The key that is printed may have its own prefix.
    let _ = mask_as(&args.target);
    let RegistrationArgs { target, key } = args;
    let port = here.rsplit(':').next().unwrap_or_default();
    let url = format!("https://{SUBSCRIBED_HOST}:{port}");
    let is_other = |from: &str, to: &str| from != url && Url::parse(to).is_ok_and(|to| leads_to(&to, local));
    if secret.is_some()
        && forwards_in_force(&target, &key.as_str().into(), LIMIT)?.iter().any(|(from, to)| is_other(from, to))
    {
        return Ok(None);
    }
    let secret = secret.unwrap_or_default();
    let mut registration = Registration { target, url, here, subscription: String::new(), secret, key, is_lost: false };
    registration.subscribe()?;
    if let Err(failure) = registration.tidy_up() {
        warn(&format!("the other subscriptions are not known: {}", failure.message));
    }
    Ok(Some(registration))
}

/// Accepts that no emulator answers, unless `--url` is clearly the URL of a webhook; any other failure is returned.
fn no_emulator(target: &Target, failure: Failure) -> Result<(), Failure> {
    if !failure.is_unreachable() {
        return Err(failure);
    }
    if is_webhook_url(&target.url) {
        let message = format!("--url: no emulator answers at `{}`", target.url);
        let hint = "--url is the emulator's address; the URL of the subscription is --webhook-url";
        return Err(Failure::usage(message).with_hint(hint));
    }
    Ok(())
}

/// Subscribes once the emulator answers, if it did not before; and again whenever it lost the subscription: when it was started again, or
/// reset.
async fn keep(receiver: Arc<Receiver>, registration: Arc<Mutex<Option<Registration>>>, mut wanted: Option<Wanted>) {
    let mut said = String::new();
    loop {
        tokio::time::sleep(INTERVAL).await;
        let registration = Arc::clone(&registration);
        if let Some(sought) = wanted.clone() {
            let receiver = Arc::clone(&receiver);
            match in_background(move || begin(&receiver, &registration, sought)).await {
                Ok(()) => wanted = None,
                Err(failure) if failure.is_unreachable() || failure.message == said => {}
                Err(failure) => {
                    warn(&format!("nothing is delivered here: {}", failure.message));
                    said = failure.message;
                }
            }
            continue;
        }
        let kept = in_background(move || Ok(registration.lock().as_mut().and_then(Registration::keep)));
        if let Ok(Some(message)) = kept.await {
            warn(&message);
        }
    }
}

/// Subscribes while the receiver runs already. The lock is held until it is done, so that the end of the process finds what to remove.
fn begin(receiver: &Receiver, slot: &Mutex<Option<Registration>>, wanted: Wanted) -> Result<(), Failure> {
    let mut slot = slot.lock();
    *slot = register(wanted)?;
    let Some(registration) = &*slot else { return Ok(()) };
    let VerifiesWith { secrets, url } = registration.subscribed();
    let mut subscribed = receiver.subscribed.lock();
    subscribed.url = url;
    if subscribed.secrets.is_empty() {
        subscribed.secrets = secrets;
    }
    drop(subscribed);
    print(&if receiver.json {
        let Registration { subscription, secret, .. } = registration;
        ready_line(json!({ "event": "subscribed", "subscription": subscription, "secret": secret }))
    } else {
        registration.text()
    });
    Ok(())
}

impl Registration {
    /// What deliveries are verified with.
    fn subscribed(&self) -> VerifiesWith {
        VerifiesWith { secrets: vec![self.secret.clone()], url: Some(self.url.clone()) }
    }

    /// With the secret the application can verify deliveries itself.
    fn text(&self) -> String {
        let Self { subscription, secret, key, .. } = self;
        format!(
            "ready: forwarding events for {key}, by {subscription}; signing secret: {secret} (WRS_WEBHOOK_SECRET keeps it)\n",
            key = Redactor::default().text(key),
        )
    }

    /// Subscribes, with the same secret as before, and makes the emulator deliver here.
    fn subscribe(&mut self) -> Result<(), Failure> {
        let body = api::Subscribe {
            key: self.key.as_str().into(),
            url: self.url.clone(),
            secret: (!self.secret.is_empty()).then(|| self.secret.clone()),
            description: Some(DESCRIPTION.to_owned()),
            ..Default::default()
        };
        let created = ControlClient::new(&self.target).send(&api::Body { body })?;
        self.subscription = created.subscription.id.0;
        // Asked for, because the answer has it only if it was generated now.
        self.secret = self.fetch_subscription()?.secret.unwrap_or_default();
        self.forward(&self.url, self.here.as_str().into())
    }

    fn fetch_subscription(&self) -> Result<api::ShownSubscription, Failure> {
        let path = api::SubscriptionPath { id: self.subscription.clone() };
        let query = api::ShowSubscriptionQuery { secret: true, ..Default::default() };
        let request = api::ShowSubscription { path, query };
        ControlClient::new(&self.target).limit(LIMIT).send(&request)
    }

    /// Subscribes again if the subscription is gone; returns what there is to report.
    fn keep(&mut self) -> Option<String> {
        let url = &self.target.url;
        let was_lost = match self.fetch_subscription() {
            Ok(_) if !self.is_lost => return None,
            Err(failure) if failure.is_unreachable() => {
                let message =
                    format!("no emulator answers at {url} any more; events are delivered here again once one does");
                return (!std::mem::replace(&mut self.is_lost, true)).then_some(message);
            }
            Err(failure) if failure.code != FailureCode::NotFound => return None,
            Ok(_) | Err(_) => std::mem::replace(&mut self.is_lost, false),
        };
        let cause = if was_lost { "the emulator answers again" } else { "the emulator lost the subscription" };
        Some(match self.subscribe() {
            Ok(()) => format!("{cause}; events for {} are delivered here again, by {}", self.key, self.subscription),
            Err(failure) => {
                self.is_lost = true;
                format!("{cause}, but nothing is delivered here: {}", failure.message)
            }
        })
    }

    /// Removes what others of its kind left behind, and warns of other subscriptions, which also get each event.
    fn tidy_up(&self) -> Result<(), Failure> {
        let send = |request: &_| {
            ControlClient::new(&self.target).limit(LIMIT).send::<api::Query<api::ListSubscriptions>>(request)
        };
        let listed = api::ListSubscriptions::all(self.key.as_str().into(), send)?;
        let forwards = forwards_in_force(&self.target, &self.key.as_str().into(), LIMIT)?;
        for row in listed.iter().filter(|row| row.id.0 != self.subscription) {
            let is_ours = row.description.as_deref() == Some(DESCRIPTION) && row.url.contains(SUBSCRIBED_HOST);
            let to = forwards.get(&row.url);
            if is_ours && (row.url == self.url || !to.is_some_and(|to| is_listening(to))) {
                self.delete(&row.id.0)?;
                if row.url != self.url && to.is_some() {
                    self.forward(&row.url, Value::Null)?;
                }
                note(&format!("removed {}, which a `listen` that was killed left behind", row.id.0));
            } else if row.status == api::SubscriptionState::Active {
                let origin =
                    Url::parse(&row.url).map_or_else(|_| EXAMPLE.to_owned(), |url| url.origin().ascii_serialization());
                let rule = format!("{origin}={}", self.here);
                warn(&format!(
                    "{key} has another subscription, {id} to {url}, so each event is delivered twice; \
                     to have only that one's deliveries here, run `wrs-emulator forwards add {rule}{at}` and give its secret as --secret",
                    key = self.key,
                    id = row.id.0,
                    url = row.url,
                    rule = shell_word(&rule),
                    at = self.target.option(),
                ));
            }
        }
        Ok(())
    }

    /// Forwards deliveries for a URL; null removes the forward.
    fn forward(&self, url: &str, to: Value) -> Result<(), Failure> {
        let patch = patch_of_forwards(self.key.as_str().into(), [(url.to_owned(), to)].into_iter().collect());
        ControlClient::new(&self.target).send(&patch).map(drop)
    }

    fn delete(&self, id: &str) -> Result<(), Failure> {
        let path = api::SubscriptionPath { id: id.to_owned() };
        let request = api::DeleteSubscription { path, body: api::NoFields::default() };
        ControlClient::new(&self.target).exchange(&request.sent()).map(drop)
    }

    /// Removes the subscription and the forward.
    fn remove(&self) -> Result<(), Failure> {
        let _ = self.delete(&self.subscription);
        self.forward(&self.url, Value::Null)
    }
}

/// True if a program may listen at the host and port of a URL. Any client may have set the forward, so it passes the same guard as a delivery.
fn is_listening(url: &str) -> bool {
    let Some(url) = Url::parse(url).ok().filter(|url| !is_looked_up_far(url)) else { return true };
    let Some(Destination::Dial(to)) = Egress::default().destination(&Forwards::default(), &Arc::new(url)) else {
        return true;
    };
    let connected = runtime(Builder::new_current_thread()).map(|runtime| runtime.block_on(connects(&to, LIMIT)));
    !matches!(connected, Ok(Err(problem)) if problem.reason == FailureReason::ConnectionRefused)
}

/// How often the emulator is asked whether it still has the subscription.
const INTERVAL: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(2);

/// The subscribed host in examples if nothing is subscribed yet.
const EXAMPLE: &str = "https://app.example.com";

/// The note to print if nothing is delivered to the receiver at `here`, bound to `local`; `None` if something is, or if it is unknown.
fn undelivered(wanted: &Wanted, local: SocketAddr) -> Result<Option<String>, Failure> {
    let Wanted { args: RegistrationArgs { target, key }, secret, here, .. } = wanted;
    let asked = forwards_in_force(target, &key.as_str().into(), LIMIT).and_then(|forwards| {
        let send =
            |request: &_| ControlClient::new(target).limit(LIMIT).send::<api::Query<api::ListSubscriptions>>(request);
        Ok((forwards, api::ListSubscriptions::all(key.as_str().into(), send)?))
    });
    let (forwards, subscriptions) = match asked {
        Ok(found) => found,
        Err(failure) if failure.is_unreachable() => {
            return no_emulator(target, failure).map(|()| {
                Some(format!(
                    "nothing is delivered here yet: no emulator answers at {}; to start one that delivers here:\n\n  \
                     wrs-emulator --forward {EXAMPLE}={here}",
                    target.url
                ))
            });
        }
        // It runs but refuses this caller, so it is unknown whether anything is delivered here.
        Err(_) => return Ok(None),
    };
    let urls: Vec<Url> = subscriptions.iter().filter_map(|row| Url::parse(&row.url).ok()).collect();
    let targets = forwards.values().filter_map(|to| Url::parse(to).ok());
    if targets.chain(urls.iter().cloned()).any(|url| leads_to(&url, local)) {
        return Ok(None);
    }
    let at = target.option();
    let outside = urls.iter().find(|url| !url.host_str().is_some_and(|host| host.ends_with(".localhost")));
    let from = outside.map_or_else(|| EXAMPLE.to_owned(), |url| url.origin().ascii_serialization());
    let rule = format!("{from}={here}");
    let whose = if *key == SAMPLE_KEY { String::new() } else { format!(" --key {}", shell_word(key)) };
    let mut command = format!("wrs-emulator forwards add {}{at}{whose}", shell_word(&rule));
    let (mut first, mut then) = ("", "");
    if outside.is_none() {
        command.push_str(&format!(" && wrs-emulator subscriptions create {EXAMPLE}/hooks{at}{whose}"));
        if secret.is_some() {
            first = ", with the same secret in WRS_WEBHOOK_SECRET";
        } else {
            then = "\n\nthen start this again with the printed secret in WRS_WEBHOOK_SECRET, to verify with it";
        }
    }
    let trust = if here.starts_with("https:") {
        "\n\nthe emulator has to trust the certificate made here: start it with --webhook-insecure, or listen without --tls"
    } else {
        ""
    };
    Ok(Some(format!(
        "nothing is delivered here yet: neither a forward nor a subscription of {key} leads to {here}; to have events delivered here{first}:\n\n  {command}{then}{trust}"
    )))
}

/// True if a URL reaches a receiver bound to this address. For one bound to every interface, only the port is compared.
fn leads_to(url: &Url, local: SocketAddr) -> bool {
    let is_here = match url.host() {
        _ if local.ip().is_unspecified() => true,
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => local.ip() == address,
        Some(Host::Ipv6(address)) => local.ip() == address,
        None => false,
    };
    is_here && url.port_or_known_default() == Some(local.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_the_address_that_it_names() {
        for (url, local, expected) in [
            ("http://127.0.0.1:9780/x", "127.0.0.1:9780", true),
            ("http://localhost:9780", "127.0.0.1:9780", true),
            ("https://listen.localhost:9780", "127.0.0.1:9780", true),
            ("http://[::1]:9780", "[::1]:9780", true),
            ("http://[::1]:9780", "127.0.0.1:9780", false),
            ("http://127.0.0.1:9781", "127.0.0.1:9780", false),
            ("http://app:9780", "0.0.0.0:9780", true),
            ("http://app:9780", "127.0.0.1:9780", false),
            ("http://localhost", "127.0.0.1:80", true),
        ] {
            let (parsed, local) = (Url::parse(url).expect("a URL"), local.parse().expect("an address"));
            assert_eq!(leads_to(&parsed, local), expected, "{url} {local}");
        }
    }
}
