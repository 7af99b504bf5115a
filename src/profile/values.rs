//! The closed sets a knob may take: one enum per knob, spelled as in TOML.

use hyper::header::HeaderName;
use serde::{Deserialize, Serialize};

use crate::contract::signature::SchemeName;

/// Declares an enum whose variants are spelled in snake case in TOML, with a list of the spellings.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }
    };
}

choices! {
    /// The environment a key belongs to (contract: Authentication 2 and 3).
    Environment {
        /// Test keys are valid.
        Sandbox,
        /// Live keys are valid.
        Production,
    }
}
choices! {
    /// How a key is judged.
    KeyMode {
        /// By the environment's prefix and the characters after it.
        Prefix,
        /// By membership in `keys.list` or `keys.workspaces`.
        List,
        /// Any non-empty token is valid.
        Any,
    }
}
choices! {
    /// Where validation reasons stand beside `message`.
    ErrorDetails {
        /// Nowhere else.
        Off,
        /// `details: [{field, reason}]`.
        List,
        /// `details: {field: [reason]}`.
        Map,
    }
}
choices! {
    /// What happens to unknown body fields and query parameters.
    Unknown {
        /// They are passed over.
        Ignore,
        /// They are a 422.
        Reject,
    }
}
choices! {
    /// Whether a POST's `Content-Type` matters.
    ContentTypeRule {
        /// It must be `application/json`.
        Require,
        /// It is not looked at.
        Ignore,
    }
}
choices! {
    /// How the quota's window moves.
    RateAlgorithm {
        /// Opened by the first request, closed after the window.
        Fixed,
        /// The last `window` at any moment.
        Sliding,
        /// Tokens refilled evenly.
        TokenBucket,
    }
}
choices! {
    /// Which requests cost quota.
    CountRule {
        /// All but the 429s.
        Allowed,
        /// All, the 429s too.
        All,
        /// Those that are answered with 200.
        Successful,
    }
}
choices! {
    /// Form of `Retry-After` on a 429.
    RetryAfterForm {
        /// Not sent.
        Off,
        /// Whole seconds, rounded up.
        Seconds,
        /// An HTTP date.
        Date,
    }
}
choices! {
    /// Form of `X-RateLimit-Reset`.
    ResetForm {
        /// Not sent.
        Off,
        /// Seconds from now, rounded up.
        Delta,
        /// Unix seconds.
        Epoch,
    }
}
choices! {
    /// What follows the prefix of an id.
    IdStyle {
        /// 26 characters, lower case.
        Ulid,
        /// A version 4 UUID.
        Uuid,
        /// 1, 2, 3 … per workspace, padded to eight digits.
        Counter,
        /// 64 of the letters, digits, `_` and `-`.
        Longest,
    }
}
choices! {
    /// Fraction of a second in timestamps.
    Precision {
        /// None.
        Seconds,
        /// Three digits.
        Milliseconds,
        /// Six digits.
        Microseconds,
        /// Nine digits.
        Nanoseconds,
        /// One of the above by turns.
        Mixed,
    }
}

impl Precision {
    /// The precision of timestamps of what has this id: under `Mixed` one of the others, which follows from the id. So one
    /// resource shows an instant in one way whenever it is read, and no chance is drawn for it.
    #[must_use]
    pub fn of(self, id: &str) -> Self {
        const TURNS: [Precision; 4] =
            [Precision::Seconds, Precision::Milliseconds, Precision::Microseconds, Precision::Nanoseconds];
        match self {
            Self::Mixed => TURNS[id.bytes().map(usize::from).sum::<usize>() % TURNS.len()],
            fixed => fixed,
        }
    }
}

choices! {
    /// The order of the keys of JSON objects.
    KeyOrder {
        /// As the contract's tables have them.
        Fixed,
        /// Another one each time.
        Shuffled,
    }
}
choices! {
    /// What subscribing twice to one URL does.
    Upsert {
        /// Updates the first subscription.
        Url,
        /// Makes another.
        Never,
    }
}
choices! {
    /// Whose time a signature carries.
    SignatureTime {
        /// The workspace's clock while it is frozen, the machine's otherwise.
        Auto,
        /// The machine's.
        Real,
        /// The workspace's clock.
        Clock,
    }
}
choices! {
    /// Whether retries hold later events back.
    DeliveryOrder {
        /// Only first attempts keep the order of events.
        FirstAttempts,
        /// An event waits until the one before it is delivered or given up.
        Strict,
    }
}
choices! {
    /// Named retry schedules: delays after each failed attempt.
    RetryPreset {
        /// One attempt only.
        None,
        /// 100 ms, 200 ms, 400 ms: short enough for a build.
        Ci,
        /// 1, 4 and 25 s.
        Standard,
        /// 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h.
        Svix,
        /// Three retries over some hours.
        StripeSandbox,
        /// Eight retries over four hours.
        Shopify,
        /// At once, after 1 min, after 5 min.
        Slack,
        /// `webhooks.retry.schedule`.
        Custom,
    }
}

choices! {
    /// The form of the token endpoint's errors.
    OauthErrorShape {
        /// `{error, error_description}`.
        Rfc6749,
        /// The envelope of every other error.
        Envelope,
    }
}

/// 400 or 422.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct MalformedStatus(u16);

impl TryFrom<u16> for MalformedStatus {
    type Error = String;

    fn try_from(status: u16) -> Result<Self, String> {
        if matches!(status, 400 | 422) { Ok(Self(status)) } else { Err(format!("expected 400 or 422, found {status}")) }
    }
}

impl From<MalformedStatus> for u16 {
    fn from(status: MalformedStatus) -> u16 {
        status.0
    }
}

/// A fraction from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Fraction(f64);

impl TryFrom<f64> for Fraction {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(format!("expected a fraction from 0 to 1, found {value}"))
        }
    }
}

impl From<Fraction> for f64 {
    fn from(fraction: Fraction) -> f64 {
        fraction.0
    }
}

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");

/// A text that is a valid HTTP field name; compared without regard to case, shown as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HeaderNameText {
    text: String,
    name: HeaderName,
}

impl HeaderNameText {
    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name as hyper takes it.
    pub fn name(&self) -> &HeaderName {
        &self.name
    }
}

impl TryFrom<String> for HeaderNameText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match HeaderName::from_bytes(text.as_bytes()) {
            // Names known to the program are copied without touching a counter that all processors share.
            Ok(_) if text.eq_ignore_ascii_case(LIMIT.as_str()) => Ok(Self { text, name: LIMIT }),
            Ok(_) if text.eq_ignore_ascii_case(REMAINING.as_str()) => Ok(Self { text, name: REMAINING }),
            Ok(name) => Ok(Self { text, name }),
            Err(_) => Err(format!("expected an HTTP field name, found \"{}\"", text.escape_debug())),
        }
    }
}

impl From<HeaderNameText> for String {
    fn from(name: HeaderNameText) -> String {
        name.text
    }
}

/// The name of a header that is sent only if it has a name; empty stands for none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OptionalHeaderName(Option<HeaderNameText>);

impl OptionalHeaderName {
    /// The name, if the header is sent.
    pub fn get(&self) -> Option<&HeaderNameText> {
        self.0.as_ref()
    }
}

impl TryFrom<String> for OptionalHeaderName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() { Ok(Self(None)) } else { HeaderNameText::try_from(text).map(|name| Self(Some(name))) }
    }
}

impl From<OptionalHeaderName> for String {
    fn from(name: OptionalHeaderName) -> String {
        name.0.map_or_else(String::new, String::from)
    }
}

/// One scheme, or a list of at least one without repetition; a single name is written without brackets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "OneOrMany", into = "OneOrMany")]
pub struct SchemeNames(Vec<SchemeName>);

impl SchemeNames {
    /// The schemes in sending order.
    pub fn names(&self) -> &[SchemeName] {
        &self.0
    }
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a signature scheme or a list of them: standard, svix, stripe, github, slack, shopify, custom"
)]
enum OneOrMany {
    One(SchemeName),
    Many(Vec<SchemeName>),
}

impl TryFrom<OneOrMany> for SchemeNames {
    type Error = String;

    fn try_from(names: OneOrMany) -> Result<Self, String> {
        let names = match names {
            OneOrMany::One(name) => vec![name],
            OneOrMany::Many(names) => names,
        };
        if names.is_empty() {
            return Err("expected at least one signature scheme".to_owned());
        }
        if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
            return Err("a signature scheme is listed twice".to_owned());
        }
        Ok(Self(names))
    }
}

impl From<SchemeNames> for OneOrMany {
    fn from(names: SchemeNames) -> Self {
        match names.0.as_slice() {
            [one] => Self::One(*one),
            _ => Self::Many(names.0),
        }
    }
}
