//! stub
pub mod library;
