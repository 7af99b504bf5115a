//! Requests to the emulated API as the journal has them: listed, shown, awaited, cleared.

use serde::{Deserialize, Serialize};

use super::{
    Connection, DurationInput, Empty, Form, Integer, KeyField, List, Nothing, Page, Request, RequestWhole, body_text,
    endpoint, header_text,
};
use crate::control::render::{Row, Text, cell, optional, table, warnings};

endpoint! {
    /// Requests, newest first.
    ListRequests: GET "requests", Form::Masked, RequestsQuery, Nothing => Page<Request>;
    /// Wait until so many requests match.
    WaitRequests: POST "requests/wait", Form::Masked, Nothing, WaitForRequests => List<Request>;
    /// One request and its answer, whole.
    ShowRequest: GET "requests/{id}", Form::Masked, Nothing, Nothing => RequestWhole;
    /// Clear the journal.
    ClearRequests: DELETE "requests", Form::Masked, Nothing, Empty => Cleared;
}

/// Which requests are listed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RequestsQuery {
    #[cfg_attr(test, schemars(range(min = 1, max = 1000), with = "Option<u16>", extend("default" = 20)))]
    pub(crate) limit: Option<String>,
    /// The `next_cursor` of another page.
    #[cfg_attr(test, schemars(regex(pattern = "^[0-9]{1,18}$")))]
    pub(crate) cursor: Option<String>,
    #[cfg_attr(test, schemars(extend("enum" = operation_names())))]
    pub(crate) operation: Option<String>,
    /// 100 to 599, or 0 for a broken connection.
    #[cfg_attr(test, schemars(with = "Option<Status>"))]
    pub(crate) status: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<Since>"))]
    pub(crate) since: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
}

/// Which requests are awaited, and how many.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitForRequests {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    #[cfg_attr(test, schemars(extend("enum" = operation_names())))]
    pub(crate) operation: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<Status>"))]
    pub(crate) status: Option<Integer<u16>>,
    /// 1 if absent.
    #[cfg_attr(test, schemars(range(min = 1, max = 10_000)))]
    pub(crate) count: Option<Integer<usize>>,
    /// If absent, requests already in the journal count, too.
    #[cfg_attr(test, schemars(with = "Option<Since>"))]
    pub(crate) since: Option<String>,
    /// 10s if absent.
    pub(crate) timeout: Option<DurationInput>,
}

/// The status of an answer, or 0 for a broken connection.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct Status(
    #[cfg_attr(test, schemars(extend("anyOf" = [{ "const": 0 }, { "minimum": 100, "maximum": 599 }])))] u16,
);

/// `now`, or the time from which requests count.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct Since(
    #[cfg_attr(test, schemars(extend("anyOf" = [{ "const": "now" }, { "format": "date-time" }])))] String,
);

/// The journal was cleared.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Cleared {
    #[cfg_attr(test, schemars(extend("const" = true)))]
    pub(crate) cleared: bool,
}

impl Request {
    /// The columns of a listing, and with spaces between them a line of the event stream.
    pub(crate) fn columns(&self) -> [String; 7] {
        let status = self.broken.clone().unwrap_or_else(|| self.status.to_string());
        let key = optional(self.key.as_ref());
        [cell(&self.id), cell(&self.at), key, status, cell(&self.method), cell(&self.path), cell(&self.reason)]
    }
}

impl Row for Request {
    fn table(rows: &[Self]) -> String {
        table(["ID", "AT", "KEY", "STATUS", "METHOD", "PATH", "REASON"], rows.iter().map(Self::columns))
    }
}

/// A request and its answer, as on the wire.
impl Text for RequestWhole {
    fn text(&self) -> String {
        let (row, answer) = (&self.row, &self.answer);
        let [id, at, key, status, method, _, reason] = row.columns();
        format!(
            "{method} {}\n{}\n{}\n\n{status}\n{}\n{}\n\nat {at}, {} ms, key {key}, reason {reason}\n{}{}\
             wrs-emulator explain {id} shows why\n",
            cell(row.target()),
            header_text(&self.headers),
            body_text(&self.body),
            header_text(&answer.headers),
            body_text(&answer.body),
            row.latency_ms,
            self.connection.as_ref().map(Connection::line).unwrap_or_default(),
            warnings(&self.warnings),
        )
    }
}

impl Connection {
    fn line(&self) -> String {
        let begun = match &self.first_byte_at {
            Some(at) => format!("first byte at {at}"),
            None => "sent together with the request before it".to_owned(),
        };
        let answered = self.answered_at.as_ref();
        let answered = answered.map_or_else(|| "answer not written".to_owned(), |at| format!("answered at {at}"));
        format!("request {} on connection {}: {begun}, {answered}\n", self.sequence, self.number)
    }
}

impl Text for Cleared {
    fn text(&self) -> String {
        "the journal is cleared\n".to_owned()
    }
}

/// The operations of the emulated API.
#[cfg(test)]
fn operation_names() -> Vec<&'static str> {
    crate::contract::routes::ROUTES.iter().map(|route| route.operation.name()).collect()
}
