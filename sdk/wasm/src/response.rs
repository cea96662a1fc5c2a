//! One exchange: an instance handles it, and its answer goes out while the body comes in.
//!
//! The instance, the answer and the body share one task, and are looked at each time that it is woken. What must never happen: an
//! answer that an instance's end has cut short and that looks whole.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::Body as _;
use tokio::sync::oneshot;
use tutti_event_loop::listen;
use tutti_worker::log::{title, unless_too_large};
use tutti_worker::{ClientGone, Exchange, Level};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use crate::body::feed;
use crate::clock::{Measured, Meter};
use crate::fault::{self, Stopped};
use crate::guest::{Guest, GuestResponse, Maker, Order};
use crate::instance::Instances;
use crate::log;

/// The end of the client's part of an exchange.
enum Ended {
    /// It has the answer.
    Whole,
    /// It gets none, or not all of it.
    Failed,
    /// It has gone, or knows that the request took too long.
    Gone,
}

/// Serves one request to its end, that of the instance.
pub(crate) async fn serve<M: Maker>(instances: Rc<Instances<M>>, mut exchange: Exchange) {
    let Some(_room) = instances.room().await else {
        return exchange.abort();
    };
    let title: Arc<str> = title(&exchange).into();
    let (request, place) = match M::Guest::request(&exchange) {
        Ok(built) => built,
        Err(problem) => {
            let noun = M::Guest::NOUN;
            let message = format!("{title}: the {noun} cannot be given the request: {problem}");
            log::write(Level::Error, &message);
            return fail(&mut exchange, 400);
        }
    };
    let (send, answer) = oneshot::channel();
    let meter = instances.meter();
    let order = Order {
        title: Arc::clone(&title),
        request,
        answer: send,
        meter: Arc::clone(&meter),
    };
    let handling = Measured::new(Arc::clone(&meter), Rc::clone(&instances).handle(order));
    let mut work = Work {
        title,
        handling: Some(handling),
        instance: None,
        has_failed: false,
    };
    let ended = {
        let mut feed = pin!(feed(&exchange, place));
        let mut reply = Reply {
            exchange: &exchange,
            title: Arc::clone(&work.title),
            state: State::Awaited(answer),
            is_unsent: false,
            awaits_body: false,
        };
        poll_fn(|context| {
            let is_done = work.poll(context).is_ready();
            if work.has_failed {
                return Poll::Ready(Ended::Failed);
            }
            if let Poll::Ready(ended) = reply.poll(context, is_done, &mut work) {
                return Poll::Ready(ended);
            }
            let Poll::Pending = feed.as_mut().poll(context);
            gone(&exchange, context)
        })
        .await
    };
    match ended {
        Ended::Whole => exchange.finish(),
        Ended::Failed => fail(&mut exchange, 500),
        Ended::Gone => exchange.abort(),
    }
    drop(exchange);
    // A full worker takes requests again.
    tutti_event_loop::wake_taker();
    if matches!(ended, Ended::Gone)
        && let Some(reason) = abandon(&instances, &mut work).await
        && !work.is_to_stop(&meter, reason)
    {
        return;
    }
    poll_fn(|context| work.poll(context)).await;
    if let Some(instance) = work.instance {
        instances.rest(instance);
    }
}

/// Answers with `status`, or breaks off what has begun.
fn fail(exchange: &mut Exchange, status: u16) {
    if exchange.is_started() || exchange.start(status, []).is_err() {
        exchange.abort();
    } else {
        exchange.finish();
    }
}

/// Ready when the client has gone, or knows that it took too long.
fn gone(exchange: &Exchange, context: &mut Context<'_>) -> Poll<Ended> {
    listen(exchange.slot(), context.waker());
    match exchange.is_client_gone() {
        true => Poll::Ready(Ended::Gone),
        false => Poll::Pending,
    }
}

/// The time that an instance has to finish what it is at when its client has gone.
const TO_FINISH: Duration = Duration::from_secs(5);

/// Lets an instance go on whose client has gone: the reason to stop it, if it has not come back by then. There is no time when it is the server
/// that has given the request up.
async fn abandon<M, F>(instances: &Instances<M>, work: &mut Work<F, M::Guest>) -> Option<Stopped>
where
    M: Maker,
    F: Future<Output = wasmtime::Result<Option<M::Guest>>>,
{
    let mut late = pin!(instances.late(Instant::now()));
    let mut over = pin!(tokio::time::sleep(TO_FINISH));
    poll_fn(|context| {
        if work.poll(context).is_ready() {
            return Poll::Ready(None);
        }
        if late.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Stopped::Late));
        }
        let over = over.as_mut().poll(context);
        over.map(|()| Some(Stopped::Abandoned(TO_FINISH)))
    })
    .await
}

/// An instance at a request.
struct Work<F, G> {
    title: Arc<str>,
    /// `None`: it has come back.
    handling: Option<Measured<F>>,
    /// The instance that came back and may serve another request.
    instance: Option<G>,
    has_failed: bool,
}

impl<G: Guest, F: Future<Output = wasmtime::Result<Option<G>>>> Work<F, G> {
    /// Ready when the instance has come back; the end is logged if the instance did not end by itself.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(handling) = &mut self.handling else {
            return Poll::Ready(());
        };
        let Poll::Ready(outcome) = Pin::new(handling).poll(context) else {
            return Poll::Pending;
        };
        self.handling = None;
        match outcome {
            Ok(instance) => self.instance = instance,
            Err(error) => {
                self.has_failed = true;
                let (noun, told) = (G::NOUN, fault::describe(&error));
                let message = format!("{}: the {noun} failed: {told}", self.title);
                log::write(Level::Error, &message);
            }
        }
        Poll::Ready(())
    }

    /// Called when no client waits any more. True if the instance computes, and has to report where; one that waits ends here.
    fn is_to_stop(&self, meter: &Meter, reason: Stopped) -> bool {
        if self.handling.is_none() {
            return false;
        }
        let computes = meter.is_computing();
        if computes {
            meter.stop(reason);
        } else {
            let message = format!("{}: {}", self.title, reason.while_waiting(G::NOUN));
            log::write(Level::Error, &message);
        }
        computes
    }
}

/// The answer on its way.
struct Reply<'e> {
    exchange: &'e Exchange,
    title: Arc<str>,
    state: State,
    /// Some of what was written has not been announced to the router.
    is_unsent: bool,
    /// There is nothing to send until the instance gives more; else it is the client that is waited for.
    awaits_body: bool,
}

enum State {
    Awaited(oneshot::Receiver<GuestResponse>),
    Body(HyperOutgoingBody, Bytes),
}

impl Reply<'_> {
    /// Sends what there is. `is_done`: the instance has come back, and nothing more will come of it.
    fn poll<F, G: Guest>(
        &mut self,
        context: &mut Context<'_>,
        is_done: bool,
        work: &mut Work<F, G>,
    ) -> Poll<Ended> {
        if let State::Awaited(answer) = &mut self.state {
            match Pin::new(answer).poll(context) {
                Poll::Pending if !is_done => return Poll::Pending,
                Poll::Ready(Ok(Ok(response))) => {
                    if let Err(ended) = self.begin(response, G::NOUN) {
                        return Poll::Ready(ended);
                    }
                }
                Poll::Ready(Ok(Err(code))) => {
                    return Poll::Ready(
                        self.failed(&format!("the {} answered with the error {code:?}", G::NOUN)),
                    );
                }
                Poll::Ready(Err(_)) | Poll::Pending if self.exchange.is_client_gone() => {
                    return Poll::Ready(Ended::Gone);
                }
                Poll::Ready(Err(_)) | Poll::Pending => {
                    return Poll::Ready(
                        self.failed(&format!("the {} came back without an answer", G::NOUN)),
                    );
                }
            }
        }
        match self.poll_body(context, G::NOUN) {
            Poll::Pending => {
                if is_done && self.awaits_body {
                    // An instance that is kept may have its body open: no more comes, and dropping it ends the body.
                    work.instance = None;
                }
                Poll::Pending
            }
            ready => ready,
        }
    }

    fn failed(&self, problem: &str) -> Ended {
        log::write(Level::Error, &format!("{}: {problem}", self.title));
        Ended::Failed
    }

    /// Sends the head.
    fn begin(
        &mut self,
        response: hyper::Response<HyperOutgoingBody>,
        noun: &str,
    ) -> Result<(), Ended> {
        let (head, body) = response.into_parts();
        let fields: Vec<_> = head
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
            .collect();
        if let Err(error) = self.exchange.start(head.status.as_u16(), fields) {
            return Err(self.failed(&format!("the {noun}'s answer cannot be sent: {error}")));
        }
        self.is_unsent = true;
        self.state = State::Body(body, Bytes::new());
        Ok(())
    }

    fn poll_body(&mut self, context: &mut Context<'_>, noun: &str) -> Poll<Ended> {
        let State::Body(body, rest) = &mut self.state else {
            return Poll::Pending;
        };
        self.awaits_body = false;
        loop {
            while !rest.is_empty() {
                match self.exchange.try_write(rest) {
                    Ok(0) => return Poll::Pending,
                    Ok(count) => {
                        let _ = rest.split_to(count);
                        self.is_unsent = true;
                    }
                    Err(ClientGone) => return Poll::Ready(Ended::Gone),
                }
            }
            match Pin::new(&mut *body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => *rest = data,
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        let fields: Vec<_> = trailers
                            .iter()
                            .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
                            .collect();
                        let sent = self.exchange.trailers(fields);
                        if let Err(error) = unless_too_large(self.exchange, sent) {
                            let problem =
                                format!("the {noun}'s trailer fields are not sent: {error}");
                            log::write(Level::Error, &format!("{}: {problem}", self.title));
                        }
                    }
                },
                Poll::Ready(Some(Err(error))) => {
                    let problem = format!(
                        "the body of the {noun}'s answer is not what its head says: {error}"
                    );
                    log::write(Level::Error, &format!("{}: {problem}", self.title));
                    return Poll::Ready(Ended::Failed);
                }
                Poll::Ready(None) => return Poll::Ready(Ended::Whole),
                Poll::Pending => {
                    self.awaits_body = true;
                    if std::mem::take(&mut self.is_unsent) {
                        self.exchange.flush();
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}
