//! Starting an application's own program: how a worker of a host whose applications are programs starts.
//!
//! The new process borrows the memory of the caller, who sleeps until the program is executed (`CLONE_VM` and `CLONE_VFORK` of clone(2), as
//! posix_spawn(3) has it): no page table is copied, and no page because one of the two has written to it. So the child only makes system
//! calls, on memory that was made ready before. What must never happen: an allocation, a lock or a panic in the child, which the caller
//! would wake up with.
//!
//! [`crate::spawn`] copies instead: its child may become another user, and then the kernel restricts the access to its memory,
//! which would be the caller's.

use std::ffi::{CStr, CString, OsStr, OsString, c_int, c_void};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::PidfdFlags;

use crate::error::context;
use crate::spawn::reset_signals;

/// The child's stack: some calls deep, without large variables. The C library's posix_spawn takes 32 KiB and room for arguments.
const STACK: usize = 64 * 1024;

/// The exit code of a child that has not become the program, as posix_spawn(3) has it.
const NOT_EXECUTED: c_int = 127;

/// Stands for the number of the process in a message until there is one; as long as the longest.
const NO_NUMBER: i32 = i32::MAX;

/// A program to start, with its arguments and its whole environment.
#[derive(Debug)]
pub struct Executable {
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Executable {
    /// The program at `path`, which is its first argument too. PATH is not searched.
    ///
    /// # Errors
    /// A text with a NUL in it.
    pub fn new(path: &Path, arguments: &[impl AsRef<OsStr>]) -> io::Result<Executable> {
        let path = text(path.as_os_str())?;
        let given = arguments.iter().map(|argument| text(argument.as_ref()));
        Ok(Executable {
            arguments: std::iter::once(Ok(path.clone()))
                .chain(given)
                .collect::<io::Result<_>>()?,
            path,
            environment: Vec::new(),
        })
    }

    /// Gives the program the environment of this process, in which `variables` replace those of the same names.
    ///
    /// # Errors
    /// A text with a NUL in it.
    pub fn inherit_environment(mut self, variables: &[(&str, String)]) -> io::Result<Executable> {
        let is_replaced = |name: &OsString| variables.iter().any(|(other, _)| name == other);
        let kept = std::env::vars_os().filter(|(name, _)| !is_replaced(name));
        let added = variables
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        for (mut variable, value) in kept.chain(added) {
            variable.push("=");
            variable.push(value);
            self.environment.push(text(&variable)?);
        }
        Ok(self)
    }
}

fn text(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(io::Error::other)
}

/// A message that the new process sends before it becomes the program: if the caller is killed meanwhile, the process is known all the
/// same.
#[derive(Debug)]
pub struct Announcement<'a> {
    socket: BorrowedFd<'a>,
    message: Vec<u8>,
    number: Range<usize>,
    brings_pidfd: bool,
}

impl<'a> Announcement<'a> {
    /// Makes the announcement from `message`, which gives the message for the number of a process; blanks may come before the number. Where
    /// `brings_pidfd` is true a pidfd of the process comes with it.
    ///
    /// # Errors
    /// The number is not in the message.
    pub fn new(
        socket: BorrowedFd<'a>,
        message: impl FnOnce(i32) -> Vec<u8>,
        brings_pidfd: bool,
    ) -> io::Result<Announcement<'a>> {
        let message = message(NO_NUMBER);
        let stand_in = NO_NUMBER.to_string();
        let length = stand_in.len();
        let start = message
            .windows(length)
            .rposition(|part| part == stand_in.as_bytes())
            .ok_or_else(|| io::Error::other("a message without the process id"))?;
        Ok(Announcement {
            socket,
            message,
            number: start..start + length,
            brings_pidfd,
        })
    }

    /// In the child: announces the calling process.
    fn send(&mut self) -> Result<(), Errno> {
        let own = rustix::process::getpid();
        let mut rest = own.as_raw_nonzero().get();
        let number = self.message.get_mut(self.number.clone());
        for place in number.unwrap_or_default().iter_mut().rev() {
            *place = match rest {
                0 => b' ',
                _ => b'0' + (rest % 10) as u8,
            };
            rest /= 10;
        }
        let pidfd = match self.brings_pidfd {
            true => Some(rustix::process::pidfd_open(own, PidfdFlags::empty())?),
            false => None,
        };
        let brought = pidfd.as_ref().map(AsFd::as_fd);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if let Some(pidfd) = &brought
            && !ancillary.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(pidfd)))
        {
            return Err(Errno::NOBUFS);
        }
        let message = [IoSlice::new(&self.message)];
        loop {
            match rustix::net::sendmsg(self.socket, &message, &mut ancillary, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => return sent.map(drop),
            }
        }
    }
}

/// A process that was made for a program.
#[derive(Debug)]
pub struct Started {
    /// Its number.
    pub pid: i32,
    /// Why it has not become the program. Then it has ended, or is about to.
    pub failure: Option<io::Error>,
}

/// Starts the program in a new process, which announces itself first. Each of `placed` gets the number beside it; everything else that is
/// close-on-exec is closed, and signals have their default effect. Returns when the program is executed, or when it cannot be.
pub fn start(
    executable: &Executable,
    placed: &[(BorrowedFd<'_>, RawFd)],
    announcement: Announcement<'_>,
) -> io::Result<Started> {
    let lifted = Lifted::of(placed)?;
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        let texts = list.iter().map(|text| text.as_ptr());
        texts.chain([std::ptr::null()]).collect()
    };
    let mut child = Child {
        program: &executable.path,
        arguments: pointers(&executable.arguments),
        environment: pointers(&executable.environment),
        lifted,
        announcement,
        failure: None,
    };
    let pid = child.run()?;
    let failure = child.failure.map(|(step, error)| match step {
        ExecStage::Announce => context("announcing the process to the server", error),
        ExecStage::Place => context("handing descriptors on", error),
        ExecStage::Execute => error.into(),
    });
    Ok(Started { pid, failure })
}

/// Descriptors and the numbers that they are to have. Those that would be in the way of another have a second number, above all.
#[derive(Debug)]
struct Lifted {
    /// Those that have their number already.
    in_place: Vec<RawFd>,
    /// Second numbers, and the numbers they are to have.
    moved: Vec<(OwnedFd, RawFd)>,
}

impl Lifted {
    fn of(placed: &[(BorrowedFd<'_>, RawFd)]) -> io::Result<Lifted> {
        let floor = placed.iter().map(|(_, to)| to + 1).max().unwrap_or(0);
        let (in_place, others): (Vec<_>, Vec<_>) = placed
            .iter()
            .partition::<Vec<_>, _>(|(from, to)| from.as_raw_fd() == *to);
        let lift = |&(from, to): &(BorrowedFd<'_>, RawFd)| {
            Ok((rustix::io::fcntl_dupfd_cloexec(from, floor)?, to))
        };
        Ok(Lifted {
            in_place: in_place.iter().map(|(_, to)| *to).collect(),
            moved: others.iter().map(lift).collect::<io::Result<_>>()?,
        })
    }

    /// In the child, whose descriptors are its own: gives each its number, and leaves it open for the program.
    fn place(&self) -> Result<(), Errno> {
        for number in &self.in_place {
            // SAFETY: integer arguments only; no flag: the program inherits it.
            checked(unsafe { libc::fcntl(*number, libc::F_SETFD, 0) })?;
        }
        for (from, to) in &self.moved {
            // SAFETY: integer arguments only. Whatever had this number is of no use to the program.
            checked(unsafe { libc::dup2(from.as_raw_fd(), *to) })?;
        }
        Ok(())
    }
}

fn checked(result: c_int) -> Result<(), Errno> {
    match result {
        ..0 => Err(last_error()),
        _ => Ok(()),
    }
}

/// The error of the last call of the C library. Its place is the caller's, who sleeps.
fn last_error() -> Errno {
    let code = io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(code.unwrap_or(libc::EINVAL))
}

/// A step of the child that can fail.
#[derive(Debug, Clone, Copy)]
enum ExecStage {
    Announce,
    Place,
    Execute,
}

/// All that the child needs, in the memory that it borrows.
struct Child<'a> {
    program: &'a CStr,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    lifted: Lifted,
    announcement: Announcement<'a>,
    /// Written by the child, which ends then.
    failure: Option<(ExecStage, Errno)>,
}

impl Child<'_> {
    /// Makes the child. Returns its number once it no longer uses this memory.
    fn run(&mut self) -> io::Result<i32> {
        let units = STACK / size_of::<u128>();
        let mut stack = Vec::<MaybeUninit<u128>>::with_capacity(units);
        // SAFETY: one past the end of the allocation, where a stack that grows down begins; aligned as u128 is.
        let top = unsafe { stack.as_mut_ptr().add(units) };
        // A handler would run in the child on memory of the caller.
        let former = block_signals();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the stack and `self` live until this returns, which is when the child has executed a program or ended: CLONE_VFORK. Until
        // then this thread does nothing, and `child` keeps to system calls and memory that no other thread knows.
        let pid = unsafe { libc::clone(child, top.cast(), flags, (&raw mut *self).cast()) };
        let error = io::Error::last_os_error();
        restore_signals(&former);
        match pid {
            ..0 => Err(context("making a process", error)),
            _ => Ok(pid),
        }
    }

    /// Returns only if it fails.
    fn become_program(&mut self) -> (ExecStage, Errno) {
        if let Err(error) = self.announcement.send() {
            return (ExecStage::Announce, error);
        }
        if let Err(error) = self.lifted.place() {
            return (ExecStage::Place, error);
        }
        reset_signals();
        let (arguments, environment) = (self.arguments.as_ptr(), self.environment.as_ptr());
        // SAFETY: the path is NUL-terminated, both arrays end with a null, and their texts live as long as `self` is borrowed.
        unsafe { libc::execve(self.program.as_ptr(), arguments, environment) };
        (ExecStage::Execute, last_error())
    }
}

/// The child, on its own stack. The caller sleeps.
extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: it is the `Child` of `run`, which is borrowed exclusively there until this process is gone.
    let plan = unsafe { &mut *plan.cast::<Child<'_>>() };
    plan.failure = Some(plan.become_program());
    // SAFETY: ends this process alone, without the caller's work at exit.
    unsafe { libc::_exit(NOT_EXECUTED) }
}

fn block_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut former = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises the whole set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: a set that is initialised, and room for another.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), former.as_mut_ptr()) };
    // SAFETY: pthread_sigmask has written it: it fails only for an unknown first argument.
    unsafe { former.assume_init() }
}

fn restore_signals(former: &libc::sigset_t) {
    // SAFETY: a set that was given by the system; the one in force is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, former, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests;
