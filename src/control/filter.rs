//! Filters of requests, for `GET requests` and `POST requests/wait`, and what differs in requests that do not match.

use std::sync::Arc;

use jiff::Timestamp;

use super::ControlError;
use super::api::{Integer, WaitForRequests, time};
use crate::contract::nearest;
use crate::contract::routes::{Operation, ROUTES};
use crate::state::journal::{Interest, Journal, RequestRecord};

/// The validated filters. `None` matches everything.
#[derive(Debug)]
pub(super) struct Filter<'a> {
    operation: Option<Operation>,
    status: Option<u16>,
    method: Option<&'a str>,
    path: Option<&'a str>,
    since: Since,
}

/// The point from which requests match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// Every request in the journal.
    Ever,
    /// From this time on, by the emulator's clock.
    Time(Timestamp),
    /// From this journal number on, for `now`: with a frozen clock, time could not separate requests before and after the call.
    Number(u64),
}

impl<'a> Filter<'a> {
    /// Validates the filters of a call; `now` means the end of this journal.
    pub(super) fn read(call: &'a WaitForRequests, journal: &Journal) -> Result<Self, ControlError> {
        let operation = call.operation.as_deref().map(operation_named).transpose().map_err(ControlError::invalid)?;
        let status = call.status.map(|Integer(status)| status);
        if let Some(status) = status.filter(|status| *status != 0 && !(100..=599).contains(status)) {
            let message = format!("status: expected 100 to 599, or 0 for a broken connection, found {status}");
            return Err(ControlError::invalid(message));
        }
        let since = match call.since.as_deref() {
            None => Since::Ever,
            Some("now") => Since::Number(journal.next_number()),
            Some(text) => Since::Time(text.parse().map_err(|_| {
                ControlError::invalid(format!(
                    "since: expected `now` or a timestamp such as 2026-01-31T09:30:00Z, found `{}`",
                    text.escape_debug()
                ))
            })?),
        };
        Ok(Self { operation, status, method: call.method.as_deref(), path: call.path.as_deref(), since })
    }

    /// The number of the first entry that can match.
    pub(super) fn first_number(&self) -> u64 {
        match self.since {
            Since::Number(number) => number,
            Since::Ever | Since::Time(_) => 0,
        }
    }

    /// What the journal needs to know so that requests that cannot match wake no waiter.
    pub(super) fn interest(&self, workspace: Option<Arc<str>>) -> Interest {
        Interest { workspace, operation: self.operation, status: self.status, path: self.path.map(str::to_owned) }
    }

    /// The fields of a request that differ, in words; empty if it matches.
    pub(super) fn differs(&self, number: u64, request: &RequestRecord) -> Vec<String> {
        let mut differs = Vec::new();
        let mut push = |field: &str, expected: &str, found: &str| {
            differs.push(format!("{field}: expected {expected}, found {}", found.escape_debug()));
        };
        let (method, target) = request.transcript.request_line();
        if let Some(operation) = self.operation.filter(|operation| request.operation != Some(*operation)) {
            push("operation", operation.name(), request.operation.map_or("none", Operation::name));
        }
        if let Some(expected) = self.method.filter(|expected| !method.eq_ignore_ascii_case(expected)) {
            push("method", expected, method);
        }
        let path = target.split('?').next().unwrap_or_default();
        if let Some(expected) = self.path.filter(|expected| path != *expected) {
            push("path", expected, path);
        }
        if let Some(expected) = self.status.filter(|expected| request.status != *expected) {
            push("status", &expected.to_string(), &request.status.to_string());
        }
        match self.since {
            Since::Time(since) if request.at < since => push("since", &time(since).0, &time(request.at).0),
            Since::Number(first) if number < first => push("since", "after the call", &time(request.at).0),
            _ => {}
        }
        differs
    }
}

/// An operation by its name. An unknown one is refused, as it would silently match nothing.
pub(crate) fn operation_named(name: &str) -> Result<Operation, String> {
    Operation::from_name(name).ok_or_else(|| {
        let hint = match nearest(name, ROUTES.iter().map(|route| route.operation.name())) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; for example `{}`", Operation::SystemStatus.name()),
        };
        format!("operation: there is no `{}`{hint}", name.escape_debug())
    })
}

/// A count that a call waits for.
pub(super) fn checked_count(count: Option<Integer<usize>>) -> Result<usize, ControlError> {
    /// The default size of the journal.
    const MOST: usize = 10_000;
    match count.map_or(1, |Integer(count)| count) {
        count @ 1..=MOST => Ok(count),
        count => Err(ControlError::invalid(format!("count: expected 1 to {MOST}, found {count}"))),
    }
}
