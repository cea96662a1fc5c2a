//! The claim of a request on a server of a group: by rank, by the servers' health and capacity, and by `balance`.
//!
//! Must never happen: a claim is not released; a request that has not been tried elsewhere is refused although a server could have it.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use smallvec::SmallVec;
use tutti_config::model::Balance;

use super::{Member, Members, ServerGroup};
use crate::balance::{Candidate, choose};
use crate::checks::ServerHealth;
use crate::failure::UpstreamError;
use crate::queue::QueueEntry;
use crate::server::{GroupServer, RestRule, Turn};
use crate::sticky::{cookie, is_code};
use crate::{Millis, millis};

/// The server that a request wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerChoice<'c> {
    /// The value that a hash uses.
    pub key: &'c [u8],
    /// The cookie of the client, if the group is sticky.
    pub cookie: Option<&'c [u8]>,
}

impl<'c, K: AsRef<[u8]> + ?Sized> From<&'c K> for ServerChoice<'c> {
    fn from(key: &'c K) -> Self {
        ServerChoice {
            key: key.as_ref(),
            cookie: None,
        }
    }
}

/// Servers on which a request has failed, by [`GroupServer::id`].
pub type Tried = SmallVec<[u64; 4]>;

/// The servers that a request may have.
#[derive(Clone, Copy)]
enum Resting {
    /// Those that rest after failures are left out, but for trials.
    Excluded,
    /// Those that rest, too.
    Included,
}

/// Why a request cannot have a server.
enum NotBegun {
    /// It has as many requests as it may.
    Full,
    /// It rests.
    Rests,
}

/// Why no server can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// There is none, or all have weight 0: 503.
    #[error("has no servers, or all of them have weight 0")]
    Empty,
    /// All have been tried or are down: 502.
    #[error("has no other server to try")]
    Exhausted,
    /// Names are being looked up for the first time: wait, then 502.
    #[error("has names that have not been resolved in time")]
    Naming,
    /// No name resolves to an address: 502.
    #[error("has no server: its names have no addresses")]
    Nameless,
    /// All servers have reached `max_connections`: wait.
    #[error("has no capacity: all servers have reached `max_connections`")]
    Full,
}

impl Member {
    /// True if its health checks fail and that counts, by [`heeds_checks`](ServerGroup::heeds_checks).
    fn is_failing(&self, heeds: bool) -> bool {
        heeds && self.server.health() == ServerHealth::Failing
    }

    /// True if it gets requests, as far as it has capacity.
    fn gets_requests(&self, heeds: bool, now: Millis) -> bool {
        self.weight > 0.0 && self.server.is_up(now) && !self.is_failing(heeds)
    }

    /// True if it gets requests and has capacity.
    fn is_open(&self, heeds: bool, now: Millis) -> bool {
        self.gets_requests(heeds, now) && self.server.has_capacity()
    }
}

impl ServerGroup {
    /// Claims a server for a request.
    ///
    /// # Errors
    /// [`Unavailable`]; after [`Unavailable::Full`] and [`Unavailable::Naming`] the request may [wait](Self::claim_in_time).
    pub fn claim<'c>(
        self: &Arc<Self>,
        choice: impl Into<ServerChoice<'c>>,
        tried: &Tried,
        now: Millis,
    ) -> Result<ServerClaim, Unavailable> {
        if self.is_bounded && self.queue.length() > 0 {
            return Err(Unavailable::Full);
        }
        self.claim_now(choice.into(), tried, now)
    }

    fn claim_now(
        self: &Arc<Self>,
        ServerChoice { key, cookie }: ServerChoice<'_>,
        tried: &Tried,
        now: Millis,
    ) -> Result<ServerClaim, Unavailable> {
        let members = self.members.load();
        if members.list.is_empty() && !self.model.servers.is_empty() {
            return Err(if *self.is_named.borrow() {
                Unavailable::Nameless
            } else {
                Unavailable::Naming
            });
        }
        if let [only] = &*members.list
            && tried.is_empty()
        {
            // The only server is used whatever its health.
            if only.weight <= 0.0 {
                return Err(Unavailable::Empty);
            }
            let use_of = (Resting::Included, now);
            return self.begin(only, use_of).map_err(|_| Unavailable::Full);
        }
        // Where its server has no room, the request does not wait for it: all others would wait behind it.
        if let Some(member) = cookie.and_then(|sent| self.kept_at(&members, sent, tried, now))
            && let Ok(claim) = self.begin(member, (Resting::Excluded, now))
        {
            return Ok(claim);
        }
        match self.claim_among(&members, (key, tried), (Resting::Excluded, now)) {
            Err(NotBegun::Full) => {
                // In the queue it would keep others from a server that has been tried.
                let heeds = self.heeds_checks(&members);
                let has_room = |member: &Member| {
                    tried.contains(&member.server.id()) && member.is_open(heeds, now)
                };
                return Err(match members.list.iter().any(has_room) {
                    true => Unavailable::Exhausted,
                    false => Unavailable::Full,
                });
            }
            Err(NotBegun::Rests) => {}
            Ok(claim) => return Ok(claim),
        }
        if members.list.iter().all(|member| member.weight <= 0.0) {
            return Err(Unavailable::Empty);
        }
        if !tried.is_empty() {
            return Err(Unavailable::Exhausted);
        }
        // All rest. Using one of them costs little, and may succeed; refusing the request certainly does not.
        self.claim_among(&members, (key, tried), (Resting::Included, now))
            .map_err(|_| Unavailable::Full)
    }

    /// Claims one of the members that get requests, by rank and then by `balance`.
    fn claim_among(
        self: &Arc<Self>,
        members: &Members,
        (key, tried): (&[u8], &Tried),
        (resting, now): (Resting, Millis),
    ) -> Result<ServerClaim, NotBegun> {
        let heeds = self.heeds_checks(members);
        let mut out = tried.clone();
        let mut why = NotBegun::Rests;
        for rank in &members.ranks {
            let is_eligible = |member: &Member| {
                member.rank == *rank
                    && match resting {
                        Resting::Excluded => member.gets_requests(heeds, now),
                        Resting::Included => !member.is_failing(heeds),
                    }
            };
            while let Some(member) = self.choose(members, key, &out, is_eligible, now) {
                match self.begin(member, (resting, now)) {
                    Ok(claim) => return Ok(claim),
                    Err(NotBegun::Full) => why = NotBegun::Full,
                    Err(NotBegun::Rests) => {}
                }
                out.push(member.server.id());
            }
        }
        Err(why)
    }

    /// The server at which the cookie keeps its client, if that may get requests: a backup only while no other server can.
    fn kept_at<'m>(
        &self,
        members: &'m Members,
        sent: &[u8],
        tried: &Tried,
        now: Millis,
    ) -> Option<&'m Member> {
        self.sticky.as_ref()?;
        let member = members
            .list
            .iter()
            .find(|member| is_code(&member.code, sent))?;
        let heeds = self.heeds_checks(members);
        let mut others = members.list.iter();
        let is_usable = !tried.contains(&member.server.id())
            && member.gets_requests(heeds, now)
            && !others.any(|other| other.rank < member.rank && other.is_open(heeds, now));
        is_usable.then_some(member)
    }

    /// True if a request may be sent to one more server than these.
    fn has_tries(&self, tried: &Tried) -> bool {
        tried.len() < self.options().retries as usize
    }

    /// True if `retries` and `retry_failures` let another server be tried after this failure. `tried` contains the servers before.
    pub fn retries_after(&self, failure: &UpstreamError, tried: &Tried) -> bool {
        let wanted = &self.options().retry_failures;
        let is_wanted = (failure.kind()).is_none_or(|kind| wanted.contains(&kind));
        is_wanted && self.has_tries(tried)
    }

    /// True if a server besides `current` and those that were tried may be tried now.
    pub fn has_other(&self, tried: &Tried, current: &GroupServer, now: Millis) -> bool {
        if !self.has_tries(tried) {
            return false;
        }
        let members = self.members.load();
        let heeds = self.heeds_checks(&members);
        members.list.iter().any(|member| {
            let id = member.server.id();
            id != current.id() && !tried.contains(&id) && member.is_open(heeds, now)
        })
    }

    /// True if it has servers with a weight, and none of them passes its health check.
    pub fn is_failing_as_a_whole(&self) -> bool {
        let members = self.members.load();
        let has_some = members.list.iter().any(|member| member.weight > 0.0);
        has_some && self.model.group.health_check.is_some() && !self.heeds_checks(&members)
    }

    /// True if failed health checks keep requests from servers: as long as one does not fail. Otherwise there might as well be no checks.
    fn heeds_checks(&self, members: &Members) -> bool {
        let is_passing = |member: &Member| {
            member.weight > 0.0 && member.server.health() != ServerHealth::Failing
        };
        self.model.group.health_check.is_some() && members.list.iter().any(is_passing)
    }

    fn begin(
        self: &Arc<Self>,
        member: &Member,
        (resting, now): (Resting, Millis),
    ) -> Result<ServerClaim, NotBegun> {
        let server = &member.server;
        if !server.reserve() {
            return Err(NotBegun::Full);
        }
        let turn = match resting {
            Resting::Excluded => server.turn(member.rest, now),
            Resting::Included => Turn::Regular,
        };
        if turn == Turn::Rest {
            server.end();
            return Err(NotBegun::Rests);
        }
        server.note_request();
        Ok(ServerClaim {
            upstream: Arc::clone(self),
            server: Arc::clone(server),
            rest: member.rest,
            turn,
            code: member.code.clone(),
        })
    }

    fn choose<'m>(
        &self,
        members: &'m Members,
        key: &[u8],
        out: &Tried,
        is_eligible: impl Fn(&Member) -> bool,
        now: Millis,
    ) -> Option<&'m Member> {
        let numbered = members.list.iter().enumerate();
        let candidates: SmallVec<[Candidate<'_>; 8]> = numbered
            .filter(|(_, member)| {
                let is_tried = out.contains(&member.server.id());
                member.weight > 0.0 && !is_tried && is_eligible(member)
            })
            .map(|(index, member)| Candidate {
                index,
                weight: self.weight(member, now),
                active: member.server.active(),
                name: member.server.name(),
            })
            .collect();
        if let [only] = candidates.as_slice() {
            return members.list.get(only.index);
        }
        // Each addition is complete, even if the holder panicked.
        let mut turns = members.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let index = choose(&self.model.balance, &candidates, key, &mut turns)?;
        members.list.get(index)
    }

    /// Its weight, reduced during a slow start.
    fn weight(&self, member: &Member, now: Millis) -> f64 {
        /// The share at the beginning of a slow start.
        const FIRST: f64 = 0.05;
        let ramp = millis(self.model.group.slow_start);
        if ramp == 0 || matches!(self.model.balance, Balance::Hash(_)) {
            return member.weight;
        }
        let share = member
            .server
            .recovered_for(now)
            .map_or(1.0, |since| since as f64 / ramp as f64);
        member.weight * share.clamp(FIRST, 1.0)
    }

    /// Enters the queue for a server with capacity; `None`: the queue is full.
    pub(crate) fn wait(&self) -> Option<QueueEntry<'_>> {
        if !self.is_bounded {
            // A later configuration has set the limits.
            let members = self.members.load();
            let servers = members.list.iter().map(|member| &member.server);
            servers.for_each(|server| server.notify_of_room(&self.queue));
        }
        self.queue
            .enter(usize::try_from(self.model.group.queue).unwrap_or(usize::MAX))
    }

    /// When the next rest or trial of a server ends.
    pub(crate) fn next_end_of_rest(&self, now: Millis) -> Option<Millis> {
        let members = self.members.load();
        let rests = members.list.iter();
        rests
            .filter_map(|member| member.server.rests_until(now))
            .min()
    }

    /// Wakes the next request in the queue, because a server may get requests again.
    pub(crate) fn wake_next(&self) {
        self.queue.wake_next();
    }

    /// Claims a server when it is the turn of `place` and one has capacity.
    pub(crate) fn poll_claim<'c>(
        self: &Arc<Self>,
        context: &Context<'_>,
        place: &QueueEntry<'_>,
        choice: impl Into<ServerChoice<'c>>,
        tried: &Tried,
        now: Millis,
    ) -> Poll<Result<ServerClaim, Unavailable>> {
        if !place.may_try(context) {
            return Poll::Pending;
        }
        // See `GroupServer::end`.
        fence(Ordering::SeqCst);
        match self.claim_now(choice.into(), tried, now) {
            Err(Unavailable::Full) => Poll::Pending,
            outcome => Poll::Ready(outcome),
        }
    }
}

/// A request's claim on a server; released when dropped.
#[derive(Debug)]
pub struct ServerClaim {
    upstream: Arc<ServerGroup>,
    server: Arc<GroupServer>,
    rest: RestRule,
    turn: Turn,
    code: Box<str>,
}

impl ServerClaim {
    /// The claimed server.
    pub fn server(&self) -> &Arc<GroupServer> {
        &self.server
    }

    /// `Set-Cookie` for a client that sent this cookie, if the group is sticky and the server is another one.
    pub fn cookie(&self, sent: Option<&[u8]>, is_https: bool) -> Option<String> {
        let options = self.upstream.model.group.sticky.as_ref()?;
        let is_known = sent.is_some_and(|sent| is_code(&self.code, sent));
        let is_new = !is_known && !self.code.is_empty();
        is_new.then(|| cookie(options, &self.code, is_https))
    }

    /// The time that the server gets no requests after too many failures.
    pub fn fail_timeout(&self) -> Duration {
        self.rest.fail_timeout
    }

    /// Notes that the server answered.
    pub fn succeeded(&self, now: Millis) {
        self.server.succeeded(now);
    }

    /// Notes that the server failed. True: it is down now, and gets no requests for a while.
    pub fn failed(&self, now: Millis) -> bool {
        let is_down = self.server.failed(self.rest, self.turn, now);
        // The only server is used anyway.
        is_down && self.upstream.members.load().list.len() > 1
    }
}

impl Drop for ServerClaim {
    fn drop(&mut self) {
        self.server.end();
    }
}

#[cfg(test)]
mod tests;
