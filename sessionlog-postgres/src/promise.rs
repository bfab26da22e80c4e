//! The meaning of a reply, as the operator set it up.

use crate::connection::Connection;
use crate::fault::Tried;

/// The server's settings for acknowledged writes. A setting that the server does not tell is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Promise {
    /// The name and version of the server.
    pub server: String,
    /// The time of acknowledgement of a commit: `on`, `off`, `local`, `remote_write`,
    /// `remote_apply`.
    pub synchronous_commit: String,
    /// `on` if the server makes the operating system write to the disk.
    pub fsync: String,
    /// `on` if a page that was half written in a power loss can be repaired.
    pub full_page_writes: String,
    /// The replicas that a commit waits for. Empty if it waits for none.
    pub synchronous_standby_names: String,
    /// Number of servers and programs that copy from it at the moment.
    pub standbys: i64,
    /// Number of hosts in the connection string.
    pub hosts: usize,
}

impl Promise {
    pub(crate) async fn read(connection: &Connection, hosts: usize) -> Tried<Self> {
        let mut promise = Self {
            hosts,
            ..Self::default()
        };
        let client = &connection.client;
        let version = client.query_typed("SELECT version()", &[]).await?;
        promise.server = version.first().map_or_else(String::new, |row| row.get(0));
        for (name, value) in [
            ("synchronous_commit", &mut promise.synchronous_commit),
            ("fsync", &mut promise.fsync),
            ("full_page_writes", &mut promise.full_page_writes),
            (
                "synchronous_standby_names",
                &mut promise.synchronous_standby_names,
            ),
        ] {
            let sql = format!("SELECT current_setting('{name}')");
            // A server other than PostgreSQL may not know all of them.
            if let Ok(rows) = client.query_typed(&sql, &[]).await {
                *value = rows.first().map_or_else(String::new, |row| row.get(0));
            }
        }
        let standbys = "SELECT count(*) FROM pg_stat_replication";
        if let Ok(rows) = client.query_typed(standbys, &[]).await {
            promise.standbys = rows.first().map_or(0, |row| row.get(0));
        }
        Ok(promise)
    }

    /// True if the server is PostgreSQL itself, which can notify, not a server that only speaks its
    /// language.
    #[must_use]
    pub fn is_postgresql(&self) -> bool {
        self.server.starts_with("PostgreSQL") && !self.server.contains("-YB-")
    }

    /// Returns the reasons that a durable write may not survive a power loss of the server, or a
    /// failover to a standby.
    #[must_use]
    pub fn weaknesses(&self) -> Vec<String> {
        let mut weak = Vec::new();
        if self.synchronous_commit == "off" {
            weak.push("synchronous_commit is off: the last commits may be lost in a crash");
        }
        if self.fsync == "off" {
            weak.push("fsync is off: a power loss may damage the database");
        }
        if self.full_page_writes == "off" {
            weak.push("full_page_writes is off: a power loss may damage pages");
        }
        if (self.standbys > 0 || self.hosts > 1) && !self.is_replicated() {
            weak.push(
                "no commit waits for a standby: after a failover the last messages that were \
                 acknowledged may be missing (synchronous_standby_names, synchronous_commit)",
            );
        }
        weak.into_iter().map(String::from).collect()
    }

    /// True if a durable write survives the loss of the server, because other servers have it.
    #[must_use]
    pub fn is_replicated(&self) -> bool {
        let waits = ["on", "remote_write", "remote_apply"];
        !self.synchronous_standby_names.is_empty() && waits.contains(&&*self.synchronous_commit)
    }
}
