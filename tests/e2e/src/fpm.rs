//! PHP-FPM on a temporary folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tutti_sys::credentials::is_root;
use tutti_testkit::wait_until;

/// Debian names it by its version: `php-fpm8.2`. The newest is taken.
fn program() -> Option<PathBuf> {
    let names = fs::read_dir("/usr/sbin").ok()?.filter_map(Result::ok);
    let programs = names.map(|entry| entry.path()).filter(|path| {
        path.file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"php-fpm"))
    });
    programs.max()
}

/// A running PHP-FPM. Dropping it ends it.
pub struct Fpm {
    folder: tempfile::TempDir,
    ini: PathBuf,
    children: u32,
    child: Child,
}

impl Fpm {
    /// True if it is installed.
    pub fn is_installed() -> bool {
        program().is_some()
    }

    /// Starts it with `ini` as php.ini and so many children.
    pub fn start(ini: &Path, children: u32) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("tutti-fpm-")
            .tempdir()
            .expect("a folder");
        fs::set_permissions(
            folder.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .expect("its mode");
        let child = spawn(folder.path(), ini, children);
        let fpm = Self {
            folder,
            ini: ini.to_owned(),
            children,
            child,
        };
        fpm.wait_for_socket();
        fpm
    }

    fn wait_for_socket(&self) {
        let socket = self.socket();
        wait_until("PHP-FPM to listen", || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("fpm.sock")
    }

    /// Its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("fpm.log")).unwrap_or_default()
    }

    /// Replaces its children when they have finished, as `systemctl reload` does.
    pub fn reload(&self) {
        self.signal(libc::SIGUSR2);
    }

    /// Ends it, and starts it again.
    pub fn restart(&mut self) {
        self.end();
        self.child = spawn(self.folder.path(), &self.ini, self.children);
        self.wait_for_socket();
    }

    /// Ends it.
    pub fn end(&mut self) {
        self.signal(libc::SIGTERM);
        let _ = self.child.wait();
        let _ = fs::remove_file(self.socket());
    }

    fn signal(&self, signal: i32) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // It ends its own children.
            let _ = tutti_sys::signal::send(pid, signal);
        }
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(folder: &Path, ini: &Path, children: u32) -> Child {
    let user = if is_root() {
        "user = nobody\ngroup = nogroup\n"
    } else {
        ""
    };
    let shown = folder.display();
    let configuration = format!(
        "[global]\nerror_log = {shown}/fpm.log\npid = {shown}/fpm.pid\ndaemonize = no\nprocess_control_timeout = 30\n\
         [www]\n{user}listen = {shown}/fpm.sock\nlisten.mode = 0666\npm = static\npm.max_children = {children}\n\
         catch_workers_output = yes\nping.path = /ping\n"
    );
    let path = folder.join("fpm.conf");
    fs::write(&path, configuration).expect("a file");
    let output = fs::File::create(folder.join("output.log")).expect("a file");
    Command::new(program().expect("PHP-FPM is installed"))
        .arg("-F")
        .arg("-y")
        .arg(&path)
        .arg("-c")
        .arg(ini)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .expect("PHP-FPM starts")
}
