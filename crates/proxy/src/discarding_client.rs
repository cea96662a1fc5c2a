//! A client that discards every answer, for requests that are sent for their effect.

use std::net::SocketAddr;
use std::task::{Context, Poll};

use tutti_conn::clock::Millis;
use tutti_conn::connections::NEVER;
use tutti_conn::output::Gone;
use tutti_http::{FieldLines, Trailers};
use tutti_log::Level;

use crate::client::{AnswerHead, BodyStreamError, BufferLimits, Client, RequestBody};

/// The client of a request without a recipient.
pub struct DiscardingClient<'l> {
    remote: Option<SocketAddr>,
    is_https: bool,
    log: &'l dyn Fn(Level, &str),
    log_limited: &'l dyn Fn(&str),
    outcome: Result<(), u16>,
}

impl<'l> DiscardingClient<'l> {
    /// Makes a client with this address. The functions write the log.
    pub fn new(
        remote: Option<SocketAddr>,
        is_https: bool,
        log: &'l dyn Fn(Level, &str),
        log_limited: &'l dyn Fn(&str),
    ) -> Self {
        Self {
            remote,
            is_https,
            log,
            log_limited,
            outcome: Err(502),
        }
    }

    /// `Ok` if a complete answer arrived. Otherwise the status that a client would have got.
    pub fn outcome(&self) -> Result<(), u16> {
        self.outcome
    }
}

/// A body that is never streamed.
pub enum NoBody {}

impl RequestBody for NoBody {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<bool, BodyStreamError>> {
        match *self {}
    }
    fn piece(&self) -> &[u8] {
        match *self {}
    }
    fn consume(&mut self, _: usize) {
        match *self {}
    }
    fn trailers(&self) -> Trailers {
        match *self {}
    }
    fn deadline(&self) -> Millis {
        match *self {}
    }
    fn start_clock(&mut self) {
        match *self {}
    }
    fn stop_clock(&mut self) {
        match *self {}
    }
    fn awaits_continue(&self) -> bool {
        match *self {}
    }
}

impl Client for DiscardingClient<'_> {
    type Body = NoBody;
    type Answer = ();
    type Ending = ();

    fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }
    fn local(&self) -> Option<SocketAddr> {
        None
    }
    fn is_https(&self) -> bool {
        self.is_https
    }
    fn may_wait(&self) -> bool {
        false
    }
    fn log(&self, level: Level, line: &str) {
        (self.log)(level, line);
    }
    fn log_limited(&self, line: &str) {
        (self.log_limited)(line);
    }
    fn interim<'f>(&mut self, _: u16, _: impl Iterator<Item = (&'f [u8], &'f [u8])>) {}
    fn send_continue(&mut self, body: &mut NoBody) {
        match *body {}
    }
    fn switch<'f>(&mut self, _: impl Iterator<Item = (&'f [u8], &'f [u8])>) {}
    fn begin<'f>(
        &mut self,
        _: &AnswerHead,
        _: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> Result<(), Gone> {
        Ok(())
    }
    fn write<'b>(
        &mut self,
        _: &mut (),
        pieces: impl Iterator<Item = &'b [u8]> + Clone,
    ) -> Result<usize, Gone> {
        Ok(pieces.map(<[u8]>::len).sum())
    }
    fn finish(&mut self, _: &mut (), _: Trailers) -> Result<(), Gone> {
        Ok(())
    }
    fn end(&mut self, _: ()) {
        self.outcome = Ok(());
    }
    fn break_off(&mut self, _: &()) {}
    fn abandon(&mut self, _: u16, _: Option<u32>) {}
    fn fail(&mut self, status: u16, _: &FieldLines, _: bool) {
        self.outcome = Err(status);
    }
    fn refuse(&mut self, _: u16) {}
    fn discard(&mut self) {}
    fn unsent(&self) -> u64 {
        0
    }
    fn allowance(&self, most: usize) -> usize {
        most
    }
    fn deliver(&mut self, _: &mut Context<'_>) -> Result<Millis, Gone> {
        Ok(NEVER)
    }
    // The caller of the request ends it when its time is over.
    fn wake_at(&self, _: Millis) {}
    fn try_send(&mut self) -> Result<bool, Gone> {
        Ok(true)
    }
    fn poll_room(
        &mut self,
        _: &mut Context<'_>,
        _: BufferLimits,
        _: Millis,
    ) -> Poll<Result<(), Gone>> {
        Poll::Ready(Ok(()))
    }
    async fn flush(&mut self) -> Result<(), Gone> {
        Ok(())
    }
}
