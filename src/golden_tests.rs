//! Files that tests make from the code and compare with the committed ones; built for tests only.

/// Compares a file, named from the top of the project, with its present text. With `UPDATE_EXPECTED=1` it is written anew.
pub(crate) fn compare(path: &str, made: &str) {
    let place = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(&place, made).expect("the file can be written");
    }
    let text = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(text == made, "{path} has changed: run the tests once with UPDATE_EXPECTED=1");
}
