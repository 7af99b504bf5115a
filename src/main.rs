//! The binary: hands the arguments to the command line and turns its result into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    wrs_emulator::cli::main()
}
