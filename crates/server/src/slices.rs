//! The cache stage for large responses that are stored in slices: the slices that the client wants are taken from the store one after the
//! other, and those that are missing are requested from the server with `Range`. If one cannot be stored, the rest of the response is passed
//! on from the server.
//!
//! Must never: continue a response with a slice of another version.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use tutti_cache::{
    CacheLookup, Hit, Purge, Rest, RestFailure, Slice, Stored, is_same_version, total,
};
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_files::range::{Requested, parse};
use tutti_http::{Known, Trailers};
use tutti_pool::Level;

use crate::cache::{self, OwnFetch, SelectedPart, StoredHead};
use crate::exchange::request::Request;
use crate::exchange_step::ExchangeStep;
use crate::plan::Plan;
use crate::sending;
use crate::writer::Writer;

/// The result of this stage.
pub(crate) enum Sliced {
    /// The response has been sent.
    Sent(ExchangeStep),
    /// The server does not answer this request with slices, or they may not be stored.
    Whole(Plan),
}

/// Answers a request with slices.
pub(crate) async fn send(
    request: &Request<'_>,
    mut plan: Plan,
    output: &mut Output,
) -> Result<Sliced, Gone> {
    let Some(mut asked) = plan.asked.take() else {
        return Ok(Sliced::Whole(plan));
    };
    let size = asked.cache.options.slice.unwrap_or(usize::MAX) as u64;
    let range = request.range();
    let mut first = None;
    if let Some(byte) = first_byte(range).filter(|_| asked.keeps) {
        let found = find(request, &plan, &asked, Slice::at(byte, size), output).await?;
        if !found.is_past() {
            request
                .exchange
                .cache_status
                .set(cache::status(&found.found));
            first = found.get(request, &mut plan, output).await?;
        }
    }
    let found = first.and_then(|(stored, hit)| Some((total(&stored)?, stored, hit)));
    let Some((length, stored, hit)) = found else {
        asked.keeps &= request.view.get(Known::Range).is_none();
        plan.asked = Some(asked);
        return Ok(Sliced::Whole(plan));
    };
    let own = cache::note_use(request, &asked, &stored, hit);
    let head = StoredHead {
        stored: &stored,
        length,
        own,
    };
    let SelectedPart { bytes, mut writer } = match head.begin(request, &plan.changes, output) {
        Ok(part) => part,
        Err(step) => return Ok(Sliced::Sent(step)),
    };
    let slices = Slices {
        asked: &asked,
        first: &stored,
        length,
        size,
    };
    let outcome = slices
        .send(request, &mut plan, bytes, (&mut writer, output))
        .await;
    if let Err(gone) = outcome {
        writer.log(request);
        return Err(gone);
    }
    Ok(Sliced::Sent(writer.end(request, output).into()))
}

/// The first byte that the client wants, as far as it is known before the length; `None`: its range is not a single one.
fn first_byte(range: Option<&[u8]>) -> Option<u64> {
    let Some(range) = range else {
        return Some(0);
    };
    if range.contains(&b',') {
        return None;
    }
    // The last bytes of a response can only be found when its length is known.
    let is_suffix = range
        .split(|byte| *byte == b'=')
        .nth(1)?
        .trim_ascii_start()
        .starts_with(b"-");
    match parse(range, u64::MAX) {
        Requested::Parts(parts) if !is_suffix => parts.first().map(|part| part.start),
        _ => Some(0),
    }
}

/// The slices of a response whose head has been sent.
struct Slices<'s> {
    asked: &'s CacheLookup,
    /// The one that the head was made of.
    first: &'s Arc<Stored>,
    length: u64,
    size: u64,
}

impl Slices<'_> {
    /// Sends these bytes of the response.
    async fn send(
        &self,
        request: &Request<'_>,
        plan: &mut Plan,
        bytes: Range<u64>,
        (writer, output): (&mut Writer, &mut Output),
    ) -> Result<(), Gone> {
        let mut position = bytes.start;
        while position < bytes.end {
            let slice = Slice::at(position, self.size);
            let stored = match self.first.key == self.asked.of_slice(slice).key {
                true => Some(Arc::clone(self.first)),
                false => {
                    let found = find(request, plan, self.asked, slice, output).await?;
                    let found = found.get(request, plan, output).await?;
                    found.map(|(stored, _)| stored)
                }
            };
            let Some(stored) = stored else {
                let rest = position..bytes.end;
                let client = (&mut *writer, &mut *output);
                self.pass_on(request, plan, rest, client).await?;
                break;
            };
            // Both are below the size of a slice, which is in memory.
            let from = (position - slice.start()) as usize;
            let to = (slice.end(self.length).min(bytes.end) - slice.start()) as usize;
            if !self.continues(&stored) || to > stored.body.len() {
                return Err(self.cut(request, position, RestFailure::Changed));
            }
            let body = stored.body.slice(from..to);
            sending::pieces(writer, &body, request, output).await?;
            request.flush(output).await?;
            // Yields to other connections, however fast this client is.
            tokio::task::yield_now().await;
            position = slice.start() + to as u64;
        }
        writer.finish(request, Trailers::default(), output)
    }

    /// Requests the rest of the response from the server, and passes it on without storing it.
    async fn pass_on(
        &self,
        request: &Request<'_>,
        plan: &mut Plan,
        bytes: Range<u64>,
        (writer, output): (&mut Writer, &mut Output),
    ) -> Result<(), Gone> {
        if !output.is_empty() {
            request.flush(output).await?;
        }
        request.client.set_deadline(NEVER);
        let start = bytes.start;
        let edits = plan.changes.edits.clone();
        let rest = Rest::new(Arc::clone(self.first), bytes);
        let recording = Rc::new(self.asked.rest(rest, &mut plan.changes.edits));
        plan.changes.cache = Some(Rc::clone(&recording));
        let sink = async |piece: &[u8]| {
            sending::pieces(writer, piece, request, output).await?;
            request.flush(output).await?;
            request.client.set_deadline(NEVER);
            Ok::<(), Gone>(())
        };
        let passed = OwnFetch::of(request).pass_on(plan, &recording, sink);
        let outcome = request.unless_gone(passed).await;
        plan.changes.cache = None;
        plan.changes.edits = edits;
        outcome??;
        let outcome = recording.rest_outcome();
        outcome.map_err(|failure| self.cut(request, start, failure))
    }

    /// True if this slice is of the same version as the first one.
    fn continues(&self, slice: &Stored) -> bool {
        total(slice) == Some(self.length) && is_same_version(self.first, &slice.fields)
    }

    /// The response cannot be continued after this byte. The client must see that the rest is missing.
    fn cut(&self, request: &Request<'_>, start: u64, failure: RestFailure) -> Gone {
        let why = match failure {
            RestFailure::Changed => {
                let key = self.asked.key.text.to_vec();
                self.asked.store.purge(&Purge::Key(key));
                "the file changed after its beginning was stored; all its slices are removed from the cache"
            }
            RestFailure::Unavailable => "the upstream server does not send the rest of the file",
        };
        let message = format!("a response is cut off at byte {start}: {why}");
        request.client.local.log_failure(Level::Error, &message);
        Gone::Closed
    }
}

/// The lookup of a slice, and its result.
struct Found {
    asked: CacheLookup,
    found: tutti_cache::Found,
    hit: Hit,
}

/// Looks a slice up in the store.
async fn find(
    request: &Request<'_>,
    plan: &Plan,
    asked: &CacheLookup,
    slice: Slice,
    output: &mut Output,
) -> Result<Found, Gone> {
    let asked = asked.of_slice(slice);
    let edits = &plan.changes.edits;
    let found = asked.find(&request.view, edits);
    let (found, hit) = cache::resolve(request, &asked, found, edits, output).await?;
    Ok(Found { asked, found, hit })
}

impl Found {
    /// True if the slice may neither be in the store nor be put there.
    fn is_past(&self) -> bool {
        matches!(
            self.found,
            tutti_cache::Found::Past | tutti_cache::Found::Wait(_)
        )
    }

    /// Returns the slice, which is requested from the server if the store does not have it; `None`: there is none, or it may not be stored.
    async fn get(
        self,
        request: &Request<'_>,
        plan: &mut Plan,
        output: &mut Output,
    ) -> Result<Option<(Arc<Stored>, Hit)>, Gone> {
        let (lead, stale) = match self.found {
            tutti_cache::Found::Fresh(stored) | tutti_cache::Found::Stale(stored, None) => {
                return Ok(Some((stored, self.hit)));
            }
            tutti_cache::Found::Stale(stale, Some(lead)) => (Some(lead), Some(stale)),
            tutti_cache::Found::Lead(lead, stale) => (Some(lead), stale),
            tutti_cache::Found::Wait(_) | tutti_cache::Found::Past => (None, None),
        };
        if !output.is_empty() {
            request.flush(output).await?;
        }
        request.client.set_deadline(NEVER);
        let edits = plan.changes.edits.clone();
        plan.asked = Some(Box::new(self.asked));
        let fetched = OwnFetch::of(request).run(plan, lead, stale);
        let fetched = request.unless_gone(fetched).await;
        plan.asked = None;
        plan.changes.cache = None;
        plan.changes.edits = edits;
        let slice = fetched?.and_then(|recording| recording.take_slice());
        Ok(slice.map(|stored| (stored, Hit::Fetched)))
    }
}
