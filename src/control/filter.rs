//! Which requests a call means: the filters of `GET requests` and of `POST requests/wait`, and what differs where one does
//! not fit.

use jiff::Timestamp;

use super::ControlError;
use super::api::{Integer, time};
use crate::contract::nearest;
use crate::contract::routes::{Operation, ROUTES};
use crate::journal::{Interest, Journal, RequestRecord};

/// The filters as a call sends them, each optional.
#[derive(Debug, Default)]
pub(super) struct FilterText {
    pub(super) operation: Option<String>,
    pub(super) status: Option<u16>,
    pub(super) method: Option<String>,
    pub(super) path: Option<String>,
    pub(super) since: Option<String>,
}

/// The filters, checked. What is `None` fits everything.
#[derive(Debug)]
pub(super) struct Filter {
    operation: Option<Operation>,
    status: Option<u16>,
    method: Option<String>,
    path: Option<String>,
    since: Since,
}

/// From when on requests count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// Whatever the journal holds.
    Ever,
    /// Arrived at this time or later, by the emulator's clock.
    Time(Timestamp),
    /// Numbered so or higher: what comes after the call. A frozen clock could not tell that.
    Number(u64),
}

impl Filter {
    /// Checks the filters; `now` means the end of this journal.
    pub(super) fn read(text: FilterText, journal: &Journal) -> Result<Self, ControlError> {
        let operation = text.operation.as_deref().map(operation_named).transpose()?;
        if let Some(status) = text.status.filter(|status| *status != 0 && !(100..=599).contains(status)) {
            let message = format!("status: expected 100 to 599, or 0 for a broken connection, found {status}");
            return Err(ControlError::invalid(message));
        }
        let since = match text.since.as_deref() {
            None => Since::Ever,
            Some("now") => Since::Number(journal.next_number()),
            Some(text) => Since::Time(text.parse().map_err(|_| {
                ControlError::invalid(format!(
                    "since: expected `now` or a timestamp such as 2026-01-31T09:30:00Z, found `{}`",
                    text.escape_debug()
                ))
            })?),
        };
        Ok(Self { operation, status: text.status, method: text.method, path: text.path, since })
    }

    /// The number of the first entry that can fit, however long the journal is.
    pub(super) fn first_number(&self) -> u64 {
        match self.since {
            Since::Number(number) => number,
            Since::Ever | Since::Time(_) => 0,
        }
    }

    /// What the journal needs to know to wake nobody for a request that cannot fit.
    pub(super) fn interest(&self, workspace: Option<&str>) -> Interest {
        Interest::new(workspace, self.operation, self.status, self.path.as_deref())
    }

    /// What a request has otherwise, field by field; nothing where it fits.
    pub(super) fn differs(&self, number: u64, request: &RequestRecord) -> Vec<String> {
        let mut differs = Vec::new();
        let mut push = |field: &str, wanted: &str, found: &str| {
            differs.push(format!("{field}: wanted {wanted}, found {}", found.escape_debug()));
        };
        let (method, target) = request.transcript.request_line();
        if let Some(operation) = self.operation.filter(|operation| request.operation != Some(*operation)) {
            push("operation", operation.name(), request.operation.map_or("none", Operation::name));
        }
        if let Some(wanted) = self.method.as_deref().filter(|wanted| !method.eq_ignore_ascii_case(wanted)) {
            push("method", wanted, method);
        }
        let path = target.split('?').next().unwrap_or_default();
        if let Some(wanted) = self.path.as_deref().filter(|wanted| path != *wanted) {
            push("path", wanted, path);
        }
        if let Some(wanted) = self.status.filter(|wanted| request.status != *wanted) {
            push("status", &wanted.to_string(), &request.status.to_string());
        }
        match self.since {
            Since::Time(since) if request.at < since => push("since", &time(since).0, &time(request.at).0),
            Since::Number(first) if number < first => push("since", "after the call", &time(request.at).0),
            _ => {}
        }
        differs
    }
}

/// An operation by its name; a slip of the keyboard would otherwise find nothing and say nothing.
fn operation_named(name: &str) -> Result<Operation, ControlError> {
    Operation::from_name(name).ok_or_else(|| {
        let hint = match nearest(name, ROUTES.iter().map(|route| route.operation.name())) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; for example `{}`", Operation::SystemStatus.name()),
        };
        ControlError::invalid(format!("operation: there is no `{}`{hint}", name.escape_debug()))
    })
}

/// A count that a call waits for.
pub(super) fn checked_count(count: Option<Integer<usize>>) -> Result<usize, ControlError> {
    /// As many as the journal holds by default.
    const MOST: usize = 10_000;
    match count.map_or(1, |Integer(count)| count) {
        count @ 1..=MOST => Ok(count),
        count => Err(ControlError::invalid(format!("count: expected 1 to {MOST}, found {count}"))),
    }
}
