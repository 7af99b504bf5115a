//! URLs of subscriptions and of `--forward`: what is taken has a host, stays taken in its normal form, and leads somewhere.
#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use wrs_emulator::settings::{Forward, Forwards};
use wrs_emulator::contract::rules::check_webhook_url;
use wrs_emulator::webhook::egress::Egress;

fuzz_target!(|text: &str| {
    if let Ok(url) = check_webhook_url(text, false) {
        assert_eq!(url.scheme(), "https");
        assert!(url.host().is_some() && url.username().is_empty() && url.password().is_none());
        // Normalising may make a text longer, and that alone may it be refused for.
        if url.as_str().chars().count() <= 2048 {
            assert_eq!(check_webhook_url(url.as_str(), false).as_ref(), Ok(&url), "the normal form of {text:?}");
        }
        let (egress, url) = (Egress::default(), Arc::new(url));
        let _ = egress.destination(&Forwards::default(), &url);
        let rule = [("https://a".to_owned(), "http://127.0.0.1:1/b".to_owned())];
        let forwards = Forwards::try_from(BTreeMap::from(rule)).expect("a proper rule");
        let _ = egress.destination(&forwards, &url);
    }
    let _ = Forward::parse(text);
});
