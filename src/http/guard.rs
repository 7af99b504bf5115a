//! Catches a panic while one request is answered, so that it costs that request and nothing else.
//!
//! Locks do not poison here (`parking_lot`), so what a panic leaves behind is at worst one half-done effect.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

/// Runs a future to its end; `Err` carries what it panicked with, empty where that was no text.
pub async fn caught<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
    })
}
