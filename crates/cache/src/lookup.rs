//! The lookup of a request in the cache.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use tutti_config::model::Cache;
use tutti_http::edits::{Edit, is_alias, replaces};
use tutti_http::{Known, PerConnection, RequestView};

use crate::cache_status::ForwardReason;
use crate::clock::now;
use crate::fetches::Lead;
use crate::freshness::Use;
use crate::key::Key;
use crate::recording::{Purpose, Recording, RequestTerms};
use crate::rest::Rest;
use crate::slice::Slice;
use crate::store::{Found, LookupMode, ResponseStore};
use crate::stored::Stored;

/// The lookup of one request: its key, and which responses it may get.
pub struct CacheLookup {
    /// The store to search.
    pub store: Arc<ResponseStore>,
    /// The cache options of the action.
    pub cache: Arc<Cache>,
    /// The key of the request.
    pub key: Key,
    /// The response may be stored.
    pub keeps: bool,
    /// The request has `Authorization`.
    pub is_authorized: bool,
    /// The request has cookies, and the configuration does not say which of them matter.
    pub has_cookies: bool,
    /// It is about this slice of the response.
    pub slice: Option<Slice>,
}

impl CacheLookup {
    /// The same request, about a slice of the response.
    pub fn of_slice(&self, slice: Slice) -> Self {
        Self {
            store: Arc::clone(&self.store),
            cache: Arc::clone(&self.cache),
            key: self.key.of_slice(slice.number),
            slice: Some(slice),
            ..*self
        }
    }

    /// Looks for a response; the request may have to wait for a fetch by another request. `edits` are the configured changes to its
    /// fields.
    pub fn find(&self, view: &RequestView<'_>, edits: &[Edit]) -> Found {
        let may_wait = !self.cache.options.lock_timeout.is_zero();
        self.find_in(view, edits, may_wait)
    }

    /// The same for a request that has waited, and waits no longer.
    pub fn find_after_wait(&self, view: &RequestView<'_>, edits: &[Edit]) -> Found {
        self.find_in(view, edits, false)
    }

    fn find_in(&self, view: &RequestView<'_>, edits: &[Edit], may_wait: bool) -> Found {
        let manner = LookupMode {
            may_wait,
            may_lead: self.keeps && !self.is_authorized && !self.has_cookies,
        };
        let may_use = |stored: &Stored| self.may_use(stored);
        self.store
            .find(&self.key, values(view, edits), may_use, manner, now())
    }

    /// Returns the recorder for the response of the origin. Changes the request so that it fetches a response that can be stored, or
    /// validates the `stale` one.
    pub fn recording(
        &self,
        view: &RequestView<'_>,
        lead: Option<Lead>,
        stale: Option<Arc<Stored>>,
        edits: &mut Vec<Edit>,
    ) -> Recording {
        let forward = match (&stale, self.keeps) {
            (Some(_), _) => ForwardReason::Stale,
            (None, true) => ForwardReason::Miss,
            (None, false) => ForwardReason::Request,
        };
        let mut conditions = [None, None];
        // Without the lead, only this client may get the response.
        if lead.is_some() {
            let tags = view.get_list(Known::IfNoneMatch).map(Cow::into_owned);
            let date = view.get(Known::IfModifiedSince).map(<[u8]>::to_vec);
            conditions = [tags, date];
            for name in ["If-None-Match", "If-Modified-Since", "If-Range"] {
                edits.retain(|edit| !edit.is_of(name));
                edits.push(Edit::remove(name));
            }
            if let Some(stale) = &stale {
                for (name, field) in [
                    ("If-None-Match", "ETag"),
                    ("If-Modified-Since", "Last-Modified"),
                ] {
                    if let Some(value) = stale.field(field) {
                        edits.retain(|edit| !edit.is_of(name));
                        edits.push(Edit::set(name, value.to_vec()));
                    }
                }
            }
        }
        if let Some(slice) = &self.slice {
            ask_for(slice.range_field(), edits);
        }
        let purpose = match self.keeps {
            true => Purpose::Keep(RequestTerms {
                asked: now(),
                epoch: self.store.epoch(&self.key),
                is_authorized: self.is_authorized,
                has_cookies: self.has_cookies,
                stale: stale.filter(|_| lead.is_some()),
                conditions,
            }),
            false => Purpose::Report,
        };
        let recording = Recording {
            store: Arc::clone(&self.store),
            cache: Arc::clone(&self.cache),
            key: self.key.clone(),
            purpose,
            forward,
            slice: self.slice,
            state: RefCell::default(),
        };
        recording.state.borrow_mut().lead = lead;
        recording
    }

    /// Returns the recorder that passes on the rest of a response whose first slices have been sent. Changes the request so that it
    /// fetches the rest.
    pub fn rest(&self, rest: Rest, edits: &mut Vec<Edit>) -> Recording {
        for name in ["If-None-Match", "If-Modified-Since"] {
            edits.retain(|edit| !edit.is_of(name));
            edits.push(Edit::remove(name));
        }
        ask_for(rest.range_field(), edits);
        Recording {
            store: Arc::clone(&self.store),
            cache: Arc::clone(&self.cache),
            key: self.key.clone(),
            purpose: Purpose::PassOn(rest),
            forward: ForwardReason::Request,
            slice: None,
            state: RefCell::default(),
        }
    }

    fn may_use(&self, stored: &Stored) -> bool {
        (!self.is_authorized || stored.freshness.allows_authorized)
            && (!self.has_cookies || !stored.freshness.is_assumed)
    }

    /// True if memory has no response, and the disk may have one.
    pub fn is_on_disk(&self, found: &Found) -> bool {
        matches!(found, Found::Lead(_, None) | Found::Past) && self.store.has_on_disk(&self.key)
    }

    /// Replaces `found`, which was a miss, by the response loaded from disk.
    pub fn with_loaded(&self, found: Found, loaded: Option<Arc<Stored>>) -> Found {
        let Some(stored) = loaded.filter(|stored| self.may_use(stored)) else {
            return found;
        };
        match (stored.freshness.usage(now()), found) {
            (Use::Fresh, _) => Found::Fresh(stored),
            (Use::WhileRevalidating, Found::Lead(lead, _)) => Found::Stale(stored, Some(lead)),
            (Use::WhileRevalidating, _) => Found::Stale(stored, None),
            (Use::Validate, Found::Lead(lead, _)) => Found::Lead(lead, Some(stored)),
            (Use::Validate, found) => found,
        }
    }
}

/// Changes a request so that it asks for this range, whatever the client asks for.
fn ask_for(range: Vec<u8>, edits: &mut Vec<Edit>) {
    for name in ["Range", "If-Range"] {
        edits.retain(|edit| !edit.is_of(name));
    }
    edits.push(Edit::set("Range", range));
    edits.push(Edit::remove("If-Range"));
}

/// True for fields by which this server tells applications and servers who the client is: the request of the client does not have them, or
/// not with the value that was sent.
fn is_about_client(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 5] = [
        b"client-cert",
        b"client-cert-chain",
        b"forwarded",
        b"x-forwarded-for",
        b"x-real-ip",
    ];
    NAMES.iter().any(|known| is_alias(known, name))
}

/// The values of all request fields of this name, joined as the application or server receives them: `Vary` is about these. `None`: they are
/// not known here.
pub fn values<'v>(
    view: &'v RequestView<'_>,
    edits: &'v [Edit],
) -> impl Fn(&[u8]) -> Option<Vec<u8>> + use<'v> {
    let view = *view;
    move |name| {
        let mut joined = Vec::new();
        let is_replaced = replaces(edits, name);
        if is_about_client(name) && !is_replaced {
            return None;
        }
        let is_left_out = is_replaced || PerConnection::of_request(&view).is_named(name);
        let sent = view.get_all(name).filter(|_| !is_left_out);
        let added = edits.iter().filter_map(Edit::field);
        let added = added.filter(|(added, _)| added.eq_ignore_ascii_case(name));
        for value in sent.chain(added.map(|(_, value)| value)) {
            if !joined.is_empty() {
                joined.extend_from_slice(b", ");
            }
            joined.extend_from_slice(value);
        }
        Some(joined)
    }
}
