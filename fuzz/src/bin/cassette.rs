//! The cassette of a calibration, which people edit: whatever it says gives a report and a profile that the emulator reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator::calibrate::cassette::Cassette;
use wrs_emulator::calibrate::report::Report;
use wrs_emulator::settings::Layered;

fuzz_target!(|bytes: &[u8]| {
    let Ok(cassette) = serde_json::from_slice::<Cassette>(bytes) else { return };
    let _ = cassette.stop();
    let report = Report::new(&cassette, &[], &Layered::default());
    assert!(!report.data.is_empty(), "each setting has a row");
    let profile = report.profile(&cassette);
    let read = Layered::default().with(|draft| draft.text(&profile, "fuzz"));
    assert!(read.is_ok(), "{:?}\n{profile}", read.err());
});
