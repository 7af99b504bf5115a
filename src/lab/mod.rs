//! Layer 7, what judges receivers and the real service: the probe of one receiver, and the calibration of the settings. Each has its
//! command. Only the lists in `lib.rs` and `cli/mod.rs` name it: without this folder and those lines, everything else builds.

pub mod calibrate;
pub mod probe;
