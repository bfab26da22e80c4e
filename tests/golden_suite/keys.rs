//! `keys.json`: what keys are derived from, one vector each.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sessionlog::scope::{self, InboundContext, SessionPolicy, SessionScope};
use sessionlog::testing::names;

use crate::case::{self, Options};
use crate::report::{Report, same};
use crate::subject::text;

/// Computes, from a vector's inputs, its outputs.
type Derive = fn(&Vector<'_>) -> Result<Value, String>;

/// Every array there is, and what it is computed with.
const ARRAYS: [(&str, Derive); 13] = [
    ("allocate", allocate),
    ("classify", classify),
    ("files", files),
    ("identity", identity),
    ("is_main_alias", |v| {
        Ok(json!({ "out": names::is_main_alias(v.text("in")?) }))
    }),
    ("legacy_direct_aliases", legacy_direct_aliases),
    ("legacy_peer_alias", legacy_peer_alias),
    ("normalize", normalize),
    ("normalize_aliases", normalize_aliases),
    ("opaque", |v| {
        Ok(json!({ "out": scope::build_opaque_session_key(v.text("in")?) }))
    }),
    ("parse_legacy", parse_legacy),
    ("scope_signature", scope_signature),
    ("short_circuits", |v| {
        Ok(json!({ "out": names::short_circuits(v.text("in")?) }))
    }),
];

/// The corpus's version, beside the arrays.
const FORMAT: &str = "format";

pub(crate) fn run(path: &Path, options: &Options, report: &mut Report) -> Result<(), String> {
    let corpus = case::read_json(path)?;
    let arrays = corpus.as_object().ok_or("no object of arrays")?;
    for (array, vectors) in arrays.iter().filter(|(array, _)| *array != FORMAT) {
        let Some(vectors) = vectors.as_array() else {
            report.check(array, Err("not an array".into()));
            continue;
        };
        let known = ARRAYS.iter().find(|(name, _)| name == array);
        for (i, vector) in vectors.iter().enumerate() {
            let name = format!("keys.json/{array}/{i}");
            case::run(&name, options, report, |report| {
                let (_, derive) = known.ok_or("an unknown array")?;
                report.check(&name, check(&Vector(vector), *derive));
                Ok(())
            });
        }
    }
    Ok(())
}

/// Whatever of a vector is computed must be as recorded, and something must be.
fn check(vector: &Vector<'_>, derive: Derive) -> Result<(), String> {
    let derived = derive(vector)?;
    let derived = derived.as_object().ok_or("nothing derived")?;
    let recorded: Map<String, Value> = derived
        .keys()
        .map(|name| (name.clone(), vector.0[name].clone()))
        .collect();
    same(&recorded.into(), &derived.clone().into())
}

struct Vector<'a>(&'a Value);

impl Vector<'_> {
    fn text(&self, name: &str) -> Result<&str, String> {
        let value = self.0[name].as_str();
        value.ok_or_else(|| format!("no text {name}"))
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(text)
}

/// Go's empty list.
fn or_null(items: Vec<String>) -> Value {
    if items.is_empty() {
        Value::Null
    } else {
        items.into()
    }
}

fn allocate(vector: &Vector<'_>) -> Result<Value, String> {
    let input = &vector.0["input"];
    let agent_id = input["agent_id"].as_str().ok_or("no agent_id")?;
    let context: InboundContext = read(&input["context"])?;
    let policy: SessionPolicy = read(&input["policy"])?;
    let allocation = scope::allocate_route_session(agent_id, &context, &policy);
    if allocation != scope::allocate_route_session(agent_id, &context, &policy) {
        return Err("allocated otherwise the second time".into());
    }
    Ok(json!({ "output": {
        "scope": serde_json::to_value(&allocation.scope).map_err(text)?,
        "scope_json": serde_json::to_string(&allocation.scope).map_err(text)?,
        "session_key": allocation.session_key,
        "session_aliases": allocation.session_aliases,
        "main_session_key": allocation.main_session_key,
        "main_aliases": allocation.main_aliases,
    }}))
}

fn classify(vector: &Vector<'_>) -> Result<Value, String> {
    let key = vector.text("in")?;
    Ok(json!({
        "opaque": scope::is_opaque_session_key(key),
        "legacy": scope::is_legacy_agent_session_key(key),
        "explicit": scope::is_explicit_session_key(key),
    }))
}

fn files(vector: &Vector<'_>) -> Result<Value, String> {
    let key = vector.text("key")?;
    Ok(json!({
        "file_stem": names::plain_stem(key),
        "fnv1a32": names::fnv1a32(key.as_bytes()),
        "shard": names::shard_of(key),
    }))
}

fn identity(vector: &Vector<'_>) -> Result<Value, String> {
    let links: Option<BTreeMap<String, Option<Vec<String>>>> = read(&vector.0["identity_links"])?;
    let links = links.unwrap_or_default().into_iter();
    let links = links
        .map(|(name, ids)| (name, ids.unwrap_or_default()))
        .collect();
    let (channel, raw_id) = (vector.text("channel")?, vector.text("raw_id")?);
    Ok(json!({ "out": scope::canonical_session_identity_id(channel, raw_id, &links) }))
}

fn legacy_direct_aliases(vector: &Vector<'_>) -> Result<Value, String> {
    let aliases = scope::build_legacy_direct_aliases(
        vector.text("agent_id")?,
        vector.text("channel")?,
        vector.text("account")?,
        vector.text("peer_id")?,
    );
    Ok(json!({ "out": or_null(aliases) }))
}

fn legacy_peer_alias(vector: &Vector<'_>) -> Result<Value, String> {
    Ok(json!({ "out": scope::build_legacy_peer_alias(
        vector.text("agent_id")?,
        vector.text("channel")?,
        vector.text("peer_kind")?,
        vector.text("peer_id")?,
    ) }))
}

fn normalize(vector: &Vector<'_>) -> Result<Value, String> {
    let id = vector.text("in")?;
    Ok(json!({
        "agent_id": scope::normalize_agent_id(id),
        "account_id": scope::normalize_account_id(id),
        "legacy_main_alias": scope::build_legacy_main_alias(id),
        "main_session_key": scope::build_main_session_key(id),
    }))
}

fn normalize_aliases(vector: &Vector<'_>) -> Result<Value, String> {
    let aliases: Option<Vec<String>> = read(&vector.0["aliases"])?;
    let aliases = aliases.unwrap_or_default();
    let normal = names::normalize_aliases(vector.text("canonical")?, &aliases);
    Ok(json!({ "out": or_null(normal) }))
}

fn parse_legacy(vector: &Vector<'_>) -> Result<Value, String> {
    let key = vector.text("in")?;
    let parsed = scope::parse_legacy_agent_session_key(key)
        .map(|parsed| json!({ "agent_id": parsed.agent_id, "rest": parsed.rest }));
    Ok(json!({
        "out": parsed,
        "resolved_agent_id": scope::resolve_agent_id(None, key).unwrap_or_default(),
    }))
}

fn scope_signature(vector: &Vector<'_>) -> Result<Value, String> {
    let scope: SessionScope = read(&vector.0["scope"])?;
    Ok(json!({
        "signature": scope::canonical_scope_signature(&scope),
        "session_key": scope::build_session_key(&scope),
    }))
}
