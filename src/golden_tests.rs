//! Files that tests make from the code and compare with what is committed; built for tests only.

use serde_json::Value;

/// Compares a file, named from the top of the project, with what is made now. With `UPDATE_EXPECTED=1` it is written anew.
pub(crate) fn compare(path: &str, made: &str) {
    let place = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(&place, made).expect("the file can be written");
    }
    let text = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(text == made, "{path} has changed: run the tests once with UPDATE_EXPECTED=1");
}

/// JSON with a line for each member of the outermost levels, so that a change shows, and none for those within, so that it is small.
pub(crate) fn json(value: &Value, levels: usize) -> String {
    let mut text = String::new();
    spread(value, levels, &mut text);
    text + "\n"
}

fn spread(value: &Value, levels: usize, text: &mut String) {
    let Some(members) = value.as_object().filter(|members| levels > 0 && !members.is_empty()) else {
        *text += &value.to_string();
        return;
    };
    for (number, (name, member)) in members.iter().enumerate() {
        *text += if number == 0 { "{\n" } else { ",\n" };
        *text += &format!("{}:", Value::from(name.as_str()));
        spread(member, levels - 1, text);
    }
    *text += "\n}";
}
