//! The emulated API's rules: pure, synchronous, free of I/O.

pub mod signature;
