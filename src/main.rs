//! The binary: hands the arguments to the command line and turns its result into an exit code.

fn main() {}
