//! `GET metrics`: counters and gauges in the text format of Prometheus, version 0.0.4.
//!
//! Counters come from tallies beside the journal's entries, so they only rise. No label contains a key, a URL or an id.

use std::fmt::{Display, Write as _};

use hyper::StatusCode;
use hyper::header::HeaderValue;

use super::endpoint::{Form, Nothing, endpoint};
use super::stream::MOST_VIEWERS;
use super::{Control, Reply};
use crate::contract::routes::Operation;
use crate::http::answer::answer;
use crate::state::engine::deliveries::DeliveryStatus;
use crate::state::journal::record::name_of;
use crate::state::journal::{LATENCY_BOUNDS, Tally};

endpoint! {
    /// Counters and gauges in the text format of Prometheus.
    Metrics: GET "metrics", Form::Other("text/plain"), Nothing, Nothing => String;
}

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(super) fn metrics(control: &Control) -> Reply {
    answer(StatusCode::OK, TEXT, text(control))
}

fn text(control: &Control) -> String {
    let (tally, fill) = (control.journal.tally(), control.journal.fill());
    let mut page = Page::default();
    page.family("build_info", "gauge", "The version, as a label.");
    page.sample("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.single("generation", "gauge", "Swaps of scenarios and profile, from 1.", control.library.load().number);
    push_requests(&mut page, &tally);
    page.single(
        "quota_refusals_total",
        "counter",
        "Requests refused because the quota was used up.",
        tally.quota_refusals,
    );
    page.single("events_total", "counter", "Events fired.", tally.events);
    page.family("deliveries_total", "counter", "Deliveries that ended, by outcome.");
    for status in [DeliveryStatus::Delivered, DeliveryStatus::Exhausted, DeliveryStatus::Cancelled] {
        let outcome = name_of(status);
        page.sample("deliveries_total", &[("outcome", outcome.as_str())], control.deliveries.settled(status));
    }
    let budget = control.journal.budget();
    page.single("memory_bytes", "gauge", "Bytes of everything that is kept, roughly.", budget.used());
    page.single("memory_limit_bytes", "gauge", "The limit of that, --max-memory-bytes.", budget.most());
    page.single("deliveries_bytes", "gauge", "Bytes of all deliveries, roughly.", control.deliveries.bytes());
    page.single("sink_bytes", "gauge", "Bytes in built-in receivers, roughly.", control.sinks.bytes());
    page.single(
        "deliveries_pending",
        "gauge",
        "Deliveries with an attempt under way or due.",
        control.deliveries.pending(),
    );
    let forgotten = control.deliveries.forgotten();
    page.single("deliveries_forgotten_total", "counter", "Finished deliveries that were evicted.", forgotten);
    let forgotten = control.sinks.forgotten();
    page.single("sink_deliveries_forgotten_total", "counter", "Deliveries evicted from built-in receivers.", forgotten);
    let left_out = control.emissions_left_out();
    page.single(
        "emissions_left_out_total",
        "counter",
        "Events of emissions left out, as too many were pending or planned.",
        left_out,
    );
    push_attempts(&mut page, &tally);
    page.single("workspaces", "gauge", "Workspaces kept.", control.registry.all().len());
    page.single("workspaces_evicted_total", "counter", "Workspaces that were evicted.", control.registry.evicted());
    let evicted = control.registry.tokens().evicted();
    page.single("access_tokens_evicted_total", "counter", "Access tokens that were evicted.", evicted);
    page.single("journal_entries", "gauge", "Entries in the journal.", fill.entries);
    page.single("journal_bytes", "gauge", "Bytes in the journal, roughly.", fill.bytes);
    page.single("journal_evicted_total", "counter", "Entries evicted from the journal.", tally.evicted);
    let viewers = MOST_VIEWERS.saturating_sub(control.viewers.available_permits());
    page.single("stream_viewers", "gauge", "Viewers that follow the event stream.", viewers);
    page.0
}

fn push_requests(page: &mut Page, tally: &Tally) {
    page.family("requests_total", "counter", "Requests to the emulated API, by operation and status class.");
    for (operation, class, count) in tally.requests().filter(|(_, _, count)| *count > 0) {
        let class = if class == 0 { "broken".to_owned() } else { format!("{class}xx") };
        let labels = [("operation", operation.map_or("none", Operation::name)), ("status", class.as_str())];
        page.sample("requests_total", &labels, count);
    }
}

fn push_attempts(page: &mut Page, tally: &Tally) {
    page.family("delivery_attempts_total", "counter", "Attempts to deliver, by outcome.");
    for (outcome, count) in [("accepted", tally.accepted), ("refused", tally.refused)] {
        page.sample("delivery_attempts_total", &[("outcome", outcome)], count);
    }
    for (reason, count) in &tally.failed {
        let reason = name_of(reason);
        page.sample("delivery_attempts_total", &[("outcome", reason.as_str())], count);
    }
    let name = "delivery_attempt_duration_seconds";
    page.family(name, "histogram", "How long attempts took, by the emulator's clock.");
    let mut below = 0;
    for (bound, count) in LATENCY_BOUNDS.iter().zip(tally.latencies) {
        below += count;
        let bound = seconds(*bound);
        page.sample(&format!("{name}_bucket"), &[("le", bound.as_str())], below);
    }
    let all: u64 = tally.latencies.iter().sum();
    page.sample(&format!("{name}_bucket"), &[("le", "+Inf")], all);
    page.sample(&format!("{name}_sum"), &[], tally.latency_sum.as_secs_f64());
    page.sample(&format!("{name}_count"), &[], all);
}

/// Milliseconds as seconds, without a rounding error.
fn seconds(millis: u64) -> String {
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A page in the text format.
#[derive(Default)]
struct Page(String);

impl Page {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_written_as_seconds() {
        let texts: Vec<String> = [5, 25, 100, 1_000, 2_500, 15_000].into_iter().map(seconds).collect();
        assert_eq!(texts, ["0.005", "0.025", "0.1", "1", "2.5", "15"]);
    }
}
