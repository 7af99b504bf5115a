//! The file of `calibrate --from`, a calibration that people edited or other traffic: whatever it says gives a report and a profile that the
//! emulator reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator::lab::calibrate::call_log::CallLog;
use wrs_emulator::lab::calibrate::report::Report;
use wrs_emulator::settings::Layered;

fuzz_target!(|bytes: &[u8]| {
    let Ok(call_log) = CallLog::from_har(bytes) else { return };
    let _ = (call_log.stop(), call_log.is_api());
    let report = Report::new(&call_log, &[], &Layered::default());
    assert!(!report.data.is_empty(), "each setting has a row");
    let profile = report.profile(&call_log);
    let read = Layered::default().with(|draft| draft.text(&profile, "fuzz"));
    assert!(read.is_ok(), "{:?}\n{profile}", read.err());
});
