//! The binary: counts allocations, hands the arguments to the command line and turns its result into an exit code.

use std::alloc::System;
use std::process::ExitCode;

use cap::Cap;

/// Counts the bytes that are allocated; sets no limit itself.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn main() -> ExitCode {
    wrs_emulator::measure_memory_by(|| ALLOCATOR.allocated());
    wrs_emulator::cli::main()
}
