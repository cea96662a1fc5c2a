//! The client's end of a [tunnel](tutti_proxy::Tunnel): its connection, over any channel.
//!
//! A tunnel must end when the server stops or the listener is removed. When an upgrade drains the server it continues, until that time is
//! over (`settings.http.drain_timeout`).

use std::task::{Context, Poll};

use tutti_conn::clock::Millis;
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::ReadResult;
use tutti_proxy::TunnelClient;

use crate::exchange::Exchange;
use crate::exchange::client::ClientSide;
use crate::exchange::messages::Messages;
use crate::exchange_step::Tunnel;

/// Copies bytes until both sides have finished, and logs the request.
pub(crate) async fn run(
    client: &ClientSide,
    messages: &mut Messages,
    exchange: &Exchange,
    tunnel: Tunnel,
) {
    let start = messages.body_start();
    let Tunnel { to_server, head } = tunnel;
    let input = messages.input.get(start..).unwrap_or_default().to_vec();
    let end = End(client);
    let bytes = to_server.carry(&end, input, &mut messages.output).await;
    messages
        .request(client, exchange)
        .finished(101, bytes, &head);
}

/// The client's end.
struct End<'c>(&'c ClientSide);

impl TunnelClient for End<'_> {
    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<Result<ReadResult, Gone>> {
        self.0.channel.poll_receive(input, context)
    }

    fn poll_send(&self, context: &mut Context<'_>, output: &mut Output) -> Poll<Result<(), Gone>> {
        self.0.poll_send(output, context)
    }

    fn has_sent(&self, output: &Output) -> bool {
        self.0.channel.has_sent(output)
    }

    fn finish(&self) -> bool {
        self.0.channel.shutdown()
    }

    fn farewell(&self) -> Option<u16> {
        self.0.farewell()
    }

    fn owes(&self, output: &Output, timeout: Millis) -> Millis {
        self.0.owes_of(output, timeout)
    }

    fn wake_at(&self, time: Millis) {
        self.0.set_deadline(time);
    }
}
