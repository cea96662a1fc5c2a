//! The routers: starting them, receiving their messages, and carrying out their requests.
//!
//! `impl` blocks of [`Supervisor`]. Must never happen: that a message of a router is mistaken for one of the
//! controller, or that a router that sends messages without end keeps main from anything else.

use std::io;
use std::os::fd::OwnedFd;

use tutti_log::Level;
use tutti_protocol::{FromRouter, Grants, QuicHello, RouterHello, StoreKind, ToRouter};
use tutti_sys::port_group::BANKS;
use tutti_sys::signal;

use super::acme::Asker;
use super::own_process::{Launch, RouterProcess};
use super::processes::Numbered;
use super::rights::Rights;
use super::supervisor::{MOST_AT_ONCE, Supervisor};

/// A message with its descriptors, if there was one.
type Received = Option<(FromRouter, Vec<OwnedFd>)>;

impl Supervisor {
    /// Starts a router with these rights and sends its greeting.
    pub(super) fn launch_router(
        &mut self,
        launch: Launch,
        grants: &Grants,
    ) -> io::Result<RouterProcess> {
        let is_upgrade = launch == Launch::Successor;
        self.instance.ensure_temporary();
        let mut router = RouterProcess::start(&self.instance)?;
        // The serving router reads its own sockets until it has ended.
        let bank = self.holdings.sockets.bank() + u8::from(is_upgrade);
        let bank = bank % BANKS;
        let hello = RouterHello {
            modules: self.instance.modules.clone(),
            log: self.instance.log.style().clone(),
            tmpdir: self.instance.places.temporary.clone(),
            configuration: self.holdings.configuration.clone(),
            certificates: self.stored(StoreKind::Certificates),
            js_modules: self.stored(StoreKind::JsModules),
            challenges: self.holdings.challenges.clone(),
            follows_source: self.instance.places.source.is_some(),
            nodes: self.nodes_of_fleet(),
            is_upgrade,
            status: self.instance.status.place(&self.instance.places.control),
            quic: QuicHello {
                bank,
                secret: self.holdings.quic_secret()?,
            },
            watchdog: self.longest_silence.map(|limit| limit.as_secs()),
        };
        let log = self.instance.log.descriptor()?;
        router.send(&ToRouter::Hello(Box::new(hello)), vec![log])?;
        let mut rights = Rights::new(grants);
        rights.bank = bank;
        self.holdings.rights.insert(router.pid(), rights);
        Ok(router)
    }

    /// Has the kernel give new clients of HTTP/3 to the router of this bank, and the packets of others to the router of their connection.
    pub(super) fn lead_datagrams(&mut self, bank: u8) {
        let read = self.holdings.rights.values().map(|rights| rights.bank);
        if let Err(error) = self.holdings.sockets.turn_to(bank, read) {
            self.log(Level::Alert, &error.to_string());
        }
    }

    pub(super) fn send_to_router(&mut self, pid: i32, message: &ToRouter) {
        let router = self.router(pid);
        if let Some(Err(error)) = router.map(|router| router.send(message, Vec::new())) {
            self.log(Level::Alert, &format!("cannot send to the router: {error}"));
        }
    }

    pub(super) fn handle_routers(&mut self) {
        for pid in self.router_pids() {
            self.handle_router(pid);
        }
    }

    fn receive_from(&mut self, pid: i32) -> Option<io::Result<Received>> {
        let router = self.router(pid)?;
        router.process.flush();
        Some(router.process.receive())
    }

    fn handle_router(&mut self, pid: i32) {
        for _ in 0..MOST_AT_ONCE {
            // Looked up each time: a message may change the set of routers.
            match self.receive_from(pid) {
                None | Some(Ok(None)) => return,
                Some(Ok(Some((message, descriptors)))) => self.obey(pid, message, descriptors),
                // A router that sends invalid messages is not trusted any further.
                Some(Err(error)) => {
                    self.log(
                        Level::Alert,
                        &format!(
                            "router process {pid} sent a message that cannot be read: {error}"
                        ),
                    );
                    let _ = signal::send(pid, libc::SIGKILL);
                    return;
                }
            }
        }
    }

    /// Handles the news that a leaving router sent just before its end, when there was no time to read it: without it
    /// the next router would wait for a job that is done. Its requests need no answer any more.
    pub(super) fn handle_last_messages(&mut self, pid: i32) {
        for _ in 0..MOST_AT_ONCE {
            let Some(leaving) = self.routers.leaving(pid) else {
                return;
            };
            match leaving.process.receive() {
                Ok(Some((
                    news @ (FromRouter::Totals { .. } | FromRouter::JobDelivered { .. }),
                    _,
                ))) => {
                    self.obey(pid, news, Vec::new());
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn obey(&mut self, pid: i32, message: FromRouter, descriptors: Vec<OwnedFd>) {
        let (is_serving, is_next) = (self.routers.is_serving(pid), self.life.is_next_router(pid));
        match message {
            FromRouter::Ready if is_next => self.next_router_ready(),
            FromRouter::Ready if is_serving => self.router_ready(),
            FromRouter::Unfit { message } if is_next => self.go_back(&message, None),
            FromRouter::Frozen if is_serving => self.router_frozen(),
            FromRouter::Prepared { number } => self.router_prepared(pid, number),
            FromRouter::Committed { number, warnings } => {
                self.router_committed(pid, number, warnings);
            }
            FromRouter::Unprepared { number, faults } => {
                self.router_unprepared(pid, number, faults);
            }
            FromRouter::Told { number, told } => {
                self.take_router_answer(pid, number, told, descriptors);
                self.hand_over_if_at_rest();
            }
            FromRouter::Alive { number } => {
                if let Some(router) = self.router(pid) {
                    router.process.pulse.answered(number);
                }
            }
            FromRouter::Totals { totals } => {
                if let Some(router) = self.routers.leaving(pid) {
                    router.totals = totals;
                    self.send_totals();
                }
            }
            FromRouter::JobDelivered {
                spooler,
                job,
                error,
            } => {
                if self.routers.leaving(pid).is_some() {
                    self.send_delivered(spooler, job, error);
                }
            }
            FromRouter::PassJob => {
                if self.routers.leaving(pid).is_some() && self.may_have_jobs(pid) {
                    self.send_job(descriptors);
                }
            }
            FromRouter::WantCertificate {
                id,
                account,
                name,
                client,
            } => self.want_certificate(Asker::Router(pid, id), account, name, client),
            FromRouter::CertificateUsed { account, name } => {
                self.certificate_used(account, name);
            }
            // Only the serving router may manage sockets and logs.
            FromRouter::Unlisten { .. }
            | FromRouter::UnlistenDatagrams { .. }
            | FromRouter::CloseFile { .. }
                if !is_serving => {}
            message @ FromRouter::FollowNodes { .. } => {
                self.carry_out(pid, message, descriptors);
                self.router_follows_nodes(pid);
            }
            message => self.carry_out(pid, message, descriptors),
        }
    }

    fn carry_out(&mut self, pid: i32, message: FromRouter, descriptors: Vec<OwnedFd>) {
        let answer = self
            .holdings
            .carry_out(&self.instance, pid, message, descriptors);
        let router = self.router(pid);
        if let (Some((answer, descriptors)), Some(router)) = (answer, router)
            && let Err(error) = router.send(&answer, descriptors)
        {
            self.log(Level::Alert, &format!("cannot answer the router: {error}"));
        }
    }
}
