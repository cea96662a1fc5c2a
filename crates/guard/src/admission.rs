//! Holds what has been decided about a request before its action, until its exchange has ended.

use std::cell::{Cell, OnceCell, RefCell};

use tutti_http::FieldLines;

use crate::concurrency::Permit;
use crate::cors;

/// The decisions about one request. Most have none, and pay for nothing.
#[derive(Debug, Default)]
pub struct Admission(OnceCell<Box<Decisions>>);

#[derive(Debug, Default)]
struct Decisions {
    /// Counted as under way.
    permits: RefCell<Vec<Permit>>,
    /// Fields of the response, whatever answers.
    fields: RefCell<FieldLines>,
    /// The user, as far as a guard has found one.
    user: RefCell<Vec<u8>>,
    /// The server says which pages may read the response.
    says_of_origins: Cell<bool>,
}

impl Admission {
    fn decisions(&self) -> &Decisions {
        self.0.get_or_init(Box::default)
    }

    /// True if the request counts as under way.
    pub fn holds_permits(&self) -> bool {
        let decisions = self.0.get();
        decisions.is_some_and(|decisions| !decisions.permits.borrow().is_empty())
    }

    /// The request has ended, and its client has the whole response.
    pub fn end(&self) {
        if let Some(decisions) = self.0.get() {
            decisions.permits.borrow_mut().clear();
        }
    }

    /// It counts as under way.
    pub fn hold(&self, permit: Permit) {
        self.decisions().permits.borrow_mut().push(permit);
    }

    /// It is from this user; the guard that is asked last knows best.
    pub fn name_user(&self, name: &[u8]) {
        self.decisions().user.replace(name.to_vec());
    }

    /// Appends the name of the user; nothing: it is not known.
    pub fn write_user(&self, out: &mut Vec<u8>) {
        if let Some(decisions) = self.0.get() {
            out.extend_from_slice(&decisions.user.borrow());
        }
    }

    /// The response has this field.
    pub fn add(&self, name: &str, value: &[u8]) {
        let mut fields = self.decisions().fields.borrow_mut();
        // A text of the client may be said back to it, but cannot end a line.
        let _ = fields.try_push(name.as_bytes(), value);
    }

    /// Only the server says which pages may read the response.
    pub fn say_of_origins(&self) {
        self.decisions().says_of_origins.set(true);
    }

    /// Adds to the fields of the response.
    pub fn add_fields(&self, fields: &mut FieldLines) {
        let Some(decisions) = self.0.get() else {
            return;
        };
        if decisions.says_of_origins.get() {
            fields.retain(|name, _| !cors::is_said_here(name));
        }
        fields.append(&decisions.fields.borrow());
    }
}
