//! The page about the language, made from the parser's own tables of words.

use std::fmt::Write as _;

use super::parse::words;

/// The page `docs/scenario-language.md`.
pub fn language_markdown() -> String {
    let mut page = String::from(include_str!("reference.md"));
    page.push_str("## Every key\n");
    for words in words::ALL {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n### In {}\n\n| key | value | meaning |\n| --- | --- | --- |\n", words.place);
        for key in words.keys() {
            let needed = if words.required.contains(&key.name) { " (required)" } else { "" };
            let meaning = key.meaning.replace('|', "\\|");
            let _ = writeln!(page, "| `{}`{needed} | {} | {meaning} |", key.name, key.kind.text());
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use crate::diagnostic::codes_markdown;

    /// Run with `UPDATE_EXPECTED=1` to write the pages anew.
    #[test]
    fn the_pages_are_in_step() {
        for (name, made) in [("scenario-language", super::language_markdown()), ("diagnostics", codes_markdown())] {
            let path = format!("{}/docs/{name}.md", env!("CARGO_MANIFEST_DIR"));
            if std::env::var_os("UPDATE_EXPECTED").is_some() {
                std::fs::write(&path, &made).expect("the page can be written");
            }
            let page = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(page == made, "{path} has changed: run the tests once with UPDATE_EXPECTED=1");
        }
    }
}
