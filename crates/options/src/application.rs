//! Applications of all types: their common options, and what the server needs to know about a type.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use crate::isolation::Isolation;
use crate::mules::Mule;
use crate::processes::{Limits, MOST_WORKERS, Processes};
use crate::table::{Names, Text, ValueKind};
use crate::{Complaints, Named, Options, Typed as _, Unread, options};

options! {
    /// An application
    pub struct Common: COMMON = "application" {
        /// Language, with a version if it matters: `php`, `php 8`, `php 8.2`
        module: Unread [key("type"), kind(ValueKind::String(Text::Module)), required()],
        /// Number of processes: fixed, or scaled to demand within limits
        processes: Processes [default("1"), unit("processes")],
        /// When a process or a request is terminated
        limits: Limits [],
        /// Read the whole body of a request before passing it to the application; `false`: pass the body on as it
        /// arrives (`docs/languages/streaming.md`)
        request_buffering: bool [default("true")],
        /// Load the application once, then fork its processes (`docs/operate/processes.md`)
        preload: bool [beyond(), default("false")],
        /// Restart when a file of the application changes; for development
        watch: bool [beyond(), default("false")],
        /// Environment variables, in addition to the server's own
        environment: BTreeMap<String, String> [kind(ValueKind::Map(Names::Environment, &ValueKind::String(Text::Argument)))],
        /// User to run the processes as, instead of the server's default. `auto`: a user for this application alone
        user: Option<String> [],
        /// Group to run the processes as, instead of the user's own group
        group: Option<String> [],
        /// Working directory of the processes, instead of the server's
        working_directory: Option<PathBuf> [kind(ValueKind::String(Text::PathOrEmpty))],
        /// File for their standard output
        stdout: Option<PathBuf> [],
        /// File for their standard error; by default, the server's log
        stderr: Option<PathBuf> [],
        /// Namespaces, file system root, cgroup
        isolation: Option<Isolation> [],
        /// Commands that run beside the worker processes, such as queue consumers (`docs/operate/jobs.md`)
        mules: Named<Mule> [kind(ValueKind::Map(Names::NotEmpty, &Mule::KIND)), beyond()],
    }
}

impl Common {
    /// Collects faults that involve more than one option.
    pub fn check(&self, complaints: &mut Complaints<'_>) {
        self.processes.check(complaints);
        self.limits.check(complaints);
        if let Some(isolation) = &self.isolation {
            complaints.inside("isolation", |complaints| isolation.check(complaints));
        }
        complaints.inside(Self::mules.name, |complaints| {
            for (name, mule) in &self.mules.0 {
                complaints.inside(name, |complaints| mule.check(complaints));
            }
        });
    }
}

/// The server's knowledge of a type of application, beside its options.
pub trait ApplicationSupport: Options {
    /// True if a version may follow in `type`.
    const HAS_VERSIONS: bool;
    /// Another word for it in `type`, from older versions of NGINX Unit.
    const OLDER_NAME: Option<&'static str> = None;
    /// True if its host may run event loops, which are woken by their own events.
    const MAY_RUN_EVENT_LOOPS: bool = false;
    /// Requests that such an event loop handles at once by default; `None`: the server's default.
    const EVENT_LOOP_CONCURRENCY: Option<NonZeroU32> = None;
    /// True if its applications may take over connections and serve other requests meanwhile.
    const MAY_TAKE_OVER: bool = false;
    /// True if its host reads `limits.memory` or `limits.memory_max` itself and has to restart when they change.
    const READS_MEMORY_LIMIT: bool = false;

    /// Collects faults that involve more than one option.
    fn check(&self, _complaints: &mut Complaints<'_>) {}

    /// Names of the targets; empty where there are none.
    fn targets(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Threads of a process that serve requests.
    fn threads(&self) -> NonZeroU32 {
        NonZeroU32::MIN
    }

    /// Files and folders that the application's code is in.
    fn watched(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// True if its host starts a program that speaks HTTP, and relays to it.
    fn is_relayed(&self) -> bool {
        false
    }

    /// The likely remedy if a process starts but never reports that it is ready.
    fn unready_hint(&self) -> Option<&'static str> {
        None
    }
}

/// `PTHREAD_STACK_MIN` of Linux on most machines (pthread_attr_setstacksize(3)).
const MIN_STACK: i64 = 16_384;

/// The smallest memory page on any machine: a size that is not a multiple of it is a mistake everywhere.
const PAGE: usize = 4096;

options! {
    /// Threads of a process
    #[derive(Copy, Eq)]
    pub struct Threads: THREADS = "threads" {
        /// Threads of a process that handle requests
        threads: NonZeroU32 [kind(ValueKind::Integer(1, MOST_WORKERS as i64)), default("1"), unit("threads")],
        /// Stack of such a thread: a multiple of the page size, 4096
        thread_stack_size: Option<usize> [kind(ValueKind::Integer(MIN_STACK, 0x7fff_ffff)), unit("bytes")],
    }
}

impl Threads {
    pub(crate) fn check(&self, complaints: &mut Complaints<'_>) {
        if let Some(size) = self.thread_stack_size
            && !size.is_multiple_of(PAGE)
        {
            complaints.value_with_hint(
                "thread_stack_size",
                format!("{size} is not a multiple of {PAGE}, the size of a page"),
                format!("write {}", size.next_multiple_of(PAGE)),
            );
        }
    }
}

/// Returns the entry points with the names of their targets; an application without targets has one, whose name is
/// empty.
pub(crate) fn entries<'a, T>(targets: Option<&'a Named<T>>, only: &'a T) -> Vec<(&'a str, &'a T)> {
    match targets {
        Some(Named(targets)) => {
            let targets = targets.iter();
            targets
                .map(|(name, target)| (name.as_str(), target))
                .collect()
        }
        None => vec![("", only)],
    }
}

/// A script and its folder, which are watched together.
pub(crate) fn with_folder(script: &Path) -> Vec<PathBuf> {
    let folder = script.parent().map(PathBuf::from);
    [script.to_path_buf()].into_iter().chain(folder).collect()
}

/// A target is numbered with one byte, and two numbers are reserved (Unit documents 254).
const MAX_TARGETS: usize = 254;

/// Collects the faults of `targets`: those inside each, and whether there are none or too many.
pub(crate) fn check_targets<T>(
    targets: &[(String, T)],
    check: impl Fn(&T, &mut Complaints<'_>),
    complaints: &mut Complaints<'_>,
) {
    let message = match targets.len() {
        0 => Some("an application needs at least one target".to_owned()),
        count if count > MAX_TARGETS => {
            Some(format!("{count} targets are more than {MAX_TARGETS}"))
        }
        _ => None,
    };
    if let Some(message) = message {
        complaints.name("targets", message, None);
    }
    for (name, target) in targets {
        complaints.inside("targets", |complaints| {
            complaints.inside(name, |complaints| check(target, complaints));
        });
    }
}
