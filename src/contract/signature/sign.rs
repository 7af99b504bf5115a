//! Signs one attempt: from scheme, keys and message to the headers that go with the body.
//!
//! Independent of when or where the delivery goes; `verify` reads the results back.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use super::key::SigningKey;
use super::scheme::{HeaderForm, Scheme, Values, render};
use super::verify::{TOLERANCE_SECONDS, verify};
use crate::contract::named::named;

/// One delivery as it is signed.
///
/// `id` and `url` are written into headers and the signed content as they are, so they must be free of
/// control characters; the caller ensures that.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    pub id: &'a str,
    /// Unix seconds of this attempt.
    pub timestamp: i64,
    /// The URL the delivery is addressed to; only `custom` schemes may sign it.
    pub url: &'a str,
    /// The body's bytes exactly as they are sent.
    pub body: &'a [u8],
}

/// The signature of one attempt, with its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// Header names in lower case and their values, in sending order.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// The exact bytes that were signed.
    pub content: Vec<u8>,
    /// The signatures as they are in the header (`v1,…`, `v1=…`, `sha256=…`), newest key first.
    pub signatures: Vec<String>,
}

/// Signs `message` under every one of `keys` that the scheme's header has room for.
///
/// `keys` are newest first; while a rotation's grace period lasts there are two. `standard`, `svix`
/// and `stripe` carry a signature for each, the other schemes one for the newest. Without a key
/// the signature header is left out: the delivery goes unsigned.
pub fn sign(scheme: &Scheme, keys: &[SigningKey], message: &Message<'_>) -> Signed {
    sign_as(scheme, keys, message, message.timestamp.to_string())
}

/// Like [`sign()`], with this text instead of the message's timestamp, for example one that is not a number, which receivers must refuse.
pub fn sign_as(scheme: &Scheme, keys: &[SigningKey], message: &Message<'_>, timestamp: String) -> Signed {
    let content = render(
        &scheme.content,
        &Values { id: message.id, timestamp: &timestamp, url: message.url, body: message.body },
    );
    let room = if scheme.form == HeaderForm::One { 1 } else { keys.len() };
    let signatures: Vec<String> =
        keys.iter().take(room).map(|key| scheme.token(key.sign(scheme.hash, &content).as_ref())).collect();

    let mut headers = Vec::with_capacity(3);
    if let Some(name) = &scheme.id_header {
        headers.push((name.clone(), message.id.to_owned()));
    }
    let value = (!signatures.is_empty()).then(|| match scheme.form {
        HeaderForm::Tokens => signatures.join(" "),
        HeaderForm::Parts => format!("t={timestamp},{}", signatures.join(",")),
        HeaderForm::One => signatures.concat(),
    });
    if let Some(name) = &scheme.timestamp_header {
        headers.push((name.clone(), timestamp));
    }
    if let Some(value) = value {
        headers.push((scheme.signature_header.clone(), scheme.wrapping.wrap(value)));
    }
    Signed { headers, content, signatures }
}

/// How far off a falsified timestamp is: beyond what any receiver tolerates.
const OFF_SECONDS: i64 = 3600;

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Tamper {
        Body = "body",
        Signature = "signature",
        /// Another secret signs.
        Secret = "secret",
        /// The secret before the last rotation signs; another one if there was no rotation.
        OldSecret = "old_secret",
        /// The timestamp is an hour old, and the signature covers it.
        Timestamp = "timestamp",
        /// The timestamp is an hour ahead, and the signature covers it.
        FutureTimestamp = "future_timestamp",
        Headers = "headers",
    }
}

impl Tamper {
    /// True if a receiver that verifies this scheme, as its libraries do, can detect it: not every scheme signs the time.
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

    /// The body that is sent instead of the genuine one: a JSON object gets one more field and stays one.
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

pub fn sign_forged(scheme: &Scheme, keys: &[SigningKey], message: &Message<'_>, tamper: Tamper) -> Signed {
    match tamper {
        Tamper::Body => sign(scheme, keys, message),
        Tamper::Timestamp => {
            sign(scheme, keys, &Message { timestamp: message.timestamp.saturating_sub(OFF_SECONDS), ..*message })
        }
        Tamper::FutureTimestamp => {
            sign(scheme, keys, &Message { timestamp: message.timestamp.saturating_add(OFF_SECONDS), ..*message })
        }
        Tamper::Secret | Tamper::OldSecret => sign(scheme, &keys.iter().map(another_key).collect::<Vec<_>>(), message),
        Tamper::Signature => {
            let mut signed = sign(scheme, keys, message);
            let forged: Vec<String> =
                signed.signatures.iter().map(|signature| change_one_character(signature)).collect();
            for (_, value) in &mut signed.headers {
                for (genuine, forged) in signed.signatures.iter().zip(&forged) {
                    *value = value.replace(genuine.as_str(), forged);
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

/// A key unknown to the receiver, derived from the genuine one so that a run can be repeated.
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
    use crate::contract::signature::{CustomScheme, Encoding, Hash, KeyReading, SchemeName};

    fn check(scheme: &Scheme, secret: &str, message: &Message<'_>, expected: &[(&str, &str)]) {
        let key = SigningKey::read(secret, scheme, KeyReading::Auto).unwrap();
        let headers = sign(scheme, &[key], message).headers;
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_ref(), value.as_str())).collect();
        assert_eq!(headers, expected, "{scheme:?}");
    }

    #[test]
    fn published_vectors() {
        // The vector of the Standard Webhooks specification, which is Svix's own.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let message = Message { id, timestamp: 1_614_265_330, url: "", body: br#"{"test": 2432232314}"# };
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        for (scheme, names) in [
            (Scheme::STANDARD, ["webhook-id", "webhook-timestamp", "webhook-signature"]),
            (Scheme::SVIX, ["svix-id", "svix-timestamp", "svix-signature"]),
        ] {
            let [id_header, timestamp_header, signature_header] = names;
            let expected = [(id_header, id), (timestamp_header, "1614265330"), (signature_header, signature)];
            check(&scheme, secret, &message, &expected);
        }
        // "Validating webhook deliveries", section "Testing the webhook payload validation".
        check(
            &Scheme::GITHUB,
            "It's a Secret to Everybody",
            &Message { id: "72d3162e", timestamp: 0, url: "", body: b"Hello, World!" },
            &[
                ("x-github-delivery", "72d3162e"),
                ("x-hub-signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"),
            ],
        );
        // "Verifying requests from Slack", the worked example.
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow\
            &channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA\
            &user_name=roadrunner&command=%2Fwebhook-collect&text=\
            &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J\
            %2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
            &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        check(
            &Scheme::SLACK,
            "8f742231b10e8888abcd99yyyzzz85a5",
            &Message { id: "evt_1", timestamp: 1_531_420_618, url: "", body },
            &[
                ("x-slack-request-timestamp", "1531420618"),
                ("x-slack-signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
            ],
        );
        // Neither Stripe nor Shopify publishes a vector; these were computed with Python's `hmac`.
        let signature = "799c4ba7bb339f3c8601adfd112f0e477c930a268be1243d341abb8286501c2f";
        check(
            &Scheme::STRIPE,
            "whsec_test_secret",
            &Message { id: "evt_1", timestamp: 1_492_774_577, url: "", body: br#"{"id":"evt_1"}"# },
            &[("stripe-signature", &format!("t=1492774577,v1={signature}"))],
        );
        check(
            &Scheme::SHOPIFY,
            "hush",
            &Message { id: "b54557e4", timestamp: 0, url: "", body: br#"{"id":1}"# },
            &[
                ("x-shopify-webhook-id", "b54557e4"),
                ("x-shopify-hmac-sha256", "VnKUjZsLuN5iZWjn5EntcBVCF9kMN43LglzCE1/GSeY="),
            ],
        );
    }

    #[test]
    fn a_custom_scheme_is_followed_to_the_letter_and_without_a_key_nothing_is_signed() {
        let custom = CustomScheme {
            id_header: String::new(),
            timestamp_header: "X-Time".into(),
            signature_header: "X-Sig".into(),
            content: "{timestamp}|{url}|{body}".into(),
            hash: Hash::Sha1,
            encoding: Encoding::Base64,
            prefix: "HMAC ".into(),
            key: KeyReading::Auto,
        };
        let scheme = Scheme::new(SchemeName::Custom, &custom);
        let message = Message { id: "evt_1", timestamp: 9, url: "https://receiver.example/hook?a=1", body: b"{}" };
        check(&scheme, "key", &message, &[("x-time", "9"), ("x-sig", "HMAC I6xkPzQfdiaq9SfTU4jxUWxg02A=")]);
        let unsigned = sign(&scheme, &[], &message);
        assert_eq!(unsigned.content, b"9|https://receiver.example/hook?a=1|{}");
        assert_eq!(unsigned.headers, [("x-time".into(), "9".to_owned())]);
    }

    #[test]
    fn a_falsified_object_stays_one() {
        for (body, expected) in [
            (r#"{"a":{"b":1}}"#, r#"{"a":{"b":1},"tampered":true}"#),
            ("{\"a\":1}\n", "{\"a\":1,\"tampered\":true}\n"),
            ("{}", "{} "),
            ("[1]", "[1] "),
        ] {
            let found = Tamper::Body.falsify_body(body.as_bytes()).expect("another body");
            assert_eq!(String::from_utf8(found).unwrap(), expected);
            assert_eq!(Tamper::Secret.falsify_body(body.as_bytes()), None);
        }
    }

    #[test]
    fn a_falsified_signature_differs_in_one_character() {
        let message = Message { id: "evt_1", timestamp: 9, url: "", body: b"{}" };
        let keys = [SigningKey::from_bytes(b"key".to_vec()).unwrap()];
        for name in SchemeName::ALL {
            let scheme = Scheme::new(name, &CustomScheme::default());
            let genuine = sign(&scheme, &keys, &message).signatures.concat();
            let forged = sign_forged(&scheme, &keys, &message, Tamper::Signature).signatures.concat();
            let differing = genuine.bytes().zip(forged.bytes()).filter(|(one, other)| one != other).count();
            assert_eq!((forged.len(), differing), (genuine.len(), 1), "{name}");
            let at = genuine.bytes().zip(forged.bytes()).position(|(one, other)| one != other);
            assert!(at.is_some_and(|at| at >= genuine.len() - genuine.len() / 4), "{name}: {forged}");
        }
    }
}
