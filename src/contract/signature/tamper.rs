//! Forged deliveries: what a receiver must refuse, made from a genuine delivery. Which deliveries are forged is not decided here.

use sha2::{Digest as _, Sha256};

use super::{Message, Scheme, Signed, SigningKey, TOLERANCE_SECONDS, sign, verify};
use crate::contract::named::named;

/// How far off a falsified timestamp is: beyond what any receiver tolerates.
const OFF_SECONDS: i64 = 3600;

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Tamper {
        Body = "body",
        Signature = "signature",
        /// Another secret signs.
        Secret = "secret",
        /// The timestamp is an hour old, and the signature covers it.
        Timestamp = "timestamp",
        /// The timestamp is an hour ahead, and the signature covers it.
        FutureTimestamp = "future_timestamp",
        Headers = "headers",
    }
}

impl Tamper {
    /// Whether a receiver that verifies this scheme, as its libraries do, can detect it: not every scheme signs the time.
    pub fn is_detectable(self, scheme: &Scheme) -> bool {
        let (now, body) = (1_769_851_800, br#"{"id":"evt_1"}"#);
        let message = Message { id: "evt_1", timestamp: now, url: "https://a.example/", body };
        let keys = [SigningKey::from_bytes(vec![1; 32]).expect("it is not empty")];
        let signed = sign_forged(scheme, &keys, &message, self);
        let sent = self.falsify_body(body).unwrap_or_else(|| body.to_vec());
        let header =
            |sought: &str| signed.headers.iter().find(|(name, _)| name == sought).map(|(_, value)| value.clone());
        verify(scheme, &keys, &header, message.url, &sent, now, TOLERANCE_SECONDS).is_err()
    }

    /// The body that is sent in place of the genuine one: a JSON object gets one more field and stays one.
    pub fn falsify_body(self, body: &[u8]) -> Option<Vec<u8>> {
        if self != Self::Body {
            return None;
        }
        let mut forged = body.to_vec();
        match forged.iter().rposition(|byte| *byte == b'}') {
            Some(end) if body.len() > 2 => drop(forged.splice(end..end, *b",\"tampered\":true")),
            _ => forged.push(b' '),
        }
        Some(forged)
    }
}

/// Signs a delivery and falsifies it.
pub fn sign_forged(scheme: &Scheme, keys: &[SigningKey], message: &Message<'_>, tamper: Tamper) -> Signed {
    match tamper {
        Tamper::Body => sign(scheme, keys, message),
        Tamper::Timestamp => {
            sign(scheme, keys, &Message { timestamp: message.timestamp.saturating_sub(OFF_SECONDS), ..*message })
        }
        Tamper::FutureTimestamp => {
            sign(scheme, keys, &Message { timestamp: message.timestamp.saturating_add(OFF_SECONDS), ..*message })
        }
        Tamper::Secret => sign(scheme, &keys.iter().map(another_key).collect::<Vec<_>>(), message),
        Tamper::Signature => {
            let mut signed = sign(scheme, keys, message);
            let forged: Vec<String> =
                signed.signatures.iter().map(|signature| change_one_character(signature)).collect();
            for (_, value) in &mut signed.headers {
                for (true_one, forged) in signed.signatures.iter().zip(&forged) {
                    *value = value.replace(true_one.as_str(), forged);
                }
            }
            signed.signatures = forged;
            signed
        }
        Tamper::Headers => {
            let signed = sign(scheme, keys, message);
            Signed { headers: Vec::new(), signatures: Vec::new(), ..signed }
        }
    }
}

/// A key that nobody knows, derived from the genuine one so that a run can be repeated.
pub fn another_key(key: &SigningKey) -> SigningKey {
    let bytes = Sha256::new().chain_update(b"another secret").chain_update(key.as_bytes()).finalize().to_vec();
    SigningKey::from_bytes(bytes).expect("a hash is never empty")
}

/// Changes a character in the last quarter: past any prefix, before any padding; it stays hex or base64.
fn change_one_character(signature: &str) -> String {
    let at = signature.len() - signature.len() / 4;
    let other = if signature.as_bytes().get(at) == Some(&b'a') { "b" } else { "a" };
    match (signature.get(..at), signature.get(at + 1..)) {
        (Some(before), Some(after)) => format!("{before}{other}{after}"),
        _ => format!("{signature}a"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::signature::{CustomScheme, SchemeName};

    #[test]
    fn a_forged_delivery_is_detected_where_the_scheme_can_tell() {
        for name in SchemeName::ALL {
            let scheme = Scheme::new(name, &CustomScheme::default());
            for tamper in [Tamper::Body, Tamper::Signature, Tamper::Secret, Tamper::Headers] {
                assert!(tamper.is_detectable(&scheme), "{name} {}", tamper.name());
            }
            let sees_time = !matches!(name, SchemeName::Github | SchemeName::Shopify);
            assert_eq!(Tamper::Timestamp.is_detectable(&scheme), sees_time, "{name}");
            // Stripe's own libraries let timestamps from the future pass.
            let sees_future = sees_time && name != SchemeName::Stripe;
            assert_eq!(Tamper::FutureTimestamp.is_detectable(&scheme), sees_future, "{name}");
        }
    }

    #[test]
    fn a_forged_body_is_still_json() {
        let forged = Tamper::Body.falsify_body(br#"{"a":{"b":1}}"#).expect("a body");
        let value: serde_json::Value = serde_json::from_slice(&forged).expect("JSON");
        assert_eq!(value, serde_json::json!({ "a": { "b": 1 }, "tampered": true }));
        assert_eq!(Tamper::Body.falsify_body(b"{}").as_deref(), Some(&b"{} "[..]));
        assert_eq!(Tamper::Secret.falsify_body(b"{}"), None);
    }
}
