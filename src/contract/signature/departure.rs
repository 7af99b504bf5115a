//! How signatures that are computed by hand, or changed on their way, differ from their scheme, for diagnoses.

use std::borrow::Cow;
use std::fmt;

use super::scheme::{Encoding, HeaderForm, Scheme, Wrapping};

/// A common difference from a scheme. `Display` completes "a signature …".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    BodyAlone,
    /// In this encoding instead of the scheme's.
    Encoded(Encoding),
    NoPrefix,
    /// With this character at the end of the prefix instead of the scheme's.
    Separated(char),
    Spaced,
    Wrapped(Wrapping),
}

/// Characters that end prefixes: `v1,` and `sha256=`.
const SEPARATORS: [char; 3] = [',', '=', ':'];

impl Departure {
    pub const fn name(self) -> &'static str {
        match self {
            Self::BodyAlone => "body_alone",
            Self::Encoded(encoding) => encoding.name(),
            Self::NoPrefix => "no_prefix",
            Self::Separated(_) => "separator",
            Self::Spaced => "space",
            Self::Wrapped(wrapping) => wrapping.name(),
        }
    }

    /// The aspect of a signature that it concerns; a signature departs in at most one way from each.
    const fn subject(self) -> u8 {
        match self {
            Self::BodyAlone => 0,
            Self::Encoded(_) => 1,
            Self::NoPrefix | Self::Separated(_) | Self::Spaced => 2,
            Self::Wrapped(_) => 3,
        }
    }

    /// True for what people write by hand; the others come about on the way, or in one language.
    pub(crate) const fn is_by_hand(self) -> bool {
        matches!(self, Self::BodyAlone | Self::NoPrefix | Self::Encoded(Encoding::Hex | Encoding::Base64))
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BodyAlone => f.write_str("over the body alone"),
            Self::Encoded(encoding) => write!(f, "in {}", encoding.words()),
            Self::NoPrefix => f.write_str("without the prefix in front of it"),
            Self::Separated(separator) => write!(f, "with `{separator}` between its prefix and its value"),
            Self::Spaced => f.write_str("with a space after its prefix"),
            Self::Wrapped(Wrapping::None) => Ok(()),
            Self::Wrapped(Wrapping::Quotes) => f.write_str("in quotes"),
            Self::Wrapped(Wrapping::Percent) => f.write_str("percent-encoded"),
        }
    }
}

impl Scheme {
    /// The scheme with one departure, then with two, then with all that are common by hand; never the scheme itself.
    pub(crate) fn departures(&self) -> Vec<(Vec<Departure>, Self)> {
        let single = self.single_departures();
        let mut sets: Vec<Vec<Departure>> = single.iter().map(|departure| vec![*departure]).collect();
        for (at, first) in single.iter().enumerate() {
            let second = single[at + 1..].iter().filter(|second| second.subject() != first.subject());
            sets.extend(second.map(|second| vec![*first, *second]));
        }
        let by_hand: Vec<Departure> = single.into_iter().filter(|departure| departure.is_by_hand()).collect();
        if by_hand.len() > 2 {
            sets.push(by_hand);
        }
        sets.into_iter().map(|set| (set.clone(), set.into_iter().fold(self.clone(), Self::with))).collect()
    }

    fn single_departures(&self) -> Vec<Departure> {
        let mut single = Vec::new();
        single.extend((self.content != "{body}").then_some(Departure::BodyAlone));
        let encodings = Encoding::ALL.into_iter().filter(|encoding| *encoding != self.encoding);
        // Spellings by hand are likelier than the rest.
        let (by_hand, others): (Vec<_>, Vec<_>) = encodings.map(Departure::Encoded).partition(|it| it.is_by_hand());
        single.extend(by_hand);
        // Stripe's header consists of named parts.
        let has_prefix = !self.prefix.is_empty() && self.form != HeaderForm::Parts;
        // Before the one without a prefix, which finds the value where tokens are separated by spaces.
        single.extend(has_prefix.then_some(Departure::Spaced));
        single.extend(has_prefix.then_some(Departure::NoPrefix));
        single.extend(others);
        if has_prefix {
            let is_other = |separator: &char| self.prefix.ends_with(SEPARATORS) && !self.prefix.ends_with(*separator);
            single.extend(SEPARATORS.into_iter().filter(is_other).map(Departure::Separated));
        }
        single.extend([Wrapping::Quotes, Wrapping::Percent].map(Departure::Wrapped));
        single
    }

    fn with(self, departure: Departure) -> Self {
        match departure {
            Departure::BodyAlone => Self { content: Cow::Borrowed("{body}"), ..self },
            Departure::Encoded(encoding) => Self { encoding, ..self },
            Departure::NoPrefix => Self { prefix: Cow::Borrowed(""), ..self },
            Departure::Separated(separator) => {
                let word = self.prefix.trim_end_matches(SEPARATORS);
                Self { prefix: Cow::Owned(format!("{word}{separator}")), ..self }
            }
            // Nothing else may be separated by spaces then.
            Departure::Spaced => {
                Self { prefix: Cow::Owned(format!("{} ", self.prefix)), form: HeaderForm::One, ..self }
            }
            Departure::Wrapped(wrapping) => Self { wrapping, ..self },
        }
    }

    /// How a signature is written: `in base64 after "v1,"`.
    pub(crate) fn written(&self) -> String {
        let after = if self.prefix.is_empty() { String::new() } else { format!(" after `{}`", self.prefix) };
        format!("{}{after}", Departure::Encoded(self.encoding))
    }
}
