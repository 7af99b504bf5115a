//! Reads and writes snapshots as JSON documents; refuses documents of other versions.

use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::{FORMAT, Snapshot, VERSION};
use crate::memory::Pieces;

/// The fields that decide whether the rest can be read.
#[derive(Deserialize)]
struct Header<'t> {
    #[serde(borrow)]
    format: Option<&'t RawValue>,
    #[serde(borrow)]
    version: Option<&'t RawValue>,
}

impl Snapshot {
    /// Reads a document; the error says why it cannot be loaded.
    pub fn read(bytes: &[u8]) -> Result<Self, SnapshotProblem> {
        let not_a_snapshot = || SnapshotProblem(format!("expected a snapshot (`format` is `{FORMAT}`)"));
        let header: Header = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
            Category::Data => not_a_snapshot(),
            _ => SnapshotProblem(format!("the snapshot is not JSON: {error}")),
        })?;
        let text = |value: Option<&RawValue>| value.map_or("null", RawValue::get).to_owned();
        if serde_json::from_str::<String>(&text(header.format)).ok().as_deref() != Some(FORMAT) {
            return Err(not_a_snapshot());
        }
        let version: String = text(header.version).chars().take(40).collect();
        if version != VERSION.to_string() {
            let message = format!(
                "the snapshot has version {version}, and this emulator reads version {VERSION}; take it again with this one"
            );
            return Err(SnapshotProblem(message));
        }
        serde_json::from_slice(bytes).map_err(|error| SnapshotProblem(format!("the snapshot cannot be read: {error}")))
    }

    /// The document, in pieces.
    pub fn written(&self) -> Vec<Bytes> {
        let mut pieces = Pieces::default();
        serde_json::to_writer(&mut pieces, self).expect("strings and numbers always serialise");
        pieces.finish()
    }
}

/// Why a snapshot cannot be loaded. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SnapshotProblem(pub(crate) String);
