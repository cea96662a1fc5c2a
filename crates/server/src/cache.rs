//! The cache stage before an action: answers from the cache, waits for the response to another request, or has the action's response
//! recorded by a [`Recording`](tutti_cache::Recording).
//!
//! Must never: let a request wait longer for another's response than `lock_timeout`, counted from when that other request was sent.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tutti_cache::{
    CacheLookup, Flight, Hit, Lead, RequestedPart, Stored, hit as add_hit, now, values, wanted,
};
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_files::range::ByteRange;
use tutti_http::edits::Edit;
use tutti_http::{FieldLines, Method};
use tutti_request_log::Answerer;
use tutti_routing::RequestInfo as _;

use crate::action;
use crate::exchange::channel::Channel;
use crate::exchange::client::ClientSide;
use crate::exchange::collector::{ActionBody, Collected};
use crate::exchange::request::Request;
use crate::exchange::respond::{Own, Persistence};
use crate::exchange_step::{ExchangeStep, Fetch};
use crate::internal_redirect::{self, ErrorResponse};
use crate::plan::{Changes, Plan};
use crate::replace;
use crate::writer::{Head, Response, Writer};

/// Responses read from disk at once, by all threads: each occupies a thread.
const MOST_READING: usize = 64;
static READING: Semaphore = Semaphore::const_new(MOST_READING);

/// The usual size of the fields that are computed for each use.
const OWN_BYTES: usize = 80;

/// Answers from the store if that needs no waiting; called for plans with a cache.
pub(crate) fn look(request: &Request<'_>, plan: Plan, output: &mut Output) -> ExchangeStep {
    let Some(asked) = &plan.asked else {
        return ExchangeStep::Action(Box::new(plan), Collected::None);
    };
    let found = asked.find(&request.view, &plan.changes.edits);
    let (tutti_cache::Found::Fresh(stored) | tutti_cache::Found::Stale(stored, _)) = &found else {
        return ExchangeStep::Cache(Box::new(Fetch { found, plan }));
    };
    request.exchange.cache_status.set(status(&found));
    let step = serve(request, asked, stored, Hit::There, &plan.changes, output);
    if let tutti_cache::Found::Stale(stored, Some(lead)) = found {
        renew(request, plan, lead, stored);
    }
    step
}

/// The value of `$cache_status`, in nginx's words.
fn status(found: &tutti_cache::Found) -> &'static str {
    match found {
        tutti_cache::Found::Fresh(_) => "HIT",
        tutti_cache::Found::Stale(_, Some(_)) => "STALE",
        tutti_cache::Found::Stale(_, None) => "UPDATING",
        tutti_cache::Found::Lead(_, Some(_)) => "EXPIRED",
        tutti_cache::Found::Lead(_, None)
        | tutti_cache::Found::Wait(_)
        | tutti_cache::Found::Past => "MISS",
    }
}

/// Fetches a newer response for later requests, in a separate task: the exchange has no client.
fn renew(request: &Request<'_>, mut plan: Plan, lead: Lead, stored: Arc<Stored>) {
    let ends = request.client.another_end();
    let snapshot = ends.local.snapshot_of(&ends.listener);
    let exchange = request
        .exchange
        .for_refresh(&ends.local, request.is_https());
    // The rules are numbers, which are different in another configuration.
    if std::ptr::eq(&raw const *snapshot, request.snapshot) {
        let rules = request.exchange.rules.borrow().clone();
        exchange.rules.replace(rules);
    }
    let (head, bytes) = request.view.copied();
    tokio::task::spawn_local(async move {
        let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let client = ClientSide::new(Channel::Discard, ends, waker);
        let request = Request::new(&client, &exchange, &snapshot, head.view(&bytes));
        let mut output = Output::default();
        record(&request, &mut plan, Some(lead), Some(stored));
        let body = ActionBody::Collected(Collected::None);
        let outcome = action::run(&request, &plan, body, &mut output).await;
        // The result is in the store, or in the log.
        let _ = settle(&request, &mut plan, outcome, &mut output);
    });
}

/// Has the response to the request recorded.
fn record(request: &Request<'_>, plan: &mut Plan, lead: Option<Lead>, stale: Option<Arc<Stored>>) {
    if let Some(asked) = &plan.asked {
        let recording = asked.recording(&request.view, lead, stale, &mut plan.changes.edits);
        plan.changes.cache = Some(Rc::new(recording));
    }
}

/// The result of waiting for the cache.
pub(crate) enum Found {
    /// It has answered.
    Answer(ExchangeStep),
    /// The action must answer, and its response is recorded.
    Miss(Box<Plan>),
}

/// Answers a request for which no response was usable at once.
pub(crate) async fn wait(
    request: &Request<'_>,
    fetch: Fetch,
    output: &mut Output,
) -> Result<Found, Gone> {
    let Fetch { found, mut plan } = fetch;
    let Some(asked) = &plan.asked else {
        return Ok(Found::Miss(Box::new(plan)));
    };
    let edits = &plan.changes.edits;
    let (found, hit) = match found {
        tutti_cache::Found::Wait(flight) => {
            let found = landed(request, asked, &flight, edits, output).await?;
            (found, Hit::Coalesced)
        }
        found => (found, Hit::There),
    };
    let (found, hit) = match asked.is_on_disk(&found) {
        true => (
            load(request, asked, found, edits, output).await?,
            Hit::OnDisk,
        ),
        false => (found, hit),
    };
    request.exchange.cache_status.set(status(&found));
    let (lead, stale) = match found {
        tutti_cache::Found::Fresh(stored) => {
            let step = serve(request, asked, &stored, hit, &plan.changes, output);
            return Ok(Found::Answer(step));
        }
        tutti_cache::Found::Stale(stored, lead) => {
            let step = serve(request, asked, &stored, hit, &plan.changes, output);
            if let Some(lead) = lead {
                renew(request, plan, lead, stored);
            }
            return Ok(Found::Answer(step));
        }
        tutti_cache::Found::Lead(lead, stale) => (Some(lead), stale),
        tutti_cache::Found::Wait(_) | tutti_cache::Found::Past => (None, None),
    };
    record(request, &mut plan, lead, stale);
    Ok(Found::Miss(Box::new(plan)))
}

/// Called when the action of a recorded request has ended: a stored response may replace its result.
pub(crate) fn settle(
    request: &Request<'_>,
    plan: &mut Plan,
    outcome: Result<ExchangeStep, Gone>,
    output: &mut Output,
) -> Result<ExchangeStep, Gone> {
    let (Some(asked), Some(recording)) = (&plan.asked, plan.changes.cache.take()) else {
        return outcome;
    };
    let instead = recording.state.borrow_mut().instead.take();
    match instead {
        Some((stored, hit)) => {
            request.exchange.cache_status.set(match hit {
                Hit::Validated => "REVALIDATED",
                Hit::Error(_) => "STALE",
                Hit::There | Hit::OnDisk | Hit::Coalesced => "HIT",
            });
            Ok(serve(request, asked, &stored, hit, &plan.changes, output))
        }
        None => {
            count(&asked.store.counts.misses);
            outcome
        }
    }
}

/// Waits for another request's fetch, within its timeout, and looks the response up again.
async fn landed(
    request: &Request<'_>,
    asked: &CacheLookup,
    flight: &Flight,
    edits: &[Edit],
    output: &mut Output,
) -> Result<tutti_cache::Found, Gone> {
    // Earlier responses must not wait for this one.
    if !output.is_empty() {
        request.flush(output).await?;
    }
    let until = flight.begun() + asked.cache.options.lock_timeout;
    let landed = tokio::time::timeout_at(until.into(), flight.landed());
    request.client.set_deadline(NEVER);
    // The store is asked again, whether or not the response has arrived.
    let _ = request.unless_gone(landed).await?;
    Ok(asked.find_after_wait(&request.view, edits))
}

/// Reads a response from disk, on a thread that may block; returns what was found.
async fn load(
    request: &Request<'_>,
    asked: &CacheLookup,
    found: tutti_cache::Found,
    edits: &[Edit],
    output: &mut Output,
) -> Result<tutti_cache::Found, Gone> {
    // Earlier responses must not wait for this one.
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
    asked: &CacheLookup,
    stored: &Arc<Stored>,
    hit: Hit,
    changes: &Changes,
    output: &mut Output,
) -> ExchangeStep {
    let now = now();
    let counts = &asked.store.counts;
    request.exchange.answerer.set(Answerer::Cache);
    count(match hit {
        Hit::There | Hit::OnDisk if stored.freshness.remaining(now) > 0 => &counts.hits,
        Hit::There | Hit::OnDisk | Hit::Error(_) => &counts.stale,
        Hit::Coalesced => &counts.coalesced,
        Hit::Validated => &counts.revalidated,
    });
    // Before a part of the stored body is selected: the requested range refers to the stored response.
    let fields = stored.fields.iter();
    if let Some(instead) = internal_redirect::of_answer(request, stored.status, fields, changes) {
        return instead.into_step(request, false, output);
    }
    let mut own = FieldLines::with_capacity(OWN_BYTES, 2);
    own.push_number(b"Age", stored.age_seconds(now));
    if asked.cache.options.status_field {
        add_hit(&mut own, stored, hit, now);
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

/// A response from the store.
struct Serving<'s> {
    request: &'s Request<'s>,
    stored: &'s Stored,
    /// Fields that are computed for each use.
    own: FieldLines,
    changes: &'s Changes,
}

impl Serving<'_> {
    fn answer(self, output: &mut Output) -> ExchangeStep {
        let content_type = self.stored.field("Content-Type");
        let is_replaced = replace::applies_to(self.request, content_type);
        let is_get = self.request.view.method() == Method::Get && !is_replaced;
        match wanted(self.stored, &self.request.conditions(), is_get) {
            RequestedPart::Whole => self.whole(output),
            RequestedPart::Nothing => self.not_modified(output),
            RequestedPart::Part(part) => self.part(part, output),
            RequestedPart::Unsatisfiable => self.unsatisfiable(output),
        }
    }

    fn whole(&self, output: &mut Output) -> ExchangeStep {
        let body = self.stored.body.clone();
        self.send(self.stored.status, None, body, output)
    }

    fn part(&self, part: ByteRange, output: &mut Output) -> ExchangeStep {
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

    fn unsatisfiable(&self, output: &mut Output) -> ExchangeStep {
        let range = format!("bytes */{}", self.stored.body.len());
        let mut fields = FieldLines::of("Content-Range", range.as_bytes());
        fields.append(&self.own);
        let answer = ErrorResponse::of(416, &fields);
        internal_redirect::page(self.request, &answer, self.changes, output)
    }

    fn not_modified(&self, output: &mut Output) -> ExchangeStep {
        self.send(304, None, Bytes::new(), output)
    }

    /// Sends a head and its body, as far as possible at once.
    fn send(
        &self,
        status: u16,
        more: Option<FieldLines>,
        body: Bytes,
        output: &mut Output,
    ) -> ExchangeStep {
        let more = more.unwrap_or_default();
        let is_content = |name: &[u8]| {
            let start = name.get(..8).unwrap_or_default();
            start.eq_ignore_ascii_case(b"content-")
                && !name.eq_ignore_ascii_case(b"content-location")
        };
        let fields = self.stored.fields.iter();
        // A 304 does not repeat what the client has (RFC 9110 §15.4.5).
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
            may_have_trailers: false,
        };
        let writer = Writer::begin(self.request, &head, fields, self.changes, output);
        match Response::stored(writer, body, self.request, output) {
            Ok(sent) => sent.into(),
            // Nothing of it has been sent.
            Err(_) => {
                output.discard();
                ExchangeStep::End(Persistence::Close)
            }
        }
    }
}
