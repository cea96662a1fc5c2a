//! Takes from a process for good the rights that it will never need.
//!
//! Called by the router and the controller before they have threads; what is given up, threads made later do not have either. Each part says
//! whether the kernel could do it: an old one that cannot is no reason not to serve. What must never happen: that
//! something is given up that the caller needs later.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::error::context;

/// System calls that start programs, reach into other processes, or change the system: answered with `EPERM`.
const FORBIDDEN: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    libc::SYS_name_to_handle_at,
    libc::SYS_lookup_dcookie,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_process_madvise,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_personality,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Keeps no capability, except that root keeps the one for reading other users' files: a server that runs as root is to
/// serve them.
pub fn drop_capabilities() -> io::Result<()> {
    let before =
        rustix::thread::capabilities(None).map_err(|e| context("reading capabilities", e))?;
    let kept = before.permitted & CapabilitySet::DAC_READ_SEARCH;
    let after = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, after).map_err(|e| context("dropping capabilities", e))
}

/// Most refused calls that are logged: one that is tried again and again must not fill the log.
const MOST_LOGGED: u32 = 20;

/// The descriptor that refused calls are logged to: standard error, except in a test.
static LOGGED_TO: AtomicI32 = AtomicI32::new(2);

/// Refused calls so far.
static LOGGED_SO_FAR: AtomicU32 = AtomicU32::new(0);

/// The end of a [`FORBIDDEN`] call: it fails, and standard error, which is the log, gets a line.
extern "C" fn on_forbidden(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: a handler with SA_SIGINFO is given the state of the interrupted thread, which only this handler uses
    // meanwhile.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let call = refuse(context);
    if LOGGED_SO_FAR.fetch_add(1, Ordering::Relaxed) >= MOST_LOGGED {
        return;
    }
    let mut line = [0; 160];
    let mut rest = &mut line[..];
    // Formatting a number into a buffer allocates nothing and takes no lock: signal-safety(7).
    let _ = writeln!(
        rest,
        "tutti: system call {call} is forbidden for this process and was refused (TUTTI_SANDBOX=off allows all)"
    );
    let left = rest.len();
    let written = line.len() - left;
    // SAFETY: the buffer is as long as said; write is safe in a handler.
    let _ = unsafe {
        libc::write(
            LOGGED_TO.load(Ordering::Relaxed),
            line.as_ptr().cast(),
            written,
        )
    };
}

/// Makes the call that was trapped fail with `EPERM`; its number. The registers are as before the call (seccomp(2)).
#[cfg(target_arch = "x86_64")]
fn refuse(context: &mut libc::ucontext_t) -> i64 {
    let register = &mut context.uc_mcontext.gregs[libc::REG_RAX as usize];
    std::mem::replace(register, -i64::from(libc::EPERM))
}

/// The same where the number is in a register of its own.
#[cfg(target_arch = "aarch64")]
fn refuse(context: &mut libc::ucontext_t) -> i64 {
    let registers = &mut context.uc_mcontext.regs;
    registers[0] = (-i64::from(libc::EPERM)).cast_unsigned();
    registers[8].cast_signed()
}

fn handle_forbidden() -> io::Result<()> {
    // SAFETY: all zeroes is a valid sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_forbidden as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    // SAFETY: the action is whole, and its handler does nothing that is not safe in one.
    if unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) } < 0 {
        return Err(context("handling SIGSYS", io::Error::last_os_error()));
    }
    Ok(())
}

/// Families of sockets that are allowed: what HTTP, applications, names (DNS over UDP and TCP) and the C library's name
/// services (`nscd`, systemd) use. Netlink, where the C library asks for the machine's own addresses, is not: it does without
/// (getaddrinfo(3) then asks for both families). All others are ways into rarely used parts of the kernel.
const FAMILIES: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// New namespaces are what gives a process of no rights the kernel's rarely used parts (user_namespaces(7)).
const NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWCGROUP,
    // linux/sched.h; its bit is of the exit signal's in clone(2), where no exit signal has it.
    0x80,
];

/// The sockets that a process may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Those of [`FAMILIES`].
    Allowed,
    /// UNIX sockets only.
    Refused,
}

/// From now on the system calls in [`FORBIDDEN`], new namespaces, and sockets of other families than [`FAMILIES`] or raw ones
/// fail with `EPERM`, and standard error gets a line with the number of the call. `clone3` is not there (`ENOSYS`): its flags
/// are in memory, which a filter cannot read, and the C library uses `clone` then. Needs `no_new_privs`.
pub fn forbid_calls(network: Network) -> io::Result<()> {
    let families = match network {
        Network::Allowed => &FAMILIES[..],
        Network::Refused => &[libc::AF_UNIX],
    };
    handle_forbidden()?;
    apply(calls_with_other_numbers())?;
    apply(filter(
        BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
        SeccompAction::Errno(libc::ENOSYS.cast_unsigned()),
    )?)?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        FORBIDDEN.iter().map(|&call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, namespace_rules()?);
    rules.insert(libc::SYS_socket, socket_rules(families)?);
    rules.insert(libc::SYS_socketpair, vec![other_families(families)?]);
    apply(filter(rules, SeccompAction::Trap)?)
}

fn namespace_rules() -> io::Result<Vec<SeccompRule>> {
    let rule = |&flag: &i32| {
        let flag = u64::from(flag.cast_unsigned());
        rule(vec![argument(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    };
    NAMESPACES.iter().map(rule).collect()
}

fn socket_rules(families: &[i32]) -> io::Result<Vec<SeccompRule>> {
    // The low four bits are the type, the others flags (socket(2)).
    const TYPE: u64 = 0xf;
    let raw = argument(1, SeccompCmpOp::MaskedEq(TYPE), libc::SOCK_RAW as u64)?;
    Ok(vec![rule(vec![raw])?, other_families(families)?])
}

fn other_families(families: &[i32]) -> io::Result<SeccompRule> {
    let is_other = |&family: &i32| argument(0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned()));
    rule(
        families
            .iter()
            .map(is_other)
            .collect::<io::Result<Vec<_>>>()?,
    )
}

fn wrong(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("system call filter: {error}"))
}

fn argument(number: u8, operator: SeccompCmpOp, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(number, SeccompCmpArgLen::Dword, operator, value).map_err(wrong)
}

/// Matches where all conditions do.
fn rule(conditions: Vec<SeccompCondition>) -> io::Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(wrong)
}

/// A call that matches a rule ends in `action`; every other goes on.
fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, action: SeccompAction) -> io::Result<BpfProgram> {
    let architecture = std::env::consts::ARCH
        .try_into()
        .map_err(|error: seccompiler::BackendError| wrong(error))?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture);
    filter.and_then(BpfProgram::try_from).map_err(wrong)
}

fn apply(program: BpfProgram) -> io::Result<()> {
    match program.is_empty() {
        true => Ok(()),
        false => seccompiler::apply_filter(&program).map_err(wrong),
    }
}

/// Calls of the x32 ABI have the architecture of x86-64 and numbers of their own, from 0x4000_0000 on (seccomp(2)): no rule
/// above would see them. They are not there (`ENOSYS`), as on a kernel without that ABI.
#[cfg(target_arch = "x86_64")]
fn calls_with_other_numbers() -> BpfProgram {
    // linux/bpf_common.h, linux/filter.h and linux/seccomp.h.
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_NOT_LESS: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const ERROR: u32 = 0x0005_0000;
    let instruction = |code, jt, jf, k| seccompiler::sock_filter { code, jt, jf, k };
    vec![
        // The call's number is first in `struct seccomp_data`.
        instruction(LOAD_WORD, 0, 0, 0),
        instruction(JUMP_IF_NOT_LESS, 0, 1, X32),
        instruction(RETURN, 0, 0, ERROR | libc::ENOSYS.cast_unsigned()),
        instruction(RETURN, 0, 0, ALLOW),
    ]
}

/// There are none.
#[cfg(not(target_arch = "x86_64"))]
fn calls_with_other_numbers() -> BpfProgram {
    Vec::new()
}

/// From now on files can be made, changed and removed below the folders `writable` only (and `/dev/null` written), and none executed.
/// Reading stays as it is. False where the kernel cannot do it. Needs `no_new_privs`.
pub fn confine_writing(writable: &[&Path]) -> io::Result<bool> {
    let wrong = |e: &dyn std::fmt::Display| io::Error::other(format!("Landlock: {e}"));
    // The newest that has to do with writing: truncation.
    let writing: BitFlags<AccessFs> = AccessFs::from_write(ABI::V3);
    let folders = writable
        .iter()
        .map(PathFd::new)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| wrong(&e))?;
    let null = PathFd::new("/dev/null").map_err(|e| wrong(&e))?;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(writing | AccessFs::Execute)
        .and_then(|rules| rules.create())
        .and_then(|rules| {
            let mut folders = folders.into_iter();
            folders.try_fold(rules, |rules, folder| {
                rules.add_rule(PathBeneath::new(folder, writing))
            })
        })
        .and_then(|rules| rules.add_rule(PathBeneath::new(null, AccessFs::WriteFile)))
        .and_then(|rules| rules.restrict_self())
        .map_err(|e| wrong(&e))?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use tutti_testkit::skipped;

    use super::*;

    /// Filters and domains belong to a thread, so a test can have one of its own.
    fn in_a_thread(test: impl FnOnce() + Send + 'static) {
        // The handler and its counter belong to the process: a refused call of one test must not be reported to
        // another.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        LOGGED_SO_FAR.store(0, Ordering::Relaxed);
        let done = std::thread::spawn(move || {
            crate::process::forbid_new_privileges().unwrap();
            test();
        });
        let done = done.join();
        LOGGED_TO.store(2, Ordering::Relaxed);
        done.unwrap();
    }

    #[test]
    fn forbidden_calls_fail_and_others_do_not() {
        in_a_thread(|| {
            forbid_calls(Network::Allowed).unwrap();
            let denied = Some(libc::EPERM);
            let (mut logged, to) = io::pipe().unwrap();
            LOGGED_TO.store(std::os::fd::AsRawFd::as_raw_fd(&to), Ordering::Relaxed);
            // Not by `Command`, whose lock a process forked meanwhile by another test would find taken for ever.
            let none: [&std::ffi::CStr; 0] = [];
            let executed = nix::unistd::execve(c"/no/such/program", &none, &none);
            assert_eq!(executed, Err(nix::errno::Errno::EPERM));
            let mut line = [0; 200];
            let length = io::Read::read(&mut logged, &mut line).unwrap();
            let line = String::from_utf8_lossy(&line[..length]);
            let expected = format!("system call {} is forbidden", libc::SYS_execve);
            assert!(line.contains(&expected) && line.ends_with(")\n"), "{line}");
            // SAFETY: PTRACE_TRACEME takes no pointers that are read.
            let traced = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
            assert_eq!(
                (traced, io::Error::last_os_error().raw_os_error()),
                (-1, denied)
            );
            for (family, kind) in [
                (libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC),
                (libc::AF_PACKET, libc::SOCK_DGRAM),
                (libc::AF_NETLINK, libc::SOCK_DGRAM),
                (libc::AF_ALG, libc::SOCK_SEQPACKET),
                (libc::AF_VSOCK, libc::SOCK_STREAM),
            ] {
                // SAFETY: integer arguments only.
                let socket = unsafe { libc::socket(family, kind, 0) };
                assert_eq!(
                    (socket, io::Error::last_os_error().raw_os_error()),
                    (-1, denied)
                );
            }
            for family in [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX] {
                // SAFETY: integer arguments only.
                let socket = unsafe { libc::socket(family, libc::SOCK_STREAM, 0) };
                assert!(socket >= 0, "{family}");
                // SAFETY: made above, and owned by nothing else.
                unsafe { libc::close(socket) };
            }
            std::os::unix::net::UnixStream::pair().unwrap();
            std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            std::net::ToSocketAddrs::to_socket_addrs("localhost:80").unwrap();
            std::thread::spawn(|| std::fs::read("/etc/hostname"))
                .join()
                .unwrap()
                .unwrap();
        });
    }

    #[test]
    fn a_process_without_a_network_has_unix_sockets_only() {
        in_a_thread(|| {
            forbid_calls(Network::Refused).unwrap();
            for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
                for family in [libc::AF_INET, libc::AF_INET6] {
                    // SAFETY: integer arguments only.
                    let socket = unsafe { libc::socket(family, kind, 0) };
                    let error = io::Error::last_os_error().raw_os_error();
                    assert_eq!((socket, error), (-1, Some(libc::EPERM)), "{family}");
                }
            }
            std::os::unix::net::UnixStream::pair().unwrap();
        });
    }

    /// Issue 10, 1.7: the usual way into the kernel was open. Each call is made as an attacker would make it.
    #[test]
    fn namespaces_mounts_and_other_ways_into_the_kernel_are_closed() {
        fn call(number: i64, first: i64) -> Option<i32> {
            // SAFETY: no call below reads memory by its arguments, were it let through: the pointers are null or the calls
            // take none; `clone` with an exit signal and no memory shared is fork, whose child ends at once.
            let result = unsafe { libc::syscall(number, first, 0, 0, 0, 0, 0) };
            if result == 0 && number == libc::SYS_clone {
                // SAFETY: ends the child without any handler of the parent's.
                unsafe { libc::_exit(0) };
            }
            (result < 0)
                .then(|| io::Error::last_os_error().raw_os_error())
                .flatten()
        }
        in_a_thread(|| {
            forbid_calls(Network::Allowed).unwrap();
            for flag in NAMESPACES {
                let flags = i64::from(flag | libc::SIGCHLD);
                assert_eq!(call(libc::SYS_clone, flags), Some(libc::EPERM), "{flag:#x}");
                assert_eq!(
                    call(libc::SYS_unshare, flag.into()),
                    Some(libc::EPERM),
                    "{flag:#x}"
                );
            }
            assert_eq!(call(libc::SYS_clone3, 0), Some(libc::ENOSYS));
            for number in [
                libc::SYS_setns,
                libc::SYS_kexec_file_load,
                libc::SYS_fsopen,
                libc::SYS_fsconfig,
                libc::SYS_fspick,
                libc::SYS_fsmount,
                libc::SYS_move_mount,
                libc::SYS_open_tree,
                libc::SYS_mount_setattr,
                libc::SYS_bpf,
                libc::SYS_io_uring_setup,
                libc::SYS_fanotify_init,
            ] {
                assert_eq!(call(number, -1), Some(libc::EPERM), "call {number}");
            }
            #[cfg(target_arch = "x86_64")]
            assert_eq!(
                call(0x4000_0000 | libc::SYS_unshare, libc::CLONE_NEWUSER.into()),
                Some(libc::ENOSYS)
            );
            // The calls that are needed still work: threads and processes.
            std::thread::spawn(|| ()).join().unwrap();
            // SAFETY: the child ends at once, without any handler of the parent's.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: as above.
                unsafe { libc::_exit(0) };
            }
            assert!(child > 0);
            // SAFETY: no status is asked for.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        });
    }

    #[test]
    fn files_are_written_in_one_folder_only_and_read_everywhere() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (inside.path().join("file"), outside.path().join("file"));
        std::fs::write(&there, "old").unwrap();
        let folder = inside.path().to_path_buf();
        in_a_thread(move || {
            if !confine_writing(&[&folder]).unwrap() {
                return skipped("this kernel has no Landlock");
            }
            std::fs::write(&here, "new").unwrap();
            std::fs::write("/dev/null", "x").unwrap();
            assert_eq!(std::fs::read_to_string(&there).unwrap(), "old");
            for done in [
                std::fs::write(&there, "new"),
                std::fs::remove_file(&there),
                std::fs::create_dir(there.with_file_name("folder")),
            ] {
                assert_eq!(done.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            }
        });
    }
}
