//! The emulator's memory: the journal, the workspaces of the keys and their deliveries, quotas, snapshots, and the budget of
//! memory that all of it must stay within. Independent of HTTP and of its readers.
//!
//! [`journal`] and [`workspace`] hold records and one key's state; [`engine`] is everything that needs more than one of them.

pub mod budget;
pub mod engine;
pub mod journal;
pub mod quota;
pub mod workspace;
