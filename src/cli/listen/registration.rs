//! `listen --forward-to` without a secret: a subscription at the running emulator, whose deliveries lead here while this lasts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use rand::Rng as _;
use serde_json::{Map, Value};

use crate::cli::client::Call;
use crate::cli::failure::{Failure, warn};
use crate::cli::forwards::settings;
use crate::cli::target::{Target, is_webhook_url};
use crate::clock::{Random, Seed};
use crate::contract::keys::SAMPLE_KEY;
use crate::control::api;

/// The emulator whose deliveries come here, and whose they are.
#[derive(Clone, Debug, Args)]
pub(super) struct RegistrationArgs {
    #[command(flatten)]
    pub(super) target: Target,
    /// The key whose events come here: --forward-to subscribes to them.
    #[arg(long, env = "WRS_API_KEY", default_value = SAMPLE_KEY, hide_env_values = true)]
    pub(super) key: String,
}

/// A subscription made for this process.
pub(super) struct Registration {
    target: Target,
    /// What is subscribed: no name of any machine, so that nothing but the forward leads anywhere.
    url: String,
    /// Its id.
    pub(super) subscription: String,
    /// Its signing secret.
    pub(super) secret: String,
    /// Whose it is.
    pub(super) key: String,
}

/// Subscribes, and makes the emulator deliver to `here`. Where no emulator answers, says so and gives `None`.
pub(super) async fn registered(args: &RegistrationArgs, here: &str) -> Result<Option<Registration>, Failure> {
    let (target, wanted, here) = (&args.target, args.clone(), here.to_owned());
    let made = tokio::task::spawn_blocking(move || register(wanted, &here)).await;
    match made.map_err(|error| Failure::usage(format!("cannot subscribe: {error}")))? {
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
    let (url, secret) = (format!("https://listen.localhost:{port}"), fresh_secret());
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

/// Refuses what is clearly not the URL of an emulator.
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

fn fresh_secret() -> String {
    let mut random: Random = Seed::from_entropy().source("listen");
    let mut bytes = [0; 32];
    random.fill_bytes(&mut bytes);
    format!("whsec_{}", STANDARD.encode(bytes))
}

impl Registration {
    /// Leads deliveries to this URL; null takes that back.
    fn forward(&self, to: Value) -> Result<(), Failure> {
        let settings = api::Patch(settings(Map::from_iter([(self.url.clone(), to)])));
        Call::<api::PatchProfile>::to(&self.target).key(&*self.key).body(&settings).send().map(drop)
    }

    /// Takes everything back. An emulator that is gone has nothing left of it.
    pub(super) async fn remove(self) {
        let removed = tokio::task::spawn_blocking(move || {
            let _ = Call::<api::DeleteSubscription>::to(&self.target).id(&self.subscription).send();
            let _ = self.forward(Value::Null);
        });
        let _ = removed.await;
    }
}
