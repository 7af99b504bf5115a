//! Signs one attempt: from scheme, keys and message to the headers that go with the body.
//!
//! Must not know when or where the delivery goes; `verify` reads back what is made here.

use std::borrow::Cow;

use super::key::SigningKey;
use super::scheme::{Form, Scheme, Values, render};

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

/// The signature of one attempt, with what it was made from.
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

/// Like [`sign()`], with this text in place of the message's timestamp, for example one that is not a number, which receivers must refuse.
pub fn sign_as(scheme: &Scheme, keys: &[SigningKey], message: &Message<'_>, timestamp: String) -> Signed {
    let content = render(
        &scheme.content,
        &Values { id: message.id, timestamp: &timestamp, url: message.url, body: message.body },
    );
    let room = if matches!(scheme.form, Form::One { .. }) { 1 } else { keys.len() };
    let signatures: Vec<String> =
        keys.iter().take(room).map(|key| token(scheme, key.sign(scheme.hash, &content).as_ref())).collect();

    let mut headers = Vec::with_capacity(3);
    if let Some(name) = &scheme.id_header {
        headers.push((name.clone(), message.id.to_owned()));
    }
    let value = (!signatures.is_empty()).then(|| match scheme.form {
        Form::Tokens => signatures.join(" "),
        Form::Parts => format!("t={timestamp},{}", signatures.join(",")),
        Form::One { .. } => signatures.concat(),
    });
    if let Some(name) = &scheme.timestamp_header {
        headers.push((name.clone(), timestamp));
    }
    if let Some(value) = value {
        headers.push((scheme.signature_header.clone(), value));
    }
    Signed { headers, content, signatures }
}

/// One signature as it is written in the header: `v1,…`, `v1=…` or the prefix and the signature.
pub(super) fn token(scheme: &Scheme, mac: &[u8]) -> String {
    [scheme.form.prefix(), &scheme.encoding.encode(mac)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::signature::{CustomScheme, Encoding, Hash, KeyReading, SchemeName};

    fn check(scheme: &Scheme, secrets: &[&str], message: &Message<'_>, expected: &[(&str, &str)]) {
        let keys: Vec<_> =
            secrets.iter().map(|secret| SigningKey::read(secret, scheme, KeyReading::Auto).unwrap()).collect();
        let signed = sign(scheme, &keys, message);
        let headers: Vec<_> = signed.headers.iter().map(|(name, value)| (name.as_ref(), value.as_str())).collect();
        assert_eq!(headers, expected, "{scheme:?}");
    }

    /// The vector of the Standard Webhooks specification, which is Svix's own.
    #[test]
    fn standard_and_svix_publish_this_vector() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let message = Message {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp: 1_614_265_330,
            url: "https://receiver.example/",
            body: br#"{"test": 2432232314}"#,
        };
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        check(
            &Scheme::STANDARD,
            &[secret],
            &message,
            &[("webhook-id", message.id), ("webhook-timestamp", "1614265330"), ("webhook-signature", signature)],
        );
        check(
            &Scheme::SVIX,
            &[secret],
            &message,
            &[("svix-id", message.id), ("svix-timestamp", "1614265330"), ("svix-signature", signature)],
        );
    }

    /// "Validating webhook deliveries", section "Testing the webhook payload validation".
    #[test]
    fn github_publishes_this_vector() {
        check(
            &Scheme::GITHUB,
            &["It's a Secret to Everybody"],
            &Message { id: "72d3162e-cc78-11e3-81ab-4c9367dc0958", timestamp: 0, url: "", body: b"Hello, World!" },
            &[
                ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
                ("x-hub-signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"),
            ],
        );
    }

    /// "Verifying requests from Slack", the worked example.
    #[test]
    fn slack_publishes_this_vector() {
        check(
            &Scheme::SLACK,
            &["8f742231b10e8888abcd99yyyzzz85a5"],
            &Message {
                id: "evt_1",
                timestamp: 1_531_420_618,
                url: "",
                body: b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow\
                    &channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA\
                    &user_name=roadrunner&command=%2Fwebhook-collect&text=\
                    &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J\
                    %2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
                    &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
            },
            &[
                ("x-slack-request-timestamp", "1531420618"),
                ("x-slack-signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
            ],
        );
    }

    /// Neither service publishes a vector; these were computed with Python's `hmac`.
    #[test]
    fn stripe_and_shopify() {
        check(
            &Scheme::STRIPE,
            &["whsec_test_secret"],
            &Message { id: "evt_1", timestamp: 1_492_774_577, url: "", body: br#"{"id":"evt_1"}"# },
            &[(
                "stripe-signature",
                "t=1492774577,\
                 v1=799c4ba7bb339f3c8601adfd112f0e477c930a268be1243d341abb8286501c2f",
            )],
        );
        check(
            &Scheme::SHOPIFY,
            &["hush"],
            &Message { id: "b54557e4", timestamp: 0, url: "", body: br#"{"id":1}"# },
            &[
                ("x-shopify-webhook-id", "b54557e4"),
                ("x-shopify-hmac-sha256", "VnKUjZsLuN5iZWjn5EntcBVCF9kMN43LglzCE1/GSeY="),
            ],
        );
    }

    const MESSAGE: Message<'static> =
        Message { id: "evt_1", timestamp: 9, url: "https://receiver.example/hook?a=1", body: b"{}" };

    #[test]
    fn without_a_key_only_the_signature_header_is_missing() {
        let names = |scheme| -> Vec<String> {
            let headers = sign(&scheme, &[], &MESSAGE).headers;
            headers.into_iter().map(|(name, _)| name.into_owned()).collect()
        };
        assert_eq!(names(Scheme::STANDARD), ["webhook-id", "webhook-timestamp"]);
        assert_eq!(names(Scheme::STRIPE), [""; 0]);
    }

    #[test]
    fn a_custom_scheme_is_followed_to_the_letter() {
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
        let key = SigningKey::from_bytes(b"key".to_vec()).unwrap();
        let signed = sign(&scheme, &[key], &MESSAGE);
        assert_eq!(signed.content, b"9|https://receiver.example/hook?a=1|{}");
        assert_eq!(
            signed.headers,
            [("x-time".into(), "9".to_owned()), ("x-sig".into(), "HMAC I6xkPzQfdiaq9SfTU4jxUWxg02A=".to_owned()),],
        );
    }
}
