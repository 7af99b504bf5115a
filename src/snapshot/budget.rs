//! Limits the memory of reading a snapshot: a document with a few bytes for each value can take a hundred times its size.
//!
//! Each element of a list or table is charged as it is read, and reading fails when the budget is used up.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The memory that an element takes, in sizes of its form: with its strings and the records made from it.
const FACTOR: usize = 4;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Runs `read` with a budget of about `most` bytes of memory.
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

/// An element that is charged before it is read.
struct Charged<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Charged<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        charge(FACTOR * size_of::<T>())?;
        T::deserialize(deserializer).map(Self)
    }
}

/// Reads a list.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let items = Vec::<Charged<T>>::deserialize(deserializer)?;
    Ok(items.into_iter().map(|Charged(item)| item).collect())
}

/// Reads a table.
pub(super) fn table<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Entries<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = BTreeMap::new();
            while let Some(key) = map.next_key()? {
                charge(FACTOR * (size_of::<T>() + size_of::<String>()))?;
                entries.insert(key, map.next_value()?);
            }
            Ok(entries)
        }
    }

    deserializer.deserialize_map(Entries(PhantomData))
}

/// Reads any JSON.
pub(super) fn tree<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let text = <&RawValue>::deserialize(deserializer)?.get();
    charge(weight(text))?;
    // From bytes, as the document itself is read: the code that reads a type from text would be a second copy.
    serde_json::from_slice(text.as_bytes()).map_err(D::Error::custom)
}

/// Roughly the memory that JSON values take, in the form and in the workspace.
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
        let check = |text: &str, most: usize, is_read: bool| {
            let read = within(most, || serde_json::from_str::<Form>(text));
            match read {
                Ok(_) => assert!(is_read, "{text} {most}"),
                Err(error) => {
                    assert!(!is_read && error.to_string().contains("too much memory"), "{text} {most} {error}");
                }
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
        // The budget applies to one call only.
        assert!(serde_json::from_str::<Form>(nested).is_ok());
    }
}
