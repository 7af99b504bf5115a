//! Attacks on the wire: bytes that are not a valid request, peers that are slow, too many or too greedy, and the
//! life of the process. Raw sockets throughout, for no client library would send these bytes.

mod bodies;
mod capacity;
mod connections;
mod deadlines;
mod descriptors;
mod half_close;
mod mutations;
pub(crate) mod peer;
pub(crate) mod process;
mod refusals;
mod requests;
