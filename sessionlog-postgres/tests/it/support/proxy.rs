//! A way to the server that can be cut, at any byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
    _runtime: Runtime,
}

struct State {
    server: SocketAddr,
    /// How many bytes may still pass before all connections are cut; negative: any number.
    to_server: AtomicI64,
    to_client: AtomicI64,
    cuts: AtomicU64,
    cut: watch::Sender<u64>,
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
            cuts: AtomicU64::new(0),
            cut: watch::Sender::new(0),
        });
        let port = listener.local_addr().unwrap().port();
        let accepting = state.clone();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(accepting.clone(), client));
            }
        });
        Self {
            port,
            state,
            _runtime: runtime,
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

    pub(crate) fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }
}

async fn serve(state: Arc<State>, client: TcpStream) {
    let mut cut = state.cut.subscribe();
    cut.mark_unchanged();
    let Ok(server) = TcpStream::connect(state.server).await else {
        return;
    };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::select! {
        () = pass(&state, &mut from_client, &mut to_server, &state.to_server) => {}
        () = pass(&state, &mut from_server, &mut to_client, &state.to_client) => {}
        _ = cut.changed() => {}
    }
}

async fn pass(
    state: &State,
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    left: &AtomicI64,
) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        let mut passing = read;
        let before = left.load(Ordering::SeqCst);
        if before >= 0 {
            passing = read.min(usize::try_from(before).unwrap());
            left.fetch_sub(i64::try_from(read).unwrap(), Ordering::SeqCst);
        }
        if to.write_all(&buffer[..passing]).await.is_err() {
            return;
        }
        if passing < read {
            left.store(-1, Ordering::SeqCst);
            state.cuts.fetch_add(1, Ordering::SeqCst);
            state.cut.send_modify(|cuts| *cuts += 1);
            return;
        }
    }
}
