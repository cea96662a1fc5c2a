//! An application: what it is, which Java runs it, and the life of its virtual machine.
//!
//! The prototype looks at everything that can be looked at without Java, so that most mistakes are reported at once; it never has a
//! virtual machine, and its forks may so have one each. The web application starts in the worker, before that is ready.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use tutti_options::Options as _;
use tutti_options::java::{Java as JavaOptions, Servlet};
use tutti_worker::{Common, Process, Start, StartError};

use crate::home::{self, Home};
use crate::jvm::Machine;
use crate::webapp::{self, Webapp};
use crate::{ffi, jars, stack_location};

/// The first Java with virtual threads (JEP 444).
const VIRTUAL_THREADS: u32 = 21;

/// Stack of the thread that starts the virtual machine, as the `java` program has it on this kind of machine.
const MAIN_STACK: usize = 8 << 20;

/// The variables that tell a locale, the strongest first (setlocale(3)).
const LOCALES: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// Options of the `java` program that have their value in the next word; the virtual machine takes them with `=`.
const WITH_A_VALUE: [&str; 6] = [
    "--add-exports",
    "--add-modules",
    "--add-opens",
    "--add-reads",
    "--enable-native-access",
    "--patch-module",
];

/// Options that are the `java` program's own, and what stands for them.
const NOT_FOR_A_MACHINE: [(&str, &str); 7] = [
    ("-cp", "libraries are `classpath`"),
    ("-classpath", "libraries are `classpath`"),
    ("--class-path", "libraries are `classpath`"),
    ("-jar", "a program of its own is run by the type `external`"),
    ("-version", "`/status` has the version"),
    ("--version", "`/status` has the version"),
    ("-server", "every virtual machine is one for servers"),
];

/// An application that was looked at.
#[derive(Debug)]
pub struct Java {
    options: JavaOptions,
    home: Home,
    webapp: Webapp,
    class_path: Vec<PathBuf>,
    libraries: Vec<PathBuf>,
    /// Resident memory that a process is to stay below.
    memory: Option<u64>,
    /// Where packed web applications are unpacked: for all of its processes, and gone with the prototype.
    folder: tempfile::TempDir,
    /// The prototype, which the folder belongs to.
    owner: u32,
}

impl Drop for Java {
    fn drop(&mut self) {
        // Workers are forks, and none of them may take the folder of the others away.
        if std::process::id() != self.owner {
            self.folder.disable_cleanup(true);
        }
    }
}

impl Java {
    /// Looks at the application: in the prototype, whose environment is set and whose working directory is entered.
    ///
    /// # Errors
    /// Tells which option cannot be used, and the cure.
    pub fn prepare(start: &Start, common: &Common) -> Result<Self, StartError> {
        let options = JavaOptions::from_json(&start.config)?;
        check(&options.options)?;
        let webapp = webapp::find(&options.webapp, options.servlet)?;
        let home = home::find(options.java_home.as_deref())?;
        if options.virtual_threads && home.major() < VIRTUAL_THREADS {
            let message = format!(
                "`{}` is Java {}, and virtual threads are there from {VIRTUAL_THREADS} on",
                home.folder.display(),
                home.version
            );
            return Err(StartError::new("looking for Java", message)
                .member("virtual_threads")
                .hint("leave the option out, or name a newer Java in `java_home`"));
        }
        let folder = tempfile::Builder::new()
            .prefix("tutti-java-")
            .tempdir()
            .map_err(|error| {
                StartError::new("making a folder for the web application", error)
                    .hint("the application's user must be allowed to write to the folder of temporary files (TMPDIR, else `/tmp`)")
            })?;
        Ok(Self {
            class_path: jars::class_path(webapp.servlet)?,
            libraries: libraries(&options.classpath)?,
            memory: common.limits.memory.0,
            options,
            home,
            webapp,
            folder,
            owner: std::process::id(),
        })
    }

    /// Starts the virtual machine with the web application, and serves until all threads have to leave.
    ///
    /// # Errors
    /// The web application or the virtual machine does not start.
    pub fn serve(&mut self, process: &mut Process) -> Result<(), StartError> {
        set_locale()?;
        stack_location::catch().map_err(|error| StartError::new("catching a signal", error))?;
        let this = &*self;
        // A virtual machine is not to be started by a process's first thread, whose stack grows (the `java` program does the same).
        std::thread::scope(|scope| {
            let main = std::thread::Builder::new()
                .name("main".to_owned())
                .stack_size(MAIN_STACK)
                .spawn_scoped(scope, || this.run(process))
                .map_err(|error| StartError::new("starting a thread", error))?;
            main.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn run(&self, process: &mut Process) -> Result<(), StartError> {
        let arguments = self.arguments()?;
        let natives = ffi::natives();
        let machine = Machine::start(&self.home.library(), &arguments, (ffi::CLASS, &natives))
            .map_err(|text| self.machine_failed(&text))?;
        self.call(&machine, c"start", &self.settings())?;
        let places = process.take_threads();
        let count = places.len().to_string();
        ffi::offer(places, process.concurrency());
        self.call(&machine, c"serve", count.as_bytes())?;
        process.ready();
        self.call(&machine, c"join", b"")
    }

    fn machine_failed(&self, text: &str) -> StartError {
        let step = format!("starting Java {}", self.home.version);
        let error = StartError::new(step, text)
            .hint("the lines before this one in the log tell which option it does not take");
        match self.options.options.is_empty() {
            true => error,
            false => error.member("options"),
        }
    }

    /// Calls the Java part, which answers nothing, or with step, problem, cure and the option that is to blame.
    fn call(
        &self,
        machine: &Machine,
        method: &std::ffi::CStr,
        argument: &[u8],
    ) -> Result<(), StartError> {
        let step = format!("starting `{}`", self.webapp.path.display());
        let failure = match machine.call(method, argument) {
            Ok(None) => return Ok(()),
            Ok(Some(failure)) => failure,
            Err(text) => return Err(StartError::new(step, text)),
        };
        let failure = String::from_utf8_lossy(&failure).into_owned();
        let mut parts = failure.split('\0');
        let message = parts.next().unwrap_or_default();
        let error = StartError::new(step, message);
        let error = match parts.next().filter(|hint| !hint.is_empty()) {
            Some(hint) => error.hint(hint),
            None => error,
        };
        Err(error.member(parts.next().unwrap_or("webapp")))
    }

    /// The options of the virtual machine: ours first, so that the application's win.
    fn arguments(&self) -> Result<Vec<CString>, StartError> {
        let mut class_path = b"-Djava.class.path=".to_vec();
        class_path.extend(joined(&self.class_path, b':'));
        let mut all = vec![class_path];
        // Signals are the server's; so are the counters that a virtual machine keeps in a file for tools.
        for fixed in [
            "-Xrs",
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
            "-Xshare:auto",
        ] {
            all.push(fixed.into());
        }
        if let Some(archive) = jars::archive(self.webapp.servlet, &self.home) {
            let mut option = b"-XX:SharedArchiveFile=".to_vec();
            option.extend(archive.as_os_str().as_bytes());
            all.push(option);
        }
        if let Some(memory) = self.memory {
            // Half for the heap: classes, compiled code, stacks and buffers are beside it.
            all.push(format!("-XX:MaxRAM={memory}").into());
            all.push("-XX:MaxRAMPercentage=50".into());
        }
        all.extend(with_values(&self.options.options));
        all.into_iter()
            .map(|option| {
                CString::new(option).map_err(|_| {
                    StartError::new("configuration", "an option contains a NUL byte")
                        .member("options")
                })
            })
            .collect()
    }

    /// The settings as the Java part reads them (`Settings.java`): a name, `=` and a value each, with NUL between.
    fn settings(&self) -> Vec<u8> {
        let generation = match self.webapp.servlet {
            Servlet::Javax4 => "ee8",
            Servlet::Jakarta5 => "ee9",
            Servlet::Jakarta6 => "ee10",
            Servlet::Jakarta61 => "ee11",
        };
        let stack = self.options.threads.thread_stack_size.unwrap_or_default();
        let folder = self.folder.path().join(std::process::id().to_string());
        let members: BTreeMap<&str, Vec<u8>> = [
            ("webapp", bytes(&self.webapp.path)),
            ("generation", generation.into()),
            ("folder", bytes(&folder)),
            ("classpath", joined(&self.libraries, b'\n')),
            ("stack", stack.to_string().into()),
            ("virtual", self.options.virtual_threads.to_string().into()),
            (
                "parameters",
                self.options.path_parameters.to_string().into(),
            ),
        ]
        .into();
        let parts: Vec<_> = members
            .into_iter()
            .map(|(name, value)| [name.as_bytes(), b"=", &value].concat())
            .collect();
        parts.join(&0)
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn joined(paths: &[PathBuf], separator: u8) -> Vec<u8> {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.as_os_str().as_bytes())
        .collect();
    paths.join(&separator)
}

/// Refuses options that are no virtual machine's, which says no more of them than that it does not know them.
fn check(options: &[String]) -> Result<(), StartError> {
    for (index, option) in options.iter().enumerate() {
        let name = option.split('=').next().unwrap_or_default();
        let found = NOT_FOR_A_MACHINE.iter().find(|(not, _)| *not == name);
        if let Some((_, instead)) = found {
            let message = format!("`{option}` is an option of the `java` program");
            return Err(StartError::new("reading the options", message)
                .member(format!("options/{index}"))
                .hint(*instead));
        }
    }
    Ok(())
}

/// The options with their values joined to them.
fn with_values(options: &[String]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut takes_next = false;
    for option in options {
        match all.last_mut().filter(|_| takes_next) {
            Some(last) => {
                last.push(b'=');
                last.extend(option.as_bytes());
                takes_next = false;
            }
            None => {
                takes_next = WITH_A_VALUE.contains(&option.as_str());
                all.push(option.clone().into_bytes());
            }
        }
    }
    all
}

/// The libraries: each as it is, and the .jar files in it if it is a folder.
fn libraries(class_path: &[PathBuf]) -> Result<Vec<PathBuf>, StartError> {
    let mut all = Vec::new();
    for (index, given) in class_path.iter().enumerate() {
        let failed = |error: std::io::Error| {
            StartError::new(
                format!("looking for the library `{}`", given.display()),
                error,
            )
            .member(format!("classpath/{index}"))
            .hint("a relative path starts at `working_directory`")
        };
        let path = std::path::absolute(given).map_err(failed)?;
        all.push(path.clone());
        if std::fs::metadata(&path).map_err(failed)?.is_dir() {
            let entries = std::fs::read_dir(&path).map_err(failed)?;
            let mut jars: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            jars.retain(|jar| jar.extension().is_some_and(|ending| ending == "jar"));
            jars.sort();
            all.extend(jars);
        }
    }
    Ok(all)
}

/// Without a locale Java takes names of files, and before Java 18 their contents too, for ASCII.
fn set_locale() -> Result<(), StartError> {
    let is_told = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if LOCALES.iter().any(is_told) {
        return Ok(());
    }
    tutti_sys::fork::set_variable("LC_ALL", "C.UTF-8")
        .map_err(|error| StartError::new("setting the locale", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(options: &[&str]) -> Vec<String> {
        options.iter().map(|&option| option.to_owned()).collect()
    }

    #[test]
    fn options_may_be_written_as_for_the_java_program() {
        let options = texts(&[
            "--add-opens",
            "a/b=ALL-UNNAMED",
            "-Xmx1g",
            "--add-modules=c",
        ]);
        let joined: Vec<_> = with_values(&options)
            .into_iter()
            .map(|option| String::from_utf8(option).unwrap())
            .collect();
        assert_eq!(
            joined,
            ["--add-opens=a/b=ALL-UNNAMED", "-Xmx1g", "--add-modules=c"]
        );
    }

    #[test]
    fn options_of_the_java_program_are_refused_with_what_stands_for_them() {
        let error = check(&texts(&["-Xmx1g", "-jar"])).unwrap_err();
        assert_eq!(error.member.as_deref(), Some("options/1"));
        assert!(error.hint.unwrap().contains("external"));
        assert!(check(&texts(&["-Da=-cp", "-ea"])).is_ok());
    }

    #[test]
    fn folders_of_libraries_are_searched_for_jars() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.jar", "a.jar", "c.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = libraries(&[folder.path().into()]).unwrap();
        let names = ["", "a.jar", "b.jar"].map(|name| folder.path().join(name));
        assert_eq!(found.len(), 3);
        assert!(
            found
                .iter()
                .zip(&names)
                .all(|(one, other)| one.components().eq(other.components()))
        );
        let error = libraries(&[folder.path().join("none")]).unwrap_err();
        assert_eq!(error.member.as_deref(), Some("classpath/0"));
    }
}
