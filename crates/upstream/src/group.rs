//! A group of servers, and the claim of a request on one of them.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tutti_config::model::{self, Balance, UpstreamOptions, UpstreamServer};
use tutti_tls::Client;

use crate::balance::{Candidate, choose};
use crate::queue::{Place, Queue};
use crate::server::{Server, ServerStatus};
use crate::{Millis, millis};

/// A group of servers: what a request is passed to.
#[derive(Debug)]
pub struct Upstream {
    model: Arc<model::Upstream>,
    tls: Option<Arc<Client>>,
    members: Box<[Member]>,
    /// State of the turns, one number for each member.
    turns: Mutex<Box<[f64]>>,
    /// Somebody may have to wait for room.
    is_bounded: bool,
    queue: Arc<Queue>,
}

#[derive(Debug)]
struct Member {
    server: Arc<Server>,
    settings: UpstreamServer,
}

/// Members that a request has been sent to in vain.
pub type Tried = SmallVec<[usize; 4]>;

/// Why no server can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// There is none, or all have weight 0: 502.
    #[error("has no server that gets requests")]
    Empty,
    /// Every one has been tried or is down: 502.
    #[error("has no other server to try")]
    Exhausted,
    /// Those that could be asked have as many requests as they may: wait.
    #[error("all servers have as many requests as they may have")]
    Full,
}

impl Upstream {
    /// A group as it is configured. Servers that `previous` has too go on: their connections, their numbers, their health.
    ///
    /// `tls` is how TLS is spoken with them: there if the model has it.
    pub fn new(
        model: &Arc<model::Upstream>,
        tls: Option<Arc<Client>>,
        previous: Option<&Upstream>,
    ) -> Upstream {
        let kept = |settings: &UpstreamServer| {
            previous?
                .members
                .iter()
                .find(|member| member.server.is(&settings.address, tls.as_ref()))
                .map(|member| Arc::clone(&member.server))
        };
        let members: Box<[Member]> = model
            .servers
            .iter()
            .map(|settings| Member {
                server: kept(settings).unwrap_or_else(|| {
                    let server = Server::new(&settings.name, &settings.address, tls.as_ref());
                    Arc::new(server)
                }),
                settings: settings.clone(),
            })
            .collect();
        let queue = Arc::new(Queue::default());
        let is_bounded = members
            .iter()
            .any(|member| member.settings.max_connections.is_some());
        if is_bounded {
            for member in &members {
                member.server.tell_of_room(&queue);
            }
        }
        Upstream {
            turns: Mutex::new(vec![0.0; members.len()].into()),
            is_bounded,
            members,
            queue,
            model: Arc::clone(model),
            tls,
        }
    }

    /// As it is configured.
    pub fn model(&self) -> &Arc<model::Upstream> {
        &self.model
    }

    /// How TLS is spoken with its servers, if it is.
    pub fn tls(&self) -> Option<&Arc<Client>> {
        self.tls.as_ref()
    }

    /// Its name; of a `proxy`, the URL.
    pub fn name(&self) -> &str {
        &self.model.name
    }

    /// How to talk to its servers.
    pub fn options(&self) -> &UpstreamOptions {
        &self.model.options
    }

    /// Its servers.
    pub fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.members.iter().map(|member| &member.server)
    }

    /// What `/status` tells of its servers.
    pub fn status(&self, now: Millis) -> Vec<ServerStatus> {
        let members = self.members.iter();
        members.map(|member| member.server.status(now)).collect()
    }

    /// Claims a server for a request. `key` is what a hash looks at.
    ///
    /// # Errors
    /// [`Unavailable`]; after [`Unavailable::Full`] the request may [wait](Upstream::wait).
    pub fn claim(
        self: &Arc<Self>,
        key: &[u8],
        tried: &Tried,
        now: Millis,
    ) -> Result<Claim, Unavailable> {
        if self.is_bounded && self.queue.length() > 0 {
            return Err(Unavailable::Full);
        }
        self.claim_now(key, tried, now)
    }

    fn claim_now(
        self: &Arc<Self>,
        key: &[u8],
        tried: &Tried,
        now: Millis,
    ) -> Result<Claim, Unavailable> {
        if let [only] = &*self.members
            && tried.is_empty()
        {
            // Whatever is known of it: there is no other.
            if only.settings.weight <= 0.0 {
                return Err(Unavailable::Empty);
            }
            return self.begin(0).ok_or(Unavailable::Full);
        }
        let mut out = tried.clone();
        let mut is_full = false;
        for is_backup in [false, true] {
            while let Some(index) = self.choose(
                key,
                &out,
                |member| member.settings.backup == is_backup && member.server.is_up(now),
                now,
            ) {
                if let Some(claim) = self.begin(index) {
                    return Ok(claim);
                }
                is_full = true;
                out.push(index);
            }
        }
        if is_full {
            return Err(Unavailable::Full);
        }
        if self
            .members
            .iter()
            .all(|member| member.settings.weight <= 0.0)
        {
            return Err(Unavailable::Empty);
        }
        if !tried.is_empty() {
            return Err(Unavailable::Exhausted);
        }
        // All are down. Asking one of them costs little, and may succeed; refusing certainly does not.
        let index = self.choose(key, tried, |_| true, now);
        index
            .and_then(|index| self.begin(index))
            .ok_or(Unavailable::Full)
    }

    fn begin(self: &Arc<Self>, index: usize) -> Option<Claim> {
        let member = self.members.get(index)?;
        let has_room = member.server.begin(member.settings.max_connections);
        has_room.then(|| Claim {
            upstream: Arc::clone(self),
            server: Arc::clone(&member.server),
            index,
        })
    }

    fn choose(
        &self,
        key: &[u8],
        out: &Tried,
        is_eligible: impl Fn(&Member) -> bool,
        now: Millis,
    ) -> Option<usize> {
        let members = self.members.iter().enumerate();
        let candidates: SmallVec<[Candidate<'_>; 8]> = members
            .filter(|(index, member)| {
                member.settings.weight > 0.0 && !out.contains(index) && is_eligible(member)
            })
            .map(|(index, member)| Candidate {
                index,
                weight: self.weight(member, now),
                active: member.server.active(),
                name: member.server.name(),
            })
            .collect();
        if let [only] = candidates.as_slice() {
            return Some(only.index);
        }
        // Whole numbers of additions were made in it, whatever happened to the holder.
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        choose(&self.model.balance, &candidates, key, &mut turns)
    }

    /// Its weight, less while it starts slowly.
    fn weight(&self, member: &Member, now: Millis) -> f64 {
        /// Share it begins with.
        const FIRST: f64 = 0.05;
        let ramp = millis(self.model.slow_start);
        if ramp == 0 || matches!(self.model.balance, Balance::Hash(_)) {
            return member.settings.weight;
        }
        let share = member
            .server
            .recovered_for(now)
            .map_or(1.0, |since| since as f64 / ramp as f64);
        member.settings.weight * share.clamp(FIRST, 1.0)
    }

    /// A place in the queue for a server with room; `None`: too many wait already.
    pub fn wait(&self) -> Option<Place<'_>> {
        self.queue
            .enter(usize::try_from(self.model.queue).unwrap_or(usize::MAX))
    }

    /// Claims a server when it is the turn of `place` and one has room.
    pub fn poll_claim(
        self: &Arc<Self>,
        context: &Context<'_>,
        place: &Place<'_>,
        key: &[u8],
        tried: &Tried,
        now: Millis,
    ) -> Poll<Result<Claim, Unavailable>> {
        if !place.may_try(context) {
            return Poll::Pending;
        }
        // See `Server::end`.
        fence(Ordering::SeqCst);
        match self.claim_now(key, tried, now) {
            Err(Unavailable::Full) => Poll::Pending,
            outcome => Poll::Ready(outcome),
        }
    }
}

/// A request's claim on a server; the server is relieved of it when it is dropped.
#[derive(Debug)]
pub struct Claim {
    upstream: Arc<Upstream>,
    server: Arc<Server>,
    index: usize,
}

impl Claim {
    /// Number of the server in its group, for [`Tried`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// The claimed server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// The server answered as it should.
    pub fn succeeded(&self, now: Millis) {
        self.server.succeeded(now);
    }

    /// The server failed. True: with this it is down, and gets no requests for a while.
    pub fn failed(&self, now: Millis) -> bool {
        let is_down = self.server.failed(self.upstream.options(), now);
        // The only one is asked all the same.
        is_down && self.upstream.members.len() > 1
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.server.end();
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
