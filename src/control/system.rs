//! `GET health`, `GET ca.pem`, `GET openapi.json`, `GET metrics`: whether the emulator is ready, the certificate authority to trust,
//! the document of the control API, with the JSON Schema of run documents taken from it, and counters for Prometheus.
//!
//! Counters come from tallies beside the journal's entries, so they only rise. No label contains a key, a URL or an id.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::endpoint::{Form, Nothing, endpoint};
use super::render::Text;
use super::stream::MOST_VIEWERS;
use super::{Control, ControlError, Reply};
use crate::contract::routes::Operation;
use crate::http::answer::answer;
use crate::scenario::generation_text;
use crate::state::engine::deliveries::DeliveryStatus;
use crate::state::journal::record::name_of;
use crate::state::journal::{LATENCY_BOUNDS, Tally};

endpoint! {
    /// Whether the emulator is ready.
    Health: GET "health", Form::Masked, Nothing, Nothing => Ready;
    /// The authority made for --tls self-signed.
    CaPem: GET "ca.pem", Form::Other("application/x-pem-file"), Nothing, Nothing => String;
    /// This document.
    OpenApi: GET "openapi.json", Form::Plain, Nothing, Nothing => Map<String, Value>;
    /// Counters and gauges in the text format of Prometheus.
    Metrics: GET "metrics", Form::Other("text/plain"), Nothing, Nothing => String;
}

/// The emulator is ready.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Ready {
    #[cfg_attr(test, schemars(extend("const" = "ready")))]
    pub(crate) status: String,
    pub(crate) version: String,
    pub(crate) generation: u64,
    /// Whether all scenarios match their saved files.
    #[cfg_attr(test, schemars(extend("enum" = ["as saved", "last good"])))]
    pub(crate) scenarios: String,
}

impl Text for Ready {
    fn text(&self) -> String {
        let Self { status, version, generation, scenarios } = self;
        format!("{status} (version {version}, {}, scenarios {scenarios})\n", generation_text(*generation))
    }
}

pub(super) fn health(control: &Control) -> Ready {
    // A broken or deleted file leaves the last valid version active; only this field shows it.
    let scenarios = if control.library.is_as_saved() { "as saved" } else { "last good" };
    Ready {
        status: "ready".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        generation: control.library.load().number,
        scenarios: scenarios.to_owned(),
    }
}

pub(super) fn ca_pem(control: &Control) -> Result<Reply, ControlError> {
    match &control.ca_pem {
        None => Err(ControlError::not_found("no authority was made; start with --tls self-signed")),
        Some(pem) => {
            let pem_type = HeaderValue::from_static("application/x-pem-file");
            Ok(answer(StatusCode::OK, pem_type, pem.clone()))
        }
    }
}

/// The `OpenAPI` 3.1 document of the control API. A test makes the file from the table of calls and their types.
pub fn openapi_document() -> Map<String, Value> {
    serde_json::from_str(include_str!("openapi.json")).expect("a test has made it")
}

/// The JSON Schema of run documents, by itself.
pub fn run_schema() -> Value {
    let within = include_str!("openapi.json").replace("#/components/schemas/", "#/$defs/");
    let mut document: Value = serde_json::from_str(&within).expect("a test has made it");
    let mut rest = match document["components"]["schemas"].take() {
        Value::Object(schemas) => schemas,
        _ => Map::new(),
    };
    let mut root = rest.remove("Run").unwrap_or_default();
    // Only what a run document consists of, in the order in which it is named.
    let (mut definitions, mut names) = (Map::new(), referenced(&root));
    while let Some(name) = names.pop() {
        if let Some(schema) = rest.remove(&name) {
            names.extend(referenced(&schema));
            definitions.insert(name, schema);
        }
    }
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "Run".into();
    root["$defs"] = definitions.into();
    root
}

/// The names of the definitions that a schema refers to.
fn referenced(schema: &Value) -> Vec<String> {
    let text = schema.to_string();
    text.split("\"#/$defs/").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(super) fn metrics(control: &Control) -> Reply {
    answer(StatusCode::OK, TEXT, metrics_text(control))
}

fn metrics_text(control: &Control) -> String {
    let (tally, fill, budget) = (control.journal.tally(), control.journal.fill(), control.journal.budget());
    let (deliveries, registry) = (&control.deliveries, &control.registry);
    let viewers = MOST_VIEWERS.saturating_sub(control.viewers.available_permits());
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

fn push_requests(families: &mut Families, tally: &Tally) {
    families.family("requests_total", "counter", "Requests to the emulated API, by operation and status class.");
    for (operation, class, count) in tally.requests().filter(|(_, _, count)| *count > 0) {
        let class = if class == 0 { "broken".to_owned() } else { format!("{class}xx") };
        let labels = [("operation", operation.map_or("none", Operation::name)), ("status", class.as_str())];
        families.sample("requests_total", &labels, count);
    }
}

fn push_attempts(families: &mut Families, tally: &Tally) {
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
