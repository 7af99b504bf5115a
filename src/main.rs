//! The binary: counts what is allocated, hands the arguments to the command line and turns its result into an exit code.

use std::process::ExitCode;

use cap::Cap;
use mimalloc::MiMalloc;

/// Counts the bytes that are allocated; sets no limit itself. What is freed goes back to the system, which glibc's allocator keeps for each thread.
#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

fn main() -> ExitCode {
    wrs_emulator::measure_memory_by(|| ALLOCATOR.allocated());
    wrs_emulator::cli::main()
}
