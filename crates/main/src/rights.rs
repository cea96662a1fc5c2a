//! The rights of each router, and how long it has them.
//!
//! A router serves the configuration in force, and prepares the next one; it requests the resources of both. Must never
//! happen: that it gets anything without a grant. The time limits are for messages in transit: a router that receives a
//! change may have just requested something of the former configuration. It does not get that, because it would not be
//! released, but this is not an alert either.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tutti_protocol::{
    ApplicationGrant, BindAddress, CacheGrant, CommandGrant, FromRouter, Grants, PlaceGrant,
};

use super::children::Children;
use super::handover::DatagramUse;

/// Time for which a resource just given up may still be requested without an alert: a message takes far less.
const ON_THE_WAY: Duration = Duration::from_secs(10);

/// Rejections of one router that are logged: the first ones suffice.
const MOST_REPORTED: u32 = 20;

/// The rights that one configuration gives a router.
#[derive(Default)]
struct Granted {
    places: HashMap<BindAddress, i32>,
    datagrams: HashSet<SocketAddr>,
    stream_datagrams: HashSet<SocketAddr>,
    logs: HashSet<PathBuf>,
    files: HashSet<PathBuf>,
    spools: HashSet<PathBuf>,
    jobs: bool,
    caches: HashSet<CacheGrant>,
    nodes: bool,
    applications: Vec<Rc<ApplicationGrant>>,
    commands: Vec<Rc<CommandGrant>>,
}

impl Granted {
    /// Unchanged applications keep their grant.
    fn new(grants: &Grants, before: &[Rc<ApplicationGrant>]) -> Granted {
        let places = grants.places.iter();
        let applications = grants.applications.iter().map(|grant| {
            let same = before.iter().find(|before| ***before == *grant);
            same.map_or_else(|| Rc::new(grant.clone()), Rc::clone)
        });
        Granted {
            places: places
                .map(|grant| (grant.place.clone(), grant.backlog))
                .collect(),
            datagrams: grants.datagrams.iter().copied().collect(),
            stream_datagrams: grants.stream_datagrams.iter().copied().collect(),
            logs: grants.logs.iter().cloned().collect(),
            files: grants.files.iter().cloned().collect(),
            spools: grants.spools.iter().cloned().collect(),
            jobs: grants.jobs,
            caches: grants.caches.iter().cloned().collect(),
            nodes: grants.nodes,
            applications: applications.collect(),
            commands: grants.commands.iter().cloned().map(Rc::new).collect(),
        }
    }

    fn command(&self, place: &str, start: &str) -> Option<&Rc<CommandGrant>> {
        let mut commands = self.commands.iter();
        commands.find(|grant| grant.place == place && grant.start == start)
    }
}

/// An application that is no longer in force. Its processes finish their requests, and one that dies is replaced.
struct EndingApplication {
    grant: Rc<ApplicationGrant>,
    /// When it was last seen to have processes.
    alive: Instant,
}

/// Sockets and logs that were only for an abandoned change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Abandoned {
    pub(super) places: Vec<BindAddress>,
    pub(super) datagrams: Vec<SocketAddr>,
    pub(super) logs: Vec<PathBuf>,
}

/// The rights of one router.
pub(super) struct Rights {
    /// The bank of its UDP sockets.
    pub(super) bank: u8,
    in_force: Granted,
    /// The rights for the change that is being prepared.
    pending: Option<Granted>,
    /// Addresses whose UDP sockets were bound for that change. Others may still have the sockets of a removed listener.
    bound: HashSet<SocketAddr>,
    /// Addresses of removed listeners whose UDP sockets the router still uses.
    unreturned: HashSet<SocketAddr>,
    /// Given up recently: requests for it are rejected without an alert.
    recent: Option<(Granted, Instant)>,
    ending: Vec<EndingApplication>,
    refusals: u32,
}

impl Rights {
    pub(super) fn new(grants: &Grants) -> Rights {
        Rights {
            bank: 0,
            in_force: Granted::new(grants, &[]),
            pending: None,
            bound: HashSet::new(),
            unreturned: HashSet::new(),
            recent: None,
            ending: Vec::new(),
            refusals: 0,
        }
    }

    /// A change will be prepared.
    pub(super) fn prepare(&mut self, grants: &Grants) {
        self.pending = Some(Granted::new(grants, &self.in_force.applications));
        self.bound.clear();
    }

    /// UDP sockets were bound at this address.
    pub(super) fn note_bound(&mut self, address: SocketAddr) {
        if self.pending.is_some() {
            self.bound.insert(address);
        }
    }

    /// The router has returned the UDP sockets of this address.
    pub(super) fn note_returned(&mut self, address: &SocketAddr) {
        self.unreturned.remove(address);
    }

    /// True if the router may have UDP sockets of this address.
    pub(super) fn may_have_datagrams(&self, address: &SocketAddr) -> bool {
        self.unreturned.contains(address) || self.datagrams(address).is_some()
    }

    /// The change is in force.
    pub(super) fn commit(&mut self, now: Instant) {
        let Some(next) = self.pending.take() else {
            return;
        };
        let before = std::mem::replace(&mut self.in_force, next);
        let is_kept = |grant: &Rc<ApplicationGrant>| {
            let mut kept = self.in_force.applications.iter();
            kept.any(|kept| Rc::ptr_eq(kept, grant))
        };
        let gone = before.applications.iter().filter(|grant| !is_kept(grant));
        self.ending.extend(gone.map(|grant| EndingApplication {
            grant: Rc::clone(grant),
            alive: now,
        }));
        self.unreturned.extend(&before.datagrams);
        let datagrams = &self.in_force.datagrams;
        self.unreturned
            .retain(|address| !datagrams.contains(address));
        debug_assert!(
            !self.ending.iter().any(|ending| is_kept(&ending.grant)),
            "an application in force would be forgotten"
        );
        self.recent = Some((before, now));
    }

    /// The change is abandoned; returns the resources that were only for it.
    pub(super) fn abandon(&mut self, now: Instant) -> Abandoned {
        let Some(pending) = self.pending.take() else {
            return Abandoned::default();
        };
        let kept = &self.in_force;
        let places = pending.places.keys();
        let places = places.filter(|place| !kept.places.contains_key(place));
        let logs = pending.logs.difference(&kept.logs);
        let datagrams = pending.datagrams.difference(&kept.datagrams);
        let datagrams = datagrams.filter(|address| self.bound.contains(address));
        let gone = Abandoned {
            places: places.cloned().collect(),
            datagrams: datagrams.copied().collect(),
            logs: logs.cloned().collect(),
        };
        self.recent = Some((pending, now));
        gone
    }

    fn all(&self) -> impl Iterator<Item = &Granted> {
        // The pending change determines the options of an unchanged address.
        self.pending.iter().chain([&self.in_force])
    }

    /// Returns the backlog of this address, if the router may listen there.
    pub(super) fn backlog(&self, place: &BindAddress) -> Option<i32> {
        self.all()
            .find_map(|granted| granted.places.get(place).copied())
    }

    /// Returns the purpose for which the router may receive datagrams at this address, and its bank.
    pub(super) fn datagrams(&self, address: &SocketAddr) -> Option<(DatagramUse, u8)> {
        let mut granted = self.all();
        let granted = granted.find(|granted| granted.datagrams.contains(address))?;
        let purpose = match granted.stream_datagrams.contains(address) {
            true => DatagramUse::Stream,
            false => DatagramUse::Quic,
        };
        Some((purpose, self.bank))
    }

    pub(super) fn has_log(&self, path: &Path) -> bool {
        self.all().any(|granted| granted.logs.contains(path))
    }

    pub(super) fn has_file(&self, path: &Path) -> bool {
        self.all().any(|granted| granted.files.contains(path))
    }

    pub(super) fn has_spool(&self, folder: &Path) -> bool {
        self.all().any(|granted| granted.spools.contains(folder))
    }

    pub(super) fn has_jobs(&self) -> bool {
        self.all().any(|granted| granted.jobs)
    }

    pub(super) fn has_nodes(&self) -> bool {
        self.all().any(|granted| granted.nodes)
    }

    pub(super) fn has_cache(&self, cache: &CacheGrant) -> bool {
        self.all().any(|granted| granted.caches.contains(cache))
    }

    /// Returns the application with this name and start document.
    pub(super) fn application(&self, name: &str, start: &str) -> Option<Rc<ApplicationGrant>> {
        let ending = self.ending.iter().map(|ending| &ending.grant);
        self.all()
            .flat_map(|granted| &granted.applications)
            .chain(ending)
            .find(|grant| grant.name == name && grant.start == start)
            .cloned()
    }

    /// Returns the command with this place and start document.
    pub(super) fn command(&self, place: &str, start: &str) -> Option<Rc<CommandGrant>> {
        self.all()
            .find_map(|granted| granted.command(place, start))
            .cloned()
    }

    /// True if the router could have had this a moment ago.
    pub(super) fn had(&self, wanted: &FromRouter, now: Instant) -> bool {
        let recent = self.recent.as_ref();
        let recent = recent.filter(|(_, since)| now.duration_since(*since) < ON_THE_WAY);
        recent.is_some_and(|(granted, _)| match wanted {
            FromRouter::Listen { place, .. } => granted.places.contains_key(place),
            FromRouter::ListenDatagrams { address, .. } => granted.datagrams.contains(address),
            FromRouter::OpenFile { path, .. } => granted.logs.contains(path),
            FromRouter::ReadFile { path, .. } => granted.files.contains(path),
            FromRouter::OpenSpool { folder, .. } => granted.spools.contains(folder),
            FromRouter::OpenJobs { .. } => granted.jobs,
            FromRouter::FollowNodes { .. } => granted.nodes,
            FromRouter::OpenCache { cache, .. } => granted.caches.contains(cache),
            FromRouter::Start { name, start, .. } => {
                let mut applications = granted.applications.iter();
                applications.any(|grant| grant.name == *name && grant.start == *start)
            }
            FromRouter::RunCommand { place, start, .. } => granted.command(place, start).is_some(),
            _ => false,
        })
    }

    /// Forgets applications that are no longer in force and whose processes have ended.
    pub(super) fn forget_ended(&mut self, router: i32, children: &Children, now: Instant) {
        self.ending.retain_mut(|ending| {
            if children.has_of(router, &ending.grant) {
                ending.alive = now;
            }
            now.duration_since(ending.alive) < ON_THE_WAY
        });
    }

    /// Counts a rejection; returns whether to log it.
    pub(super) fn refuse(&mut self) -> bool {
        self.refusals = self.refusals.saturating_add(1);
        self.refusals <= MOST_REPORTED
    }

    /// Returns all grants, for the next program of this process.
    pub(super) fn handed(&self) -> Grants {
        let places = self.in_force.places.iter();
        let ending = self.ending.iter().map(|ending| &ending.grant);
        let applications = self.in_force.applications.iter().chain(ending);
        Grants {
            places: places
                .map(|(place, backlog)| PlaceGrant {
                    place: place.clone(),
                    backlog: *backlog,
                })
                .collect(),
            datagrams: self.in_force.datagrams.iter().copied().collect(),
            stream_datagrams: self.in_force.stream_datagrams.iter().copied().collect(),
            logs: self.in_force.logs.iter().cloned().collect(),
            files: self.in_force.files.iter().cloned().collect(),
            spools: self.in_force.spools.iter().cloned().collect(),
            jobs: self.in_force.jobs,
            caches: self.in_force.caches.iter().cloned().collect(),
            nodes: self.in_force.nodes,
            applications: applications
                .map(|grant| ApplicationGrant::clone(grant))
                .collect(),
            commands: self
                .in_force
                .commands
                .iter()
                .map(|grant| CommandGrant::clone(grant))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(port: u16, applications: &[(&str, &str)]) -> Grants {
        Grants {
            places: vec![PlaceGrant {
                place: place(port),
                backlog: i32::from(port),
            }],
            datagrams: vec![([127, 0, 0, 1], port).into()],
            stream_datagrams: vec![],
            logs: vec![format!("/log/{port}").into()],
            files: vec![format!("/file/{port}").into()],
            spools: vec![format!("/spool/{port}").into()],
            jobs: true,
            caches: vec![cache(port)],
            nodes: false,
            applications: applications
                .iter()
                .map(|(name, start)| ApplicationGrant {
                    name: (*name).to_owned(),
                    kind: "php".to_owned(),
                    version: "8".to_owned(),
                    user: None,
                    group: None,
                    isolation: None,
                    start: (*start).to_owned(),
                })
                .collect(),
            commands: Vec::new(),
        }
    }

    fn cache(port: u16) -> CacheGrant {
        CacheGrant {
            name: "pages".to_owned(),
            folder: Some(format!("/cache/{port}").into()),
        }
    }

    fn place(port: u16) -> BindAddress {
        BindAddress::Inet(([127, 0, 0, 1], port).into())
    }

    /// True if a router has these rights, and whether a request without them is tolerated.
    fn has(rights: &Rights, port: u16, now: Instant) -> (bool, bool) {
        let (path, folder) = (format!("/log/{port}"), format!("/spool/{port}"));
        let file = format!("/file/{port}");
        let has = [
            rights.backlog(&place(port)).is_some(),
            rights.datagrams(&([127, 0, 0, 1], port).into()).is_some(),
            rights.has_log(Path::new(&path)),
            rights.has_file(Path::new(&file)),
            rights.has_spool(Path::new(&folder)),
            rights.has_cache(&cache(port)),
        ];
        let wanted = [
            FromRouter::Listen {
                id: 1,
                place: place(port),
            },
            FromRouter::ListenDatagrams {
                id: 1,
                address: ([127, 0, 0, 1], port).into(),
            },
            FromRouter::OpenFile {
                id: 1,
                path: path.into(),
            },
            FromRouter::ReadFile {
                id: 1,
                path: file.into(),
            },
            FromRouter::OpenSpool {
                id: 1,
                folder: folder.into(),
            },
            FromRouter::OpenCache {
                id: 1,
                cache: cache(port),
            },
        ];
        let had = wanted.map(|wanted| rights.had(&wanted, now));
        assert!(has.iter().all(|one| *one == has[0]) && had.iter().all(|one| *one == had[0]));
        (has[0], had[0])
    }

    /// Issue 10: a router has the grants of a change from the moment it is to prepare it, and loses grants that the
    /// change removes; requests for these are only tolerated for as long as a message may be in transit.
    #[test]
    fn rights_come_and_go_with_the_configuration() {
        let now = Instant::now();
        let later = now + ON_THE_WAY;
        let mut rights = Rights::new(&grants(1, &[("a", "one"), ("b", "one")]));
        assert_eq!(has(&rights, 1, now), (true, false));
        assert_eq!(has(&rights, 2, now), (false, false));
        rights.prepare(&grants(2, &[("a", "two"), ("b", "one")]));
        assert!(has(&rights, 1, now).0 && has(&rights, 2, now).0);
        rights.note_bound(([127, 0, 0, 1], 2).into());
        assert_eq!(
            rights.abandon(now),
            Abandoned {
                places: vec![place(2)],
                datagrams: vec![([127, 0, 0, 1], 2).into()],
                logs: vec![PathBuf::from("/log/2")],
            }
        );
        assert_eq!(has(&rights, 2, now), (false, true));
        assert_eq!(has(&rights, 2, later), (false, false));
        rights.prepare(&grants(1, &[]));
        assert_eq!(
            rights.abandon(now),
            Abandoned::default(),
            "it has these anyway"
        );
        rights.prepare(&grants(2, &[("a", "two"), ("b", "one")]));
        rights.commit(now);
        assert_eq!(has(&rights, 1, now), (false, true));
        assert_eq!(has(&rights, 1, later), (false, false));
        assert_eq!(has(&rights, 2, later), (true, false));
    }

    #[test]
    fn an_abandoned_change_leaves_the_sockets_of_a_removed_listener() {
        let now = Instant::now();
        let address = ([127, 0, 0, 1], 2).into();
        let mut rights = Rights::new(&grants(1, &[]));
        rights.prepare(&grants(2, &[]));
        rights.note_bound(address);
        assert_eq!(rights.abandon(now).datagrams, [address]);
        // They were there: a listener had them before, and its connections are open.
        rights.prepare(&grants(2, &[]));
        assert!(rights.abandon(now).datagrams.is_empty());
    }

    #[test]
    fn a_router_has_the_sockets_of_a_removed_listener_until_it_returns_them() {
        let now = Instant::now();
        let (first, second) = (([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into());
        let mut rights = Rights::new(&grants(1, &[]));
        rights.prepare(&grants(2, &[]));
        rights.commit(now);
        assert!(rights.may_have_datagrams(&first) && rights.may_have_datagrams(&second));
        rights.note_returned(&first);
        assert!(!rights.may_have_datagrams(&first));
        // One that is added again is in use, and removed again.
        rights.prepare(&grants(1, &[]));
        rights.commit(now);
        rights.note_returned(&first);
        assert!(rights.may_have_datagrams(&first) && rights.may_have_datagrams(&second));
    }

    #[test]
    fn an_application_that_is_not_in_force_any_more_can_be_started_while_it_has_processes() {
        let now = Instant::now();
        let later = now + ON_THE_WAY;
        let mut rights = Rights::new(&grants(1, &[("a", "one"), ("b", "one")]));
        rights.prepare(&grants(1, &[("a", "two"), ("b", "one")]));
        rights.commit(now);
        let starts = |rights: &Rights, name, start| rights.application(name, start).is_some();
        assert!(starts(&rights, "a", "one") && starts(&rights, "a", "two"));
        assert!(starts(&rights, "b", "one") && !starts(&rights, "b", "two"));
        assert!(!starts(&rights, "c", "one"));
        rights.forget_ended(7, &Children::default(), now);
        assert!(starts(&rights, "a", "one"));
        rights.forget_ended(7, &Children::default(), later);
        assert!(!starts(&rights, "a", "one") && starts(&rights, "a", "two"));
        assert!(starts(&rights, "b", "one"));
        let handed = Rights::new(&rights.handed());
        assert!(has(&handed, 1, later).0 && starts(&handed, "a", "two"));
    }
}
