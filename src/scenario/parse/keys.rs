//! One function for each kind of table names every key once, with its form and meaning, and reads it. Run without a table it
//! describes the keys: what the reader checks, the hints, the JSON Schema and the page about the language follow from that.

use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Map, Value};
use toml::de::DeTable;

use super::kinds::{ANY_TABLE, Choices, KeyRule, KeySpec, TableKeys, ValueKind as Kind};
use super::reader::{Parser, Span, Table};

/// A kind of table.
pub(crate) trait TableKind: Sized {
    /// The name of its definition in the schema.
    const DEFINITION: &'static str;
    /// As in "unknown key in …".
    const PLACE: &'static str;

    /// Which of its keys go together.
    fn rules() -> Vec<KeyRule> {
        Vec::new()
    }

    /// Names and reads every key, then asks for [`KeyReader::input`] and checks what the keys say together. `None` if there
    /// is no value; whatever is wrong was reported. When the keys are only described nothing is read, and there is no input: every key is named
    /// before the first `?`.
    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self>;
}

impl TableKeys {
    pub(crate) fn of<T: TableKind>() -> Self {
        let keys = described(T::from_keys);
        Self { definition: T::DEFINITION, place: T::PLACE, keys, rules: T::rules() }
    }
}

/// The keys that a function names.
pub(crate) fn described<T>(read: fn(&mut KeyReader<'_, '_>) -> T) -> Vec<KeySpec> {
    let mut keys = KeyReader { named: Vec::new(), input: None };
    drop(read(&mut keys));
    keys.named
}

/// Reads the keys of one table, or describes them.
pub(crate) struct KeyReader<'r, 't> {
    /// The keys named so far, if there is no input.
    named: Vec<KeySpec>,
    input: Option<(&'r mut Parser<'t>, &'r Table<'r, 'r>)>,
}

impl<'t> KeyReader<'_, 't> {
    /// The table, and the parser that collects its problems; `None` if the keys are only described.
    pub(crate) fn input(&mut self) -> Option<(&mut Parser<'t>, &Table<'_, '_>)> {
        self.input.as_mut().map(|(parser, table)| (&mut **parser, *table))
    }

    /// A key that may be left out. `read` is called if there is a value of this kind; it reports what else may be wrong.
    pub(crate) fn optional<T>(
        &mut self,
        name: &'static str,
        kind: Kind,
        meaning: &'static str,
        read: impl FnOnce(&mut Parser<'t>, &Table<'_, '_>, &'static str) -> Option<T>,
    ) -> Option<T> {
        self.key(KeySpec { name, required: false, kind, meaning }, read)
    }

    /// A key that must be there.
    pub(crate) fn required<T>(
        &mut self,
        name: &'static str,
        kind: Kind,
        meaning: &'static str,
        read: impl FnOnce(&mut Parser<'t>, &Table<'_, '_>, &'static str) -> Option<T>,
    ) -> Option<T> {
        self.key(KeySpec { name, required: true, kind, meaning }, read)
    }

    fn key<T>(
        &mut self,
        key: KeySpec,
        read: impl FnOnce(&mut Parser<'t>, &Table<'_, '_>, &'static str) -> Option<T>,
    ) -> Option<T> {
        let Some((parser, table)) = self.input() else {
            self.named.push(key);
            return None;
        };
        debug_assert!(
            table.keys.keys.iter().any(|described| described.name == key.name),
            "`{}` is named after the first `?`, so that it was not described",
            key.name
        );
        if table.is_valid(key.name) { read(parser, table, key.name) } else { None }
    }

    /// A key whose value is read by what comes after [`Self::input`].
    pub(crate) fn name_only(&mut self, name: &'static str, kind: Kind, meaning: &'static str) {
        self.optional(name, kind, meaning, |_, _, _| Some(()));
    }

    /// A text, which may be empty.
    pub(crate) fn text(&mut self, name: &'static str, meaning: &'static str) -> Option<String> {
        self.optional(name, Kind::Text, meaning, |_, table, key| table.text(key).map(str::to_owned))
    }

    /// A text that must not be empty.
    pub(crate) fn name(&mut self, name: &'static str, meaning: &'static str) -> Option<String> {
        self.optional(name, Kind::Name, meaning, |_, table, key| table.text(key).map(str::to_owned))
    }

    pub(crate) fn integer<T: TryFrom<u64>>(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
        meaning: &'static str,
    ) -> Option<T> {
        let kind = Kind::Integer(*range.start(), *range.end());
        self.optional(name, kind, meaning, |_, table, key| table.integer(key)?.try_into().ok())
    }

    pub(crate) fn flag(&mut self, name: &'static str, meaning: &'static str) -> Option<bool> {
        self.optional(name, Kind::Boolean, meaning, |_, table, key| table.flag(key))
    }

    pub(crate) fn duration(&mut self, name: &'static str, meaning: &'static str) -> Option<Duration> {
        self.optional(name, Kind::Duration, meaning, |_, table, key| table.duration(key))
    }

    /// One of the names of a closed set.
    pub(crate) fn one_of<T>(
        &mut self,
        name: &'static str,
        names: Choices,
        meaning: &'static str,
        from_name: fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.optional(name, Kind::OneOf(names), meaning, |_, table, key| from_name(table.text(key)?))
    }

    /// A table of fields that may have templates.
    pub(crate) fn fields(&mut self, name: &'static str, meaning: &'static str) -> Option<Map<String, Value>> {
        self.optional(name, ANY_TABLE, meaning, Parser::json_fields)
    }

    pub(crate) fn table<T: TableKind>(&mut self, name: &'static str, meaning: &'static str) -> Option<T> {
        self.optional(name, Kind::Table(TableKeys::of::<T>), meaning, Parser::table_at)
    }
}

impl Parser<'_> {
    /// Reads the table at a key.
    pub(crate) fn table_at<T: TableKind>(&mut self, table: &Table<'_, '_>, key: &str) -> Option<T> {
        let table = self.open_table::<T>(table.fields_at(key)?, table.span_of(key));
        self.read_table(&table)
    }

    /// Reads a table that was opened.
    pub(crate) fn read_table<T: TableKind>(&mut self, table: &Table<'_, '_>) -> Option<T> {
        T::from_keys(&mut KeyReader { named: Vec::new(), input: Some((self, table)) })
    }

    /// Opens the tables of a list: `[[key]]`, or a list of inline tables.
    pub(crate) fn open_tables<'v, 'i, T: TableKind>(&mut self, table: &Table<'v, 'i>, key: &str) -> Vec<Table<'v, 'i>> {
        let mut tables = Vec::new();
        for entry in table.entries(key) {
            match entry.get_ref().as_table() {
                Some(fields) => {
                    let mut table = self.open_table::<T>(fields, entry.span());
                    table.position = tables.len() + 1;
                    tables.push(table);
                }
                None => self.wrong_type(key, "a table", entry, table.meaning(key)),
            }
        }
        tables
    }

    /// Opens a table. Its keys are described once for each text.
    pub(crate) fn open_table<'v, 'i, T: TableKind>(&mut self, fields: &'v DeTable<'i>, span: Span) -> Table<'v, 'i> {
        let described = self.described.entry(T::DEFINITION).or_insert_with(|| Rc::new(TableKeys::of::<T>()));
        let keys = Rc::clone(described);
        self.open(fields, keys, span)
    }
}
