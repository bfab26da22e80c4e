//! `sessionlog serve`: the viewer in a browser.

use std::net::SocketAddr;

use clap::Args;
use sessionlog_viewer::{Viewer, ViewerError, ViewerOptions};
use tokio::net::TcpListener;

use crate::failure::{Failure, Outcome, Result};
use crate::output::Output;
use crate::store::Dir;

/// Show the store in a browser
///
/// Serves a page with all sessions and conversations, live and read-only, beside a running
/// gateway. Prints the address with its token; whoever has the token may read everything. Ends
/// with Ctrl-C.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog serve DIR                              an address of this computer, a free port
  sessionlog serve DIR --listen 127.0.0.1:8080
  ssh -L 8080:127.0.0.1:8080 HOST                   from elsewhere, without opening a port

Without --beyond-loopback only addresses of this computer are accepted. The page is not \
encrypted on its way: over a network use ssh, as above, or a proxy with TLS.")]
pub(crate) struct Serve {
    #[command(flatten)]
    dir: Dir,
    /// Where to listen; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Accept an address that others can reach
    #[arg(long)]
    beyond_loopback: bool,
    /// The name by which browsers reach it, if it is not the address
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
}

impl Serve {
    pub(crate) fn run(self) -> Result<Outcome> {
        if !self.listen.ip().is_loopback() && !self.beyond_loopback {
            let what = format!("{} can be reached from other computers", self.listen);
            return Err(Failure::new(what).hint(
                "listen on 127.0.0.1 and use `ssh -L`, or say --beyond-loopback if that is meant",
            ));
        }
        let store = self.dir.read()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let title = self.dir.path().display().to_string();
        let options = self.host.iter().fold(
            ViewerOptions::new()
                .title(title)
                .beyond_loopback(self.beyond_loopback),
            ViewerOptions::host,
        );
        let viewer = Viewer::new(store.chats.clone(), options).map_err(refused)?;
        runtime.block_on(async {
            let listener = TcpListener::bind(self.listen).await;
            let listener = listener.map_err(|error| {
                let what = format!("cannot listen on {}: {error}", self.listen);
                Failure::new(what).hint("choose another port with --listen, or 0 for any")
            })?;
            let mut out = Output::new();
            out.line(&viewer.url(listener.local_addr()?))?;
            out.finish()?;
            let stop = async {
                // Without signals it serves until it is killed.
                let _ = tokio::signal::ctrl_c().await;
            };
            viewer
                .serve_until(listener, stop)
                .await
                .map_err(Failure::from)
        })?;
        Ok(Outcome::Done)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn refused(error: ViewerError) -> Failure {
    Failure::new(error.to_string())
}
