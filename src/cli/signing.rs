//! What `sign`, `verify` and `listen` share: secrets and schemes from flags and profile settings, and reading of files of bounded
//! size. Must not know what the commands do with them.

use std::path::Path;

use clap::Args;

use super::failure::{Failure, warn};
use super::profile_source::load_profile;
use crate::contract::signature::{
    CustomScheme, KeyReading, Message, Scheme, SchemeName, SigningKey, secret_warnings, sign,
};
use crate::file;
use crate::profile::Layered;

/// Most bytes of a file: far beyond any webhook, and harmless to memory.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Flags about schemes and secrets.
#[derive(Debug, Args)]
pub(super) struct SigningArgs {
    /// The signing secret. Repeatable while one replaces another, newest first. Prefer `WRS_WEBHOOK_SECRET`: other
    /// users of this machine can see the arguments of a process.
    #[arg(long, env = "WRS_WEBHOOK_SECRET", value_name = "SECRET", hide_env_values = true)]
    secret: Vec<String>,
    /// `standard` (the default), `svix`, `stripe`, `github`, `slack`, `shopify` or `custom`, which --set
    /// webhooks.custom.… describes.
    #[arg(long, value_name = "SCHEME", value_delimiter = ',', value_parser = parse_scheme)]
    scheme: Vec<SchemeName>,
    /// How the secret becomes a key: `auto` (as the scheme's libraries do), `base64`, `utf8` or `utf8_with_prefix`.
    #[arg(long, value_name = "READING", value_parser = parse_reading)]
    secret_key: Option<KeyReading>,
    /// Change a setting of the profile, such as `webhooks.custom.hash=sha512`. Repeatable.
    #[arg(long, env, value_name = "PATH=VALUE", value_delimiter = ';')]
    set: Vec<String>,
}

/// The resolved flags.
pub(super) struct Signing {
    /// The secrets, newest first. Each makes a valid key under every scheme.
    pub(super) secrets: Vec<String>,
    /// At least one.
    pub(super) schemes: Vec<Scheme>,
    /// The custom scheme of the profile, whether or not it is in use.
    pub(super) custom: CustomScheme,
    /// How a secret becomes a key.
    pub(super) reading: KeyReading,
    /// The settings, from `--set`.
    pub(super) settings: Layered,
}

impl Signing {
    /// Resolves the flags; refuses a secret that does not make a key, with the reading that would.
    pub(super) fn resolve(args: &SigningArgs) -> Result<Self, Failure> {
        let settings = load_profile(None, &args.set)?;
        let profile = settings.profile();
        let custom = profile.webhooks.custom.clone();
        let schemes = if args.scheme.is_empty() {
            profile.schemes()
        } else {
            args.scheme.iter().map(|name| Scheme::new(*name, &custom)).collect()
        };
        let reading = args.secret_key.unwrap_or(profile.webhooks.secret_key);
        let signing = Self { secrets: args.secret.clone(), schemes, custom, reading, settings };
        for (secret, scheme) in
            signing.secrets.iter().flat_map(|secret| signing.schemes.iter().map(move |s| (secret, s)))
        {
            SigningKey::read(secret, scheme, reading).map_err(|problem| {
                let failure = Failure::usage(format!("--secret, for scheme {}: {problem}", scheme.name()));
                if secret.is_empty() {
                    failure
                } else {
                    failure.with_hint("`--secret-key utf8` takes the text as it is")
                }
            })?;
        }
        Ok(signing)
    }

    /// Like [`Signing::resolve`], for a command that requires a secret and exactly one scheme.
    pub(super) fn resolve_one(args: &SigningArgs) -> Result<(Self, Scheme), Failure> {
        let signing = Self::resolve(args)?;
        if signing.secrets.is_empty() {
            return Err(Failure::usage("expected a signing secret")
                .with_hint("pass it as --secret SECRET or in WRS_WEBHOOK_SECRET"));
        }
        match signing.schemes.as_slice() {
            [one] => {
                let scheme = one.clone();
                Ok((signing, scheme))
            }
            several => {
                let names: Vec<&str> = several.iter().map(|scheme| scheme.name().name()).collect();
                Err(Failure::usage(format!("expected one scheme, found {}", names.join(", ")))
                    .with_hint(format!("name it: --scheme {}", names[0])))
            }
        }
    }

    /// The keys under `scheme`, newest first.
    pub(super) fn keys(&self, scheme: &Scheme) -> Vec<SigningKey> {
        let keys = self.secrets.iter().map(|secret| SigningKey::read(secret, scheme, self.reading));
        keys.collect::<Result<_, _>>().expect("every secret was read when the flags were resolved")
    }

    /// Warns on stderr about secrets that libraries read in different ways.
    pub(super) fn warn(&self) {
        let pairs = self.secrets.iter().flat_map(|secret| self.schemes.iter().map(move |scheme| (secret, scheme)));
        for warning in pairs.flat_map(|(secret, scheme)| secret_warnings(secret, scheme, self.reading)) {
            warn(&warning);
        }
    }
}

fn parse_scheme(text: &str) -> Result<SchemeName, String> {
    let names = SchemeName::ALL.map(SchemeName::name);
    SchemeName::from_name(text)
        .ok_or_else(|| format!("expected one of {}, found `{}`", names.join(", "), text.escape_debug()))
}

fn parse_reading(text: &str) -> Result<KeyReading, String> {
    let names = KeyReading::ALL.map(KeyReading::name);
    KeyReading::from_name(text)
        .ok_or_else(|| format!("expected one of {}, found `{}`", names.join(", "), text.escape_debug()))
}

/// The bytes of a file, or of stdin for `-`; `what` names them in messages.
pub(super) fn read_file(what: &str, path: &str) -> Result<Vec<u8>, Failure> {
    let unreadable = |cause: String| Failure::io(format!("{what}: cannot read `{}`: {cause}", path.escape_debug()));
    file::read_input(Path::new(path), LARGEST).map_err(|problem| unreadable(problem.to_string()))
}

/// Unix seconds, or `now`.
pub(super) fn unix_seconds(flag: &str, text: &str) -> Result<i64, Failure> {
    if text == "now" {
        return Ok(crate::clock::machine::wall_time().as_second());
    }
    text.parse().ok().filter(|seconds| *seconds >= 0).ok_or_else(|| {
        Failure::usage(format!("{flag}: expected Unix seconds or `now`, found `{}`", text.escape_debug()))
    })
}

/// A URL that may be signed, exactly as it was written.
pub(super) fn check_url(text: &str) -> Result<(), Failure> {
    let shown = text.escape_debug();
    url::Url::parse(text).map_err(|error| Failure::usage(format!("--webhook-url: `{shown}` is not a URL: {error}")))?;
    if text.chars().any(char::is_control) {
        return Err(Failure::usage(format!("--webhook-url: `{shown}` contains control characters")));
    }
    Ok(())
}

/// The URL of the subscription, or an empty one; required if `scheme` signs it.
pub(super) fn signed_url<'a>(url: Option<&'a str>, scheme: &Scheme) -> Result<&'a str, Failure> {
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
