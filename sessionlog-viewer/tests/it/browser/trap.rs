//! What a browser asks of anybody but the viewer.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// A proxy that lets nothing through, and notes what was asked of it. A browser asks it for
/// every address that is not its own machine's.
pub(super) struct Trap {
    pub(super) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Trap {
    pub(super) async fn set() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let notes = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let notes = notes.clone();
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let mut line = String::new();
                    if stream.read_line(&mut line).await.is_ok() {
                        notes.lock().unwrap().push(line.trim().to_owned());
                    }
                    let refusal = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n";
                    stream.write_all(refusal).await.ok();
                });
            }
        });
        Self { port, asked }
    }

    /// What was asked, but for what a browser asks its maker, and the search engine that it
    /// comes with, by itself.
    pub(super) fn asked(&self) -> Vec<String> {
        let own = [
            "google.com",
            "googleapis.com",
            "gvt1.com",
            "gstatic.com",
            "duckduckgo.com",
        ];
        let asked = self.asked.lock().unwrap();
        let is_own = |line: &str| own.iter().any(|host| line.contains(host));
        // A connection that nothing is asked on was made in advance.
        let by_pages = asked
            .iter()
            .filter(|line| !line.is_empty() && !is_own(line));
        by_pages.cloned().collect()
    }
}
