//! Reads certificate files, which only their owner and root may be able to read.
//!
//! Called for the controller, which knows the files of the configuration and parses their content. Only PEM blocks
//! leave this process: a path to another kind of file reveals nothing.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tutti_log::{Level, Log};
use tutti_sys::error::context;
use tutti_sys::exposed;
use tutti_sys::file_mark::FileMark;
use tutti_sys::path_snapshot::PathSnapshot;

/// More than the size of any chain or key.
const MOST_BYTES: u64 = 1 << 20;

/// Attempts to read a certificate and its key while they are being replaced.
const ATTEMPTS: usize = 10;

/// The beginning of every PEM block.
const BEGIN: &str = "-----BEGIN ";

/// Ends the first line of every key in PEM.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Maximum files to remember.
const MOST_KEYS: usize = 10_000;

/// The files with keys, each with its state at the last read: a file that other users can read is logged when it
/// changes, not each time it is read.
#[derive(Default)]
pub(super) struct Keys(HashMap<PathBuf, FileMark>);

impl Keys {
    fn note(&mut self, path: &Path, metadata: &Metadata, log: &Log) {
        let mark = FileMark::of(metadata);
        if self.0.get(path) == Some(&mark) {
            return;
        }
        if self.0.len() >= MOST_KEYS {
            self.0.clear();
        }
        self.0.insert(path.to_owned(), mark);
        if let Some(warning) = exposed::warning(path, metadata) {
            log.line(Level::Warn, &warning);
        }
    }
}

/// Reads a certificate file, followed by its key file. `config` is the file or folder of `--config`: paths that begin
/// with `./` are relative to it.
///
/// # Errors
/// A file cannot be read, is too large, or is not PEM.
pub(super) fn read(
    config: Option<&Path>,
    file: &Path,
    key: Option<&Path>,
    (keys, log): (&mut Keys, &Log),
) -> io::Result<String> {
    let file = absolute(config, file)?;
    let mut read_one = |moment: &mut PathSnapshot, path: &Path| {
        let (text, metadata) = read_one(moment, path)?;
        if text.contains(PRIVATE_KEY) {
            keys.note(path, &metadata, log);
        }
        Ok(text)
    };
    let Some(key) = key else {
        return read_one(&mut PathSnapshot::default(), &file);
    };
    let key = absolute(config, key)?;
    let marks = || [&file, &key].map(|path| path.metadata().ok().map(|found| FileMark::of(&found)));
    for _ in 0..ATTEMPTS {
        let before = marks();
        // A link to the folder of both may be changed, and changed back, between the two reads.
        let mut moment = PathSnapshot::default();
        let text = read_one(&mut moment, &file)
            .and_then(|text| Ok(format!("{text}\n{}", read_one(&mut moment, &key)?)));
        // Or each file is replaced separately.
        if marks() == before {
            return text;
        }
    }
    let message = format!("`{}` keeps changing while it is read", file.display());
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

fn absolute(config: Option<&Path>, path: &Path) -> io::Result<PathBuf> {
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let Some(config) = config else {
        let message = format!(
            "`{}` is relative to the files of `--config`, but the server was started without `--config`: write an absolute path",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    };
    let folder = if config.is_dir() {
        config
    } else {
        config.parent().unwrap_or(config)
    };
    Ok(folder.join(path))
}

fn read_one(moment: &mut PathSnapshot, path: &Path) -> io::Result<(String, Metadata)> {
    let named = |error| context(format!("reading `{}`", path.display()), error);
    let invalid = |what: &str| {
        let message = format!("`{}` {what}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    };
    // A FIFO without a writer would block main.
    let opened = moment
        .open(path, OFlags::NONBLOCK | OFlags::NOCTTY)
        .map_err(named)?;
    let metadata = opened.metadata().map_err(named)?;
    if !metadata.is_file() {
        return Err(invalid("is not a file"));
    }
    let mut bytes = Vec::new();
    opened
        .take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(named)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(invalid("is larger than 1 MB, which no certificate is"));
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.contains(BEGIN) => Ok((text, metadata)),
        _ => Err(invalid(
            "has no certificate or key in PEM format; `openssl x509 -inform der -in FILE` converts DER to PEM",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn read(config: Option<&Path>, file: &Path, key: Option<&Path>) -> io::Result<String> {
        let log = Log::to_stderr(&tutti_log::LogStyle::default()).unwrap();
        super::read(config, file, key, (&mut Keys::default(), &log))
    }

    #[test]
    fn only_pem_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a.pem"), "-----BEGIN CERTIFICATE-----").unwrap();
        std::fs::write(path("b.key"), "-----BEGIN PRIVATE KEY-----").unwrap();
        std::fs::write(path("shadow"), "root:secret:1").unwrap();
        std::fs::write(path("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert_eq!(
            read(None, &path("a.pem"), Some(&path("b.key"))).unwrap(),
            "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----"
        );
        for (name, reason) in [
            ("none", "none"),
            ("shadow", "no certificate"),
            ("large", "larger"),
            ("fifo", "not a file"),
            (".", "not a file"),
        ] {
            let error = read(None, &path("a.pem"), Some(&path(name))).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(reason), "{name}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    /// Issue 28, 5.5.
    #[test]
    fn a_key_that_others_can_read_is_logged_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(folder.path(), 0o755);
        std::fs::write(path("a.pem"), "-----BEGIN CERTIFICATE-----").unwrap();
        std::fs::write(path("a.key"), "-----BEGIN PRIVATE KEY-----").unwrap();
        let log = Log::to(std::fs::File::create(path("log")).unwrap().into());
        let mut keys = Keys::default();
        let mut warnings = |mode| {
            set_mode(&path("a.pem"), 0o644);
            set_mode(&path("a.key"), mode);
            for _ in 0..3 {
                let files = (path("a.pem"), path("a.key"));
                super::read(None, &files.0, Some(&files.1), (&mut keys, &log)).unwrap();
            }
            let text = std::fs::read_to_string(path("log")).unwrap();
            assert!(!text.contains("a.pem"), "{text}");
            text.matches("chmod o= ").count()
        };
        assert_eq!([0o600, 0o644].map(&mut warnings), [0, 1]);
        std::fs::write(path("a.key"), "-----BEGIN PRIVATE KEY----- 2").unwrap();
        assert_eq!([0o644, 0o640].map(&mut warnings), [2, 2]);
    }

    /// Issue 15: the kubelet replaces both files by changing one link.
    #[test]
    fn a_certificate_is_never_read_with_the_key_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for number in 0..2 {
            std::fs::create_dir(path(&format!("..{number}"))).unwrap();
            for name in ["tls.crt", "tls.key"] {
                let file = path(&format!("..{number}")).join(name);
                std::fs::write(file, format!("{BEGIN}{number}")).unwrap();
            }
        }
        let swap = |number: usize| {
            std::os::unix::fs::symlink(format!("..{number}"), path("..new")).unwrap();
            std::fs::rename(path("..new"), path("..data")).unwrap();
        };
        swap(0);
        let (file, key) = (path("..data/tls.crt"), path("..data/tls.key"));
        std::thread::scope(|scope| {
            let swapping = scope.spawn(|| (0..2).cycle().take(20_000).for_each(swap));
            while !swapping.is_finished() {
                // It may fail, because the files do change constantly.
                if let Ok(text) = read(None, &file, Some(&key)) {
                    let halves = text.split_once('\n').unwrap();
                    assert_eq!(halves.0, halves.1);
                }
            }
        });
    }

    #[test]
    fn paths_that_begin_with_a_period_are_beside_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("site.yaml");
        std::fs::write(&file, "").unwrap();
        std::fs::write(folder.path().join("a.pem"), "-----BEGIN CERTIFICATE-----").unwrap();
        for config in [folder.path(), &file] {
            read(Some(config), Path::new("./a.pem"), None).unwrap();
        }
        let error = read(None, Path::new("./a.pem"), None).unwrap_err();
        assert!(error.to_string().contains("--config"), "{error}");
    }
}
