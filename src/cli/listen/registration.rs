//! `listen --forward-to` without a secret: subscribes at the running emulator and forwards the deliveries here until the end.

use clap::Args;
use serde_json::{Map, Value};

use crate::cli::client::Call;
use crate::cli::failure::{Failure, warn};
use crate::cli::forwards::settings;
use crate::cli::target::{Target, is_webhook_url};
use crate::clock::Seed;
use crate::contract::keys::SAMPLE_KEY;
use crate::control::api;
use crate::tasks::{beside, spawn_beside};
use crate::workspace::Secret;

/// The emulator that delivers here, and the key.
#[derive(Clone, Debug, Args)]
pub(super) struct RegistrationArgs {
    #[command(flatten)]
    pub(super) target: Target,
    /// The key whose events are delivered here; --forward-to subscribes with it.
    #[arg(long, env = "WRS_API_KEY", default_value = SAMPLE_KEY, hide_env_values = true)]
    pub(super) key: String,
}

/// A subscription made for this process.
pub(super) struct Registration {
    target: Target,
    /// The subscribed URL. Its host does not exist, so that deliveries arrive only by the forward.
    url: String,
    /// Its id.
    pub(super) subscription: String,
    /// Its signing secret.
    pub(super) secret: String,
    /// Whose it is.
    pub(super) key: String,
}

/// Subscribes, and makes the emulator deliver to `here`. If no emulator answers, prints a warning and returns `None`.
pub(super) async fn registered(args: &RegistrationArgs, here: &str) -> Result<Option<Registration>, Failure> {
    let (target, given, here) = (&args.target, args.clone(), here.to_owned());
    let made = beside(move || register(given, &here)).await;
    match made.map_err(|error| Failure::io(format!("cannot subscribe: {error}")))? {
        Ok(registration) => Ok(Some(registration)),
        Err(failure) => {
            let message = failure.message.clone();
            no_emulator(target, failure)?;
            warn(&format!("nothing is subscribed: {message}"));
            Ok(None)
        }
    }
}

fn register(args: RegistrationArgs, here: &str) -> Result<Registration, Failure> {
    let RegistrationArgs { target, key } = args;
    let port = here.rsplit(':').next().unwrap_or_default();
    let url = format!("https://listen.localhost:{port}");
    let secret = Secret::generate(&mut Seed::from_entropy().source("listen")).reveal().to_owned();
    let body = api::NewSubscription {
        url: url.clone(),
        secret: Some(secret.clone()),
        description: Some("wrs-emulator listen".to_owned()),
        ..Default::default()
    };
    let created = Call::<api::CreateSubscription>::to(&target).key(&*key).body(&body).send()?.body;
    let subscription = created.subscription.id.0;
    let registration = Registration { target, url, subscription, secret, key };
    registration.forward(here.into())?;
    Ok(registration)
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
        let removed = spawn_beside(move || {
            let _ = Call::<api::DeleteSubscription>::to(&self.target).id(&self.subscription).send();
            let _ = self.forward(Value::Null);
        });
        let _ = removed.await;
    }
}
