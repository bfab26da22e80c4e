//! A way to the server that can be cut, at any byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
    runtime: Runtime,
}

struct State {
    server: SocketAddr,
    /// How many bytes may still pass before all connections are cut; negative: any number.
    to_server: AtomicI64,
    to_client: AtomicI64,
    /// How many bytes went to the server, and how often it was its turn.
    sent: AtomicU64,
    turns: AtomicU64,
    is_servers_turn: AtomicBool,
    /// Whether what comes next for the server is held back.
    holds: AtomicBool,
    /// At which connection from now on it is delivered; and that it is to be.
    delivers_at: AtomicI64,
    deliver: Notify,
    delivered: Notify,
    /// Whether the next transaction's beginning is made nonsense.
    spoils: AtomicBool,
    cuts: AtomicU64,
    cut: watch::Sender<u64>,
    /// How often the connections that there were fell silent.
    silent: watch::Sender<u64>,
}

impl Proxy {
    pub(crate) fn to(port: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let state = Arc::new(State {
            server: ([127, 0, 0, 1], port).into(),
            to_server: AtomicI64::new(-1),
            to_client: AtomicI64::new(-1),
            sent: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            is_servers_turn: AtomicBool::new(false),
            holds: AtomicBool::new(false),
            delivers_at: AtomicI64::new(-1),
            deliver: Notify::new(),
            delivered: Notify::new(),
            spoils: AtomicBool::new(false),
            cuts: AtomicU64::new(0),
            cut: watch::Sender::new(0),
            silent: watch::Sender::new(0),
        });
        let port = listener.local_addr().unwrap().port();
        let accepting = state.clone();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if accepting.delivers_at.fetch_sub(1, Ordering::SeqCst) == 1 {
                    accepting.deliver.notify_one();
                    accepting.delivered.notified().await;
                }
                tokio::spawn(serve(accepting.clone(), client));
            }
        });
        Self {
            port,
            state,
            runtime,
        }
    }

    pub(crate) fn dsn(&self) -> String {
        format!("host=127.0.0.1 port={} user=bot dbname=postgres", self.port)
    }

    /// Cuts all connections once so many more bytes went to the server, which gets no byte
    /// more, while what it says is lost.
    pub(crate) fn cut_to_server_after(&self, bytes: i64) {
        self.state.to_server.store(bytes, Ordering::SeqCst);
    }

    /// The same for what comes back: the server did all it was asked to.
    pub(crate) fn cut_to_client_after(&self, bytes: i64) {
        self.state.to_client.store(bytes, Ordering::SeqCst);
    }

    /// Holds back what is sent next, and cuts the connection that it came on. The server gets
    /// it when that many others were made since, or when it is [delivered](Self::deliver).
    pub(crate) fn hold(&self, connections: i64) {
        self.state.delivers_at.store(connections, Ordering::SeqCst);
        self.state.holds.store(true, Ordering::SeqCst);
    }

    pub(crate) fn deliver(&self) {
        self.state.deliver.notify_one();
        self.runtime.block_on(self.state.delivered.notified());
    }

    /// Has the next transaction's beginning refused by the server, and what follows it not.
    pub(crate) fn spoil(&self) {
        self.state.spoils.store(true, Ordering::SeqCst);
    }

    /// Nothing more is cut.
    pub(crate) fn heal(&self) {
        self.state.to_server.store(-1, Ordering::SeqCst);
        self.state.to_client.store(-1, Ordering::SeqCst);
    }

    /// Nothing passes any more on the connections that there are, which stay. Later ones work.
    pub(crate) fn silence(&self) {
        self.state.silent.send_modify(|times| *times += 1);
    }

    /// How many bytes went to the server so far, and in how many round trips, if one
    /// connection is in use.
    pub(crate) fn passed(&self) -> (u64, u64) {
        let State { sent, turns, .. } = &*self.state;
        (sent.load(Ordering::SeqCst), turns.load(Ordering::SeqCst))
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }
}

async fn serve(state: Arc<State>, client: TcpStream) {
    let mut cut = state.cut.subscribe();
    cut.mark_unchanged();
    let mut silent = state.silent.subscribe();
    silent.mark_unchanged();
    let Ok(server) = TcpStream::connect(state.server).await else {
        return;
    };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let held = tokio::select! {
        held = pass(&state, &mut from_client, &mut to_server, &state.to_server) => held,
        held = pass(&state, &mut from_server, &mut to_client, &state.to_client) => held,
        _ = cut.changed() => None,
        _ = silent.changed() => std::future::pending().await,
    };
    let Some(held) = held else { return };
    drop((from_client, to_client));
    state.deliver.notified().await;
    to_server.write_all(&held).await.unwrap();
    // The server has carried it out, or refused it, by the time that it says so.
    let mut answer = Vec::new();
    while !answer
        .windows(6)
        .any(|end| end == b"Z\0\0\0\x05I" || end == b"Z\0\0\0\x05E")
    {
        let read = from_server.read_buf(&mut answer).await;
        assert!(matches!(read, Ok(1..)), "{read:?}");
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    state.delivered.notify_one();
}

/// Makes the beginning of a transaction nonsense, of the same length.
fn spoil(bytes: &mut [u8]) -> bool {
    let at = bytes.windows(9).position(|word| word == b"BEGIN ISO");
    if let Some(at) = at {
        bytes[at..at + 5].copy_from_slice(b"BEGUN");
    }
    at.is_some()
}

async fn pass(
    state: &State,
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    left: &AtomicI64,
) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else {
            return None;
        };
        let is_servers_turn = std::ptr::eq(left, &raw const state.to_server);
        if is_servers_turn {
            state.sent.fetch_add(read as u64, Ordering::SeqCst);
        }
        if state
            .is_servers_turn
            .swap(is_servers_turn, Ordering::SeqCst)
            != is_servers_turn
        {
            state
                .turns
                .fetch_add(u64::from(is_servers_turn), Ordering::SeqCst);
        }
        let mut passing = read;
        let before = left.load(Ordering::SeqCst);
        if before >= 0 {
            passing = read.min(usize::try_from(before).unwrap());
            left.fetch_sub(i64::try_from(read).unwrap(), Ordering::SeqCst);
        }
        if is_servers_turn && state.holds.swap(false, Ordering::SeqCst) {
            let mut held = buffer[..read].to_vec();
            let pause = Duration::from_millis(100);
            while let Ok(Ok(1..)) = timeout(pause, from.read_buf(&mut held)).await {}
            return Some(held);
        }
        if is_servers_turn && state.spoils.load(Ordering::SeqCst) {
            let spoiled = spoil(&mut buffer[..read]);
            state.spoils.fetch_and(!spoiled, Ordering::SeqCst);
        }
        if to.write_all(&buffer[..passing]).await.is_err() {
            return None;
        }
        if passing < read {
            left.store(-1, Ordering::SeqCst);
            state.cuts.fetch_add(1, Ordering::SeqCst);
            state.cut.send_modify(|cuts| *cuts += 1);
            return None;
        }
    }
}
