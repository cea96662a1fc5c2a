//! The notation of a syslog server for options and flags: nginx's `syslog:server=ADDRESS,facility=…,severity=…,tag=…`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Prefix of a log destination that is a syslog server.
pub const PREFIX: &str = "syslog:";

/// The socket of the machine's own syslog server (syslog(3)).
const LOCAL: &str = "/dev/log";

/// RFC 5426 §3.3.
const PORT: u16 = 514;

/// RFC 5424 §6.2.5 has room for 48 characters in APP-NAME, RFC 3164 §4.1.3 for 32 in TAG.
const LONGEST_TAG: usize = 32;

/// RFC 5424 §6.2.1, in numerical order. The four without a name in syslog(3) are left out.
const FACILITIES: [(&str, u8); 20] = [
    ("kern", 0),
    ("user", 1),
    ("mail", 2),
    ("daemon", 3),
    ("auth", 4),
    ("syslog", 5),
    ("lpr", 6),
    ("news", 7),
    ("uucp", 8),
    ("cron", 9),
    ("authpriv", 10),
    ("ftp", 11),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

/// RFC 5424 §6.2.1, in numerical order; with the second name of a severity if it is in use.
const SEVERITIES: [(&str, u8); 11] = [
    ("emerg", 0),
    ("alert", 1),
    ("crit", 2),
    ("err", 3),
    ("error", 3),
    ("warn", 4),
    ("warning", 4),
    ("notice", 5),
    ("info", 6),
    ("debug", 7),
    ("panic", 0),
];

/// A syslog server, and the constant parts of its messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyslogTarget {
    /// Its address.
    pub server: SyslogServer,
    /// Number of the facility.
    pub facility: u8,
    /// Number of the default severity; lines that have a level of their own keep it.
    pub severity: u8,
    /// The program's name in messages.
    pub tag: String,
    /// The form of a message.
    pub format: SyslogFormat,
}

/// The socket of a syslog server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyslogServer {
    /// A datagram socket in the file system.
    Path(PathBuf),
    /// UDP.
    Inet(SocketAddr),
}

/// The form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyslogFormat {
    /// As syslog(3) writes to its socket: RFC 3164 without a host.
    Local,
    /// The older one, of nginx.
    Rfc3164,
    /// The standard.
    Rfc5424,
}

/// A mistake in the notation, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogError {
    /// Says what is wrong.
    pub message: String,
    /// Says what to write.
    pub hint: Option<String>,
}

impl fmt::Display for SyslogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SyslogError {}

impl SyslogTarget {
    /// Parses a log destination; `None` if it is a file and no syslog server.
    pub fn parse(place: &str) -> Option<Result<SyslogTarget, SyslogError>> {
        place.strip_prefix(PREFIX).map(parse)
    }
}

impl fmt::Display for SyslogServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyslogServer::Path(path) => write!(f, "unix:{}", path.display()),
            SyslogServer::Inet(address) => address.fmt(f),
        }
    }
}

fn parse(parameters: &str) -> Result<SyslogTarget, SyslogError> {
    let mut server = SyslogServer::Path(LOCAL.into());
    let (mut facility, mut severity) = (23, 6);
    let mut tag = "tutti".to_owned();
    let mut format = None;
    for parameter in parameters.split(',').filter(|one| !one.is_empty()) {
        let Some((name, value)) = parameter.split_once('=') else {
            return wrong(
                format!("`{parameter}` has no value"),
                "write `server=unix:/dev/log`, `facility=local7`",
            );
        };
        match name {
            "server" => server = server_of(value)?,
            "facility" => facility = word(name, value, &FACILITIES)?,
            "severity" => severity = word(name, value, &SEVERITIES)?,
            "tag" => tag = tag_of(value)?,
            "format" => {
                format = Some(match value {
                    "rfc3164" => SyslogFormat::Rfc3164,
                    "rfc5424" => SyslogFormat::Rfc5424,
                    _ => {
                        return wrong(
                            format!("there is no format `{value}`"),
                            "write `rfc3164` or `rfc5424`",
                        );
                    }
                });
            }
            _ => {
                let known = "there are `server`, `facility`, `severity`, `tag` and `format`";
                return wrong(format!("unknown parameter `{name}`"), known);
            }
        }
    }
    let usual = match server {
        SyslogServer::Path(_) => SyslogFormat::Local,
        SyslogServer::Inet(_) => SyslogFormat::Rfc5424,
    };
    Ok(SyslogTarget {
        server,
        facility,
        severity,
        tag,
        format: format.unwrap_or(usual),
    })
}

fn wrong<T>(message: String, hint: &str) -> Result<T, SyslogError> {
    Err(SyslogError {
        message,
        hint: Some(hint.to_owned()),
    })
}

fn server_of(value: &str) -> Result<SyslogServer, SyslogError> {
    if let Some(path) = value.strip_prefix("unix:") {
        if !path.starts_with('/') || path.contains('\0') {
            return wrong(
                format!("`{path}` is not an absolute path"),
                "write `server=unix:/dev/log`",
            );
        }
        return Ok(SyslogServer::Path(path.into()));
    }
    let address = value
        .parse::<SocketAddr>()
        .or_else(|_| {
            let ip = value.trim_start_matches('[').trim_end_matches(']');
            ip.parse::<IpAddr>().map(|ip| SocketAddr::from((ip, PORT)))
        })
        .ok()
        .filter(|address| address.port() != 0);
    match address {
        Some(address) => Ok(SyslogServer::Inet(address)),
        // Logging must not wait for name lookups.
        None => wrong(
            format!("`{value}` is not an address"),
            "write `unix:/dev/log`, `192.0.2.1`, `192.0.2.1:514` or `[2001:db8::1]:514`; names are not looked up",
        ),
    }
}

fn word(name: &str, value: &str, known: &[(&str, u8)]) -> Result<u8, SyslogError> {
    let found = known.iter().find(|(word, _)| *word == value);
    match found {
        Some((_, number)) => Ok(*number),
        None => {
            let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
            wrong(
                format!("there is no {name} `{value}`"),
                &format!("there are {}", words.join(", ")),
            )
        }
    }
}

fn tag_of(value: &str) -> Result<String, SyslogError> {
    let is_of_tag = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if (1..=LONGEST_TAG).contains(&value.len()) && value.bytes().all(is_of_tag) {
        return Ok(value.to_owned());
    }
    wrong(
        format!("`{value}` is not a valid tag"),
        "a tag has 1 to 32 letters, digits, `_`, `-` and `.`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> SyslogTarget {
        SyslogTarget::parse(text).unwrap().unwrap()
    }

    #[test]
    fn the_machines_own_server_is_meant_where_none_is_named() {
        assert_eq!(SyslogTarget::parse("/var/log/syslog:x"), None);
        let target = parsed("syslog:");
        assert_eq!(target.server, SyslogServer::Path("/dev/log".into()));
        assert_eq!((target.facility, target.severity), (23, 6));
        assert_eq!(
            (target.tag.as_str(), target.format),
            ("tutti", SyslogFormat::Local)
        );
    }

    #[test]
    fn nginxs_notation_is_understood() {
        let target =
            parsed("syslog:server=[2001:db8::1]:12345,facility=daemon,tag=site,severity=warn");
        let address = "[2001:db8::1]:12345".parse().unwrap();
        assert_eq!(target.server, SyslogServer::Inet(address));
        assert_eq!((target.facility, target.severity), (3, 4));
        assert_eq!(
            (target.tag.as_str(), target.format),
            ("site", SyslogFormat::Rfc5424)
        );
        let target = parsed("syslog:server=192.0.2.1,format=rfc3164");
        assert_eq!(
            target.server,
            SyslogServer::Inet("192.0.2.1:514".parse().unwrap())
        );
        assert_eq!(target.format, SyslogFormat::Rfc3164);
        let ip = SyslogServer::Inet("[::1]:514".parse().unwrap());
        assert_eq!(parsed("syslog:server=::1").server, ip);
    }

    #[test]
    fn a_mistake_is_named_with_its_cure() {
        for (text, part) in [
            ("syslog:server=logs.example", "names are not looked up"),
            ("syslog:server=unix:log", "not an absolute path"),
            ("syslog:server=127.0.0.1:0", "not an address"),
            ("syslog:facility=local9", "local7"),
            ("syslog:severity=fatal", "crit"),
            ("syslog:tag=a b", "not a valid tag"),
            ("syslog:tag=", "not a valid tag"),
            ("syslog:format=json", "rfc5424"),
            ("syslog:srever=1", "unknown parameter `srever`"),
            ("syslog:nohostname", "has no value"),
        ] {
            let error = SyslogTarget::parse(text).unwrap().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
