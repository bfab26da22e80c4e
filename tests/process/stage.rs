//! A directory for one test, and processes that play on it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// The test that plays the other process's part.
const PART: &str = "the_part_of_another_process";

/// What a part says to whoever started it begins with this.
pub(crate) const SAYS: &str = "part: ";

/// The exit status of a script whose file system cannot be had.
const NO_MOUNT: i32 = 77;

pub(crate) struct Stage {
    scratch: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let stage = Self { scratch };
        std::fs::create_dir(stage.mount()).unwrap();
        stage
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Where file systems are mounted.
    fn mount(&self) -> PathBuf {
        self.path("mount")
    }

    /// The store's directory.
    pub(crate) fn store(&self) -> PathBuf {
        self.mount().join("sessions")
    }

    /// Runs `play` where `setup` mounted something. `Err` says why this machine
    /// does not let it.
    ///
    /// # Panics
    /// If the play fails.
    pub(crate) fn mounted(&self, setup: &str, play: &str) -> Result<String, String> {
        let script = format!("{{ {setup}; }} >&2 || exit {NO_MOUNT}\n{play}");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["sh", "-c", &script]);
        let output = self.dress(&mut command).output();
        let output = output.map_err(|error| format!("unshare: {error}"))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        // `unshare` fails with 1 before it has run anything.
        if output.status.code() == Some(NO_MOUNT) || errors.starts_with("unshare: ") {
            return Err(errors.trim().to_owned());
        }
        Ok(succeeded(&output))
    }

    /// Runs a script in which `$SELF` followed by a name plays a part.
    ///
    /// # Panics
    /// If it fails.
    pub(crate) fn script(&self, script: &str) -> std::io::Result<String> {
        let mut command = Command::new("sh");
        let output = self.dress(command.args(["-c", script])).output()?;
        Ok(succeeded(&output))
    }

    /// Starts a process that plays a part.
    pub(crate) fn start(&self, part: &str) -> Child {
        let script = format!("exec $SELF {part}");
        let mut command = Command::new("sh");
        let child = self.dress(command.args(["-c", &script])).spawn();
        child.expect("there is a shell")
    }

    fn dress<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let own = std::env::current_exe().unwrap();
        let role = self.path("role");
        // The part is an argument to the harness only; a wrapper turns it into
        // the variable that the part is looked up by.
        let wrapper = format!(
            "#!/bin/sh\nSESSIONLOG_PART=\"$1\" exec {} --exact {PART} --nocapture\n",
            quoted(&own)
        );
        if !role.exists() {
            std::fs::write(&role, wrapper).unwrap();
        }
        command
            .env("SELF", format!("sh {}", role.display()))
            .env("SESSIONLOG_SCRATCH", self.scratch.path())
            .env("MOUNT", self.mount())
            .env("IMAGE", self.path("image"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
    }
}

/// What the parts said.
pub(crate) fn told(output: &str) -> String {
    let lines = output.lines().filter_map(|line| line.split_once(SAYS));
    lines.map(|(_, said)| said).collect::<Vec<_>>().join("; ")
}

fn succeeded(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}
