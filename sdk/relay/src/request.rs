//! One request: to the program, and its answer back.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;
use tutti_worker::Exchange;
use tutti_worker::Level;
use tutti_worker::log::{line, title};

use crate::connection::{Pool, RelayConnection, SWEEP};
use crate::error::RelayError;
use crate::feed::{Feed, Transfer};
use crate::http::{is_small, pass_on, receive_head, send};
use crate::websocket;

/// Requests logged when the program ends, and protocols logged: beyond that, a line of the log is no help.
const MOST_TOLD: usize = 16;

/// A connection that ended this long before the program was heard to end was closed by its end, and so long its end is waited for. Both come
/// with the same turn of the loop, or the next one.
const JUST_NOW: Duration = Duration::from_secs(1);

/// The state that the exchanges of a worker share.
#[derive(Debug)]
pub(super) struct Relay {
    pool: Pool,
    broken_off: RefCell<BrokenOff>,
    /// Wakes who waits for the program's end.
    ending: Notify,
    /// Protocols that clients have asked for in vain, as far as they have been logged.
    upgrades_told: RefCell<Vec<Vec<u8>>>,
}

impl Relay {
    pub(super) fn new(pool: Pool) -> Self {
        Self {
            pool,
            broken_off: RefCell::default(),
            ending: Notify::new(),
            upgrades_told: RefCell::default(),
        }
    }

    /// Tells once that the program does not hear of a protocol that a client has asked for. RFC 9110 §7.8 has such a request answered as if it had not.
    fn tell_of_upgrade(&self, exchange: &Exchange) {
        let request = exchange.request();
        let Some(protocol) = request.field(b"upgrade") else {
            return;
        };
        let mut told = self.upgrades_told.borrow_mut();
        // HTTP/2 is the listener's, and clients offer it as a matter of course.
        if protocol.eq_ignore_ascii_case(b"h2c")
            || told.len() >= MOST_TOLD
            || told.iter().any(|other| other == protocol)
        {
            return;
        }
        told.push(protocol.to_vec());
        let message = format!(
            "{}: an upgrade to `{}` is not carried, the program gets the request without it (hint: only WebSocket is; for another protocol a \
             listener passes to an upstream, the server of the program's own)",
            title(exchange),
            String::from_utf8_lossy(protocol),
        );
        line(Level::Notice, "", message.as_bytes());
    }

    /// The program has ended. The requests that break off with it are reported [with its end](Self::broken_off), in one message.
    pub(super) fn program_ended(&self) {
        self.broken_off.borrow_mut().end = Some(Instant::now());
        self.ending.notify_waiters();
    }

    fn has_program_ended(&self) -> bool {
        self.broken_off.borrow().end.is_some()
    }

    /// Waits for the program's end, of which its closed connections are heard first. False if it does not come.
    async fn program_ends(&self) -> bool {
        let ending = self.ending.notified();
        self.has_program_ended() || timeout(JUST_NOW, ending).await.is_ok()
    }

    /// The requests that the program's end broke off.
    pub(super) fn broken_off(&self) -> String {
        self.broken_off.borrow().by_the_end()
    }
}

/// The last requests whose connection to the program ended, and when; and when the program did.
#[derive(Debug, Default)]
struct BrokenOff {
    titles: VecDeque<(Instant, String)>,
    end: Option<Instant>,
}

impl BrokenOff {
    fn note(&mut self, title: String) {
        if self.titles.len() >= MOST_TOLD {
            self.titles.pop_front();
        }
        self.titles.push_back((Instant::now(), title));
    }

    /// Those that the program's end broke off.
    fn by_the_end(&self) -> String {
        let end = self.end.unwrap_or_else(Instant::now);
        let titles: Vec<&str> = self
            .titles
            .iter()
            .filter(|(when, _)| end.saturating_duration_since(*when) < JUST_NOW)
            .map(|(_, title)| title.as_str())
            .collect();
        titles.join("`, `")
    }
}

/// Relays one exchange to its end.
pub(crate) async fn relay(relay: &Rc<Relay>, mut exchange: Exchange) {
    let outcome = {
        let under_way = UnderWay {
            relay,
            exchange: &exchange,
            has_outcome: false,
        };
        let outcome = match exchange.request().is_websocket() {
            // On the heap, for it is large and rare: so the other kind is cheap to begin.
            true => Box::pin(websocket::relay(&relay.pool, &exchange)).await,
            false => {
                relay.tell_of_upgrade(&exchange);
                serve(relay, &exchange).await
            }
        };
        under_way.end();
        outcome
    };
    match outcome {
        Ok(()) => exchange.finish(),
        Err(failure) => {
            // The program has ended and has not seen it: another process's program will.
            if is_unseen(&failure, &exchange)
                && relay.program_ends().await
                && exchange.leave_to_others()
            {
                return;
            }
            if failure.is_of_the_connection() {
                relay.broken_off.borrow_mut().note(title(&exchange));
            }
            let is_told = relay.has_program_ended() && failure.is_of_the_connection();
            if !is_told && !matches!(failure, RelayError::ClientGone) {
                let message = format!("{}: {failure}", title(&exchange));
                line(Level::Error, "", message.as_bytes());
            }
            // 502 where nothing was sent yet; else the answer is broken off and cannot be taken for whole.
            exchange.abort();
        }
    }
}

/// True if the program has not seen the request, or has not read all of it and doing it twice does no harm.
fn is_unseen(failure: &RelayError, exchange: &Exchange) -> bool {
    let may_be_repeated = is_repeatable(exchange) && !exchange.request().is_websocket();
    failure.is_unsent() || failure.is_unread() && may_be_repeated
}

/// A request on its way. If the event loop ends, it is noted, so that the report of the program's end names it.
struct UnderWay<'r> {
    relay: &'r Relay,
    exchange: &'r Exchange,
    has_outcome: bool,
}

impl UnderWay<'_> {
    fn end(mut self) {
        self.has_outcome = true;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.has_outcome {
            let title = title(self.exchange);
            self.relay.broken_off.borrow_mut().note(title);
        }
    }
}

async fn serve(relay: &Rc<Relay>, exchange: &Exchange) -> Result<(), RelayError> {
    let connection = relay.pool.get().await.map_err(RelayError::Connect)?;
    let was_used = connection.is_used;
    match attempt(relay, exchange, connection).await {
        // A server may close a kept connection at any moment. If it said nothing on it and doing the request twice does no
        // harm (RFC 9110 §9.2.2), it is done again on a new one.
        Err(failure) if was_used && is_retried(&failure, exchange) => {
            let again = match relay.pool.open().await {
                Ok(connection) => attempt(relay, exchange, connection).await,
                Err(error) => Err(RelayError::Connect(error)),
            };
            match again {
                // The program may have read the request the first time, and have ended of it: that it did not read it again does not make it unseen.
                Err(second) if is_unseen(&second, exchange) => Err(failure),
                outcome => outcome,
            }
        }
        outcome => outcome,
    }
}

fn is_retried(failure: &RelayError, exchange: &Exchange) -> bool {
    let is_harmless = match failure {
        RelayError::Unsent(_) => true,
        RelayError::Closed | RelayError::Send(_) | RelayError::Receive(_) => {
            is_repeatable(exchange)
        }
        _ => false,
    };
    is_harmless && !exchange.is_started() && exchange.body_rewind().is_ok()
}

fn is_repeatable(exchange: &Exchange) -> bool {
    tutti_http::is_idempotent(exchange.request().method())
}

async fn attempt(
    relay: &Rc<Relay>,
    exchange: &Exchange,
    connection: Box<RelayConnection>,
) -> Result<(), RelayError> {
    let mut line = Transfer::new(connection);
    let is_sent = match is_small(exchange) {
        true => send(exchange, &mut line.connection, None).await?,
        // The program may answer while it reads.
        false => {
            let tells_client = line.connection.tells_client;
            line.feed = Some(Feed::begin(exchange, tells_client));
            true
        }
    };
    let received = receive_head(exchange, &mut line).await;
    received.map_err(|failure| line.unsent(failure))?;
    let may_keep = pass_on(exchange, &mut line).await?;
    let is_sent = is_sent && line.feed.as_ref().is_none_or(Feed::is_done);
    if is_sent && may_keep && relay.pool.keep(line.connection) {
        let relay = Rc::clone(relay);
        tokio::task::spawn_local(async move {
            while relay.pool.sweep() {
                tokio::time::sleep(SWEEP).await;
            }
        });
    }
    Ok(())
}
