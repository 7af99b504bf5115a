//! What `sign` makes, `verify` and a third party's library accept; tests of the parts together.

use std::borrow::Cow;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Escapes that a second serialisation would write differently.
const BODY: &str = r#"{"type":"workflow.completed","data":{"name":"\u00e9 \n"}}"#;

fn key(bytes: &[u8]) -> SigningKey {
    SigningKey::from_bytes(bytes.to_vec()).unwrap()
}

fn look_up(headers: &[(Cow<'static, str>, String)]) -> impl Fn(&str) -> Option<String> {
    |wanted| {
        let found = headers.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.clone())
    }
}

#[test]
fn standard_deliveries_satisfy_an_independent_library() {
    // The library reads the OS clock itself and accepts no other time.
    #[allow(clippy::disallowed_methods)]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_secs()).unwrap();
    let webhook = standardwebhooks::Webhook::new(SECRET).unwrap();
    let newest = SigningKey::read(SECRET, &Scheme::STANDARD, KeyReading::Auto).unwrap();

    let check = |keys: &[SigningKey], timestamp, received: &str, accepted: bool| {
        let message = Message { id: "evt_01h", timestamp, url: "", body: BODY.as_bytes() };
        let mut headers = hyper::HeaderMap::new();
        for (name, value) in sign(&Scheme::STANDARD, keys, &message).headers {
            let name = hyper::header::HeaderName::try_from(name.as_ref()).unwrap();
            headers.insert(name, value.parse().unwrap());
        }
        let verdict = webhook.verify(received.as_bytes(), &headers);
        assert_eq!(verdict.is_ok(), accepted, "{timestamp} {received}: {verdict:?}");
    };
    let only = std::slice::from_ref(&newest);
    check(only, now, BODY, true);
    check(&[newest.clone(), key(b"older")], now, BODY, true);
    check(&[key(b"newer"), newest.clone()], now, BODY, true);
    check(&[key(b"other")], now, BODY, false);
    check(&[], now, BODY, false);
    check(only, now - 400, BODY, false);
    check(only, now + 400, BODY, false);
    check(only, now, &format!("{BODY}\n"), false);
}

#[test]
fn rotation_is_followed_from_either_side() {
    let (old, new, other) = (key(b"old"), key(b"new"), key(b"other"));
    let check = |scheme: &Scheme, sender: &[&SigningKey], receiver: &[&SigningKey], accepted| {
        let owned = |keys: &[&SigningKey]| -> Vec<_> { keys.iter().copied().cloned().collect() };
        let message = Message { id: "evt_1", timestamp: 5, url: "u", body: b"{}" };
        let signed = sign(scheme, &owned(sender), &message);
        let header = look_up(&signed.headers);
        let verdict = verify(scheme, &owned(receiver), &header, "u", b"{}", 5, 300);
        assert_eq!(verdict.is_ok(), accepted, "{scheme:?}: {verdict:?}");
    };
    for name in SchemeName::ALL {
        let scheme = Scheme::new(name, &CustomScheme::default());
        let two_tokens = matches!(name, SchemeName::Standard | SchemeName::Svix | SchemeName::Stripe,);
        check(&scheme, &[&new, &old], &[&new], true);
        check(&scheme, &[&new, &old], &[&old], two_tokens);
        check(&scheme, &[&new], &[&new, &old], true);
        check(&scheme, &[&old], &[&new, &old], true);
        check(&scheme, &[&new, &old], &[&other], false);
        check(&scheme, &[&new, &old], &[], false);
    }
}

#[test]
fn svix_takes_its_own_headers_before_the_unbranded_ones() {
    let message = Message { id: "evt_1", timestamp: 5, url: "", body: b"{}" };
    let verdict = |branded: &SigningKey, unbranded: &SigningKey| {
        let mut headers = sign(&Scheme::SVIX, std::slice::from_ref(branded), &message).headers;
        headers.extend(sign(&Scheme::STANDARD, std::slice::from_ref(unbranded), &message).headers);
        let header = look_up(&headers);
        verify(&Scheme::SVIX, &[key(b"good")], &header, "", b"{}", 5, 300).is_ok()
    };
    assert!(verdict(&key(b"good"), &key(b"bad")));
    assert!(!verdict(&key(b"bad"), &key(b"good")));
}

#[test]
fn a_tolerance_of_zero_lifts_stripes_time_check_and_no_others() {
    let message = Message { id: "evt_1", timestamp: 5, url: "", body: b"{}" };
    let verdict = |scheme: &Scheme, now: i64| {
        let signed = sign(scheme, &[key(b"key")], &message);
        let header = look_up(&signed.headers);
        verify(scheme, &[key(b"key")], &header, "", b"{}", now, 0).is_ok()
    };
    assert!(verdict(&Scheme::STRIPE, i64::MAX));
    assert!(verdict(&Scheme::STANDARD, 5));
    assert!(!verdict(&Scheme::STANDARD, 6));
}

fn any_custom() -> impl Strategy<Value = CustomScheme> {
    let templates =
        ["{body}", "{timestamp}.{body}", "{id}.{timestamp}.{url}.{body}", "v0:{url}{{}}{body}{body}", "é{id}{body}"];
    let hashes = [Hash::Sha1, Hash::Sha256, Hash::Sha512];
    let encodings = [Encoding::Hex, Encoding::Base64];
    let prefixes = ["", "sha256=", "HMAC ", "v1,"];
    (
        select(templates.to_vec()).prop_map(str::to_owned),
        select(hashes.to_vec()),
        select(encodings.to_vec()),
        select(prefixes.to_vec()).prop_map(str::to_owned),
    )
        .prop_map(|(content, hash, encoding, prefix)| CustomScheme {
            content,
            hash,
            encoding,
            prefix,
            ..CustomScheme::default()
        })
}

fn any_scheme() -> impl Strategy<Value = Scheme> {
    (select(SchemeName::ALL.to_vec()), any_custom()).prop_map(|(name, custom)| {
        assert_eq!(custom.check(), Ok(()));
        Scheme::new(name, &custom)
    })
}

proptest! {
    #[test]
    fn what_is_signed_verifies_and_nothing_near_it(
        scheme in any_scheme(),
        keys in vec(vec(any::<u8>(), 1..100), 1..3),
        id in "[!-~]{1,40}",
        timestamp in any::<i64>(),
        url in "[!-~]{0,60}",
        body in vec(any::<u8>(), 0..600),
        flipped in any::<proptest::sample::Index>(),
    ) {
        let keys: Vec<_> = keys.iter().map(|bytes| key(bytes)).collect();
        let message = Message { id: &id, timestamp, url: &url, body: &body };
        let signed = sign(&scheme, &keys, &message);
        let header = look_up(&signed.headers);

        let verified = verify(&scheme, &keys, &header, &url, &body, timestamp, 0);
        prop_assert!(verified.is_ok(), "{:?}", verified);
        let verified = verified.unwrap();
        prop_assert_eq!(verified.timestamp.unwrap_or(timestamp), timestamp);
        prop_assert_eq!(verified.id.unwrap_or(id.clone()), id.clone());

        let mut other = body.clone();
        other.push(0);
        prop_assert!(verify(&scheme, &keys, &header, &url, &other, timestamp, 0).is_err());
        if !body.is_empty() {
            other.pop();
            let at = flipped.index(body.len());
            other[at] ^= 1;
            prop_assert!(verify(&scheme, &keys, &header, &url, &other, timestamp, 0).is_err());
        }
    }
}
