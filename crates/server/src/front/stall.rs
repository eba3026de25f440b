//! A socket whose writes may not wait for ever.
//!
//! A client that stops reading leaves the server with what it wanted to send. TCP itself would wait for as long as the
//! client's machine is up. The clock runs only while a write waits, so a socket that keeps up costs nothing.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The socket and the clock of the write that waits, if one does.
pub(super) struct Stall<S> {
    socket: S,
    limit: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> Stall<S> {
    pub(super) const fn new(socket: S, limit: Duration) -> Self {
        Self { socket, limit, waiting: None }
    }

    fn clocked<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = write(Pin::new(&mut self.socket), cx);
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let limit = self.limit;
        let clock = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        match clock.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, "the client takes no more bytes"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.clocked(cx, |socket, cx| socket.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.clocked(cx, |socket, cx| socket.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.clocked(cx, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.clocked(cx, AsyncWrite::poll_shutdown)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_that_nobody_takes_fails_at_the_limit() {
        let (near, _far) = duplex(4);
        let mut stall = Stall::new(near, Duration::from_secs(30));
        let started = tokio::time::Instant::now();
        let error = stall.write_all(b"12345678").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(started.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_that_goes_on_is_not_cut() {
        let (near, mut far) = duplex(1);
        let mut stall = Stall::new(near, Duration::from_secs(30));
        let reader = tokio::spawn(async move {
            for _ in 0..8 {
                sleep(Duration::from_secs(20)).await;
                far.read_u8().await.unwrap();
            }
        });
        stall.write_all(b"12345678").await.unwrap();
        reader.await.unwrap();
    }
}
