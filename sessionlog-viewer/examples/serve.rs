//! Serves a store's viewer beside a gateway that runs, or without one:
//! `cargo run -p sessionlog-viewer --example serve -- DIR [ADDRESS]`.

use std::error::Error;

use sessionlog::Store;
use sessionlog_viewer::{Viewer, ViewerOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let Some(dir) = args.next() else {
        return Err("usage: serve DIR [ADDRESS, by default 127.0.0.1:0]".into());
    };
    let address = args.next().unwrap_or_else(|| String::from("127.0.0.1:0"));
    let store = Store::open_read_only(&dir)?;
    let listener = tokio::net::TcpListener::bind(&address).await?;
    let addr = listener.local_addr()?;
    let options = ViewerOptions::new()
        .title(&dir)
        .beyond_loopback(!addr.ip().is_loopback());
    let viewer = Viewer::new(store.handle(), options)?;
    println!("{}", viewer.url(addr));
    let stop = async {
        // Without signals it serves until it is killed.
        let _ = tokio::signal::ctrl_c().await;
    };
    viewer.serve_until(listener, stop).await?;
    store.close()?;
    Ok(())
}
