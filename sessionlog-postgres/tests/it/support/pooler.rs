//! PgBouncer in transaction mode, in front of a server.

use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::cluster::{Cluster, as_owner, skip};
use super::ports::fresh_port;

pub(crate) struct Pooler {
    pub(crate) port: u16,
    keeper: Child,
    _dir: TempDir,
}

impl Pooler {
    /// Nothing if there is no PgBouncer here.
    pub(crate) fn before(server: &Cluster) -> Option<Self> {
        if !std::path::Path::new("/usr/sbin/pgbouncer").is_file() {
            skip("there is no /usr/sbin/pgbouncer");
            return None;
        }
        let dir = tempfile::Builder::new()
            .prefix("slpgb")
            .tempdir_in("/tmp")
            .unwrap();
        let port = fresh_port();
        let config = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} dbname=postgres user=bot\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 100\n\
             max_prepared_statements = 0\nunix_socket_dir =\n",
            server.port
        );
        // Older ones know no prepared statements at all, nor the setting.
        let config = config.replace("max_prepared_statements = 0\n", "");
        let path = dir.path().join("pgbouncer.ini");
        std::fs::write(&path, config).unwrap();
        std::process::Command::new("chmod")
            .args(["-R", "a+rx"])
            .arg(dir.path())
            .status()
            .unwrap();
        let script = format!(
            "/usr/sbin/pgbouncer -q '{}' >/dev/null 2>&1 & pid=$!; cat >/dev/null; kill -QUIT $pid; kill -TERM $pid; wait $pid",
            path.display()
        );
        let keeper = as_owner("sh", dir.path())
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .spawn();
        let pooler = Self {
            port,
            keeper: keeper.unwrap(),
            _dir: dir,
        };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "no pooler");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(pooler)
    }

    pub(crate) fn dsn(&self) -> String {
        format!("host=127.0.0.1 port={} user=bot dbname=postgres", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().unwrap();
    }
}
