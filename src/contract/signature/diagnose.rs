//! Why a signature does not verify: each common mistake is undone, one at a time, and each change after which the delivery
//! verifies is reported. Never repeats a secret.

use super::key::undecorated;
use super::rewrite::{lost_body, rewrites};
use super::{CustomScheme, Departure, KeyReading, Rejection, Scheme, SchemeName, SigningKey, Verified, verify};

/// Values of one header that are tried.
const MAX_REPEATS: usize = 8;

/// A delivery as it was received, and the settings to verify it with.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    pub scheme: &'a Scheme,
    /// The custom scheme at hand, tried as well as the named ones.
    pub custom: &'a CustomScheme,
    /// The texts of the secrets, newest first.
    pub secrets: &'a [String],
    pub reading: KeyReading,
    /// Looks up the values of all headers of a lower-case name.
    pub headers: &'a dyn Fn(&str) -> Vec<String>,
    pub url: &'a str,
    pub body: &'a [u8],
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
    /// The secrets without this, which came with them from a file or a page.
    Secret(&'static str),
    /// The body before something changed its bytes: the one that would verify.
    Body(&'static str),
    /// A signature that departs from the scheme.
    Signature(Departure),
    /// The signature of another scheme, with the secrets read as given.
    Scheme(SchemeName),
    /// The URL that is signed, with or without its last slash.
    Url,
}

impl Change {
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Reading(_) => "secret_key",
            Self::Secret(_) => "secret",
            Self::Signature(_) => "signature",
            Self::Body(_) => "body",
            Self::Scheme(_) => "scheme",
            Self::Url => "url",
        }
    }

    /// The value to change it to; `None` where the kind is enough.
    pub const fn value(self) -> Option<&'static str> {
        match self {
            Self::Time | Self::Url => None,
            Self::Reading(reading) => Some(reading.name()),
            Self::Secret(what) | Self::Body(what) => Some(what),
            Self::Signature(departure) => Some(departure.name()),
            Self::Scheme(name) => Some(name.name()),
        }
    }
}

/// The changes that make the delivery verify, with the time if that is off as well. `Display` writes one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    pub changes: Vec<Change>,
}

impl std::fmt::Display for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut before = None;
        for change in &self.changes {
            f.write_str(match (before.replace(change), change) {
                (None, _) => "",
                (Some(Change::Secret(_)), Change::Secret(what)) => {
                    write!(f, " and {what}")?;
                    continue;
                }
                (Some(Change::Signature(_)), Change::Signature(departure)) => {
                    write!(f, " and {departure}")?;
                    continue;
                }
                _ => ", and ",
            })?;
            match change {
                Change::Time => f.write_str(
                    "the signature holds, only the time is off: a replay, an old capture, or a clock that is wrong",
                )?,
                Change::Reading(reading) => write!(f, "the secret read as `{reading}` (`webhooks.secret_key`)")?,
                Change::Secret(what) => write!(f, "the secret without {what}")?,
                Change::Signature(departure) => write!(f, "a signature {departure}")?,
                Change::Body(what) => write!(f, "the body {what}: verify the bytes as they came")?,
                Change::Scheme(name) => write!(f, "the signature that scheme `{name}` makes")?,
                Change::Url => f.write_str("the URL with its last slash added or left out")?,
            }
        }
        Ok(())
    }
}

impl Evidence<'_> {
    /// Verifies the delivery as it is, with each value of a header that is repeated. A secret that cannot be read counts as no key.
    pub fn verify(&self) -> Result<Verified, Rejection> {
        let keys = self.keys();
        let names = [self.scheme, &Scheme::STANDARD].into_iter().flat_map(Scheme::header_names);
        let repeats = names.map(|name| (self.headers)(name).len()).max().unwrap_or_default();
        let with_values = |at: usize| {
            let header = |name: &str| {
                let mut values = (self.headers)(name);
                let last = values.len().checked_sub(1)?;
                Some(values.swap_remove(at.min(last)))
            };
            verify(self.scheme, &keys, &header, self.url, self.body, self.now, self.tolerance)
        };
        let mut result = with_values(0);
        for at in 1..repeats.min(MAX_REPEATS) {
            result = match (result, with_values(at)) {
                (Ok(verified), _) | (_, Ok(verified)) => return Ok(verified),
                (Err(Rejection::Mismatch { expected, got }), Err(Rejection::Mismatch { got: more, .. })) => {
                    Err(Rejection::Mismatch { expected, got: [got, more].concat() })
                }
                (first, _) => first,
            };
        }
        result
    }

    /// The mistakes each of which explains why the delivery was rejected, the likeliest first; empty if none does. A timestamp
    /// that is off as well is part of the remedy.
    pub fn remedies(&self) -> Vec<Remedy> {
        if self.verify().is_ok() {
            return Vec::new();
        }
        if let Some(remedy) = self.remedy(&[Change::Time]) {
            return vec![remedy];
        }
        let mut found = Vec::new();
        let (mut plain, mut decorations) = (Vec::new(), Vec::new());
        for secret in self.secrets {
            let (secret, found) = undecorated(secret);
            plain.push(secret.to_owned());
            for change in found.into_iter().map(|decoration| Change::Secret(decoration.what)) {
                if !decorations.contains(&change) {
                    decorations.push(change);
                }
            }
        }
        // Changes that give other keys than those before: the changes, the secrets, and how the scheme and the settings read them.
        let mut readings = vec![(Vec::new(), self.secrets, self.scheme.key, self.reading)];
        let mut known = vec![self.key_bytes()];
        for (secrets, changes) in [(self.secrets, &[][..]), (&plain, &decorations)] {
            let as_given = (secrets, self.scheme.key, self.reading, None);
            // The reading of a custom scheme is part of the scheme.
            let others = KeyReading::ALL.map(|reading| (secrets, reading, reading, Some(Change::Reading(reading))));
            for (secrets, key, reading, change) in [as_given].into_iter().chain(others) {
                let scheme = Scheme { key, ..self.scheme.clone() };
                let other = Evidence { scheme: &scheme, secrets, reading, ..*self };
                let keys = other.key_bytes();
                if !known.contains(&keys) {
                    known.push(keys);
                    let changes = [changes, change.as_slice()].concat();
                    found.extend(other.remedy(&changes));
                    readings.push((changes, secrets, key, reading));
                }
            }
        }
        'departures: for (departures, mut departing) in self.scheme.departures() {
            if departures.contains(&Departure::BodyAlone) {
                // Services that sign only the body often send nothing else.
                departing = Scheme { id_required: false, timestamp_header: None, ..departing };
            }
            for (changes, secrets, key, reading) in &readings {
                let scheme = Scheme { key: *key, ..departing.clone() };
                let departures = departures.iter().copied().map(Change::Signature);
                let changes: Vec<Change> = changes.iter().copied().chain(departures).collect();
                let departing = Evidence { scheme: &scheme, secrets, reading: *reading, ..*self };
                if let Some(remedy) = departing.remedy(&changes) {
                    // A signature is written in one way; those with more departures may be the same text.
                    found.push(remedy);
                    break 'departures;
                }
            }
        }
        // The signature is that of one body.
        let with_body = |(what, body): (_, Vec<u8>)| Evidence { body: &body, ..*self }.remedy(&[Change::Body(what)]);
        found.extend(rewrites(self.body).find_map(with_body));
        let url = self.url.strip_suffix('/').map_or_else(|| format!("{}/", self.url), str::to_owned);
        found.extend(Evidence { url: &url, ..*self }.remedy(&[Change::Url]));
        for name in SchemeName::ALL {
            let scheme = &Scheme::new(name, self.custom);
            if scheme != self.scheme {
                found.extend(Evidence { scheme, ..*self }.remedy(&[Change::Scheme(name)]));
            }
        }
        found
    }

    /// Why no change makes the delivery verify, where the body or a secret shows that.
    pub fn hint(&self) -> Option<&'static str> {
        lost_body(self.body)
    }

    /// These changes, if the signature of the changed delivery matches, whatever the time.
    fn remedy(&self, changes: &[Change]) -> Option<Remedy> {
        Evidence { tolerance: i64::MAX, ..*self }.verify().ok()?;
        let late = (changes != [Change::Time] && self.verify().is_err()).then_some(Change::Time);
        Some(Remedy { changes: changes.iter().copied().chain(late).collect() })
    }

    fn keys(&self) -> Vec<SigningKey> {
        self.secrets.iter().filter_map(|secret| SigningKey::read(secret, self.scheme, self.reading).ok()).collect()
    }

    fn key_bytes(&self) -> Vec<Vec<u8>> {
        self.keys().iter().map(|key| key.as_bytes().to_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::signature::{Encoding, Message, Wrapping, sign};

    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const NOW: i64 = 1_700_000_000;

    /// The remedies for a delivery signed with one secret and verified with another, of a body that was changed.
    fn remedies(scheme: SchemeName, signed_with: &str, verified_with: &str, sent: &str, taken: &str) -> Vec<String> {
        let custom = CustomScheme::default();
        let scheme = Scheme::new(scheme, &custom);
        let key = SigningKey::read(signed_with, &scheme, KeyReading::Auto).expect("a key");
        let message = Message { id: "evt_1", timestamp: NOW, url: "", body: sent.as_bytes() };
        let signed = sign(&scheme, &[key], &message).headers;
        let headers = |sought: &str| {
            let found = signed.iter().filter(|(name, _)| name == sought);
            found.map(|(_, value)| value.clone()).collect()
        };
        let evidence = Evidence {
            scheme: &scheme,
            custom: &custom,
            secrets: &[verified_with.to_owned()],
            reading: KeyReading::Auto,
            headers: &headers,
            url: "",
            body: taken.as_bytes(),
            now: NOW,
            tolerance: 300,
        };
        evidence.remedies().iter().map(Remedy::to_string).collect()
    }

    #[test]
    fn a_decorated_secret_is_named_by_its_decoration() {
        for (decorated, without) in [
            (format!("\"{SECRET}\""), "the secret without the quotes around it"),
            (format!("'{SECRET}'"), "the secret without the quotes around it"),
            (format!("{SECRET}\n"), "the secret without the white space around it"),
            (format!("{SECRET}\\n"), "the secret without the `\\n` at its end"),
            (format!("v1,{SECRET}"), "the secret without the `v1,` in front of it"),
            (format!("\u{feff}{SECRET}"), "the secret without the invisible characters around it"),
            (format!("WEBHOOK_SECRET={SECRET}"), "the secret without the name in front of it"),
            (format!("secret: {SECRET}"), "the secret without the name in front of it"),
            (format!("{SECRET},"), "the secret without the punctuation at its end"),
            (
                format!("export WEBHOOK_SECRET=\"{SECRET}\"\n"),
                "the secret without the white space around it and the name in front of it and the quotes around it",
            ),
        ] {
            for scheme in SchemeName::ALL {
                assert_eq!(remedies(scheme, SECRET, &decorated, "{}", "{}"), [without], "{scheme} {decorated:?}");
            }
        }
        assert_eq!(
            remedies(SchemeName::Standard, SECRET, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "{}", "{}").len(),
            0
        );
        // Another reading of the plain secret.
        let found = remedies(SchemeName::Github, "AAECAwQFBgcICQoLDA0ODw==", "'AAECAwQFBgcICQoLDA0ODw=='", "{}", "{}");
        assert_eq!(found, ["the secret without the quotes around it"]);
    }

    #[test]
    fn a_secret_in_hex_is_named() {
        let hex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
        for given in [hex.to_owned(), format!("whsec_{hex}"), hex.to_uppercase()] {
            let found = remedies(SchemeName::Standard, SECRET, &given, "{}", "{}");
            assert_eq!(found, ["the secret read as `hex` (`webhooks.secret_key`)"], "{given}");
        }
    }

    #[test]
    fn a_signature_that_departs_from_its_scheme_is_named() {
        let scheme = |change: fn(&mut Scheme)| {
            let mut scheme = Scheme::STANDARD;
            change(&mut scheme);
            scheme
        };
        let custom = CustomScheme::default();
        for (departing, with, expected) in [
            (scheme(|it| it.encoding = Encoding::Hex), KeyReading::Auto, "a signature in hex"),
            (scheme(|it| it.encoding = Encoding::HexCapitals), KeyReading::Auto, "a signature in hex in capitals"),
            (
                scheme(|it| it.encoding = Encoding::Base64OfHex),
                KeyReading::Auto,
                "a signature in hex, and that again in base64",
            ),
            (
                scheme(|it| it.encoding = Encoding::Base64Unpadded),
                KeyReading::Auto,
                "a signature in base64 without padding",
            ),
            (
                scheme(|it| it.prefix = "v1=".into()),
                KeyReading::Auto,
                "a signature with `=` between its prefix and its value",
            ),
            (scheme(|it| it.prefix = "v1, ".into()), KeyReading::Auto, "a signature with a space after its prefix"),
            (scheme(|it| it.wrapping = Wrapping::Quotes), KeyReading::Auto, "a signature in quotes"),
            (scheme(|it| it.wrapping = Wrapping::Percent), KeyReading::Auto, "a signature percent-encoded"),
            (
                scheme(|it| (it.encoding, it.wrapping) = (Encoding::HexCapitals, Wrapping::Quotes)),
                KeyReading::Utf8,
                "the secret read as `utf8` (`webhooks.secret_key`), and a signature in hex in capitals and in quotes",
            ),
            (scheme(|it| it.content = "{body}".into()), KeyReading::Auto, "a signature over the body alone"),
            (
                scheme(|it| {
                    it.content = "{body}".into();
                    it.encoding = Encoding::Hex;
                    it.prefix = "".into();
                    (it.id_header, it.timestamp_header) = (None, None);
                }),
                KeyReading::Utf8WithPrefix,
                "the secret read as `utf8_with_prefix` (`webhooks.secret_key`), and a signature over the body alone and in hex and \
                 without the prefix in front of it",
            ),
        ] {
            let key = SigningKey::read(SECRET, &departing, with).expect("a key");
            let message = Message { id: "evt_1", timestamp: NOW, url: "", body: b"{}" };
            let signed = sign(&departing, &[key], &message).headers;
            let headers = |sought: &str| {
                signed.iter().filter(|(name, _)| name == sought).map(|(_, value)| value.clone()).collect()
            };
            let evidence = Evidence {
                scheme: &Scheme::STANDARD,
                custom: &custom,
                secrets: &[SECRET.to_owned()],
                reading: KeyReading::Auto,
                headers: &headers,
                url: "",
                body: b"{}",
                now: NOW,
                tolerance: 300,
            };
            let found: Vec<String> = evidence.remedies().iter().map(Remedy::to_string).collect();
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn time_url_and_scheme_are_named() {
        let by_url = CustomScheme { content: "{url}{body}".to_owned(), ..CustomScheme::default() };
        let custom = &Scheme::new(SchemeName::Custom, &by_url);
        let (without, with) = ("https://a.example/x", "https://a.example/x/");
        let late = "the signature holds, only the time is off: a replay, an old capture, or a clock that is wrong";
        let body_and_late = format!("the body without its last newline: verify the bytes as they came, and {late}");
        let url = "the URL with its last slash added or left out";
        for (signing, verifying, [sent_to, received_at], taken, age, expected) in [
            (&Scheme::STANDARD, &Scheme::STANDARD, [with, with], "{}", 301, late),
            (&Scheme::STANDARD, &Scheme::STANDARD, [with, with], "{}\n", 301, &body_and_late),
            (&Scheme::GITHUB, &Scheme::STANDARD, [with, with], "{}", 0, "the signature that scheme `github` makes"),
            (custom, custom, [with, without], "{}", 0, url),
            (custom, custom, [without, with], "{}", 0, url),
        ] {
            let key = SigningKey::read(SECRET, signing, KeyReading::Auto).expect("a key");
            let signed =
                sign(signing, &[key], &Message { id: "evt_1", timestamp: NOW, url: sent_to, body: b"{}" }).headers;
            let headers = |sought: &str| {
                signed.iter().filter(|(name, _)| name == sought).map(|(_, value)| value.clone()).collect()
            };
            let evidence = Evidence {
                scheme: verifying,
                custom: &by_url,
                secrets: &[SECRET.to_owned()],
                reading: KeyReading::Auto,
                headers: &headers,
                url: received_at,
                body: taken.as_bytes(),
                now: NOW + age,
                tolerance: 300,
            };
            assert_eq!(evidence.remedies().iter().map(Remedy::to_string).collect::<Vec<_>>(), [expected]);
            assert!(evidence.hint().is_some_and(|hint| hint.starts_with("the body is empty")), "{taken:?}");
        }
    }

    #[test]
    fn a_rewritten_body_is_named() {
        let found = remedies(SchemeName::Standard, SECRET, SECRET, r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("the body with sorted keys"), "{found:?}");
    }
}
