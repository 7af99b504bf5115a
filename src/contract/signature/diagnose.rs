//! Why a signature does not verify, in terms of what to change: each thing that commonly goes wrong is undone, one at
//! a time, and each change after which the delivery verifies is reported.
//!
//! Pure like the rest of the layer: the clock is an argument, and nothing is tried that would need more secrets than
//! those at hand. Must not know how findings are shown; never repeats a secret.

use std::collections::BTreeSet;

use super::rewrite::rewrites;
use super::{CustomScheme, KeyReading, Rejection, Scheme, SchemeName, SigningKey, Verified, verify};

/// A body above this size is tried in fewer ways, so that looking for a cause stays cheap.
const SMALL: usize = 64 * 1024;

/// A delivery as it was received, and what it is to be verified with.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The scheme it should be signed by.
    pub scheme: &'a Scheme,
    /// The custom scheme at hand, tried as well as the named ones.
    pub custom: &'a CustomScheme,
    /// The texts of the secrets, newest first.
    pub secrets: &'a [String],
    /// How they should be read.
    pub reading: KeyReading,
    /// Looks a header up by its lower-case name.
    pub header: &'a dyn Fn(&str) -> Option<String>,
    /// The URL the delivery was addressed to.
    pub url: &'a str,
    /// The bytes received.
    pub body: &'a [u8],
    /// Unix seconds.
    pub now: i64,
    /// Seconds a timestamp may be off.
    pub tolerance: i64,
}

/// One change that would make the delivery verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Another time of verification: the signature matches, the timestamp is too far off.
    Time,
    /// The secrets read in another way.
    Reading(KeyReading),
    /// The secrets without the white space around them.
    TrimmedSecret,
    /// The body as it was before something changed its bytes: what it would have to be.
    Body(&'static str),
    /// The signature of another scheme, with the secrets read as given.
    Scheme(SchemeName),
    /// The URL that is signed, with or without its last slash.
    Url,
}

impl Change {
    /// What is to change, in one word.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Reading(_) => "secret_key",
            Self::TrimmedSecret => "secret",
            Self::Body(_) => "body",
            Self::Scheme(_) => "scheme",
            Self::Url => "url",
        }
    }

    /// What to change it to; `None` where the kind is enough.
    pub const fn value(self) -> Option<&'static str> {
        match self {
            Self::Time | Self::TrimmedSecret | Self::Url => None,
            Self::Reading(reading) => Some(reading.name()),
            Self::Body(what) => Some(what),
            Self::Scheme(name) => Some(name.name()),
        }
    }
}

/// Changes that together make the delivery verify. `Display` writes one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// At least one change.
    pub changes: Vec<Change>,
}

impl std::fmt::Display for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, change) in self.changes.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", and " })?;
            match change {
                Change::Time => f.write_str(
                    "the signature holds, only the time is off: a replay, an old capture, or a clock that is wrong",
                )?,
                Change::Reading(reading) => write!(f, "the secret read as `{reading}` (`webhooks.secret_key`)")?,
                Change::TrimmedSecret => f.write_str("the secret without the white space around it")?,
                Change::Body(what) => write!(f, "the body {what}: verify the bytes as they came")?,
                Change::Scheme(name) => write!(f, "the signature that scheme `{name}` makes")?,
                Change::Url => f.write_str("the URL with its last slash added or left out")?,
            }
        }
        Ok(())
    }
}

impl Evidence<'_> {
    /// Verifies the delivery as it is. A secret that cannot be read counts as no key.
    pub fn verify(&self) -> Result<Verified, Rejection> {
        let keys = self.keys(self.scheme, self.reading, false);
        verify(self.scheme, &keys, self.header, self.url, self.body, self.now, self.tolerance)
    }

    /// What would make a rejected delivery verify, the likeliest first; empty if nothing tried does.
    ///
    /// Single changes first; only if none helps, two at a time. Where the timestamp is off as well, the remedy includes it.
    pub fn remedies(&self) -> Vec<Remedy> {
        if self.verify().is_ok() {
            return Vec::new();
        }
        let keys = self.keys(self.scheme, self.reading, false);
        if self.holds(self.scheme, &keys, self.url, self.body) {
            return vec![Remedy { changes: vec![Change::Time] }];
        }
        let mut found = self.single_changes(&keys);
        if found.is_empty() && self.body.len() <= SMALL {
            found = self.pairs();
        }
        for remedy in &mut found {
            self.add_time(remedy);
        }
        found
    }

    fn single_changes(&self, keys: &[SigningKey]) -> Vec<Remedy> {
        let one = |change| Remedy { changes: vec![change] };
        let mut found = Vec::new();
        for (change, scheme, keys) in self.readings() {
            if self.holds(&scheme, &keys, self.url, self.body) {
                found.push(one(change));
            }
        }
        for (what, body) in rewrites(self.body) {
            if self.holds(self.scheme, keys, self.url, &body) {
                found.push(one(Change::Body(what)));
            }
        }
        let toggled = self.url.strip_suffix('/').map_or_else(|| format!("{}/", self.url), str::to_owned);
        if self.holds(self.scheme, keys, &toggled, self.body) {
            found.push(one(Change::Url));
        }
        for name in SchemeName::ALL {
            let other = Scheme::new(name, self.custom);
            let keys = self.keys(&other, self.reading, false);
            if other != *self.scheme && self.holds(&other, &keys, self.url, self.body) {
                found.push(one(Change::Scheme(name)));
            }
        }
        found
    }

    /// Another reading together with another body or another scheme.
    fn pairs(&self) -> Vec<Remedy> {
        let bodies = rewrites(self.body);
        let mut found = Vec::new();
        for (change, scheme, keys) in self.readings() {
            for (what, body) in &bodies {
                if self.holds(&scheme, &keys, self.url, body) {
                    found.push(Remedy { changes: vec![change, Change::Body(what)] });
                }
            }
        }
        for name in SchemeName::ALL {
            let other = Scheme::new(name, self.custom);
            if other == *self.scheme {
                continue;
            }
            let of_other = Evidence { scheme: &other, ..*self };
            for (change, scheme, keys) in of_other.readings() {
                if self.holds(&scheme, &keys, self.url, self.body) {
                    found.push(Remedy { changes: vec![Change::Scheme(name), change] });
                }
            }
            let keys = self.keys(&other, self.reading, false);
            for (what, body) in &bodies {
                if self.holds(&other, &keys, self.url, body) {
                    found.push(Remedy { changes: vec![Change::Scheme(name), Change::Body(what)] });
                }
            }
        }
        found
    }

    /// Every other way to read the secrets that gives other keys.
    fn readings(&self) -> Vec<(Change, Scheme, Vec<SigningKey>)> {
        let bytes = |keys: &[SigningKey]| keys.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>();
        let mut seen = BTreeSet::from([bytes(&self.keys(self.scheme, self.reading, false))]);
        let mut readings = Vec::new();
        let ways = [
            (Change::TrimmedSecret, self.reading, true),
            (Change::Reading(KeyReading::Auto), KeyReading::Auto, false),
            (Change::Reading(KeyReading::Base64), KeyReading::Base64, false),
            (Change::Reading(KeyReading::Utf8), KeyReading::Utf8, false),
            (Change::Reading(KeyReading::Utf8WithPrefix), KeyReading::Utf8WithPrefix, false),
        ];
        for (change, reading, trimmed) in ways {
            let mut scheme = self.scheme.clone();
            if scheme.name() == SchemeName::Custom && matches!(change, Change::Reading(_)) {
                scheme.key = reading;
            }
            let keys = self.keys(&scheme, reading, trimmed);
            if !keys.is_empty() && seen.insert(bytes(&keys)) {
                readings.push((change, scheme, keys));
            }
        }
        readings
    }

    fn keys(&self, scheme: &Scheme, reading: KeyReading, trimmed: bool) -> Vec<SigningKey> {
        let secrets = self.secrets.iter().map(|secret| if trimmed { secret.trim() } else { secret });
        secrets.filter_map(|secret| SigningKey::read(secret, scheme, reading).ok()).collect()
    }

    /// Whether the signature matches, whatever the time.
    fn holds(&self, scheme: &Scheme, keys: &[SigningKey], url: &str, body: &[u8]) -> bool {
        verify(scheme, keys, self.header, url, body, self.now, i64::MAX).is_ok()
    }

    /// Adds the time to a remedy that needs it, too.
    fn add_time(&self, remedy: &mut Remedy) {
        let other = remedy.changes.iter().find_map(|change| match change {
            Change::Scheme(name) => Some(Scheme::new(*name, self.custom)),
            _ => None,
        });
        // The time is checked by itself: without a key, the verification still reports a timestamp that is off.
        let evidence = Evidence { scheme: other.as_ref().unwrap_or(self.scheme), ..*self };
        if evidence.is_out_of_time() {
            remedy.changes.push(Change::Time);
        }
    }

    fn is_out_of_time(&self) -> bool {
        let rejected = verify(self.scheme, &[], self.header, self.url, self.body, self.now, self.tolerance);
        match (rejected, self.scheme.name()) {
            (Err(Rejection::Stale { .. } | Rejection::Future { .. }), _) => true,
            // Stripe's signature is checked first; its time is in the signature header.
            (_, SchemeName::Stripe) => {
                let header = (self.header)("stripe-signature").unwrap_or_default();
                let time = header.split(',').find_map(|part| part.strip_prefix("t=")?.parse::<i64>().ok());
                time.is_some_and(|time| self.tolerance > 0 && self.now.saturating_sub(time) > self.tolerance)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
#[path = "diagnose_tests.rs"]
mod tests;
