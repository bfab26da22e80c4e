//! A viewer of [`sessionlog`] stores in the browser: it shows conversations, live, and changes
//! nothing.
//!
//! [`Viewer`] serves one embedded page and the read-only API behind it. It listens on the given
//! address, by default only on the loopback interface and with a random token, and opens no
//! connection itself. Pass it the handle of a gateway's own store, or of a store opened with
//! [`Store::open_read_only`](sessionlog::Store::open_read_only) beside a running gateway:
//!
//! ```no_run
//! use sessionlog::Store;
//! use sessionlog_viewer::{Viewer, ViewerOptions};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open_read_only("sessions")?;
//! let viewer = Viewer::new(store.handle(), ViewerOptions::new())?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! println!("{}", viewer.url(listener.local_addr()?));
//! viewer.serve(listener).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Access
//!
//! A person who opens the [URL](Viewer::url) gets the token as a cookie that scripts cannot read
//! and that other sites' pages do not send. Without it, or the header `Authorization: Bearer
//! TOKEN`, the API answers 401. The host name of a request must be known, so that no page of
//! another site reaches the viewer through a name of its own (DNS rebinding).
//!
//! Cookies do not tell ports apart: a browser that visits another server on the same address, of
//! any owner, sends it the cookie.
//!
//! # Contents
//!
//! Messages are text: the page never makes markup of one, opens no link of one, and fetches nothing
//! that one mentions. Its Content-Security-Policy forbids it, too.

mod api;
mod connections;
mod failure;
mod follow;
mod guard;
mod options;
mod outlines;
mod page;
mod shown;
mod token;
mod viewer;

pub use options::ViewerOptions;
pub use viewer::{Viewer, ViewerError};

/// Compiles the README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
