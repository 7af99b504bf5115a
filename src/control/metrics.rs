//! `GET metrics`: counters and gauges for Prometheus.
//!
//! Counters come from counters kept next to the journal's entries, so they only rise. No label contains a key, a URL or an id.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Control;
use super::endpoint::{Call, Endpoint, Made};
use super::fields::AnyKey;
use super::stream::MAX_VIEWERS;
use crate::contract::routes::Operation;
use crate::http::answer::answer;
use crate::state::engine::deliveries::DeliveryStatus;
use crate::state::journal::record::name_of;
use crate::state::journal::{EntryCounts, LATENCY_BOUNDS};

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Counters and gauges in the text format of Prometheus.
///
/// Version 0.0.4: requests, refusals, deliveries, attempts and their latency, and the bytes kept in memory and evicted. No labels
/// contain keys.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct GetMetrics {
    #[serde(default)]
    key: AnyKey,
}

impl Endpoint for GetMetrics {
    type Answer = Made<String>;
    const CALL: Call<Self> =
        Call::at_once("GET metrics", |_, cx| Ok(answer(StatusCode::OK, TEXT, metrics_text(cx)).into()))
            .media(&["text/plain"]);
}

fn metrics_text(control: &Control) -> String {
    let (tally, fill, budget) = (control.journal.tally(), control.journal.fill(), control.journal.budget());
    let (deliveries, registry) = (&control.deliveries, &control.registry);
    let viewers = MAX_VIEWERS.saturating_sub(control.viewers.available_permits());
    let mut families = Families::default();
    families.family("build_info", "gauge", "The version, as a label.");
    families.sample("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    families.single("generation", "gauge", "Swaps of scenarios and profile, from 1.", control.library.load().number);
    push_requests(&mut families, &tally);
    let refusals = tally.quota_refusals;
    families.single("quota_refusals_total", "counter", "Requests refused because the quota was used up.", refusals);
    families.single("events_total", "counter", "Events fired.", tally.events);
    families.family("deliveries_total", "counter", "Deliveries that ended, by outcome.");
    for status in [DeliveryStatus::Delivered, DeliveryStatus::Exhausted, DeliveryStatus::Cancelled] {
        families.sample("deliveries_total", &[("outcome", name_of(status).as_str())], deliveries.ended(status));
    }
    push_attempts(&mut families, &tally);
    for (name, help, value) in [
        ("memory_bytes", "Bytes of everything that is kept, roughly.", budget.used()),
        ("memory_limit_bytes", "The limit of that, --max-memory-bytes.", budget.most()),
        ("deliveries_bytes", "Bytes of all deliveries, roughly.", deliveries.bytes()),
        ("deliveries_pending", "Deliveries with an attempt under way or due.", deliveries.pending()),
        ("sink_bytes", "Bytes in built-in receivers, roughly.", control.sinks.bytes()),
        ("workspaces", "Workspaces kept.", registry.all().len()),
        ("journal_entries", "Entries in the journal.", fill.entries),
        ("journal_bytes", "Bytes in the journal, roughly.", fill.bytes),
        ("stream_viewers", "Viewers that follow the event stream.", viewers),
    ] {
        families.single(name, "gauge", help, value);
    }
    let left_out = "Events of emissions left out, as too many were pending or planned.";
    for (name, help, value) in [
        ("deliveries_forgotten_total", "Finished deliveries that were evicted.", deliveries.evicted()),
        ("sink_deliveries_forgotten_total", "Deliveries evicted from built-in receivers.", control.sinks.evicted()),
        ("emissions_left_out_total", left_out, control.dropped_emissions()),
        ("workspaces_evicted_total", "Workspaces that were evicted.", registry.evicted()),
        ("access_tokens_evicted_total", "Access tokens that were evicted.", registry.tokens().evicted()),
        ("journal_evicted_total", "Entries evicted from the journal.", tally.evicted),
    ] {
        families.single(name, "counter", help, value);
    }
    families.0
}

fn push_requests(families: &mut Families, tally: &EntryCounts) {
    families.family("requests_total", "counter", "Requests to the emulated API, by operation and status class.");
    for (operation, class, count) in tally.requests().filter(|(_, _, count)| *count > 0) {
        let class = if class == 0 { "broken".to_owned() } else { format!("{class}xx") };
        let labels = [("operation", operation.map_or("none", Operation::name)), ("status", class.as_str())];
        families.sample("requests_total", &labels, count);
    }
}

fn push_attempts(families: &mut Families, tally: &EntryCounts) {
    families.family("delivery_attempts_total", "counter", "Attempts to deliver, by outcome.");
    for (outcome, count) in [("accepted", tally.accepted), ("refused", tally.refused)] {
        families.sample("delivery_attempts_total", &[("outcome", outcome)], count);
    }
    for (reason, count) in &tally.failed {
        let reason = name_of(reason);
        families.sample("delivery_attempts_total", &[("outcome", reason.as_str())], count);
    }
    let name = "delivery_attempt_duration_seconds";
    families.family(name, "histogram", "How long attempts took, by the emulator's clock.");
    let mut below = 0;
    for (bound, count) in LATENCY_BOUNDS.iter().zip(tally.latencies) {
        below += count;
        let bound = Duration::from_millis(*bound).as_secs_f64().to_string();
        families.sample(&format!("{name}_bucket"), &[("le", bound.as_str())], below);
    }
    let all: u64 = tally.latencies.iter().sum();
    families.sample(&format!("{name}_bucket"), &[("le", "+Inf")], all);
    families.sample(&format!("{name}_sum"), &[], tally.latency_sum.as_secs_f64());
    families.sample(&format!("{name}_count"), &[], all);
}

/// Metrics in the text format of Prometheus.
#[derive(Default)]
struct Families(String);

impl Families {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // A write to a String cannot fail, here and below.
        let _ = write!(self.0, "# HELP wrs_emulator_{name} {help}\n# TYPE wrs_emulator_{name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        // Every label is a word of this program, so none needs escaping.
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "wrs_emulator_{name}{labels} {value}");
    }

    /// A family of one sample.
    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}
