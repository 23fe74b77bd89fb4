//! A tree that was read, and serde's way out of it.
//!
//! Each node knows its line and column, so what a type finds wrong with it is told with its place.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::position::Position;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it begins.
    pub at: Position,
    /// What it is.
    pub value: Value,
}

/// A map's key and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Where it begins.
    pub at: Position,
    /// The word.
    pub text: String,
}

/// What a node is. A list's items have the numbers that they were written with, so that one can be
/// taken out and the others are still told of by theirs.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Unsigned(u64),
    /// A whole number below 0.
    Signed(i64),
    /// A number with a fraction.
    Float(f64),
    /// A text.
    Text(String),
    /// Items, each with its number.
    List(Vec<(usize, Node)>),
    /// Entries, in their order.
    Map(Vec<(Key, Node)>),
}

/// Why a node is not what was wanted of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Misfit {
    /// The steps to it, the last first, while serde climbs out.
    steps: Vec<String>,
    /// Where the node begins.
    pub at: Option<Position>,
    /// Why.
    pub message: String,
}

impl Misfit {
    fn from(mut self, node: &Node) -> Self {
        self.at.get_or_insert(node.at);
        self
    }

    fn step(mut self, step: impl fmt::Display) -> Self {
        self.steps.push(step.to_string());
        self
    }

    /// A JSON pointer to it.
    pub fn path(&self) -> String {
        self.steps.iter().rev().map(|step| format!("/{}", escape(step))).collect()
    }
}

/// A step of a JSON pointer (RFC 6901 §3).
pub fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

impl Node {
    /// A value of a map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Value::Map(entries) = &self.value else { return None };
        entries.iter().find(|(it, _)| it.text == key).map(|(_, node)| node)
    }

    /// Takes an entry out of a map.
    pub fn take(&mut self, key: &str) -> Option<Self> {
        let Value::Map(entries) = &mut self.value else { return None };
        let place = entries.iter().position(|(it, _)| it.text == key)?;
        Some(entries.remove(place).1)
    }

    /// The text that this is.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Where a path leads, or as far along it as there is something.
    pub fn locate(&self, path: &str) -> Position {
        let mut node = self;
        for step in path.split('/').skip(1).map(unescape) {
            let next = match &node.value {
                Value::List(items) => {
                    items.iter().find(|(i, _)| i.to_string() == step).map(|it| &it.1)
                }
                _ => node.get(&step),
            };
            let Some(next) = next else { return node.at };
            node = next;
        }
        node.at
    }

    /// Takes out what a path leads to. `false` if there is nothing.
    pub fn remove(&mut self, path: &str) -> bool {
        let Some((parent, last)) = path.rsplit_once('/') else { return false };
        let mut node = self;
        for step in parent.split('/').skip(1).map(unescape) {
            let next = match &mut node.value {
                Value::List(items) => {
                    items.iter_mut().find(|(i, _)| i.to_string() == step).map(|it| &mut it.1)
                }
                Value::Map(entries) => {
                    entries.iter_mut().find(|(key, _)| key.text == step).map(|it| &mut it.1)
                }
                _ => None,
            };
            let Some(next) = next else { return false };
            node = next;
        }
        let last = unescape(last);
        match &mut node.value {
            Value::List(items) => {
                let before = items.len();
                items.retain(|(i, _)| i.to_string() != last);
                items.len() < before
            }
            _ => node.take(&last).is_some(),
        }
    }

    /// The tree without places.
    #[cfg(test)]
    pub fn plain(&self) -> Value {
        let nowhere = Position { line: 0, column: 0 };
        let bare = |node: &Self| Self { at: nowhere, value: node.plain() };
        match &self.value {
            Value::List(items) => Value::List(items.iter().map(|(i, n)| (*i, bare(n))).collect()),
            Value::Map(entries) => {
                let key = |key: &Key| Key { at: nowhere, text: key.text.clone() };
                Value::Map(entries.iter().map(|(k, n)| (key(k), bare(n))).collect())
            }
            value => value.clone(),
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for Misfit {}

impl de::Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { steps: Vec::new(), at: None, message: message.to_string() }
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Unsigned(number) => visitor.visit_u64(*number),
            Value::Signed(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items(items.iter())),
            Value::Map(entries) => visitor.visit_map(Entries { rest: entries.iter(), value: None }),
        }
        .map_err(|misfit| misfit.from(self))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let access = match &self.value {
            Value::Text(text) => Variant { name: text, node: None },
            Value::Map(entries) if entries.len() == 1 => {
                Variant { name: &entries[0].0.text, node: Some(&entries[0].1) }
            }
            _ => return self.deserialize_any(visitor),
        };
        visitor.visit_enum(access).map_err(|misfit| misfit.from(self))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier
    }
}

struct Items<'de>(core::slice::Iter<'de, (usize, Node)>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misfit> {
        let Some((i, node)) = self.0.next() else { return Ok(None) };
        seed.deserialize(node).map(Some).map_err(|misfit| misfit.from(node).step(i))
    }
}

struct Entries<'de> {
    rest: core::slice::Iter<'de, (Key, Node)>,
    value: Option<&'de (Key, Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Misfit> {
        self.value = self.rest.next();
        let Some((key, _)) = self.value else { return Ok(None) };
        let read = seed.deserialize(Word(&key.text)).map(Some);
        read.map_err(|misfit| {
            let mut misfit = misfit.step(&key.text);
            misfit.at.get_or_insert(key.at);
            misfit
        })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misfit> {
        let Some((key, node)) = self.value.take() else {
            return Err(de::Error::custom("a value without a key"));
        };
        seed.deserialize(node).map_err(|misfit| misfit.from(node).step(&key.text))
    }
}

/// A key, which is also a number if a number is asked for.
struct Word<'de>(&'de str);

impl<'de> Deserializer<'de> for Word<'de> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0.parse() {
            Ok(number) => visitor.visit_u8(number),
            Err(_) => visitor.visit_borrowed_str(self.0),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Variant<'de> {
    name: &'de str,
    node: Option<&'de Node>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Misfit;
    type Variant = Content<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Content<'de>), Misfit> {
        let variant = seed.deserialize(self.name.into_deserializer())?;
        Ok((variant, Content { name: self.name, node: self.node }))
    }
}

struct Content<'de> {
    name: &'de str,
    node: Option<&'de Node>,
}

impl<'de> VariantAccess<'de> for Content<'de> {
    type Error = Misfit;

    fn unit_variant(self) -> Result<(), Misfit> {
        match self.node {
            None => Ok(()),
            Some(_) => Err(de::Error::custom(format!("write `{}` alone", self.name))),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Misfit> {
        let Some(node) = self.node else {
            let message = format!("`{0}` says more than that: write {{ {0}: … }}", self.name);
            return Err(de::Error::custom(message));
        };
        seed.deserialize(node).map_err(|misfit| misfit.from(node).step(self.name.to_owned()))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Misfit> {
        self.struct_variant(&[], visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let Some(node) = self.node else {
            let message = format!("`{0}` says more than that: write {{ {0}: … }}", self.name);
            return Err(de::Error::custom(message));
        };
        node.deserialize_any(visitor).map_err(|misfit| misfit.step(self.name))
    }
}
