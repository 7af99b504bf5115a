//! How much memory a snapshot may take while it is read: a document of a few bytes a value can become a hundred times as large.
//!
//! Every list and table of the forms is charged by the element as it is read, and reading ends when the budget is used up.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// What an element may come to, in sizes of its form: strings on the heap, the records made from it.
const FACTOR: usize = 4;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Lets `read` take about `most` bytes of memory.
pub fn within<T>(most: usize, read: impl FnOnce() -> T) -> T {
    LEFT.set(most);
    let done = read();
    LEFT.set(usize::MAX);
    done
}

fn charge<E: Error>(bytes: usize) -> Result<(), E> {
    let left = LEFT.get().checked_sub(bytes).ok_or_else(|| E::custom("its values would take too much memory"))?;
    LEFT.set(left);
    Ok(())
}

/// An element, charged before it is read; `KEY` are the bytes of a key beside it.
struct Charged<T, const KEY: usize>(T);

impl<'de, T: Deserialize<'de>, const KEY: usize> Deserialize<'de> for Charged<T, KEY> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        charge(FACTOR * (size_of::<T>() + KEY))?;
        T::deserialize(deserializer).map(Self)
    }
}

/// Reads a list.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let items = Vec::<Charged<T, 0>>::deserialize(deserializer)?;
    Ok(items.into_iter().map(|Charged(item)| item).collect())
}

/// Reads a table.
pub(super) fn table<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let entries = BTreeMap::<String, Charged<T, { size_of::<String>() }>>::deserialize(deserializer)?;
    Ok(entries.into_iter().map(|(key, Charged(value))| (key, value)).collect())
}

/// Reads any JSON.
pub(super) fn tree<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let text = <&RawValue>::deserialize(deserializer)?.get();
    charge(weight(text))?;
    serde_json::from_str(text).map_err(D::Error::custom)
}

/// What JSON values may come to in memory, in the form and in the workspace.
fn weight(text: &str) -> usize {
    let (mut total, mut quoted, mut escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => {
                quoted = !quoted;
                total += 32;
            }
            _ if quoted => {}
            b'{' => total += 800,
            b'[' | b',' => total += 160,
            _ => {}
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Form {
        #[serde(deserialize_with = "list")]
        list: Vec<String>,
        #[serde(deserialize_with = "table")]
        table: BTreeMap<String, u8>,
        #[serde(deserialize_with = "tree")]
        tree: Vec<serde_json::Value>,
    }

    #[test]
    fn reading_ends_with_the_budget() {
        let cost = FACTOR * size_of::<String>();
        let check = |text: &str, most: usize, fits: bool| {
            let read = within(most, || serde_json::from_str::<Form>(text));
            match read {
                Ok(_) => assert!(fits, "{text} {most}"),
                Err(error) => assert!(!fits && error.to_string().contains("too much memory"), "{text} {most} {error}"),
            }
        };
        let tree = weight("[]");
        let list = r#"{ "list": ["a", "b"], "table": {}, "tree": [] }"#;
        check(list, 2 * cost + tree, true);
        check(list, 2 * cost + tree - 1, false);
        let table = r#"{ "list": [], "table": { "a": 1 }, "tree": [] }"#;
        check(table, cost + FACTOR + tree, true);
        check(table, cost + FACTOR + tree - 1, false);
        let nested = r#"{ "list": [], "table": {}, "tree": [{ "a": "{,[\",[{" }, [1, 2]] }"#;
        check(nested, 4 * 160 + 800 + 4 * 32, true);
        check(nested, 4 * 160 + 800 + 4 * 32 - 1, false);
        // The budget is that of one reading.
        assert!(serde_json::from_str::<Form>(nested).is_ok());
    }
}
