//! The scheduler's knowledge of certificates that a fleet shares. No I/O.

use std::collections::BTreeMap;

use tutti_protocol::CertificatePlan;

use crate::documents::Issued;

/// Seconds after which an alert about an expiring certificate is repeated.
const ALERT_AGAIN: i64 = 3600;

/// The last part of a certificate's life in which a failing renewal is an alert: a tenth.
const LAST_PART: i64 = 10;

/// The reason before the first message.
const NOT_YET: &str = "nothing has been received from the fleet's store yet";

/// A part of the work for a bundle. Each is left alone for its own reasons: neither may advice that cannot be stored
/// delay an order, nor an order that has failed keep a node from the certificate that another one has obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// An order and all else that a node claims the document for.
    Turn,
    /// Asking the authority for advice.
    Advice,
    /// Applying what the fleet has on this node.
    Own,
}

/// The state of a fleet's certificates (see the module).
#[derive(Default)]
pub(crate) struct Shared {
    /// Serial numbers of certificates that this node has applied, by bundle.
    taken: BTreeMap<String, String>,
    /// Work that is left alone until a time, by bundle.
    put_off: BTreeMap<(String, Work), i64>,
    /// Why a certificate could not be applied, and since when.
    troubles: BTreeMap<String, (String, i64)>,
    /// Why nothing is shared now, and since when.
    away: Option<(String, i64)>,
    /// Waiting renewals that have been logged: when, and how urgent.
    reported: BTreeMap<String, (i64, Urgency)>,
}

/// The urgency of a waiting renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// It can wait.
    Later,
    /// The certificate is about to expire.
    Soon,
}

impl Urgency {
    pub(crate) fn of(issued: &Issued, now: i64) -> Urgency {
        let life = (issued.until - issued.since).max(0);
        match issued.until - now <= life / LAST_PART {
            true => Urgency::Soon,
            false => Urgency::Later,
        }
    }
}

impl Shared {
    /// Returns the state before the first message.
    pub(crate) fn unheard(now: i64) -> Shared {
        let mut shared = Shared::default();
        shared.note_away(Some(NOT_YET), now);
        shared
    }

    /// True if this node has a certificate of the fleet in force.
    pub(crate) fn has(&self, bundle: &str, wanted: &CertificatePlan, issued: &Issued) -> bool {
        match self.taken.get(bundle) {
            Some(serial) => *serial == issued.serial,
            // The former process has applied it.
            None => wanted.until == Some(issued.until),
        }
    }

    pub(crate) fn note_taken(&mut self, bundle: &str, issued: &Issued) {
        self.taken.insert(bundle.to_owned(), issued.serial.clone());
        self.troubles.remove(bundle);
    }

    pub(crate) fn note_trouble(&mut self, bundle: &str, why: &str, now: i64) {
        self.troubles
            .insert(bundle.to_owned(), (why.to_owned(), now));
    }

    pub(crate) fn put_off(&mut self, bundle: &str, work: Work, until: i64) {
        self.put_off.insert((bundle.to_owned(), work), until);
    }

    /// Returns the time until which it is left alone, if that is in the future.
    pub(crate) fn waits_until(&self, bundle: &str, work: Work, now: i64) -> Option<i64> {
        let until = self.put_off.get(&(bundle.to_owned(), work)).copied();
        until.filter(|until| *until > now)
    }

    /// Records that nothing is shared, or that sharing works again.
    pub(crate) fn note_away(&mut self, error: Option<&str>, now: i64) {
        match error {
            Some(error) => {
                let since = self.away.as_ref().map_or(now, |(_, since)| *since);
                self.away = Some((error.to_owned(), since));
            }
            None => {
                self.away = None;
                self.reported.clear();
            }
        }
    }

    /// Returns why nothing is shared now.
    pub(crate) fn away(&self) -> Option<&str> {
        self.away.as_ref().map(|(error, _)| error.as_str())
    }

    /// Returns the failure of a fleet's certificate, and since when.
    pub(crate) fn error_of(&self, bundle: &str) -> Option<(String, i64)> {
        let away = self.away.as_ref().map(|(error, since)| {
            let text = format!("no certificates are ordered or renewed at the moment: {error}");
            (text, *since)
        });
        away.or_else(|| self.troubles.get(bundle).cloned())
    }

    /// True if a waiting renewal must be logged now: once, once more when it becomes urgent, and from then on every
    /// hour.
    pub(crate) fn is_news(&mut self, bundle: &str, urgency: Urgency, now: i64) -> bool {
        let is_news = match self.reported.get(bundle) {
            None => true,
            Some((at, before)) => {
                let is_again = urgency == Urgency::Soon && now - at >= ALERT_AGAIN;
                urgency > *before || is_again
            }
        };
        if is_news {
            self.reported.insert(bundle.to_owned(), (now, urgency));
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    fn issued(serial: &str) -> Issued {
        Issued {
            since: 0,
            until: 90 * DAY,
            serial: serial.to_owned(),
            ..Issued::default()
        }
    }

    #[test]
    fn a_renewal_that_waits_is_reported_loudly_near_the_end() {
        let issued = issued("1");
        assert_eq!(Urgency::of(&issued, 60 * DAY), Urgency::Later);
        assert_eq!(Urgency::of(&issued, 82 * DAY), Urgency::Soon);
        assert_eq!(Urgency::of(&issued, 100 * DAY), Urgency::Soon);
        let mut shared = Shared::default();
        shared.note_away(Some("away"), 0);
        assert!(shared.is_news("a", Urgency::Later, 0));
        assert!(!shared.is_news("a", Urgency::Later, 10 * DAY));
        assert!(shared.is_news("a", Urgency::Soon, 10 * DAY));
        assert!(!shared.is_news("a", Urgency::Soon, 10 * DAY + 60));
        assert!(shared.is_news("a", Urgency::Soon, 10 * DAY + ALERT_AGAIN));
        assert!(shared.error_of("a").is_some());
        shared.note_away(None, 11 * DAY);
        assert!(shared.is_news("a", Urgency::Later, 11 * DAY));
        assert!(shared.error_of("a").is_none());
    }

    #[test]
    fn a_certificate_is_taken_up_once_also_by_the_next_process() {
        let wanted = |until| CertificatePlan {
            account: "le".to_owned(),
            names: Vec::new(),
            until,
            is_on_demand: false,
        };
        let mut shared = Shared::default();
        let (first, second) = (issued("1"), issued("2"));
        assert!(!shared.has("a", &wanted(None), &first));
        assert!(shared.has("a", &wanted(Some(90 * DAY)), &first));
        shared.note_trouble("a", "no", 5);
        shared.note_taken("a", &first);
        assert!(shared.has("a", &wanted(None), &first));
        // Another certificate that expires in the same second.
        assert!(!shared.has("a", &wanted(Some(90 * DAY)), &second));
        assert!(shared.error_of("a").is_none());
    }

    #[test]
    fn something_is_put_off_for_a_while() {
        let mut shared = Shared::default();
        shared.put_off("a", Work::Advice, 10);
        assert_eq!(shared.waits_until("a", Work::Advice, 5), Some(10));
        assert_eq!(shared.waits_until("a", Work::Advice, 10), None);
        assert_eq!(shared.waits_until("b", Work::Advice, 5), None);
        assert_eq!(shared.waits_until("a", Work::Turn, 5), None);
        assert_eq!(shared.waits_until("a", Work::Own, 5), None);
    }
}
