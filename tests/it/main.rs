//! Everything over a socket, in one binary: one module per group of behaviour, `support` for what they share.
#![allow(missing_docs, reason = "tests say what they show in their names")]

mod attacks;
mod authentication;
mod client;
mod clock;
mod command_line;
mod contract;
mod control;
mod control_openapi;
mod determinism;
mod documents;
mod explain;
mod knobs;
mod layers;
mod library;
mod metrics;
mod openapi;
mod patches;
mod presets;
mod preview;
mod quota;
mod receivers;
mod reload;
mod reset;
mod scenarios;
mod snapshots;
mod stream;
mod subscribe;
mod subscriptions;
mod support;
mod tools;
mod waiting;
mod webhooks;
mod wire;
