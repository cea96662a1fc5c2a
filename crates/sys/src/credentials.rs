//! Users and groups: looking them up and becoming one of them.
//!
//! Called by main (looking up, and in the child before exec through [`crate::spawn`]), and by processes that main executes as root and that
//! change to another user themselves. Credentials are complete: user, primary group and all supplementary groups, so that none of root's
//! groups is kept by accident.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::unistd::{Group, User};
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::error::context;
use crate::process;

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

/// True if this process runs as root, that is, can become others.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True if this process may write to the file or folder.
pub fn may_write(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
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

/// The folder of a user number, when it has one.
pub fn user_folder(uid: u32) -> Option<PathBuf> {
    let user = User::from_uid(uid.into()).ok().flatten()?;
    Some(user.dir)
}

/// True if a user or a group has this number.
pub fn is_number_taken(number: u32) -> bool {
    // A service that cannot be asked may know of one.
    !matches!(User::from_uid(number.into()), Ok(None))
        || !matches!(Group::from_gid(number.into()), Ok(None))
}

/// True if there is a user of this name.
pub fn is_user(name: &str) -> bool {
    matches!(User::from_name(name), Ok(Some(_)))
}

/// The supplementary groups that the process at the other end of a unix socket had when it connected (unix(7),
/// `SO_PEERGROUPS`, Linux 4.13).
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    // NGROUPS_MAX (limits.h): no process has more.
    const MOST_GROUPS: usize = 65_536;
    let mut groups = vec![0u32; 64];
    loop {
        let mut length = libc::socklen_t::try_from(size_of_val(groups.as_slice()))
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the buffer has `length` bytes, any of which may be written, and both pointers live for the call.
        let status = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if status == 0 {
            groups.truncate(length as usize / size_of::<u32>());
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || groups.len() >= MOST_GROUPS {
            return Err(context("asking for the groups of a peer", error));
        }
        groups.resize(groups.len() * 4, 0);
    }
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

/// Gives this process, which must have one thread and run as root, the credentials of another user, irreversibly. Its memory stays hidden
/// throughout.
///
/// The kernel makes a process that changes its user dumpable or not as `fs.suid_dumpable` says (proc_sys_fs(5)). With 1, only its
/// capabilities protect it from other processes of the new user until it has hidden its memory again (ptrace(2), "Ptrace access mode
/// checking"), so they are kept for just that long. The death signal is lost with the user as well (PR_SET_PDEATHSIG(2const)) and is set
/// again.
///
/// # Errors
/// The error of the step that failed; the process must not continue then.
pub fn become_for_good(to: &Credentials) -> io::Result<()> {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
    let wrong = |what: &str| {
        let text = format!("switching to user {}: {what}", to.uid);
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    };
    let parent = process::parent();
    let step = |what: &'static str| move |e: nix::Error| context(what, e);
    let groups: Vec<Gid> = to.groups.iter().copied().map(Gid::from_raw).collect();
    let (uid, gid) = (Uid::from_raw(to.uid), Gid::from_raw(to.gid));
    rustix::thread::set_keep_capabilities(true).map_err(|e| context("keeping capabilities", e))?;
    setgroups(&groups).map_err(step("setting groups"))?;
    setresgid(gid, gid, gid).map_err(step("setting the group"))?;
    setresuid(uid, uid, uid).map_err(step("setting the user"))?;
    process::hide_memory()?;
    rustix::thread::set_keep_capabilities(false)
        .map_err(|e| context("keeping no capabilities", e))?;
    if !uid.is_root() {
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, none)
            .map_err(|e| context("dropping capabilities", e))?;
        if setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok() {
            return Err(wrong("there is a way back to root"));
        }
    }
    if (current_user(), current_group()) != (to.uid, to.gid) {
        return Err(wrong("it is another user now"));
    }
    if rustix::process::dumpable_behavior().ok() != Some(DumpableBehavior::NotDumpable) {
        return Err(wrong("other processes can read its memory"));
    }
    process::set_parent_death_signal(libc::SIGKILL)?;
    if process::parent() != parent {
        return Err(wrong("the process that started it has ended"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_a_peer_are_those_of_its_process() {
        use std::os::fd::AsFd;
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut groups = peer_groups(one.as_fd()).unwrap();
        let mut own: Vec<u32> = nix::unistd::getgroups()
            .unwrap()
            .into_iter()
            .map(|group| group.as_raw())
            .collect();
        groups.sort_unstable();
        own.sort_unstable();
        assert_eq!(groups, own);
    }

    #[test]
    fn root_is_known_and_nonsense_is_named() {
        assert_eq!(lookup("root", None).unwrap().uid, 0);
        let error = lookup("no-such-user-here", None).unwrap_err();
        assert_eq!(error.to_string(), "user `no-such-user-here` not found");
        let error = lookup("root", Some("no-such-group")).unwrap_err();
        assert_eq!(error.to_string(), "group `no-such-group` not found");
    }
}
