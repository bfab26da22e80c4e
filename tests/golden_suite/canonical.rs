//! The text that the reference writes for a record.

use serde_json::{Map, Value};

use crate::json::Json;
use crate::model::{Dialect, Failed, Line, Model};
use crate::schema::{self, NOW};
use crate::subject::is_recent;

impl Model {
    /// A session's history as the reference writes it.
    pub(crate) fn canonical(&self, key: &str) -> Result<String, Failed> {
        let mut text = String::new();
        for record in self.history(key)? {
            text.push_str(&self.encode(&record)?);
            text.push('\n');
        }
        Ok(text)
    }

    /// The line for a record.
    pub(crate) fn encode(&self, record: &Map<String, Value>) -> Result<String, Failed> {
        if record.contains_key("$unwritable") {
            return Err(Failed);
        }
        let fields = self.message_fields();
        // What we can read we can write: only the reference refuses a time.
        let text = match (
            self.dialect,
            record.get("created_at").and_then(Value::as_str),
        ) {
            (Dialect::Ours, Some(time)) if !schema::writable_time(time) => {
                let mut record = record.clone();
                record.insert("created_at".into(), NOW.into());
                schema::encode(fields, &record).map(|text| text.replace(NOW, time))
            }
            _ => schema::encode(fields, record),
        };
        text.ok_or(Failed)
    }

    /// The line for a message that is on disk as `raw`.
    pub(crate) fn canonical_line(&self, raw: &[u8]) -> Result<String, Failed> {
        match self.line(raw) {
            Some(Line::Message(record)) => self.encode(&record),
            _ => Err(Failed),
        }
    }

    /// What the store under test wrote, without the times it assigned (where
    /// `had_time` says no) and without fields that the reference does not know.
    /// Everything else must be the reference's text to the byte.
    pub(crate) fn written_back(
        &self,
        log: &[u8],
        had_time: impl Fn(usize) -> bool,
    ) -> Result<String, String> {
        let mut text = String::new();
        for (i, raw) in log
            .split(|b| *b == b'\n')
            .filter(|raw| !raw.is_empty())
            .enumerate()
        {
            let written = String::from_utf8_lossy(raw);
            let json = Json::parse(raw).ok_or_else(|| format!("wrote {written}"))?;
            let fields = self.message_fields();
            let mut record =
                schema::decode(fields, &json).ok_or_else(|| format!("wrote {written}"))?;
            let plain = record["content"].is_string() && !json.has_unknown(fields);
            if plain && self.encode(&record).ok().as_deref() != Some(&*written) {
                return Err(format!("not the reference's text: {written}"));
            }
            if !had_time(i)
                && record
                    .get("created_at")
                    .and_then(Value::as_str)
                    .is_some_and(is_recent)
            {
                record.remove("created_at");
            }
            text.push_str(
                &self
                    .encode(&record)
                    .map_err(|Failed| format!("wrote {written}"))?,
            );
            text.push('\n');
        }
        Ok(text)
    }
}
