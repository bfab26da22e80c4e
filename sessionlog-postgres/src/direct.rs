//! Finds out whether a connection leads to the server itself, or to a pooler that lends server
//! connections.
//!
//! The peer that accepts a connection tells the number of the process that a cancellation would be
//! for. A server tells its own number. A pooler cannot do that, because the next transaction may go
//! to another process, so it makes a number up. The client keeps that number to itself, and writes
//! it only into a cancellation. So the code here writes a cancellation to a stream in this process,
//! and reads the number there.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// Returns the number of the server process that the client was told. Returns nothing if it cannot
/// be told.
pub(crate) async fn told_process(client: &Client) -> Option<i32> {
    let token = client.cancel_token();
    let (near, far) = duplex(64);
    let (_, told) = tokio::join!(token.cancel_query_raw(near, Untouched), read(far));
    told.ok()
}

/// The codes that name the kind of request, at the end of a request for TLS and at the start of a
/// cancellation.
const TLS: i32 = 80_877_103;
const CANCEL: i32 = 80_877_102;

/// Reads a cancellation, after a request for TLS if one comes.
async fn read(mut from: DuplexStream) -> io::Result<i32> {
    loop {
        let (_length, request) = (from.read_i32().await?, from.read_i32().await?);
        match request {
            TLS => from.write_all(b"S").await?,
            CANCEL => return from.read_i32().await,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// No TLS, for a client that wants TLS: the bytes that it writes stay in this process.
struct Untouched;

impl TlsConnect<DuplexStream> for Untouched {
    type Stream = Plain;
    type Error = io::Error;
    type Future = Ready<io::Result<Plain>>;

    fn connect(self, stream: DuplexStream) -> Self::Future {
        ready(Ok(Plain(stream)))
    }
}

struct Plain(DuplexStream);

impl TlsStream for Plain {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Plain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Plain {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
