//! Starting another program: exact descriptors, exact identity, tied to our life.
//!
//! Called by main for the router and language hosts, and for daemonising. Between fork and exec the child runs
//! only async-signal-safe calls on memory prepared before the fork, so it is right in a threaded process too. What
//! fails in the child comes back to the caller as [`SpawnError`] with the step that failed.

use std::ffi::{CStr, CString, OsStr};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use crate::credentials::Credentials;
use crate::error::context;
use crate::isolation::step::{self, Failed};
use crate::isolation::{IsolationPlan, Owner, c_string};

/// A program to start, and how. Descriptors not named in `descriptors` (0, 1, 2 included in what stays) are closed.
#[derive(Debug)]
pub struct Spawn {
    program: CString,
    program_file: Option<OwnedFd>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    descriptors: Vec<(OwnedFd, RawFd)>,
    credentials: Option<Credentials>,
    folder: Option<CString>,
    new_session: bool,
    death_signal: Option<i32>,
    subreaper: bool,
    no_new_privileges: bool,
    oom_value: Option<CString>,
    isolation: Option<IsolationPlan>,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{step}{}: {source}", subject.as_ref().map(|s| format!(" `{s}`")).unwrap_or_default())]
pub struct SpawnError {
    /// The step that failed.
    pub step: &'static str,
    /// To what: a path, where the step has several.
    pub subject: Option<String>,
    /// The system's answer.
    pub source: io::Error,
}

/// The steps in the child; the number travels through the report pipe.
const STEPS: [&str; 9] = [
    "forking",
    "making a session",
    "setting groups",
    "setting the group",
    "setting the user",
    "entering the working directory",
    "tying it to its parent",
    "placing descriptors",
    "executing the program",
];

impl Spawn {
    /// `program` is a path (no search in PATH); it becomes argument zero. The environment starts empty.
    pub fn new(program: impl AsRef<OsStr>) -> io::Result<Spawn> {
        let program = c_string(program.as_ref().as_bytes())?;
        Ok(Spawn {
            arguments: vec![program.clone()],
            program,
            program_file: None,
            environment: Vec::new(),
            descriptors: Vec::new(),
            credentials: None,
            folder: None,
            new_session: false,
            death_signal: None,
            subreaper: false,
            no_new_privileges: false,
            oom_value: None,
            isolation: None,
        })
    }

    /// Adds an argument.
    pub fn argument(mut self, value: impl AsRef<OsStr>) -> io::Result<Spawn> {
        self.arguments.push(c_string(value.as_ref().as_bytes())?);
        Ok(self)
    }

    /// Executes this open file in place of the path.
    pub fn program_file(mut self, file: OwnedFd) -> Spawn {
        self.program_file = Some(file);
        self
    }

    /// Replaces argument zero, which is also what `ps` shows first.
    pub fn argument_zero(mut self, value: impl AsRef<OsStr>) -> io::Result<Spawn> {
        if let Some(first) = self.arguments.first_mut() {
            *first = c_string(value.as_ref().as_bytes())?;
        }
        Ok(self)
    }

    /// Adds an environment variable.
    pub fn variable(
        mut self,
        name: impl AsRef<OsStr>,
        value: impl AsRef<OsStr>,
    ) -> io::Result<Spawn> {
        let mut bytes = name.as_ref().as_bytes().to_vec();
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_ref().as_bytes());
        self.environment.push(c_string(&bytes)?);
        Ok(self)
    }

    /// Sets an environment variable in the place of one of this name, or removes that.
    pub fn replaced_variable(
        mut self,
        name: &str,
        value: Option<impl AsRef<OsStr>>,
    ) -> io::Result<Spawn> {
        let of_name = |variable: &CString| {
            let rest = variable.as_bytes().strip_prefix(name.as_bytes());
            rest.is_some_and(|rest| rest.starts_with(b"="))
        };
        self.environment.retain(|variable| !of_name(variable));
        match value {
            Some(value) => self.variable(name, value),
            None => Ok(self),
        }
    }

    /// Gives the child `fd` under the number `number`.
    pub fn descriptor(mut self, fd: OwnedFd, number: RawFd) -> Spawn {
        self.descriptors.push((fd, number));
        self
    }

    /// Becomes this user, for good, before exec. Needs root.
    pub fn credentials(mut self, credentials: Credentials) -> Spawn {
        self.credentials = Some(credentials);
        self
    }

    /// Starts in this folder.
    pub fn folder(mut self, path: impl AsRef<OsStr>) -> io::Result<Spawn> {
        self.folder = Some(c_string(path.as_ref().as_bytes())?);
        Ok(self)
    }

    /// In a session and process group of its own.
    pub fn new_session(mut self) -> Spawn {
        self.new_session = true;
        self
    }

    /// Gets this signal when the calling *thread* ends.
    pub fn death_signal(mut self, signal: i32) -> Spawn {
        self.death_signal = Some(signal);
        self
    }

    /// Descendants whose parents have ended become its children, so that it stays the ancestor of all that it has started.
    pub fn subreaper(mut self) -> Spawn {
        self.subreaper = true;
        self
    }

    /// Cannot gain privileges by executing set-uid programs.
    pub fn no_new_privileges(mut self) -> Spawn {
        self.no_new_privileges = true;
        self
    }

    /// Has this place in the order in which the kernel ends processes for want of memory (see [`crate::oom`]), where that can be set.
    pub fn oom_value(mut self, value: Option<i32>) -> Spawn {
        self.oom_value = value.and_then(|value| c_string(value.to_string().as_bytes()).ok());
        self
    }

    /// In namespaces, a cgroup, a root of its own. The program is opened outside of the new root. With a new user namespace
    /// the credentials are numbers inside of it.
    pub fn isolation(mut self, isolation: IsolationPlan) -> Spawn {
        self.isolation = Some(isolation);
        self
    }

    /// Starts it. Returns its process number once the program runs (exec has happened).
    pub fn start(self) -> Result<i32, SpawnError> {
        // Every source is moved above every target, so that placing one never overwrites another.
        let numbers = self.descriptors.iter().map(|(_, number)| number + 1);
        let floor = numbers.max().unwrap_or(3).max(3);
        let mut placed = Vec::with_capacity(self.descriptors.len());
        for (fd, number) in &self.descriptors {
            placed.push((lift(fd, floor).map_err(fail)?, *number));
        }
        let (report_read, report_write) = std::io::pipe().map_err(fail)?;
        let report = lift(&report_write.into(), floor).map_err(fail)?;
        let (go_read, mut go_write) = std::io::pipe().map_err(fail)?;
        let program = self.opened_program(floor).map_err(|source| SpawnError {
            step: STEPS[8],
            subject: None,
            source,
        })?;
        let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
            list.iter()
                .map(|s| s.as_ptr())
                .chain([std::ptr::null()])
                .collect()
        };
        let (uid, gid) = self.credentials.as_ref().map_or((0, 0), |c| (c.uid, c.gid));
        let owner = Owner::new(uid, gid).map_err(fail)?;
        let plan = Plan {
            program: &self.program,
            opened_program: program.as_ref().map(AsRawFd::as_raw_fd),
            arguments: pointers(&self.arguments),
            environment: pointers(&self.environment),
            placed: placed
                .iter()
                .map(|(fd, number)| (fd.as_raw_fd(), *number))
                .collect(),
            floor,
            credentials: self.credentials.as_ref(),
            folder: self.folder.as_deref(),
            new_session: self.new_session,
            death_signal: self.death_signal,
            subreaper: self.subreaper,
            no_new_privileges: self.no_new_privileges,
            oom_value: self.oom_value.as_deref(),
            isolation: self.isolation.as_ref(),
            owner: &owner,
            go: go_read.as_raw_fd(),
            go_write: go_write.as_raw_fd(),
            parent: rustix::process::getpid().as_raw_nonzero().get(),
            report: report.as_raw_fd(),
        };
        let pid = match &self.isolation {
            Some(isolation) => plan.clone(isolation).map_err(fail)?,
            None => plan.fork().map_err(fail)?,
        };
        drop(report);
        drop(go_read);
        if let Some(isolation) = &self.isolation
            && isolation.namespaces.user
            && let Err((step, source)) = isolation.maps.write(pid)
        {
            let _ = crate::signal::send(pid, libc::SIGKILL);
            reap_failed(pid);
            return Err(SpawnError {
                step,
                subject: None,
                source,
            });
        }
        // A byte, not the end: a child that another thread is making may hold a copy of this pipe, and wait for one
        // that we hold.
        // If the child has gone, its outcome shows it.
        let _ = go_write.write_all(b"!");
        drop(go_write);
        self.outcome(pid, report_read)
    }

    fn opened_program(&self, floor: RawFd) -> io::Result<Option<OwnedFd>> {
        // qemu takes the place of a program, and opens it by its path (packaging/test-aarch64).
        if cfg!(emulated) {
            return Ok(None);
        }
        match (&self.program_file, &self.isolation) {
            (Some(file), _) => lift(file, floor).map(Some),
            (None, Some(IsolationPlan { root: Some(_), .. })) => {
                open_program(&self.program, floor).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn outcome(&self, pid: i32, mut report: std::io::PipeReader) -> Result<i32, SpawnError> {
        let mut answer = [0u8; REPORT];
        if report.read_exact(&mut answer).is_err() {
            // Closed by exec without a word: it runs.
            return Ok(pid);
        }
        reap_failed(pid);
        let [step, high, low, code @ ..] = answer;
        let words = match step.checked_sub(step::PROPAGATION) {
            Some(step) => step::STEPS.get(usize::from(step)),
            None => STEPS.get(usize::from(step)),
        };
        let place = usize::from(u16::from_be_bytes([high, low]));
        let root = self.isolation.as_ref().and_then(|i| i.root.as_ref());
        let subject = match step {
            step::OPEN_BINDING | step::PLACE_BINDING => root
                .and_then(|root| root.binding(place))
                .map(|b| b.target()),
            step::ENTER_ROOT => root.map(|root| &*root.path),
            _ => None,
        };
        Err(SpawnError {
            step: words.copied().unwrap_or(STEPS[0]),
            subject: subject.map(|text| text.to_string_lossy().into_owned()),
            source: io::Error::from_raw_os_error(i32::from_ne_bytes(code)),
        })
    }
}

/// Length of what the child reports: step, which of several, error number.
const REPORT: usize = 7;

fn fail(source: io::Error) -> SpawnError {
    SpawnError {
        step: STEPS[0],
        subject: None,
        source,
    }
}

/// The program, to be executed by its descriptor: its path means nothing in another root.
fn open_program(path: &CStr, floor: RawFd) -> io::Result<OwnedFd> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    lift(&opened, floor)
}

fn reap_failed(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    }
}

fn lift(fd: &OwnedFd, floor: RawFd) -> io::Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(fd, floor).map_err(|e| context("duplicating a descriptor", e))
}

/// Everything the child needs, made before the fork.
struct Plan<'a> {
    program: &'a CStr,
    /// Where it is executed by descriptor.
    opened_program: Option<RawFd>,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    placed: Vec<(RawFd, RawFd)>,
    floor: RawFd,
    credentials: Option<&'a Credentials>,
    folder: Option<&'a CStr>,
    new_session: bool,
    death_signal: Option<i32>,
    subreaper: bool,
    no_new_privileges: bool,
    oom_value: Option<&'a CStr>,
    isolation: Option<&'a IsolationPlan>,
    owner: &'a Owner,
    /// Brings a byte when the parent has written the id maps.
    go: RawFd,
    go_write: RawFd,
    parent: i32,
    report: RawFd,
}

impl Plan<'_> {
    fn fork(&self) -> io::Result<i32> {
        // SAFETY: the child calls only `Plan::run`, which uses async-signal-safe calls and allocates nothing.
        match unsafe { libc::fork() } {
            0 => self.run(),
            pid if pid > 0 => Ok(pid),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// As fork, born into namespaces and cgroup.
    fn clone(&self, isolation: &IsolationPlan) -> io::Result<i32> {
        // linux/sched.h
        const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
        // SAFETY: all-zero bytes are valid clone_args.
        let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
        arguments.flags = isolation.namespaces.clone_flags();
        arguments.exit_signal = libc::SIGCHLD as u64;
        if let Some(cgroup) = &isolation.cgroup {
            arguments.flags |= CLONE_INTO_CGROUP;
            arguments.cgroup = cgroup.as_raw_fd() as u64;
        }
        // SAFETY: without CLONE_VM this is fork: the child has its own copy of all memory. It calls only `Plan::run`, which
        // uses async-signal-safe calls and allocates nothing; the structure lives until the call returns.
        let pid = unsafe {
            libc::syscall(
                libc::SYS_clone3,
                &raw const arguments,
                size_of::<libc::clone_args>(),
            )
        };
        match i32::try_from(pid) {
            Ok(0) => self.run(),
            Ok(pid) if pid > 0 => Ok(pid),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// In the child: never returns.
    fn run(&self) -> ! {
        let Failed(step, place) = self.prepare().err().unwrap_or_else(|| {
            self.execute();
            Failed(8, 0)
        });
        let code = io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(0)
            .to_ne_bytes();
        let [high, low] = place.to_be_bytes();
        let message = [step, high, low, code[0], code[1], code[2], code[3]];
        // SAFETY: `message` is a live array of exactly the length given.
        unsafe { libc::write(self.report, message.as_ptr().cast(), message.len()) };
        // SAFETY: _exit ends the process at once, without running handlers that belong to the parent.
        unsafe { libc::_exit(127) }
    }

    /// Comes back only if it fails.
    fn execute(&self) {
        match self.opened_program {
            // SAFETY: an open descriptor with an empty path, and two arrays that are NUL-terminated and live in memory
            // copied by fork.
            Some(program) => unsafe {
                libc::syscall(
                    libc::SYS_execveat,
                    program,
                    c"".as_ptr(),
                    self.arguments.as_ptr(),
                    self.environment.as_ptr(),
                    libc::AT_EMPTY_PATH,
                );
            },
            // SAFETY: program and both arrays are NUL-terminated and live in memory copied by fork.
            None => unsafe {
                libc::execve(
                    self.program.as_ptr(),
                    self.arguments.as_ptr(),
                    self.environment.as_ptr(),
                );
            },
        }
    }

    fn prepare(&self) -> Result<(), Failed> {
        reset_signals();
        // Before everything that takes `/proc` or rights away.
        if let Some(value) = self.oom_value {
            crate::oom::take(value);
        }
        if self.new_session {
            // SAFETY: no arguments, no memory.
            check(unsafe { libc::setsid() }, 1)?;
        }
        if let Some(isolation) = self.isolation {
            self.wait_for_maps()?;
            isolation.carry_out(self.owner)?;
        }
        forget_ambient_capabilities()?;
        self.change_user()?;
        if let Some(folder) = self.folder {
            // SAFETY: NUL-terminated string in live memory.
            check(unsafe { libc::chdir(folder.as_ptr()) }, 5)?;
        }
        if self.no_new_privileges {
            // SAFETY: integer arguments only.
            let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            check(done, 6)?;
        }
        self.tie()?;
        self.place_descriptors()
    }

    fn wait_for_maps(&self) -> Result<(), Failed> {
        // SAFETY: this process's own copy of the writing end, which would keep the pipe open.
        unsafe { libc::close(self.go_write) };
        let mut byte = 0u8;
        // SAFETY: one byte into a live variable.
        let done = unsafe { libc::read(self.go, (&raw mut byte).cast(), 1) };
        // End of file: the process that was to write the maps has ended.
        check(done as libc::c_int - 1, step::WAIT_FOR_MAPS)
    }

    /// By system calls: the C library's functions of the same names wait for all threads to do the same, and the child of a bare clone
    /// still has the parent's list of them. One that was just being made there would be waited for without end.
    fn change_user(&self) -> Result<(), Failed> {
        let Some(to) = self.credentials else {
            return Ok(());
        };
        if !self.isolation.is_some_and(|i| i.maps.deny_setgroups) {
            let (count, list) = (to.groups.len(), to.groups.as_ptr());
            // SAFETY: count and pointer are those of a live Vec<u32>; gid_t is u32 on Linux.
            let done = unsafe { libc::syscall(libc::SYS_setgroups, count, list) };
            check(done as libc::c_int, 2)?;
        }
        // SAFETY: integer arguments only.
        let done = unsafe { libc::syscall(libc::SYS_setresgid, to.gid, to.gid, to.gid) };
        check(done as libc::c_int, 3)?;
        // SAFETY: integer arguments only. All three: one left as it was would be a way back.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, to.uid, to.uid, to.uid) };
        check(done as libc::c_int, 4)
    }

    fn tie(&self) -> Result<(), Failed> {
        if self.subreaper {
            // SAFETY: integer arguments only.
            let done = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
            check(done, 6)?;
        }
        let Some(signal) = self.death_signal else {
            return Ok(());
        };
        // SAFETY: integer arguments only.
        let done = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) };
        check(done, 6)?;
        // In a pid namespace of its own it cannot see its parent; there the lifeline shows whether there still is one.
        if self.isolation.is_some_and(|i| i.namespaces.pid) {
            return Ok(());
        }
        // SAFETY: no arguments, no memory.
        if unsafe { libc::getppid() } != self.parent {
            return Err(Failed(6, 0));
        }
        Ok(())
    }

    fn place_descriptors(&self) -> Result<(), Failed> {
        for &(from, to) in &self.placed {
            // SAFETY: integer arguments only; `from` is above every target, so none is lost.
            check(unsafe { libc::dup2(from, to) }, 7)?;
        }
        for number in 3..self.floor {
            if !self.placed.iter().any(|&(_, to)| to == number) {
                // SAFETY: closes a number that nothing in this child uses.
                unsafe { libc::close(number) };
            }
        }
        // SAFETY: marks everything above as close-on-exec; failure (old kernel) leaves the flags they had.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                self.floor,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        Ok(())
    }
}

/// Capabilities that exec would hand on to a program of an unprivileged main. Kernels without them (before 4.3) have none to forget.
fn forget_ambient_capabilities() -> Result<(), Failed> {
    let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL;
    // SAFETY: integer arguments only.
    let done = unsafe { libc::prctl(libc::PR_CAP_AMBIENT, clear, 0, 0, 0) };
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EINVAL) if done < 0 => Ok(()),
        _ => check(done, 4),
    }
}

fn check(result: libc::c_int, step: u8) -> Result<(), Failed> {
    if result < 0 {
        Err(Failed(step, 0))
    } else {
        Ok(())
    }
}

/// Bytes of the kernel's set of signals (rt_sigaction(2)).
const SIGNAL_SET: usize = 8;

/// Ignored signals and the mask survive exec: a program starts with the defaults.
///
/// Asks the kernel itself: since 2.41 glibc's sigaction takes a lock that pthread_create holds too, and in a child that `clone` made while
/// another thread held it, it is never released.
pub(crate) fn reset_signals() {
    // The kernel's `struct sigaction` has no more than four words on any architecture; zeros are SIG_DFL, no flags and an empty mask.
    let default = [0_u64; 4];
    for signal in 1..=31 {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            let former = std::ptr::null_mut::<libc::c_void>();
            // SAFETY: SIG_DFL installs no code; the structure is as long as the kernel reads, and it writes nothing.
            unsafe {
                libc::syscall(
                    libc::SYS_rt_sigaction,
                    signal,
                    default.as_ptr(),
                    former,
                    SIGNAL_SET,
                )
            };
        }
    }
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the whole set.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: the set was initialised above; the old mask is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) };
}

/// Takes over a descriptor inherited at a fixed number. Only right at the start of a program, once per number.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD takes no argument and only looks.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(context(
            format!("descriptor {number} was not inherited"),
            io::Error::last_os_error(),
        ));
    }
    // SAFETY: integer argument; the descriptor is open.
    unsafe { libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) };
    // SAFETY: it is open (checked), was put there for us by the program that started us, and is taken once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};
    use tutti_testkit::skip;

    use super::*;
    use crate::process::{Ended, pidfd, reap_one};

    fn wait(pid: i32) -> Ended {
        let fd = pidfd(pid).unwrap();
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
        reap_one(pid).unwrap()
    }

    fn shell(script: &str) -> Spawn {
        Spawn::new("/bin/sh")
            .unwrap()
            .argument("-c")
            .unwrap()
            .argument(script)
            .unwrap()
    }

    #[test]
    fn descriptors_arrive_at_their_numbers_and_no_others() {
        let (mut first, first_write) = std::io::pipe().unwrap();
        let (mut second, second_write) = std::io::pipe().unwrap();
        let pid = shell("echo three >&3; echo five >&5; ls /proc/self/fd | tr '\\n' ' ' >&5")
            .descriptor(second_write.into(), 5)
            .descriptor(first_write.into(), 3)
            .variable("PATH", "/bin:/usr/bin")
            .unwrap()
            .start()
            .unwrap();
        let (mut a, mut b) = (String::new(), String::new());
        first.read_to_string(&mut a).unwrap();
        second.read_to_string(&mut b).unwrap();
        assert_eq!(wait(pid), Ended::Code(0));
        assert_eq!(a, "three\n");
        // `ls` itself holds one more, the folder it reads.
        assert_eq!(b, "five\n0 1 2 3 4 5 ");
    }

    #[test]
    fn a_missing_program_is_reported_with_its_step() {
        let error = Spawn::new("/no/such/program").unwrap().start().unwrap_err();
        assert_eq!(error.step, "executing the program");
        assert_eq!(error.source.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn a_missing_folder_is_reported_with_its_step() {
        let error = shell("exit 0")
            .folder("/no/such")
            .unwrap()
            .start()
            .unwrap_err();
        assert_eq!(error.step, "entering the working directory");
    }

    #[test]
    fn another_user_is_become_with_its_groups_only() {
        if !crate::credentials::is_root() {
            skip!("becoming another user and keeping capabilities needs root");
        }
        let nobody = crate::credentials::lookup("nobody", None).unwrap();
        let (mut read, write) = std::io::pipe().unwrap();
        let pid = shell("id -u >&3; id -G >&3")
            .credentials(nobody.clone())
            .descriptor(write.into(), 3)
            .variable("PATH", "/bin:/usr/bin")
            .unwrap()
            .start()
            .unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        wait(pid);
        assert_eq!(text, format!("{}\n{}\n", nobody.uid, nobody.gid));
    }

    /// CHANGES of FreeUnit 1.36.2: what an unprivileged main had been given (`AmbientCapabilities=` of systemd), every application had.
    #[test]
    fn capabilities_that_go_with_programs_are_left_behind() {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
        if !crate::credentials::is_root() {
            skip!("becoming another user and keeping capabilities needs root");
        }
        // They are a thread's own.
        let child = std::thread::spawn(|| {
            let mut sets = capabilities(None).unwrap();
            sets.inheritable = CapabilitySet::NET_RAW;
            set_capabilities(None, sets).unwrap();
            rustix::thread::configure_capability_in_ambient_set(CapabilitySet::NET_RAW, true)
                .unwrap();
            let (mut read, write) = std::io::pipe().unwrap();
            let pid = shell("grep CapAmb /proc/self/status >&3")
                .descriptor(write.into(), 3)
                .variable("PATH", "/bin:/usr/bin")
                .unwrap()
                .start()
                .unwrap();
            let mut text = String::new();
            read.read_to_string(&mut text).unwrap();
            wait(pid);
            text
        });
        assert_eq!(child.join().unwrap(), "CapAmb:\t0000000000000000\n");
    }

    #[test]
    fn dies_with_the_thread_that_made_it() {
        let pid = std::thread::spawn(|| {
            shell("exec sleep 1000")
                .death_signal(libc::SIGTERM)
                .start()
                .unwrap()
        })
        .join()
        .unwrap();
        assert_eq!(wait(pid), Ended::Signal(libc::SIGTERM, false));
    }
}
