//! Handles the response of an application or an upstream to a request that the cache did not answer: records it while the client gets it,
//! or withholds it where a stored response is used instead.
//!
//! Must never: store an incomplete response, or one that was requested before a purge that covers it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tutti_config::model::{Cache, SetCookie};
use tutti_files::conditional::{PreconditionResult, Preconditions};
use tutti_http::FieldLines;

use crate::Millis;
use crate::cache_status::{self, ForwardReason, Hit};
use crate::clock::ClockReading;
use crate::fetches::Lead;
use crate::freshness::Freshness;
use crate::key::Key;
use crate::purge::Purge;
use crate::rest::{Rest, RestFailure, RestState};
use crate::slice::Slice;
use crate::store::{BodyReservation, ResponseStore};
use crate::stored::{Stored, freshened};
use crate::storing::{
    Defaults, NotStored, StatusRange, TimedResponse, is_internal_redirect, judge,
};
use crate::validators::validators;
use crate::vary::Vary;

/// The use of a response by the cache.
pub enum Purpose {
    /// Only reports in `Cache-Status` that it did not come from the cache.
    Report,
    /// Invalidates what is stored for its target if it succeeds (RFC 9111 §4.4).
    Invalidate,
    /// Stores it if that is permitted.
    Keep(RequestTerms),
    /// Passes it on to a client that has its beginning, without storing it.
    PassOn(Rest),
}

/// Facts about the request that are needed when its response arrives.
pub struct RequestTerms {
    /// When the request was sent.
    pub asked: Millis,
    /// The number of purges that covered its key by then.
    pub epoch: u64,
    /// It has `Authorization`.
    pub is_authorized: bool,
    /// It has cookies, and the configuration does not say which of them matter.
    pub has_cookies: bool,
    /// The stored response that is being validated.
    pub stale: Option<Arc<Stored>>,
    /// The client's `If-None-Match` and `If-Modified-Since`, if they were not sent to the origin.
    pub conditions: [Option<Vec<u8>>; 2],
}

/// Handles one response on behalf of the cache.
pub struct Recording {
    /// The store that may get the response.
    pub store: Arc<ResponseStore>,
    /// The cache options of the action.
    pub cache: Arc<Cache>,
    /// The key of the request.
    pub key: Key,
    /// The use of the response.
    pub purpose: Purpose,
    /// Why the request was forwarded.
    pub forward: ForwardReason,
    /// Only this slice of the response is requested.
    pub slice: Option<Slice>,
    /// The progress of the recording.
    pub state: RefCell<RecordingState>,
}

/// The progress of a recording.
#[derive(Default)]
pub struct RecordingState {
    /// Other requests wait while it is held.
    pub lead: Option<Lead>,
    taking: Option<Taking>,
    /// The stored response that the client gets instead.
    pub instead: Option<(Arc<Stored>, Hit)>,
    /// The slice that has been recorded.
    slice: Option<Arc<Stored>>,
    /// The rest of a response that is passed on.
    rest: RestState,
    /// The response is not stored.
    is_given_up: bool,
}

/// A response that is being recorded.
struct Taking {
    head: Stored,
    body: BytesMut,
    /// The declared length.
    length: Option<u64>,
    room: BodyReservation,
}

impl Taking {
    /// True if the whole body has arrived.
    fn is_whole(&self) -> bool {
        self.length == Some(self.body.len() as u64)
    }
}

/// The changes to a response's head before it is sent to the client.
pub struct Altered {
    /// The status: 304 if the client's copy is valid.
    pub status: u16,
    /// Removes `Set-Cookie`.
    pub strips_cookies: bool,
    /// The outcome for `Cache-Status`.
    kept: Option<Result<(), NotStored>>,
}

impl Recording {
    /// True if the response with this head is withheld: it validates the stored one, or it is an error that the stored one may replace.
    pub fn holds<'f>(
        &self,
        status: u16,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        now: Millis,
    ) -> bool {
        let Purpose::Keep(terms) = &self.purpose else {
            return false;
        };
        let Some(stale) = &terms.stale else {
            return false;
        };
        if status != 304 {
            return self.holds_error(status, now);
        }
        // The client gets the stored response, so an internal redirect is not followed.
        let fields = fields.filter(|(name, _)| !is_internal_redirect(name));
        let valid = self.renew(terms, stale, fields.collect(), now);
        let mut state = self.state.borrow_mut();
        state.instead = Some((valid, Hit::Validated));
        state.lead = None;
        true
    }

    /// True if an error with this status is withheld, because a stored response may replace it.
    pub fn holds_error(&self, status: u16, now: Millis) -> bool {
        let Purpose::Keep(RequestTerms {
            stale: Some(stale), ..
        }) = &self.purpose
        else {
            return false;
        };
        let may = matches!(status, 500 | 502 | 503 | 504) && stale.freshness.serves_errors(now);
        let mut state = self.state.borrow_mut();
        // A withheld response that ended too early may be followed by one of another server.
        state.instead = may.then(|| (Arc::clone(stale), Hit::Error(status)));
        if may {
            state.lead = None;
        }
        may
    }

    /// Updates the stored response with the fields of a 304.
    fn renew(
        &self,
        terms: &RequestTerms,
        stale: &Stored,
        newer: FieldLines,
        now: Millis,
    ) -> Arc<Stored> {
        let mut fields = stale.updated_fields(&newer);
        let judged = self.judge(terms, stale.status, &fields, now);
        let is_same = newer
            .get_all(b"ETag")
            .next()
            .is_none_or(|tag| Some(tag) == stale.field("ETag"));
        let tags = self.tags();
        match judged {
            Ok(freshness) if is_same => {
                if self.strips_cookies() {
                    // It is one client's.
                    fields.remove("Set-Cookie");
                }
                let renewed = Arc::new(freshened(stale, fields, freshness, tags));
                self.store.store(Arc::clone(&renewed), terms.epoch);
                renewed
            }
            _ => {
                // The updated response is for this client only.
                self.store.purge(&Purge::Key(self.key.text.to_vec()));
                let freshness = Freshness {
                    received: now,
                    ..stale.freshness.clone()
                };
                Arc::new(freshened(stale, fields, freshness, tags))
            }
        }
    }

    fn strips_cookies(&self) -> bool {
        self.cache.options.set_cookie == SetCookie::Strip
    }

    fn tags(&self) -> &[String] {
        &self.cache.options.tags
    }

    fn judge(
        &self,
        terms: &RequestTerms,
        status: u16,
        fields: &FieldLines,
        now: Millis,
    ) -> Result<Freshness, NotStored> {
        let is_slice = self.slice.is_some_and(|slice| slice.is_in(status, fields));
        if self.slice.is_some() && !is_slice {
            return Err(NotStored::Status);
        }
        let answer = TimedResponse {
            // The lifetime of a slice is that of the whole.
            status: if is_slice { 200 } else { status },
            fields,
            asked: terms.asked,
            received: now,
            time_of_day: ClockReading::now().wall_at(now),
            is_authorized: terms.is_authorized,
            has_cookies: terms.has_cookies,
        };
        judge(&answer, &defaults(&self.cache))
    }

    /// Starts to record the response with this head, if it may be stored. `values` gives the fields of the request.
    pub fn begin<'f>(
        &self,
        (status, length): (u16, Option<u64>),
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
        values: impl Fn(&[u8]) -> Option<Vec<u8>>,
        now: Millis,
    ) -> Altered {
        let mut altered = Altered {
            status,
            strips_cookies: false,
            kept: None,
        };
        match &self.purpose {
            Purpose::Report => {}
            Purpose::Invalidate => {
                if (200..400).contains(&status) {
                    self.invalidate(fields);
                }
            }
            Purpose::PassOn(rest) => {
                let state = rest.begin((status, length), &fields.collect());
                self.state.borrow_mut().rest = state;
            }
            Purpose::Keep(terms) => {
                {
                    // A response that broke off before the client had any of it may be followed by one of another server.
                    let mut state = self.state.borrow_mut();
                    state.taking = None;
                    state.is_given_up = false;
                }
                let mut fields: FieldLines = fields.collect();
                let validators = validators(&fields);
                if status == 200
                    && let Some(validators) = validators
                {
                    let [tags, date] = &terms.conditions;
                    let conditions = Preconditions {
                        if_none_match: tags.as_deref().map(Cow::from),
                        if_modified_since: date.as_deref(),
                        ..Preconditions::default()
                    };
                    if conditions.evaluate(validators) == PreconditionResult::NotModified {
                        altered.status = 304;
                    }
                }
                let judged = self.judge(terms, status, &fields, now);
                let vary = judged.and_then(|freshness| {
                    let vary = Vary::of(&fields, values).ok_or(NotStored::Vary)?;
                    Ok((freshness, vary))
                });
                let is_large = length.is_some_and(|length| length > self.store.largest() as u64);
                let kept = vary.and_then(|known| match is_large {
                    true => Err(NotStored::Size),
                    false => Ok(known),
                });
                altered.kept = Some(kept.as_ref().map(|_| ()).map_err(|why| *why));
                match kept {
                    Ok((freshness, vary)) => {
                        if self.strips_cookies() {
                            altered.strips_cookies = true;
                            fields.remove("Set-Cookie");
                        }
                        let head = (status, fields);
                        let key = self.key.clone();
                        self.state.borrow_mut().taking = Some(Taking {
                            head: Stored::new(key, vary, head, freshness, self.tags()),
                            body: BytesMut::new(),
                            length,
                            room: self.store.room(),
                        });
                        if length == Some(0) {
                            self.finish();
                        }
                    }
                    Err(why) => self.give_up(Some(why), now),
                }
            }
        }
        altered
    }

    /// The client gets another response instead of the one with this head, which is not stored.
    pub fn pass_over<'f>(
        &self,
        status: u16,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        now: Millis,
    ) {
        match &self.purpose {
            Purpose::Report => {}
            Purpose::Invalidate => {
                if (200..400).contains(&status) {
                    self.invalidate(fields);
                }
            }
            Purpose::PassOn(_) => {
                self.state.borrow_mut().rest = RestState::Failed(RestFailure::Unavailable);
            }
            Purpose::Keep(_) => self.give_up(Some(NotStored::Elsewhere), now),
        }
    }

    /// The response is not stored: other requests need not wait for it.
    fn give_up(&self, why: Option<NotStored>, now: Millis) {
        let mut state = self.state.borrow_mut();
        state.taking = None;
        state.is_given_up = true;
        // A reason that depends on the client does not apply to other requests.
        if !matches!(why, Some(NotStored::Authorization | NotStored::Cookie)) {
            self.store.mark(&self.key, now);
        }
        state.lead = None;
    }

    /// Invalidates the responses for the target of the request, and for the addresses on the same host that its response names.
    fn invalidate<'f>(&self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) {
        self.store.purge(&Purge::Key(self.key.text.to_vec()));
        if self.cache.key.is_some() {
            return;
        }
        for (name, value) in fields {
            if !name.eq_ignore_ascii_case(b"Location")
                && !name.eq_ignore_ascii_case(b"Content-Location")
            {
                continue;
            }
            if let Some(text) = same_host(&self.key.text, value) {
                self.store.purge(&Purge::Key(text));
            }
        }
    }

    /// Adds `Cache-Status` if that is configured.
    pub fn add_cache_status(&self, fields: &mut FieldLines, altered: &Altered, status: u16) {
        if self.cache.options.status_field {
            cache_status::forwarded(fields, self.forward, status, altered.kept);
        }
    }

    /// Records a part of the body.
    pub fn write(&self, append: impl FnOnce(&mut BytesMut), length: usize, now: Millis) {
        let mut state = self.state.borrow_mut();
        let Some(taking) = &mut state.taking else {
            state.rest.write(append, length);
            return;
        };
        if taking.room.grow(length) {
            append(&mut taking.body);
            // Stored before the client gets the last byte: it may repeat the request at once.
            let is_whole = taking.is_whole();
            drop(state);
            if is_whole {
                self.finish();
            }
            return;
        }
        drop(state);
        self.give_up(Some(NotStored::Size), now);
    }

    /// True while the response is recorded, or passed on.
    pub fn is_taking(&self) -> bool {
        let state = self.state.borrow();
        state.taking.is_some() || state.rest.is_taking()
    }

    /// Takes the bytes of the rest of a response that have come.
    pub fn take_rest(&self) -> Bytes {
        self.state.borrow_mut().rest.take()
    }

    /// True if bytes of the rest can be taken, or no more will come.
    pub fn has_rest(&self) -> bool {
        self.state.borrow().rest.has_news()
    }

    /// True if all of the rest has come.
    ///
    /// # Errors
    /// It has not, and will not if the response has ended or its head has been rejected.
    pub fn rest_outcome(&self) -> Result<(), RestFailure> {
        self.state.borrow().rest.outcome()
    }

    /// The body is complete.
    pub fn finish(&self) {
        let taking = self.state.borrow_mut().taking.take();
        if let (Some(taking), Purpose::Keep(terms)) = (taking, &self.purpose)
            && (taking.length.is_none() || taking.is_whole())
        {
            // A copy, without the spare capacity of the buffer.
            let body = Bytes::copy_from_slice(&taking.body);
            assert!(
                taking
                    .length
                    .is_none_or(|length| length == body.len() as u64),
                "a response is stored whole or not at all"
            );
            drop(taking.body);
            let stored = Arc::new(taking.head.with_body(body));
            if self.slice.is_some() {
                self.state.borrow_mut().slice = Some(Arc::clone(&stored));
            }
            self.store.store(stored, terms.epoch);
        }
        self.state.borrow_mut().lead = None;
    }

    /// True if a slice was requested, and something else has come: the rest of it is of no use.
    pub fn is_useless(&self) -> bool {
        self.slice.is_some() && self.state.borrow().is_given_up
    }

    /// Returns the slice that was requested, if it has come.
    pub fn take_slice(&self) -> Option<Arc<Stored>> {
        let mut state = self.state.borrow_mut();
        let instead = state.instead.take().map(|(stored, _)| stored);
        state.slice.take().or(instead)
    }
}

/// Returns the configured defaults for responses without a lifetime.
fn defaults(cache: &Cache) -> Defaults {
    let options = &cache.options;
    let millis = |time: std::time::Duration| Millis::try_from(time.as_millis()).unwrap_or(0);
    let range = |(first, last, time): &(u16, u16, std::time::Duration)| {
        let statuses = StatusRange {
            first: *first,
            last: *last,
        };
        (statuses, millis(*time))
    };
    Defaults {
        valid: cache.valid.iter().map(range).collect(),
        is_forced: options.force_valid,
        guesses: options.heuristic,
        stale_while_revalidate: millis(options.stale_while_revalidate),
        stale_if_error: millis(options.stale_if_error),
        strips_cookies: options.set_cookie == SetCookie::Strip,
    }
}

/// The text of the key for an address in a response, if it is on the same host as this key.
fn same_host(key: &[u8], address: &[u8]) -> Option<Vec<u8>> {
    let scheme = memchr::memmem::find(key, b"://")? + 3;
    let rest = key.get(scheme..)?;
    let host = scheme + memchr::memchr(b'/', rest)?;
    let origin = key.get(..host)?;
    let address = address.split(|&byte| byte == b'#').next()?;
    if address.starts_with(b"/") && !address.starts_with(b"//") {
        return Some([origin, address].concat());
    }
    let start = address.get(..host)?;
    let is_same = start.eq_ignore_ascii_case(origin);
    let path = address.get(host..)?;
    (is_same && path.starts_with(b"/")).then(|| [origin, path].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_the_same_host_or_none() {
        let key = b"http://a:80/x?y";
        let same = |address: &str| same_host(key, address.as_bytes());
        assert_eq!(same("/z").unwrap(), b"http://a:80/z");
        assert_eq!(same("http://A:80/z?q#f").unwrap(), b"http://a:80/z?q");
        for other in [
            "//b/z",
            "http://b:80/z",
            "https://a:80/z",
            "http://a:80",
            "z",
            "",
        ] {
            assert_eq!(same(other), None, "{other}");
        }
    }
}
