//! Holds what has been decided about a request before its action, until its exchange has ended.

use std::cell::{Cell, RefCell};

use tutti_http::FieldLines;

use crate::concurrency::Permit;
use crate::cors;

/// The decisions about one request.
#[derive(Debug, Default)]
pub struct Admission {
    /// There is something in the others.
    is_used: Cell<bool>,
    /// Counted as under way.
    permits: RefCell<Vec<Permit>>,
    /// Fields of the answer, whoever answers.
    fields: RefCell<FieldLines>,
    /// Who it is from, as far as a guard has found it.
    user: RefCell<Vec<u8>>,
    /// The server says which pages may read the answer.
    says_of_origins: Cell<bool>,
}

impl Admission {
    /// True if it counts as under way.
    pub fn holds_permits(&self) -> bool {
        self.is_used.get() && !self.permits.borrow().is_empty()
    }

    /// The request has ended, and its client has the whole response.
    pub fn end(&self) {
        if self.is_used.get() {
            self.permits.borrow_mut().clear();
        }
    }

    /// It counts as under way.
    pub fn hold(&self, permit: Permit) {
        self.is_used.set(true);
        self.permits.borrow_mut().push(permit);
    }

    /// It is from this user; the guard that is asked last knows best.
    pub fn name_user(&self, name: &[u8]) {
        self.is_used.set(true);
        let mut user = self.user.borrow_mut();
        user.clear();
        user.extend_from_slice(name);
    }

    /// Appends the name of the user; nothing: it is not known.
    pub fn write_user(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.user.borrow());
    }

    /// The answer has this field.
    pub fn add(&self, name: &str, value: &[u8]) {
        self.is_used.set(true);
        // A text of the client may be said back to it, but cannot end a line.
        let _ = self.fields.borrow_mut().try_push(name.as_bytes(), value);
    }

    /// Nobody but the server says which pages may read the answer.
    pub fn say_of_origins(&self) {
        self.is_used.set(true);
        self.says_of_origins.set(true);
    }

    /// Adds to the fields of the answer.
    pub fn tell(&self, fields: &mut FieldLines) {
        if !self.is_used.get() {
            return;
        }
        if self.says_of_origins.get() {
            fields.retain(|name, _| !cors::is_said_here(name));
        }
        fields.append(&self.fields.borrow());
    }
}
