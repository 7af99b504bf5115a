//! The contract's answers that a run got: for each operation, the statuses by which the API answers it, and how many requests got each. A status
//! that no request got names what makes one get it.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::error::ErrorKind;
use crate::contract::openapi::statuses_of_api;
use crate::contract::routes::{Credential, Operation, ROUTES, Route};
use crate::scenario::ScenarioSnapshot;
use crate::state::journal::RequestRecord;
use crate::util::wording::counted;

/// An operation, with the statuses that answer it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct GridRow {
    pub(crate) operation: String,
    pub(crate) method: String,
    pub(crate) path: String,
    /// In the order of their statuses: those of the API, and others that a request got.
    pub(crate) cells: Vec<GridCell>,
}

/// How many requests of an operation got a status.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct GridCell {
    pub(crate) status: u16,
    pub(crate) requests: usize,
    /// True for an answer of the API itself; any other came from a scenario, or from HTTP alone.
    pub(crate) of_api: bool,
    /// How to get it; absent if a request did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gap: Option<StatusGap>,
}

/// How to get a status.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct StatusGap {
    /// The scenario that answers every request of the operation with the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scenario: Option<String>,
    /// The advice, in words.
    pub(crate) advice: String,
}

/// The requests that got each status of each operation.
#[derive(Default)]
pub(super) struct MetStatuses(BTreeMap<(Operation, u16), usize>);

impl MetStatuses {
    /// A request whose connection was broken got none.
    pub(super) fn count(&mut self, request: &RequestRecord) {
        if let (Some(operation), None) = (request.operation, request.broken) {
            *self.0.entry((operation, request.status)).or_default() += 1;
        }
    }

    /// The grid, with the scenarios that fill its gaps.
    pub(super) fn grid(self, snapshot: &ScenarioSnapshot) -> Vec<GridRow> {
        let scenarios: Vec<_> = snapshot.names().iter().filter_map(|name| snapshot.find(name)).collect();
        let row = |route: &'static Route| {
            let of_api: Vec<u16> = statuses_of_api(route).collect();
            let mut cells: BTreeMap<u16, usize> = of_api.iter().map(|status| (*status, 0)).collect();
            let met = self.0.range((route.operation, 0)..=(route.operation, u16::MAX));
            cells.extend(met.map(|((_, status), requests)| (*status, *requests)));
            let cell = |(status, requests)| {
                let answers = |operation| scenarios.iter().find(|it| it.answers_first(operation) == Some(status));
                let gap = || match answers(route.operation) {
                    Some(scenario) => StatusGap {
                        scenario: Some(scenario.name.to_string()),
                        advice: format!("play the scenario `{}`, then make a valid request", scenario.name),
                    },
                    None => StatusGap { scenario: None, advice: without_scenario(route, status) },
                };
                GridCell { status, requests, of_api: of_api.contains(&status), gap: (requests == 0).then(gap) }
            };
            GridRow {
                operation: route.operation.name().to_owned(),
                method: route.method.to_string(),
                path: route.path.to_owned(),
                cells: cells.into_iter().map(cell).collect(),
            }
        };
        ROUTES.iter().map(row).collect()
    }
}

/// How to get a status with which no scenario answers.
fn without_scenario(route: &Route, status: u16) -> String {
    let Route { method, path, .. } = route;
    if status < 400 {
        let key = if route.credential == Credential::Bearer { " with a test key" } else { "" };
        return format!("a valid request{key}: {method} {path}");
    }
    let kind = ErrorKind::ALL.into_iter().find(|kind| kind.status() == status);
    let reply = kind.map_or_else(|| format!("status = {status}"), |kind| format!("error = \"{}\"", kind.name()));
    let operation = route.operation.name();
    format!(
        "a scenario with the line `rule = [{{ when = {{ operation = \"{operation}\" }}, reply = {{ {reply} }} }}]`, then a valid request"
    )
}

/// The grid in words.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Coverage {
    /// How many of the contract's answers requests got.
    pub(crate) summary: String,
    /// How to get the others, by their status.
    pub(crate) gaps: Vec<SharedGap>,
}

/// A status that no request of some operations got, and what to do for all of them.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct SharedGap {
    pub(crate) status: u16,
    pub(crate) operations: Vec<String>,
    pub(crate) gap: StatusGap,
}

impl Coverage {
    pub(crate) fn of(rows: &[GridRow]) -> Self {
        let (mut met, mut all) = (0_usize, 0_usize);
        let mut gaps: BTreeMap<u16, Vec<SharedGap>> = BTreeMap::new();
        let mut known: HashMap<(u16, &str), usize> = HashMap::new();
        for (row, cell) in rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell))) {
            all += usize::from(cell.of_api);
            met += usize::from(cell.of_api && cell.requests > 0);
            let (status, Some(gap)) = (cell.status, &cell.gap) else { continue };
            let shared = gaps.entry(status).or_default();
            let at = *known.entry((status, &gap.advice)).or_insert(shared.len());
            match shared.get_mut(at) {
                Some(shared) => shared.operations.push(row.operation.clone()),
                None => shared.push(SharedGap { status, operations: vec![row.operation.clone()], gap: gap.clone() }),
            }
        }
        let summary = format!("{met} of {} of the contract met", counted(all, "answer"));
        Self { summary, gaps: gaps.into_values().flatten().collect() }
    }
}

/// The statuses of each operation with the number of requests, as lines of two cells.
pub(crate) fn grid_rows(rows: &[GridRow]) -> Vec<[String; 2]> {
    let cell = |GridCell { status, requests, .. }: &GridCell| match requests {
        0 => format!("no {status}"),
        requests => format!("{status} × {requests}"),
    };
    let line = |row: &GridRow| {
        let cells: Vec<String> = row.cells.iter().map(cell).collect();
        [row.operation.clone(), cells.join(", ")]
    };
    rows.iter().map(line).collect()
}
