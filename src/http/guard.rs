//! Catches a panic while a request is answered, so that only that request fails.
//!
//! Locks are not poisoned (`parking_lot`), so the worst that a panic leaves behind is one incomplete change.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

/// Runs a future to its end; `Err` carries the message of a panic.
pub async fn caught<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| text_of(&*panic))
}

/// Runs a function to its end; `Err` as for [`caught`].
pub fn caught_now<T>(function: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(function)).map_err(|panic| text_of(&*panic))
}

/// The message of a panic; empty where it has none.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fail(with_text: bool) -> u8 {
        // Panics after the first suspension, too.
        tokio::task::yield_now().await;
        if with_text { panic!("number {}", 7) } else { std::panic::panic_any(7) }
    }

    #[tokio::test]
    async fn a_panic_is_reported_and_the_next_future_runs() {
        assert_eq!(caught(async { panic!("plain") }).await, Err::<u8, _>("plain".to_owned()));
        assert_eq!(caught(fail(true)).await, Err("number 7".to_owned()));
        assert_eq!(caught(fail(false)).await, Err(String::new()));
        assert_eq!(caught(async { 7 }).await, Ok(7));
        assert_eq!(caught_now(|| panic!("now")), Err::<u8, _>("now".to_owned()));
        assert_eq!(caught_now(|| 7), Ok(7));
    }
}
