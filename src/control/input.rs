//! A request read from a call: the variable segment of its path, its query and its body merged into one struct. A field named in the
//! path or the query is text, and read as a number or a flag where the struct has one; all others are JSON.

use std::cell::RefCell;
use std::vec::IntoIter;

use serde::de::value::Error as Refused;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, IntoDeserializer as _, MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::ControlError;
use crate::util::wording::any_of;

/// The fields of a request, by their names in JSON; `None` if it accepts any.
pub(super) fn fields<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    let mut found = None;
    let _ = T::deserialize(Probe(&mut found));
    found
}

struct Probe<'a>(&'a mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Refused;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        *self.0 = Some(fields);
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refused> {
        Err(Refused::custom("only its fields are of interest"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// What a request is read from.
pub(super) struct Merged<'a> {
    /// An object of JSON; an empty body counts as `{}`.
    pub(super) body: &'a [u8],
    /// True if the body may have a field.
    pub(super) is_in_body: &'a dyn Fn(&str) -> bool,
    /// The other fields as texts, `key` among them.
    pub(super) texts: Vec<(String, String)>,
}

impl Merged<'_> {
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<T, ControlError> {
        let body = if self.body.trim_ascii().is_empty() { b"{}" } else { self.body };
        // A list would be read as the fields in their order.
        if body.trim_ascii_start().starts_with(b"[") && serde_json::from_slice::<IgnoredAny>(body).is_ok() {
            return Err(ControlError::invalid("body: expected an object, found a list"));
        }
        let problem = RefCell::default();
        let read = T::deserialize(Source { merged: Merged { body, ..self }, problem: &problem });
        read.map_err(|error| match problem.take() {
            Some(problem) => ControlError::invalid(problem),
            None => ControlError::invalid(format!("body: {error}")),
        })
    }
}

struct Source<'a> {
    merged: Merged<'a>,
    /// What is wrong with one of the texts.
    problem: &'a RefCell<Option<String>>,
}

impl<'de> Source<'de> {
    fn visit<V: Visitor<'de>>(
        self,
        fields: Option<&'static [&'static str]>,
        visitor: V,
    ) -> Result<V::Value, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_slice(self.merged.body);
        let read = (&mut json).deserialize_map(Joined { source: self, fields, visitor })?;
        json.end().map(|()| read)
    }
}

impl<'de> Deserializer<'de> for Source<'de> {
    type Error = serde_json::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.visit(Some(fields), visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.visit(None, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Shows the body's fields to the struct, and then the texts.
struct Joined<'de, V> {
    source: Source<'de>,
    fields: Option<&'static [&'static str]>,
    visitor: V,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Joined<'de, V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.visitor.expecting(formatter)
    }

    fn visit_map<A: MapAccess<'de>>(self, body: A) -> Result<V::Value, A::Error> {
        let Merged { is_in_body, texts, .. } = self.source.merged;
        let (texts, problem) = (texts.into_iter(), self.source.problem);
        self.visitor.visit_map(Fields { body, is_in_body, fields: self.fields, texts, text: None, problem })
    }
}

struct Fields<'a, A> {
    body: A,
    is_in_body: &'a dyn Fn(&str) -> bool,
    fields: Option<&'static [&'static str]>,
    texts: IntoIter<(String, String)>,
    /// The text whose name was read.
    text: Option<(String, String)>,
    problem: &'a RefCell<Option<String>>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.body.next_key::<String>()? {
            if name == "key" {
                // It was read before, and is one of the texts.
                self.body.next_value::<Option<String>>()?;
                continue;
            }
            if let Some(fields) = self.fields
                && !(fields.contains(&&*name) && (self.is_in_body)(&name))
            {
                let known = fields.iter().filter(|field| (self.is_in_body)(field)).map(|field| format!("`{field}`"));
                let known: Vec<String> = known.collect();
                let one_of = if known.len() > 2 { "one of " } else { "" };
                let list = if known.len() > 2 { known.join(", ") } else { any_of(&known) };
                return Err(A::Error::custom(format!("unknown field `{name}`, expected {one_of}{list}")));
            }
            return seed.deserialize(name.into_deserializer()).map(Some);
        }
        self.text = self.texts.next();
        let name = self.text.as_ref().map(|(name, _)| seed.deserialize(name.as_str().into_deserializer()));
        name.transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let Some((name, text)) = self.text.take() else { return self.body.next_value_seed(seed) };
        seed.deserialize(Text(&text)).map_err(|error: Refused| {
            *self.problem.borrow_mut() = Some(format!("{name}: {error}"));
            A::Error::custom(error)
        })
    }
}

/// The text of one field.
struct Text<'a>(&'a str);

impl Text<'_> {
    fn parsed<T: std::str::FromStr>(&self, expected: &str) -> Result<T, Refused> {
        let problem = |_| Refused::custom(format!("expected {expected}, found `{}`", self.0.escape_debug()));
        self.0.parse().map_err(problem)
    }
}

impl<'de> Deserializer<'de> for Text<'_> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_bool(self.parsed("true or false")?)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_u16(self.parsed("a number such as 200")?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_u32(self.parsed("a number such as 200")?)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct enum
        identifier ignored_any
    }
}
