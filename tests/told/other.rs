//! Another process, which this program is as well.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use sessionlog::Store;

/// Where the directory is told of.
const DIR: &str = "SESSIONLOG_TOLD_DIR";

/// What another process does that a test started; nothing in a run of its own.
#[test]
fn the_part_of_another_process() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let store = Store::open(dir).unwrap();
    for turn in 0..10 {
        let text = format!("secret {turn}");
        let appended = store.handle().add_message("telegram:77", "user", &text);
        appended.wait().unwrap();
    }
    println!("\nready");
    // Until it is killed, or told to close.
    std::io::stdin().read_line(&mut String::new()).unwrap();
    store.close().unwrap();
}

/// A process that has the store in `dir` open, and wrote 10 messages to it. What it says
/// later has to be heard, or it fails.
pub(crate) fn start(dir: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "other::the_part_of_another_process",
            "--exact",
            "--nocapture",
        ])
        .env(DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut lines = said.by_ref().lines();
    let ready = lines.any(|line| line.unwrap().contains("ready"));
    assert!(ready, "the other process opens the store");
    (child, said)
}
