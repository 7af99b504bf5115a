//! Captured deliveries: read, verified and diagnosed, by `calibrate` and by `verify`.
//!
//! The first line is the secret, the rest is the capture.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator::lab::calibrate::delivery::CapturedDelivery;
use wrs_emulator::contract::signature::{CustomScheme, Evidence, KeyReading, Scheme, SchemeName};
use wrs_emulator::util::captured;

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (Ok(secret), capture) = (str::from_utf8(&bytes[..end]), bytes.get(end + 1..).unwrap_or_default()) else {
        return;
    };
    match CapturedDelivery::read(capture) {
        Ok(delivery) => assert!(!delivery.shows(secret).settings.is_empty(), "something is said"),
        Err(problem) => assert!(!problem.is_empty(), "refused with a reason"),
    }
    let secrets = [secret.to_owned()];
    for message in captured::messages(capture).unwrap_or_default() {
        let headers = |name: &str| message.values(name).map(str::to_owned).collect();
        let custom = CustomScheme::default();
        for name in SchemeName::ALL {
            let scheme = Scheme::new(name, &custom);
            let evidence = Evidence {
                scheme: &scheme,
                custom: &custom,
                secrets: &secrets,
                reading: KeyReading::Auto,
                headers: &headers,
                url: message.target.as_deref().unwrap_or_default(),
                body: message.sent_body().unwrap_or_default(),
                now: 1_769_851_800,
                tolerance: 300,
            };
            if evidence.verify().is_err() {
                for remedy in evidence.remedies() {
                    assert!(!remedy.to_string().is_empty(), "a remedy says what to change");
                }
                let _ = evidence.hint();
            }
        }
    }
});
