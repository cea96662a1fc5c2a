//! What main does for the router, and what it refuses.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use tutti_pool::Level;
use tutti_sys::credentials::{self, Credentials};
use tutti_sys::signal;

use super::Instance;
use super::children::{Children, Prototype};
use super::sockets::Sockets;
use super::state;
use crate::log;
use crate::protocol::{ToMain, ToRouter};

/// What the router has had main do, and what outlives a router.
#[derive(Default)]
pub(super) struct Holdings {
    pub(super) sockets: Sockets,
    pub(super) children: Children,
    /// Logs to be reopened on request.
    pub(super) files: HashSet<PathBuf>,
    /// The configuration in force, for the next router.
    pub(super) configuration: Option<String>,
}

/// An answer to the router with its descriptors.
pub(super) type Answer = Option<(ToRouter, Vec<OwnedFd>)>;

fn failed(id: u64, error: &io::Error) -> Answer {
    Some((
        ToRouter::Failed {
            id,
            message: error.to_string(),
            hint: None,
        },
        Vec::new(),
    ))
}

fn done(id: u64, descriptors: Vec<OwnedFd>) -> Answer {
    Some((ToRouter::Done { id, pid: None }, descriptors))
}

impl Holdings {
    /// Carries out one request. [`ToMain::Ready`] is the supervisor's.
    pub(super) fn carry_out(
        &mut self,
        instance: &Instance,
        message: ToMain,
        descriptors: Vec<OwnedFd>,
    ) -> Answer {
        match message {
            ToMain::Listen { id, place, backlog } => match self.sockets.get(&place, backlog) {
                Ok(socket) => done(id, vec![socket]),
                Err(refusal) => Some((
                    ToRouter::Failed {
                        id,
                        message: refusal.message,
                        hint: refusal.hint,
                    },
                    Vec::new(),
                )),
            },
            ToMain::Unlisten { place } => {
                self.sockets.release(&place);
                None
            }
            ToMain::OpenFile { id, path } => match log::open(&path) {
                Ok(file) => {
                    self.files.insert(path);
                    done(id, vec![file])
                }
                Err(error) => failed(id, &error),
            },
            ToMain::CloseFile { path } => {
                self.files.remove(&path);
                None
            }
            ToMain::Start {
                id,
                name,
                kind,
                version,
                user,
                group,
            } => {
                let who = (user.as_deref(), group.as_deref());
                match self.start(instance, &name, (&kind, &version), who, descriptors) {
                    Ok(pid) => Some((ToRouter::Done { id, pid: Some(pid) }, Vec::new())),
                    Err(error) => failed(id, &error),
                }
            }
            ToMain::Kill { pid, signal } => {
                self.kill(instance, pid, signal);
                None
            }
            ToMain::Store { id, configuration } => {
                match state::store(&instance.places.state, &configuration) {
                    Ok(()) => {
                        self.configuration = Some(configuration);
                        done(id, Vec::new())
                    }
                    Err(error) => failed(id, &error),
                }
            }
            ToMain::SetAside { is_unreadable } => {
                set_aside(instance, is_unreadable);
                // Nothing listens for it: better a closed port than one that never answers.
                self.sockets.release_all();
                self.files.clear();
                None
            }
            ToMain::Ready => None,
        }
    }

    fn start(
        &mut self,
        instance: &Instance,
        name: &str,
        (kind, version): (&str, &str),
        (user, group): (Option<&str>, Option<&str>),
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<i32> {
        let module = instance
            .modules
            .iter()
            .find(|m| m.kind == kind && m.version == version)
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::NotFound,
                    format!("no module for `{kind} {version}`"),
                )
            })?;
        let credentials = credentials_for(instance, user, group)?;
        self.children.start(Prototype {
            host: &module.path,
            name,
            credentials,
            descriptors,
        })
    }

    fn kill(&self, instance: &Instance, pid: i32, signal: i32) {
        if !self.children.owns(pid) {
            // It may have ended a moment ago: then there is nothing to say.
            if signal::exists(pid) {
                let text = format!(
                    "the router asked to signal process {pid}, which is not of an application; refused"
                );
                instance.log.line(Level::Alert, &text);
            }
            return;
        }
        let _ = signal::send(pid, signal);
    }
}

/// Whom an application runs as. Only root can become others; anyone may name themselves.
fn credentials_for(
    instance: &Instance,
    user: Option<&str>,
    group: Option<&str>,
) -> io::Result<Option<Credentials>> {
    if let Some(default) = &instance.default_credentials {
        if user.is_none() && group.is_none() {
            return Ok(Some(default.clone()));
        }
        let user = user
            .or(instance.default_user.as_deref())
            .unwrap_or("nobody");
        return credentials::lookup(user, group).map(Some);
    }
    let is_own_user = user.is_none_or(|name| {
        credentials::user_number(name).ok() == Some(credentials::current_user())
    });
    let is_own_group = group.is_none_or(|name| {
        credentials::group_number(name).ok() == Some(credentials::current_group())
    });
    if is_own_user && is_own_group {
        return Ok(None);
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "`user` and `group` need a server started by root: leave them out, or start it as root",
    ))
}

fn set_aside(instance: &Instance, is_unreadable: bool) {
    match state::set_aside(&instance.places.state, is_unreadable) {
        Ok(path) => {
            let text = format!("the stored configuration is kept as `{}`", path.display());
            instance.log.line(Level::Notice, &text);
        }
        Err(error) => instance.log.line(Level::Alert, &error.to_string()),
    }
}
