//! `server.log` of `/status`: where to read the daemon's log.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::{Value, json};
use tutti_log::Log;

/// Returns the destination of a log. `file` is the path that main opened for it; `None` means standard error or a
/// syslog server.
pub(super) fn place(file: Option<&Path>, log: &Log) -> Value {
    if let Some(target) = &log.style().syslog {
        return json!({"syslog": target.server.to_string(), "tag": target.tag});
    }
    let stream = match file.map(|path| path.to_string_lossy()) {
        Some(path) if path == "/dev/stdout" => "stdout",
        Some(path) if path != "/dev/stderr" => return json!({"file": path}),
        _ => "stderr",
    };
    match is_journal(log) {
        true => json!({"stream": stream, "journal": unit()}),
        false => json!({"stream": stream}),
    }
}

/// True if the log goes to systemd's journal: systemd names the device and inode of the stream that it connected to it
/// (`JOURNAL_STREAM`, systemd.exec(5)).
fn is_journal(log: &Log) -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    let stream = log.descriptor().map(File::from);
    let found = stream.and_then(|stream| stream.metadata());
    found.is_ok_and(|found| named == format!("{}:{}", found.dev(), found.ino()))
}

/// Returns the systemd unit of this process, if there is one.
fn unit() -> Option<String> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let names = groups.lines().flat_map(|line| line.rsplit('/'));
    let mut units = names.filter(|name| name.ends_with(".service"));
    units.next().map(str::to_owned)
}
