//! `Server` and `Date`, the fields that the server adds to every response, rendered once a second.
//!
//! Each listen thread has its own.

use std::cell::{Cell, Ref, RefCell};

use tutti_files::dates::unix_seconds;
use tutti_http::{FieldLines, format_date};

/// The name of the server, and the same with its version, for `settings.http.server_version`.
const PRODUCT: &[u8] = b"Tutti";
const PRODUCT_WITH_VERSION: &[u8] = concat!("Tutti/", env!("CARGO_PKG_VERSION")).as_bytes();

/// Which of the server's own fields to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    /// `Server`.
    pub(crate) server: bool,
    /// `Date`.
    pub(crate) date: bool,
}

impl Own {
    /// All of them.
    pub(crate) const ALL: Self = Self {
        server: true,
        date: true,
    };
}

/// The fields, rendered again when the second changes.
pub(crate) struct OwnFields {
    second: Cell<u64>,
    rendered: RefCell<Rendered>,
}

/// The fields of one second.
struct Rendered {
    date: FieldLines,
    with_name: FieldLines,
    with_version: FieldLines,
}

impl Rendered {
    fn new(second: u64) -> Self {
        let date = FieldLines::of("Date", &format_date(second));
        let with = |product: &[u8]| {
            let mut fields = FieldLines::of("Server", product);
            fields.append(&date);
            fields
        };
        Self {
            with_name: with(PRODUCT),
            with_version: with(PRODUCT_WITH_VERSION),
            date,
        }
    }
}

impl Default for OwnFields {
    fn default() -> Self {
        Self::new()
    }
}

impl OwnFields {
    /// They are rendered at the first use.
    pub(crate) fn new() -> Self {
        Self {
            second: Cell::new(0),
            rendered: RefCell::new(Rendered::new(0)),
        }
    }

    /// Appends the selected ones; `shows_version`: `Server` has the version.
    pub(crate) fn append(&self, own: Own, shows_version: bool, fields: &mut FieldLines) {
        let product = match shows_version {
            true => PRODUCT_WITH_VERSION,
            false => PRODUCT,
        };
        match (own.server, own.date) {
            (true, true) if shows_version => fields.append(&self.now().with_version),
            (true, true) => fields.append(&self.now().with_name),
            (true, false) => fields.push(b"Server", product),
            (false, true) => fields.append(&self.now().date),
            (false, false) => {}
        }
    }

    /// The fields of this second.
    fn now(&self) -> Ref<'_, Rendered> {
        let second = unix_seconds();
        if self.second.replace(second) != second {
            *self.rendered.borrow_mut() = Rendered::new(second);
        }
        self.rendered.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_field_is_current() {
        let (own, mut fields) = (OwnFields::new(), FieldLines::new());
        own.append(Own::ALL, true, &mut fields);
        assert_eq!(fields.get_all(b"Server").next(), Some(PRODUCT_WITH_VERSION));
        let date = fields.get_all(b"Date").next().unwrap();
        let seconds = tutti_http::parse_date(date).unwrap();
        assert!(unix_seconds().abs_diff(seconds) <= 1);
    }

    #[test]
    fn only_the_configured_own_fields_are_added() {
        let own = OwnFields::new();
        for (server, date, names) in [
            (true, true, vec!["Server", "Date"]),
            (true, false, vec!["Server"]),
            (false, true, vec!["Date"]),
            (false, false, vec![]),
        ] {
            for shows_version in [true, false] {
                let mut fields = FieldLines::new();
                own.append(Own { server, date }, shows_version, &mut fields);
                let found: Vec<_> = fields.iter().map(|(name, _)| name).collect();
                let names: Vec<_> = names.iter().map(|name| name.as_bytes()).collect();
                assert_eq!(found, names);
            }
        }
    }
}
