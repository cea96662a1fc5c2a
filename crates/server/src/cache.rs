//! The cache stage before an action: answers from the cache, waits for the response to another request, or has the action's response
//! recorded by a [`Recording`](tutti_cache::Recording).
//!
//! Must never: let a request wait longer for another's response than `lock_timeout`, counted from when that other request was sent.

use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

use tokio::sync::Semaphore;
use tutti_cache::{
    CacheLookup, Flight, Hit, Lead, Recording, RequestedPart, Stored, hit as add_hit, now, values,
    wanted,
};
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_files::range;
use tutti_http::edits::Edit;
use tutti_http::{FieldLines, Method, RequestHead};
use tutti_request_log::Answerer;
use tutti_routing::RequestInfo as _;

use crate::action;
use crate::content_coding;
use crate::exchange::Exchange;
use crate::exchange::channel::Channel;
use crate::exchange::client::{ClientSide, Ends};
use crate::exchange::collector::{ActionBody, Collected};
use crate::exchange::request::Request;
use crate::exchange::respond::Own;
use crate::exchange_step::{ExchangeStep, Fetch};
use crate::gunzip;
use crate::internal_redirect::{self, ErrorResponse};
use crate::plan::{Changes, Plan};
use crate::replace;
use crate::snapshot::Snapshot;
use crate::writer::{Head, Response, Writer};

/// Responses read from disk at once, by all threads: each occupies a thread.
const MOST_READING: usize = 64;
static READING: Semaphore = Semaphore::const_new(MOST_READING);

/// The usual size of the fields that are computed for each use.
const OWN_BYTES: usize = 80;

/// Answers from the store if that needs no waiting; called for plans with a cache.
pub(crate) fn look(request: &Request<'_>, plan: Plan, output: &mut Output) -> ExchangeStep {
    let asked = plan.asked.as_ref();
    let slices = asked.is_some_and(|asked| asked.cache.options.slice.is_some());
    if slices && request.view.method() == Method::Get {
        return ExchangeStep::Slices(Box::new(plan));
    }
    look_whole(request, plan, output)
}

/// The same for a response that is not stored in slices.
pub(crate) fn look_whole(request: &Request<'_>, plan: Plan, output: &mut Output) -> ExchangeStep {
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
pub(crate) fn status(found: &tutti_cache::Found) -> &'static str {
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

/// Fetches a newer response for later requests, in a separate task.
fn renew(request: &Request<'_>, mut plan: Plan, lead: Lead, stored: Arc<Stored>) {
    let fetch = OwnFetch::of(request);
    tokio::task::spawn_local(async move {
        fetch.run(&mut plan, Some(lead), Some(stored)).await;
    });
}

/// A request of the server itself, like that of a client, for a response that is recorded.
pub(crate) struct OwnFetch {
    ends: Rc<Ends>,
    exchange: Exchange,
    snapshot: Arc<Snapshot>,
    /// The number of the listener there.
    listener: Option<usize>,
    head: RequestHead,
    bytes: Vec<u8>,
}

impl OwnFetch {
    pub(crate) fn of(request: &Request<'_>) -> Self {
        let ends = request.client.another_end();
        let (snapshot, listener) = ends.local.snapshot_at(&ends.listener);
        let exchange = request
            .exchange
            .for_refresh(&ends.local, request.is_https());
        // The rules are numbers, which are different in another configuration.
        if std::ptr::eq(&raw const *snapshot, request.snapshot) {
            let rules = request.exchange.rules.borrow().clone();
            exchange.rules.replace(rules);
        }
        let (head, bytes) = request.view.copied();
        Self {
            ends,
            exchange,
            snapshot,
            listener,
            head,
            bytes,
        }
    }

    /// Runs the action of a plan, of whose response `recording` takes the rest. Its bytes are given to `sink` as they come; meanwhile the
    /// action waits.
    pub(crate) async fn pass_on(
        self,
        plan: &Plan,
        recording: &Recording,
        mut sink: impl AsyncFnMut(&[u8]) -> Result<(), Gone>,
    ) -> Result<(), Gone> {
        let client = ClientSide::new(Channel::Discard, self.ends, waker().await);
        let view = self.head.view(&self.bytes);
        let snapshot = (&*self.snapshot, self.listener);
        let request = Request::new(&client, &self.exchange, snapshot, view);
        let mut output = Output::default();
        let body = ActionBody::Collected(Collected::None);
        let mut action = pin!(action::run(&request, plan, body, &mut output));
        let mut has_ended = false;
        while !has_ended && recording.rest_outcome().is_err() {
            poll_fn(|context| {
                has_ended = action.as_mut().poll(context).is_ready();
                match has_ended || recording.has_rest() {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
            let piece = recording.take_rest();
            if piece.is_empty() {
                // Its head has been rejected, or it has ended.
                return Ok(());
            }
            sink(&piece).await?;
        }
        Ok(())
    }

    /// Runs the action of a plan. The result is in the store, in the returned recording, or in the log.
    pub(crate) async fn run(
        self,
        plan: &mut Plan,
        lead: Option<Lead>,
        stale: Option<Arc<Stored>>,
    ) -> Option<Rc<Recording>> {
        let client = ClientSide::new(Channel::Discard, self.ends, waker().await);
        let view = self.head.view(&self.bytes);
        let snapshot = (&*self.snapshot, self.listener);
        let request = Request::new(&client, &self.exchange, snapshot, view);
        let mut output = Output::default();
        record(&request, plan, lead, stale);
        let recording = plan.changes.cache.clone();
        let is_useless = || recording.as_ref().is_some_and(|one| one.is_useless());
        let body = ActionBody::Collected(Collected::None);
        let outcome = {
            let mut action = pin!(action::run(&request, plan, body, &mut output));
            poll_fn(|context| match action.as_mut().poll(context) {
                Poll::Pending if is_useless() => Poll::Ready(Err(Gone::Closed)),
                outcome => outcome,
            })
            .await
        };
        match &recording {
            Some(one) if one.slice.is_some() => plan.changes.cache = None,
            _ => {
                let _ = settle(&request, plan, outcome, &mut output);
            }
        }
        recording
    }
}

/// The waker of the current task.
async fn waker() -> Waker {
    poll_fn(|context| Poll::Ready(context.waker().clone())).await
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
    let (found, hit) = resolve(request, asked, found, &plan.changes.edits, output).await?;
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

/// Waits until it is known whether the store has a response: for the fetch of another request, and for the disk.
pub(crate) async fn resolve(
    request: &Request<'_>,
    asked: &CacheLookup,
    found: tutti_cache::Found,
    edits: &[Edit],
    output: &mut Output,
) -> Result<(tutti_cache::Found, Hit), Gone> {
    let (found, hit) = match found {
        tutti_cache::Found::Wait(flight) => {
            let found = landed(request, asked, &flight, edits, output).await?;
            (found, Hit::Coalesced)
        }
        found => (found, Hit::There),
    };
    Ok(match asked.is_on_disk(&found) {
        true => (
            load(request, asked, found, edits, output).await?,
            Hit::OnDisk,
        ),
        false => (found, hit),
    })
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
                Hit::There | Hit::OnDisk | Hit::Coalesced | Hit::Fetched => "HIT",
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
    let own = note_use(request, asked, stored, hit);
    // Before a part of the stored body is selected: the requested range refers to the stored response.
    let fields = stored.fields.iter();
    if let Some(instead) = internal_redirect::of_answer(request, stored.status, fields, changes) {
        return instead.into_step(request, false, output);
    }
    let head = StoredHead {
        stored,
        length: stored.body.len() as u64,
        own,
    };
    let SelectedPart { bytes, writer } = match head.begin(request, changes, output) {
        Ok(part) => part,
        Err(step) => return step,
    };
    // Both are below the length, which is in memory.
    let body = stored.body.slice(bytes.start as usize..bytes.end as usize);
    Response::stored(writer, body, request, output).into()
}

/// Counts a use of a stored response, and returns the fields that are computed for it.
pub(crate) fn note_use(
    request: &Request<'_>,
    asked: &CacheLookup,
    stored: &Stored,
    hit: Hit,
) -> FieldLines {
    let now = now();
    let counts = &asked.store.counts;
    request.exchange.answerer.set(Answerer::Cache);
    count(match hit {
        Hit::There | Hit::OnDisk if stored.freshness.remaining(now) > 0 => &counts.hits,
        Hit::There | Hit::OnDisk | Hit::Error(_) => &counts.stale,
        Hit::Coalesced => &counts.coalesced,
        Hit::Fetched => &counts.misses,
        Hit::Validated => &counts.revalidated,
    });
    let mut own = FieldLines::with_capacity(OWN_BYTES, 2);
    own.push_number(b"Age", stored.age_seconds(now));
    if asked.cache.options.status_field {
        add_hit(&mut own, stored, hit, now);
    }
    own
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The head of a response from the store, with fields that are computed for each use.
pub(crate) struct StoredHead<'s> {
    pub(crate) stored: &'s Stored,
    /// The length of the whole response.
    pub(crate) length: u64,
    pub(crate) own: FieldLines,
}

/// The part of a response that the client gets, if it is not an error.
pub(crate) struct SelectedPart {
    pub(crate) bytes: Range<u64>,
    pub(crate) writer: Writer,
}

impl StoredHead<'_> {
    /// Begins the response, as the conditions and the range of the request demand.
    pub(crate) fn begin(
        self,
        request: &Request<'_>,
        changes: &Changes,
        output: &mut Output,
    ) -> Result<SelectedPart, ExchangeStep> {
        let is_slice = self.stored.status == 206;
        let whole_status = match is_slice {
            true => 200,
            false => self.stored.status,
        };
        let content_type = self.stored.field("Content-Type");
        // The range of a slice is not that of the response.
        let is_of_slice =
            move |name: &[u8]| is_slice && name.eq_ignore_ascii_case(b"Content-Range");
        let fields = self.stored.fields.iter();
        let fields = fields.filter(move |(name, _)| !is_of_slice(name));
        // A body that is changed has no ranges.
        let is_changed = replace::applies_to(request, content_type)
            || gunzip::applies_to(request, whole_status, fields.clone());
        let is_get = request.view.method() == Method::Get && !is_changed;
        let facts = (whole_status, &self.stored.fields, self.length);
        let (status, bytes, range) = match wanted(facts, &request.conditions(), is_get) {
            RequestedPart::Whole => (whole_status, 0..self.length, None),
            RequestedPart::Nothing => (304, 0..0, None),
            RequestedPart::Part(part) => {
                let range = part.content_range(self.length);
                (206, part.start..part.end, Some(range))
            }
            RequestedPart::Unsatisfiable => {
                let range = range::unsatisfied(self.length);
                let mut fields = FieldLines::of("Content-Range", range.as_bytes());
                fields.append(&self.own);
                let answer = ErrorResponse::of(416, &fields);
                return Err(internal_redirect::page(request, &answer, changes, output));
            }
        };
        let range = range.map(|range| FieldLines::of("Content-Range", range.as_bytes()));
        let more = range.unwrap_or_default();
        let whole = (whole_status, Some(self.length));
        let is_whole = !matches!(status, 206 | 304);
        let selected = match is_whole {
            true => FieldLines::new(),
            false => content_coding::fields_of_part(request, whole, status, fields.clone()),
        };
        let fields = fields.filter(|_| is_whole).chain(selected.iter());
        let fields = fields.chain(more.iter()).chain(self.own.iter());
        let head = Head {
            status,
            length: (status != 304).then_some(bytes.end - bytes.start),
            own: Own {
                server: self.stored.field("Server").is_none(),
                date: false,
            },
            may_persist: true,
            may_have_trailers: false,
        };
        let writer = Writer::begin(request, &head, fields, changes, output);
        Ok(SelectedPart { bytes, writer })
    }
}
