//! The sample's WebSocket: echoes, or does what text messages say.

use tutti_worker::{ClientGone, Exchange, Message, MessageOpcode};

use super::request::{GLANCE, is_there, pause, text, value};

/// A WebSocket: echoes, or obeys. How it ended is a line of stdout.
pub(crate) fn serve(exchange: &mut Exchange, obeys: bool) {
    if !exchange.request().is_websocket() {
        return text(exchange, 400, "this is a WebSocket\n");
    }
    let protocol = value(&exchange.request(), "protocol").map(str::to_owned);
    let field = protocol
        .as_ref()
        .map(|protocol| (&b"Sec-WebSocket-Protocol"[..], protocol.as_bytes()));
    // The server's own fields, which it must not believe.
    let claimed = [
        (&b"Sec-WebSocket-Accept"[..], &b"no"[..]),
        (b"Upgrade", b"no"),
    ];
    if exchange
        .start(101, field.into_iter().chain(claimed))
        .is_err()
    {
        return;
    }
    exchange.flush();
    let ended = converse(exchange, obeys);
    println!("websocket ended: {ended}");
    if !exchange.is_ended() {
        exchange.finish();
    }
}

/// Until one side has had enough; says which, and how.
fn converse(exchange: &mut Exchange, obeys: bool) -> String {
    loop {
        let sent = match exchange.next_message() {
            None => return "gone".to_owned(),
            Some(Message::Close(payload)) => {
                let _ = exchange.send_message(MessageOpcode::Close, &payload);
                let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                let reason =
                    String::from_utf8_lossy(payload.get(2..).unwrap_or_default()).into_owned();
                return format!("close {} {reason}", code.unwrap_or(1005));
            }
            Some(Message::Text(text)) if obeys => match order(exchange, &text) {
                Ok(sent) => sent,
                Err(ended) => return ended,
            },
            Some(Message::Text(text)) => exchange.send_message(MessageOpcode::Text, &text),
            Some(Message::Binary(bytes)) => exchange.send_message(MessageOpcode::Binary, &bytes),
            Some(Message::Pong(payload)) => {
                let text = format!("pong {}", String::from_utf8_lossy(&payload));
                exchange.send_message(MessageOpcode::Text, text.as_bytes())
            }
        };
        if sent.is_err() {
            return "gone while sending".to_owned();
        }
    }
}

/// `close CODE REASON`, `ping TEXT`, `pid`, `big BYTES` (one binary message), `half` (the beginning of a message, and the end of
/// the exchange), `return`, `abort`, `crash`, `wait PATH` (until that file is there).
fn order(exchange: &mut Exchange, text: &[u8]) -> Result<Result<(), ClientGone>, String> {
    let text = String::from_utf8_lossy(text).into_owned();
    let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
    let number = rest.parse().unwrap_or(0);
    Ok(match word {
        "close" => {
            let (code, reason) = rest.split_once(' ').unwrap_or((rest, ""));
            let mut payload = code.parse().unwrap_or(0_u16).to_be_bytes().to_vec();
            payload.extend_from_slice(reason.as_bytes());
            let _ = exchange.send_message(MessageOpcode::Close, &payload);
            return Err("closed".to_owned());
        }
        "ping" => exchange.send_message(MessageOpcode::Ping, rest.as_bytes()),
        "pid" => exchange.send_message(
            MessageOpcode::Text,
            tutti_sys::process::id().to_string().as_bytes(),
        ),
        "big" => exchange.send_message(MessageOpcode::Binary, &vec![b'x'; number as usize]),
        "half" => {
            let _ = exchange.try_send(MessageOpcode::Binary, &vec![0; 100_000]);
            return Err("half".to_owned());
        }
        "wait" => {
            while !is_there(rest) {
                pause(GLANCE);
            }
            Ok(())
        }
        "return" => return Err("returned".to_owned()),
        "abort" => {
            exchange.abort();
            return Err("aborted".to_owned());
        }
        "crash" => std::process::abort(),
        _ => exchange.send_message(MessageOpcode::Text, text.as_bytes()),
    })
}
