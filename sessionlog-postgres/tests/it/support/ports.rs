//! Ports for servers that cannot be handed a listener.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that Linux, unless told otherwise, lends to connections and to listeners that
/// ask for any.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// A port that nobody has, and that no other test of the process is given: between two runs of
/// a server nobody listens on it, and one that the system lends to whoever asks could be a
/// pooler's by then.
pub(crate) fn fresh_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = u16::try_from(std::process::id() % u32::from(COUNT)).unwrap();
    (0..COUNT)
        .map(|_| own.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)))
        .map(|port| FIRST + port % COUNT)
        .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        .unwrap()
}
