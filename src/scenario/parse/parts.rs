//! Parts of a request that templates name and no request has, as far as the operations of a rule show.

use super::Parser;
use super::advice::nearest_hint;
use super::reader::shown;
use crate::contract::openapi::query_parameters;
use crate::contract::routes::{Credential, ROUTES, Route};
use crate::scenario::matcher::{Subject, When};

/// What templates see of a request.
const PARTS: [&str; 7] = ["method", "path", "operation", "query", "headers", "body", "key"];

impl Parser<'_> {
    /// Warns of each part that is always missing from requests like these; `None` is an event, which has none.
    pub(super) fn warn_of_missing_parts(&mut self, when: Option<&When>) {
        for (span, path) in self.problems.take_request_paths() {
            let found = match when {
                None => Some((
                    "an event's data has no request".to_owned(),
                    "write the value, or a call such as {{ ulid() }}",
                )),
                Some(when) => self.missing_part(when, &path),
            };
            let Some((why, hint)) = found else { continue };
            let message = format!("`request.{}` is always empty: {why}", shown(&path.join(".")));
            let hint = match path.first() {
                Some(part) if when.is_some() && !PARTS.contains(&part.as_str()) => nearest_hint(part, &PARTS),
                _ => hint.to_owned(),
            };
            self.problems.warning("scenario/missing-part", span, message, hint);
        }
    }

    fn missing_part(&self, when: &When, path: &[String]) -> Option<(String, &'static str)> {
        const OTHERWISE: &str = "`| default(\"…\")` gives a value in its place";
        let part = path.first()?.as_str();
        let inner = path.get(1).map(String::as_str);
        let named = &when.operations;
        let routes = || ROUTES.iter().filter(|route| named.contains(&route.operation));
        let none_has = |has: fn(&Route) -> bool| !named.is_empty() && !routes().any(has);
        let names: Vec<&str> = named.iter().map(|operation| operation.name()).collect();
        let names = names.join(", ");
        match (part, inner) {
            ("method" | "path" | "operation" | "key", Some(_)) => Some((format!("`{part}` is a string"), OTHERWISE)),
            ("body", _) if none_has(Route::has_body) => Some((format!("`{names}` has no body"), OTHERWISE)),
            ("key", _) if none_has(|route| route.credential == Credential::Bearer) => {
                Some((format!("`{names}` takes no key"), OTHERWISE))
            }
            ("headers", Some("authorization")) => {
                Some(("credentials are never shown".to_owned(), "`request.key` gives the key"))
            }
            ("query", Some(name)) if !named.is_empty() => {
                let asked = when.conditions.iter().any(|known| known.subject == Subject::Query(name.into()));
                let has = asked
                    || routes()
                        .any(|route| query_parameters(route, &self.profile.api_shape()).iter().any(|own| own == name));
                (!has).then(|| (format!("`{names}` has no such query parameter"), OTHERWISE))
            }
            (part, _) if !PARTS.contains(&part) => Some(("a request has no such part".to_owned(), OTHERWISE)),
            _ => None,
        }
    }
}
