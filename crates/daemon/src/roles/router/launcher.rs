//! Starting and ending processes for the pool, by asking main.

use std::sync::Arc;

use tutti_pool::{LaunchFuture, LaunchRequest, Launched, Launcher, SettleFuture, StartFailure};

use super::link::Link;
use crate::protocol::{Isolation, Module, ToMain};

/// The pool's [`Launcher`] over the line to main.
pub(super) struct MainLauncher {
    pub(super) link: Arc<Link>,
    pub(super) modules: Vec<Module>,
}

impl MainLauncher {
    fn has(&self, kind: &str, version: &str) -> bool {
        self.modules
            .iter()
            .any(|m| m.kind == kind && m.version == version)
    }
}

/// `isolation` of an application's options, with all its members.
fn isolation_of(options: &serde_json::Value) -> serde_json::Result<Option<Isolation>> {
    match options.get("isolation") {
        None | Some(serde_json::Value::Null) => Ok(None),
        Some(isolation) => serde_json::from_value(isolation.clone()).map(Some),
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
        let option = |name: &str| {
            spec.options
                .get(name)
                .and_then(|v| v.as_str())
                .map(str::to_owned)
        };
        let (user, group) = (option("user"), option("group"));
        let isolation = match isolation_of(&spec.options) {
            Ok(isolation) => isolation.map(Box::new),
            Err(error) => {
                let failure = StartFailure::new(&spec, "read isolation", error.to_string());
                return Box::pin(std::future::ready(Err(failure)));
            }
        };
        let mut descriptors = vec![
            request.control,
            request.segment,
            request.spool,
            request.start,
            request.output,
        ];
        descriptors.extend(request.eventfds);
        let started = self.link.request(
            &|id| ToMain::Start {
                id,
                name: spec.name.to_string(),
                kind: spec.kind.clone(),
                version: spec.version.clone(),
                user: user.clone(),
                group: group.clone(),
                isolation: isolation.clone(),
                may_give_way: true,
            },
            descriptors,
        );
        Box::pin(async move {
            match started.await {
                Ok(done) => match done.pid {
                    Some(pid) => Ok(Launched { pid }),
                    None => Err(StartFailure::new(
                        &spec,
                        "exec",
                        "main told no process number",
                    )),
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
            .request(&|id| ToMain::Settle { id, pid }, Vec::new());
        // Main tells of what did not work; the prototype serves all the same.
        Box::pin(async move { drop(settled.await) })
    }

    fn kill(&self, pid: i32, signal: i32) {
        self.link.tell(&ToMain::Kill { pid, signal });
    }
}
