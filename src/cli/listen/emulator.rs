//! `listen` as a client of the running emulator: subscribes for `--forward-to` and removes that subscription at the end; otherwise checks
//! whether the emulator delivers here, and prints the commands to run if it does not.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};
use url::{Host, Url};

use crate::cli::client::{Call, in_background};
use crate::cli::failure::{Failure, warn};
use crate::cli::forwards::{in_force, settings};
use crate::cli::target::{DEFAULT_URL, Target, is_webhook_url};
use crate::contract::keys::SAMPLE_KEY;
use crate::control::api;

/// The emulator that delivers here, and the key.
#[derive(Clone, Debug, Args)]
pub(super) struct RegistrationArgs {
    #[command(flatten)]
    pub(super) target: Target,
    /// The key whose events are delivered here; --forward-to subscribes with it.
    #[arg(long, env = "WRS_API_KEY", default_value = SAMPLE_KEY, hide_env_values = true)]
    pub(super) key: String,
}

pub(super) struct Registration {
    target: Target,
    /// The subscribed URL. Its host does not exist, so that deliveries arrive only by the forward.
    url: String,
    pub(super) subscription: String,
    pub(super) secret: String,
    pub(super) key: String,
}

/// Subscribes with this secret, if one is given, and makes the emulator deliver to `here`, bound to `local`. Returns `None` with a warning
/// if no emulator answers, and if a secret is given with which deliveries to another URL come here already.
pub(super) async fn registered(
    args: &RegistrationArgs,
    secret: Option<&String>,
    here: &str,
    local: SocketAddr,
) -> Result<Option<Registration>, Failure> {
    let (target, given, secret, here) = (&args.target, args.clone(), secret.cloned(), here.to_owned());
    in_background(move || register(given, secret, &here, local)).await.or_else(|failure| {
        let message = failure.message.clone();
        no_emulator(target, failure)?;
        warn(&format!("nothing is subscribed: {message}"));
        Ok(None)
    })
}

fn register(
    args: RegistrationArgs,
    secret: Option<String>,
    here: &str,
    local: SocketAddr,
) -> Result<Option<Registration>, Failure> {
    let RegistrationArgs { target, key } = args;
    let port = here.rsplit(':').next().unwrap_or_default();
    let url = format!("https://listen.localhost:{port}");
    let is_other = |from: &str, to: &str| from != url && Url::parse(to).is_ok_and(|to| leads_to(&to, local));
    if secret.is_some() && in_force(&target, Some(&key), LIMIT)?.iter().any(|(from, to)| is_other(from, to)) {
        return Ok(None);
    }
    let body = api::NewSubscription {
        url: url.clone(),
        secret,
        description: Some("wrs-emulator listen".to_owned()),
        ..Default::default()
    };
    let id = Call::<api::CreateSubscription>::to(&target).key(&*key).body(&body).send()?.subscription.id.0;
    // Asked for, as the answer has it only if it was generated now.
    let shown = Call::<api::ShowSubscription>::to(&target).id(&id).parameter("secret", "true").send()?;
    let secret = shown.secret.unwrap_or_default();
    let registration = Registration { target, url, subscription: id, secret, key };
    registration.forward(here.into())?;
    Ok(Some(registration))
}

/// Accepts that no emulator answers, unless `--url` is clearly the URL of a webhook; any other failure is returned.
pub(super) fn no_emulator(target: &Target, failure: Failure) -> Result<(), Failure> {
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

impl Registration {
    /// Forwards deliveries to this URL; null removes the forward.
    fn forward(&self, to: Value) -> Result<(), Failure> {
        let settings = api::Patch(settings(Map::from_iter([(self.url.clone(), to)])));
        Call::<api::PatchProfile>::to(&self.target).key(&*self.key).body(&settings).send().map(drop)
    }

    /// Removes the subscription and the forward. Errors are ignored, as the emulator may have stopped.
    pub(super) async fn remove(self) {
        let removed = in_background(move || {
            let _ = Call::<api::DeleteSubscription>::to(&self.target).id(&self.subscription).send();
            self.forward(Value::Null)
        });
        let _ = removed.await;
    }
}

const LIMIT: Duration = Duration::from_secs(2);

/// The subscribed host in examples if nothing is subscribed yet.
const EXAMPLE: &str = "https://app.example.com";

/// The note to print if nothing is delivered to the receiver at `here`, bound to `local`; `None` if something is, or if it is unknown.
pub(super) async fn note(args: &RegistrationArgs, here: &str, local: SocketAddr) -> Result<Option<String>, Failure> {
    let (args, here) = (args.clone(), here.to_owned());
    in_background(move || look(&args.target, &args.key, &here, local)).await
}

fn look(target: &Target, key: &str, here: &str, local: SocketAddr) -> Result<Option<String>, Failure> {
    let asked = in_force(target, Some(key), LIMIT).and_then(|forwards| {
        let answer = Call::<api::ListSubscriptions>::to(target).key(key).limit(LIMIT).send()?;
        Ok((forwards, answer.data))
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
    let at = if target.url == DEFAULT_URL { String::new() } else { format!(" --url {}", target.url) };
    let outside = urls.iter().find(|url| !url.host_str().is_some_and(|host| host.ends_with(".localhost")));
    let from = outside.map_or_else(|| EXAMPLE.to_owned(), |url| url.origin().ascii_serialization());
    let mut command = format!("wrs-emulator forwards add {from}={here}{at}");
    if outside.is_none() {
        let whose = if key == SAMPLE_KEY { String::new() } else { format!(" --key {key}") };
        command.push_str(&format!(" && wrs-emulator subscriptions create {EXAMPLE}/hooks{at}{whose}"));
    }
    let trust = if here.starts_with("https:") {
        "\n\nthe emulator has to trust the certificate made here: start it with --webhook-insecure, or listen without --tls"
    } else {
        ""
    };
    Ok(Some(format!(
        "nothing is delivered here: no forward of {key} goes to {here}; to have events delivered here:\n\n  {command}{trust}"
    )))
}

/// Whether a URL reaches a receiver bound to this address. For one bound to every interface, only the port is compared.
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
