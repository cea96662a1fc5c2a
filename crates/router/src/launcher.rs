//! Starts and ends processes for the pool, through main.

use std::sync::Arc;

use tutti_pool::{
    AppProcess, LaunchFuture, LaunchRequest, Launched, Launcher, SettleFuture, StartFailure,
};
use tutti_protocol::{FromRouter, LanguageModule};
use tutti_unprivileged::grants::start_of;

use super::line::Link;

/// The pool's [`Launcher`] over the socket to main.
pub(super) struct MainLauncher {
    pub(super) link: Arc<Link>,
    pub(super) modules: Vec<LanguageModule>,
}

impl MainLauncher {
    fn has(&self, kind: &str, version: &str) -> bool {
        self.modules
            .iter()
            .any(|m| m.kind == kind && m.version == version)
    }
}

impl Launcher for MainLauncher {
    fn start_prototype(&self, request: LaunchRequest) -> LaunchFuture {
        let spec = request.spec;
        if !self.has(&spec.kind, &spec.version) {
            let message = format!("there is no module for `{} {}`", spec.kind, spec.version);
            let failure = StartFailure::new(&spec, "find module", message)
                .with_hint("`modules` in /status lists those that were found at start");
            return Box::pin(std::future::ready(Err(failure)));
        }
        // Main has the same document in its grants, which decide the user and the program.
        let start = start_of(&spec);
        let mut descriptors = vec![
            request.control,
            request.segment,
            request.spool,
            request.output,
        ];
        descriptors.extend(request.eventfds);
        let started = self.link.request(
            &|id| FromRouter::Start {
                id,
                name: spec.name.to_string(),
                start: start.clone(),
                threads: request.threads,
                workers: request.workers,
            },
            descriptors,
        );
        Box::pin(async move {
            match started.await {
                Ok(done) => match done.pid {
                    Some(pid) => Ok(Launched { pid }),
                    None => Err(StartFailure::new(&spec, "exec", "main sent no process id")),
                },
                Err(refused) => {
                    let mut failure = StartFailure::new(&spec, "exec", refused.message);
                    if let Some(option) = refused.option {
                        failure.pointer = format!("{}/{option}", failure.pointer);
                    }
                    Err(match refused.hint {
                        Some(hint) => failure.with_hint(hint),
                        None => failure,
                    })
                }
            }
        })
    }

    fn settle(&self, pid: i32) -> SettleFuture {
        let settled = self
            .link
            .request(&|id| FromRouter::Settle { id, pid }, Vec::new());
        // Main logs a failure; the prototype serves anyway.
        Box::pin(async move { drop(settled.await) })
    }

    fn kill(&self, process: AppProcess, signal: i32) {
        self.link.send(&FromRouter::Kill {
            leader: Some(process.prototype),
            pid: process.pid,
            signal,
        });
    }
}
