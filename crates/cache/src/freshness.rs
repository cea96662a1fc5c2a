//! The age of a stored response, and how it may be used at that age (RFC 9111 §4.2, RFC 5861).

use tutti_http::{FieldLines, parse_date};

use crate::Millis;
use crate::directives::{Directives, seconds};

/// The permitted use of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Without validation.
    Fresh,
    /// Without validation, while a newer response is fetched.
    WhileRevalidating,
    /// Only after validation.
    Validate,
}

/// The times that decide how a response may be used, none of them a time of day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// When the response arrived.
    pub received: Millis,
    /// Its age when it arrived, in milliseconds.
    pub initial_age: Millis,
    /// Its lifetime.
    pub lifetime: Millis,
    /// The time after its lifetime in which it may be used while it is validated.
    pub stale_while_revalidate: Millis,
    /// The time after its lifetime in which it may be used if validation fails.
    pub stale_if_error: Millis,
    /// Every use must be validated.
    pub always_validates: bool,
    /// The lifetime comes from the configuration or a heuristic, not from the response.
    pub is_assumed: bool,
    /// It may answer a request with `Authorization`.
    pub allows_authorized: bool,
}

impl Freshness {
    /// The current age in milliseconds (RFC 9111 §4.2.3).
    pub fn age(&self, now: Millis) -> Millis {
        self.initial_age
            .saturating_add(now.saturating_sub(self.received))
    }

    /// The remaining lifetime in milliseconds; negative if stale.
    pub fn remaining(&self, now: Millis) -> i64 {
        let signed = |time: Millis| i64::try_from(time).unwrap_or(i64::MAX);
        signed(self.lifetime).saturating_sub(signed(self.age(now)))
    }

    /// Returns how it may be used now.
    pub fn usage(&self, now: Millis) -> Use {
        if self.always_validates {
            return Use::Validate;
        }
        let age = self.age(now);
        if age < self.lifetime {
            return Use::Fresh;
        }
        if age < self.lifetime.saturating_add(self.stale_while_revalidate) {
            return Use::WhileRevalidating;
        }
        Use::Validate
    }

    /// True if it may be sent in place of an error of the origin.
    pub fn serves_errors(&self, now: Millis) -> bool {
        self.age(now) < self.lifetime.saturating_add(self.stale_if_error)
    }

    /// Makes the response stale, because its age is unknown.
    pub(crate) fn expire(&mut self, now: Millis) {
        let beyond = self.stale_while_revalidate.max(self.stale_if_error);
        self.received = now;
        self.initial_age = self.initial_age.max(self.lifetime.saturating_add(beyond));
    }

    /// The time after which it cannot be used without validation.
    pub fn last_use(&self) -> Millis {
        let beyond = self.stale_while_revalidate.max(self.stale_if_error);
        let whole = self.lifetime.saturating_add(beyond);
        self.received
            .saturating_add(whole.saturating_sub(self.initial_age))
    }
}

/// The age of a response when it arrives, in milliseconds (RFC 9111 §4.2.3): the greater of its `Age`, corrected by the response delay, and
/// the age by its `Date`.
///
/// `exchange` holds the times of the request and of the response; `time_of_day` is the time of day of the latter.
pub(crate) fn initial_age(
    fields: &FieldLines,
    exchange: (Millis, Millis),
    time_of_day: Millis,
) -> Millis {
    let (asked, received) = exchange;
    let date = fields.get_all(b"Date").next().and_then(parse_date);
    let apparent = date.map_or(0, |date| {
        // Dates have whole seconds.
        (time_of_day / 1000)
            .saturating_sub(date)
            .saturating_mul(1000)
    });
    // The first of several members counts; an invalid one is ignored.
    let stated = fields.get_all(b"Age").next().and_then(|age| {
        let first = age.split(|&byte| byte == b',').next()?;
        seconds(first.trim_ascii())
    });
    let delay = received.saturating_sub(asked);
    let stated = stated.map_or(0, |age| age.saturating_mul(1000).saturating_add(delay));
    apparent.max(stated)
}

/// The lifetime that the response itself states, in milliseconds.
pub(crate) fn stated_lifetime(
    fields: &FieldLines,
    directives: &Directives,
    time_of_day: Millis,
) -> Option<Millis> {
    if let Some(seconds) = directives.lifetime() {
        return Some(seconds.saturating_mul(1000));
    }
    if directives.is_targeted {
        return None;
    }
    let mut expires = fields.get_all(b"Expires");
    let first = expires.next()?;
    // An invalid date, or several that differ, means "in the past" (RFC 9111 §5.3).
    let until = parse_date(first).filter(|_| expires.all(|other| other == first));
    let date = fields.get_all(b"Date").next().and_then(parse_date);
    let from = date.unwrap_or(time_of_day / 1000);
    let seconds = until.map_or(0, |until| until.saturating_sub(from));
    Some(seconds.saturating_mul(1000))
}

/// The heuristic lifetime of a response that states none: a tenth of the time since it was modified (RFC 9111 §4.2.2), at most a day.
pub(crate) fn heuristic_lifetime(fields: &FieldLines, time_of_day: Millis) -> Option<Millis> {
    const MOST: Millis = 24 * 60 * 60 * 1000;
    let modified = fields
        .get_all(b"Last-Modified")
        .next()
        .and_then(parse_date)?;
    let date = fields.get_all(b"Date").next().and_then(parse_date);
    let unchanged = date.unwrap_or(time_of_day / 1000).checked_sub(modified)?;
    Some((unchanged.saturating_mul(1000) / 10).min(MOST))
}
