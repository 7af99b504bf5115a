//! The names of a shard in a merged document: ids, keys and scenarios that others have as well get the name of the shard behind them.
//!
//! Only what a record of the shard declares is renamed, so a text that happens to look like an id stays as it was sent.

use std::collections::BTreeSet;

use serde_json::Value;

/// Fields with text that others wrote or that was sent: nothing in them is renamed.
const VERBATIM: [&str; 24] = [
    "answer",
    "assumptions",
    "body",
    "command",
    "description",
    "dialled",
    "emulator",
    "error",
    "exec",
    "headers",
    "name",
    "note",
    "path",
    "patch",
    "key_patch",
    "profile",
    "query",
    "settings",
    "shard",
    "signed_content",
    "test",
    "text",
    "title",
    "url",
];
/// Fields with the names of scenarios.
const SCENARIO_FIELDS: [&str; 4] = ["scenario", "scenarios", "active", "active_scenarios"];
/// Fields with the id of a record or a workspace.
const ID_FIELDS: [&str; 6] = ["id", "request", "event", "delivery", "subscription", "workspace"];
const ID_PREFIXES: [&str; 5] = ["req_", "evt_", "dlv_", "sub_", "ws_"];
/// The words that come before a key in a text: they distinguish a key that is an ordinary word.
const BEFORE_KEY: [&str; 3] = ["key ", "key `", "quota of "];

/// The names that a shard shares with others.
pub(super) struct ShardNames<'a> {
    shard: &'a str,
    scenarios: &'a BTreeSet<String>,
    ids: BTreeSet<String>,
    keys: BTreeSet<String>,
}

impl<'a> ShardNames<'a> {
    /// Of the document of a shard; `scenarios` are those whose text differs between the shards.
    pub(super) fn of(document: &Value, shard: &'a str, scenarios: &'a BTreeSet<String>) -> Self {
        let mut names = Self { shard, scenarios, ids: BTreeSet::new(), keys: BTreeSet::new() };
        names.collect(document, "");
        names
    }

    /// Collects the ids and keys that records declare.
    fn collect(&mut self, value: &Value, field: &str) {
        match value {
            Value::String(key) if field == "key" => drop(self.keys.insert(key.clone())),
            Value::String(id) if is_id(field, id) => drop(self.ids.insert(id.clone())),
            Value::Array(values) => values.iter().for_each(|value| self.collect(value, field)),
            Value::Object(fields) => {
                let own = fields.iter().filter(|(field, _)| !VERBATIM.contains(&field.as_str()));
                own.for_each(|(field, value)| self.collect(value, field));
            }
            _ => {}
        }
    }

    /// Puts the shard's name behind each of its names in a field's value.
    pub(super) fn rename(&self, value: &mut Value, field: &str) {
        match value {
            Value::String(text) => {
                let is_scenario = SCENARIO_FIELDS.contains(&field) && self.scenarios.contains(text);
                if is_scenario || field == "key" || is_id(field, text) {
                    text.push_str(&format!("@{}", self.shard));
                } else {
                    *text = self.renamed(text);
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.rename(value, field)),
            Value::Object(fields) => {
                let own = fields.iter_mut().filter(|(field, _)| !VERBATIM.contains(&field.as_str()));
                own.for_each(|(field, value)| self.rename(value, field));
            }
            _ => {}
        }
    }

    /// A text in which each id and each key names the shard.
    fn renamed(&self, text: &str) -> String {
        let mut renamed = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            // Of a merged document it has the name of a shard already.
            let length = names_end(rest, length);
            let (word, after) = rest.split_at(length);
            let is_key = self.keys.contains(word)
                && (!is_ordinary(word) || BEFORE_KEY.iter().any(|before| renamed.ends_with(before)));
            renamed.push_str(word);
            if is_key || self.ids.contains(word) {
                renamed.push_str(&format!("@{}", self.shard));
            }
            let length = after.find(is_part).unwrap_or(after.len());
            let (between, next) = after.split_at(length);
            renamed.push_str(between);
            rest = next;
        }
        renamed
    }
}

fn is_id(field: &str, text: &str) -> bool {
    ID_FIELDS.contains(&field) && ID_PREFIXES.iter().any(|prefix| text.len() > prefix.len() && text.starts_with(prefix))
}

/// True for a word of letters and digits, which a text may have for another reason.
fn is_ordinary(word: &str) -> bool {
    word.chars().all(char::is_alphanumeric)
}

/// The end of the names of shards, each after an `@`, that follow a word of this length.
fn names_end(text: &str, mut length: usize) -> usize {
    while let Some(name) = text[length..].strip_prefix('@').filter(|_| length > 0) {
        match name.find(|c: char| !is_part(c)).unwrap_or(name.len()) {
            0 => break,
            named => length += 1 + named,
        }
    }
    length
}

/// True for what ids, keys and the names of shards consist of; a masked key has an ellipsis.
fn is_part(c: char) -> bool {
    c.is_alphanumeric() || "_-…".contains(c)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names<'a>(document: &Value, scenarios: &'a BTreeSet<String>) -> ShardNames<'a> {
        ShardNames::of(document, "b", scenarios)
    }

    #[test]
    fn declared_ids_and_keys_in_a_text_get_the_name_of_the_shard() {
        let ids = ["req_01k-x_y", "ws_1", "dlv_1@a", "dlv_2@büro", "sub_1", "req_"];
        let keys = ["sk_test_a", "sk_live_…cdef", "tk-1", "team"];
        let mut rows: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
        rows.extend(keys.map(|key| json!({ "key": key })));
        let (document, none) = (json!(rows), BTreeSet::new());
        let names = names(&document, &none);
        for (text, expected) in [
            ("after the 429 of req_01k-x_y, 3 ms", "after the 429 of req_01k-x_y@b, 3 ms"),
            ("workspace ws_1 (key sk_test_a)", "workspace ws_1@b (key sk_test_a@b)"),
            ("key sk_live_…cdef; sk_test_other; is tk-1", "key sk_live_…cdef@b; sk_test_other; is tk-1@b"),
            ("dlv_1@a of a team, dlv_2@büro", "dlv_1@a@b of a team, dlv_2@büro@b"),
            ("(key team) the quota of team, key `team`", "(key team@b) the quota of team@b, key `team@b`"),
            ("`sub_1`", "`sub_1@b`"),
            ("GET /v1/sub_mine/req_mine/dlv_1: no endpoint", "GET /v1/sub_mine/req_mine/dlv_1: no endpoint"),
            ("req_ a@b prereq_1 my-ws_1", "req_ a@b prereq_1 my-ws_1"),
            ("é→sub_1", "é→sub_1@b"),
            ("", ""),
        ] {
            assert_eq!(names.renamed(text), expected);
        }
    }

    #[test]
    fn what_was_sent_or_written_by_others_stays() {
        let scenarios = ["mine".to_owned()].into();
        let mut row = json!({
            "id": "req_1", "key": "team", "scenario": "mine", "body": "req_1", "headers": [["x", "req_1"]],
            "answer": { "body": "{\"request_id\":\"req_1\"}" }, "test": { "test": "req_1" }, "scenarios": ["mine", "other"],
        });
        let sent = row.clone();
        names(&sent, &scenarios).rename(&mut row, "");
        assert_eq!(row["id"], "req_1@b");
        assert_eq!((&row["key"], &row["scenario"]), (&json!("team@b"), &json!("mine@b")));
        assert_eq!(row["scenarios"], json!(["mine@b", "other"]));
        for field in ["body", "headers", "answer", "test"] {
            assert_eq!(row[field], sent[field], "{field}");
        }
    }
}
