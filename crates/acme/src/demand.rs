//! Names that clients ask for: which ones may be ordered, which connections wait for them, and when a certificate is dropped. No
//! I/O.
//!
//! Must never happen: that a stranger who asks for ever new names causes orders without permission, or fills memory;
//! that a handshake starts a second order for a name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use tutti_protocol::{AcmePlan, CertificatePlan, OnDemandPlan};

use crate::documents::{CertificateDocument, Demand, Documents};

/// Maximum questions to `ask` at the same time.
const MOST_QUESTIONS: usize = 32;

/// Maximum waiters for one name: routers, each of which asks once.
const MOST_WAITING: usize = 64;

/// Maximum rejected names that are remembered, and not asked about again for a while.
const MOST_REFUSED: usize = 10_000;

/// Seconds for which a rejection is remembered, and a failure to get an answer.
pub(crate) const NO_HOLDS: i64 = 300;
pub(crate) const UNKNOWN_HOLDS: i64 = 15;

const HOUR: i64 = 3600;
const DAY: i64 = 86_400;

/// A client's request for a certificate.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// Its id, for the answer.
    pub(crate) id: u64,
    pub(crate) account: String,
    pub(crate) name: String,
    pub(crate) client: Option<IpAddr>,
}

/// The next step for a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DemandAction {
    /// Reject it, for this reason.
    Refuse(String),
    /// Another request is being processed: this one gets the same result.
    Wait,
    /// Ask whether the name may have one.
    Ask,
}

/// The waiting requests, and the rejected names.
#[derive(Debug, Default)]
pub(crate) struct Demands {
    /// Ids of requests, by bundle.
    waiting: BTreeMap<String, Vec<u64>>,
    /// Bundles to order now, although they are not due. Each has waiting requests.
    renewals: BTreeSet<String>,
    questions: usize,
    /// End of each rejection, by bundle.
    refused: BTreeMap<String, i64>,
    /// The same, ordered by time.
    ends: BTreeSet<(i64, String)>,
}

impl Demands {
    /// True if a client waits for it.
    pub(crate) fn is_waited_for(&self, bundle: &str) -> bool {
        self.waiting.contains_key(bundle)
    }

    /// Returns the bundles that clients wait for.
    pub(crate) fn waited(&self) -> Vec<String> {
        self.waiting.keys().cloned().collect()
    }

    /// A client asks for a name that has no certificate. If the result is [`DemandAction::Ask`],
    /// [`Demands::has_asked`] must follow.
    pub(crate) fn begin(&mut self, bundle: &str, id: u64, now: i64) -> DemandAction {
        if let Some(others) = self.waiting.get_mut(bundle) {
            if others.len() >= MOST_WAITING {
                return DemandAction::Refuse("too many connections are waiting for it".to_owned());
            }
            others.push(id);
            return DemandAction::Wait;
        }
        self.forget_refusals(now);
        if let Some(until) = self.refused.get(bundle) {
            let left = until.saturating_sub(now);
            return DemandAction::Refuse(format!(
                "it was refused recently; the next check is possible in {left} seconds"
            ));
        }
        if self.questions >= MOST_QUESTIONS {
            return DemandAction::Refuse("too many names are being checked at once".to_owned());
        }
        self.questions += 1;
        self.waiting.insert(bundle.to_owned(), vec![id]);
        DemandAction::Ask
    }

    /// A client waits for a certificate that is being ordered anyway.
    pub(crate) fn join(&mut self, bundle: &str, id: u64) {
        let others = self.waiting.entry(bundle.to_owned()).or_default();
        if others.len() < MOST_WAITING {
            others.push(id);
        }
    }

    /// Orders a certificate now, although it is not due. False if too many connections are waiting for it.
    pub(crate) fn renew(&mut self, bundle: &str, id: u64) -> bool {
        let others = self.waiting.entry(bundle.to_owned()).or_default();
        let is_room = others.len() < MOST_WAITING;
        if is_room {
            others.push(id);
            self.renewals.insert(bundle.to_owned());
        }
        is_room
    }

    /// True if it must be ordered now, although it is not due.
    pub(crate) fn is_renewal(&self, bundle: &str) -> bool {
        self.renewals.contains(bundle)
    }

    /// Returns the bundles to order now.
    pub(crate) fn renewals(&self) -> impl Iterator<Item = &String> {
        self.renewals.iter()
    }

    /// The question has been answered, or has failed.
    pub(crate) fn has_asked(&mut self) {
        self.questions = self.questions.saturating_sub(1);
    }

    /// Records a rejection: the name is not asked about again for this many seconds.
    pub(crate) fn note_refusal(&mut self, bundle: &str, now: i64, holds: i64) {
        while self.refused.len() >= MOST_REFUSED {
            let Some((_, first)) = self.ends.pop_first() else {
                break;
            };
            self.refused.remove(&first);
        }
        let until = now.saturating_add(holds);
        if let Some(before) = self.refused.insert(bundle.to_owned(), until) {
            self.ends.remove(&(before, bundle.to_owned()));
        }
        self.ends.insert((until, bundle.to_owned()));
    }

    fn forget_refusals(&mut self, now: i64) {
        // If the clock is set back, a rejection must not last longer than intended.
        let is_over = |until: i64| until <= now || until > now.saturating_add(NO_HOLDS);
        while let Some((until, bundle)) = self
            .ends
            .first()
            .filter(|(until, _)| is_over(*until))
            .cloned()
        {
            self.refused.remove(&bundle);
            self.ends.remove(&(until, bundle));
        }
    }

    /// Returns the waiting requests, which get their result.
    pub(crate) fn end(&mut self, bundle: &str) -> Vec<u64> {
        self.renewals.remove(bundle);
        self.waiting.remove(bundle).unwrap_or_default()
    }
}

/// Adds the names whose first order is in progress or has failed: no certificate of theirs is stored yet, so the
/// controller does not know them.
pub(crate) fn with_orders(mut plan: AcmePlan, documents: &Documents) -> AcmePlan {
    for (bundle, document) in documents.certificates() {
        // In a fleet, another node may have obtained it, and this one applies it.
        let is_wanted = document.issued.is_none() || documents.fleet.is_some();
        let is_begun = document.demand.is_some() && is_wanted;
        if !is_begun || plan.certificates.contains_key(&bundle) {
            continue;
        }
        let parts = tutti_options::acme_names::parts(&bundle);
        if let Some((account, name)) =
            parts.filter(|(account, _)| plan.on_demand(account).is_some())
        {
            let wanted = first(account, name);
            plan.certificates.insert(bundle, wanted);
        }
    }
    plan
}

/// Returns the plan for a name that has no certificate yet.
pub(crate) fn first(account: &str, name: &str) -> CertificatePlan {
    CertificatePlan {
        account: account.to_owned(),
        names: vec![name.to_owned()],
        until: None,
        is_on_demand: true,
    }
}

/// Checks whether the limits allow a name to be ordered now. `others` are the documents of other names of the account.
pub(crate) fn limit<'d>(
    plan: &OnDemandPlan,
    demand: &Demand,
    others: impl Iterator<Item = &'d CertificateDocument>,
    now: i64,
) -> Result<(), String> {
    let (mut all, mut hourly, mut domain, mut client) = (0, 0, 0, 0);
    for other in others.filter_map(|document| document.demand.as_ref()) {
        all += 1;
        // Times noted by a clock that was ahead are ignored.
        if (now - HOUR..=now).contains(&other.ordered) {
            hourly += 1;
            domain += u32::from(other.domain == demand.domain);
            client += u32::from(!demand.client.is_empty() && other.client == demand.client);
        }
    }
    let [most_hourly, most_of_domain, most_for_client] = plan.hourly;
    let full =
        |what: &str, option: &str| Err(format!("{what}; the limit is `{option}` of `on_demand`"));
    match () {
        () if all >= plan.most => full("there are too many names", "most"),
        () if hourly >= most_hourly => full("too many names were ordered in an hour", "hourly"),
        () if domain >= most_of_domain => full(
            "too many names of its domain were ordered in an hour",
            "hourly_per_domain",
        ),
        () if client >= most_for_client => full(
            "too many names were ordered for this client in an hour",
            "hourly_per_client",
        ),
        () => Ok(()),
    }
}

/// Returns the record of a name that is ordered now.
pub(crate) fn demand(name: &str, client: Option<IpAddr>, now: i64) -> Demand {
    Demand {
        ordered: now,
        used: now,
        domain: psl::domain_str(name).unwrap_or(name).to_owned(),
        client: client.map(network).unwrap_or_default(),
    }
}

/// Returns the network by which a client is counted: for IPv6, its /64.
fn network(client: IpAddr) -> String {
    match client.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).to_string(),
    }
}

/// True if an on-demand certificate need not be kept any more.
pub(crate) fn is_over(
    document: &CertificateDocument,
    plan: Option<&OnDemandPlan>,
    is_stored: bool,
    now: i64,
) -> bool {
    let Some(demand) = &document.demand else {
        return false;
    };
    let unused = plan.map_or(0, |plan| plan.unused);
    if is_stored {
        return now.saturating_sub(demand.used) > unused;
    }
    // A failure is kept for its pause, and an order for the hour of the limits.
    let pause = document
        .retry_at
        .unwrap_or(0)
        .min(now.saturating_add(8 * DAY));
    now.saturating_sub(demand.ordered) > HOUR && pause <= now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_asked_about_once_and_not_again_for_a_while() {
        let mut demands = Demands::default();
        assert_eq!(demands.begin("a", 1, 1000), DemandAction::Ask);
        assert_eq!(demands.begin("a", 2, 1000), DemandAction::Wait);
        demands.has_asked();
        demands.note_refusal("a", 1000, NO_HOLDS);
        assert_eq!(demands.end("a"), [1, 2]);
        assert!(matches!(
            demands.begin("a", 3, 1200),
            DemandAction::Refuse(_)
        ));
        assert_eq!(demands.begin("a", 4, 1301), DemandAction::Ask);
        assert_eq!(demands.end("a"), [4]);
        // The clock goes back by a year: the rejection does not last that long.
        demands.note_refusal("a", 1400, NO_HOLDS);
        assert_eq!(demands.begin("a", 5, 1400 - 365 * DAY), DemandAction::Ask);
    }

    #[test]
    fn a_storm_of_names_fills_no_memory() {
        let mut demands = Demands::default();
        for n in 0..100_000 {
            demands.note_refusal(&format!("name-{n}"), n / 100, NO_HOLDS);
        }
        assert_eq!(
            (demands.refused.len(), demands.ends.len()),
            (MOST_REFUSED, MOST_REFUSED)
        );
        let asked = (0..10_000)
            .filter(|n| demands.begin(&format!("other-{n}"), *n, 1000) == DemandAction::Ask);
        assert_eq!(asked.count(), MOST_QUESTIONS);
        assert_eq!(demands.waiting.len(), MOST_QUESTIONS);
        // Waiting requests are limited, too.
        let waiting =
            (0..1000).filter(|id| demands.begin("other-0", *id, 1000) == DemandAction::Wait);
        assert_eq!(waiting.count(), MOST_WAITING - 1);
    }

    fn plan() -> OnDemandPlan {
        OnDemandPlan {
            ask: String::new(),
            hourly: [5, 3, 2],
            most: 6,
            unused: 30 * DAY,
        }
    }

    fn ordered(name: &str, client: &str, at: i64) -> CertificateDocument {
        CertificateDocument {
            demand: Some(demand(name, Some(client.parse().unwrap()), at)),
            ..CertificateDocument::default()
        }
    }

    #[test]
    fn orders_are_bounded_in_all_by_domain_and_by_client() {
        let now = 1_000_000;
        let refusal = |name: &str, client: &str, others: &[CertificateDocument]| {
            let wanted = demand(name, Some(client.parse().unwrap()), now);
            limit(&plan(), &wanted, others.iter(), now)
                .err()
                .unwrap_or_default()
        };
        let mut others = vec![
            ordered("a.example.co.uk", "192.0.2.1", now - 5),
            ordered("b.example.co.uk", "192.0.2.1", now - 5),
        ];
        assert!(refusal("c.example.co.uk", "192.0.2.1", &others).contains("hourly_per_client"));
        assert_eq!(refusal("c.example.co.uk", "::ffff:192.0.2.2", &others), "");
        others.push(ordered("c.example.co.uk", "192.0.2.2", now - 5));
        assert!(refusal("d.example.co.uk", "192.0.2.3", &others).contains("hourly_per_domain"));
        // Another registered domain below the same public suffix.
        assert_eq!(refusal("d.other.co.uk", "192.0.2.3", &others), "");
        others.push(ordered("x.test", "2001:db8:0:1::1", now - 5));
        others.push(ordered("y.test", "2001:db8:0:1::2", now - 5));
        assert!(refusal("d.other.co.uk", "192.0.2.3", &others).contains("`hourly`"));
        for other in &mut others {
            other.demand.as_mut().unwrap().ordered = now - HOUR - 1;
        }
        assert_eq!(refusal("d.other.co.uk", "192.0.2.3", &others), "");
        others.push(ordered("z.test", "2001:db8:0:1::3", now - HOUR - 1));
        assert!(refusal("d.other.co.uk", "192.0.2.3", &others).contains("`most`"));
        let same = ordered("z.test", "2001:db8:0:1::3", now).demand.unwrap();
        assert_eq!(same.client, "2001:db8:0:1::");
    }

    #[test]
    fn unused_certificates_are_dropped() {
        let mut document = ordered("a.example.com", "192.0.2.1", 1_000_000);
        let is_over = |document: &CertificateDocument, is_stored, now| {
            super::is_over(document, Some(&plan()), is_stored, now)
        };
        assert!(!is_over(&document, true, 1_000_000 + 30 * DAY));
        assert!(is_over(&document, true, 1_000_001 + 30 * DAY));
        assert!(!is_over(&document, false, 1_000_000 + HOUR));
        assert!(is_over(&document, false, 1_000_001 + HOUR));
        document.retry_at = Some(1_000_000 + 2 * DAY);
        assert!(!is_over(&document, false, 1_000_000 + DAY));
        document.demand = None;
        assert!(!is_over(&document, true, i64::MAX));
    }
}
