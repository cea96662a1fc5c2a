//! A runner: a process of an application's user that runs one command and minds it, until the command and all that it has started have
//! ended.
//!
//! Started by main with its descriptors (`tutti_wire::command`), told by the router when to stop. It leads the process group, and what the
//! command leaves behind falls to it, whatever group or session that has moved to. What must never happen: that something of the command
//! is left when the runner has ended, or that a command goes on without the router or without main.

mod program;

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tutti_options::logging::Level;
use tutti_sys::process::Ended;
use tutti_sys::signal::Signals;
use tutti_sys::spawn::{Spawn, inherited};
use tutti_sys::{lifeline, memfd, proc, process, seqpacket, signal, title};
use tutti_wire::command::{CommandStart, FromRunner, ToRunner};
use tutti_wire::control::{
    ExitStatus, FD_CONTROL, FD_LIFELINE, FD_START, MAX_MESSAGE, MODULE_VARIABLE, decode, encode,
};

use crate::error::StartError;
use crate::reports::cut;
use crate::{become_program, output};

/// Signals that end a process or tell it something: the command's, which the runner outlives. SIGIO comes when main has gone.
const TAKEN: [i32; 9] = [
    libc::SIGCHLD,
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGIO,
];

/// Pause between two looks at processes that are being killed: one that dies may bring others to us.
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// A command that is minded.
struct Minded {
    control: OwnedFd,
    lifeline: OwnedFd,
    signals: Signals,
    start: CommandStart,
    pid: i32,
    /// True while the command itself lives.
    is_running: bool,
    /// The router has closed its end.
    is_alone: bool,
    /// When everything that is left is killed.
    kill_at: Option<Instant>,
    is_killed: bool,
    /// Those left behind that have been told to end.
    told: HashSet<i32>,
}

/// Runs the command, or only looks whether that is possible.
pub(crate) fn run(is_look: bool) -> ExitCode {
    let control = match inherited(FD_CONTROL) {
        Ok(control) => control,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    match begin(&control, is_look) {
        Ok(None) => {
            tell(&control, &FromRunner::Sound);
            ExitCode::SUCCESS
        }
        Ok(Some(begun)) => begun.minded(control).mind(),
        Err(error) => {
            let failed = FromRunner::Failed {
                step: cut(error.step),
                message: cut(error.message),
                hint: error.hint.map(cut),
                member: error.member.map(cut),
            };
            tell(&control, &failed);
            ExitCode::FAILURE
        }
    }
}

/// A command that has been started.
struct Begun {
    lifeline: OwnedFd,
    signals: Signals,
    start: CommandStart,
    pid: i32,
}

impl Begun {
    fn minded(self, control: OwnedFd) -> Minded {
        Minded {
            control,
            lifeline: self.lifeline,
            signals: self.signals,
            start: self.start,
            pid: self.pid,
            is_running: true,
            is_alone: false,
            kill_at: None,
            is_killed: false,
            told: HashSet::new(),
        }
    }
}

fn begin(control: &OwnedFd, is_look: bool) -> Result<Option<Begun>, StartError> {
    let at = |step: &'static str| move |error: io::Error| StartError::new(step, error);
    // As of every host: nothing of it is for other processes of this user.
    process::hide_memory().map_err(at("hiding the memory"))?;
    let document = inherited(FD_START).and_then(memfd::contents);
    let document = document.map_err(at("reading the start document"))?;
    let start: CommandStart =
        decode(&document).map_err(|error| StartError::new("reading the start document", error))?;
    let lifeline = inherited(FD_LIFELINE).map_err(at("taking over the lifeline"))?;
    // Before the line is tied: its signal would end this process, and nobody would end what has left the group.
    let signals = Signals::take(&TAKEN).map_err(at("taking signals"))?;
    if rustix::process::getpgrp() != rustix::process::getpid() {
        process::new_session().map_err(at("making a session"))?;
    }
    lifeline::tie_own_group_for_sigio(lifeline.as_fd()).map_err(at("tying the lifeline"))?;
    process::become_subreaper().map_err(at("becoming subreaper"))?;
    let common = &start.common;
    output::redirect(
        common.stdout.as_deref(),
        common.stderr.as_deref(),
        |reason| {
            crate::log::line(Level::Warn, "", reason.as_bytes());
        },
    );
    become_program::enter(common.working_directory.as_deref())?;
    let name = start.words.first().map_or("", String::as_str);
    let path = start.common.environment.get("PATH").map(Into::into);
    let found = program::find(name, path.or_else(|| std::env::var_os("PATH")))?;
    if is_look {
        return Ok(None);
    }
    let prepared = spawn(&start, &found).map_err(at("preparing the program"))?;
    let pid = prepared.start().map_err(|error| {
        let failed = StartError::new(format!("starting `{}`", found.display()), &error);
        let failed = failed.member("command/0");
        match become_program::hint(&error.source) {
            Some(hint) => failed.hint(hint),
            None => failed,
        }
    })?;
    let _ = title::set(&format!("tutti: {}", start.title));
    let started = FromRunner::Started { pid };
    // A number of a pid namespace means nothing outside: the receiver's kernel tells by the pidfd which it is there.
    let pidfd = process::pidfd(pid).ok().filter(|_| process::id() == 1);
    let pidfds: Vec<_> = pidfd.iter().map(AsFd::as_fd).collect();
    let _ = seqpacket::send(control.as_fd(), &encode(&started), &pidfds);
    Ok(Some(Begun {
        lifeline,
        signals,
        start,
        pid,
    }))
}

/// The command, with the environment of the application's workers and its own.
fn spawn(start: &CommandStart, program: &std::path::Path) -> io::Result<Spawn> {
    let mut spawn = Spawn::new(program)?;
    if let Some(name) = start.words.first() {
        spawn = spawn.argument_zero(name)?;
    }
    for word in start.words.iter().skip(1) {
        spawn = spawn.argument(word)?;
    }
    for (name, value) in std::env::vars_os() {
        let is_replaced = name == MODULE_VARIABLE
            || name
                .to_str()
                .is_some_and(|name| start.common.environment.contains_key(name));
        if !is_replaced {
            spawn = spawn.variable(name, value)?;
        }
    }
    for (name, value) in &start.common.environment {
        spawn = spawn.variable(name, value)?;
    }
    Ok(spawn
        .descriptor(io::stdin().as_fd().try_clone_to_owned()?, 0)
        .descriptor(io::stdout().as_fd().try_clone_to_owned()?, 1)
        .descriptor(io::stderr().as_fd().try_clone_to_owned()?, 2)
        .death_signal(libc::SIGKILL))
}

/// The router may have gone; then it needs no news.
fn tell(control: &OwnedFd, news: &FromRunner) {
    let _ = seqpacket::send(control.as_fd(), &encode(news), &[]);
}

impl Minded {
    fn mind(mut self) -> ExitCode {
        let mut buffer = vec![0; MAX_MESSAGE];
        loop {
            self.reap();
            if !self.is_running && !process::has_children() {
                return ExitCode::SUCCESS;
            }
            self.end_what_is_left(Instant::now());
            self.wait();
            self.obey(&mut buffer);
            while let Some(number) = self.signals.next() {
                if matches!(number, libc::SIGTERM | libc::SIGINT | libc::SIGQUIT) {
                    self.stop();
                }
            }
            // Main is gone, and nobody is told of anything any more.
            if lifeline::is_cut(&self.lifeline) {
                self.stop();
                self.kill_at = Some(Instant::now());
            }
        }
    }

    fn wait(&self) {
        let left = self.kill_at.map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            match left.is_zero() {
                true => KILL_INTERVAL,
                false => left,
            }
        });
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        let mut polls = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.lifeline, PollFlags::RDHUP),
        ];
        if !self.is_alone {
            polls.push(PollFd::new(&self.control, PollFlags::IN));
        }
        if self.kill_at.is_some() {
            // A line that is cut stays so: it would wake us without a pause.
            polls.remove(1);
        }
        let _ = poll(&mut polls, timeout.as_ref());
    }

    /// Takes what the router says, if it says anything.
    fn obey(&mut self, buffer: &mut [u8]) {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        while !self.is_alone {
            let mut asked = [PollFd::new(&self.control, PollFlags::IN)];
            if !matches!(poll(&mut asked, Some(&now)), Ok(count) if count > 0) {
                return;
            }
            let received = seqpacket::receive(self.control.as_fd(), buffer)
                .ok()
                .flatten();
            let bytes = received.and_then(|received| buffer.get(..received.len));
            match bytes.map(decode) {
                Some(Ok(ToRunner::Stop)) => self.stop(),
                Some(Ok(ToRunner::Kill)) => {
                    self.stop();
                    self.kill_at = Some(Instant::now());
                }
                // A newer router says something that does not concern this one.
                Some(Err(_)) => {}
                None => {
                    self.is_alone = true;
                    self.stop();
                }
            }
        }
    }

    /// Tells the command to end, once.
    fn stop(&mut self) {
        if self.kill_at.is_some() {
            return;
        }
        self.kill_at = Some(Instant::now() + Duration::from_millis(self.start.stop_timeout));
        if self.is_running {
            let _ = signal::send(self.pid, self.start.stop_signal);
        }
    }

    fn reap(&mut self) {
        while let Some((pid, how)) = process::reap() {
            self.told.remove(&pid);
            if pid != self.pid || !self.is_running {
                continue;
            }
            self.is_running = false;
            let status = match how {
                Ended::Code(code) => ExitStatus::Code(code),
                Ended::Signal(signal, _) => ExitStatus::Signal(signal),
            };
            let is_killed = self.is_killed;
            tell(&self.control, &FromRunner::Ended { status, is_killed });
            // Those it has left behind have as much time as it would have had.
            self.stop();
        }
    }

    /// Tells those to end that the command has left behind, and kills everything when the time is over.
    fn end_what_is_left(&mut self, now: Instant) {
        let is_over = self.kill_at.is_some_and(|at| at <= now);
        if self.is_running && !is_over {
            return;
        }
        self.is_killed |= is_over;
        let number = match is_over {
            true => libc::SIGKILL,
            false => self.start.stop_signal,
        };
        // First in a pid namespace: everybody else in it is of the command, and `/proc` may be that of another.
        if process::id() == 1 {
            if is_over || self.told.insert(1) {
                let _ = signal::send_to_namespace(number);
            }
            return;
        }
        let left = proc::children(process::id());
        for &pid in &left {
            if is_over || self.told.insert(pid) {
                let _ = signal::send(pid, number);
            }
        }
        // Without `/proc` nobody says who they are: the group has them, and this process, which has taken all signals but one.
        if left.is_empty() && process::has_children() && (is_over || self.told.insert(0)) {
            let _ = signal::send_group(process::id().max(2), number);
        }
    }
}
