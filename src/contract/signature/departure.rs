//! How signatures that are computed by hand differ from their scheme, for diagnoses.

use std::borrow::Cow;
use std::fmt;

use super::scheme::{Encoding, HeaderForm, Scheme};

/// A difference from a scheme that is common where signatures are computed by hand. `Display` completes "the signature …".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    BodyAlone,
    /// In this encoding instead of the scheme's.
    Encoded(Encoding),
    NoPrefix,
}

impl Departure {
    pub const fn name(self) -> &'static str {
        match self {
            Self::BodyAlone => "body_alone",
            Self::Encoded(Encoding::Hex) => "hex",
            Self::Encoded(Encoding::Base64) => "base64",
            Self::NoPrefix => "no_prefix",
        }
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BodyAlone => "over the body alone",
            Self::Encoded(Encoding::Hex) => "in hex",
            Self::Encoded(Encoding::Base64) => "in base64",
            Self::NoPrefix => "without the prefix in front of it",
        })
    }
}

impl Scheme {
    /// The scheme as it is often written by hand, with one departure or several; never the scheme itself.
    pub(crate) fn departures(&self) -> Vec<(Vec<Departure>, Self)> {
        let encoding = if self.encoding == Encoding::Hex { Encoding::Base64 } else { Encoding::Hex };
        let single = [Departure::BodyAlone, Departure::Encoded(encoding), Departure::NoPrefix];
        let is_possible = |departure: &Departure| match departure {
            Departure::BodyAlone => self.content != "{body}",
            Departure::Encoded(_) => true,
            // Stripe's header consists of named parts.
            Departure::NoPrefix => !self.prefix.is_empty() && self.form != HeaderForm::Parts,
        };
        // One departure first, then two, then all.
        let sets = [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];
        let sets = sets.map(|set| set.iter().map(|at| single[*at]).collect::<Vec<_>>());
        let sets = sets.into_iter().filter(|set| set.iter().all(is_possible));
        sets.map(|set| (set.clone(), set.into_iter().fold(self.clone(), Self::with))).collect()
    }

    fn with(self, departure: Departure) -> Self {
        match departure {
            Departure::BodyAlone => Self { content: Cow::Borrowed("{body}"), ..self },
            Departure::Encoded(encoding) => Self { encoding, ..self },
            Departure::NoPrefix => Self { prefix: Cow::Borrowed(""), ..self },
        }
    }

    /// How a signature is written: `in base64 after "v1,"`.
    pub(crate) fn written(&self) -> String {
        let after = if self.prefix.is_empty() { String::new() } else { format!(" after `{}`", self.prefix) };
        format!("{}{after}", Departure::Encoded(self.encoding))
    }
}
