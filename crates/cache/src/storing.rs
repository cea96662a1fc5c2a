//! The decision whether a response is stored, and how long it is used (RFC 9111 §3).

use tutti_http::FieldLines;

use crate::Millis;
use crate::directives::Directives;
use crate::freshness::{self, Freshness};

/// Statuses, for which the configuration says a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// The terms of the configuration for responses that tell none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Lifetimes in milliseconds; the first that has the status counts.
    pub valid: Vec<(StatusRange, Millis)>,
    /// They count whatever the response says.
    pub is_forced: bool,
    /// Where nothing else tells, a lifetime is guessed from `Last-Modified`.
    pub guesses: bool,
    /// `stale-while-revalidate`, in milliseconds.
    pub stale_while_revalidate: Millis,
    /// `stale-if-error`, in milliseconds.
    pub stale_if_error: Millis,
    /// A response is stored without its `Set-Cookie`.
    pub strips_cookies: bool,
}

/// A response with its times.
#[derive(Clone, Copy, Debug)]
pub struct TimedResponse<'a> {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: &'a FieldLines,
    /// When it was asked for.
    pub asked: Millis,
    /// When it came.
    pub received: Millis,
    /// The time of day then, in milliseconds since 1970: its dates are compared with it.
    pub time_of_day: Millis,
    /// The request had `Authorization`.
    pub is_authorized: bool,
    /// The request had cookies of which nobody has said that they do not matter.
    pub has_cookies: bool,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// It says so.
    NoStore,
    /// It is for one client.
    Private,
    /// It sets cookies.
    SetCookie,
    /// The request had `Authorization`, and it does not say that this does not matter.
    Authorization,
    /// The request had cookies, and it does not say itself how long others may have it.
    Cookie,
    /// Nobody can tell which requests it is for.
    Vary,
    /// Its status is that of a part, or one whose meaning has to be known.
    Status,
    /// Nobody says how long it may be used.
    NoLifetime,
    /// It is too large.
    Size,
    /// It leads to what the client gets.
    Elsewhere,
}

impl NotStored {
    /// A word for `Cache-Status`.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoStore => "no-store",
            Self::Private => "private",
            Self::SetCookie => "set-cookie",
            Self::Authorization => "authorization",
            Self::Cookie => "cookie",
            Self::Vary => "vary",
            Self::Status => "status",
            Self::NoLifetime => "no-lifetime",
            Self::Size => "size",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// Decides whether and how long a response to GET is used; `Vary` is not looked at.
pub fn judge(answer: &TimedResponse<'_>, defaults: &Defaults) -> Result<Freshness, NotStored> {
    let TimedResponse { status, fields, .. } = *answer;
    if fields.iter().any(|(name, _)| leads_on(name)) {
        return Err(NotStored::Elsewhere);
    }
    let directives = Directives::of(fields);
    let forced = valid(defaults, status).filter(|_| defaults.is_forced);
    if forced.is_none() {
        permitted(answer, &directives)?;
    }
    if !(200..600).contains(&status) || matches!(status, 206 | 304) {
        return Err(NotStored::Status);
    }
    if !defaults.strips_cookies && fields.get_all(b"Set-Cookie").next().is_some() {
        return Err(NotStored::SetCookie);
    }
    if answer.is_authorized && !directives.allows_authorized() {
        return Err(NotStored::Authorization);
    }
    let own = freshness::told(fields, &directives, answer.time_of_day);
    let own = own.filter(|_| forced.is_none());
    let lifetime = own
        .or_else(|| valid(defaults, status))
        .or_else(|| guess(answer, defaults))
        .ok_or(NotStored::NoLifetime)?;
    if own.is_none() && answer.has_cookies {
        return Err(NotStored::Cookie);
    }
    let is_strict = directives.must_revalidate || directives.s_maxage.is_some();
    let extra = |told: Option<u64>, otherwise| match told {
        Some(seconds) => seconds.saturating_mul(1000),
        None => otherwise,
    };
    let no_cache = directives.no_cache && forced.is_none();
    let freshness = Freshness {
        received: answer.received,
        initial_age: freshness::initial_age(
            fields,
            (answer.asked, answer.received),
            answer.time_of_day,
        ),
        lifetime,
        stale_while_revalidate: match directives.must_revalidate || no_cache {
            true => 0,
            false => extra(
                directives.stale_while_revalidate,
                defaults.stale_while_revalidate,
            ),
        },
        // `s-maxage` has the meaning of `proxy-revalidate` (RFC 9111 §5.2.2.10), unless the response says itself that it has not.
        stale_if_error: match directives.stale_if_error {
            Some(seconds) if !directives.must_revalidate && !no_cache => {
                seconds.saturating_mul(1000)
            }
            None if !is_strict && !no_cache => defaults.stale_if_error,
            _ => 0,
        },
        always_validates: no_cache,
        is_assumed: own.is_none(),
        allows_authorized: directives.allows_authorized(),
    };
    let is_of_use = freshness.last_use() > answer.received && !no_cache;
    if is_of_use || has_validator(fields) {
        return Ok(freshness);
    }
    Err(NotStored::NoLifetime)
}

/// True of fields by which an answer leads to what is sent in its place.
pub(crate) fn leads_on(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"X-Accel-Redirect") || name.eq_ignore_ascii_case(b"X-Sendfile")
}

/// Checks that the response itself forbids nothing.
fn permitted(answer: &TimedResponse<'_>, directives: &Directives) -> Result<(), NotStored> {
    let is_understood = is_understood(answer.status);
    if directives.must_understand {
        // Where it is understood, `no-store` is there for caches that do not know the directive.
        if !is_understood {
            return Err(NotStored::Status);
        }
    } else if directives.no_store {
        return Err(NotStored::NoStore);
    }
    if directives.private {
        return Err(NotStored::Private);
    }
    Ok(())
}

/// True of statuses whose meaning for a cache is known here (RFC 9110 §15): they are final and have no part in a negotiation.
fn is_understood(status: u16) -> bool {
    matches!(
        status,
        200 | 203 | 204 | 300 | 301 | 302 | 303 | 307 | 308 | 400..=405 | 410 | 414 | 500..=504
    )
}

fn has_validator(fields: &FieldLines) -> bool {
    fields.get_all(b"ETag").next().is_some() || fields.get_all(b"Last-Modified").next().is_some()
}

/// The lifetime that the configuration has for a status.
fn valid(defaults: &Defaults, status: u16) -> Option<Millis> {
    let has_it = |(range, _): &&(StatusRange, Millis)| (range.first..=range.last).contains(&status);
    defaults.valid.iter().find(has_it).map(|(_, time)| *time)
}

/// Only for statuses that RFC 9110 §15.1 lets be guessed for.
fn guess(answer: &TimedResponse<'_>, defaults: &Defaults) -> Option<Millis> {
    let may = matches!(
        answer.status,
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    );
    if !may || !defaults.guesses {
        return None;
    }
    freshness::guessed(answer.fields, answer.time_of_day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Use;

    const NOW: Millis = 1_700_000_000_000;
    const DATE: (&str, &str) = ("Date", "Tue, 14 Nov 2023 22:13:20 GMT");

    fn judged(
        status: u16,
        lines: &[(&str, &str)],
        defaults: &Defaults,
    ) -> Result<Freshness, NotStored> {
        let lines = lines.iter();
        let fields = lines.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let answer = TimedResponse {
            status,
            fields: &fields.collect(),
            asked: NOW - 500,
            received: NOW,
            time_of_day: NOW,
            is_authorized: false,
            has_cookies: false,
        };
        judge(&answer, defaults)
    }

    fn told(lines: &[(&str, &str)]) -> Result<Freshness, NotStored> {
        judged(200, lines, &Defaults::default())
    }

    #[test]
    fn lifetimes_come_from_the_response() {
        let control = |value| told(&[("Cache-Control", value)]);
        assert_eq!(control("max-age=5").unwrap().lifetime, 5000);
        assert_eq!(control("max-age=5, s-maxage=9").unwrap().lifetime, 9000);
        let expires = told(&[DATE, ("Expires", "Tue, 14 Nov 2023 22:14:20 GMT")]);
        assert_eq!(expires.unwrap().lifetime, 60_000);
        for past in ["0", "Tue, 14 Nov 2023 22:13:19 GMT", "soon"] {
            let old = told(&[DATE, ("Expires", past)]);
            assert_eq!(old, Err(NotStored::NoLifetime), "{past}");
        }
        assert_eq!(told(&[("ETag", "\"a\"")]), Err(NotStored::NoLifetime));
        let always = "no-cache, max-age=5";
        assert_eq!(control(always), Err(NotStored::NoLifetime));
        let tagged = told(&[("Cache-Control", always), ("ETag", "\"a\"")]);
        assert!(tagged.unwrap().always_validates);
    }

    #[test]
    fn a_response_that_is_old_when_it_comes_is_not_fresh_for_long() {
        let aged = told(&[("Cache-Control", "max-age=60"), ("Age", "50")]).unwrap();
        // With the time that it was on its way.
        assert_eq!(aged.initial_age, 50_500);
        assert_eq!(aged.usage(NOW + 9_000), Use::Fresh);
        assert_eq!(aged.usage(NOW + 10_000), Use::Validate);
        let date = ("Date", "Tue, 14 Nov 2023 22:13:00 GMT");
        let dated = told(&[("Cache-Control", "max-age=60"), date]);
        assert_eq!(dated.unwrap().initial_age, 20_000);
    }

    #[test]
    fn times_of_the_configuration_are_for_responses_that_tell_none() {
        let range = |first, last| StatusRange { first, last };
        let mut defaults = Defaults {
            valid: vec![(range(404, 404), 1000), (range(200, 599), 2000)],
            stale_if_error: 7000,
            ..Defaults::default()
        };
        assert_eq!(judged(404, &[], &defaults).unwrap().lifetime, 1000);
        let assumed = judged(200, &[], &defaults).unwrap();
        assert!(assumed.is_assumed && assumed.serves_errors(NOW + 8000));
        assert!(!assumed.serves_errors(NOW + 9000));
        let own = judged(200, &[("Cache-Control", "max-age=9")], &defaults).unwrap();
        assert!(own.lifetime == 9000 && !own.is_assumed);
        let strict = [("Cache-Control", "max-age=9, must-revalidate")];
        let strict = judged(200, &strict, &defaults).unwrap();
        assert!(!strict.serves_errors(NOW + 9000));
        let forbidden = [("Cache-Control", "no-store")];
        assert_eq!(judged(200, &forbidden, &defaults), Err(NotStored::NoStore));
        assert_eq!(judged(206, &[], &defaults), Err(NotStored::Status));
        defaults.is_forced = true;
        assert_eq!(judged(200, &forbidden, &defaults).unwrap().lifetime, 2000);
        let cookie = [("Set-Cookie", "a=1")];
        assert_eq!(judged(200, &cookie, &defaults), Err(NotStored::SetCookie));
    }

    #[test]
    fn a_status_must_be_understood_where_the_response_says_so() {
        let fields = [("Cache-Control", "max-age=9, must-understand, no-store")];
        let defaults = Defaults::default();
        assert!(judged(200, &fields, &defaults).is_ok());
        assert_eq!(judged(299, &fields, &defaults), Err(NotStored::Status));
    }

    #[test]
    fn lifetimes_are_guessed_only_if_that_is_wished() {
        let fields = [DATE, ("Last-Modified", "Tue, 14 Nov 2023 22:11:40 GMT")];
        assert_eq!(told(&fields), Err(NotStored::NoLifetime));
        let defaults = Defaults {
            guesses: true,
            ..Defaults::default()
        };
        assert_eq!(judged(200, &fields, &defaults).unwrap().lifetime, 10_000);
        assert_eq!(judged(500, &fields, &defaults), Err(NotStored::NoLifetime));
    }
}
