//! `Cache-Control` of a response (RFC 9111 §5.2.2), and its variants for one kind of cache (RFC 9213).

use tutti_http::FieldLines;

/// The upper bound of a time in a directive: 2^31 seconds (RFC 9111 §1.2.2).
const LONGEST: u64 = 1 << 31;

/// Fields for a cache in front of an origin, the most specific first (RFC 9213 §2.1). If one is present, it replaces `Cache-Control` and
/// `Expires`.
const TARGETED: &[u8] = b"CDN-Cache-Control";

/// The directives of a response, as far as a shared cache acts on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// Nothing may be stored.
    pub no_store: bool,
    /// Every use must be validated. `no-cache` with field names counts as one without.
    pub no_cache: bool,
    /// Not for a shared cache. `private` with field names counts as one without.
    pub private: bool,
    /// Any cache may store it, even if the request had `Authorization`.
    pub public: bool,
    /// Never used stale. `proxy-revalidate` means the same to a shared cache.
    pub must_revalidate: bool,
    /// Stored only if the meaning of the status is known (RFC 9111 §5.2.2.3).
    pub must_understand: bool,
    /// `max-age`, in seconds.
    pub max_age: Option<u64>,
    /// `s-maxage`, in seconds.
    pub s_maxage: Option<u64>,
    /// `stale-while-revalidate`, in seconds (RFC 5861 §3).
    pub stale_while_revalidate: Option<u64>,
    /// `stale-if-error`, in seconds (RFC 5861 §4).
    pub stale_if_error: Option<u64>,
    /// The directives come from a field for this kind of cache, so `Expires` is ignored.
    pub is_targeted: bool,
}

impl Directives {
    /// Reads the directives of a response with these fields.
    pub fn of(fields: &FieldLines) -> Self {
        let mut directives = Self::default();
        for value in fields.get_all(TARGETED) {
            directives.is_targeted |= !value.trim_ascii().is_empty();
            directives.read(value);
        }
        if directives.is_targeted {
            return directives;
        }
        let mut directives = Self::default();
        for value in fields.get_all(b"Cache-Control") {
            directives.read(value);
        }
        directives
    }

    /// The lifetime for a shared cache, in seconds.
    pub fn lifetime(&self) -> Option<u64> {
        self.s_maxage.or(self.max_age)
    }

    /// True if the response to a request with `Authorization` may be stored (RFC 9111 §3.5).
    pub fn allows_authorized(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage.is_some()
    }

    fn read(&mut self, value: &[u8]) {
        for member in members(value) {
            let (name, argument) = split(member);
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            if is("no-store") {
                self.no_store = true;
            } else if is("no-cache") {
                self.no_cache = true;
            } else if is("private") {
                self.private = true;
            } else if is("public") {
                self.public = true;
            } else if is("must-revalidate") || is("proxy-revalidate") {
                self.must_revalidate = true;
            } else if is("must-understand") {
                self.must_understand = true;
            } else if is("max-age") {
                lower(&mut self.max_age, argument);
            } else if is("s-maxage") {
                lower(&mut self.s_maxage, argument);
            } else if is("stale-while-revalidate") {
                lower(&mut self.stale_while_revalidate, argument);
            } else if is("stale-if-error") {
                lower(&mut self.stale_if_error, argument);
            }
        }
    }
}

/// True if `Cache-Control` of a request has `no-store` (RFC 9111 §5.2.1.5).
pub fn asks_not_to_store<'v>(values: impl Iterator<Item = &'v [u8]>) -> bool {
    values
        .flat_map(members)
        .any(|member| member.eq_ignore_ascii_case(b"no-store"))
}

/// Keeps the shorter of the known time and this one; an argument that is not a number counts as 0 (RFC 9111 §4.2.1).
fn lower(time: &mut Option<u64>, argument: Option<&[u8]>) {
    let seconds = argument.and_then(seconds).unwrap_or(0);
    *time = Some(time.map_or(seconds, |known| known.min(seconds)));
}

/// A number of seconds (RFC 9111 §1.2.2).
pub(crate) fn seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |number: u64, digit: &u8| {
        let number = number.saturating_mul(10);
        number.saturating_add(u64::from(digit - b'0'))
    };
    Some(text.iter().fold(0, add).min(LONGEST))
}

/// Returns the name and the argument without its quotes.
fn split(member: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(at) = memchr::memchr(b'=', member) else {
        return (member, None);
    };
    let (name, argument) = member.split_at(at);
    let argument = argument.get(1..).unwrap_or_default();
    let unquoted = argument
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    (name, Some(unquoted.unwrap_or(argument)))
}

/// The members of a list; a comma within quotes does not separate.
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let parts = value.split(move |&byte| {
        if is_escaped {
            is_escaped = false;
            return false;
        }
        match byte {
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ => {}
        }
        byte == b',' && !is_quoted
    });
    parts
        .map(<[u8]>::trim_ascii)
        .filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[(&str, &str)]) -> Directives {
        let lines = lines.iter();
        Directives::of(
            &lines
                .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
                .collect(),
        )
    }

    fn control(value: &str) -> Directives {
        of(&[("Cache-Control", value)])
    }

    #[test]
    fn directives_are_read_in_every_case_and_form() {
        assert_eq!(control("MAX-AGE=5, Public").max_age, Some(5));
        assert_eq!(control("max-age=\"5\"").max_age, Some(5));
        assert_eq!(control(" , max-age=5 ,, ").max_age, Some(5));
        assert_eq!(
            control("max-age=99999999999999999999").max_age,
            Some(LONGEST)
        );
        assert!(control("proxy-revalidate").must_revalidate);
        assert!(control("no-cache=\"set-cookie, x\", max-age=5").no_cache);
        assert_eq!(
            control("no-cache=\"a, max-age=1\", max-age=5").max_age,
            Some(5)
        );
        assert!(control("x=\"\\\", no-store\"") == Directives::default());
        let two = of(&[
            ("Cache-Control", "max-age=7"),
            ("cache-control", "no-store"),
        ]);
        assert!(two.no_store && two.max_age == Some(7));
    }

    #[test]
    fn a_lifetime_that_cannot_be_read_is_none() {
        for value in [
            "max-age=a",
            "max-age=-1",
            "max-age=1.5",
            "max-age",
            "max-age=",
        ] {
            assert_eq!(control(value).max_age, Some(0), "{value}");
        }
        assert_eq!(control("max-age=10, max-age=5").max_age, Some(5));
        assert_eq!(control("xmax-age=5").max_age, None);
        assert_eq!(control("max-age=100, s-maxage=5").lifetime(), Some(5));
    }

    #[test]
    fn a_field_for_this_kind_of_cache_replaces_the_general_one() {
        let both = of(&[
            ("Cache-Control", "no-store"),
            ("CDN-Cache-Control", "max-age=9"),
        ]);
        assert!(!both.no_store && both.is_targeted);
        assert_eq!(both.lifetime(), Some(9));
        let empty = of(&[("Cache-Control", "no-store"), ("CDN-Cache-Control", "")]);
        assert!(empty.no_store && !empty.is_targeted);
    }

    #[test]
    fn a_request_may_ask_not_to_be_stored() {
        let values = [&b"max-age=0, No-Store"[..]];
        assert!(asks_not_to_store(values.into_iter()));
        assert!(!asks_not_to_store([&b"no-cache"[..]].into_iter()));
    }
}
