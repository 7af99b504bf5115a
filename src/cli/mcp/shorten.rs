//! Bounds what a tool answers: long lists and long texts are cut, and what was cut is listed.

use std::collections::BTreeMap;

use serde_json::Value;

/// Most bytes of a structured answer.
pub(crate) const MOST_BYTES: usize = 48 * 1024;
/// Most bytes of its short text.
pub(crate) const MOST_TEXT: usize = 8 * 1024;
/// Items of a list and characters of a text that are kept, step by step until the answer is short enough. A header is a list of two.
const STEPS: [(usize, usize); 7] = [(1000, 8192), (200, 4096), (50, 2048), (20, 1024), (10, 512), (4, 256), (2, 128)];

/// The answer in at most [`MOST_BYTES`], and what was left out; `None` if it is too large even so.
pub(super) fn shortened(answer: &Value) -> Option<(Value, Vec<String>)> {
    STEPS.iter().find_map(|(items, characters)| {
        let (mut kept, mut notes) = (answer.clone(), BTreeMap::new());
        cut(&mut kept, "", *items, *characters, &mut notes);
        let notes: Vec<String> = notes.into_iter().map(|(place, what)| format!("{place}: {what}")).collect();
        let size = kept.to_string().len() + notes.iter().map(String::len).sum::<usize>();
        (size <= MOST_BYTES).then_some((kept, notes))
    })
}

fn cut(value: &mut Value, place: &str, items: usize, characters: usize, notes: &mut BTreeMap<String, String>) {
    match value {
        Value::Array(list) => {
            if list.len() > items {
                notes.insert(place.to_owned(), format!("only the first {items} of {}", list.len()));
                list.truncate(items);
            }
            for item in list {
                cut(item, place, items, characters, notes);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                cut(field, &place, items, characters, notes);
            }
        }
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(characters) {
                notes.insert(place.to_owned(), format!("only the first {characters} characters of each"));
                text.truncate(end);
                text.push('…');
            }
        }
        _ => {}
    }
}

/// A text of at most [`MOST_TEXT`] bytes.
pub(super) fn short_text(mut text: String) -> String {
    if text.len() > MOST_TEXT {
        text.truncate(text.floor_char_boundary(MOST_TEXT));
        text.push_str("\n… (more in the structured content)");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_short_stays_whole() {
        let answer = json!({"data": [{"id": "req_1", "body": "x"}], "has_more": false});
        assert_eq!(shortened(&answer), Some((answer, Vec::new())));
    }

    #[test]
    fn lists_and_texts_are_cut_and_it_says_so() {
        let row = json!({"id": "req_1", "body": "é".repeat(10_000), "headers": [["a", "b"]]});
        let answer = json!({"data": vec![row; 300]});
        let (kept, notes) = shortened(&answer).expect("it can be cut");
        assert!(kept.to_string().len() <= MOST_BYTES);
        assert_eq!(notes, ["data: only the first 20 of 300", "data.body: only the first 1024 characters of each"]);
        assert_eq!(kept["data"].as_array().map(Vec::len), Some(20));
        assert_eq!(kept["data"][0]["headers"], json!([["a", "b"]]));
        assert!(kept["data"][0]["body"].as_str().is_some_and(|body| body.ends_with("é…")));
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        let fields: serde_json::Map<String, Value> = (0..10_000).map(|n| (format!("field{n}"), n.into())).collect();
        assert_eq!(shortened(&fields.into()), None);
    }

    #[test]
    fn the_short_text_is_cut_between_characters() {
        let text = short_text("é".repeat(5000));
        assert!(text.starts_with('é') && text.ends_with("structured content)") && text.len() < MOST_TEXT + 50);
    }
}
