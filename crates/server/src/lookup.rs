//! Answers from the cache, and the way of a request for which there is none: to wait for another's, or to its application or upstream with
//! a [`Recording`](tutti_cache::Recording) that keeps the answer.
//!
//! Must never: let a request wait longer for another's answer than `lock_timeout`, counted from when that one went out.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tutti_cache::{
    Asked, Flight, Found, Hit, Stored, Wanted, hit as told_hit, now, values, wanted,
};
use tutti_conn::output::{Gone, Output};
use tutti_files::range::ByteRange;
use tutti_http::edits::Edit;
use tutti_http::{FieldLines, Method};
use tutti_routing::RequestInfo as _;

use crate::action::answer::{Answer, Begun, Head};
use crate::action::{app, upstream};
use crate::channel::Channel;
use crate::client::Client;
use crate::early_hints;
use crate::instead;
use crate::plan::{Act, Changes, Plan};
use crate::request::Request;
use crate::respond::{Own, Page, Persistence};
use crate::slow_watch::watched;
use crate::step::{Call, Fetch, Step, UpstreamCall};
use tutti_conn::connections::NEVER;
use tutti_request_log::Answerer;

/// Responses that are read from disk at once, of all threads: each has a thread of its own meanwhile.
const MOST_READING: usize = 64;
static READING: Semaphore = Semaphore::const_new(MOST_READING);

/// Bytes of a stored body that are put into the output at once; a larger one goes out piece by piece, so that a slow client does not have
/// a copy of it in memory.
const PIECE_BYTES: usize = 64 * 1024;

/// Bytes of the fields that are worked out for each use, as a rule.
const OWN_BYTES: usize = 80;

/// Answers from the store what needs no waiting; else the request goes on.
pub(crate) fn look(
    request: &Request<'_>,
    asked: Box<Asked>,
    plan: Plan,
    output: &mut Output,
) -> Step {
    let found = asked.find(&request.view, &plan.changes.edits, true);
    let (Found::Fresh(stored) | Found::Stale(stored, _)) = &found else {
        return Step::Cached(Box::new(Fetch { asked, found, plan }));
    };
    if stored.body.len() > PIECE_BYTES {
        return Step::Cached(Box::new(Fetch { asked, found, plan }));
    }
    let stored = Arc::clone(stored);
    let step = match serve(request, &asked, &stored, Hit::There, &plan.changes, output) {
        Served::Whole(step) => step,
        // Its body is no larger than a piece.
        Served::Begun(_) => Step::End(Persistence::Close),
    };
    if let Found::Stale(stored, Some(lead)) = found {
        let found = Found::Lead(lead, Some(stored));
        renew(request, Fetch { asked, found, plan });
    }
    step
}

/// Gets a newer answer for those who come next, in a task of its own: the exchange has no client.
fn renew(request: &Request<'_>, fetch: Fetch) {
    let ends = request.client.another_end();
    let snapshot = ends.local.snapshot_of(&ends.listener);
    let exchange = request.exchange.for_itself(&ends.local, request.is_https());
    // The rules are numbers, which mean something else in another configuration.
    if std::ptr::eq(&raw const *snapshot, request.snapshot) {
        let rules = request.exchange.rules.borrow().clone();
        exchange.rules.replace(rules);
    }
    let (head, bytes) = request.view.copied();
    tokio::task::spawn_local(async move {
        let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let client = Client::new(Channel::Discard, ends, waker);
        let request = Request::new(&client, &exchange, &snapshot, head.view(&bytes));
        let mut output = Output::default();
        // The outcome is in the store, or in the log.
        let _ = run(&request, fetch, &mut output).await;
    });
}

/// Gets the answer to a request for which there was none to be used at once.
pub(crate) async fn run(
    request: &Request<'_>,
    fetch: Fetch,
    output: &mut Output,
) -> Result<Step, Gone> {
    let Fetch { asked, found, plan } = fetch;
    let (found, hit) = match found {
        Found::Wait(flight) => (
            wait(request, &asked, &flight, &plan.changes.edits, output).await?,
            Hit::Coalesced,
        ),
        found => (found, Hit::There),
    };
    let (found, hit) = match asked.is_on_disk(&found) {
        true => {
            let edits = &plan.changes.edits;
            (
                load(request, &asked, found, edits, output).await?,
                Hit::OnDisk,
            )
        }
        false => (found, hit),
    };
    let (lead, stale) = match found {
        Found::Fresh(stored) => {
            let served = serve(request, &asked, &stored, hit, &plan.changes, output);
            return finish(request, served, output).await;
        }
        Found::Stale(stored, lead) => {
            let served = serve(request, &asked, &stored, hit, &plan.changes, output);
            let step = finish(request, served, output).await?;
            if let Some(lead) = lead {
                let found = Found::Lead(lead, Some(stored));
                renew(request, Fetch { asked, found, plan });
            }
            return Ok(step);
        }
        Found::Lead(lead, stale) => (Some(lead), stale),
        Found::Wait(_) | Found::Past => (None, None),
    };
    let Plan {
        act, mut changes, ..
    } = plan;
    let recording = asked.recording(&request.view, lead, stale, &mut changes.edits);
    let recording = Rc::new(recording);
    changes.cache = Some(Rc::clone(&recording));
    let (step, mut changes) = send(request, act, changes, output).await;
    let instead = recording.state.borrow_mut().instead.take();
    changes.cache = None;
    match instead {
        Some((stored, hit)) => {
            let served = serve(request, &asked, &stored, hit, &changes, output);
            finish(request, served, output).await
        }
        None => {
            count(&asked.store.counts.misses);
            step
        }
    }
}

/// Sends the request to whoever answers it.
async fn send(
    request: &Request<'_>,
    act: Act,
    mut changes: Changes,
    output: &mut Output,
) -> (Result<Step, Gone>, Changes) {
    early_hints::send(request, std::mem::take(&mut changes.hints), output);
    match act {
        Act::Application {
            application,
            target,
        } => {
            let mut call = Call::new(application, target, changes);
            let step = {
                let answer = pin!(app::run(request, &mut call, None, output));
                watched(request, answer).await
            };
            (step, call.changes)
        }
        Act::Upstream(destination) => {
            let call = UpstreamCall {
                destination: *destination,
                changes,
                body: crate::collector::Collected::None,
            };
            let step = {
                let answer = pin!(upstream::run(request, &call, None, output));
                watched(request, answer).await
            };
            (step, call.changes)
        }
        // Only those two have a cache.
        _ => (Err(Gone::Closed), changes),
    }
}

/// Waits for another's answer, as long as it may take, and looks again.
async fn wait(
    request: &Request<'_>,
    asked: &Asked,
    flight: &Flight,
    edits: &[Edit],
    output: &mut Output,
) -> Result<Found, Gone> {
    // Earlier answers must not wait for this one.
    if !output.is_empty() {
        request.flush(output).await?;
    }
    let until = flight.begun() + asked.cache.options.lock_timeout;
    let landed = tokio::time::timeout_at(until.into(), flight.landed());
    request.client.set_deadline(NEVER);
    // The store is asked again, whether it has come or not.
    let _ = request.unless_gone(landed).await?;
    Ok(asked.find(&request.view, edits, false))
}

/// Reads what is on disk, on a thread that may wait for it; what is found then.
async fn load(
    request: &Request<'_>,
    asked: &Asked,
    found: Found,
    edits: &[Edit],
    output: &mut Output,
) -> Result<Found, Gone> {
    // Earlier answers must not wait for this one.
    if !output.is_empty() {
        request.flush(output).await?;
    }
    request.client.set_deadline(NEVER);
    let permit = READING.acquire();
    let permit = request.unless_gone(permit).await?;
    let (store, key) = (Arc::clone(&asked.store), asked.key.clone());
    let (head, bytes) = request.view.copied();
    let edits = edits.to_vec();
    let reading = tokio::task::spawn_blocking(move || {
        let view = head.view(&bytes);
        store.load(&key, &values(&view, &edits))
    });
    let loaded = request.unless_gone(reading).await?;
    drop(permit);
    Ok(asked.with_loaded(found, loaded.ok().flatten()))
}

/// Answers with a stored response.
fn serve(
    request: &Request<'_>,
    asked: &Asked,
    stored: &Arc<Stored>,
    hit: Hit,
    changes: &Changes,
    output: &mut Output,
) -> Served {
    let now = now();
    let counts = &asked.store.counts;
    request.exchange.answerer.set(Answerer::Cache);
    count(match hit {
        Hit::There | Hit::OnDisk if stored.freshness.remaining(now) > 0 => &counts.hits,
        Hit::There | Hit::OnDisk | Hit::Error(_) => &counts.stale,
        Hit::Coalesced => &counts.coalesced,
        Hit::Validated => &counts.revalidated,
    });
    let fields = stored.fields.iter();
    if let Some(instead) = instead::of_answer(request, stored.status, fields, changes) {
        return Served::Whole(instead.go_on(request, false, output));
    }
    let mut own = FieldLines::with_capacity(OWN_BYTES, 2);
    own.push_number(b"Age", stored.age_seconds(now));
    if asked.cache.options.status_field {
        told_hit(&mut own, stored, hit, now);
    }
    let serving = Serving {
        request,
        stored,
        own,
        changes,
    };
    serving.answer(output)
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// How far an answer is.
enum Served {
    /// All of it is in the output.
    Whole(Step),
    /// Its head is.
    Begun(Box<StoredTail>),
}

/// An answer whose head is in the output.
struct StoredTail {
    answer: Answer,
    body: Bytes,
    /// Bytes of the body that have been put into the output.
    position: usize,
}

/// An answer from the store.
struct Serving<'s> {
    request: &'s Request<'s>,
    stored: &'s Stored,
    /// Fields that are worked out for each use.
    own: FieldLines,
    changes: &'s Changes,
}

impl Serving<'_> {
    fn answer(self, output: &mut Output) -> Served {
        let is_get = self.request.view.method() == Method::Get;
        match wanted(self.stored, &self.request.conditions(), is_get) {
            Wanted::Whole => self.whole(output),
            Wanted::Nothing => self.not_modified(output),
            Wanted::Part(part) => self.part(part, output),
            Wanted::Unsatisfiable => self.unsatisfiable(output),
        }
    }

    fn whole(&self, output: &mut Output) -> Served {
        let body = self.stored.body.clone();
        self.send(self.stored.status, None, body, output)
    }

    fn part(&self, part: ByteRange, output: &mut Output) -> Served {
        let whole = self.stored.body.len();
        let last = part.end.saturating_sub(1);
        let range = format!("bytes {}-{last}/{whole}", part.start);
        // Both are below the length, which is in memory.
        let body = self
            .stored
            .body
            .slice(part.start as usize..part.end as usize);
        let field = FieldLines::of("Content-Range", range.as_bytes());
        self.send(206, Some(field), body, output)
    }

    fn unsatisfiable(&self, output: &mut Output) -> Served {
        let range = format!("bytes */{}", self.stored.body.len());
        let mut fields = FieldLines::of("Content-Range", range.as_bytes());
        fields.append(&self.own);
        let persistence = self.request.persistence();
        let page = Page {
            status: 416,
            is_head: false,
            persistence,
            fields: &fields,
        };
        self.request.page(&page, self.changes, output);
        Served::Whole(Step::End(persistence))
    }

    fn not_modified(&self, output: &mut Output) -> Served {
        self.send(304, None, Bytes::new(), output)
    }

    /// Sends a head and the bytes behind it, as far as that goes at once.
    fn send(
        &self,
        status: u16,
        more: Option<FieldLines>,
        body: Bytes,
        output: &mut Output,
    ) -> Served {
        let more = more.unwrap_or_default();
        let is_content = |name: &[u8]| {
            let start = name.get(..8).unwrap_or_default();
            start.eq_ignore_ascii_case(b"content-")
                && !name.eq_ignore_ascii_case(b"content-location")
        };
        let fields = self.stored.fields.iter();
        // A 304 does not tell again what the client has (RFC 9110 §15.4.5).
        let fields = fields.filter(|(name, _)| status != 304 || !is_content(name));
        let fields = fields.chain(more.iter()).chain(self.own.iter());
        let head = Head {
            status,
            length: (status != 304).then_some(body.len() as u64),
            own: Own {
                server: self.stored.field("Server").is_none(),
                date: false,
            },
            may_persist: true,
        };
        let begun = Begun::new(self.request, &head, fields, self.changes, output);
        let answer = match Answer::new(begun) {
            Ok(answer) => answer,
            Err(error) => return self.not_compressed(&error, output),
        };
        let tail = StoredTail {
            answer,
            body,
            position: 0,
        };
        if tail.body.len() > PIECE_BYTES {
            return Served::Begun(Box::new(tail));
        }
        match whole(tail, self.request, output) {
            Ok(step) => Served::Whole(step),
            Err(error) => self.not_compressed(&error, output),
        }
    }

    fn not_compressed(&self, error: &std::io::Error, output: &mut Output) -> Served {
        let message = format!("cannot compress an answer: {error}");
        let local = &self.request.client.local;
        local.complain(tutti_pool::Level::Error, &message);
        output.discard();
        Served::Whole(Step::End(Persistence::Close))
    }
}

/// Sends the rest of an answer that is too large to be sent at once.
async fn finish(request: &Request<'_>, served: Served, output: &mut Output) -> Result<Step, Gone> {
    let mut tail = match served {
        Served::Whole(step) => return Ok(step),
        Served::Begun(tail) => *tail,
    };
    let failed = |error: std::io::Error| {
        let message = format!("cannot compress an answer: {error}");
        let local = &request.client.local;
        local.complain(tutti_pool::Level::Error, &message);
        Gone::Closed
    };
    loop {
        tail.send_directly(request, output)?;
        tail.piece(output).map_err(failed)?;
        if tail.is_sent() {
            return tail.end(request, output).map_err(failed);
        }
        let flushed = request.flush(output).await;
        if let Err(gone) = flushed {
            tail.answer.log(request);
            return Err(gone);
        }
        // Others get a turn, however fast this client is.
        tokio::task::yield_now().await;
    }
}

/// Puts all of an answer into the output.
fn whole(
    mut tail: StoredTail,
    request: &Request<'_>,
    output: &mut Output,
) -> std::io::Result<Step> {
    tail.piece(output)?;
    tail.end(request, output)
}

impl StoredTail {
    /// Sends what can go out without a copy.
    fn send_directly(&mut self, request: &Request<'_>, output: &mut Output) -> Result<(), Gone> {
        if !self.answer.is_plain() {
            return Ok(());
        }
        let rest = self.body.get(self.position..).unwrap_or_default();
        let sent = request.client.channel.send_directly(output, rest);
        let sent = sent.inspect_err(|_| self.answer.log(request))?;
        self.position += sent;
        self.answer.note_sent(sent);
        Ok(())
    }

    /// Puts the next piece into the output.
    fn piece(&mut self, output: &mut Output) -> std::io::Result<()> {
        let end = self.body.len().min(self.position + PIECE_BYTES);
        let piece = self.body.get(self.position..end).unwrap_or_default();
        self.position = end;
        self.answer.write(std::iter::once(piece), output)
    }

    fn is_sent(&self) -> bool {
        self.position >= self.body.len()
    }

    fn end(mut self, request: &Request<'_>, output: &mut Output) -> std::io::Result<Step> {
        self.answer
            .finish(request, tutti_http::Trailers::default(), output)?;
        let persistence = self.answer.begun.persistence;
        let late = self.answer.end(request, output);
        Ok(late.map_or(Step::End(persistence), Step::Late))
    }
}
