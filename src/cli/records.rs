//! `list` and `wait` of requests and deliveries: filters, pages, waiting, and following the event stream.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::arguments::CallArgs;
use super::client::{Call, fields};
use super::failure::{Code, Failure, note, warn};
use super::output::{End, cell, compact, is_printed, optional, print_as_is};
use super::value;
use crate::control::api::{DurationInput, Endpoint, List, Missed, Page, Restarted, Stream};
use crate::redact::visible_lines;

/// One kind of records: the flags that filter them, named as in the control API, and how they are printed.
pub(super) trait Records: Args + Serialize {
    /// A record as a row.
    type Row;
    /// The call that lists them.
    type List: Endpoint<Answer = Page<Self::Row>>;
    /// The call that waits for them.
    type Wait: Endpoint<Answer = List<Self::Row>>;
    /// Their form in the event stream.
    type Streamed: DeserializeOwned;
    /// Their plural.
    const NAME: &'static str;
    /// The kind of their events in the stream.
    const EVENT: &'static str;
    /// The help of `--follow`.
    const FOLLOW: &'static str;
    /// The flags that conflict with `--follow`.
    const PAGED: &'static [&'static str];

    /// The key given by `--key`, or `*`.
    fn key(&self) -> &str;
    /// Rows as a table.
    fn table(rows: &[Self::Row]) -> String;
    /// A record of the event stream on one line.
    fn line(streamed: &Self::Streamed) -> String;
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs<R: Records> {
    #[command(flatten)]
    common: CallArgs,
    #[command(flatten)]
    filter: R,
    /// At most this many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Continue after another page: its `next_cursor`.
    #[arg(long)]
    cursor: Option<String>,
    #[arg(long, help = R::FOLLOW, conflicts_with_all = R::PAGED)]
    follow: bool,
}

/// Arguments of `wait`.
#[derive(Debug, Args)]
pub(super) struct WaitArgs<R: Records> {
    #[command(flatten)]
    common: CallArgs,
    #[command(flatten)]
    filter: R,
    /// How many must match.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// How long to wait, at most 300s.
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = value::duration)]
    timeout: String,
}

/// The requested page.
#[derive(Serialize)]
struct Paging<'a> {
    limit: u16,
    cursor: Option<&'a str>,
}

/// What `wait` waits for.
#[derive(Serialize)]
struct Awaited<'a, R> {
    #[serde(flatten)]
    filter: &'a R,
    count: u32,
    timeout: DurationInput,
}

impl<R: Records> ListArgs<R> {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        if self.follow {
            return self.follow();
        }
        let paging = Paging { limit: self.limit, cursor: self.cursor.as_deref() };
        let answer = self.call().query(&self.filter).query(&paging).send()?;
        let page: &Page<R::Row> = &answer.body;
        if page.data.is_empty() && !self.common.json && self.cursor.is_none() {
            self.explain_nothing()?;
        }
        let more = page.next_cursor.as_ref().map(|cursor| format!("… more: --cursor {cursor}\n"));
        Ok(answer.print_list(|page| R::table(&page.data) + &more.unwrap_or_default()))
    }

    fn call(&self) -> Call<'_, R::List> {
        self.common.call().key(self.filter.key())
    }

    /// Prints on stderr which filters match no record, and the values that exist.
    fn explain_nothing(&self) -> Result<(), Failure> {
        let given = fields(&self.filter);
        if given.is_empty() {
            return Ok(());
        }
        let all = self.call().query(&Paging { limit: 1000, cursor: None }).send()?.json();
        let rows = all.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if rows.is_empty() {
            note(&format!("there are no {} yet", R::NAME));
            return Ok(());
        }
        let mut is_explained = false;
        for (name, value) in &given {
            let known: BTreeSet<String> =
                rows.iter().flat_map(fields).filter(|(field, _)| field == name).map(|(_, value)| value).collect();
            if !known.is_empty() && !known.contains(value) {
                is_explained = true;
                let known: Vec<String> = known.iter().map(cell).collect();
                note(&format!("no {} with --{name} {value}; there are: {}", R::NAME, known.join(", ")));
            }
        }
        if !is_explained {
            let flags: Vec<String> = given.iter().map(|(name, value)| format!("--{name} {value}")).collect();
            note(&format!("no {} match {}", R::NAME, flags.join(" ")));
        }
        Ok(())
    }

    /// Prints each record as it happens, until interrupted: as a JSON object a line, or as a line of text.
    fn follow(&self) -> Result<ExitCode, Failure> {
        let (json, mut end) = (self.common.json, End { truncated: false, shown: 0, rest: Map::new() });
        Call::<Stream>::to(&self.common.target).key(self.filter.key()).follow(|found, data| {
            let gap = match found {
                "skipped" => read(data).map(|Missed { missed }| format!("{missed} records were missed")),
                "restarted" => read(data).map(|Restarted { message }| message),
                _ => None,
            };
            let line = match gap {
                Some(gap) if json => {
                    end.truncated = true;
                    warn(&gap);
                    return true;
                }
                Some(gap) => format!("… {gap}"),
                None if found != R::EVENT => return true,
                None if json => read::<Value>(data).map_or_else(|| compact(&data), |data| compact(&data)),
                // A record of an unknown form is printed as received.
                None => read(data).map_or_else(|| cell(data), |data| R::line(&data)),
            };
            end.shown += 1;
            is_printed(&(visible_lines(&line) + "\n"))
        })?;
        if json {
            print_as_is(&(compact(&end) + "\n"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn read<T: DeserializeOwned>(data: &str) -> Option<T> {
    serde_json::from_slice(data.as_bytes()).ok()
}

impl<R: Records> WaitArgs<R> {
    /// Waits; on timeout it fails and shows the nearest records.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let awaited = Awaited { filter: &self.filter, count: self.count, timeout: DurationInput(self.timeout.clone()) };
        let call: Call<'_, R::Wait> = self.common.call().key(self.filter.key()).body(&awaited);
        // Longer than the longest wait of the emulator, so that its own timeout is reported.
        let refusal = match call.limit(Duration::from_secs(330)).outcome()? {
            Ok(answer) => return Ok(answer.print_list(|found| R::table(&found.data))),
            Err(refusal) => refusal,
        };
        let mut nearest = String::new();
        for near in refusal.error.nearest.iter().flatten() {
            let request = near.request.as_ref().map(|request| &request.id.0);
            let id = request.or(near.delivery.as_ref().map(|delivery| &delivery.id.0));
            let differs: Vec<String> = near.differs.iter().map(cell).collect();
            nearest.push_str(&format!("\n  {}: {}", optional(id), differs.join("; ")));
        }
        let failure = refusal.into_failure();
        let status = if failure.code == Code::TimedOut { 1 } else { failure.status };
        Err(Failure { status, message: failure.message + &nearest, ..failure })
    }
}
