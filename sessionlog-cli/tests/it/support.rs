//! Running the program, and stores to run it on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sessionlog::{Message, Store, StoreHandle, StoreOptions};
use tempfile::TempDir;

/// The program, with nothing of the environment that changes what it says.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessionlog"));
    command
        .env("TZ", "UTC")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null());
    command
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Its output, if it exited with that.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        self.out
    }

    /// What it complained of, if it exited with 2.
    #[track_caller]
    pub(crate) fn fails(self) -> String {
        assert_eq!(self.code, Some(2), "{}{}", self.out, self.err);
        assert_eq!(self.out, "");
        self.err
    }
}

/// Runs `sessionlog VERB DIR ARGS`.
pub(crate) fn run(verb: &str, dir: &Path, args: &[&str]) -> Ran {
    let output = program().args(verb.split(' ')).arg(dir).args(args).output();
    Ran::of(output.unwrap())
}

/// The same, with that on standard input.
pub(crate) fn run_with(verb: &str, dir: &Path, args: &[&str], input: &str) -> Ran {
    use std::io::Write;
    let mut command = program();
    command.args(verb.split(' ')).arg(dir).args(args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    Ran::of(child.wait_with_output().unwrap())
}

/// Runs `sessionlog ARGS`.
pub(crate) fn run_bare(args: &[&str]) -> Ran {
    Ran::of(program().args(args).output().unwrap())
}

/// One JSON value per line.
pub(crate) fn json(lines: &str) -> Vec<serde_json::Value> {
    let lines = lines.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// A directory of sessions, and one around it.
pub(crate) struct Fixture {
    scratch: TempDir,
}

/// Two people's chats on Telegram.
pub(crate) const SEVEN: &str = "agent:main:telegram:direct:7";
pub(crate) const EIGHT: &str = "agent:main:telegram:direct:8";

/// What a terminal would obey.
pub(crate) const HOSTILE: &str = "\x1b[2J\x1b]0;pwned\x07\u{9b}31m\u{202e}evil\r";

impl Fixture {
    /// With nothing in it, not even the directory.
    pub(crate) fn empty() -> Self {
        Self {
            scratch: tempfile::tempdir().unwrap(),
        }
    }

    /// Three sessions in a store that was closed.
    pub(crate) fn new() -> Self {
        let fixture = Self::empty();
        fixture.write(|chats| {
            let said = vec![
                Message::user("Where is the invoice of May?"),
                Message::assistant("").with_tool_call("c1", "find", r#"{"what":"invoice"}"#),
                Message::tool("c1", "first line\nsecond line\nthird line"),
                Message::assistant("In the drawer.").with_reasoning("the user seeks paper"),
            ];
            chats.append_all(SEVEN, said).wait().unwrap();
            chats.add_message(EIGHT, "user", "hi").wait().unwrap();
            let hostile = format!("look {HOSTILE} here");
            chats
                .add_message("web:evil", "user", &hostile)
                .wait()
                .unwrap();
            let aliases = vec![String::from("web:nickname")];
            chats
                .upsert_session_meta("web:evil", None, aliases)
                .wait()
                .unwrap();
        });
        fixture
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.beside("sessions")
    }

    /// A path beside the store's directory.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn write(&self, write: impl FnOnce(&StoreHandle)) {
        self.write_with(StoreOptions::new(), write);
    }

    pub(crate) fn write_with(&self, options: StoreOptions, write: impl FnOnce(&StoreHandle)) {
        let store = Store::open_with(self.dir(), options).unwrap();
        write(&store.handle());
        store.close().unwrap();
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&StoreHandle) -> T) -> T {
        let store = Store::open_read_only(self.dir()).unwrap();
        read(&store.handle())
    }

    /// Every file with what is in it.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        collect(&self.dir(), &mut files);
        files
    }
}

fn collect(dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            let bytes = std::fs::read(&path).unwrap();
            files.insert(path, bytes);
        }
    }
}
