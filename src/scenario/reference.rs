//! The page about the language, made from the parser's own tables of words.

use std::fmt::Write as _;

use super::parse::words;
use crate::contract::error::ErrorKind;
use crate::contract::routes::ROUTES;
use crate::diagnostic::codes_markdown;

/// The page `docs/scenario-language.md`.
pub fn language_markdown() -> String {
    let mut page = String::from(include_str!("reference.md"));
    page.push_str("## Every key\n");
    for words in words::ALL {
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "\n### In {}\n\n```toml\n{}```\n\n| key | value | meaning |\n| --- | --- | --- |\n",
            words.place, words.example
        );
        for key in words.keys() {
            let needed = if words.required.contains(&key.name) { " (required)" } else { "" };
            let meaning = key.meaning.replace('|', "\\|");
            let _ = writeln!(page, "| `{}`{needed} | {} | {meaning} |", key.name, key.kind.text());
        }
    }
    page.push_str("\n## Operations\n\n| operation | request |\n| --- | --- |\n");
    for route in ROUTES {
        let _ = writeln!(page, "| `{}` | `{} {}` |", route.operation.name(), route.method, route.path);
    }
    page.push_str("\n## Errors\n\n| error | status |\n| --- | ---: |\n");
    for error in ErrorKind::ALL {
        let _ = writeln!(page, "| `{}` | {} |", error.name(), error.status());
    }
    page.push_str(&codes_markdown());
    page
}

#[cfg(test)]
mod tests {
    use super::words;
    use crate::scenario::parse::check_text;

    #[test]
    fn every_example_is_a_scenario() {
        for words in words::ALL {
            let (_, problems) = check_text("example", words.example);
            assert!(problems.is_empty(), "{}: {problems:?}", words.place);
        }
    }

    /// Run with `UPDATE_EXPECTED=1` to write the pages anew.
    #[test]
    fn the_page_is_in_step() {
        crate::committed::compare("docs/scenario-language.md", &super::language_markdown());
    }
}
