//! The file of `calibrate --from`, a calibration that people edited or other traffic: whatever it says gives a report and a profile that the
//! emulator reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator::calibrate::cassette::Cassette;
use wrs_emulator::calibrate::report::Report;
use wrs_emulator::settings::Layered;

fuzz_target!(|bytes: &[u8]| {
    let Ok(cassette) = Cassette::from_har(bytes) else { return };
    let _ = (cassette.stop(), cassette.is_api());
    let report = Report::new(&cassette, &[], &Layered::default());
    assert!(!report.data.is_empty(), "each setting has a row");
    let profile = report.profile(&cassette);
    let read = Layered::default().with(|draft| draft.text(&profile, "fuzz"));
    assert!(read.is_ok(), "{:?}\n{profile}", read.err());
});
