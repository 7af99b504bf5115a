//! Identifiers as on the wire: a prefix (contract: form `sub_<id>`, `evt_<id>`, `req_<id>`, `wf_<id>`) and a part whose
//! form is the setting `ids.style`. Time and chance are arguments.

use std::fmt::Write as _;

use rand::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha512};

use crate::contract::headers::HeaderSetting;
use crate::contract::named::named;
use crate::contract::setting::settings;

named! {
    /// The kind of an id, with its prefix.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum IdKind {
        /// Published, as are the next three.
        Subscription = "sub_",
        Event = "evt_",
        Request = "req_",
        Workflow = "wf_",
        /// Assumed: the form of a reference's id is not shown.
        Reference = "ref_",
        /// Assumed: the user record is not shown.
        User = "usr_",
        /// The emulator's own: one event on its way to one subscription.
        Delivery = "dlv_",
    }
}

impl IdKind {
    pub const fn prefix(self) -> &'static str {
        self.name()
    }
}

settings! {
    /// The form of ids.
    pub struct Ids {
        /// The part after the prefix.
        pub style: IdStyle = "ulid" {
            contract: "forms sub_<id>, evt_<id>, req_<id>, wf_<id>; the part after the prefix is not shown",
            assumed: "a lower-case ULID",
            observed_by: "the ids in errors and of the subscription",
        },
        /// The header of every answer that carries the request's id, as `request_id` does in an error; none if empty.
        #[schemars(with = "String")]
        #[serde(deserialize_with = "read_request_header")]
        pub request_header: Option<HeaderSetting> = "" {
            contract: "request_id is in errors; no header for it is mentioned",
            assumed: "not sent",
            values: "a field name such as \"X-Request-Id\", or \"\"",
            observed_by: "the header with the same text as `request_id`",
        },
    }
}

fn read_request_header<'de, D: Deserializer<'de>>(setting: D) -> Result<Option<HeaderSetting>, D::Error> {
    let text = String::deserialize(setting)?;
    let name = (!text.is_empty()).then(|| HeaderSetting::try_from(text));
    name.transpose().map_err(serde::de::Error::custom)
}

/// The part after an id's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdStyle {
    /// 26 characters, lower case.
    Ulid,
    /// A version 4 UUID.
    Uuid,
    /// 1, 2, 3 … per workspace, padded to eight digits.
    Counter,
    /// 64 of the letters, digits, `_` and `-`.
    Longest,
}

/// The characters of the style `ulid`.
const CROCKFORD: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The characters of the style `longest`.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

/// Makes an id. `unix_millis` is the wall time (ULIDs carry it), `serial` the number that the style `counter` shows.
pub fn make_id(kind: IdKind, style: IdStyle, unix_millis: u64, serial: u64, random: &mut impl Rng) -> String {
    // The exact capacity, so that the bytes can be taken over without a copy.
    let length = match style {
        IdStyle::Ulid => 26,
        IdStyle::Uuid => 36,
        IdStyle::Counter => 8,
        IdStyle::Longest => 64,
    };
    let mut id = String::with_capacity(kind.prefix().len() + length);
    id.push_str(kind.prefix());
    // The same number of random bits is drawn for each style, so that a changed style does not shift what follows.
    let bits = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    match style {
        IdStyle::Ulid => {
            let ulid = u128::from(unix_millis) << 80 | bits & ((1 << 80) - 1);
            id.extend(
                (0..26)
                    .rev()
                    .map(|place| char::from(CROCKFORD[usize::from((ulid >> (5 * place)).to_le_bytes()[0] & 31)])),
            );
        }
        IdStyle::Uuid => {
            // Version 4 of RFC 9562: four bits of version and two of variant instead of random ones.
            let bits = bits & !(0xf << 76 | 0b11 << 62) | 4 << 76 | 0b10 << 62;
            let (high, low) = (bits >> 64, bits & u128::from(u64::MAX));
            let _ = write!(
                id,
                "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                high >> 32,
                high >> 16 & 0xffff,
                high & 0xffff,
                low >> 48,
                low & 0xffff_ffff_ffff
            );
        }
        IdStyle::Longest => {
            let spread = Sha512::digest(bits.to_be_bytes());
            id.extend(spread.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 64)])));
        }
        // A write to a String cannot fail.
        IdStyle::Counter => drop(write!(id, "{serial:08}")),
    }
    id
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn ulids_sort_by_time_and_differ_by_chance() {
        let mut random = crate::clock::Random::seed_from_u64(1);
        let early = make_id(IdKind::Request, IdStyle::Ulid, 1, 0, &mut random);
        let late = make_id(IdKind::Request, IdStyle::Ulid, 2, 0, &mut random);
        let twin = make_id(IdKind::Request, IdStyle::Ulid, 2, 0, &mut random);
        assert!(early < late && late != twin);
    }
}
