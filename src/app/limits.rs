//! The page `docs/limits.md`, generated from the constants in the code. Placeholders in the page and values passed here must
//! match, or it does not compile.

use std::time::Duration;

use super::{Settings, descriptors};
use crate::contract::{keys, preview, webhook_url};
use crate::control::limits as control;
use crate::engine::{deliveries, held, sink};
use crate::http::{BACKLOG, HALF_CLOSED};
use crate::profile::MOST_FORWARDS;
use crate::scenario::{LARGEST_FILE, limits as scenario};
use crate::webhook::{client, deliver, egress, resolve};
use crate::{cli, journal, rule_counters, tasks, template, workspace};

/// The page of all limits.
pub fn limits_markdown() -> String {
    let settings = Settings::default();
    let limits = settings.limits;
    format!(
        include_str!("limits.md"),
        header_bytes = bytes(limits.header_bytes),
        header_fields = count(limits.header_fields),
        uri_bytes = bytes(limits.uri_bytes),
        body_bytes = bytes(limits.body_bytes),
        snapshot_bytes = bytes(control::SNAPSHOT_BYTES),
        bodies_bytes = bytes(limits.body_bytes_in_all),
        connections = count(limits.connections),
        backlog = count(BACKLOG as usize),
        listen_connections = count(cli::LISTEN_CONNECTIONS),
        header_timeout = time(limits.header_timeout),
        body_timeout = time(limits.body_timeout),
        idle_timeout = time(limits.idle_timeout),
        write_timeout = time(limits.write_timeout),
        half_closed = time(HALF_CLOSED),
        grace = time(settings.grace),
        journal_entries = count(journal::MOST_ENTRIES),
        journal_bytes = bytes(journal::MOST_BYTES),
        journal_body = bytes(journal::KEPT_BODY),
        workspaces = count(workspace::MOST_WORKSPACES),
        key = count(keys::LONGEST_KEY),
        url = count(webhook_url::LONGEST_URL),
        subscriptions = count(workspace::MOST_SUBSCRIPTIONS),
        subscriptions_all = count(workspace::SUBSCRIPTIONS.count),
        subscriptions_bytes = bytes(workspace::SUBSCRIPTIONS.bytes),
        workflows = count(workspace::MOST_WORKFLOWS),
        label = count(preview::LONGEST_LABEL),
        workflows_all = count(workspace::WORKFLOWS.count),
        workflows_bytes = bytes(workspace::WORKFLOWS.bytes),
        tokens = count(workspace::MOST_TOKENS),
        scenario_keys = count(scenario::SCENARIO_KEYS),
        setting_keys = count(scenario::SETTING_KEYS),
        setting_entries = count(scenario::SETTING_ENTRIES),
        setting_bytes = bytes(scenario::SETTING_BYTES),
        settings_all = bytes(scenario::SETTING_BYTES_IN_ALL),
        activations = count(rule_counters::MOST_ACTIVATIONS),
        events = count(control::EVENTS),
        events_shown = count(control::EVENTS_SHOWN),
        events_shown_bytes = bytes(control::EVENTS_SHOWN_BYTES),
        pending = count(deliveries::MOST_PENDING),
        deliveries_bytes = bytes(held::MOST_BYTES),
        finished = count(deliveries::MOST_FINISHED),
        planned = count(workspace::MOST_PLANNED),
        sink = count(sink::KEPT),
        sinks = count(sink::MOST_NAMES),
        sink_bytes = bytes(sink::MOST_BYTES),
        answer = bytes(client::ANSWER_LIMIT),
        attempts = count(deliver::CONCURRENT_ATTEMPTS),
        look_ups = count(resolve::CONCURRENT_LOOK_UPS),
        look_ups_key = count(resolve::LOOK_UPS_PER_WORKSPACE),
        negative = time(resolve::NEGATIVE_TTL),
        kept = count(client::MOST_KEPT),
        kept_origin = count(client::IDLE_PER_ORIGIN),
        forwards = count(MOST_FORWARDS),
        known = count(egress::MOST_KNOWN),
        known_bytes = bytes(egress::MOST_KNOWN_BYTES),
        file = bytes(usize::try_from(LARGEST_FILE).unwrap_or(usize::MAX)),
        folder_files = count(scenario::FOLDER_FILES),
        folder_bytes = bytes(scenario::FOLDER_BYTES),
        weight = bytes(scenario::WEIGHT),
        inline = count(scenario::INLINE),
        inline_bytes = bytes(scenario::INLINE_BYTES),
        active = count(scenario::ACTIVE),
        named_bytes = bytes(scenario::NAMED_BYTES),
        named = count(scenario::NAMED),
        template_source = bytes(template::LONGEST_SOURCE),
        template_depth = count(template::DEEPEST),
        template_text = bytes(template::LONGEST_TEXT),
        templates = count(template::MOST_TEMPLATES),
        template_bytes = bytes(template::MOST_BYTES),
        blocking = count(tasks::MOST_AT_ONCE),
        reads = count(tasks::MOST_READS),
        wait = time(control::LONGEST_WAIT),
        viewers = count(control::VIEWERS),
        piece = count(control::PIECE_ENTRIES),
        piece_bytes = bytes(control::PIECE_BYTES),
        texts = count(control::SHARED_TEXTS),
        text_bytes = bytes(control::SHARED_TEXT_BYTES),
        retired = count(scenario::RETIRED),
        retired_bytes = bytes(scenario::RETIRED_BYTES),
        verdict = count(control::VERDICT_ENTRIES),
        mcp_line = bytes(cli::mcp_limits::LONGEST_LINE),
        mcp_batch = count(cli::mcp_limits::MOST_BATCHED),
        mcp_text = bytes(cli::mcp_limits::TEXT),
        mcp_wait = time(cli::mcp_limits::LONGEST_WAIT),
        run_records = count(control::RUN_RECORDS),
        run_bytes = bytes(control::RUN_BYTES),
        reserve = count(descriptors::RESERVE),
    )
}

/// Bytes in the largest unit that gives a whole number.
fn bytes(number: usize) -> String {
    [("MiB", 1024 * 1024), ("KiB", 1024)]
        .into_iter()
        .find(|(_, size)| number >= *size && number.is_multiple_of(*size))
        .map_or_else(|| format!("{} bytes", count(number)), |(unit, size)| format!("{} {unit}", count(number / size)))
}

/// A number with a comma at each thousand.
fn count(number: usize) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", count(number / 1_000), number % 1_000),
    }
}

fn time(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Run with `UPDATE_EXPECTED=1` to write the page again.
    #[test]
    fn the_page_is_in_step_with_the_constants() {
        crate::committed::compare("docs/limits.md", &limits_markdown());
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(
            [bytes(16 * 1024), bytes(64 << 20), bytes(1_000), bytes(1536)],
            ["16 KiB", "64 MiB", "1,000 bytes", "1,536 bytes"]
        );
        assert_eq!([count(7), count(1_024), count(10_000_007)], ["7", "1,024", "10,000,007"]);
        assert_eq!(time(Duration::from_millis(1_500)), "1.5 s");
    }
}
