//! Limits on each peer and on all together: sizes, counts and deadlines. Deadlines follow the machine's time and not the
//! emulator's clock, as they protect the process.

use std::time::Duration;

/// Every limit of the wire; each is a flag of `serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a header block.
    pub header_bytes: usize,
    /// Fields of a header block.
    pub header_fields: usize,
    /// Bytes of a request target.
    pub uri_bytes: usize,
    /// Bytes of a request body, on every route.
    pub body_bytes: usize,
    /// Bytes of all request bodies that are being read at a time.
    pub body_bytes_in_all: usize,
    /// Connections at a time. Further ones wait in the kernel's queue, and the oldest that has sent no request is closed for them.
    pub connections: usize,
    /// For a header block, from the connect or from its first byte.
    pub header_timeout: Duration,
    /// For a request body.
    pub body_timeout: Duration,
    /// Between two requests of one connection.
    pub idle_timeout: Duration,
    /// For a peer that does not take bytes.
    pub write_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: 16 * 1024,
            header_fields: 64,
            uri_bytes: 8 * 1024,
            body_bytes: 256 * 1024,
            body_bytes_in_all: 32 * 1024 * 1024,
            connections: 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            write_timeout: Duration::from_secs(30),
        }
    }
}
