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
use evaluate::Scope;
use parse::Piece;

pub use evaluate::{Gap, LONGEST_TEXT};
pub use parse::{DEEPEST, LONGEST_SOURCE};

/// Most templates in one body.
pub const MOST_TEMPLATES: usize = 500;
/// Bytes that the templates of one body may handle together, in filters and as text made.
pub const MOST_BYTES: usize = 1024 * 1024;

/// Bytes that a template may handle when it is tried.
const TRIAL_BYTES: usize = 4 * LONGEST_TEXT;

/// A template that cannot be read: what is wrong, for the person who wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateProblem {
    message: String,
}

/// Renders every string in `values`, and returns the first few gaps: what gave an empty string in place of a value. `facts` are
/// the values that paths can begin with besides the time; a part that they lack, or that a filter cannot use, is an empty
/// string. `random` makes a source for what the templates draw, and is called only if there is a template.
pub fn render_map(
    values: &Map<String, Value>,
    facts: &Map<String, Value>,
    wall: Timestamp,
    random: impl FnOnce() -> Random,
) -> Result<(Map<String, Value>, Vec<Gap>), TemplateProblem> {
    if values.values().all(|value| template_bytes(value) == 0) {
        return Ok((values.clone(), Vec::new()));
    }
    let mut scope = Scope { facts, wall, random: random(), budget: MOST_BYTES, gaps: Vec::new() };
    let mut templates = MOST_TEMPLATES;
    let mut rendered = Map::new();
    for (key, value) in values {
        rendered.insert(key.clone(), render(value, &mut scope, &mut templates)?);
    }
    Ok((rendered, scope.gaps))
}

/// A string with templates in it, read: its form is right, the names in it exist, and each call has its arguments.
#[derive(Debug)]
pub struct Template<'t> {
    text: &'t str,
    pieces: Vec<Piece<'t>>,
}

impl<'t> Template<'t> {
    pub fn parse(text: &'t str) -> Result<Self, TemplateProblem> {
        parse::parse(text).map(|pieces| Self { text, pieces }).map_err(|message| TemplateProblem { message })
    }

    /// Tries the template without a request. What fails in this trial fails with every request that lacks what the template
    /// names, and is a mistake of its author. A template that handles too much for a trial passes.
    pub fn try_out(&self) -> Result<(), TemplateProblem> {
        let (facts, random) = (Map::new(), Seed::from_number(0).source("trial"));
        let mut scope =
            Scope { facts: &facts, wall: Timestamp::UNIX_EPOCH, random, budget: TRIAL_BYTES, gaps: Vec::new() };
        scope.render(&self.pieces);
        match scope.gaps.iter().find_map(Gap::failure) {
            Some(failure) if scope.budget > 0 => Err(in_template(self.text, failure)),
            _ => Ok(()),
        }
    }

    /// The paths into the request that the template names without a default, each as its steps after `request`.
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

/// Whether a text has a template in it.
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

fn render(value: &Value, scope: &mut Scope<'_>, templates: &mut usize) -> Result<Value, TemplateProblem> {
    Ok(match value {
        Value::String(text) if is_template(text) => {
            let left = templates.checked_sub(1);
            *templates = left.ok_or_else(|| TemplateProblem {
                message: format!("the templates of one body are more than {MOST_TEMPLATES}"),
            })?;
            let pieces = parse::parse(text).map_err(|problem| in_template(text, &problem))?;
            Value::String(scope.render(&pieces))
        }
        Value::Array(values) => {
            Value::Array(values.iter().map(|value| render(value, scope, templates)).collect::<Result<_, _>>()?)
        }
        Value::Object(values) => Value::Object(
            values
                .iter()
                .map(|(key, value)| Ok((key.clone(), render(value, scope, templates)?)))
                .collect::<Result<_, _>>()?,
        ),
        other => other.clone(),
    })
}

/// A problem with the beginning of the template that has it.
fn in_template(text: &str, problem: &str) -> TemplateProblem {
    const MOST_SHOWN: usize = 60;
    let shown: String = text.chars().take(MOST_SHOWN).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    TemplateProblem { message: format!("template \"{}{more}\": {problem}", shown.escape_debug()) }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use serde_json::json;

    use super::*;

    fn check_template(text: &str) -> Result<(), TemplateProblem> {
        Template::parse(text).map(drop)
    }

    /// What is rendered, or the first problem or failure.
    fn strictly(
        map: &Map<String, Value>,
        facts: &Map<String, Value>,
        random: &mut Random,
    ) -> Result<Map<String, Value>, String> {
        let rendered = render_map(map, facts, Timestamp::UNIX_EPOCH, || random.fork());
        let (map, gaps) = rendered.map_err(|problem| problem.to_string())?;
        gaps.iter().find_map(Gap::failure).map_or(Ok(map), |failure| Err(failure.to_owned()))
    }

    fn rendered(value: Value) -> Result<Value, String> {
        let map = json!({ "x": value });
        let facts = json!({ "request": {
            "method": "POST",
            "body": { "url": "https://a.example", "list": [1, { "deep": true }], "x-y": "dash", "none": null },
        } });
        let mut random = Seed::from_number(1).source("test");
        let (map, facts) = (map.as_object().expect("an object"), facts.as_object().expect("an object"));
        strictly(map, facts, &mut random).map(|map| map["x"].clone())
    }

    #[test]
    fn strings_are_rendered_and_repeatable() {
        let first = rendered(json!(["wf_{{ ulid() }}", { "at": "{{ now }}" }, 3])).expect("the template is valid");
        assert_eq!(Ok(first.clone()), rendered(json!(["wf_{{ ulid() }}", { "at": "{{ now }}" }, 3])));
        assert_eq!(first[1]["at"], "1970-01-01T00:00:00.000Z");
        assert_eq!(first[0].as_str().map(str::len), Some(29));
        assert_eq!(rendered(json!("plain }} text")), Ok(json!("plain }} text")));
    }

    #[test]
    fn paths_calls_and_filters_give_text() {
        for (template, expected) in [
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
            ("{{ request.body.list | length }}", "2"),
        ] {
            assert_eq!(rendered(json!(template)), Ok(json!(expected)), "{template}");
            assert_eq!(check_template(template), Ok(()), "{template}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (template, expected) in [
            ("{{ ulid( }}", "expected a name, a number or a string in quotes, found `}}`"),
            ("{{ uild() }}", "unknown function `uild`; did you mean `ulid`?"),
            ("{{ now | uper }}", "unknown filter `uper`; did you mean `upper`?"),
            ("{{ nothing }}", "unknown name `nothing`; there are now, now_unix, request"),
            ("{{ random_int(1) }}", "the function `random_int` takes 2 arguments, found 1"),
            ("{% if true %}x{% endif %}", "there are no statements such as `{% if %}`"),
            ("{{ 1 + 1 }}", "expected `}}`, found `+ 1 }}`"),
            ("{{ 'x", "the string is not closed: expected '"),
            ("{{ now", "expected `}}`, found the end"),
            ("{{ request[now] }}", "expected a position or a name in quotes after `[`, found `now] }}`"),
            ("{{ 1-1 }}", "`1-1` is not a number"),
        ] {
            let problem = check_template(template).expect_err(template).to_string();
            assert!(problem.contains(expected), "{template}: {problem}");
            assert!(rendered(json!(template)).expect_err(template).contains(expected), "{template}");
        }
    }

    #[test]
    fn what_fails_without_a_request_is_found_by_a_trial() {
        for (template, expected) in [
            ("{{ 'x' | plus(1) }}", Some("`plus` needs a whole number before it")),
            ("{{ now | plus(1) }}", Some("`plus` needs a whole number before it")),
            ("{{ request.body.n | plus('x') }}", Some("`plus` needs a whole number as argument")),
            ("{{ request.body.n | default('x') | plus(1) }}", Some("`plus` needs a whole number before it")),
            ("{{ random_int('a', 2) }}", Some("`random_int` needs whole numbers")),
            ("{{ request.body.n | upper | plus(1) }}", None),
            ("{{ request.body.n | plus(request.body.m) }}", None),
            ("{{ 4 | plus(1) }}", None),
        ] {
            let tried = Template::parse(template).expect("it can be read").try_out();
            let found = tried.err().map(|problem| problem.to_string());
            assert_eq!(found.is_some(), expected.is_some(), "{template}: {found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{template}");
        }
    }

    #[test]
    fn once_the_budget_is_used_up_nothing_more_is_done() {
        let big = json!({ "request": { "body": { "big": "x".repeat(LONGEST_TEXT) } } });
        let map = json!({ "x": vec![format!("{{{{ request.body.big{} }}}}", "|json".repeat(20)); 400] });
        let (map, facts) = (map.as_object().expect("an object"), big.as_object().expect("an object"));
        let random = || Seed::from_number(1).source("test");
        let (rendered, gaps) = render_map(map, facts, Timestamp::UNIX_EPOCH, random).expect("it is rendered");
        assert!(rendered["x"].as_array().expect("a list").iter().all(|text| text == ""), "each is too long");
        assert!(gaps.iter().filter_map(Gap::failure).any(|failure| failure.contains("more than 1 MiB")), "{gaps:?}");
    }

    #[test]
    fn templates_are_bounded_in_depth_and_length() {
        let nested = |count: usize| format!("{{{{ {}1{} }}}}", "random_int(".repeat(count), ", 1)".repeat(count));
        assert_eq!(check_template(&nested(DEEPEST)), Ok(()));
        for template in [nested(DEEPEST + 1), format!("{{{{ now }}}}{}", "x".repeat(LONGEST_SOURCE))] {
            check_template(&template).expect_err(&template);
            rendered(json!(template)).expect_err(&template);
        }
    }

    #[test]
    fn everything_is_paid_for_from_one_budget() {
        let filters = format!("{{{{ request.body.url{} }}}}", "|upper".repeat(600));
        assert!(rendered(json!(filters)).is_ok(), "many filters over a short text");
        let wide = format!("{{{{ request.body.big{} }}}}", "|upper".repeat(600));
        let facts = |size: usize| json!({ "request": { "body": { "big": "x".repeat(size) } } });
        let with_big = |template: &str, size: usize| {
            let (map, facts) = (json!({ "x": template }), facts(size));
            let (map, facts) = (map.as_object().expect("an object"), facts.as_object().expect("an object"));
            let mut random = Seed::from_number(1).source("test");
            strictly(map, facts, &mut random)
        };
        assert!(with_big(&wide, LONGEST_TEXT).expect_err("too much work").contains("more than 1 MiB"));
        let problem = with_big("{{ request.body.big }}", LONGEST_TEXT + 1).expect_err("too long");
        assert!(problem.contains("longer than 64 KiB"), "{problem}");
        assert!(with_big("{{ request.body }}", LONGEST_TEXT).is_err(), "JSON is bounded as well");
        assert!(with_big("{{ request.body.big }}", LONGEST_TEXT).is_ok());
        assert!(rendered(json!(vec!["{{ now }}"; MOST_TEMPLATES + 1])).is_err());
        assert!(rendered(json!(vec!["{{ now }}"; MOST_TEMPLATES])).is_ok());
    }
}
