//! The connections, and their time limits.
//!
//! A connection is a stranger until a request over it showed the token. Strangers have little time
//! and few places. When there are too many, the address with the most strangers loses its oldest
//! one, after that one had the chance to be served. Connections that showed the token have places
//! of their own, which no stranger takes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Most strangers that are connected at once.
const STRANGERS: usize = 256;

/// Most strangers of one address.
const PER_ADDRESS: usize = 128;

/// The time within which a stranger must show the token, its first headers included.
const PATIENCE: Duration = Duration::from_secs(10);

/// Accepts connections.
pub(crate) struct Door {
    listener: TcpListener,
    places: Arc<Places>,
}

/// The present connections.
struct Places {
    /// Most connections that may have shown the token.
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    /// By age.
    strangers: BTreeMap<u64, Stranger>,
    known: BTreeSet<u64>,
}

struct Stranger {
    address: IpAddr,
    /// Tells it to go. If this is dropped, it may stay.
    leave: oneshot::Sender<()>,
}

/// The place of one connection, which its requests know.
#[derive(Clone)]
pub(crate) struct Place {
    number: u64,
    places: Arc<Places>,
}

/// A connection, which gives its place up when it is closed.
pub(crate) struct Connection {
    stream: TcpStream,
    place: Place,
    /// Ready when a stranger has to go.
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_over: bool,
}

impl Door {
    pub(crate) fn new(listener: TcpListener, most: usize) -> Self {
        let places = Places {
            most,
            taken: Mutex::default(),
        };
        Self {
            listener,
            places: Arc::new(places),
        }
    }
}

impl Listener for Door {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            // Events are small, and the page waits for each.
            if stream.set_nodelay(true).is_ok() {
                let connection = Connection::new(stream, address.ip(), &self.places);
                return (connection, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Places {
    fn taken<T>(&self, look: impl FnOnce(&mut Taken) -> T) -> T {
        look(&mut self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Taken {
    /// Gives a stranger a place; another one goes, if there are too many.
    fn take_in(&mut self, address: IpAddr, leave: oneshot::Sender<()>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.strangers.insert(number, Stranger { address, leave });
        let of = |taken: &Self, address| {
            let strangers = taken.strangers.values();
            strangers.filter(|one| one.address == address).count()
        };
        if of(self, address) > PER_ADDRESS {
            self.displace(address);
        } else if self.strangers.len() > STRANGERS {
            let mut counts: HashMap<IpAddr, usize> = HashMap::new();
            for stranger in self.strangers.values() {
                *counts.entry(stranger.address).or_default() += 1;
            }
            let most = counts.into_iter().max_by_key(|(_, count)| *count);
            if let Some((address, _)) = most {
                self.displace(address);
            }
        }
        number
    }

    /// Sends the oldest stranger of an address away.
    fn displace(&mut self, address: IpAddr) {
        let mut strangers = self.strangers.iter();
        let oldest = strangers.find(|(_, stranger)| stranger.address == address);
        let oldest = oldest.map(|(number, _)| *number);
        if let Some(stranger) = oldest.and_then(|oldest| self.strangers.remove(&oldest)) {
            // It may be gone already.
            let _ = stranger.leave.send(());
        }
    }

    /// Lets a stranger that showed the token stay, if fewer than `most` do; returns true if it may.
    fn admit(&mut self, number: u64, most: usize) -> bool {
        if self.known.contains(&number) {
            return true;
        }
        if self.known.len() >= most || self.strangers.remove(&number).is_none() {
            return false;
        }
        self.known.insert(number)
    }

    fn leave(&mut self, number: u64) {
        self.strangers.remove(&number);
        self.known.remove(&number);
    }
}

impl Place {
    /// Notes that a request over the connection showed the token. Returns true if the connection
    /// may stay.
    pub(crate) fn admit(&self) -> bool {
        let Self { number, places } = self;
        places.taken(|taken| taken.admit(*number, places.most))
    }
}

impl Connected<IncomingStream<'_, Door>> for Place {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        stream.io().place.clone()
    }
}

impl Connection {
    fn new(stream: TcpStream, address: IpAddr, places: &Arc<Places>) -> Self {
        let (leave, told) = oneshot::channel();
        let number = places.taken(|taken| taken.take_in(address, leave));
        let end = async move {
            if let Ok(Err(_)) = tokio::time::timeout(PATIENCE, told).await {
                // It is no stranger any more.
                std::future::pending::<()>().await;
            }
        };
        Self {
            stream,
            place: Place {
                number,
                places: places.clone(),
            },
            end: Box::pin(end),
            is_over: false,
        }
    }

    /// # Errors
    /// If the connection has to go.
    fn go_on(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.is_over = self.is_over || self.end.as_mut().poll(cx).is_ready();
        if self.is_over {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Place { number, places } = &self.place;
        places.taken(|taken| taken.leave(*number));
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.go_on(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.go_on(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.go_on(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn come(taken: &mut Taken, address: [u8; 4]) -> (u64, oneshot::Receiver<()>) {
        let (leave, told) = oneshot::channel();
        (taken.take_in(address.into(), leave), told)
    }

    fn was_told(told: &mut oneshot::Receiver<()>) -> bool {
        told.try_recv().is_ok()
    }

    #[test]
    fn the_address_with_the_most_strangers_loses_its_oldest_and_no_other_does() {
        let mut taken = Taken::default();
        let (_, mut single) = come(&mut taken, [10, 0, 0, 9]);
        let (known, mut kept) = come(&mut taken, [10, 0, 0, 1]);
        assert!(taken.admit(known, 1));
        let mut first = come(&mut taken, [10, 0, 0, 1]).1;
        let mut others: Vec<_> = (1..PER_ADDRESS)
            .map(|_| come(&mut taken, [10, 0, 0, 1]).1)
            .collect();
        assert!(!was_told(&mut first));
        others.push(come(&mut taken, [10, 0, 0, 1]).1);
        assert!(was_told(&mut first), "one more of its address");
        // Many addresses with one stranger each.
        for n in 0..240 {
            others.push(come(&mut taken, [10, 1, 0, n]).1);
        }
        assert_eq!(taken.strangers.len(), STRANGERS);
        let told = others[..PER_ADDRESS]
            .iter_mut()
            .filter_map(|told| told.try_recv().ok());
        assert!(told.count() > 0);
        assert!(!was_told(&mut single) && !was_told(&mut kept));
    }

    #[test]
    fn no_more_than_so_many_are_admitted_and_none_twice() {
        let mut taken = Taken::default();
        let [(a, _), (b, _)] = [0, 1].map(|n| come(&mut taken, [10, 0, 0, n]));
        assert!(taken.admit(a, 1) && taken.admit(a, 1));
        assert!(!taken.admit(b, 1));
        taken.leave(a);
        assert!(taken.admit(b, 1));
        assert!(!taken.admit(a, 2), "it is gone");
    }
}
