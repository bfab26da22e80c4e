//! A viewer of one store.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::{Router, middleware};
use sessionlog::StoreHandle;
use tokio::net::TcpListener;

use crate::api::{self, Library};
use crate::connections::{Door, Place};
use crate::guard::{self, Guard};
use crate::options::ViewerOptions;
use crate::page;
use crate::token::Token;

/// Shows a store to browsers, and changes nothing. See the [crate](crate)'s documentation.
#[derive(Clone)]
pub struct Viewer {
    library: Arc<Library>,
    guard: Arc<Guard>,
    max_connections: usize,
}

/// Without the token: this ends up in logs.
impl std::fmt::Debug for Viewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Viewer").finish_non_exhaustive()
    }
}

/// The reason that a viewer was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewerError {
    /// The token has other characters, or is too short or too long.
    #[error("a viewer's token has 16 to 256 letters, digits, - and _")]
    InvalidToken,
    /// Other machines were to be admitted without a token.
    #[error("without a token a viewer serves the loopback interface only")]
    TokenRequired,
    /// The operating system gave no random bytes for a token.
    #[error("no random token could be made: {0}")]
    NoRandom(String),
}

impl Viewer {
    /// Makes a viewer of the store of `handle`. It reads keys literally: aliases lead to their
    /// session, and are not listed.
    ///
    /// # Errors
    /// [`ViewerError`].
    pub fn new(handle: StoreHandle, options: ViewerOptions) -> Result<Self, ViewerError> {
        let token = Token::choose(options.token)?;
        if token.is_none() && options.beyond_loopback {
            return Err(ViewerError::TokenRequired);
        }
        let guard = Guard {
            token,
            beyond_loopback: options.beyond_loopback,
            hosts: options.hosts,
        };
        Ok(Self {
            max_connections: options.limits.connections,
            library: Arc::new(Library::new(handle, options.title, options.limits)),
            guard: Arc::new(guard),
        })
    }

    /// Returns the token, if it has one.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.guard.token.as_ref().map(Token::as_str)
    }

    /// Returns the URL to open in a browser if the viewer listens at `addr`, token included. An
    /// address that means all interfaces is replaced by the loopback one.
    #[must_use]
    pub fn url(&self, addr: SocketAddr) -> String {
        let ip = match addr.ip() {
            IpAddr::V4(v4) if v4.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(v6) if v6.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let at = SocketAddr::new(ip, addr.port());
        match self.token() {
            Some(token) => format!("http://{at}/?token={token}"),
            None => format!("http://{at}/"),
        }
    }

    /// Returns all routes, for a server of the caller's own, at the root of a host. They check the
    /// `Host` header and the token. The handlers need a tokio runtime with time; blocking work runs
    /// on its blocking pool.
    pub fn router(&self) -> Router {
        page::routes()
            .merge(api::routes())
            .fallback(api::no_such_page)
            .with_state(self.library.clone())
            .layer(middleware::from_fn_with_state(
                self.guard.clone(),
                guard::pass,
            ))
    }

    /// Serves until the process ends or the future is dropped. Needs a tokio runtime with time.
    ///
    /// A connection has 10 s to show the token. At most 256 connections have not shown it yet, and
    /// at most 128 of one address. One more displaces the oldest of these, and never one that
    /// showed the token.
    ///
    /// # Errors
    /// As [`serve_until`](Self::serve_until).
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        self.serve_until(listener, std::future::pending()).await
    }

    /// Serves until `end` is ready, then ends all live streams and waits for the answers under way.
    ///
    /// # Errors
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) if the listener is not on the loopback
    /// interface, unless [allowed](ViewerOptions::beyond_loopback); and the error of reading its
    /// address.
    pub async fn serve_until(
        &self,
        listener: TcpListener,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let addr = listener.local_addr()?;
        if !addr.ip().is_loopback() && !self.guard.beyond_loopback {
            let message = format!(
                "the viewer does not serve {addr}, which other machines may reach, unless \
                 ViewerOptions::beyond_loopback allows it"
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        let library = self.library.clone();
        let ended = async move {
            end.await;
            library.end_streams();
        };
        let door = Door::new(listener, self.max_connections);
        let router = self.router();
        axum::serve(door, router.into_make_service_with_connect_info::<Place>())
            .with_graceful_shutdown(ended)
            .await
    }
}
