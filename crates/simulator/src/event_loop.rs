//! A worker with an event loop: it serves several requests at once, by the production code of the worker's side.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_simulated::{AsyncFd, nap};
use tutti_wire::now;
use tutti_wire::worker::{Exchange, Worker};

use crate::plan::{Act, Request, body_of};
use crate::world::World;

/// The next step for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Read,
    Head,
    Body,
    Over,
}

/// A request that is being served.
struct Handler {
    exchange: Exchange,
    id: u64,
    request: Request,
    stage: Stage,
    /// The bytes that were read of the request's body, or are to be written of the response's.
    body: Vec<u8>,
    written: usize,
    /// It pauses until then.
    until: Option<Instant>,
    /// It is to go on: it is new, or attention was drawn to its slot.
    has_news: bool,
}

/// The worker from its start to its end. `ready` reports that it is ready for requests.
pub(crate) fn run(
    world: &Arc<World>,
    process: i32,
    mut worker: Worker,
    concurrency: u32,
    ready: impl FnOnce(),
) {
    // There may be no descriptor left: then it ends before it is ready.
    let Ok(event) = enter(&mut worker, concurrency) else {
        return;
    };
    worker.ready();
    ready();
    let mut handlers: Vec<Handler> = Vec::new();
    loop {
        worker.drain_attention(|slot| {
            let meant = handlers.iter_mut().find(|one| one.exchange.slot() == slot);
            if let Some(handler) = meant {
                handler.has_news = true;
            }
        });
        while let Some(exchange) = worker.try_next() {
            let Some(mut handler) = Handler::new(world, process, exchange) else {
                continue;
            };
            handler.advance(world, process);
            handlers.push(handler);
        }
        for handler in &mut handlers {
            let is_due = handler.until.is_some_and(|until| until <= now());
            if is_due || std::mem::take(&mut handler.has_news) {
                handler.advance(world, process);
            }
        }
        handlers.retain(|handler| handler.stage != Stage::Over);
        if worker.must_stop() && worker.open() == 0 {
            worker.stop_taking();
            return;
        }
        if worker.prepare_sleep() {
            event.wait(handlers.iter().filter_map(|one| one.until).min());
            worker.woken();
        }
    }
}

fn enter(worker: &mut Worker, concurrency: u32) -> io::Result<AsyncFd<OwnedFd>> {
    worker.enter_loop(concurrency)?;
    let event = worker.event_fd().ok_or(io::ErrorKind::NotFound)?;
    AsyncFd::new(event.try_clone_to_owned()?)
}

impl Handler {
    fn new(world: &World, process: i32, mut exchange: Exchange) -> Option<Handler> {
        let Some(id) = world.begins(&exchange, process) else {
            exchange.abort();
            return None;
        };
        Some(Handler {
            exchange,
            id,
            request: world.plan.request(id),
            stage: Stage::Read,
            body: Vec::new(),
            written: 0,
            until: None,
            has_news: false,
        })
    }

    /// Goes on until it has to wait, or the request is over.
    fn advance(&mut self, world: &World, process: i32) {
        if self.until.is_some_and(|until| until > now()) && !self.exchange.is_client_gone() {
            return;
        }
        self.until = None;
        while self.stage != Stage::Over {
            let goes_on = match self.stage {
                Stage::Read => self.read(world),
                Stage::Head => self.head(world, process),
                Stage::Body => self.write(world),
                Stage::Over => Ok(false),
            };
            match goes_on {
                Ok(true) => {}
                Ok(false) => break,
                Err(()) => {
                    self.exchange.abort();
                    self.stage = Stage::Over;
                }
            }
        }
        if self.stage == Stage::Over {
            world.state().oracle.is_done(self.id, process);
        }
    }

    fn read(&mut self, world: &World) -> Result<bool, ()> {
        if self.request.act != Act::Echo {
            self.stage = Stage::Head;
            return Ok(true);
        }
        let mut part = vec![0; 20_000];
        match self.exchange.try_read_body(&mut part) {
            Ok(None) => Ok(false),
            Ok(Some(0)) => {
                assert!(
                    self.body == body_of(self.id, self.request.length) || world.plan.is_damaged(),
                    "the body of request {} arrived with {} bytes, {} were sent, or not these",
                    self.id,
                    self.body.len(),
                    self.request.length
                );
                self.stage = Stage::Head;
                Ok(true)
            }
            Ok(Some(count)) => {
                self.body.extend_from_slice(&part[..count]);
                Ok(true)
            }
            Err(_) => Err(()),
        }
    }

    fn head(&mut self, world: &World, process: i32) -> Result<bool, ()> {
        let act = self.request.act;
        match act {
            Act::Abort => return Err(()),
            Act::Die => die(world, process),
            Act::Hang if self.exchange.is_client_gone() => return Err(()),
            Act::Hang => return Ok(false),
            Act::Hint | Act::DieAtHead => {
                let _ = self.exchange.interim(103, [(&b"Link"[..], &b"</a>"[..])]);
            }
            _ => {}
        }
        let length = self.request.length.to_string();
        let field = (&b"Length"[..], length.as_bytes());
        if let Err(error) = self.exchange.start(200, [field]) {
            panic!("request {}: {error}", self.id);
        }
        if matches!(act, Act::Stream | Act::AbortLate | Act::DieLate) {
            world.state().oracle.publishes(self.id);
            self.exchange.flush();
        }
        match act {
            Act::AbortLate => return Err(()),
            Act::DieAtHead | Act::DieLate => die(world, process),
            _ => {}
        }
        if act != Act::Echo {
            self.body = body_of(self.id, self.request.length);
        }
        self.stage = Stage::Body;
        let pauses = matches!(act, Act::Ponder | Act::Hint | Act::Stream);
        let pause = self.request.pause.filter(|_| pauses);
        self.until = pause.map(|pause| now() + pause);
        Ok(self.until.is_none())
    }

    fn write(&mut self, world: &World) -> Result<bool, ()> {
        let rest = &self.body[self.written..];
        if rest.is_empty() {
            world.state().oracle.completes(self.id);
            self.exchange.finish();
            if self.request.is_ended_twice {
                self.exchange.end_again();
            }
            self.stage = Stage::Over;
            return Ok(true);
        }
        // The ring is announced when it is half full, or has no room.
        if self.body.len() > 10_000 {
            world.state().oracle.publishes(self.id);
        }
        let count = self.exchange.try_write(rest).map_err(|_| ())?;
        self.written += count;
        Ok(count > 0)
    }
}

/// Another has to kill the process: nothing of it runs any more.
pub(crate) fn die(world: &World, process: i32) -> ! {
    world.state().doomed.push(process);
    loop {
        nap(Duration::from_secs(3600));
    }
}
