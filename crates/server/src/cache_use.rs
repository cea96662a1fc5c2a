//! The part of an action's cache in a request: it looks a response up first, or it records the response.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tutti_cache::CacheLookup;
use tutti_cache::ForwardReason;
use tutti_cache::{Key, asks_not_to_store, is_cookie_named, overrides_method};
use tutti_cache::{Purpose, Recording};
use tutti_config::model::{Cache, GatewayParameter, Patterns};
use tutti_http::{BodyLength, Known, Method, is_safe};
use tutti_routing::{Decision, RequestInfo as _};

use crate::exchange::request::Request;
use crate::fields::request_headers;

/// The use of its action's cache for a request.
pub(crate) enum CacheUse {
    /// It looks a response up first.
    Look(Box<CacheLookup>),
    /// The request is forwarded, and this records its response.
    Mind(Rc<Recording>),
}

/// Determines what `cache` does with a request. `answerer` identifies the action, and the parameters of a gateway.
pub(crate) fn concern(
    request: &Request<'_>,
    decision: &Decision<'_>,
    cache: &Arc<Cache>,
    answerer: (&[u8], &[GatewayParameter]),
) -> Option<CacheUse> {
    let name = &cache.options.store;
    let mut stores = request.snapshot.caches.iter();
    let store = stores.find(|store| store.name() == *name)?;
    let key = key(request, decision, cache, answerer)?;
    let view = &request.view;
    let mind = |purpose, forward| {
        let recording = Recording {
            store: Arc::clone(store),
            cache: Arc::clone(cache),
            key: key.clone(),
            purpose,
            forward,
            slice: None,
            state: RefCell::default(),
        };
        Some(CacheUse::Mind(Rc::new(recording)))
    };
    match view.method() {
        Method::Get | Method::Head => {}
        // Only an unsafe method invalidates what is stored (RFC 9111 §4.4).
        _ if is_safe(view.method_text()) => return mind(Purpose::Report, ForwardReason::Method),
        _ => return mind(Purpose::Invalidate, ForwardReason::Method),
    }
    if is_past(request, decision, cache) {
        store.counts.bypassed.fetch_add(1, Ordering::Relaxed);
        request.exchange.cache_status.set("BYPASS");
        return mind(Purpose::Report, ForwardReason::Bypass);
    }
    let has_cookies =
        cache.cookies.is_none() && view.get_all(b"Cookie").any(|value| !value.is_empty());
    let is_get = view.method() == Method::Get;
    let is_plain = is_get && (view.get(Known::Range).is_none() || cache.options.slice.is_some());
    Some(CacheUse::Look(Box::new(CacheLookup {
        store: Arc::clone(store),
        cache: Arc::clone(cache),
        key,
        keeps: is_plain && !asks_not_to_store(view.get_all(b"Cache-Control")),
        is_authorized: view.get(Known::Authorization).is_some(),
        has_cookies,
        slice: None,
    })))
}

/// The key; `None`: it comes from a script that failed, which has been logged.
fn key(
    request: &Request<'_>,
    decision: &Decision<'_>,
    cache: &Cache,
    answerer: (&[u8], &[GatewayParameter]),
) -> Option<Key> {
    let view = &request.view;
    let mut text = Vec::new();
    let (answerer, parameters) = answerer;
    let mut identity = answerer.to_vec();
    match &cache.key {
        Some(template) => decision.render(template, request, &mut text).ok()?,
        None => {
            text.extend_from_slice(if request.is_https() {
                b"https://"
            } else {
                b"http://"
            });
            text.extend(view.host().to_ascii_lowercase());
            text.extend_from_slice(view.origin_target());
            // Programs see the field as it was sent, and with an absolute target it may differ from that.
            let field = view.get(Known::Host).unwrap_or_default();
            if field != view.host() || field.iter().any(u8::is_ascii_uppercase) {
                identity.push(0);
                identity.extend_from_slice(field);
            }
        }
    }
    if let Some(rewritten) = decision.rewritten.as_deref() {
        identity.push(0);
        identity.extend_from_slice(rewritten.as_path().target());
    }
    // A key of `$uri` does not distinguish an encoded slash from a slash, but the application may.
    let path = view.request_path();
    if cache.key.is_some() && path.encoded_path() != path.path() {
        identity.push(0);
        identity.extend_from_slice(path.encoded_path());
    }
    let fields = view.fields().map(|field| (field.name, field.value));
    let edits = request_headers::shared(decision, parameters, request).ok()?;
    Some(Key::new(text, &identity, &edits, fields))
}

/// True for requests that bypass the cache.
fn is_past(request: &Request<'_>, decision: &Decision<'_>, cache: &Cache) -> bool {
    let view = &request.view;
    // The origin's response may depend on the body, which is not part of the key.
    if view.body_length() != BodyLength::None || view.facts().wants_upgrade {
        return true;
    }
    // Conditions that only an origin can evaluate (RFC 9111 §4.3.2).
    if view.get(Known::IfMatch).is_some() || view.get(Known::IfUnmodifiedSince).is_some() {
        return true;
    }
    if view.fields().any(|field| overrides_method(field.name)) {
        return true;
    }
    if let Some(names) = &cache.cookies
        && !names.list().is_empty()
        && view
            .get_all(b"Cookie")
            .any(|field| is_personal(field, names))
    {
        return true;
    }
    // A condition that cannot be evaluated counts as true.
    cache
        .bypass
        .as_ref()
        .is_some_and(|condition| decision.holds(condition, request).unwrap_or(true))
}

fn is_personal(field: &[u8], names: &Patterns) -> bool {
    is_cookie_named(field, |name| names.matches(name).unwrap_or(true))
}
