//! Words of printed commands, judged by `sh`, which must read each as it was.
//!
//! NUL separates the words: no argument can have one.
#![no_main]

use std::process::Command;

use libfuzzer_sys::fuzz_target;
use wrs_emulator::util::wording::shell_word;

fuzz_target!(|text: &str| {
    let script: String = text.split('\0').map(|word| format!("printf '%s\\0' {}\n", shell_word(word))).collect();
    let read = Command::new("sh").args(["-c", &script]).output().expect("sh starts");
    assert_eq!(String::from_utf8_lossy(&read.stdout), format!("{text}\0"), "{script}");
});
