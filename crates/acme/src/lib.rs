//! The acme role: unprivileged, obtains and renews the certificates that the configuration requires, from authorities
//! that support ACME (RFC 8555).
//!
//! Main starts it while there are such certificates, and keeps its documents: keys of accounts, orders in progress,
//! failures. The controller puts new certificates in force, and the router serves challenge responses. It can be
//! interrupted at any moment: every action that must not be repeated is stored before it is carried out. Must never
//! happen: an order that is forgotten, a second one for a name while one is in progress, or one earlier than a former
//! failure allows.
//!
//! | Module | holds |
//! |---|---|
//! | `documents` | documents that outlive a process |
//! | `times` | when an order is due; no I/O |
//! | `http` | requests to authorities, with limits on time and size |
//! | `accounts` | accounts with authorities |
//! | `internal` | the server's own authority |
//! | `answers` | challenge responses |
//! | `asking` | the question whether a name may have a certificate |
//! | `demand` | names that clients ask for: which are ordered, and which requests wait |
//! | `updates` | DNS records, by a name server that accepts updates |
//! | `order` | one order, continued from any step |
//! | `scheduler` | chooses the next order |
//! | `advice` | the renewal time that an authority suggests |
//! | `news` | the state of certificates, for `/status` |
//! | `fleet` | the fleet that shares certificates: documents that one node at a time works on |
//! | `shared` | the state of certificates that a fleet shares; no I/O |
//! | `turns` | one node of a fleet carries out due tasks, all apply the results |
//! | `wishes` | names that clients ask for, on their way to the scheduler |

#![forbid(unsafe_code)]

mod accounts;
mod advice;
mod challenges;
mod demand;
mod documents;
mod failure;
mod fleet;
mod fleet_turns;
mod http;
mod internal;
mod line;
mod on_demand;
mod order;
mod permission;
mod schedule;
mod scheduler;
mod shared;
mod status;
mod updates;

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;

use tutti_log::Log;
use tutti_protocol::{AcmeHello, FromAcme, ToAcme};
use tutti_unprivileged::{own_log, start};

use self::demand::Wish;
use self::line::Link;
use self::scheduler::Scheduler;

/// Runs until main ends it.
pub fn run() -> ExitCode {
    start::run("acme", serve)
}

/// The whole process, in one function.
async fn serve(line: OwnedFd) -> io::Result<()> {
    let link = Arc::new(Link::new(line)?);
    let (hello, log) = greeting(&link).await?;
    start::report_panics("acme", &log);
    start::give_up_rights("certificate process", None, &log);
    tokio::spawn({
        let link = Arc::clone(&link);
        async move { link.write_waiting().await }
    });
    let scheduler = Scheduler::new(Arc::clone(&link), log.clone(), hello);
    tokio::spawn(scheduler.clone().run());
    loop {
        let Some((news, descriptors)) = link.news().await? else {
            return Ok(());
        };
        match news {
            ToAcme::Plan { plan } => scheduler.follow(*plan),
            ToAcme::Want {
                id,
                account,
                name,
                client,
            } => scheduler.want(Wish {
                id,
                account,
                name,
                client,
            }),
            ToAcme::Renew { id, bundle } => scheduler.renew(id, &bundle),
            ToAcme::Used { account, name } => scheduler.note_use(&account, &name),
            ToAcme::Shared { id, answer } => scheduler.answered(id, answer),
            ToAcme::SharedNews { news } => scheduler.hear(&news),
            ToAcme::Probe { number } => link.send(&FromAcme::Alive { number }),
            ToAcme::LogReopened => own_log::reopen(&log, descriptors),
            ToAcme::Hello(_) | ToAcme::Done { .. } | ToAcme::Failed { .. } => {}
        }
    }
}

async fn greeting(link: &Link) -> io::Result<(AcmeHello, Log)> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let Some((ToAcme::Hello(hello), descriptors)) = link.news().await? else {
        return Err(invalid("main did not greet"));
    };
    let log = own_log::begin(descriptors, |file| {
        Log::of_threads(file, &hello.log, "acme")
    })?;
    Ok((*hello, log))
}
