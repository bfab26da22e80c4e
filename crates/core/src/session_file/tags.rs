//! Sidecar fields that are in no message and that PicoClaw does not know: a title, labels, a pin,
//! and fields of other programs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::encode::{write_html_safe, write_string};
use super::raw::{RawField, is_readable};
use super::scan::{ScanResult, Scanner};
use super::sidecar::write_list;

const TITLE: &str = "title";
const LABELS: &str = "labels";
const PINNED: &str = "pinned";

/// The fields that this crate knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KnownTag {
    Title,
    Labels,
    Pinned,
}

/// The title, labels and pin of a session, and the unknown fields of its sidecar. They stand at the
/// end of the sidecar, if there are any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionTags {
    /// The title; empty if it has none.
    pub title: String,
    /// The labels, none twice.
    pub labels: Vec<String>,
    /// The pin, for lists that show some sessions first.
    pub pinned: bool,
    pub(super) unknown: Vec<RawField>,
}

/// A change of some tags.
#[derive(Clone, Debug, Default)]
pub struct TagChange {
    /// The new title.
    pub(crate) title: Option<String>,
    /// The new labels, none twice.
    pub(crate) labels: Option<Vec<String>>,
    /// The new pin.
    pub(crate) pinned: Option<bool>,
    /// The title of a session that has none.
    first_title: Option<String>,
    /// The unknown fields, replacing all existing ones.
    unknown: Option<Vec<RawField>>,
}

impl KnownTag {
    const ALL: [Self; 3] = [Self::Title, Self::Labels, Self::Pinned];

    fn name(self) -> &'static str {
        match self {
            Self::Title => TITLE,
            Self::Labels => LABELS,
            Self::Pinned => PINNED,
        }
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

impl SessionTags {
    /// The value, as JSON text, of an unknown field of the sidecar.
    #[must_use]
    pub fn unknown_field(&self, name: &str) -> Option<&str> {
        let field = self.unknown.iter().find(|field| &*field.name == name)?;
        Some(&field.value)
    }

    /// Sets an unknown field to a value, as JSON text, or removes it.
    pub(super) fn set_unknown(&mut self, name: &str, value: Option<&str>) {
        self.unknown.retain(|field| &*field.name != name);
        self.unknown
            .extend(value.map(|value| RawField::new(name, value)));
    }

    /// The title, the labels and the pin. A tuple: a new field of these does not compile unseen
    /// where they are shown.
    #[doc(hidden)]
    #[must_use]
    pub fn shown(&self) -> (&str, &[String], bool) {
        let Self {
            title,
            labels,
            pinned,
            unknown: _,
        } = self;
        (title, labels, *pinned)
    }

    /// The tags of which `field` finds the values, as JSON text, by their names.
    #[doc(hidden)]
    #[must_use]
    pub fn salvage(mut field: impl FnMut(&str) -> Option<String>) -> Self {
        let mut tags = Self::default();
        for known in KnownTag::ALL {
            if let Some(raw) = field(known.name()) {
                let _ = tags.read(known.name(), &mut Scanner::new(&raw));
            }
        }
        tags.without_unknown()
    }

    /// True if there are no tags.
    #[doc(hidden)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The approximate bytes that they take in memory.
    #[doc(hidden)]
    pub fn size(&self) -> usize {
        let Self {
            title,
            labels,
            pinned: _,
            unknown,
        } = self;
        let unknown = unknown.iter();
        let unknown = unknown.map(|field| field.name.len() + field.value.len());
        title.len() + labels.iter().map(String::len).sum::<usize>() + unknown.sum::<usize>()
    }

    /// The tags without unknown fields.
    pub(crate) fn without_unknown(&self) -> Self {
        Self {
            title: self.title.clone(),
            labels: self.labels.clone(),
            pinned: self.pinned,
            unknown: Vec::new(),
        }
    }

    /// The tags of a fork: title and labels, like the summary. The pin belongs to one session only.
    #[doc(hidden)]
    #[must_use]
    pub fn of_a_fork(&self) -> Self {
        Self {
            title: self.title.clone(),
            labels: self.labels.clone(),
            pinned: false,
            unknown: Vec::new(),
        }
    }

    /// True if two have the same unknown fields.
    pub(super) fn is_same_unknown(&self, other: &Self) -> bool {
        self.unknown == other.unknown
    }

    /// Takes over the unknown fields of another.
    #[doc(hidden)]
    pub fn take_unknown(&mut self, from: &Self) {
        self.unknown.clone_from(&from.unknown);
    }

    /// Takes over tags of an older session that this one lacks.
    #[doc(hidden)]
    pub fn follow(&mut self, older: &Self) {
        let Self {
            title,
            labels,
            pinned,
            unknown,
        } = older;
        if self.title.is_empty() {
            self.title.clone_from(title);
        }
        let labels = self.labels.iter().chain(labels).cloned();
        self.labels = TagChange::labels(labels.collect::<Vec<_>>());
        self.pinned |= pinned;
        for field in unknown {
            if !self.unknown.iter().any(|own| own.name == field.name) {
                self.unknown.push(field.clone());
            }
        }
    }

    /// Takes in a field that is not PicoClaw's, whatever its value: if a sidecar were refused for
    /// it, `skip` would be lost with it. A title that is not a text belongs to another program.
    pub(super) fn read(&mut self, name: &str, scanner: &mut Scanner<'_>) -> ScanResult<()> {
        let raw = scanner.value()?;
        let known = KnownTag::of(name).and_then(|known| match known {
            KnownTag::Title => text(raw).map(|title| self.title = title),
            KnownTag::Labels => texts(raw).map(|labels| self.labels = labels),
            KnownTag::Pinned => flag(raw).map(|pinned| self.pinned = pinned),
        });
        if known.is_none() {
            self.unknown.push(RawField::new(name, raw));
        }
        Ok(())
    }

    /// Reads the fields of a sidecar; no tags if they cannot be read.
    #[doc(hidden)]
    #[must_use]
    pub fn decode(fields: &str) -> Self {
        super::decode_sidecar(fields.as_bytes()).map_or_else(|_| Self::default(), |meta| meta.tags)
    }

    /// The fields as a JSON object, each value unchanged.
    #[doc(hidden)]
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = vec![b'{'];
        self.each(|name, write| {
            if text.len() > 1 {
                text.push(b',');
            }
            write_string(name, &mut text);
            text.push(b':');
            write(&mut text);
        });
        text.push(b'}');
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Joins unknown fields of one name: the first gives the place, the last the value.
    pub(super) fn join_twins(&mut self) {
        let mut places = HashMap::new();
        let mut joined: Vec<RawField> = Vec::new();
        for field in std::mem::take(&mut self.unknown) {
            match places.entry(field.name.clone()) {
                Entry::Occupied(place) => joined[*place.get()] = field,
                Entry::Vacant(place) => {
                    place.insert(joined.len());
                    joined.push(field);
                }
            }
        }
        self.unknown = joined;
    }

    /// Calls `field` for each field, with its name and a function that writes its value.
    pub(super) fn each(&self, mut field: impl FnMut(&str, &dyn Fn(&mut Vec<u8>))) {
        for known in KnownTag::ALL.into_iter().filter(|known| self.has(*known)) {
            field(known.name(), &|out| match known {
                KnownTag::Title => write_string(&self.title, out),
                KnownTag::Labels => write_list(&self.labels, out),
                KnownTag::Pinned => out.extend_from_slice(b"true"),
            });
        }
        for unknown in self
            .unknown
            .iter()
            .filter(|unknown| !self.says(&unknown.name))
        {
            field(&unknown.name, &|out| {
                write_html_safe(unknown.value.as_bytes(), out);
            });
        }
    }

    /// True if it has a known field of this name: if there were two, the later would be read.
    fn says(&self, name: &str) -> bool {
        KnownTag::of(name).is_some_and(|known| self.has(known))
    }

    fn has(&self, known: KnownTag) -> bool {
        let Self {
            title,
            labels,
            pinned,
            unknown: _,
        } = self;
        match known {
            KnownTag::Title => !title.is_empty(),
            KnownTag::Labels => !labels.is_empty(),
            KnownTag::Pinned => *pinned,
        }
    }
}

/// Serialises as the fields of an object. Fields that `serde_json` could not read back are left
/// out.
impl Serialize for SessionTags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Vec::new();
        self.each(|name, write| {
            let mut value = Vec::new();
            write(&mut value);
            let value = String::from_utf8(value).ok();
            let value = value.filter(|value| is_readable(value, 1));
            let value = value.and_then(|value| RawValue::from_string(value).ok());
            fields.extend(value.map(|value| (name.to_owned(), value)));
        });
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (name, value) in &fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl TagChange {
    /// A change of title, labels and pin, as in `UpdateParts`.
    #[must_use]
    pub fn new(title: Option<String>, labels: Option<Vec<String>>, pinned: Option<bool>) -> Self {
        Self {
            title,
            labels,
            pinned,
            first_title: None,
            unknown: None,
        }
    }

    /// The new title, labels and pin.
    pub(crate) fn into_named(self) -> (Option<String>, Option<Vec<String>>, Option<bool>) {
        let Self {
            title,
            labels,
            pinned,
            first_title: _,
            unknown: _,
        } = self;
        (title, labels, pinned)
    }

    /// Gives a session a title, without white space around it, if it has none. An empty title
    /// changes nothing.
    #[must_use]
    pub fn first_title(title: &str) -> Self {
        let title = title.trim();
        Self {
            first_title: (!title.is_empty()).then(|| title.to_owned()),
            ..Self::default()
        }
    }

    /// Replaces title, labels and pin, each as an [update](crate::update::Update) does.
    #[doc(hidden)]
    #[must_use]
    pub fn named(tags: SessionTags) -> Self {
        let SessionTags {
            title,
            labels,
            pinned,
            unknown: _,
        } = tags;
        let (title, labels) = (title.trim().to_owned(), Self::labels(labels));
        Self::new(Some(title), Some(labels), Some(pinned))
    }

    /// Replaces all tags, including unknown fields.
    #[must_use]
    pub fn whole(tags: SessionTags) -> Self {
        let SessionTags {
            title,
            labels,
            pinned,
            unknown,
        } = tags;
        Self {
            title: Some(title),
            labels: Some(labels),
            pinned: Some(pinned),
            unknown: Some(unknown),
            first_title: None,
        }
    }

    /// The labels without white space around them; without repetitions and empty ones.
    pub(crate) fn labels(labels: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for label in labels {
            let label = label.trim();
            if !label.is_empty() && !all.iter().any(|other| other == label) {
                all.push(label.to_owned());
            }
        }
        all
    }

    /// True if it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self {
            title,
            labels,
            pinned,
            first_title,
            unknown,
        } = self;
        title.is_none()
            && labels.is_none()
            && pinned.is_none()
            && first_title.is_none()
            && unknown.is_none()
    }

    /// The bytes that it holds.
    #[must_use]
    pub fn size(&self) -> usize {
        let Self {
            title,
            labels,
            pinned: _,
            first_title,
            unknown,
        } = self;
        let labels = labels.iter().flatten().map(String::len);
        let unknown = unknown.iter().flatten();
        let unknown = unknown.map(|field| field.name.len() + field.value.len());
        let titles = [title, first_title].into_iter().flatten();
        titles.map(String::len).sum::<usize>() + labels.sum::<usize>() + unknown.sum::<usize>()
    }

    /// Makes the change.
    pub fn apply(self, tags: &mut SessionTags) {
        let Self {
            title,
            labels,
            pinned,
            first_title,
            unknown,
        } = self;
        let title = title.or(first_title.filter(|_| tags.title.is_empty()));
        let is_whole = unknown.is_some();
        tags.unknown = unknown.unwrap_or_else(|| std::mem::take(&mut tags.unknown));
        let is_named = |known: KnownTag| match known {
            KnownTag::Title => title.is_some(),
            KnownTag::Labels => labels.is_some(),
            KnownTag::Pinned => pinned.is_some(),
        };
        // Another program's field of that name is replaced.
        tags.unknown
            .retain(|field| is_whole || !KnownTag::of(&field.name).is_some_and(is_named));
        tags.title = title.unwrap_or_else(|| std::mem::take(&mut tags.title));
        tags.labels = labels.unwrap_or_else(|| std::mem::take(&mut tags.labels));
        tags.pinned = pinned.unwrap_or(tags.pinned);
    }
}

fn text(raw: &str) -> Option<String> {
    let text = Scanner::new(raw).text().ok()??;
    Some(text.value().into_owned())
}

fn texts(raw: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let mut is_text = true;
    let read = Scanner::new(raw).array(|scanner| {
        match text(scanner.value()?) {
            Some(text) => all.push(text),
            None => is_text = false,
        }
        Ok(())
    });
    (read.is_ok() && is_text).then_some(all)
}

fn flag(raw: &str) -> Option<bool> {
    match raw {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_file::{decode_sidecar, encode_sidecar};

    const START: &str = r#"{"key":"a","summary":"s","skip":3,"count":5,"#;

    fn read(rest: &str) -> crate::session_file::SessionMeta {
        decode_sidecar(format!("{START}{rest}}}").as_bytes()).unwrap()
    }

    #[test]
    fn a_title_labels_and_a_pin_read_as_they_were_written() {
        let mut meta = crate::session_file::SessionMeta::empty("a");
        meta.tags.title = "Trip \"to\" Oslo <1>\u{2028}".into();
        meta.tags.labels = vec!["work".into(), "a, b".into()];
        meta.tags.pinned = true;
        let again = decode_sidecar(&encode_sidecar(&meta)).unwrap();
        assert_eq!(again.tags, meta.tags);
        let json = serde_json::to_value(&meta).unwrap();
        assert_eq!(json["labels"][1], "a, b");
        assert_eq!(json["pinned"], true);
    }

    #[test]
    fn fields_of_other_programs_are_kept_as_they_are_in_their_order() {
        let meta = read(r#""z":{"n":1.50, "é":[null]},"Title":7,"a":"<>","z":{"n":2.0}"#);
        let text = String::from_utf8(encode_sidecar(&meta)).unwrap();
        let (z, title) = (text.find("\"z\"").unwrap(), text.find("\"Title\"").unwrap());
        assert!(
            z < title && text.contains("2.0") && !text.contains("1.50"),
            "{text}"
        );
        assert_eq!(meta.tags.unknown_field("a"), Some("\"<>\""));
        let again = decode_sidecar(text.as_bytes()).unwrap();
        assert_eq!(encode_sidecar(&again), text.as_bytes());
    }

    #[test]
    fn what_another_program_means_by_our_names_costs_no_sidecar_and_stays() {
        for theirs in [
            r#""title":{"en":"x"}"#,
            r#""labels":"x""#,
            r#""labels":["x",1]"#,
            r#""pinned":1"#,
        ] {
            let mut meta = read(theirs);
            assert_eq!((meta.skip, meta.count), (3, 5));
            assert_eq!(meta.tags.without_unknown(), SessionTags::default());
            let flat = String::from_utf8(encode_sidecar(&meta)).unwrap();
            let flat: String = flat.split_whitespace().collect();
            assert!(flat.contains(theirs), "{flat}");
            let change = TagChange::new(Some("mine".into()), Some(Vec::new()), Some(true));
            change.apply(&mut meta.tags);
            let again = decode_sidecar(&encode_sidecar(&meta)).unwrap();
            assert_eq!((&*again.tags.title, again.tags.pinned), ("mine", true));
        }
    }

    #[test]
    fn tags_that_are_put_elsewhere_are_the_same_there_with_what_others_mean_by_our_names() {
        for rest in [
            r#""title":"T","labels":["a","\u0000"],"pinned":true,"z":[1.50,"<>"],"Z":null"#,
            r#""title":{"en":"x"},"pinned":"yes","deep":{"a":"\ud800"}"#,
            r#""z":2"#,
        ] {
            let tags = read(rest).tags;
            let text = tags.encode();
            let again = SessionTags::decode(&text);
            assert_eq!(again.encode(), text);
            let mut other = read(r#""title":"before","a":1"#).tags;
            TagChange::whole(again).apply(&mut other);
            assert_eq!(other.encode(), text);
        }
        assert_eq!(SessionTags::decode("{}"), SessionTags::default());
        assert_eq!(SessionTags::default().encode(), "{}");
    }

    #[test]
    fn labels_stand_once_and_none_is_blank() {
        let given = [" b", "a", "b ", "", " "].map(String::from);
        assert_eq!(TagChange::labels(given), ["b", "a"]);
    }
}
