//! Decides whether a response is stored, and how long it may be used (RFC 9111 §3).

use tutti_http::FieldLines;

use crate::Millis;
use crate::directives::Directives;
use crate::freshness::{self, Freshness};

/// A range of statuses for which the configuration sets a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// The configured defaults for responses without a lifetime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Lifetimes in milliseconds; the first range that contains the status counts.
    pub valid: Vec<(StatusRange, Millis)>,
    /// They override the lifetime in the response.
    pub is_forced: bool,
    /// Without any other lifetime, one is derived from `Last-Modified`.
    pub guesses: bool,
    /// `stale-while-revalidate`, in milliseconds.
    pub stale_while_revalidate: Millis,
    /// `stale-if-error`, in milliseconds.
    pub stale_if_error: Millis,
    /// `Set-Cookie` is removed from stored responses.
    pub strips_cookies: bool,
}

/// A response with its times.
#[derive(Clone, Copy, Debug)]
pub struct TimedResponse<'a> {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: &'a FieldLines,
    /// When it was requested.
    pub asked: Millis,
    /// When it arrived.
    pub received: Millis,
    /// The time of day when it arrived, in milliseconds since 1970: its dates are compared with it.
    pub time_of_day: Millis,
    /// The request had `Authorization`.
    pub is_authorized: bool,
    /// The request had cookies, and the configuration does not say that they do not matter.
    pub has_cookies: bool,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// It has `no-store`.
    NoStore,
    /// It has `private`.
    Private,
    /// It sets cookies.
    SetCookie,
    /// The request had `Authorization`, and the response does not permit that.
    Authorization,
    /// The request had cookies, and the response does not state its own lifetime.
    Cookie,
    /// `Vary` cannot be matched against other requests.
    Vary,
    /// It is a partial response, or its status has to be understood and is not.
    Status,
    /// Neither the response nor the configuration gives a lifetime.
    NoLifetime,
    /// It is too large.
    Size,
    /// It is an internal redirect.
    Elsewhere,
}

impl NotStored {
    /// The reason for `Cache-Status`.
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

/// Decides whether a response to GET is stored and how long it may be used; does not check `Vary`.
pub fn judge(answer: &TimedResponse<'_>, defaults: &Defaults) -> Result<Freshness, NotStored> {
    let TimedResponse { status, fields, .. } = *answer;
    if fields.iter().any(|(name, _)| is_internal_redirect(name)) {
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
    let own = freshness::stated_lifetime(fields, &directives, answer.time_of_day);
    let own = own.filter(|_| forced.is_none());
    let lifetime = own
        .or_else(|| valid(defaults, status))
        .or_else(|| guess(answer, defaults))
        .ok_or(NotStored::NoLifetime)?;
    if own.is_none() && answer.has_cookies {
        return Err(NotStored::Cookie);
    }
    let is_strict = directives.must_revalidate || directives.s_maxage.is_some();
    let extra = |stated: Option<u64>, otherwise| match stated {
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
        // `s-maxage` implies `proxy-revalidate` (RFC 9111 §5.2.2.10), unless the response has `stale-if-error`.
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

/// True for fields that make a response an internal redirect.
pub(crate) fn is_internal_redirect(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"X-Accel-Redirect") || name.eq_ignore_ascii_case(b"X-Sendfile")
}

/// Checks that the response itself does not forbid storing.
fn permitted(answer: &TimedResponse<'_>, directives: &Directives) -> Result<(), NotStored> {
    let is_understood = is_understood(answer.status);
    if directives.must_understand {
        // With `must-understand`, `no-store` is for caches that do not know that directive.
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

/// True for statuses whose caching rules are implemented here (RFC 9110 §15): final ones that take no part in a negotiation.
fn is_understood(status: u16) -> bool {
    matches!(
        status,
        200 | 203 | 204 | 300 | 301 | 302 | 303 | 307 | 308 | 400..=405 | 410 | 414 | 500..=504
    )
}

fn has_validator(fields: &FieldLines) -> bool {
    fields.get_all(b"ETag").next().is_some() || fields.get_all(b"Last-Modified").next().is_some()
}

/// The configured lifetime for a status.
fn valid(defaults: &Defaults, status: u16) -> Option<Millis> {
    let has_it = |(range, _): &&(StatusRange, Millis)| (range.first..=range.last).contains(&status);
    defaults.valid.iter().find(has_it).map(|(_, time)| *time)
}

/// Returns a heuristic lifetime, for statuses that permit one (RFC 9110 §15.1).
fn guess(answer: &TimedResponse<'_>, defaults: &Defaults) -> Option<Millis> {
    let may = matches!(
        answer.status,
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    );
    if !may || !defaults.guesses {
        return None;
    }
    freshness::heuristic_lifetime(answer.fields, answer.time_of_day)
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

    fn judged_200(lines: &[(&str, &str)]) -> Result<Freshness, NotStored> {
        judged(200, lines, &Defaults::default())
    }

    #[test]
    fn lifetimes_come_from_the_response() {
        let control = |value| judged_200(&[("Cache-Control", value)]);
        assert_eq!(control("max-age=5").unwrap().lifetime, 5000);
        assert_eq!(control("max-age=5, s-maxage=9").unwrap().lifetime, 9000);
        let expires = judged_200(&[DATE, ("Expires", "Tue, 14 Nov 2023 22:14:20 GMT")]);
        assert_eq!(expires.unwrap().lifetime, 60_000);
        for past in ["0", "Tue, 14 Nov 2023 22:13:19 GMT", "soon"] {
            let old = judged_200(&[DATE, ("Expires", past)]);
            assert_eq!(old, Err(NotStored::NoLifetime), "{past}");
        }
        assert_eq!(judged_200(&[("ETag", "\"a\"")]), Err(NotStored::NoLifetime));
        let always = "no-cache, max-age=5";
        assert_eq!(control(always), Err(NotStored::NoLifetime));
        let tagged = judged_200(&[("Cache-Control", always), ("ETag", "\"a\"")]);
        assert!(tagged.unwrap().always_validates);
    }

    #[test]
    fn a_response_that_is_old_when_it_comes_is_not_fresh_for_long() {
        let aged = judged_200(&[("Cache-Control", "max-age=60"), ("Age", "50")]).unwrap();
        // Includes the response delay.
        assert_eq!(aged.initial_age, 50_500);
        assert_eq!(aged.usage(NOW + 9_000), Use::Fresh);
        assert_eq!(aged.usage(NOW + 10_000), Use::Validate);
        let date = ("Date", "Tue, 14 Nov 2023 22:13:00 GMT");
        let dated = judged_200(&[("Cache-Control", "max-age=60"), date]);
        assert_eq!(dated.unwrap().initial_age, 20_000);
    }

    #[test]
    fn configured_lifetimes_are_for_responses_without_one() {
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
    fn heuristic_lifetimes_are_used_only_if_configured() {
        let fields = [DATE, ("Last-Modified", "Tue, 14 Nov 2023 22:11:40 GMT")];
        assert_eq!(judged_200(&fields), Err(NotStored::NoLifetime));
        let defaults = Defaults {
            guesses: true,
            ..Defaults::default()
        };
        assert_eq!(judged(200, &fields, &defaults).unwrap().lifetime, 10_000);
        assert_eq!(judged(500, &fields, &defaults), Err(NotStored::NoLifetime));
    }
}
