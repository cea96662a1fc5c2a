//! Messages for a syslog server, according to RFC 5424, RFC 3164 or syslog(3), up to the line itself.
//!
//! Formatted here and not by a library: the existing ones own their socket, wait for it, and query the time and host
//! name for each message.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tutti_options::syslog::{SyslogFormat, SyslogServer, SyslogTarget};
use tutti_sys::datagrams::{self, Recipient};
use tutti_sys::log_stream::{Later, LogStream, LossCount, LossLine};
use tutti_sys::{process, time};

/// The constant beginning of messages to one server.
#[derive(Clone, Debug)]
pub struct Syslog {
    target: SyslogTarget,
    host: String,
    process: i32,
}

impl Syslog {
    /// Creates it for messages of this process.
    pub fn new(target: &SyslogTarget) -> Syslog {
        // proc_sys_kernel(5).
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        // RFC 5424 §6.2.4: printable ASCII, or `-` if unknown.
        let is_named = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
        Syslog {
            target: target.clone(),
            host: if is_named {
                host.to_owned()
            } else {
                "-".to_owned()
            },
            process: process::id(),
        }
    }

    /// Appends the beginning of a message of this severity (RFC 5424 §6.2.1), or of the configured one. The line and
    /// its end follow.
    pub fn begin(&self, severity: Option<u8>, out: &mut Vec<u8>) {
        let SyslogTarget { tag, format, .. } = &self.target;
        let severity = severity.unwrap_or(self.target.severity);
        let priority = u32::from(self.target.facility) * 8 + u32::from(severity);
        let (at, milliseconds) = time::now();
        let (host, process) = (&self.host, self.process);
        let older = |out: &mut Vec<u8>| {
            let (month, day) = (at.month_name(), at.day);
            let (hour, minute, second) = (at.hour, at.minute, at.second);
            write!(
                out,
                "<{priority}>{month} {day:2} {hour:02}:{minute:02}:{second:02} "
            )
        };
        // Writing to a vector cannot fail.
        let _ = match format {
            SyslogFormat::Local => older(out).and_then(|()| write!(out, "{tag}[{process}]: ")),
            SyslogFormat::Rfc3164 => {
                older(out).and_then(|()| write!(out, "{host} {tag}[{process}]: "))
            }
            SyslogFormat::Rfc5424 => {
                let at = at.rfc3339(milliseconds);
                write!(out, "<{priority}>1 {at} {host} {tag} {process} - - ")
            }
        };
    }
}

fn recipient(target: &SyslogTarget) -> Recipient {
    match &target.server {
        SyslogServer::Path(path) => Recipient::Path(path.clone()),
        SyslogServer::Inet(address) => Recipient::Inet(*address),
    }
}

/// Creates a log whose lines are messages to `target`, which need not exist.
pub fn stream(
    target: &SyslogTarget,
    later: Later,
    loss_line: Option<LossLine>,
    lost: Arc<LossCount>,
) -> io::Result<Arc<LogStream>> {
    let recipient = recipient(target);
    let socket = datagrams::socket(&recipient)?;
    Ok(LogStream::datagrams(
        socket, recipient, later, loss_line, lost,
    ))
}

/// Creates it with a socket that another process has made.
pub(crate) fn stream_of(
    socket: OwnedFd,
    target: &SyslogTarget,
    later: Later,
    loss_line: Option<LossLine>,
    lost: Arc<LossCount>,
) -> Arc<LogStream> {
    LogStream::datagrams(socket, recipient(target), later, loss_line, lost)
}

/// Creates a socket for messages to `target`.
pub fn socket(target: &SyslogTarget) -> io::Result<OwnedFd> {
    datagrams::socket(&recipient(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(place: &str, severity: Option<u8>) -> String {
        let target = SyslogTarget::parse(place).unwrap().unwrap();
        let mut out = Vec::new();
        Syslog::new(&target).begin(severity, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_message_begins_as_its_format_has_it() {
        let pid = process::id();
        // local7 is 23, info 6; daemon is 3, err 3.
        let local = begun("syslog:", None);
        assert!(local.starts_with("<190>") && local.ends_with(&format!(" tutti[{pid}]: ")));
        assert_eq!(local.split_whitespace().count(), 4, "{local}");
        let older = begun("syslog:server=127.0.0.1,format=rfc3164,tag=x", None);
        assert_eq!(older.split_whitespace().count(), 5, "{older}");
        let newer = begun("syslog:server=127.0.0.1,facility=daemon", Some(3));
        assert!(newer.starts_with("<27>1 2"), "{newer}");
        assert!(newer.ends_with(&format!(" tutti {pid} - - ")), "{newer}");
        let at = newer.split(' ').nth(1).unwrap();
        assert_eq!(
            (at.len(), at.as_bytes()[10], at.as_bytes()[19]),
            (29, b'T', b'.'),
            "{at}"
        );
    }
}
