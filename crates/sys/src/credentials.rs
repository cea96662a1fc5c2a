//! Users and groups: looking them up and becoming one of them.
//!
//! Called by main (looking up, and in the child before exec through [`crate::spawn`]). Credentials are complete:
//! user, primary group and all supplementary groups, so that none of root's groups is kept by accident.

use std::ffi::CString;
use std::io;

use nix::unistd::{Group, User};

use crate::error::context;

/// The whole identity of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User number.
    pub uid: u32,
    /// Primary group number.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// Whether this process runs as root, that is, can become others.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Effective user number of this process.
pub fn current_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Effective group number of this process.
pub fn current_group() -> u32 {
    rustix::process::getegid().as_raw()
}

fn not_found(kind: &str, name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("{kind} `{name}` not found"),
    )
}

fn user_by_name(name: &str) -> io::Result<User> {
    User::from_name(name)
        .map_err(|e| context(format!("looking up user `{name}`"), e))?
        .ok_or_else(|| not_found("user", name))
}

/// The number of a group by its name.
pub fn group_number(name: &str) -> io::Result<u32> {
    Group::from_name(name)
        .map_err(|e| context(format!("looking up group `{name}`"), e))?
        .map(|group| group.gid.as_raw())
        .ok_or_else(|| not_found("group", name))
}

/// The number of a user by its name.
pub fn user_number(name: &str) -> io::Result<u32> {
    Ok(user_by_name(name)?.uid.as_raw())
}

/// The name of a user number, when it has one.
pub fn user_name(uid: u32) -> Option<String> {
    User::from_uid(uid.into())
        .ok()
        .flatten()
        .map(|user| user.name)
}

/// The complete credentials of user `user`; `group`, when given, replaces its primary group.
pub fn lookup(user: &str, group: Option<&str>) -> io::Result<Credentials> {
    let found = user_by_name(user)?;
    let gid = match group {
        Some(name) => group_number(name)?,
        None => found.gid.as_raw(),
    };
    let name = CString::new(user).map_err(|_| not_found("user", user))?;
    let groups = nix::unistd::getgrouplist(&name, gid.into())
        .map_err(|e| context(format!("listing the groups of user `{user}`"), e))?;
    Ok(Credentials {
        uid: found.uid.as_raw(),
        gid,
        groups: groups.into_iter().map(|g| g.as_raw()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_nonsense_is_named() {
        assert_eq!(lookup("root", None).unwrap().uid, 0);
        let error = lookup("no-such-user-here", None).unwrap_err();
        assert_eq!(error.to_string(), "user `no-such-user-here` not found");
        let error = lookup("root", Some("no-such-group")).unwrap_err();
        assert_eq!(error.to_string(), "group `no-such-group` not found");
    }
}
