//! What another program does to the session's files.

use crate::foreign::picoclaw::{Files as _, InMemory, PicoClaw, Sidecar, log_name, sidecar_name};

use super::ours::KEY;

/// One thing that it does.
pub(super) struct Deed {
    pub(super) name: &'static str,
    pub(super) run: fn(&PicoClaw<InMemory>, &str),
    /// Whether it writes texts.
    pub(super) adds: bool,
    /// Whether it writes a history of its own, in which any line that it saw may be.
    pub(super) rewrites: bool,
}

const ADDS: [&str; 12] = [
    "add",
    "add_delete_sidecar",
    "add_two",
    "add_truncate",
    "set",
    "set_add",
    "truncate_compact_add",
    "typo",
    "typo_last",
    "truncate_all_add",
    "add_summary",
    "upsert_add",
];

/// All of them. What fails was not done: PicoClaw refuses what it cannot read.
#[expect(clippy::too_many_lines, reason = "a list")]
pub(super) fn deeds() -> Vec<Deed> {
    let deed = |name: &'static str, run| Deed {
        name,
        run,
        adds: ADDS.contains(&name),
        rewrites: false,
    };
    let rewrite = |name: &'static str, run| Deed {
        name,
        run,
        adds: ADDS.contains(&name),
        rewrites: true,
    };
    vec![
        deed("nothing", |_, _| {}),
        deed("add", |p, tag| add(p, "user", "theirs", tag)),
        deed("add_two", |p, tag| {
            add(p, "user", "theirs", tag);
            add(p, "assistant", "answer", tag);
        }),
        deed("truncate", |p, _| p.truncate(KEY, 1).unwrap_or_default()),
        deed("truncate_all", |p, _| {
            p.truncate(KEY, 0).unwrap_or_default();
        }),
        deed("add_truncate", |p, tag| {
            add(p, "user", "theirs", tag);
            add(p, "assistant", "answer", tag);
            let _ = p.truncate(KEY, 1);
        }),
        rewrite("set", set),
        rewrite("set_add", |p, tag| {
            set(p, tag);
            add(p, "user", "theirs", tag);
        }),
        rewrite("set_none", |p, _| {
            p.set_history(KEY, &[]).unwrap_or_default();
        }),
        rewrite("clear", clear),
        rewrite("clear_truncating", |p, _| {
            let _ = p.truncate(KEY, 0);
            let _ = p.compact(KEY);
            let _ = p.set_summary(KEY, "");
        }),
        rewrite("clear_summary", |p, tag| {
            clear(p, tag);
            let _ = p.set_summary(KEY, "theirs");
        }),
        rewrite("clear_upsert", |p, tag| {
            clear(p, tag);
            let _ = p.upsert(KEY, Some("{\"k\":1}"), &["other"]);
        }),
        deed("truncate_none", |p, _| {
            p.truncate(KEY, 100).unwrap_or_default();
        }),
        deed("truncate_all_add", |p, tag| {
            let _ = p.truncate(KEY, 0);
            add(p, "user", "theirs", tag);
        }),
        deed("add_summary", |p, tag| {
            add(p, "user", "theirs", tag);
            let _ = p.set_summary(KEY, "theirs");
        }),
        deed("upsert_add", |p, tag| {
            let _ = p.upsert(KEY, Some("{\"k\":1}"), &["other"]);
            add(p, "user", "theirs", tag);
        }),
        deed("unname", |p, _| {
            let _ = p.upsert(KEY, None, &[]);
        }),
        rewrite("truncate_all_compact", |p, _| {
            let _ = p.truncate(KEY, 0);
            let _ = p.compact(KEY);
        }),
        rewrite("compact", |p, _| p.compact(KEY).unwrap_or_default()),
        rewrite("truncate_compact_add", |p, tag| {
            let _ = p.truncate(KEY, 1);
            let _ = p.compact(KEY);
            add(p, "user", "theirs", tag);
        }),
        deed("summary", |p, _| {
            p.set_summary(KEY, "theirs").unwrap_or_default();
        }),
        deed("upsert", |p, _| {
            let _ = p.upsert(KEY, Some("{\"k\":1}"), &["other"]);
        }),
        deed("delete", |p, _| p.delete(KEY)),
        deed("delete_log", |p, _| p.delete_log(KEY)),
        deed("delete_sidecar", |p, _| p.delete_sidecar(KEY)),
        deed("add_delete_sidecar", |p, tag| {
            add(p, "user", "theirs", tag);
            p.delete_sidecar(KEY);
        }),
        deed("delete_sidecar_upsert", |p, _| {
            p.delete_sidecar(KEY);
            let _ = p.upsert(KEY, Some("{\"k\":1}"), &["other"]);
        }),
        rewrite("typo", |p, _| typo(p, <[usize]>::first)),
        rewrite("typo_last", |p, _| typo(p, <[usize]>::last)),
        rewrite("remove_line", |p, _| {
            if !messages(p).is_empty() {
                p.editor_remove_line(KEY, messages(p)[0]);
            }
        }),
        deed("edit_summary", |p, _| {
            let sidecar = p.files.read(&sidecar_name(KEY));
            if sidecar.is_some_and(|bytes| Sidecar::decode(&bytes).is_some()) {
                p.editor_rewrite_sidecar_summary(KEY, "edited");
            }
        }),
    ]
}

/// A message. `tag` keeps the text from being there already.
fn add(p: &PicoClaw<InMemory>, role: &str, text: &str, tag: &str) {
    let _ = p.add(KEY, role, &format!("{text}{tag}"));
}

/// As its command does.
fn clear(p: &PicoClaw<InMemory>, _: &str) {
    let _ = p.set_history(KEY, &[]);
    let _ = p.set_summary(KEY, "");
    let _ = p.compact(KEY);
}

fn set(p: &PicoClaw<InMemory>, tag: &str) {
    let (other, others) = (format!("other{tag}"), format!("others{tag}"));
    let _ = p.set_history(KEY, &[("user", &other), ("user", &others)]);
}

fn typo(p: &PicoClaw<InMemory>, which: fn(&[usize]) -> Option<&usize>) {
    if let Some(nth) = which(&messages(p)) {
        p.editor_fix_typo(KEY, *nth);
    }
}

/// The lines that are whole messages, by number.
fn messages(p: &PicoClaw<InMemory>) -> Vec<usize> {
    let log = p.files.read(&log_name(KEY)).unwrap_or_default();
    let lines = log.split_inclusive(|byte| *byte == b'\n');
    let lines = lines.filter(|line| *line != b"\n").enumerate();
    let whole = lines.filter(|(_, line)| {
        let line = String::from_utf8_lossy(line);
        let text = line.split_once("\"content\":\"").map(|(_, text)| text);
        text.is_some_and(|text| text.starts_with(|c: char| c.is_ascii_alphanumeric()))
    });
    whole.map(|(nth, _)| nth).collect()
}
