//! Templates in strings, such as `wf_{{ ulid() }}`: bounded in time and size, fed by the workspace's clock and chance.
//!
//! Available: `ulid()`, `uuid()`, `random_int(low, high)`, `now` (timestamp), `now_unix` (seconds), and what the caller
//! adds. Knows nothing of events, scenarios or requests.

use std::sync::Arc;

use jiff::Timestamp;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use parking_lot::Mutex;
use rand::{Rng, RngExt, SeedableRng};
use serde_json::{Map, Value};

use crate::clock::Random;
use crate::contract::ids::{IdKind, make_id};
use crate::contract::profile::{IdStyle, Precision};
use crate::contract::timestamp::format_timestamp;

/// Steps a template may take; an endless loop ends here.
const FUEL: u64 = 20_000;
/// Steps a template may take while it is only checked.
const CHECK_FUEL: u64 = 2_000;
/// Longest text a template may make, in bytes.
const LONGEST: usize = 64 * 1024;
/// Most templates in one body, and the longest text that they may make together, in bytes.
const MOST_TEMPLATES: usize = 500;
const LONGEST_TOGETHER: usize = 1024 * 1024;

/// A template that cannot be rendered: what is wrong, for the person who wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateProblem {
    message: String,
}

/// What one call of [`render_map`] may still do.
struct Budget {
    templates: usize,
    bytes: usize,
}

/// Renders every string in `values`. `facts` are names that templates may use, such as `request`.
pub fn render_map(
    values: &Map<String, Value>,
    facts: &Map<String, Value>,
    wall: Timestamp,
    random: &mut Random,
) -> Result<Map<String, Value>, TemplateProblem> {
    if !values.values().any(has_template) {
        return Ok(values.clone());
    }
    // Template functions must own their source, so a child is drawn from the workspace's.
    let environment = environment(wall, &Arc::new(Mutex::new(random.fork())));
    let mut context = facts.clone();
    context.insert("now".to_owned(), format_timestamp(wall, Precision::Milliseconds).into());
    context.insert("now_unix".to_owned(), wall.as_second().into());
    let mut budget = Budget { templates: MOST_TEMPLATES, bytes: LONGEST_TOGETHER };
    values.iter().map(|(key, value)| Ok((key.clone(), render(&environment, value, &context, &mut budget)?))).collect()
}

/// Whether a template can be read, and names only functions, filters and tests that there are. Facts are taken to be there:
/// whether they are shows when the template is rendered.
pub fn check_template(text: &str) -> Result<(), TemplateProblem> {
    let mut environment = environment(Timestamp::UNIX_EPOCH, &Arc::new(Mutex::new(Random::seed_from_u64(0))));
    environment.set_fuel(Some(CHECK_FUEL));
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    let problem = |error: minijinja::Error| TemplateProblem { message: error.to_string() };
    let template = environment.template_from_str(text).map_err(problem)?;
    match template.render_captured_to((), &mut Bounded { bytes: Vec::new() }) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::UnknownFunction | ErrorKind::UnknownFilter | ErrorKind::UnknownTest
            ) =>
        {
            Err(problem(error))
        }
        _ => Ok(()),
    }
}

/// Whether a value holds a string with a template in it.
pub fn has_template(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{") || text.contains("{%"),
        Value::Array(values) => values.iter().any(has_template),
        Value::Object(values) => values.values().any(has_template),
        _ => false,
    }
}

fn environment(wall: Timestamp, random: &Arc<Mutex<Random>>) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    let millis = u64::try_from(wall.as_millisecond()).unwrap_or(0);
    let fresh = |style: IdStyle| {
        let random = Arc::clone(random);
        move || {
            let id = make_id(IdKind::Event, style, millis, 0, &mut *random.lock());
            id[IdKind::Event.prefix().len()..].to_owned()
        }
    };
    environment.add_function("ulid", fresh(IdStyle::Ulid));
    environment.add_function("uuid", fresh(IdStyle::Uuid));
    let random = Arc::clone(random);
    environment.add_function("random_int", move |low: i64, high: i64| {
        let mut random = random.lock();
        if low > high { random.next_u64().cast_signed() } else { random.random_range(low..=high) }
    });
    environment
}

fn render(
    environment: &Environment<'_>,
    value: &Value,
    context: &Map<String, Value>,
    budget: &mut Budget,
) -> Result<Value, TemplateProblem> {
    Ok(match value {
        Value::String(text) if has_template(value) => Value::String(render_text(environment, text, context, budget)?),
        Value::Array(values) => {
            let values = values.iter().map(|value| render(environment, value, context, budget));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        Value::Object(values) => Value::Object(
            values
                .iter()
                .map(|(key, value)| Ok((key.clone(), render(environment, value, context, budget)?)))
                .collect::<Result<_, _>>()?,
        ),
        other => other.clone(),
    })
}

fn render_text(
    environment: &Environment<'_>,
    text: &str,
    context: &Map<String, Value>,
    budget: &mut Budget,
) -> Result<String, TemplateProblem> {
    let over = |what: &str| TemplateProblem { message: format!("the templates of one body {what}") };
    let left = budget.templates.checked_sub(1);
    budget.templates = left.ok_or_else(|| over(&format!("are more than {MOST_TEMPLATES}")))?;
    let mut output = Bounded { bytes: Vec::new() };
    let problem = |error: minijinja::Error| TemplateProblem {
        message: format!("template \"{}\": {error:#}", text.escape_debug()),
    };
    let template = environment.template_from_str(text).map_err(problem)?;
    template.render_captured_to(Serde(context), &mut output).map_err(problem)?;
    let left = budget.bytes.checked_sub(output.bytes.len());
    budget.bytes = left.ok_or_else(|| over("make more than 1 MiB of text"))?;
    String::from_utf8(output.bytes)
        .map_err(|_| TemplateProblem { message: "a template made text that is not UTF-8".to_owned() })
}

/// A buffer that refuses to grow past the bound.
struct Bounded {
    bytes: Vec<u8>,
}

impl std::io::Write for Bounded {
    fn write(&mut self, more: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + more.len() > LONGEST {
            return Err(std::io::Error::other("the text made is longer than 64 KiB"));
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::Seed;

    fn rendered(value: Value) -> Result<Value, TemplateProblem> {
        let map = json!({ "x": value });
        let mut random = Seed::from_number(1).source("test");
        let map = render_map(map.as_object().expect("an object"), &Map::new(), Timestamp::UNIX_EPOCH, &mut random)?;
        Ok(map["x"].clone())
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
    fn endless_huge_and_wrong_templates_end_with_a_reason() {
        for text in [
            "{% for i in range(10000) %}{% for j in range(10000) %}x{% endfor %}{% endfor %}",
            "{{ 'x' * 100000000 }}",
            "{{ nothing }}",
            "{{ ulid( }}",
            "{% for",
        ] {
            assert!(rendered(json!(text)).is_err(), "{text}");
        }
        for (text, many) in [("{{ now }}", 501), ("{{ 'x' * 60000 }}", 20)] {
            assert!(rendered(json!(vec![text; many])).is_err(), "{text}");
        }
        assert!(rendered(json!(vec!["{{ now }}"; 500])).is_ok());
    }
}
