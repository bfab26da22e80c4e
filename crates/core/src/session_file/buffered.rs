//! JSON text as it stands, from any source that serde reads.
//!
//! `serde_json` gives the text only to code that reads directly from it. Inside a tagged or
//! untagged enum or a flattened field, serde buffers values first; there the text is rebuilt from
//! the buffer, in the order of its fields. This rounds numbers with more digits than an `f64`
//! holds; serde does that before we see them.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor, value};
use serde_json::value::RawValue;

/// The text of any JSON value.
///
/// # Errors
/// Those of `deserializer`.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<RawValue>, D::Error> {
    Box::<RawValue>::deserialize(Unbuffered(deserializer))
}

/// A deserializer that can be asked for text even if it has none.
struct Unbuffered<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Unbuffered<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    /// [`RawValue`] asks for its text in this way. A deserializer that has it answers with a map of
    /// one entry, under `name`; a buffer answers with itself.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_newtype_struct(name, OrBuffered { name, visitor })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct OrBuffered<V> {
    name: &'static str,
    visitor: V,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for OrBuffered<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(map)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, buffered: D) -> Result<V::Value, D::Error> {
        let transcoded = serde_transcode::Transcoder::new(buffered);
        let text = serde_json::to_string(&transcoded).map_err(de::Error::custom)?;
        let told = std::iter::once((self.name, text));
        self.visitor.visit_map(value::MapDeserializer::new(told))
    }
}
