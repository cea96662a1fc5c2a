//! Holds the decisions of the guards about a request, until its exchange has ended.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use tutti_http::FieldLines;

use crate::concurrency::Permit;
use crate::cors;
use crate::identity::Identity;
use crate::limit::RequestLimit;

/// The decisions about one request. Most requests have none, and pay for nothing.
#[derive(Debug, Default)]
pub struct Admission(OnceCell<Box<Decisions>>);

#[derive(Debug, Default)]
struct Decisions {
    /// Permits of the concurrency limits.
    permits: RefCell<Vec<Permit>>,
    /// The limits that have admitted the request.
    passed: RefCell<Vec<Passed>>,
    /// Fields of the response, whatever answers.
    fields: RefCell<FieldLines>,
    /// Those from authentication services.
    given: RefCell<Vec<(Arc<Identity>, FieldLines)>>,
    /// The user, if a guard has identified one.
    user: RefCell<Vec<u8>>,
    /// A guard has authenticated the client, with or without a name.
    is_authenticated: Cell<bool>,
    /// The CORS fields of the response, and those that it varies by, if only the server sets them.
    cors: RefCell<Option<FieldLines>>,
}

/// A limit that has admitted the request.
#[derive(Debug)]
struct Passed {
    limit: Arc<RequestLimit>,
    key: Box<[u8]>,
    at: CountedAt,
}

/// The place where a limit counts a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedAt {
    /// In the memory of this server.
    Server,
    /// In the limit's store.
    Store,
}

impl Admission {
    fn decisions(&self) -> &Decisions {
        self.0.get_or_init(Box::default)
    }

    /// True if the request counts in a concurrency limit.
    pub fn holds_permits(&self) -> bool {
        let decisions = self.0.get();
        decisions.is_some_and(|decisions| !decisions.permits.borrow().is_empty())
    }

    /// Called when the request has ended, and its client has the whole response.
    pub fn end(&self) {
        if let Some(decisions) = self.0.get() {
            decisions.permits.borrow_mut().clear();
        }
    }

    /// Holds a permit until then.
    pub fn hold(&self, permit: Permit) {
        self.decisions().permits.borrow_mut().push(permit);
    }

    /// True if the limit has counted and admitted the request under this key. The guards of an internal redirect or an error page may have the
    /// same limit as those before; counted again, the request would compete with itself.
    pub fn has_passed(&self, limit: &Arc<RequestLimit>, key: &[u8], at: CountedAt) -> bool {
        let is_this =
            |one: &Passed| Arc::ptr_eq(&one.limit, limit) && one.at == at && *one.key == *key;
        let decisions = self.0.get();
        decisions.is_some_and(|decisions| decisions.passed.borrow().iter().any(is_this))
    }

    /// Notes that the limit has admitted the request.
    pub fn note_passed(&self, limit: &Arc<RequestLimit>, key: &[u8], at: CountedAt) {
        self.decisions().passed.borrow_mut().push(Passed {
            limit: Arc::clone(limit),
            key: key.into(),
            at,
        });
    }

    /// Sets the user; the last guard counts.
    pub fn name_user(&self, name: &[u8]) {
        self.decisions().user.replace(name.to_vec());
    }

    /// Appends the name of the user; nothing if unknown.
    pub fn write_user(&self, out: &mut Vec<u8>) {
        if let Some(decisions) = self.0.get() {
            out.extend_from_slice(&decisions.user.borrow());
        }
    }

    /// Called when a guard has authenticated the client.
    pub fn note_authenticated(&self) {
        self.decisions().is_authenticated.set(true);
    }

    /// True if a response may be the client's own.
    pub fn is_authenticated(&self) -> bool {
        let decisions = self.0.get();
        decisions.is_some_and(|decisions| decisions.is_authenticated.get())
    }

    /// The same client, for a request that the server makes in place of its own.
    #[must_use]
    pub fn of_same_client(&self) -> Self {
        let same = Self::default();
        if let Some(decisions) = self.0.get() {
            same.name_user(&decisions.user.borrow());
            same.decisions()
                .is_authenticated
                .set(decisions.is_authenticated.get());
        }
        same
    }

    /// Adds a field to the response.
    pub fn add(&self, name: &str, value: &[u8]) {
        let mut fields = self.decisions().fields.borrow_mut();
        // It may contain text of the client, but no line break.
        let _ = fields.try_push(name.as_bytes(), value);
    }

    /// Adds what an authentication service gives the client, in place of fields of the same names that it gave before: the guards of an internal
    /// redirect or an error page may ask it again.
    pub fn give(&self, service: &Arc<Identity>, fields: FieldLines) {
        let mut given = self.decisions().given.borrow_mut();
        let mut before = given.iter_mut();
        match before.find(|(known, _)| known.asks_the_same(service)) {
            None => given.push((Arc::clone(service), fields)),
            Some((_, known)) => {
                known.retain(|name, _| fields.get_all(name).next().is_none());
                known.append(&fields);
            }
        }
    }

    /// Sets the CORS fields of the response, in place of all others, earlier ones included.
    pub fn set_cors(&self, fields: FieldLines) {
        self.decisions().cors.replace(Some(fields));
    }

    /// Appends the fields of the response.
    pub fn add_fields(&self, fields: &mut FieldLines) {
        let Some(decisions) = self.0.get() else {
            return;
        };
        if let Some(cors) = &*decisions.cors.borrow() {
            fields.retain(|name, _| !cors::is_said_here(name));
            fields.append(cors);
        }
        fields.append(&decisions.fields.borrow());
        for (_, given) in decisions.given.borrow().iter() {
            fields.append(given);
        }
    }
}
