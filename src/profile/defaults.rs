//! The text of the built-in profile, and its values as they are written there.

use std::sync::LazyLock;

use toml::Table;

/// The commented text of the built-in profile.
pub const DEFAULT_TEXT: &str = include_str!("default.toml");

/// Its values.
pub(super) static DEFAULT_TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(DEFAULT_TEXT).expect("the built-in profile is valid TOML, which a test shows"));
