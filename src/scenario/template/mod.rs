//! Templates in strings, such as `wf_{{ ulid() }}`: bounded in size, depth and work, fed by the workspace's clock and chance.
//!
//! Between `{{` and `}}` are paths (`request.body.url`, `now`, `now_unix`), literals, calls (`ulid()`, `uuid()`,
//! `random_int(low, high)`) and filters (`| default('none')`). There are no loops, no operators and no definitions: whatever a
//! template asks for costs no more than the bounds below. Knows nothing of events, scenarios or requests.
//! Reading order: this file, `parse`, `evaluate`.

mod evaluate;
mod parse;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::clock::{Random, Seed};
use crate::util::wording::shorten;
use evaluate::Evaluation;
use parse::Piece;

pub use evaluate::{Gap, MAX_TEXT};
pub use parse::{DEEPEST, MAX_SOURCE};

/// Maximum number of templates in one body.
pub const MAX_TEMPLATES: usize = 500;
/// Bytes that the templates of one body may handle together, in filters and as text made.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Bytes that a template may handle when it is tried.
const TRIAL_BYTES: usize = 4 * MAX_TEXT;

/// Renders every string in `values`, and returns the first few gaps: what gave an empty string instead of a value. `facts` are
/// the values that paths can begin with besides the time; a part that they lack, or that a filter cannot use, is an empty
/// string. `random` makes a source for what the templates draw, and is called only if there is a template. An error says what is
/// wrong with a template that cannot be read, for the person who wrote it.
pub fn render_map(
    values: &Map<String, Value>,
    facts: &Map<String, Value>,
    wall: Timestamp,
    random: impl FnOnce() -> Random,
) -> Result<(Map<String, Value>, Vec<Gap>), String> {
    if values.values().all(|value| template_bytes(value) == 0) {
        return Ok((values.clone(), Vec::new()));
    }
    let mut scope = Evaluation { facts, wall, random: random(), budget: MAX_BYTES, gaps: Vec::new() };
    let rendered = render_fields(values, &mut scope, &mut { MAX_TEMPLATES })?;
    Ok((rendered, scope.gaps))
}

/// A string with templates in it, read: its form is right, the names in it exist, and each call has its arguments.
#[derive(Debug)]
pub struct Template<'t> {
    text: &'t str,
    pieces: Vec<Piece<'t>>,
}

impl<'t> Template<'t> {
    pub fn parse(text: &'t str) -> Result<Self, String> {
        parse::parse(text).map(|pieces| Self { text, pieces })
    }

    /// Tries the template without a request. What fails in this trial fails with every request that lacks what the template
    /// names, and is a mistake of its author. A template that handles too much for a trial passes.
    pub fn try_out(&self) -> Result<(), String> {
        let (facts, random) = (Map::new(), Seed::from_number(0).source("trial"));
        let mut scope =
            Evaluation { facts: &facts, wall: Timestamp::UNIX_EPOCH, random, budget: TRIAL_BYTES, gaps: Vec::new() };
        scope.render(&self.pieces);
        match scope.gaps.iter().find_map(Gap::failure) {
            Some(failure) if scope.budget > 0 => Err(in_template(self.text, failure)),
            _ => Ok(()),
        }
    }

    /// The paths into the request that the template names without a default, each as its parts after `request`.
    pub fn request_paths(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        for piece in &self.pieces {
            if let Piece::Value(expression) = piece {
                expression.request_paths(&mut found);
            }
        }
        found
    }
}

/// True if a text has a template in it.
pub fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// How long the strings with templates in a value are together.
pub fn template_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) if is_template(text) => text.len(),
        Value::Array(values) => values.iter().map(template_bytes).sum(),
        Value::Object(values) => values.values().map(template_bytes).sum(),
        _ => 0,
    }
}

fn render_fields(
    values: &Map<String, Value>,
    scope: &mut Evaluation<'_>,
    templates: &mut usize,
) -> Result<Map<String, Value>, String> {
    values.iter().map(|(key, value)| Ok((key.clone(), render(value, scope, templates)?))).collect()
}

fn render(value: &Value, scope: &mut Evaluation<'_>, templates: &mut usize) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) if is_template(text) => {
            let left = templates.checked_sub(1);
            *templates = left.ok_or_else(|| format!("the templates of one body are more than {MAX_TEMPLATES}"))?;
            let pieces = parse::parse(text).map_err(|problem| in_template(text, &problem))?;
            Value::String(scope.render(&pieces))
        }
        Value::Array(values) => {
            Value::Array(values.iter().map(|value| render(value, scope, templates)).collect::<Result<_, _>>()?)
        }
        Value::Object(values) => Value::Object(render_fields(values, scope, templates)?),
        other => other.clone(),
    })
}

/// A problem with the beginning of the template that has it.
fn in_template(text: &str, problem: &str) -> String {
    const MAX_SHOWN: usize = 60;
    format!("template \"{}\": {problem}", shorten(text, MAX_SHOWN).escape_debug())
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use serde_json::json;

    use super::*;

    /// The text rendered for a request whose body has a text of this many bytes, or the first problem or failure.
    fn rendered_with(value: Value, bytes: usize) -> Result<Value, String> {
        let map = Map::from_iter([("x".to_owned(), value)]);
        let facts = json!({ "request": {
            "method": "POST",
            "body": {
                "url": "https://a.example", "list": [1, { "deep": true }], "x-y": "dash", "none": null,
                "big": "x".repeat(bytes),
            },
        } });
        let facts = facts.as_object().expect("an object");
        let (mut map, gaps) = render_map(&map, facts, Timestamp::UNIX_EPOCH, || Random::seed_from_u64(1))?;
        gaps.iter().find_map(Gap::failure).map_or_else(|| Ok(map["x"].take()), |failure| Err(failure.to_owned()))
    }

    fn rendered(value: Value) -> Result<Value, String> {
        rendered_with(value, 0)
    }

    #[test]
    fn paths_calls_and_filters_give_text() {
        for (template, expected) in [
            ("plain }} text", "plain }} text"),
            ("{{ now }}", "1970-01-01T00:00:00.000Z"),
            ("{{request.method}} {{ request.body.url }}", "POST https://a.example"),
            ("{{ request.body.list[0] }}{{ request.body.list.1.deep }}", "1true"),
            ("{{ request.body['x-y'] }} {{ request.body.x-y | upper }}", "dash DASH"),
            ("{{ request.body.list }}", r#"[1,{"deep":true}]"#),
            ("{{ 'a' }}{{ \"b\\\"\" }}{{ 1 }}{{ -2.5 }}{{ true }}", "ab\"1-2.5true"),
            ("{{ '{{' }}", "{{"),
            ("{{ '}}' | length }}", "2"),
            ("[{{ request.body.nothing }}{{ request.query.page.size }}]", "[]"),
            ("{{ request.body.nothing | default('none') }} {{ request.body.none | default(7) }}", "none 7"),
            ("{{ request.body.none }}", "null"),
            ("{{ ' A ' | trim | lower | json }}", "\"a\""),
            ("{{ now_unix | plus(60) }}", "60"),
            ("{{ random_int(3, 3) }}{{ random_int('4', 4 | plus(0)) }}", "34"),
            ("{{ request.body.list | length }}{{ ulid() | length }}", "226"),
        ] {
            assert_eq!(rendered(json!(template)), Ok(json!(expected)), "{template}");
        }
    }

    #[test]
    fn templates_are_bounded_in_number_depth_length_and_work() {
        let check = |value: Value, bytes: usize, expected: &str| match rendered_with(value, bytes) {
            Ok(_) => assert_eq!("", expected),
            Err(problem) => assert!(!expected.is_empty() && problem.contains(expected), "{problem}"),
        };
        check(json!(vec!["{{ now }}"; MAX_TEMPLATES]), 0, "");
        check(json!(vec!["{{ now }}"; MAX_TEMPLATES + 1]), 0, "more than 500");
        let nested = |count: usize| format!("{{{{ {}1{} }}}}", "random_int(".repeat(count), ", 1)".repeat(count));
        check(json!(nested(DEEPEST)), 0, "");
        check(json!(nested(DEEPEST + 1)), 0, "nested more than");
        check(json!(format!("{{{{ now }}}}{}", "x".repeat(MAX_SOURCE))), 0, "at most 4096 bytes");
        check(json!("{{ request.body.big }}"), MAX_TEXT, "");
        check(json!("{{ request.body.big }}"), MAX_TEXT + 1, "longer than 64 KiB");
        check(json!("{{ request.body }}"), MAX_TEXT, "longer than 64 KiB");
        check(json!(format!("{{{{ request.body.url{} }}}}", "|upper".repeat(600))), 0, "");
        check(json!(format!("{{{{ request.body.big{} }}}}", "|upper".repeat(600))), MAX_TEXT, "more than 1 MiB");
    }
}
