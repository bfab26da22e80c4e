//! The reasons that no connection was made. One kind is a mistake in the setup. Time does not mend
//! it, so its error gives advice. The other kind is a refusal that is temporary: the same server or
//! another may accept a moment later.

use std::error::Error as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::CertificateError;
use sessionlog::Error;
use tokio_postgres::Socket;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::fault::Fault;

/// TLS that knows the host that it was asked for last: errors do not name the host.
#[derive(Clone)]
pub(crate) struct NamedTls {
    tls: MakeRustlsConnect,
    host: Arc<Mutex<String>>,
}

impl NamedTls {
    pub(crate) fn new(tls: MakeRustlsConnect) -> Self {
        Self {
            tls,
            host: Arc::default(),
        }
    }

    /// Returns the same TLS, asked for no host yet.
    pub(crate) fn fresh(&self) -> Self {
        Self::new(self.tls.clone())
    }

    fn host(&self) -> String {
        let host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        host.clone()
    }
}

impl MakeTlsConnect<Socket> for NamedTls {
    type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, Self::Error> {
        host.clone_into(&mut self.host.lock().unwrap_or_else(PoisonError::into_inner));
        <MakeRustlsConnect as MakeTlsConnect<Socket>>::make_tls_connect(&mut self.tls, host)
    }
}

/// Turns an error of a connection attempt into a fault. `hosts`: all that were tried. `opens`: true
/// if nothing was reached yet, so that a host without an address is a mistake.
pub(crate) fn judged(
    error: tokio_postgres::Error,
    tls: &NamedTls,
    (hosts, opens): (&str, bool),
) -> Fault {
    let text = error.to_string();
    if let Some(db) = error.as_db_error() {
        let said = format!("{} (SQLSTATE {})", db.message(), db.code().code());
        return match advice(db.code()) {
            Some(advice) => mistake(&format!("{said}: {advice}")),
            None => Fault::lost(format!("{hosts}: {said}")),
        };
    }
    if text.starts_with("invalid configuration") {
        return mistake(&Fault::from(error).reason());
    }
    if text.starts_with("error performing TLS handshake") {
        return of_tls(&error, &tls.host());
    }
    let io = error.source().and_then(|cause| cause.downcast_ref());
    let is_one = !hosts.contains(',');
    if let Some(cause) = io.filter(|io| opens && is_one && has_no_address(io)) {
        let advice = "check the host's name in the connection string";
        return mistake(&format!("{hosts}: {cause}: {advice}"));
    }
    Fault::lost(format!("{hosts}: {}", Fault::from(error).reason()))
}

/// Returns the advice for an error that lasts until an operator does something.
fn advice(code: &SqlState) -> Option<&'static str> {
    Some(match *code {
        SqlState::INVALID_PASSWORD => {
            "put the role's password in the connection string, or in PGPASSWORD"
        }
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "make the role (CREATE ROLE name LOGIN), or let it in (pg_hba.conf)"
        }
        SqlState::INVALID_CATALOG_NAME => {
            "make the database: createdb --template=template0 --encoding=UTF8 name"
        }
        SqlState::INSUFFICIENT_PRIVILEGE => "GRANT CONNECT ON DATABASE name TO role",
        _ => return None,
    })
}

fn of_tls(error: &tokio_postgres::Error, host: &str) -> Fault {
    let Some(cause) = error.source() else {
        return Fault::lost(format!("{host}: {error}"));
    };
    let told = format!("TLS with {host}: {cause}");
    let tls = cause.downcast_ref::<io::Error>().and_then(|io| {
        let inner = io.get_ref()?;
        inner.downcast_ref::<rustls::Error>()
    });
    match tls {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => mistake(&format!(
            "{told}: connect under a name that the certificate has, or have one made for this name"
        )),
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => mistake(&format!("{told}: renew the server's certificate")),
        Some(rustls::Error::InvalidCertificate(_)) => mistake(&format!(
            "{told}: name a file with the certificate of those who signed the server's \
             (sslrootcert=FILE, or root_certificates)"
        )),
        Some(_) => mistake(&told),
        None if cause.to_string().contains("does not support TLS") => mistake(&format!(
            "{told}: switch it on there (ssl = on), or do without (sslmode=disable)"
        )),
        // The connection was cut, for instance by a server that starts or stops.
        None => Fault::lost(told),
    }
}

/// True if a host is unknown, which is different from a host that does not answer for now.
fn has_no_address(error: &io::Error) -> bool {
    let text = error.to_string();
    let unknown = [
        "not known",
        "No address associated",
        "nodename nor servname",
    ];
    text.contains("lookup") && unknown.iter().any(|what| text.contains(what))
}

/// Makes the fault for a mistake in the setup: nothing is tried again.
pub(crate) fn mistake(reason: &str) -> Fault {
    Fault::Refused(Error::Io {
        operation: "connect to",
        path: "the database".into(),
        source: Arc::new(io::Error::new(io::ErrorKind::PermissionDenied, reason)),
    })
}
