//! Declares the tables of the language. Each is a struct: a field is a key, its doc comment the meaning, its type what the value
//! becomes. What the reader checks, the hints, the JSON Schema and the page about the language come from the declaration.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::kinds::{ANY, ANY_TABLE, KeySpec, TableKeys, ValueKind as Kind};
use super::reader::{Parser, Table};
use crate::contract::error::ErrorKind;

/// A value at a key.
pub(crate) trait Read: Sized {
    /// What it looks like, unless the key says so.
    const KIND: Kind;

    /// Reads a value that exists and is of its key's kind; `None` if a problem was reported.
    fn read(parser: &mut Parser<'_>, table: &Table<'_, '_>, key: &'static str) -> Option<Self>;
}

/// Keys of a table, or of several kinds of tables.
pub(crate) trait ReadKeys: Sized {
    const KEYS: &'static [KeySpec];

    /// Reads them all; `None` if a required one is missing or wrong, which was reported.
    fn read_keys(parser: &mut Parser<'_>, table: &Table<'_, '_>) -> Option<Self>;
}

/// A kind of table.
pub(crate) trait KeyTable: ReadKeys {
    fn table() -> TableKeys;
}

/// Declares the keys of a table as the fields of a struct:
///
/// ```text
/// /// Its meaning.
/// field as "key": Type [required] = value_if_absent => its kind => what reads it,
/// ```
///
/// All but meaning, field and type may be left out: the key is named like the field, may be absent, is then the type's default, and is
/// read by [`Read`]. What else reads it returns the field's value, or an option of it if the key is required. `..field: Type` includes
/// the keys of another struct. Fields after `and` follow from where the table is; what reads the table fills them in. With `impl`
/// instead of `struct` the struct exists already. A table `as value_of_a_key` needs no code to be read.
macro_rules! keys {
    // Keys that something else reads.
    ($($(#[doc = $meaning:literal])+ $key:ident => $kind:expr),+ $(,)?) => {
        &[$($crate::scenario::parse::kinds::KeySpec {
            name: stringify!($key),
            required: false,
            kind: $kind,
            meaning: concat!($($meaning),+).trim_ascii(),
        }),+]
    };

    // The parts of a declaration.
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@kind $type:ty) => { <$type as Read>::KIND };
    (@kind $type:ty, $kind:expr) => { $kind };
    (@read [$($required:ident)?] $type:ty; $($argument:expr),+) => { <$type as Read>::read($($argument),+) };
    (@read [required] $type:ty, $read:expr; $($argument:expr),+) => { $read($($argument),+) };
    (@read [] $type:ty, $read:expr; $($argument:expr),+) => { Some($read($($argument),+)) };
    (@value $value:ident required) => { $value? };
    (@value $value:ident) => { $value.unwrap_or_default() };
    (@value $value:ident = $default:expr) => { $value.unwrap_or($default) };
    // A table that is what its fields are.
    (@value_of_a_key $struct:ident) => {
        impl Read for $struct {
            const KIND: $crate::scenario::parse::kinds::ValueKind = $crate::scenario::parse::kinds::ValueKind::Table(
                <Self as $crate::scenario::parse::declare::KeyTable>::table,
            );

            fn read(
                parser: &mut $crate::scenario::parse::reader::Parser<'_>,
                table: &$crate::scenario::parse::reader::Table<'_, '_>,
                key: &'static str,
            ) -> Option<Self> {
                let table = parser.table(table, key)?;
                Self::read_keys(parser, &table)
            }
        }
    };
    (@required) => { false };
    (@required required) => { true };

    (
        $(#[$attribute:meta])*
        $visible:vis struct $struct:ident {
            $(
                $(..$part_visible:vis $part:ident: $part_type:ty,)*
                $(#[doc = $meaning:literal])+
                $field_visible:vis $field:ident $(as $name:literal)?: $type:ty $([$required:ident])? $(= $default:expr)? $(=> $kind:expr $(=> $read:expr)?)?
            ),+ $(,)?
        }
        $(and { $($(#[$also_attribute:meta])* $also_visible:vis $also:ident: $also_type:ty),+ $(,)? })?
        $(table $definition:literal, $place:literal $(as $form:ident)? $(, $rules:expr)*)?
    ) => {
        $(#[$attribute])*
        $visible struct $struct {
            $(
                $($part_visible $part: $part_type,)*
                $(#[doc = $meaning])+
                $field_visible $field: $type,
            )+
            $($($(#[$also_attribute])* $also_visible $also: $also_type,)+)?
        }

        $crate::scenario::parse::declare::keys! {
            impl $struct {
                $(
                    $(..$part: $part_type,)*
                    $(#[doc = $meaning])+
                    $field $(as $name)?: $type $([$required])? $(= $default)? $(=> $kind $(=> $read)?)?
                ),+
            }
            $(and { $($also),+ })?
            $(table $definition, $place $(as $form)? $(, $rules)*)?
        }
    };

    (
        impl $struct:ident {
            $(
                $(..$part:ident: $part_type:ty,)*
                $(#[doc = $meaning:literal])+
                $field:ident $(as $name:literal)?: $type:ty $([$required:ident])? $(= $default:expr)? $(=> $kind:expr $(=> $read:expr)?)?
            ),+ $(,)?
        }
        $(and { $($also:ident),+ })?
        $(table $definition:literal, $place:literal $(as $form:ident)? $(, $rules:expr)*)?
    ) => {
        const _: () = {
            use $crate::scenario::parse::declare::{Read, ReadKeys, keys};
            use $crate::scenario::parse::kinds::{KeySpec, joined, length};

            impl ReadKeys for $struct {
                const KEYS: &'static [KeySpec] = {
                    const PARTS: &[&[KeySpec]] = &[$(
                        $(<$part_type as ReadKeys>::KEYS,)*
                        &[KeySpec {
                            name: keys!(@name $field $($name)?),
                            required: keys!(@required $($required)?),
                            kind: keys!(@kind $type $(, $kind)?),
                            meaning: concat!($($meaning),+).trim_ascii(),
                        }],
                    )+];
                    &joined::<{ length(PARTS) }>(PARTS)
                };

                fn read_keys(
                    parser: &mut $crate::scenario::parse::reader::Parser<'_>,
                    table: &$crate::scenario::parse::reader::Table<'_, '_>,
                ) -> Option<Self> {
                    $(
                        $(let $part = <$part_type as ReadKeys>::read_keys(parser, table);)*
                        let key = keys!(@name $field $($name)?);
                        let $field: Option<$type> = if table.is_right(key) {
                            keys!(@read [$($required)?] $type $($(, $read)?)?; parser, table, key)
                        } else {
                            None
                        };
                    )+
                    Some(Self {
                        $(
                            $($part: $part?,)*
                            $field: keys!(@value $field $($required)? $(= $default)?),
                        )+
                        $($($also: Default::default(),)+)?
                    })
                }
            }

            $(impl $crate::scenario::parse::declare::KeyTable for $struct {
                fn table() -> $crate::scenario::parse::kinds::TableKeys {
                    let rules: &[&[$crate::scenario::parse::kinds::KeyRule]] = &[$($rules),*];
                    $crate::scenario::parse::kinds::TableKeys {
                        definition: $definition,
                        place: $place,
                        keys: Self::KEYS.to_vec(),
                        rules: rules.concat(),
                    }
                }
            }

            $(keys! { @$form $struct })?)?
        };
    };
}

pub(crate) use keys;

impl<T: Read> Read for Option<T> {
    const KIND: Kind = T::KIND;

    fn read(parser: &mut Parser<'_>, table: &Table<'_, '_>, key: &'static str) -> Option<Self> {
        T::read(parser, table, key).map(Some)
    }
}

/// What the getters of a table read.
macro_rules! read {
    ($($type:ty: $kind:expr, $get:expr;)+) => {
        $(impl Read for $type {
            const KIND: Kind = $kind;

            fn read(_: &mut Parser<'_>, table: &Table<'_, '_>, key: &'static str) -> Option<Self> {
                ($get)(table, key)
            }
        })+
    };
}

read! {
    String: Kind::Text, |table: &Table<'_, '_>, key| table.text(key).map(str::to_owned);
    Arc<str>: Kind::Name, |table: &Table<'_, '_>, key| table.text(key).map(Arc::from);
    u64: Kind::Integer(0, ANY), |table: &Table<'_, '_>, key| table.integer(key);
    u32: Kind::Integer(0, 4_294_967_295), |table: &Table<'_, '_>, key| table.integer(key)?.try_into().ok();
    u16: Kind::Integer(0, 65_535), |table: &Table<'_, '_>, key| table.integer(key)?.try_into().ok();
    f64: Kind::Number, |table: &Table<'_, '_>, key| table.number(key);
    bool: Kind::Boolean, |table: &Table<'_, '_>, key| table.flag(key);
    Duration: Kind::Duration, |table: &Table<'_, '_>, key| table.duration(key);
}

/// One of the names of a closed set.
macro_rules! read_names {
    ($($set:ty),+) => {
        $(impl $crate::scenario::parse::declare::Read for $set {
            const KIND: $crate::scenario::parse::kinds::ValueKind =
                $crate::scenario::parse::kinds::ValueKind::OneOf(|| <$set>::ALL.map(<$set>::name).to_vec());

            fn read(
                _: &mut $crate::scenario::parse::reader::Parser<'_>,
                table: &$crate::scenario::parse::reader::Table<'_, '_>,
                key: &'static str,
            ) -> Option<Self> {
                <$set>::from_name(table.text(key)?)
            }
        })+
    };
}

pub(crate) use read_names;

read_names!(ErrorKind);

/// A table of fields that may have templates.
impl Read for Map<String, Value> {
    const KIND: Kind = ANY_TABLE;

    fn read(parser: &mut Parser<'_>, table: &Table<'_, '_>, key: &'static str) -> Option<Self> {
        parser.json_fields(table, key)
    }
}
