//! A sidecar as PicoClaw reads and writes it.

use serde_json::{Map, Value};

use crate::foreign::json::{Json, quote};
use crate::foreign::schema::{self, META, ZERO_TIME};

/// What PicoClaw knows about a session beyond its lines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sidecar {
    pub(crate) key: String,
    pub(crate) summary: String,
    /// Raw non-empty lines at the start of the log that are truncated away.
    pub(crate) skip: i64,
    pub(crate) count: i64,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    /// In the order in which it is stored.
    pub(crate) scope: Option<Json>,
    pub(crate) aliases: Vec<String>,
}

impl Sidecar {
    /// That of a session which has none.
    pub(crate) fn new(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            summary: String::new(),
            skip: 0,
            count: 0,
            created_at: ZERO_TIME.to_owned(),
            updated_at: ZERO_TIME.to_owned(),
            scope: None,
            aliases: Vec::new(),
        }
    }

    /// `None` if PicoClaw refuses it. Fields that it does not know are gone.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let json = Json::parse(bytes)?;
        let known = schema::decode(&META, &json)?;
        Some(Self {
            key: text(&known, "key"),
            summary: text(&known, "summary"),
            skip: known["skip"].as_i64()?,
            count: known["count"].as_i64()?,
            created_at: text(&known, "created_at"),
            updated_at: text(&known, "updated_at"),
            scope: scope(json),
            aliases: aliases(&known),
        })
    }

    /// Indented by two blanks, without a line feed at the end; scope and aliases only
    /// if there are any.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let text = |text: &String| Json::Text(text.clone());
        let mut fields = vec![
            ("key", text(&self.key)),
            ("summary", text(&self.summary)),
            ("skip", Json::Number(self.skip.to_string())),
            ("count", Json::Number(self.count.to_string())),
            ("created_at", text(&self.created_at)),
            ("updated_at", text(&self.updated_at)),
        ];
        fields.extend(self.scope.clone().map(|scope| ("scope", scope)));
        if !self.aliases.is_empty() {
            fields.push((
                "aliases",
                Json::List(self.aliases.iter().map(text).collect()),
            ));
        }
        let fields = fields.into_iter();
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        lay_out(&Json::Object(fields.collect()), 0).into_bytes()
    }
}

fn text(known: &Map<String, Value>, name: &str) -> String {
    known[name].as_str().unwrap_or_default().to_owned()
}

fn aliases(known: &Map<String, Value>) -> Vec<String> {
    let listed = known.get("aliases").and_then(Value::as_array);
    let texts = listed.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn scope(json: Json) -> Option<Json> {
    let Json::Object(fields) = json else {
        return None;
    };
    let scopes = fields.into_iter().rev();
    let mut scopes = scopes.filter(|(name, _)| name.eq_ignore_ascii_case("scope"));
    scopes.next().map(|(_, scope)| scope)
}

fn lay_out(json: &Json, depth: usize) -> String {
    match json {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number(text) => text.clone(),
        Json::Text(text) => quote(text),
        Json::List(items) => {
            let items = items.iter().map(|item| lay_out(item, depth + 1));
            enclosed(["[", "]"], &items.collect::<Vec<_>>(), depth)
        }
        Json::Object(fields) => {
            let field = |(name, value): &(String, Json)| {
                format!("{}: {}", quote(name), lay_out(value, depth + 1))
            };
            enclosed(
                ["{", "}"],
                &fields.iter().map(field).collect::<Vec<_>>(),
                depth,
            )
        }
    }
}

fn enclosed([open, close]: [&str; 2], items: &[String], depth: usize) -> String {
    if items.is_empty() {
        return format!("{open}{close}");
    }
    let (inner, outer) = ("  ".repeat(depth + 1), "  ".repeat(depth));
    let items = items.join(&format!(",\n{inner}"));
    format!("{open}\n{inner}{items}\n{outer}{close}")
}
