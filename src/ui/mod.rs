//! Layer 5, the page and the report: the files in `assets/`, how they are served, and how they become one HTML file.
//!
//! The page is a client of the control API. This layer knows no emulator: `assets` serves files, and `report` joins them with a
//! run document. Must not know the control API, nor what is in a document.

mod assets;
mod report;

pub use assets::{ASSETS, Asset, answer, asks_for_page, find, to_page};
pub use report::{DATA_END, DATA_START, report};
