//! Everything over a socket, in one binary: one module per group of behaviour, `support` for what they share.
#![allow(missing_docs, reason = "tests say what they show in their names")]

mod authentication;
mod command_line;
mod contract;
mod control;
mod determinism;
mod documents;
mod exec;
mod explain;
mod help;
mod knobs;
mod layers;
mod library;
mod openapi;
mod preview;
mod quota;
mod receivers;
mod reload;
mod scenarios;
mod stream;
mod subscribe;
mod support;
mod tools;
mod verdict;
mod webhooks;
mod wire;
