//! Chooses the next order: one scheduler for all certificates.
//!
//! Each round it determines what is due, from the documents and the current time. There is never more than one order in
//! progress for a certificate, and only a few for all together. Must never happen: that a failure, a crash or a changed
//! clock starts an order before its pause is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use tutti_log::{Level, Log};
use tutti_options::acme_names::INTERNAL;
use tutti_protocol::{
    AccountPlan, AcmeHello, AcmePlan, CertificateNews, CertificatePlan, ForController, FromAcme,
};

use crate::challenges::Answers;
use crate::demand::{self, Demands};
use crate::documents::{CertificateDocument, Documents, Issued};
use crate::failure::{Cure, OrderError};
use crate::fleet::Fleet;
use crate::http::Authority;
use crate::line::Link;
use crate::order::Attempt;
use crate::permission::Asker;
use crate::shared::{Shared, Work};
use crate::{accounts, schedule};

/// Maximum orders at the same time.
const MOST_ORDERS: usize = 4;

/// Longest interval between checks of the clock, which may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Maximum immediate repetitions of an attempt after temporary failures.
const MOST_REPEATS: u32 = 8;

/// The environment variable that overrides the first pause after a failure, in seconds, for tests.
const PAUSE: &str = "TUTTI_ACME_PAUSE";

/// Seconds until an order that another node of the fleet may continue is checked again.
const LEFT_AGAIN: i64 = 5;

/// The result of a renewal of a certificate that is no longer in the configuration.
pub(crate) const NOT_WANTED: &str = "the configuration no longer requests it";

/// Time until the deletion of a certificate is retried.
const LET_GO_AGAIN: Duration = Duration::from_secs(60);

/// The same in seconds, after this node's clock was found to be wrong, or could not be compared with others.
const LET_GO_LATER: i64 = 3600;

/// Interval at which the use of a certificate is recorded on disk, in seconds.
const NOTE_AGAIN: i64 = 86_400;

/// A handle: clones share the same state.
#[derive(Clone)]
pub(crate) struct Scheduler(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) link: Arc<Link>,
    pub(crate) log: Log,
    pub(crate) documents: Documents,
    pub(crate) answers: Answers,
    state: Mutex<State>,
    pub(crate) wake: Notify,
    first_pause: Duration,
    /// Held while a name is added.
    pub(crate) beginning: tokio::sync::Mutex<()>,
    /// Created when first needed.
    pub(crate) asker: OnceLock<Result<Asker, String>>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) plan: AcmePlan,
    /// The plan as received from the controller.
    pub(crate) base: AcmePlan,
    /// Bundles with a task in progress.
    pub(crate) busy: BTreeSet<String>,
    /// Those of them that are being ordered.
    pub(crate) ordering: BTreeSet<String>,
    /// The state that the controller knows.
    pub(crate) sent: Option<BTreeMap<String, CertificateNews>>,
    /// The controller may have been restarted: everything is sent again.
    pub(crate) is_new: bool,
    /// Names that clients ask for.
    pub(crate) demands: Demands,
    /// The state of the fleet's certificates.
    pub(crate) shared: Shared,
}

/// A task for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Order,
    /// Ask the authority when to renew it.
    AskAdvice,
    /// Record that it is used: there is no record yet.
    NoteUse,
    /// Delete it: it is no longer used.
    LetGo,
    /// Put in force what another node of the fleet, or this one, has obtained.
    TakeUp,
    /// Delete it here: the fleet no longer has it.
    Forget,
}

/// The next task for a certificate, and its time.
pub(crate) enum Next {
    /// Do this now.
    Do(Task),
    /// Do nothing before this time.
    At(i64),
}

impl Scheduler {
    pub(crate) fn new(link: Arc<Link>, log: Log, hello: AcmeHello) -> Scheduler {
        let first_pause = std::env::var(PAUSE).ok().and_then(|text| text.parse().ok());
        let fleet = hello.is_shared.then(|| {
            let fleet = Fleet::new(Arc::clone(&link), &hello.plan);
            Arc::new(fleet)
        });
        let documents = Documents::new(Arc::clone(&link), hello.documents, fleet.clone());
        Scheduler(Arc::new(Inner {
            answers: Answers::new(Arc::clone(&link), fleet),
            state: Mutex::new(State {
                base: hello.plan.clone(),
                plan: demand::with_orders(hello.plan, &documents),
                is_new: true,
                shared: match hello.is_shared {
                    true => Shared::unheard(unix_time()),
                    false => Shared::default(),
                },
                ..State::default()
            }),
            wake: Notify::new(),
            first_pause: first_pause.map_or(schedule::FIRST_PAUSE, Duration::from_secs),
            documents,
            beginning: tokio::sync::Mutex::default(),
            asker: OnceLock::new(),
            link,
            log,
        }))
    }

    /// Uses another plan of certificates from now on.
    pub(crate) fn follow(&self, plan: AcmePlan) {
        let dropped: Vec<String> = {
            let mut state = self.0.state();
            if let Some(fleet) = &self.0.documents.fleet {
                fleet.follow(&plan);
            }
            state.base = plan.clone();
            state.plan = demand::with_orders(plan, &self.0.documents);
            state.is_new = true;
            let is_dropped = |bundle: &&String| !state.plan.certificates.contains_key(*bundle);
            state
                .demands
                .renewals()
                .filter(is_dropped)
                .cloned()
                .collect()
        };
        for bundle in dropped {
            self.0.end_wishes(&bundle, Some(NOT_WANTED));
        }
        self.0.wake.notify_one();
    }

    /// Obtains and renews certificates, forever.
    pub(crate) async fn run(self) {
        loop {
            let now = unix_time();
            match self.0.documents.fleet {
                Some(_) => self.0.report_waiting(now),
                None => self.0.forget_old(now).await,
            }
            let next = self.begin_due(now);
            self.0.send_news(now).await;
            let left = u64::try_from(next.saturating_sub(now)).unwrap_or(0).max(1);
            let sleep = Duration::from_secs(left).min(LONGEST_SLEEP);
            let _ = tokio::time::timeout(sleep, self.0.wake.notified()).await;
        }
    }

    /// Starts due tasks; returns the time of the next one.
    fn begin_due(&self, now: i64) -> i64 {
        let mut next = i64::MAX;
        let mut state = self.0.state();
        let plan = state.plan.clone();
        for (bundle, wanted) in &plan.certificates {
            let Some(account) = plan.accounts.get(&wanted.account) else {
                continue;
            };
            if state.busy.contains(bundle) {
                continue;
            }
            let task = match self.0.next(&state, &plan, bundle, wanted, account, now) {
                Next::Do(task) => task,
                Next::At(at) => {
                    next = next.min(at);
                    continue;
                }
            };
            state.busy.insert(bundle.clone());
            if task == Task::Order {
                state.ordering.insert(bundle.clone());
            }
            let (inner, bundle) = (Arc::clone(&self.0), bundle.clone());
            let (wanted, account) = (wanted.clone(), account.clone());
            tokio::spawn(async move {
                inner.take_turn(task, &bundle, &wanted, &account).await;
                {
                    let mut state = inner.state();
                    state.busy.remove(&bundle);
                    state.ordering.remove(&bundle);
                }
                inner.wake.notify_one();
            });
        }
        next
    }
}

impl Inner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next task for a certificate.
    fn next(
        &self,
        state: &State,
        plan: &AcmePlan,
        bundle: &str,
        wanted: &CertificatePlan,
        account: &AccountPlan,
        now: i64,
    ) -> Next {
        let document = self.document(bundle, wanted, account);
        if let Some(next) = self.next_in_fleet(&state.shared, bundle, wanted, &document, now) {
            return next;
        }
        let wanted = &self.documents.seen(wanted, &document);
        let due = self.due(&document, plan, bundle, wanted, &state.demands, now);
        let asks = document.issued.as_ref().map_or(i64::MAX, |one| one.ask_at);
        let asks_later = state.shared.waits_until(bundle, Work::Advice, now);
        let asks = asks_later.map_or(asks, |until| asks.max(until));
        let is_stored = wanted.until.is_some();
        let is_over = demand::is_over(&document, account.on_demand.as_ref(), is_stored, now);
        match () {
            () if wanted.is_on_demand && is_over => Next::Do(Task::LetGo),
            () if wanted.is_on_demand && is_stored && document.demand.is_none() => {
                Next::Do(Task::NoteUse)
            }
            () if due <= now && state.ordering.len() < MOST_ORDERS => Next::Do(Task::Order),
            // The end of a task wakes the scheduler.
            () if due <= now => Next::At(i64::MAX),
            () if is_stored && asks <= now => Next::Do(Task::AskAdvice),
            () => Next::At(due.min(asks)),
        }
    }

    /// Carries out a due task; the caller ensures that no other node does.
    pub(crate) async fn carry_out(
        &self,
        task: Task,
        bundle: &str,
        wanted: &CertificatePlan,
        account: &AccountPlan,
    ) {
        match task {
            Task::Order => self.order(bundle, wanted, account).await,
            Task::AskAdvice => self.ask_advice(bundle, wanted, account).await,
            Task::NoteUse => self.keep_use(bundle, wanted, account).await,
            Task::LetGo => self.let_go(bundle, wanted).await,
            Task::TakeUp => self.take_up(bundle, wanted, account).await,
            Task::Forget => self.forget_own(bundle, wanted).await,
        }
    }

    /// True if a task is still due.
    pub(crate) fn is_due(
        &self,
        task: Task,
        bundle: &str,
        wanted: &CertificatePlan,
        account: &AccountPlan,
    ) -> bool {
        let now = unix_time();
        let document = self.document(bundle, wanted, account);
        let wanted = &self.documents.seen(wanted, &document);
        let state = self.state();
        match task {
            Task::Order => {
                let plan = &state.plan;
                self.due(&document, plan, bundle, wanted, &state.demands, now) <= now
            }
            Task::AskAdvice => document.issued.is_some_and(|one| one.ask_at <= now),
            Task::LetGo => {
                let is_stored = wanted.until.is_some();
                demand::is_over(&document, account.on_demand.as_ref(), is_stored, now)
            }
            Task::NoteUse | Task::TakeUp | Task::Forget => true,
        }
    }

    /// Returns the document of a certificate. A certificate obtained elsewhere does not count as an order from this
    /// authority.
    pub(crate) fn document(
        &self,
        bundle: &str,
        wanted: &CertificatePlan,
        account: &AccountPlan,
    ) -> CertificateDocument {
        let known = self.documents.certificate(bundle);
        if known.directory == account.directory && known.names == wanted.names {
            return known;
        }
        CertificateDocument {
            directory: account.directory.clone(),
            names: wanted.names.clone(),
            demand: known.demand,
            ..CertificateDocument::default()
        }
    }

    /// Returns when an order is due. The pause of another certificate that is no longer wanted also applies to its
    /// names: repeated changes of the configuration must not bypass it.
    pub(crate) fn due(
        &self,
        document: &CertificateDocument,
        plan: &AcmePlan,
        bundle: &str,
        wanted: &CertificatePlan,
        demands: &Demands,
        now: i64,
    ) -> i64 {
        let is_stored = wanted.until.is_some();
        if is_stored && demands.is_renewal(bundle) {
            // Immediately, except for a pause: as if there were none yet.
            return schedule::due(document, bundle, None, now);
        }
        let stored = document.issued.as_ref().filter(|_| is_stored);
        let own = schedule::due(document, bundle, stored, now);
        let is_lost = document.issued.is_none() && document.demand.is_none();
        match wanted.until {
            _ if !wanted.is_on_demand => {}
            // Only its expiry is known: such certificates are not all ordered again at once.
            Some(until) if is_lost => return own.max(until.saturating_sub(schedule::LAST_MONTH)),
            Some(_) => return own,
            // No client waits for one that has failed: its next handshake starts again.
            None if demands.is_waited_for(bundle) || document.is_under_way() => return own,
            None => return i64::MAX,
        }
        if stored.is_some() {
            return own;
        }
        let former = self.documents.bundles();
        let former = former
            .iter()
            .filter(|name| !plan.certificates.contains_key(*name));
        let pauses = former.filter_map(|name| {
            let former = self.documents.certificate(name);
            let shares = former.names.iter().any(|name| wanted.names.contains(name));
            let is_same = shares && former.directory == document.directory;
            (is_same && former.failures > 1).then(|| schedule::due(&former, name, None, now))
        });
        pauses.fold(own, i64::max)
    }

    /// Orders a certificate, and records the result.
    async fn order(&self, bundle: &str, wanted: &CertificatePlan, account: &AccountPlan) {
        let mut document = self.document(bundle, wanted, account);
        let failures = document.failures;
        if let (true, None, [name]) = (wanted.is_on_demand, &document.demand, &wanted.names[..]) {
            // The node that received the request has ended before it could record it.
            document.demand = Some(demand::demand(name, None, unix_time()));
        }
        let verb = if document.order.is_some() {
            "resuming the order of"
        } else {
            "ordering"
        };
        let names = wanted.names.join("`, `");
        self.log
            .line(Level::Info, &format!("{verb} a certificate for `{names}`"));
        self.send_news(unix_time()).await;
        match self.try_order(bundle, wanted, account, &mut document).await {
            Ok(()) => {
                self.has_come(bundle, &document, failures).await;
                if self.documents.fleet.is_none() {
                    self.end_wishes(bundle, None);
                }
            }
            Err(failure) if failure.cure == Cure::Elsewhere => {
                let text = format!("the order of `{names}` is abandoned: {}", failure.message);
                self.log.line(Level::Warn, &text);
                self.put_off(bundle, Work::Turn, LEFT_AGAIN);
                self.end_wishes(bundle, Some(&failure.message));
            }
            Err(failure) => {
                let why = failure.message.clone();
                self.has_failed(bundle, wanted, document, failure).await;
                self.end_wishes(bundle, Some(&why));
            }
        }
    }

    async fn try_order(
        &self,
        bundle: &str,
        wanted: &CertificatePlan,
        plan: &AccountPlan,
        document: &mut CertificateDocument,
    ) -> Result<(), OrderError> {
        let advised = |issued: &Issued| schedule::is_advised(issued, bundle, unix_time());
        let attempt = Attempt {
            is_advised: document.issued.as_ref().is_some_and(advised),
            link: &self.link,
            documents: &self.documents,
            answers: &self.answers,
            bundle,
            wanted,
            plan,
        };
        if plan.directory == INTERNAL {
            return attempt.issue(document).await;
        }
        let authority = Authority::new(plan.roots.as_deref())?;
        let mut repeats = 0;
        loop {
            let Err(mut failure) = attempt.run(document, &authority).await else {
                return Ok(());
            };
            failure.pause = authority.take_pause();
            repeats += 1;
            if repeats > MOST_REPEATS {
                return Err(failure);
            }
            match failure.cure {
                Cure::Repeat => {}
                Cure::Register if repeats == 1 => {
                    accounts::forget(&self.documents, &wanted.account).await?;
                }
                _ => return Err(failure),
            }
        }
    }

    /// Records a new certificate. `failures`: those before it, which count if it is due already.
    async fn has_come(&self, bundle: &str, document: &CertificateDocument, failures: u32) {
        // A node of a fleet has it only once it is applied, like all others.
        if let (None, Some(issued)) = (&self.documents.fleet, &document.issued) {
            self.note_until(bundle, issued.until);
        }
        let now = unix_time();
        if schedule::due(document, bundle, document.issued.as_ref(), now) > now {
            return;
        }
        // By this clock it would be ordered repeatedly.
        let text = "by this machine's clock, the new certificate is already due for renewal; hint: check the clock";
        let mut document = CertificateDocument {
            failures,
            ..document.clone()
        };
        self.note_failure(bundle, &mut document, &OrderError::new(text))
            .await;
    }

    async fn has_failed(
        &self,
        bundle: &str,
        wanted: &CertificatePlan,
        mut document: CertificateDocument,
        failure: OrderError,
    ) {
        if failure.cure == Cure::NewOrder {
            document.order = None;
            document.key = None;
        }
        self.note_failure(bundle, &mut document, &failure).await;
        let names = wanted.names.join("`, `");
        let left = document.retry_at.unwrap_or_default() - unix_time();
        let text = format!(
            "no certificate for `{names}`: {}; the next attempt is in {left} seconds",
            failure.message
        );
        self.log.line(Level::Error, &text);
    }

    async fn note_failure(
        &self,
        bundle: &str,
        document: &mut CertificateDocument,
        failure: &OrderError,
    ) {
        let now = unix_time();
        document.failures = document.failures.saturating_add(1);
        let pause = schedule::pause(self.first_pause, document.failures, failure.pause, bundle);
        let pause = i64::try_from(pause.as_secs()).unwrap_or(i64::MAX);
        document.retry_at = Some(now.saturating_add(pause));
        document.last_error = Some((failure.message.clone(), now));
        self.keep_or_note(bundle, document, (Work::Turn, pause))
            .await;
    }

    /// Stores a document, or remembers it as long as this process lives. A document of a fleet that is not stored may
    /// belong to another node by now; then this work is left alone for so many seconds.
    pub(crate) async fn keep_or_note(
        &self,
        bundle: &str,
        document: &CertificateDocument,
        (work, pause): (Work, i64),
    ) {
        let kept = self.documents.keep_certificate(bundle, document).await;
        match (kept, &self.documents.fleet) {
            (Ok(()), _) => {}
            (Err(_), Some(_)) => self.put_off(bundle, work, pause),
            (Err(_), None) => self.documents.note_certificate(bundle, document),
        }
    }

    /// Records the expiry of a certificate that this node has.
    pub(crate) fn note_until(&self, bundle: &str, until: i64) {
        let state = &mut *self.state();
        for plan in [&mut state.plan, &mut state.base] {
            if let Some(wanted) = plan.certificates.get_mut(bundle) {
                wanted.until = Some(until);
            }
        }
    }

    pub(crate) fn answer(&self, id: u64, error: Option<String>) {
        self.link.send(&FromAcme::Wanted { id, error });
    }

    /// Sends the result to the requests that wait for a certificate.
    pub(crate) fn end_wishes(&self, bundle: &str, error: Option<&str>) {
        let waiting = self.state().demands.end(bundle);
        for id in waiting {
            self.answer(id, error.map(str::to_owned));
        }
    }

    /// True if the use of a certificate has not been recorded for a while.
    pub(crate) fn is_use_news(&self, bundle: &str) -> bool {
        let demand = self.documents.certificate(bundle).demand;
        demand.is_none_or(|demand| unix_time().abs_diff(demand.used) >= NOTE_AGAIN.unsigned_abs())
    }

    /// Records that a certificate is used.
    pub(crate) async fn keep_use(
        &self,
        bundle: &str,
        wanted: &CertificatePlan,
        account: &AccountPlan,
    ) {
        let now = unix_time();
        let mut document = self.document(bundle, wanted, account);
        let demand = document.demand.get_or_insert_default();
        if now.abs_diff(demand.used) < NOTE_AGAIN.unsigned_abs()
            || self.state().ordering.contains(bundle)
        {
            return;
        }
        demand.used = now;
        self.keep_or_note(bundle, &document, (Work::Turn, 0)).await;
    }

    /// Deletes an unused certificate.
    async fn let_go(&self, bundle: &str, wanted: &CertificatePlan) {
        // One wrong clock must not delete what the whole fleet uses.
        if let Some(fleet) = &self.documents.fleet
            && let Some((level, obstacle)) = obstacle(fleet.clock_fault().await)
        {
            let text = format!("the certificate `{bundle}` is not deleted as unused: {obstacle}");
            self.log.line(level, &text);
            return self.put_off(bundle, Work::Turn, LET_GO_LATER);
        }
        if wanted.until.is_some() {
            let make = |id| FromAcme::Tell {
                id,
                message: ForController::Release {
                    bundle: bundle.to_owned(),
                },
            };
            if self.link.request(&make, Vec::new()).await.is_err() {
                // Another attempt after a while does no harm.
                return tokio::time::sleep(LET_GO_AGAIN).await;
            }
            let text = format!("the certificate `{bundle}` is no longer used, and is deleted");
            self.log.line(Level::Notice, &text);
        }
        self.drop_plan(bundle);
        self.documents.discard_certificate(bundle).await;
    }

    /// Removes the plan of a bundle.
    pub(crate) fn drop_plan(&self, bundle: &str) {
        let state = &mut *self.state();
        for plan in [&mut state.plan, &mut state.base] {
            plan.certificates.remove(bundle);
        }
    }

    /// Forgets certificates that are no longer wanted, once none of their pauses is needed.
    async fn forget_old(&self, now: i64) {
        for bundle in self.documents.bundles() {
            if self.state().plan.certificates.contains_key(&bundle) {
                continue;
            }
            let document = self.documents.certificate(&bundle);
            let is_stored = false;
            if demand::is_over(&document, None, is_stored, now) {
                self.documents.discard_certificate(&bundle).await;
                continue;
            }
            let until = document.issued.as_ref().map_or(0, |issued| issued.until);
            let pause = document.retry_at.unwrap_or(0);
            if until.max(pause) < now {
                self.documents.discard_certificate(&bundle).await;
            }
        }
    }
}

/// Returns why a certificate that the fleet shares is not deleted, after the clock was compared with those of others.
fn obstacle(clock_fault: Result<Option<String>, OrderError>) -> Option<(Level, String)> {
    match clock_fault {
        Ok(None) => None,
        Ok(Some(fault)) => Some((Level::Alert, format!("{fault}; hint: check the clock"))),
        // The source process logs an unavailable store.
        Err(failure) => Some((Level::Info, failure.message)),
    }
}

/// Returns the current time in seconds since 1970.
pub(crate) fn unix_time() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(now.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wrong_clock_is_an_alert() {
        assert_eq!(obstacle(Ok(None)), None);
        let (level, text) = obstacle(Ok(Some("it is ahead".to_owned()))).unwrap();
        assert_eq!(level, Level::Alert);
        assert!(text.contains("check the clock"), "{text}");
        let unavailable = OrderError::new("no member answers".to_owned());
        let expected = (Level::Info, "no member answers".to_owned());
        assert_eq!(obstacle(Err(unavailable)), Some(expected));
    }
}
