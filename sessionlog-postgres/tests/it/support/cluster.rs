//! A PostgreSQL server of the test's own: in a directory of its own, on a free port of the
//! loopback interface, as an ordinary user. It stops with the process that started it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::ports::fresh_port;

/// How long a server may take to start or stop.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Cluster {
    bin: PathBuf,
    dir: TempDir,
    pub(crate) port: u16,
    keeper: Option<Child>,
    /// Whether its directory goes with it: nothing else removes that of one that is never
    /// dropped.
    is_shared: bool,
}

impl Cluster {
    /// A running server with these settings; nothing if there is no PostgreSQL here.
    pub(crate) fn start(settings: &[&str]) -> Option<Self> {
        let cluster = Self::initialized()?;
        cluster.configure(settings);
        Some(cluster.launched())
    }

    /// One that does not run, and was given no settings: to be [started](Self::started) many
    /// times, which is quicker than to make each anew.
    pub(crate) fn initialized() -> Option<Self> {
        let cluster = Self::prepare()?;
        let data = cluster.data();
        let data = data.to_str().unwrap();
        let whose = ["-D", data, "-U", "bot", "-A", "trust"];
        let how = ["-N", "--locale=C.UTF-8", "-E", "UTF8"];
        cluster.run("initdb", &[&whose[..], &how].concat());
        Some(cluster)
    }

    /// A running copy of this one.
    pub(crate) fn started(&self, settings: &[&str]) -> Self {
        let copy = Self::prepare().unwrap();
        let copied = copy
            .as_owner("cp")
            .arg("-a")
            .args([self.data(), copy.data()])
            .status();
        assert!(copied.unwrap().success());
        copy.configure(settings);
        copy.launched()
    }

    /// Another one, in the place of one that was stopped.
    pub(crate) fn start_in_place_of(other: &Self, settings: &[&str]) -> Self {
        let mut cluster = Self::initialized().unwrap();
        cluster.port = other.port;
        cluster.configure(settings);
        cluster.launched()
    }

    /// One for all tests of the process.
    pub(crate) fn start_shared(settings: &[&str]) -> Option<Self> {
        let mut cluster = Self::start(settings)?;
        cluster.reap();
        cluster.is_shared = true;
        Some(cluster.launched())
    }

    /// A standby of this server, under the name `name`.
    pub(crate) fn standby(&self, name: &str, settings: &[&str]) -> Self {
        let standby = Self::prepare().unwrap();
        let data = standby.data();
        let from = format!(
            "host=127.0.0.1 port={} user=bot application_name={name}",
            self.port
        );
        standby.run(
            "pg_basebackup",
            &[
                "-d",
                &from,
                "-D",
                data.to_str().unwrap(),
                "-R",
                "-c",
                "fast",
                "-X",
                "stream",
                "-N",
            ],
        );
        standby.configure(settings);
        standby.launched()
    }

    fn prepare() -> Option<Self> {
        let Some(bin) = binaries() else {
            skip("there is no PostgreSQL under /usr/lib/postgresql");
            return None;
        };
        let dir = tempfile::Builder::new()
            .prefix("slpg")
            .tempdir_in("/tmp")
            .unwrap();
        if is_root() {
            let owned = Command::new("chown")
                .arg("postgres")
                .arg(dir.path())
                .status();
            assert!(owned.unwrap().success());
        }
        Some(Self {
            bin,
            dir,
            port: fresh_port(),
            keeper: None,
            is_shared: false,
        })
    }

    fn configure(&self, settings: &[&str]) {
        use std::fmt::Write as _;
        let mut text = format!(
            "\nlisten_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{}'\n\
             max_connections = 200\nshared_buffers = '32MB'\nlogging_collector = off\n",
            self.port,
            self.dir.path().display()
        );
        for setting in settings {
            let (name, value) = setting.split_once('=').unwrap();
            writeln!(text, "{name} = '{value}'").unwrap();
        }
        let path = self.data().join("postgresql.conf");
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn launched(mut self) -> Self {
        self.launch();
        self
    }

    /// Starts the server. A shell keeps it, for as long as this process holds its input.
    pub(crate) fn launch(&mut self) {
        let (server, data) = (self.bin.join("postgres"), self.data());
        let dir = self.dir.path();
        let clean = if self.is_shared {
            format!("; rm -rf '{}'", dir.display())
        } else {
            String::new()
        };
        // The shell is not to die of what ends the test.
        let script = format!(
            "trap '' INT TERM HUP; '{}' -D '{}' >>'{}' 2>&1 & pid=$!; \
             cat >/dev/null; kill -QUIT $pid 2>/dev/null; wait $pid{clean}",
            server.display(),
            data.display(),
            dir.join("log").display(),
        );
        let keeper = self
            .as_owner("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .spawn();
        self.keeper = Some(keeper.unwrap());
        let begun = Instant::now();
        while !self.is_ready() {
            let log = || std::fs::read_to_string(self.dir.path().join("log"));
            assert!(begun.elapsed() < PATIENCE, "no server: {:?}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// It is asked through its own directory: on its port another server could answer.
    fn is_ready(&self) -> bool {
        let asked = Command::new(self.bin.join("pg_isready"))
            .arg("-q")
            .arg("-h")
            .arg(self.dir.path())
            .args(["-p", &self.port.to_string()])
            .status();
        asked.unwrap().success()
    }

    /// Stops the server as a crash would: nothing is written, all connections are cut.
    pub(crate) fn stop_at_once(&mut self) {
        let data = self.data();
        let stopped = self.run_quietly(
            "pg_ctl",
            &[
                "-D",
                data.to_str().unwrap(),
                "-m",
                "immediate",
                "-w",
                "stop",
            ],
        );
        assert!(stopped.status.success(), "{stopped:?}");
        self.reap();
    }

    /// Kills the postmaster with SIGKILL; its backends die of it.
    pub(crate) fn kill(&mut self) {
        let pid = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let pid = pid.lines().next().unwrap().to_owned();
        let children = Command::new("pgrep").args(["-P", &pid]).output().unwrap();
        let children = String::from_utf8(children.stdout).unwrap();
        let pids = std::iter::once(&*pid).chain(children.lines());
        let killed = Command::new("kill").arg("-9").args(pids).status();
        killed.unwrap();
        self.reap();
    }

    fn reap(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            keeper.wait().unwrap();
        }
    }

    pub(crate) fn promote(&self) {
        let data = self.data();
        self.run("pg_ctl", &["-D", data.to_str().unwrap(), "-w", "promote"]);
    }

    pub(crate) fn dsn(&self) -> String {
        format!("host=127.0.0.1 port={} user=bot dbname=postgres", self.port)
    }

    /// Runs statements as the operator would.
    pub(crate) fn sql(&self, statements: &str) -> String {
        let told = Command::new(self.bin.join("psql"))
            .args([
                "-h",
                "127.0.0.1",
                "-p",
                &self.port.to_string(),
                "-U",
                "bot",
                "-d",
                "postgres",
            ])
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statements])
            .output()
            .unwrap();
        assert!(
            told.status.success(),
            "{statements}: {}",
            String::from_utf8_lossy(&told.stderr)
        );
        String::from_utf8(told.stdout).unwrap().trim().to_owned()
    }

    /// What the server said.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// Puts a file of the server's own into its directory.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.data().join(name);
        std::fs::write(&path, bytes).unwrap();
        if is_root() {
            let owned = Command::new("chown").arg("postgres").arg(&path).status();
            assert!(owned.unwrap().success());
        }
        let closed = Command::new("chmod").arg("600").arg(&path).status();
        assert!(closed.unwrap().success());
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn run(&self, program: &str, args: &[&str]) {
        let ran = self.run_quietly(program, args);
        assert!(
            ran.status.success(),
            "{program}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }

    fn run_quietly(&self, program: &str, args: &[&str]) -> Output {
        let path = self.bin.join(program);
        self.as_owner(path.to_str().unwrap())
            .args(args)
            .output()
            .unwrap()
    }

    fn as_owner(&self, program: &str) -> Command {
        as_owner(program, self.dir.path())
    }
}

/// Says that a test is left out for want of something, or fails it if none may be.
pub(crate) fn skip(reason: &str) {
    assert!(
        std::env::var("SESSIONLOG_POSTGRES").as_deref() != Ok("required"),
        "{reason}"
    );
    // Past the test's capture: this must be seen.
    let told = format!("SKIPPED: {reason}\n");
    std::io::stderr().write_all(told.as_bytes()).unwrap();
}

/// A command as an ordinary user: the server refuses to run as root.
pub(crate) fn as_owner(program: &str, dir: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--", program]);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(dir);
    command
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.reap();
    }
}

fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let bins = versions.map(|version| version.unwrap().path().join("bin"));
    bins.filter(|bin| bin.join("initdb").is_file()).max()
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout.starts_with(b"0\n")
}
