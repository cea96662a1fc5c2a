//! Finds the language hosts: every executable of the modules folder is asked to describe itself, all at once.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Deserialize;
use tutti_log::Level;
use tutti_log::Log;
use tutti_options::logging::LogStyle;
use tutti_protocol::LanguageModule;
use tutti_sys::priority;
use tutti_sys::process::{Ended, pidfd, reap_one};
use tutti_sys::signal::{self, Signals};
use tutti_sys::spawn::Spawn;
use tutti_wire::control::MODULE_VARIABLE;

/// A host that has not described itself by then is broken: even with a cold disk and an overloaded machine it takes
/// less.
const LONGEST_DESCRIPTION: Duration = Duration::from_secs(30);

/// A description is one short line.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// A host that is describing itself.
struct HostProbe {
    path: PathBuf,
    pid: i32,
    answer: io::PipeReader,
    complaint: io::PipeReader,
}

/// Signals that abort the search.
const STOPS: [i32; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT];

/// A search in progress.
struct Search<'a> {
    deadline: Instant,
    signals: Option<&'a Signals>,
    /// The signal that has aborted it.
    stopped_by: Option<i32>,
}

/// Asks every executable in `folder`; returns those with a valid description, ordered by name. Others are logged.
///
/// # Errors
/// `Interrupted` if a stop was requested in the meantime.
pub(crate) fn discover(
    folder: &Path,
    log: &Log,
    signals: &Signals,
) -> io::Result<Vec<LanguageModule>> {
    let mut search = Search::new(Some(signals));
    let modules = search.run(folder, |level, message| log.line(level, message));
    match search.stopped_by {
        Some(number) => Err(io::Error::new(
            io::ErrorKind::Interrupted,
            format!(
                "stopped by {} while looking for modules",
                signal::name(number)
            ),
        )),
        None => Ok(modules),
    }
}

/// Finds modules for a command. Broken ones are reported on standard error.
pub fn found(folder: &Path) -> Vec<LanguageModule> {
    let log = Log::to_stderr(&LogStyle::default()).ok();
    Search::new(None).run(folder, |level, message| {
        if let (Some(log), true) = (&log, level <= Level::Warn) {
            log.line(level, message);
        }
    })
}

impl<'a> Search<'a> {
    fn new(signals: Option<&'a Signals>) -> Search<'a> {
        Search {
            deadline: Instant::now() + LONGEST_DESCRIPTION,
            signals,
            stopped_by: None,
        }
    }

    fn run(&mut self, folder: &Path, log: impl Fn(Level, &str)) -> Vec<LanguageModule> {
        let programs = match executables(folder) {
            Ok(programs) => programs,
            Err(error) => {
                log(
                    Level::Warn,
                    &format!(
                        "no modules: cannot read the modules folder `{}`: {error}",
                        folder.display()
                    ),
                );
                return Vec::new();
            }
        };
        let asked: Vec<_> = programs
            .into_iter()
            .map(|path| (path.clone(), ask(path)))
            .collect();
        let mut modules = Vec::new();
        for (path, asked) in asked {
            match asked.and_then(|asked| self.listen_to(asked)) {
                Ok(described) => {
                    for module in &described {
                        log(
                            Level::Info,
                            &format!(
                                "module: {} {} \"{}\"",
                                module.kind,
                                module.version,
                                path.display()
                            ),
                        );
                    }
                    modules.extend(described);
                }
                Err(reason) => match missing_library(&reason) {
                    Some(library) => log(
                        Level::Info,
                        &format!(
                            "module \"{}\" is left out: this system has no {library}",
                            path.display()
                        ),
                    ),
                    None => log(
                        Level::Error,
                        &format!("module \"{}\" cannot be used: {reason}", path.display()),
                    ),
                },
            }
        }
        modules
    }

    fn listen_to(&mut self, asked: HostProbe) -> Result<Vec<LanguageModule>, String> {
        let handle = pidfd(asked.pid).map_err(|e| e.to_string())?;
        // A description is far shorter than a pipe's buffer, so the host ends even without a reader.
        if let Err(reason) = self.wait_for_end(&handle) {
            let _ = signal::send_group(asked.pid, libc::SIGKILL);
            let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], None);
            reap_one(asked.pid);
            return Err(reason);
        }
        read_description(asked)
    }

    fn wait_for_end(&mut self, handle: &OwnedFd) -> Result<(), String> {
        while self.stopped_by.is_none() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let mut polls = vec![PollFd::new(handle, PollFlags::IN)];
            polls.extend(
                self.signals
                    .map(|signals| PollFd::new(signals, PollFlags::IN)),
            );
            let ready = poll(&mut polls, Some(&timeout));
            if polls.first().is_some_and(|poll| !poll.revents().is_empty()) {
                return Ok(());
            }
            if ready == Ok(0) {
                return Err(format!(
                    "`--describe` has not ended after {} seconds",
                    LONGEST_DESCRIPTION.as_secs()
                ));
            }
            // Ending children are noticed by their own descriptors; logs need not be reopened yet.
            let mut signals = std::iter::from_fn(|| self.signals?.next());
            self.stopped_by = signals.find(|number| STOPS.contains(number));
        }
        Err("stopped".to_owned())
    }
}

fn executables(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.metadata()
                .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        })
        .collect();
    found.sort();
    Ok(found)
}

fn ask(path: PathBuf) -> Result<HostProbe, String> {
    let described = || -> io::Result<HostProbe> {
        let (answer, answer_write) = io::pipe()?;
        let (complaint, complaint_write) = io::pipe()?;
        let mut spawn = Spawn::new(&path)?
            .argument("--describe")?
            .variable(MODULE_VARIABLE, &path)?
            .new_session()
            .death_signal(libc::SIGKILL);
        for (name, value) in crate::service_manager::environment() {
            spawn = spawn.variable(name, value)?;
        }
        let null = std::fs::File::open("/dev/null")?;
        let pid = spawn
            .descriptor(null.into(), 0)
            .descriptor(answer_write.into(), 1)
            .descriptor(complaint_write.into(), 2)
            .start()
            .map_err(io::Error::other)?;
        priority::give_way(pid);
        Ok(HostProbe {
            path: path.clone(),
            pid,
            answer,
            complaint,
        })
    };
    described().map_err(|error| error.to_string())
}

/// The output of `--describe`.
#[derive(Deserialize)]
struct Description {
    #[serde(flatten)]
    module: LanguageModule,
    /// Further types of applications that it runs.
    #[serde(default)]
    also: Vec<String>,
}

/// Returns the host as a module of each type that it runs.
fn read_description(asked: HostProbe) -> Result<Vec<LanguageModule>, String> {
    let status = reap_one(asked.pid);
    let text = read_available(asked.answer);
    if status != Some(Ended::Code(0)) {
        let complaint = read_available(asked.complaint);
        let how = status.map_or_else(|| "is gone".to_owned(), |s| s.to_string());
        return Err(format!("`--describe` {how}: {}", complaint.trim()));
    }
    let described: Description = serde_json::from_str(text.trim()).map_err(|error| {
        format!(
            "`--describe` printed `{}`: {error}",
            text.trim().chars().take(200).collect::<String>()
        )
    })?;
    let module = LanguageModule {
        path: asked.path,
        ..described.module
    };
    let mut modules = vec![module.clone()];
    modules.extend(described.also.into_iter().map(|kind| LanguageModule {
        kind,
        ..module.clone()
    }));
    let is_empty = |module: &LanguageModule| module.kind.is_empty() || module.version.is_empty();
    if modules.iter().any(is_empty) {
        return Err("`--describe` gives no type or no version".to_owned());
    }
    Ok(modules)
}

/// The library without which the loader did not start a host. The archive for any Linux has hosts of several versions of a language, and a system
/// the libraries of one.
fn missing_library(reason: &str) -> Option<&str> {
    // The words of glibc's loader, which it does not translate.
    let (_, rest) = reason.split_once("error while loading shared libraries: ")?;
    let (library, _) = rest.split_once(": cannot open shared object file")?;
    Some(library)
}

/// Reads the current content of the pipe: a grandchild may hold the other end open forever.
fn read_available(pipe: io::PipeReader) -> String {
    use std::os::fd::AsFd;
    let mut text = Vec::new();
    if tutti_sys::seqpacket::set_nonblocking(pipe.as_fd()).is_ok() {
        let _ = pipe.take(LONGEST_ANSWER).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use tutti_testkit::files;

    use super::*;

    fn script(folder: &Path, name: &str, text: &str) {
        files::script(&folder.join(name), &format!("#!/bin/sh\n{text}\n"));
    }

    #[test]
    fn good_modules_are_found_and_broken_ones_are_reported_with_reasons() {
        let folder = tempfile::tempdir().unwrap();
        let log_path = folder.path().join("log");
        let log = Log::to(tutti_log::open(&log_path).unwrap());
        let modules = folder.path().join("modules");
        std::fs::create_dir(&modules).unwrap();
        script(
            &modules,
            "a-good",
            r#"echo '{"type":"sample","version":"1.2"}'"#,
        );
        script(
            &modules,
            "b-failing",
            "echo 'libphp is missing' >&2; exit 3",
        );
        script(&modules, "c-chatty", "echo hello");
        script(
            &modules,
            "e-several",
            r#"echo '{"type":"one","version":"3","also":["two"]}'"#,
        );
        script(
            &modules,
            "f-elsewhere",
            "echo \"$0: error while loading shared libraries: liblanguage.so.1: cannot open shared object file: No such file or directory\" >&2; exit 127",
        );
        std::fs::write(modules.join("d-data"), "not executable").unwrap();

        let found = Search::new(None).run(&modules, |level, message| log.line(level, message));

        let found_modules: Vec<_> = found
            .iter()
            .map(|module| (module.kind.as_str(), module.version.as_str()))
            .collect();
        assert_eq!(
            found_modules,
            [("sample", "1.2"), ("one", "3"), ("two", "3")]
        );
        assert_eq!(found[1].path, found[2].path);
        let text = std::fs::read_to_string(log_path).unwrap();
        assert!(
            text.contains(&format!(
                "module: sample 1.2 \"{}\"",
                modules.join("a-good").display()
            )),
            "{text}"
        );
        assert!(
            text.contains("exited with code 3: libphp is missing"),
            "{text}"
        );
        assert!(text.contains("printed `hello`"), "{text}");
        assert!(!text.contains("d-data"), "{text}");
        let left_out: Vec<_> = text
            .lines()
            .filter(|line| line.contains("f-elsewhere"))
            .collect();
        assert_eq!(left_out.len(), 1, "{text}");
        assert!(
            left_out[0].contains("[info]")
                && left_out[0].ends_with("is left out: this system has no liblanguage.so.1"),
            "{text}"
        );
    }

    #[test]
    fn a_missing_folder_is_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let log_path = folder.path().join("log");
        let log = Log::to(tutti_log::open(&log_path).unwrap());
        let missing = folder.path().join("none");
        let found = Search::new(None).run(&missing, |level, message| log.line(level, message));
        assert!(found.is_empty());
        assert!(
            std::fs::read_to_string(log_path)
                .unwrap()
                .contains("[warn]")
        );
    }
}
