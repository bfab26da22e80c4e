//! How the model changes: one method per operation.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::json::Json;
use crate::model::{Dialect, Failed, Line, Model, blank, file_stem, hex, transient};
use crate::rules::Rule;
use crate::schema::{self, Field, NOW, ZERO_TIME};

impl Model {
    /// Of each kind of control record that kimi-cli acts on, the last among the
    /// skipped lines: its effect outlives truncation.
    fn carried(&self, key: &str) -> Result<(Vec<u8>, i64), Failed> {
        let skip = usize::try_from(self.skip(key)?).unwrap_or(0);
        let mut last: [Option<&[u8]>; 3] = [None; 3];
        for raw in self.lines(key).into_iter().take(skip) {
            if self.line(raw) == Some(Line::Control) {
                let record = Json::parse(raw).ok_or(Failed)?.top_level();
                if let Some(kind) = acted_on(&record) {
                    last[kind] = Some(raw);
                }
            }
        }
        let kept: Vec<_> = last.into_iter().flatten().collect();
        let lines: Vec<_> = kept.iter().flat_map(|raw| [*raw, &b"\n"[..]]).collect();
        Ok((lines.concat(), count(kept.len())))
    }

    /// The live lines as a rewrite leaves them.
    fn rewritten(&self, key: &str) -> Result<(Vec<u8>, i64), Failed> {
        let (mut log, mut count) = self.carried(key)?;
        for (_, raw, line) in self.live(key)? {
            match (self.dialect, line) {
                (_, Line::Transient) | (Dialect::Reference, Line::Corrupt | Line::Control) => {
                    continue;
                }
                (Dialect::Reference, Line::Message(record)) => {
                    log.extend_from_slice(self.encode(&record)?.as_bytes());
                }
                (Dialect::Ours, _) => {
                    self.applied.note(Rule::KeptLines);
                    log.extend_from_slice(raw);
                }
            }
            log.push(b'\n');
            count += 1;
        }
        Ok((log, count))
    }

    fn put_meta(&mut self, key: &str, mut meta: Map<String, Value>) {
        meta.insert("updated_at".into(), NOW.into());
        let stem = self.stem(key);
        self.metas.insert(stem, Some(meta));
    }

    fn put_log(&mut self, key: &str, log: Vec<u8>) {
        let stem = self.stem(key);
        self.logs.insert(stem, log);
    }

    fn append(&mut self, key: &str, bytes: &[u8]) {
        let stem = self.stem(key);
        self.logs.entry(stem).or_default().extend_from_slice(bytes);
    }

    /// `raw_append` of the traces: what another program writes.
    pub(crate) fn raw_append(&mut self, key: &str, text: &str) {
        let log = self.logs.entry(file_stem(key)).or_default();
        log.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn add(&mut self, key: &str, message: &Value) -> Result<(), Failed> {
        let Some(record) = self.given(message)? else {
            return Ok(());
        };
        let mut line = self.encode(&record)?;
        line.push('\n');
        self.check_key(key)?;
        if self.dialect == Dialect::Reference {
            self.append(key, line.as_bytes());
        }
        let mut meta = self.meta(key)?;
        if self.dialect == Dialect::Ours {
            self.start_fresh_line(key, &mut meta);
            self.append(key, line.as_bytes());
        }
        created(&mut meta);
        meta.insert(
            "count".into(),
            (meta["count"].as_i64().unwrap_or(0) + 1).into(),
        );
        self.put_meta(key, meta);
        Ok(())
    }

    /// Ends an unterminated tail and moves a skip beyond the file to its end.
    fn start_fresh_line(&mut self, key: &str, meta: &mut Map<String, Value>) {
        let lines = count(self.lines(key).len());
        if meta["skip"].as_i64().is_some_and(|skip| skip > lines) {
            self.applied.note(Rule::FreshLine);
            meta.insert("skip".into(), lines.into());
        }
        let torn = self
            .logs
            .get(&self.stem(key))
            .is_some_and(|log| !log.is_empty() && !log.ends_with(b"\n"));
        if torn {
            self.applied.note(Rule::FreshLine);
            self.append(key, b"\n");
        }
    }

    /// A message from a caller; `None` if it is transient.
    fn given(&self, message: &Value) -> Result<Option<Map<String, Value>>, Failed> {
        let json = Json::parse(message.to_string().as_bytes()).ok_or(Failed)?;
        let mut record = schema::decode(self.message_fields(), &json).ok_or(Failed)?;
        if transient(&record) {
            return Ok(None);
        }
        record.entry("created_at").or_insert_with(|| NOW.into());
        Ok(Some(record))
    }

    pub(crate) fn set_history(&mut self, key: &str, messages: &[Value]) -> Result<(), Failed> {
        let mut meta = self.meta(key)?;
        let (mut log, mut count) = (Vec::new(), 0);
        for message in messages {
            if let Some(record) = self.given(message)? {
                log.extend_from_slice(self.encode(&record)?.as_bytes());
                log.push(b'\n');
                count += 1;
            }
        }
        created(&mut meta);
        meta.insert("skip".into(), 0.into());
        meta.insert("count".into(), count.into());
        self.put_meta(key, meta);
        self.put_log(key, log);
        Ok(())
    }

    pub(crate) fn set_summary(&mut self, key: &str, summary: &str) -> Result<(), Failed> {
        let mut meta = self.meta(key)?;
        created(&mut meta);
        meta.insert("summary".into(), summary.into());
        self.put_meta(key, meta);
        Ok(())
    }

    pub(crate) fn truncate(&mut self, key: &str, keep_last: i64) -> Result<(), Failed> {
        let mut meta = self.meta(key)?;
        if self.dialect == Dialect::Ours && !self.exists(key) {
            self.applied.note(Rule::NothingCreated);
            return Ok(());
        }
        let retained: Vec<i64> = self
            .live(key)?
            .into_iter()
            .filter_map(|(number, _, line)| matches!(line, Line::Message(_)).then_some(number))
            .collect();
        let count = count(self.lines(key).len());
        let keep = usize::try_from(keep_last).unwrap_or(0);
        let skip = if keep == 0 || retained.is_empty() {
            count
        } else if keep < retained.len() {
            retained[retained.len() - keep - 1]
        } else {
            meta["skip"].as_i64().unwrap_or(0).min(count)
        };
        meta.insert("skip".into(), skip.into());
        meta.insert("count".into(), count.into());
        self.put_meta(key, meta);
        Ok(())
    }

    pub(crate) fn compact(&mut self, key: &str) -> Result<(), Failed> {
        let mut meta = self.meta(key)?;
        if self.skip(key)? == 0 {
            return Ok(());
        }
        let (log, count) = self.rewritten(key)?;
        meta.insert("skip".into(), 0.into());
        meta.insert("count".into(), count.into());
        self.put_meta(key, meta);
        self.put_log(key, log);
        Ok(())
    }

    pub(crate) fn upsert(
        &mut self,
        key: &str,
        scope: &Value,
        aliases: &[String],
    ) -> Result<(), Failed> {
        let mut meta = self.meta(key)?;
        created(&mut meta);
        replace_scope(&mut meta, scope, normal_aliases(key, aliases));
        self.put_meta(key, meta);
        Ok(())
    }

    pub(crate) fn promote(
        &mut self,
        key: &str,
        scope: &Value,
        aliases: &[String],
    ) -> Result<bool, Failed> {
        let aliases = normal_aliases(key, aliases);
        let mut meta = self.meta(key)?;
        let candidates: Vec<_> = aliases
            .iter()
            .filter(|alias| !is_main(alias))
            .cloned()
            .collect();
        if candidates.is_empty() || !blank(&meta["summary"]) || !self.history(key)?.is_empty() {
            return Ok(false);
        }
        for alias in candidates {
            let summary = self.meta(&alias)?["summary"].clone();
            if self.history(&alias)?.is_empty() && blank(&summary) {
                continue;
            }
            let (own, own_count) = match self.dialect {
                Dialect::Reference => Default::default(),
                Dialect::Ours => self.rewritten(key)?,
            };
            let (log, count) = self.rewritten(&alias)?;
            created(&mut meta);
            meta.insert("skip".into(), 0.into());
            meta.insert("count".into(), (own_count + count).into());
            if !blank(&summary) {
                meta.insert(
                    "summary".into(),
                    summary.as_str().unwrap_or("").trim().into(),
                );
            }
            replace_scope(&mut meta, scope, aliases);
            self.put_meta(key, meta);
            self.put_log(key, [own, log].concat());
            return Ok(true);
        }
        Ok(false)
    }

    /// Imports the old manager's files: how many, and whether it stopped.
    pub(crate) fn migrate(&mut self) -> (usize, bool) {
        let names: Vec<_> = self
            .rest
            .keys()
            .filter(|name| name.strip_suffix(".json").is_some() && !name.contains('/'))
            .cloned()
            .collect();
        let mut migrated = 0;
        for name in names {
            match self.migrate_file(&name) {
                Ok(true) => migrated += 1,
                Ok(false) => {}
                Err(Failed) => return (migrated, true),
            }
        }
        (migrated, false)
    }

    fn migrate_file(&mut self, name: &str) -> Result<bool, Failed> {
        let fields: &'static [Field] = match self.dialect {
            Dialect::Reference => &schema::REFERENCE_LEGACY,
            Dialect::Ours => &schema::OUR_LEGACY,
        };
        let bytes = &self.rest[name][..];
        let marked = bytes.strip_prefix("\u{feff}".as_bytes());
        let bytes = match marked.filter(|_| self.dialect == Dialect::Ours) {
            Some(bare) => {
                self.applied.note(Rule::OneLine);
                bare
            }
            None => bytes,
        };
        let json = Json::parse(bytes);
        let Some(session) = json.and_then(|json| schema::decode(fields, &json)) else {
            return Ok(false);
        };
        let named = session["key"].as_str().filter(|key| !key.is_empty());
        let key = named.unwrap_or(name.trim_end_matches(".json"));
        if self.dialect == Dialect::Ours && self.check_key(key).is_err() {
            return Ok(false);
        }
        let messages = session
            .get("messages")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        self.set_history(key, &messages)?;
        let summary = session["summary"].as_str().unwrap_or("");
        if !summary.is_empty() {
            self.set_summary(key, summary)?;
        }
        let bytes = self.rest.remove(name).unwrap_or_default();
        self.rest.insert(format!("{name}.migrated"), bytes);
        Ok(true)
    }
}

/// Which kind of control record kimi-cli takes it for, in the order in which a
/// rewrite carries them; `None` if it ignores it.
fn acted_on(record: &Map<String, Value>) -> Option<usize> {
    let is_integer = |name| {
        record
            .get(name)
            .is_some_and(|value| value.is_i64() || value.is_u64() || value.is_boolean())
    };
    match record.get("role").and_then(Value::as_str) {
        Some("_system_prompt") if record.get("content").is_some_and(Value::is_string) => Some(0),
        Some("_checkpoint") if is_integer("id") => Some(1),
        Some("_usage") if is_integer("token_count") => Some(2),
        _ => None,
    }
}

fn count(items: usize) -> i64 {
    i64::try_from(items).unwrap_or(i64::MAX)
}

fn created(meta: &mut Map<String, Value>) {
    if meta["created_at"] == ZERO_TIME {
        meta.insert("created_at".into(), NOW.into());
    }
}

fn replace_scope(meta: &mut Map<String, Value>, scope: &Value, aliases: Vec<String>) {
    meta.remove("scope");
    meta.remove("aliases");
    if !scope.is_null() {
        meta.insert("scope".into(), scope.clone());
    }
    if !aliases.is_empty() {
        meta.insert("aliases".into(), aliases.into());
    }
}

fn normal_aliases(key: &str, aliases: &[String]) -> Vec<String> {
    let mut normal: Vec<String> = Vec::new();
    for alias in aliases.iter().map(|alias| alias.trim()) {
        if !alias.is_empty() && alias != key && !normal.iter().any(|known| known == alias) {
            normal.push(alias.to_owned());
        }
    }
    normal
}

/// Main-session aliases are shared by everyone and never promoted.
fn is_main(alias: &str) -> bool {
    let parts: Vec<_> = alias.split(':').collect();
    let opaque = format!("sk_v1_{}", hex(&Sha256::digest(b"agent:main:main")));
    alias == opaque || matches!(parts[..], ["agent", _, "main"])
}
