//! What a process gives up for good because it will never need it.
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
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_acct,
    libc::SYS_quotactl,
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

/// Keeps no capability, but for root that of reading files of others: a server told to run as root is to serve them.
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

/// Refused calls that are told of: one that is tried again and again must not fill the log.
const TOLD: u32 = 20;

/// Where refused calls are told of: standard error, but in a test.
static TOLD_TO: AtomicI32 = AtomicI32::new(2);

/// What [`FORBIDDEN`] calls end in: the call fails, and standard error, which is the log, gets a line.
extern "C" fn on_forbidden(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // SAFETY: a handler with SA_SIGINFO is given the state of the interrupted thread, which is nobody else's meanwhile.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let call = refuse(context);
    if COUNT.fetch_add(1, Ordering::Relaxed) >= TOLD {
        return;
    }
    let mut line = [0; 160];
    let mut rest = &mut line[..];
    // Formatting a number into a buffer allocates nothing and takes no lock: signal-safety(7).
    let _ = writeln!(
        rest,
        "tutti: system call {call} is forbidden to this process and was refused (TUTTI_SANDBOX=off allows all)"
    );
    let left = rest.len();
    let written = line.len() - left;
    // SAFETY: the buffer is as long as said; write is safe in a handler.
    let _ = unsafe {
        libc::write(
            TOLD_TO.load(Ordering::Relaxed),
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

/// From now on the system calls in [`FORBIDDEN`] and raw sockets fail with `EPERM`, and standard error gets a line with the
/// number of the call. Needs `no_new_privs`.
pub fn forbid_calls() -> io::Result<()> {
    handle_forbidden()?;
    let wrong = |e: &dyn std::fmt::Display| io::Error::other(format!("system call filter: {e}"));
    let argument = |number: u8, operator: SeccompCmpOp, value: u64| {
        SeccompCondition::new(number, SeccompCmpArgLen::Dword, operator, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
    };
    // The low four bits are the type, the others flags (socket(2)).
    const TYPE: u64 = 0xf;
    let raw = [
        argument(1, SeccompCmpOp::MaskedEq(TYPE), libc::SOCK_RAW as u64),
        argument(0, SeccompCmpOp::Eq, libc::AF_PACKET as u64),
    ]
    .into_iter()
    .collect::<Result<Vec<_>, _>>()
    .map_err(|e| wrong(&e))?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        FORBIDDEN.iter().map(|&call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, raw);
    let architecture = std::env::consts::ARCH
        .try_into()
        .map_err(|e: seccompiler::BackendError| wrong(&e))?;
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Trap,
        architecture,
    )
    .map_err(|e| wrong(&e))?;
    let program = BpfProgram::try_from(filter).map_err(|e| wrong(&e))?;
    seccompiler::apply_filter(&program).map_err(|e| wrong(&e))
}

/// From now on files can be made, changed and removed below `writable`, if that is given, only (and `/dev/null` written), and none executed.
/// Reading stays as it is. False where the kernel cannot do it. Needs `no_new_privs`.
pub fn confine_writing(writable: Option<&Path>) -> io::Result<bool> {
    let wrong = |e: &dyn std::fmt::Display| io::Error::other(format!("Landlock: {e}"));
    // The newest that has to do with writing: truncation.
    let writing: BitFlags<AccessFs> = AccessFs::from_write(ABI::V3);
    let folder = writable
        .map(PathFd::new)
        .transpose()
        .map_err(|e| wrong(&e))?;
    let null = PathFd::new("/dev/null").map_err(|e| wrong(&e))?;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(writing | AccessFs::Execute)
        .and_then(|rules| rules.create())
        .and_then(|rules| match folder {
            Some(folder) => rules.add_rule(PathBeneath::new(folder, writing)),
            None => Ok(rules),
        })
        .and_then(|rules| rules.add_rule(PathBeneath::new(null, AccessFs::WriteFile)))
        .and_then(|rules| rules.restrict_self())
        .map_err(|e| wrong(&e))?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Filters and domains belong to a thread, so a test can have one of its own.
    fn in_a_thread(test: impl FnOnce() + Send + 'static) {
        let done = std::thread::spawn(move || {
            crate::process::forbid_new_privileges().unwrap();
            test();
        });
        done.join().unwrap();
    }

    #[test]
    fn forbidden_calls_fail_and_others_do_not() {
        in_a_thread(|| {
            forbid_calls().unwrap();
            let denied = Some(libc::EPERM);
            let (mut told, to) = io::pipe().unwrap();
            TOLD_TO.store(std::os::fd::AsRawFd::as_raw_fd(&to), Ordering::Relaxed);
            // Not by `Command`, whose lock a process forked meanwhile by another test would find taken for ever.
            let none: [&std::ffi::CStr; 0] = [];
            let executed = nix::unistd::execve(c"/no/such/program", &none, &none);
            assert_eq!(executed, Err(nix::errno::Errno::EPERM));
            let mut line = [0; 200];
            let length = io::Read::read(&mut told, &mut line).unwrap();
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
            ] {
                // SAFETY: integer arguments only.
                let socket = unsafe { libc::socket(family, kind, 0) };
                assert_eq!(
                    (socket, io::Error::last_os_error().raw_os_error()),
                    (-1, denied)
                );
            }
            std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            std::thread::spawn(|| std::fs::read("/etc/hostname"))
                .join()
                .unwrap()
                .unwrap();
        });
    }

    #[test]
    fn files_are_written_in_one_folder_only_and_read_everywhere() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (inside.path().join("file"), outside.path().join("file"));
        std::fs::write(&there, "old").unwrap();
        let folder = inside.path().to_path_buf();
        in_a_thread(move || {
            if !confine_writing(Some(&folder)).unwrap() {
                use std::io::Write;
                let _ = writeln!(io::stderr(), "skipped: this kernel has no Landlock");
                return;
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
