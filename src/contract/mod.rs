//! The emulated API's rules: validation, answers, signatures. Overview of layer 0.
//!
//! Everything here is a pure function or a plain value: no clock, no sockets, no storage; time and chance are arguments. What
//! the published contract leaves open is a setting: each file declares those of its behaviour (`setting`).
//! Reading order: `routes` (which operations exist, and how other paths are answered), `keys` (who may call them),
//! `rules` (validation), `types` and `error` (answers), `variation` (what a body may be like), `signature` (webhooks),
//! `openapi` (the API as a document), `clauses` (the clauses that findings name).

pub mod clauses;
pub mod error;
pub mod headers;
pub mod ids;
pub mod keys;
pub(crate) mod named;
pub mod openapi;
pub mod quota;
pub mod routes;
pub mod rules;
pub mod setting;
pub mod signature;
pub mod timestamp;
pub mod types;
pub mod variation;

/// The version label of the emulated contract, as `GET /v1/system/status` carries it (contract: Versioning).
pub const VERSION: &str = "v1.0";

/// The default address.
pub const DEFAULT_PORT: u16 = 9770;
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:9770";
pub const DEFAULT_URL: &str = "http://127.0.0.1:9770";

/// The known name most like `typed`, if one is close enough for a likely typing error.
pub fn nearest<'n>(typed: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // Comparing needs time proportional to the product of both lengths, and no name that long is mistyped.
    if typed.len() > 200 {
        return None;
    }
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let score =
        |name: &str| strsim::jaro_winkler(typed, name).max(0.97 * strsim::jaro_winkler(&last(typed), &last(name)));
    names
        .map(|name| (score(name), name))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
