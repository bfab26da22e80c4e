//! Whether the model does what PicoClaw did.

use std::fs;
use std::path::Path;

use serde_json::Value;
use sessionlog::testing::disk_model::MemoryStorage;

use super::{Files, InMemory, OnDisk, PicoClaw, Record, Refused, Sidecar, log_name, sidecar_name};
use crate::foreign::json::Json;
use crate::foreign::schema::{self, NOW, REFERENCE_MESSAGE};

fn in_memory() -> PicoClaw<InMemory> {
    PicoClaw::new(InMemory::new(&MemoryStorage::new(), "/sessions"), 0)
}

fn golden() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../golden"))
}

#[test]
fn it_writes_the_bytes_that_are_picoclaws() {
    let pico = in_memory();
    pico.add("telegram:1/2", "user", "a<b").unwrap();
    pico.upsert(
        "telegram:1/2",
        Some(r#"{"version":1,"dimensions":["chat"]}"#),
        &["a", " a "],
    )
    .unwrap();
    let line =
        "{\"role\":\"user\",\"content\":\"a\\u003cb\",\"created_at\":\"2031-01-01T00:00:00Z\"}\n";
    let log = pico.files.read("telegram_1_2.jsonl").unwrap();
    assert_eq!(String::from_utf8(log).unwrap(), line);
    let sidecar = pico.files.read("telegram_1_2.meta.json").unwrap();
    let expected = r#"{
  "key": "telegram:1/2",
  "summary": "",
  "skip": 0,
  "count": 1,
  "created_at": "2031-01-01T00:00:01Z",
  "updated_at": "2031-01-01T00:00:03Z",
  "scope": {
    "version": 1,
    "dimensions": [
      "chat"
    ]
  },
  "aliases": [
    "a"
  ]
}"#;
    assert_eq!(String::from_utf8(sidecar).unwrap(), expected);
    assert_eq!(pico.keys(), ["telegram:1/2"]);
}

#[test]
fn every_recorded_sidecar_is_written_again_as_it_was() {
    let mut seen = 0;
    for case in ["truncated", "compacted", "metadata", "promoted", "plain"] {
        let files = OnDisk::new(golden().join("sessions").join(case).join("store"));
        let names = files.list().into_iter();
        for name in names.filter(|name| name.ends_with(".meta.json")) {
            let bytes = files.read(&name).unwrap();
            let again = Sidecar::decode(&bytes).unwrap().encode();
            assert_eq!(again, bytes, "{case}/{name}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} sidecars");
}

#[test]
fn a_torn_tail_takes_the_next_message_along() {
    let pico = in_memory();
    pico.add("cli", "user", "one").unwrap();
    pico.files.append("cli.jsonl", b"{\"role\":\"us");
    pico.add("cli", "user", "two").unwrap();
    pico.add("cli", "user", "three").unwrap();
    assert_eq!(pico.texts("cli").unwrap(), ["one", "three"]);
    assert_eq!(pico.sidecar("cli").unwrap().count, 3);
}

#[test]
fn a_damaged_sidecar_refuses_everything_and_still_takes_the_line() {
    let pico = in_memory();
    pico.files.replace("cli.meta.json", b"{");
    assert_eq!(pico.add("cli", "user", "one"), Err(Refused));
    assert_eq!(pico.history("cli"), Err(Refused));
    assert_eq!(pico.truncate("cli", 1), Err(Refused));
    assert_eq!(pico.compact("cli"), Err(Refused));
    assert_eq!(pico.set_history("cli", &[]), Err(Refused));
    assert_eq!(pico.set_summary("cli", "s"), Err(Refused));
    assert_eq!(pico.upsert("cli", None, &[]), Err(Refused));
    pico.delete_sidecar("cli");
    assert_eq!(pico.texts("cli").unwrap(), ["one"]);
}

#[test]
fn truncation_counts_raw_lines_and_a_compaction_drops_what_does_not_decode() {
    let pico = in_memory();
    for text in ["0", "1", "2", "3"] {
        pico.add("cli", "user", text).unwrap();
        pico.files.append("cli.jsonl", b"\nno record\n");
    }
    pico.truncate("cli", 2).unwrap();
    let sidecar = pico.sidecar("cli").unwrap();
    assert_eq!((sidecar.skip, sidecar.count), (3, 8));
    assert_eq!(pico.texts("cli").unwrap(), ["2", "3"]);
    pico.compact("cli").unwrap();
    let sidecar = pico.sidecar("cli").unwrap();
    assert_eq!((sidecar.skip, sidecar.count), (0, 2));
    assert_eq!(pico.texts("cli").unwrap(), ["2", "3"]);
    pico.truncate("ghost", 1).unwrap();
    assert_eq!(pico.keys(), ["cli", "ghost"]);
    pico.compact("nobody").unwrap();
    assert_eq!(pico.keys(), ["cli", "ghost"]);
}

#[test]
fn a_history_is_replaced_by_new_files_and_creates_both() {
    let pico = in_memory();
    pico.set_history("cli", &[]).unwrap();
    assert_eq!(pico.files.list(), ["cli.jsonl", "cli.meta.json"]);
    pico.set_summary("cli", "said").unwrap();
    pico.set_history("cli", &[("user", "one"), ("assistant", "two")])
        .unwrap();
    assert_eq!(pico.texts("cli").unwrap(), ["one", "two"]);
    assert_eq!(pico.sidecar("cli").unwrap().summary, "said");
    pico.delete_log("cli");
    assert!(pico.history("cli").unwrap().is_empty());
    pico.delete("cli");
    assert!(pico.files.list().is_empty());
}

#[test]
fn a_person_changes_one_thing() {
    let pico = in_memory();
    for text in ["one", "two", "three"] {
        pico.add("cli", "user", text).unwrap();
    }
    let before = pico.files.read("cli.jsonl").unwrap();
    pico.editor_fix_typo("cli", 1);
    let after = pico.files.read("cli.jsonl").unwrap();
    assert_eq!(after.len(), before.len());
    assert_eq!(pico.texts("cli").unwrap(), ["one", "xwo", "three"]);
    pico.editor_remove_line("cli", 0);
    assert_eq!(pico.texts("cli").unwrap(), ["xwo", "three"]);
    let before = pico.sidecar("cli").unwrap();
    pico.editor_rewrite_sidecar_summary("cli", "theirs");
    let summary = "theirs".to_owned();
    assert_eq!(pico.sidecar("cli").unwrap(), Sidecar { summary, ..before });
}

#[test]
fn both_directories_take_and_list_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let real = PicoClaw::new(OnDisk::new(dir.path()), 7);
    let model = PicoClaw::new(InMemory::new(&MemoryStorage::new(), "/s"), 7);
    a_life(&real);
    a_life(&model);
    assert_eq!(real.files.list(), model.files.list());
    for name in real.files.list() {
        assert_eq!(real.files.read(&name), model.files.read(&name), "{name}");
    }
}

fn a_life(pico: &PicoClaw<impl Files>) {
    for text in ["one", "two", "three"] {
        pico.add("a:1", "user", text).unwrap();
        pico.add("b", "user", text).unwrap();
    }
    pico.truncate("a:1", 1).unwrap();
    pico.compact("a:1").unwrap();
    pico.editor_fix_typo("b", 2);
    pico.files.remove("nobody.jsonl");
    pico.delete_log("b");
    pico.set_history("b", &[("user", "new")]).unwrap();
}

/// The recordings hold what is not modelled, such as promotions: of those traces, the
/// part before.
#[test]
fn it_does_what_picoclaw_did_in_every_recorded_operation() {
    let mut steps = 0;
    for entry in fs::read_dir(golden().join("ops")).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let trace: Value = serde_json::from_slice(&bytes).unwrap();
        if trace["layer"] == "store" {
            steps += replay(&trace);
        }
    }
    assert!(steps > 500, "{steps} steps");
}

/// How many steps were compared.
fn replay(trace: &Value) -> usize {
    let pico = in_memory();
    let recorded = trace["steps"].as_array().unwrap();
    for (nth, step) in recorded.iter().enumerate() {
        let Some(done) = apply(&pico, step) else {
            return nth;
        };
        let what = format!("{} step {nth} {}", trace["name"], step["op"]);
        assert_eq!(done.is_err(), step["error"] != false, "{what}");
        for (key, state) in step["state"].as_object().unwrap() {
            assert_eq!(&state_of(&pico, key), state, "{what} {key}");
        }
    }
    recorded.len()
}

/// `None` for what is not modelled.
fn apply(pico: &PicoClaw<InMemory>, step: &Value) -> Option<Result<(), Refused>> {
    let args = &step["args"];
    let text = |name: &str| args[name].as_str().unwrap_or_default();
    let key = text("key");
    let given = |messages: &Value| -> Vec<Record> {
        let messages = messages.as_array().into_iter().flatten();
        messages.map(record).collect()
    };
    Some(match step["op"].as_str().unwrap() {
        "add" => pico.add(key, text("role"), text("content")),
        "add_full" => pico.add_record(key, &record(&args["message"])),
        "set_summary" => pico.set_summary(key, text("summary")),
        "truncate" => pico.truncate(key, args["keep_last"].as_i64().unwrap()),
        "set_history" => pico.set_records(key, &given(&args["history"])),
        "compact" => pico.compact(key),
        "raw_append" => {
            pico.files.append(&log_name(key), text("text").as_bytes());
            Ok(())
        }
        "upsert_meta" => {
            let scope = Some(&args["scope"]).filter(|scope| !scope.is_null());
            let aliases = args["aliases"].as_array().into_iter().flatten();
            let aliases: Vec<_> = aliases.filter_map(Value::as_str).collect();
            pico.upsert(key, scope.map(Value::to_string).as_deref(), &aliases)
        }
        "resolve" | "list" => Ok(()),
        _ => return None,
    })
}

/// A message of a recording, said now.
fn record(message: &Value) -> Record {
    let json = Json::parse(message.to_string().as_bytes()).unwrap();
    let mut record = schema::decode(&REFERENCE_MESSAGE, &json).unwrap();
    record.entry("created_at").or_insert_with(|| NOW.into());
    record
}

/// History, summary, counters and what else is set, as recorded.
fn state_of(pico: &PicoClaw<InMemory>, key: &str) -> Value {
    let (Ok(history), Ok(sidecar)) = (pico.history(key), pico.sidecar(key)) else {
        return serde_json::json!({ "error": true });
    };
    let mut state = serde_json::json!({
        "history": history.into_iter().map(without_our_time).collect::<Value>(),
        "summary": sidecar.summary,
        "skip": sidecar.skip,
        "count": sidecar.count,
    });
    if !sidecar.aliases.is_empty() {
        state["aliases"] = sidecar.aliases.into();
    }
    if let Some(scope) = sidecar.scope {
        state["scope"] = scope.to_value();
    }
    state
}

fn without_our_time(mut record: Record) -> Value {
    let time = record.get("created_at").and_then(Value::as_str);
    if time.is_some_and(|time| time == NOW || time.starts_with("2031-")) {
        record.remove("created_at");
    }
    Value::Object(record)
}

#[test]
fn a_name_holds_nothing_that_parts_a_path() {
    assert_eq!(log_name(r"a:b/c\d"), "a_b_c_d.jsonl");
    assert_eq!(sidecar_name(r"a:b/c\d"), "a_b_c_d.meta.json");
}
