//! The filters that calls about requests have in common.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;

use super::ControlError;
use super::fields::Since;
use crate::contract::nearest;
use crate::contract::routes::{Operation, plain_path};
use crate::state::journal::record::time;
use crate::state::journal::{Journal, RequestInterest, RequestRecord};
use crate::util::wording::quoted;

/// The status of an answer, or 0 for a broken connection.
#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "a schema")]
pub(super) struct AnswerStatus(
    #[schemars(extend("maximum" = 599, "not" = { "minimum": 1, "maximum": 99 }, "examples" = [200]))] u16,
);

/// The filters of a call; `None` matches everything.
#[derive(Debug)]
pub(super) struct RequestFilter<'a> {
    operation: Option<Operation>,
    status: Option<u16>,
    method: Option<&'a str>,
    path: Option<&'a str>,
    since: Option<Timestamp>,
    /// The journal number from which requests match, for `now`: with a frozen clock, time could not separate requests before and after
    /// the call.
    pub(super) first: u64,
}

impl<'a> RequestFilter<'a> {
    /// Reads what filters have in common in a query and in a body; `now` means the end of this journal.
    pub(super) fn read(
        operation: Option<&str>,
        status: Option<u16>,
        since: Option<&Since>,
        journal: &Journal,
    ) -> Result<Self, ControlError> {
        let operation = operation.map(operation_named).transpose().map_err(ControlError::invalid)?;
        if let Some(status) = status.filter(|status| *status != 0 && !(100..=599).contains(status)) {
            let message = format!("status: expected 100 to 599, or 0 for a broken connection, found {status}");
            return Err(ControlError::invalid(message));
        }
        let since = since.map(|Since(since)| since.as_str());
        let first = if since == Some("now") { journal.next_number() } else { 0 };
        let since = since.filter(|since| *since != "now").map(|text| {
            let expected = "`now` or a timestamp such as 2026-01-31T09:30:00Z";
            text.parse().map_err(|_| ControlError::unexpected("since", expected, text))
        });
        Ok(Self { operation, status, method: None, path: None, since: since.transpose()?, first })
    }

    /// The same, with a method and a path.
    pub(super) fn of_target(self, method: Option<&'a str>, path: Option<&'a str>) -> Self {
        Self { method, path, ..self }
    }

    /// Conditions for the journal, so that requests that cannot match wake no waiter.
    pub(super) fn interest(&self, workspace: Option<Arc<str>>) -> RequestInterest {
        RequestInterest {
            workspace,
            operation: self.operation,
            status: self.status,
            path: self.path.map(str::to_owned),
        }
    }

    /// The fields of a request that differ, in words; empty if it matches.
    pub(super) fn differs(&self, number: u64, request: &RequestRecord) -> Vec<String> {
        let mut differs = Vec::new();
        let mut push = |field: &str, expected: &str, found: &str| {
            differs.push(format!("{field}: expected {expected}, found {}", quoted(found)));
        };
        let (method, target) = request.transcript.request_line();
        if let Some(operation) = self.operation.filter(|operation| request.operation != Some(*operation)) {
            push("operation", operation.name(), request.operation.map_or("none", Operation::name));
        }
        if let Some(expected) = self.method.filter(|expected| !method.eq_ignore_ascii_case(expected)) {
            push("method", expected, method);
        }
        let path = plain_path(target.split('?').next().unwrap_or_default());
        if let Some(expected) = self.path.filter(|expected| path != plain_path(expected)) {
            push("path", expected, &path);
        }
        if let Some(expected) = self.status.filter(|expected| request.status != *expected) {
            push("status", &expected.to_string(), &request.status.to_string());
        }
        if let Some(since) = self.since.filter(|since| request.at < *since) {
            push("since", &time(since).0, &time(request.at).0);
        }
        if number < self.first {
            push("since", "after the call", &time(request.at).0);
        }
        differs
    }
}

/// An operation by its name. An unknown one is refused, because it would silently match nothing.
pub(crate) fn operation_named(name: &str) -> Result<Operation, String> {
    Operation::from_name(name).ok_or_else(|| {
        let hint = match nearest(name, operation_names().into_iter()) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; for example `{}`", Operation::SystemStatus.name()),
        };
        format!("operation: there is no `{}`{hint}", quoted(name))
    })
}

pub(super) fn operation_names() -> Vec<&'static str> {
    Operation::ALL.map(Operation::name).to_vec()
}
