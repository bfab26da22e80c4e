//! Reaching the database: hosts, TLS, and the choice of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::poll_fn;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sessionlog::{Error, Result};
use tokio::sync::{mpsc, watch};
use tokio_postgres::config::{Host, LoadBalanceHosts, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Config, Notification, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connection::Connection;
use crate::direct;
use crate::dsn::Dsn;
use crate::fault::{Fault, Tried};
use crate::fence::{Fence, Pass, Server};
use crate::mistake::{NamedTls, judged};
use crate::options::PostgresOptions;
use crate::sql::WAITS;

/// Makes connections to one database.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Config,
    tls: NamedTls,
    /// All hosts, in the form in which errors name them.
    hosts: Arc<str>,
    /// True while the store is being opened.
    opens: bool,
    /// The number of times that a server had no connection left for the role.
    pub(crate) refused: watch::Sender<u64>,
    /// Shared by all connections: the first connection that meets a promoted server fences the old
    /// one for all.
    pub(crate) fence: Arc<Fence>,
    patience: Duration,
    /// The statements that are prepared on connections that lead to the server itself.
    prepares: Arc<[String]>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The configuration holds a password.
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

impl Connector {
    /// Makes a connector.
    ///
    /// # Errors
    /// If the connection string or the certificates cannot be read.
    pub(crate) fn new(options: &PostgresOptions) -> Result<Self> {
        let dsn = Dsn::read(&options.dsn);
        let config = read(&dsn)?;
        Ok(Self {
            hosts: hosts(&config),
            config,
            tls: NamedTls::new(tls(options, &dsn)?),
            opens: true,
            refused: watch::Sender::new(0),
            fence: Arc::new(Fence::new()),
            patience: options.statement,
            prepares: Arc::from([]),
        })
    }

    /// Returns the number of hosts to connect to.
    pub(crate) fn hosts(&self) -> usize {
        self.hosts.split(',').count()
    }

    /// Returns the same connector, with statements that are prepared where nothing is between the
    /// server and this process.
    pub(crate) fn preparing(&self, statements: Vec<String>) -> Self {
        Self {
            prepares: statements.into(),
            opens: false,
            ..self.clone()
        }
    }

    /// Returns a connector to the same database under another connection string.
    ///
    /// # Errors
    /// If the connection string cannot be read.
    pub(crate) fn at(&self, dsn: &str) -> Result<Self> {
        let config = read(&Dsn::read(dsn))?;
        Ok(Self {
            hosts: hosts(&config),
            config,
            opens: false,
            ..self.clone()
        })
    }

    /// Makes a connection to a server that takes writes and was not replaced by another.
    pub(crate) async fn connect(&self) -> Tried<Connection> {
        self.connect_and_hear(None).await
    }

    /// Does the same, with notifications. If one of several hosts was replaced, another one is
    /// tried. The order in which they are tried is random.
    pub(crate) async fn connect_and_hear(
        &self,
        heard: Option<mpsc::Sender<Notification>>,
    ) -> Tried<Connection> {
        let mut tries = self
            .config
            .get_ports()
            .len()
            .max(self.config.get_hosts().len())
            * 4;
        loop {
            let (client, warned) = self.reach(heard.clone()).await?;
            tries -= 1;
            match self.check(&client).await {
                Ok((pass, process)) => {
                    let mut connection = Connection::new(client, pass, warned);
                    tokio::select! {
                        prepared = self.prepare(&mut connection, process) => prepared?,
                        () = self.fence.replaced(pass) => continue,
                    }
                    return Ok(connection);
                }
                Err(fault) if tries == 0 => return Err(fault),
                Err(_) => {}
            }
        }
    }

    async fn reach(
        &self,
        heard: Option<mpsc::Sender<Notification>>,
    ) -> Tried<(Client, Arc<AtomicBool>)> {
        let tls = self.tls.fresh();
        let reached = self.config.connect(tls.clone());
        let reached = tokio::time::timeout(self.patience * 3, reached).await;
        let reached = reached.map_err(|_| Fault::lost("no server answered in time"))?;
        let (client, connection) = reached.map_err(|error| {
            if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS) {
                self.refused.send_modify(|times| *times += 1);
            }
            judged(error, &tls, (&self.hosts, self.opens))
        })?;
        let warned = Arc::new(AtomicBool::new(false));
        tokio::spawn(drive(connection, warned.clone(), heard));
        Ok((client, warned))
    }

    /// Makes the server prepare the frequent statements, if `process` is the number that was told
    /// when the connection was made: then nothing is between the server and this process.
    async fn prepare(&self, connection: &mut Connection, process: Option<i32>) -> Tried<()> {
        if self.prepares.is_empty()
            || process.is_none()
            || direct::told_process(&connection.client).await != process
        {
            return Ok(());
        }
        let prepared = connection.prepare(&self.prepares);
        let prepared = tokio::time::timeout(self.patience, prepared).await;
        prepared.map_err(|_| Fault::lost("the server did not answer in time"))??;
        Ok(())
    }

    /// Finds out which server this is. Refuses it if it was replaced: it was primary once, and its
    /// writes would be lost. Also returns the number of the process that answers, if it has one.
    async fn check(&self, client: &Client) -> Tried<(Pass, Option<i32>)> {
        const SYSTEM: &str = "(SELECT system_identifier FROM pg_control_system())";
        let mut row = self.describe(client, SYSTEM).await;
        // The role was forbidden to ask.
        if matches!(&row, Ok(Err(error)) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE))
        {
            row = self.describe(client, "0::bigint").await;
        }
        let row = match row? {
            Ok(row) => row,
            Err(error) if error.as_db_error().is_none() => return Err(error.into()),
            Err(error) => match Fault::from(error) {
                // This is not PostgreSQL: it has no timelines, and fences by itself.
                Fault::Refused(_) => return Ok((Pass::Always, None)),
                fault => return Err(fault),
            },
        };
        let name: String = row.get(0);
        let timeline = name
            .get(..8)
            .and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let timeline = timeline.ok_or_else(|| Fault::lost("the server is in recovery"))?;
        let server = Server {
            system: row.get(2),
            timeline,
            is_synchronous: row.get(3),
        };
        let pass = self.fence.admit(server).map_err(Fault::lost)?;
        Ok((pass, Some(row.get(1))))
    }

    /// Asks a server for its description. `system` is the expression that asks which server it is.
    async fn describe(
        &self,
        client: &Client,
        system: &str,
    ) -> Tried<std::result::Result<Row, tokio_postgres::Error>> {
        let sql = format!(
            "SELECT CASE WHEN pg_is_in_recovery() THEN ''
                 ELSE pg_walfile_name(pg_current_wal_lsn()) END, pg_backend_pid(), {system},
                 {WAITS}"
        );
        let told = tokio::time::timeout(self.patience, client.query_typed(&sql, &[])).await;
        let rows = told.map_err(|_| Fault::lost("the server did not answer in time"))?;
        Ok(match rows.map(|rows| rows.into_iter().next()) {
            Ok(Some(row)) => Ok(row),
            Ok(None) => return Err(Fault::lost("the server says nothing of itself")),
            Err(error) => Err(error),
        })
    }

    /// Makes the server cancel the statement that a connection waits for.
    pub(crate) fn cancel(&self, connection: &Connection) {
        let (token, tls) = (connection.client.cancel_token(), self.tls.clone());
        tokio::spawn(async move {
            let asked = token.cancel_query(tls);
            // The connection is given up in any case.
            let _ = tokio::time::timeout(Duration::from_secs(5), asked).await;
        });
    }
}

/// Keeps a connection going until it is closed.
async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    warned: Arc<AtomicBool>,
    heard: Option<mpsc::Sender<Notification>>,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notice(notice)) => {
                // A canceled wait for replicas: `57014`, or `57P01` at a shutdown.
                if notice.code().code().starts_with("57") {
                    warned.store(true, Ordering::Release);
                }
                tracing::debug!(notice = notice.message(), "the server says");
            }
            Ok(AsyncMessage::Notification(notification)) => {
                let Some(heard) = &heard else { continue };
                if heard.send(notification).await.is_err() {
                    return;
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "a connection ended");
                return;
            }
        }
    }
}

fn hosts(config: &Config) -> Arc<str> {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let addresses = config.get_hostaddrs().iter().map(ToString::to_string);
    let mut all: Vec<String> = hosts.collect();
    if all.is_empty() {
        all = addresses.collect();
    }
    let ports = config.get_ports();
    let named = all.into_iter().enumerate().map(|(at, host)| {
        let port = ports.get(at).or(ports.first());
        port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
    });
    named.collect::<Vec<_>>().join(",").into()
}

fn read(dsn: &Dsn) -> Result<Config> {
    let mut config: Config = dsn.rest.parse().map_err(|error| invalid(&error))?;
    if config.get_password().is_none()
        && let Some(password) = std::env::var_os("PGPASSWORD")
    {
        config.password(password.as_encoded_bytes());
    }
    if config.get_target_session_attrs() == TargetSessionAttrs::Any {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    if config.get_load_balance_hosts() == LoadBalanceHosts::Disable {
        config.load_balance_hosts(LoadBalanceHosts::Random);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    // A connection may lose its other end without a word.
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(15));
    }
    if config.get_application_name().is_none() {
        config.application_name("sessionlog");
    }
    Ok(config)
}

fn tls(options: &PostgresOptions, dsn: &Dsn) -> Result<MakeRustlsConnect> {
    let mut roots = rustls::RootCertStore::empty();
    let named = match &dsn.root_certificates {
        Some(path) => Some(
            std::fs::read(path)
                .map_err(|error| invalid(&format!("sslrootcert {}: {error}", path.display())))?,
        ),
        None => None,
    };
    match options.root_certificates.as_ref().or(named.as_ref()) {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| invalid(&error))?;
                roots.add(certificate).map_err(|error| invalid(&error))?;
            }
        }
        // Certificates of the system that cannot be read are left out: the server's certificate may
        // not need them.
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn invalid(error: &dyn std::fmt::Display) -> Error {
    Error::Io {
        operation: "read the options for",
        path: "the database".into(),
        source: Arc::new(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            error.to_string(),
        )),
    }
}

/// The connections that reads share.
pub(crate) type Pool = deadpool::managed::Pool<Connector>;

impl deadpool::managed::Manager for Connector {
    type Type = Connection;
    type Error = Fault;

    async fn create(&self) -> Tried<Connection> {
        self.connect().await
    }

    async fn recycle(
        &self,
        connection: &mut Connection,
        _: &deadpool::managed::Metrics,
    ) -> deadpool::managed::RecycleResult<Fault> {
        if connection.client.is_closed() {
            return Err(deadpool::managed::RecycleError::message("closed"));
        }
        if !self.fence.is_current(connection.pass) {
            return Err(deadpool::managed::RecycleError::message("replaced"));
        }
        Ok(())
    }
}
