//! Webhook signatures.
