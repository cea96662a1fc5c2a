//! A group of servers: its members and their names. [`claim`] chooses one of them for a request.

mod claim;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tokio::sync::watch;
use tutti_config::model::{self, UpstreamAddress, UpstreamOptions, UpstreamServer};
use tutti_tls::ClientTls;

pub use self::claim::{ServerChoice, ServerClaim, Tried, Unavailable};
use crate::Millis;
use crate::computed::{ComputedGroups, GroupUse};
use crate::lookup::Resolution;
use crate::queue::Queue;
use crate::server::{GroupServer, RestRule, ServerStatus};
use crate::sticky::StickyKey;
use crate::target::{ResolvedTarget, shares};

/// A group of servers to which requests are forwarded.
#[derive(Debug)]
pub struct ServerGroup {
    model: Arc<model::Upstream>,
    tls: Option<Arc<ClientTls>>,
    members: ArcSwap<Members>,
    /// The known addresses of each configured server.
    names: Mutex<Box<[Addresses]>>,
    /// True once every name has been looked up, successfully or not.
    is_named: watch::Sender<bool>,
    /// Requests may have to wait for capacity.
    is_bounded: bool,
    queue: Arc<Queue>,
    /// Requests that were repeated on another server; shared with the upstream before a change of the configuration.
    retries: Arc<AtomicU64>,
    /// Copies of requests, by result.
    copies: Arc<[AtomicU64; 3]>,
    /// See [`model::Upstream::fetch_hash`].
    fetch_hash: u64,
    /// The groups of servers that a computed address has named.
    computed: ComputedGroups<ServerGroup>,
    /// The key of cookies that keep clients at servers, if it has such.
    sticky: Option<StickyKey>,
}

/// The usable servers. Servers found by a name are replaced when its addresses change.
#[derive(Debug)]
struct Members {
    list: Box<[Member]>,
    /// The existing ranks, sorted.
    ranks: SmallVec<[Rank; 2]>,
    /// State of the round robin, one number for each member.
    turns: Mutex<Box<[f64]>>,
}

impl Members {
    fn of(list: Vec<Member>) -> Self {
        let mut ranks: SmallVec<[Rank; 2]> = list.iter().map(|member| member.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        Members {
            turns: Mutex::new(vec![0.0; list.len()].into()),
            list: list.into(),
            ranks,
        }
    }
}

/// The addresses of a configured server.
#[derive(Clone, Debug, PartialEq)]
enum Addresses {
    /// The configuration has the address itself.
    Written,
    /// A name that has not been looked up.
    Unknown,
    /// It has none, or could not be looked up.
    None,
    /// These, sorted.
    Known(Vec<ResolvedTarget>),
}

#[derive(Debug)]
struct Member {
    server: Arc<GroupServer>,
    /// The configured weight, times its share of what a name resolves to.
    weight: f64,
    /// Servers with a lower rank get requests first.
    rank: Rank,
    max_connections: Option<u32>,
    /// When it rests after failures.
    rest: RestRule,
    /// The value of the cookie that leads to it; empty: the group is not sticky.
    code: Box<str>,
    /// Its DNS record, if its name has such.
    target: Option<ResolvedTarget>,
}

/// True for a backup, and its rank among the targets of a name.
type Rank = (bool, u16);

/// The result of a copy of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFate {
    /// It was answered.
    Answered,
    /// It failed or timed out.
    Failed,
    /// There was no capacity for it.
    Dropped,
}

impl ServerGroup {
    /// Makes a group. Servers that `previous` has, too, continue: their connections, their counts, their health.
    ///
    /// `tls` is required if the model has it.
    pub fn new(
        model: &Arc<model::Upstream>,
        tls: Option<Arc<ClientTls>>,
        previous: Option<&ServerGroup>,
    ) -> ServerGroup {
        Self::with_key(model, (tls, None), previous)
    }

    /// The same, with the key of its cookies; by default that of the former group, or a random one.
    pub fn with_key(
        model: &Arc<model::Upstream>,
        (tls, key): (Option<Arc<ClientTls>>, Option<StickyKey>),
        previous: Option<&ServerGroup>,
    ) -> ServerGroup {
        let sticky = model.group.sticky.as_ref().and_then(|_| {
            let same = previous.filter(|former| former.model.sticky_key == model.sticky_key);
            let known = || same.and_then(|former| former.sticky.clone());
            key.or_else(known).or_else(StickyKey::random)
        });
        let names = model.servers.iter().map(|server| match &server.address {
            name if name.is_found() => previous
                .and_then(|previous| previous.addresses_of(name))
                .unwrap_or(Addresses::Unknown),
            _ => Addresses::Written,
        });
        let names: Box<[Addresses]> = names.collect();
        let upstream = ServerGroup {
            members: ArcSwap::from_pointee(Members::of(Vec::new())),
            is_named: watch::Sender::new(!names.contains(&Addresses::Unknown)),
            names: Mutex::new(names),
            is_bounded: model
                .servers
                .iter()
                .any(|settings| settings.options.max_connections.0.is_some()),
            queue: Arc::default(),
            fetch_hash: model.fetch_hash(),
            computed: ComputedGroups::default(),
            sticky,
            model: Arc::clone(model),
            tls,
            retries: previous.map_or_else(Arc::default, |previous| Arc::clone(&previous.retries)),
            copies: previous.map_or_else(Arc::default, |previous| Arc::clone(&previous.copies)),
        };
        let known = previous.map(|previous| previous.members.load_full());
        upstream.gather(&upstream.lock_names().clone(), known.as_deref());
        let is_checked = |group: &ServerGroup| group.model.group.health_check.is_some();
        if is_checked(&upstream) && !previous.is_some_and(is_checked) {
            // Earlier checks say nothing about now.
            let members = upstream.members.load();
            members
                .list
                .iter()
                .for_each(|member| member.server.forget_checks());
        }
        upstream
    }

    /// Called when its configuration comes into force. The limits of servers that continue change for requests of former configurations, too:
    /// those would otherwise wait for capacity that others take.
    pub fn take_effect(&self) {
        for member in &self.members.load().list {
            member.server.limit_to(member.max_connections);
        }
    }

    /// True if it makes the codes in its cookies with this key.
    pub fn has_key(&self, key: &StickyKey) -> bool {
        self.sticky.as_ref().is_some_and(|own| own.is_same(key))
    }

    /// A hash that distinguishes responses fetched with these options from others.
    pub fn fetch_hash(&self) -> u64 {
        self.fetch_hash
    }

    fn lock_names(&self) -> MutexGuard<'_, Box<[Addresses]>> {
        // Each change is one assignment.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The known addresses of a name.
    fn addresses_of(&self, name: &UpstreamAddress) -> Option<Addresses> {
        let mut servers = self.model.servers.iter();
        let index = servers.position(|server| server.address == *name)?;
        self.lock_names().get(index).cloned()
    }

    /// Makes members from the known addresses of names; servers among `known` continue.
    fn gather(&self, names: &[Addresses], known: Option<&Members>) {
        let mut list: Vec<Member> = Vec::new();
        let servers = self.model.servers.iter().zip(names);
        for (settings, addresses) in servers {
            let host = settings.address.host();
            let targets = match (settings.address.is_found(), addresses) {
                (true, Addresses::Known(targets)) => targets,
                (true, _) => continue,
                (false, _) => {
                    let address = settings.address.clone();
                    self.add(&mut list, known, settings, address, None);
                    continue;
                }
            };
            for (target, share) in targets.iter().zip(shares(targets)) {
                let address = UpstreamAddress::Inet(target.address);
                if let Some(member) = self.add(&mut list, known, settings, address, host) {
                    member.weight *= share.weight;
                    member.rank.1 = share.rank;
                    member.target = target.host.is_some().then(|| target.clone());
                }
            }
        }
        self.members.store(Arc::new(Members::of(list)));
    }

    /// Adds a server, unless its address is there already; one among `known` continues. `host` is the name that resolved to it.
    fn add<'l>(
        &self,
        list: &'l mut Vec<Member>,
        known: Option<&Members>,
        settings: &UpstreamServer,
        address: UpstreamAddress,
        host: Option<&str>,
    ) -> Option<&'l mut Member> {
        let mut members = list.iter();
        if members.any(|member| *member.server.address() == address) {
            return None;
        }
        let tls = self.tls.as_ref();
        let kept = known.and_then(|known| {
            let mut known = known.list.iter();
            known.find(|member| member.server.is(&address, host, tls))
        });
        let server = kept.map_or_else(
            || {
                let name = match (&settings.address, &address) {
                    (UpstreamAddress::Name { .. }, UpstreamAddress::Inet(inet)) => {
                        format!("{} ({})", settings.name, inet.ip())
                    }
                    (
                        UpstreamAddress::Service { .. }
                        | UpstreamAddress::Kubernetes { .. }
                        | UpstreamAddress::Fleet { .. },
                        UpstreamAddress::Inet(inet),
                    ) => format!("{} ({inet})", settings.name),
                    _ => settings.name.clone(),
                };
                Arc::new(GroupServer::new(&name, &address, host, tls))
            },
            |member| Arc::clone(&member.server),
        );
        if self.is_bounded {
            server.notify_of_room(&self.queue);
        }
        if kept.is_none() {
            server.limit_to(settings.options.max_connections.0);
        }
        let options = self.model.group.sticky.as_ref();
        let code = self
            .sticky
            .as_ref()
            .zip(options)
            .map(|(key, options)| key.code(&options.cookie, &address));
        list.push(Member {
            server,
            code: code.unwrap_or_default(),
            weight: settings.options.weight,
            rank: (settings.options.backup, 0),
            max_connections: settings.options.max_connections.0,
            rest: RestRule {
                max_fails: (settings.options.max_fails).unwrap_or(self.options().max_fails),
                fail_timeout: (settings.options.fail_timeout)
                    .unwrap_or(self.options().fail_timeout),
            },
            target: None,
        });
        list.last_mut()
    }

    /// The names among its servers, each with its index.
    pub fn names(&self) -> impl Iterator<Item = (usize, &UpstreamAddress)> {
        let servers = self.model.servers.iter().enumerate();
        let servers = servers.map(|(index, server)| (index, &server.address));
        servers.filter(|(_, address)| address.is_found())
    }

    /// The known targets of the name with this index.
    pub(crate) fn targets(&self, index: usize) -> Vec<ResolvedTarget> {
        match self.lock_names().get(index) {
            Some(Addresses::Known(targets)) => targets.clone(),
            _ => Vec::new(),
        }
    }

    /// Stores the targets of the name with this index; `None`: the lookup failed, and the former ones are kept. True: there are some.
    pub fn resolved(&self, index: usize, targets: Option<Vec<ResolvedTarget>>) -> bool {
        let mut names = self.lock_names();
        let Some(name) = names.get_mut(index) else {
            return false;
        };
        let before = name.clone();
        match targets {
            Some(targets) => *name = Addresses::Known(targets),
            None if matches!(name, Addresses::Known(_)) => {}
            None => *name = Addresses::None,
        }
        let has_some = matches!(name, Addresses::Known(targets) if !targets.is_empty());
        if *name != before {
            let known = self.members.load_full();
            self.gather(&names, Some(&known));
        }
        let is_named = !names.contains(&Addresses::Unknown);
        drop(names);
        self.is_named.send_replace(is_named);
        self.queue.wake_next();
        has_some
    }

    /// Reports when every name has been looked up.
    pub fn named(&self) -> watch::Receiver<bool> {
        self.is_named.subscribe()
    }

    /// Counts a request that is repeated on another server.
    pub fn note_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of repeated requests.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Counts a copy of a request by its result.
    pub fn note_copy(&self, fate: CopyFate) {
        if let Some(count) = self.copies.get(fate as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Copies of requests by result.
    pub fn copies(&self) -> [(&'static str, u64); 3] {
        let count = |fate: CopyFate| {
            let count = self.copies.get(fate as usize);
            count.map_or(0, |count| count.load(Ordering::Relaxed))
        };
        [
            ("answered", count(CopyFate::Answered)),
            ("failed", count(CopyFate::Failed)),
            ("dropped", count(CopyFate::Dropped)),
        ]
    }

    /// Its configuration.
    pub fn model(&self) -> &Arc<model::Upstream> {
        &self.model
    }

    /// The TLS parameters for its servers, if they speak TLS.
    pub fn tls(&self) -> Option<&Arc<ClientTls>> {
        self.tls.as_ref()
    }

    /// Its name, or the URL of a `proxy`.
    pub fn name(&self) -> &str {
        &self.model.name
    }

    /// The options for its servers.
    pub fn options(&self) -> &UpstreamOptions {
        &self.model.options
    }

    /// Its servers, including those that a computed address has named.
    pub fn servers(&self) -> Vec<Arc<GroupServer>> {
        let members = self.members.load();
        let servers = members.list.iter().map(|member| Arc::clone(&member.server));
        let named = self.computed.groups().into_iter();
        servers
            .chain(named.flat_map(|group| group.servers()))
            .collect()
    }

    /// The group of a server that a computed address names; `None`: so many servers are busy that there is no room for another.
    pub fn of_computed(
        &self,
        computed: &model::ComputedServer,
        address: &UpstreamAddress,
        now: Millis,
    ) -> Option<Arc<ServerGroup>> {
        self.computed.at(address, now, || {
            let wanted = model::Upstream {
                name: computed.url(address),
                servers: vec![UpstreamServer::at(address.clone())],
                ..model::Upstream::clone(&self.model)
            };
            ServerGroup::new(&Arc::new(wanted), self.tls.clone(), None)
        })
    }

    /// Drops the groups of computed servers that have had no requests for a while, and returns the others.
    pub fn sweep_computed(&self, now: Millis) -> Vec<Arc<ServerGroup>> {
        self.computed.sweep(now);
        self.computed.groups()
    }

    /// Waits until there is another group of a computed server.
    pub async fn has_more_computed(&self) {
        self.computed.has_more().await;
    }

    /// Checks the addresses of a computed name. A name server must not lead a client to an address that `allow` does not permit.
    pub(crate) fn permitted(&self, mut found: Resolution) -> Result<Resolution, String> {
        let Some(computed) = &self.model.computed else {
            return Ok(found);
        };
        let first = found.targets.first().map(|target| target.address);
        found
            .targets
            .retain(|target| computed.permits_resolved(target.address));
        match first {
            Some(address) if found.targets.is_empty() => {
                Err(format!("`allow` does not permit its address {address}"))
            }
            _ => Ok(found),
        }
    }

    /// The status of its servers for `/status`.
    pub fn status(&self, now: Millis) -> Vec<ServerStatus> {
        let members = self.members.load();
        let mut status: Vec<ServerStatus> = members
            .list
            .iter()
            .map(|member| ServerStatus {
                target: member.target.clone(),
                ..member
                    .server
                    .status(now, self.model.group.health_check.is_some())
            })
            .collect();
        let names = self.lock_names();
        for (settings, addresses) in self.model.servers.iter().zip(&*names) {
            let leads_nowhere = match addresses {
                Addresses::Written => false,
                Addresses::Unknown | Addresses::None => true,
                Addresses::Known(targets) => targets.is_empty(),
            };
            if leads_nowhere {
                status.push(ServerStatus {
                    name: settings.name.clone(),
                    is_unresolved: true,
                    ..ServerStatus::default()
                });
            }
        }
        status
    }
}

impl GroupUse for ServerGroup {
    fn is_busy(&self) -> bool {
        let members = self.members.load();
        let is_serving = members.list.iter().any(|member| member.server.active() > 0);
        is_serving || !*self.is_named.borrow()
    }

    fn is_unresolved(&self) -> bool {
        *self.is_named.borrow() && self.members.load().list.is_empty()
    }
}
