//! When an order is due. Times are seconds since 1970; no I/O.
//!
//! Must never happen: that a clock that is set back or forward prevents a renewal forever, or causes repeated orders.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use crate::documents::{CertificateDocument, Issued};

/// Certificates with a shorter life are renewed halfway through it, because a failure leaves little time (Let's
/// Encrypt, "Decreasing Certificate Lifetimes").
const SHORT_LIFE: i64 = 10 * 86_400;

/// The last part of a life, for which an authority's suggestion is ignored: a twentieth.
const LAST_PART: i64 = 20;

/// After a renewal that the authority suggested, its next suggestion waits for this part of a life, at most a day: a twentieth.
/// Otherwise an authority whose suggestions are always in the past would be sent orders without end.
const FIRST_PART: i64 = 20;
const LONGEST_FIRST_PART: i64 = 86_400;

/// A certificate of which only the expiry is known is renewed this long before it.
pub(crate) const LAST_MONTH: i64 = 30 * 86_400;

/// Pause after the first failure; doubled each time. Let's Encrypt allows five failures of a name per hour.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_secs(300);

pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(86_400);

/// Longest pause that an authority may request: a week is the window of the longest limits.
pub(crate) const LONGEST_ASKED: Duration = Duration::from_secs(7 * 86_400);

/// Limits for the time after which the authority is asked for a suggestion again, which it sets itself (RFC 9773
/// §4.3.2).
const ADVICE: (i64, i64) = (60, 86_400);

/// Returns a fraction from 0 to 1 that is constant for a value and differs between values, so that certificates
/// obtained together are not renewed together.
pub(crate) fn fraction(thing: &impl Hash) -> f64 {
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    let number = u32::try_from(hasher.finish() >> 32).unwrap_or_default();
    f64::from(number) / f64::from(u32::MAX)
}

/// Returns a fraction of a number of seconds.
fn share(seconds: i64, fraction: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a part of a number of seconds"
    )]
    let part = (seconds as f64 * fraction) as i64;
    part
}

/// Returns when a certificate should be renewed: when its authority suggests it, or else after two thirds of its life,
/// some earlier than others.
pub(crate) fn renewal(issued: &Issued, bundle: &str) -> i64 {
    let Some(advised) = issued.advised else {
        return own_renewal(issued, bundle);
    };
    let life = life(issued);
    let advised = advised.min(issued.until - life / LAST_PART);
    match issued.was_advised {
        true => advised.max(issued.since + (life / FIRST_PART).min(LONGEST_FIRST_PART)),
        false => advised,
    }
}

/// True if this certificate is renewed now only because its authority suggests it.
pub(crate) fn is_advised(issued: &Issued, bundle: &str, now: i64) -> bool {
    renewal(issued, bundle) <= now && now < own_renewal(issued, bundle)
}

fn life(issued: &Issued) -> i64 {
    (issued.until - issued.since).max(0)
}

/// Returns when a certificate is renewed if its authority suggests nothing.
fn own_renewal(issued: &Issued, bundle: &str) -> i64 {
    let life = life(issued);
    let part = if life <= SHORT_LIFE {
        life / 2
    } else {
        life * 2 / 3
    };
    let jitter = share(life / LAST_PART, fraction(&(bundle, issued.until)));
    issued.since + part - jitter
}

/// Returns a time in the window that an authority suggests.
pub(crate) fn advised(start: i64, end: i64, bundle: &str) -> i64 {
    start + share((end - start).max(0), fraction(&(bundle, start, end)))
}

/// Returns how long a suggestion is valid.
pub(crate) fn advice_holds(delay: Duration) -> i64 {
    let delay = i64::try_from(delay.as_secs()).unwrap_or(i64::MAX);
    delay.clamp(ADVICE.0, ADVICE.1)
}

/// Returns the pause after this many failures, considering the authority's request.
pub(crate) fn pause(
    first: Duration,
    failures: u32,
    asked: Option<Duration>,
    bundle: &str,
) -> Duration {
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(16));
    let pause = doubled.min(LONGEST_PAUSE);
    let jitter = pause.mul_f64(fraction(&(bundle, failures)) / 10.0);
    let asked = asked.unwrap_or_default().min(LONGEST_ASKED);
    (pause + jitter).max(asked)
}

/// Returns when an order for a certificate is due. `stored`: the expiry of the existing one.
pub(crate) fn due(
    document: &CertificateDocument,
    bundle: &str,
    stored: Option<&Issued>,
    now: i64,
) -> i64 {
    let wanted = stored.map_or(now, |issued| renewal(issued, bundle));
    let Some(until) = document.retry_at else {
        return wanted;
    };
    // No pause is longer: otherwise the clock has been set back.
    let longest = i64::try_from(LONGEST_ASKED.as_secs()).unwrap_or(i64::MAX) * 11 / 10;
    let is_sound = until <= now.saturating_add(longest);
    if is_sound {
        wanted.max(until)
    } else {
        wanted.max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    fn issued(days: i64) -> Issued {
        Issued {
            since: 1_000_000,
            until: 1_000_000 + days * DAY,
            ..Issued::default()
        }
    }

    #[test]
    fn renewal_is_at_two_thirds_or_at_half_of_a_short_life() {
        for (days, least, most) in [(90, 55, 60), (64, 39, 43), (10, 4, 5), (6, 2, 3)] {
            for bundle in ["a", "b", "c", "d"] {
                let at = renewal(&issued(days), bundle) - 1_000_000;
                assert!(
                    (least * DAY..=most * DAY).contains(&at),
                    "{days} {bundle} {at}"
                );
            }
        }
        // Not all at once.
        assert_ne!(renewal(&issued(90), "a"), renewal(&issued(90), "b"));
    }

    #[test]
    fn the_authority_s_advice_goes_first_but_not_into_the_last_days() {
        let mut certificate = issued(90);
        certificate.advised = Some(1_000_000 + 3 * DAY);
        assert_eq!(renewal(&certificate, "a"), 1_000_000 + 3 * DAY);
        certificate.advised = Some(1_000_000 + 900 * DAY);
        assert!(renewal(&certificate, "a") < 1_000_000 + 86 * DAY);
        // A certificate that was obtained by such a suggestion lives a day, or a twentieth of a short life.
        for (days, hours) in [(90, 24), (5, 6)] {
            let mut certificate = issued(days);
            certificate.advised = Some(0);
            assert_eq!(renewal(&certificate, "a"), 0);
            assert!(is_advised(&certificate, "a", 1_000_000));
            assert!(!is_advised(&certificate, "a", 1_000_000 + 70 * DAY));
            certificate.was_advised = true;
            assert_eq!(renewal(&certificate, "a"), 1_000_000 + hours * 3600);
            certificate.advised = None;
            assert!(!is_advised(&certificate, "a", 1_000_000));
        }
        let at = advised(100, 200, "a");
        assert!((100..=200).contains(&at));
        assert_eq!(advised(200, 100, "a"), 200);
    }

    #[test]
    fn pauses_double_and_end_and_the_authority_may_ask_for_more() {
        let of = |failures| pause(FIRST_PAUSE, failures, None, "a").as_secs();
        assert!((300..=330).contains(&of(1)));
        assert!((600..=660).contains(&of(2)));
        assert!((86_400..=95_040).contains(&of(40)));
        let asked = Some(Duration::from_secs(9999));
        assert_eq!(pause(FIRST_PAUSE, 1, asked, "a").as_secs(), 9999);
        let absurd = Some(Duration::from_secs(u64::MAX));
        assert_eq!(pause(FIRST_PAUSE, 1, absurd, "a"), LONGEST_ASKED);
    }

    #[test]
    fn a_clock_that_jumps_neither_stops_nor_repeats_anything() {
        let mut document = CertificateDocument {
            issued: Some(issued(90)),
            ..CertificateDocument::default()
        };
        let now = 1_000_000 + DAY;
        assert!(due(&document, "a", document.issued.as_ref(), now) > now);
        // It no longer exists, whatever the document says.
        assert_eq!(due(&document, "a", None, now), now);
        // A failure causes a pause.
        document.issued = None;
        document.retry_at = Some(now + 300);
        assert_eq!(due(&document, "a", None, now), now + 300);
        // Recorded by a clock that was years ahead: ignored.
        document.retry_at = Some(now + 4000 * DAY);
        assert_eq!(due(&document, "a", None, now), now);
        // The clock is years back: due times are later, but no pause is longer than a week.
        document.retry_at = None;
        document.issued = Some(issued(90));
        assert!(due(&document, "a", document.issued.as_ref(), 0) > 0);
    }
}
