//! The age of a stored response and how it may be used for that (RFC 9111 §4.2, RFC 5861).

use tutti_http::{FieldLines, parse_date};

use crate::Millis;
use crate::directives::{Directives, seconds};

/// The way a stored response may be used at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// As it is.
    Fresh,
    /// As it is, while somebody asks for a newer one.
    WhileRevalidating,
    /// Not before it is validated.
    Validate,
}

/// All times that tell how a response may be used, none of them a time of day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// When it came.
    pub received: Millis,
    /// Its age at that time, in milliseconds.
    pub initial_age: Millis,
    /// Milliseconds that it is fresh.
    pub lifetime: Millis,
    /// Milliseconds beyond that it is used while it is validated.
    pub stale_while_revalidate: Millis,
    /// Milliseconds beyond that it is used where validation fails.
    pub stale_if_error: Millis,
    /// Every use is validated.
    pub always_validates: bool,
    /// The lifetime is the configuration's or a guess: the response itself says none.
    pub is_assumed: bool,
    /// It may be an answer to a request with `Authorization`.
    pub allows_authorized: bool,
}

impl Freshness {
    /// Its age in milliseconds (RFC 9111 §4.2.3).
    pub fn age(&self, now: Millis) -> Millis {
        self.initial_age
            .saturating_add(now.saturating_sub(self.received))
    }

    /// Milliseconds that it is still fresh; negative where it is not.
    pub fn remaining(&self, now: Millis) -> i64 {
        let signed = |time: Millis| i64::try_from(time).unwrap_or(i64::MAX);
        signed(self.lifetime).saturating_sub(signed(self.age(now)))
    }

    /// The way it may be used.
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

    /// True if it may stand in for an answer that failed.
    pub fn serves_errors(&self, now: Millis) -> bool {
        self.age(now) < self.lifetime.saturating_add(self.stale_if_error)
    }

    /// Makes it as old as one that has to be validated: nothing is known of its age.
    pub(crate) fn expire(&mut self, now: Millis) {
        let beyond = self.stale_while_revalidate.max(self.stale_if_error);
        self.received = now;
        self.initial_age = self.initial_age.max(self.lifetime.saturating_add(beyond));
    }

    /// Until when it is of use without being validated.
    pub fn last_use(&self) -> Millis {
        let beyond = self.stale_while_revalidate.max(self.stale_if_error);
        let whole = self.lifetime.saturating_add(beyond);
        self.received
            .saturating_add(whole.saturating_sub(self.initial_age))
    }
}

/// The age of a response when it comes, in milliseconds (RFC 9111 §4.2.3): the greater of what it says and what its date says.
///
/// It was asked for and came at the two times of `exchange`, the second of which was this `time_of_day`.
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
    // Of several members the first counts; one that cannot be read does not.
    let told = fields.get_all(b"Age").next().and_then(|age| {
        let first = age.split(|&byte| byte == b',').next()?;
        seconds(first.trim_ascii())
    });
    let delay = received.saturating_sub(asked);
    let told = told.map_or(0, |age| age.saturating_mul(1000).saturating_add(delay));
    apparent.max(told)
}

/// The lifetime that a response tells itself, in milliseconds.
pub(crate) fn told(
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
    // One that is no date is in the past (RFC 9111 §5.3), and so is one of several that differ.
    let until = parse_date(first).filter(|_| expires.all(|other| other == first));
    let date = fields.get_all(b"Date").next().and_then(parse_date);
    let from = date.unwrap_or(time_of_day / 1000);
    let seconds = until.map_or(0, |until| until.saturating_sub(from));
    Some(seconds.saturating_mul(1000))
}

/// A guess for a response that tells none: a tenth of the time since it was changed (RFC 9111 §4.2.2), a day at most.
pub(crate) fn guessed(fields: &FieldLines, time_of_day: Millis) -> Option<Millis> {
    const MOST: Millis = 24 * 60 * 60 * 1000;
    let modified = fields
        .get_all(b"Last-Modified")
        .next()
        .and_then(parse_date)?;
    let date = fields.get_all(b"Date").next().and_then(parse_date);
    let unchanged = date.unwrap_or(time_of_day / 1000).checked_sub(modified)?;
    Some((unchanged.saturating_mul(1000) / 10).min(MOST))
}
