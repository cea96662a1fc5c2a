//! The application: what a worker does with its requests, by the production code of the worker's side.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tutti_simulated::nap;
use tutti_wire::worker::{ClientGone, Exchange, UnstartedWorker};

use crate::event_loop::{self, die};
use crate::plan::{Act, Request, body_of};
use crate::world::World;

/// The next step of a worker after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Serve,
    End,
}

/// A worker from its start to its end. `ready` reports that it is ready for requests.
pub(crate) fn run(
    world: &Arc<World>,
    process: i32,
    unstarted: UnstartedWorker,
    ready: impl FnOnce(),
) {
    let mut worker = unstarted.into_worker();
    worker.set_spin(0, world.plan.spin);
    if let Some(concurrency) = world.plan.event_loop {
        return event_loop::run(world, process, worker, concurrency, ready);
    }
    worker.ready();
    ready();
    while let Some(mut exchange) = worker.next_request() {
        let Some(id) = world.begins(&exchange, process) else {
            exchange.abort();
            continue;
        };
        let request = world.plan.request(id);
        let mut service = Service {
            world,
            process,
            id,
            request,
        };
        let next = service.serve(&mut exchange);
        if exchange.is_ended() && next == Next::Serve {
            world.state().oracle.is_done(id, process);
        }
        if next == Next::End {
            break;
        }
    }
    worker.retire();
}

struct Service<'a> {
    world: &'a Arc<World>,
    process: i32,
    id: u64,
    request: Request,
}

impl Service<'_> {
    fn serve(&mut self, exchange: &mut Exchange) -> Next {
        let may_leave =
            self.request.act == Act::Leave && self.world.state().oracle.may_leave(self.id);
        if may_leave && exchange.leave_to_others() {
            self.world.state().oracle.leaves(self.id, self.process);
            return Next::End;
        }
        match self.answer(exchange) {
            Ok(()) => self.finish(exchange),
            Err(ClientGone) => exchange.abort(),
        }
        Next::Serve
    }

    fn answer(&mut self, exchange: &mut Exchange) -> Result<(), ClientGone> {
        match self.request.act {
            Act::Answer | Act::Leave => {
                self.start(exchange);
                self.write(exchange, &body_of(self.id, self.request.length))?;
            }
            Act::Ponder | Act::Hint => {
                if self.request.act == Act::Hint {
                    let _ = exchange.interim(103, [(&b"Link"[..], &b"</a>"[..])]);
                }
                self.start(exchange);
                self.pause();
                self.write(exchange, &body_of(self.id, self.request.length))?;
                self.pause();
            }
            Act::Stream => {
                self.start(exchange);
                self.flush(exchange);
                let body = body_of(self.id, self.request.length);
                for part in body.chunks(self.request.length.div_ceil(3).max(1)) {
                    self.pause();
                    self.write(exchange, part)?;
                    self.flush(exchange);
                }
            }
            Act::Echo => self.echo(exchange)?,
            Act::Abort => {
                self.pause();
                return Err(ClientGone);
            }
            Act::AbortLate => {
                self.start(exchange);
                self.flush(exchange);
                self.pause();
                return Err(ClientGone);
            }
            Act::Die => die(self.world, self.process),
            Act::DieAtHead => {
                let _ = exchange.interim(103, [(&b"Link"[..], &b"</a>"[..])]);
                self.start(exchange);
                self.pause();
                die(self.world, self.process);
            }
            Act::DieLate => {
                self.start(exchange);
                self.flush(exchange);
                self.pause();
                die(self.world, self.process);
            }
            Act::Hang => loop {
                nap(Duration::from_secs(3600));
            },
        }
        Ok(())
    }

    fn echo(&mut self, exchange: &mut Exchange) -> Result<(), ClientGone> {
        let mut body = Vec::new();
        let mut part = vec![0; 20_000];
        loop {
            match exchange.body_read(&mut part) {
                Ok(0) => break,
                Ok(count) => body.extend_from_slice(&part[..count]),
                Err(error) => {
                    assert!(
                        error.kind() == io::ErrorKind::ConnectionAborted
                            || self.world.plan.is_damaged(),
                        "the body of request {} cannot be read: {error}",
                        self.id
                    );
                    return Err(ClientGone);
                }
            }
            self.pause();
        }
        assert!(
            body == body_of(self.id, self.request.length) || self.world.plan.is_damaged(),
            "the body of request {} arrived with {} bytes, {} were sent, or not these",
            self.id,
            body.len(),
            self.request.length
        );
        self.start(exchange);
        self.write(exchange, &body)
    }

    fn pause(&self) {
        if let Some(pause) = self.request.pause {
            nap(pause);
        }
    }

    fn start(&self, exchange: &Exchange) {
        let length = self.request.length.to_string();
        let field = (&b"Length"[..], length.as_bytes());
        if let Err(error) = exchange.start(200, [field]) {
            panic!("request {}: {error}", self.id);
        }
    }

    fn write(&self, exchange: &Exchange, bytes: &[u8]) -> Result<(), ClientGone> {
        // The ring is announced when it is half full.
        if bytes.len() > 10_000 {
            self.world.state().oracle.publishes(self.id);
        }
        exchange.write(bytes)
    }

    fn flush(&self, exchange: &Exchange) {
        self.world.state().oracle.publishes(self.id);
        exchange.flush();
    }

    fn finish(&self, exchange: &mut Exchange) {
        self.world.state().oracle.completes(self.id);
        exchange.finish();
        if self.request.is_ended_twice {
            exchange.end_again();
        }
    }
}
