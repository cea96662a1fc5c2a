//! Access to the control API according to the flags, checked before anything is bound.
//!
//! Called by main at start and before a takeover, and by the command line for its token. Must never happen: that a TCP
//! port is bound without a token, or that a token is read from a file that other users can read.

use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tutti_log::Level;
use tutti_log::Log;
use tutti_protocol::{ControlAccess, Token};
use tutti_sys::credentials;
use tutti_sys::error::context;
use tutti_sys::listen::SocketName;

use crate::flags::Flags;

/// A token is one line; a longer file is a different one, named by mistake.
const LONGEST_TOKEN: u64 = 4096;

/// Permissions of the group and of others (inode(7)).
const NOT_THE_OWNERS: u32 = 0o077;

/// Returns the access rules of the flags.
///
/// # Errors
/// A user, group or token does not exist, other users can read the token, or a TCP port has no token.
pub(crate) fn wanted(flags: &Flags, endpoint: &SocketName) -> io::Result<ControlAccess> {
    let token = flags
        .control_token
        .as_deref()
        .map(read_secret)
        .transpose()?;
    if let (SocketName::Inet(address), None) = (endpoint, &token) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "`--control {address}`: a TCP port requires a token, since otherwise every user of the machine, and any web page \
                 that one of them opens, could run code as the server through it; use `--control unix:PATH`, or keep a secret in a \
                 file that only you can read (`umask 077; openssl rand -hex 32 > FILE`) and add `--control-token FILE`"
            ),
        ));
    }
    assert!(
        token.is_some() || !matches!(endpoint, SocketName::Inet(_)),
        "a TCP port is never bound without a token"
    );
    let user = flags.control_user.as_deref().map(credentials::user_number);
    let group = flags
        .control_group
        .as_deref()
        .map(credentials::group_number);
    Ok(ControlAccess {
        users: std::iter::once(Ok(credentials::current_user()))
            .chain(user)
            .collect::<io::Result<_>>()?,
        groups: group.into_iter().collect::<io::Result<_>>()?,
        token,
    })
}

/// Logs warnings about risky settings.
pub(crate) fn warn(flags: &Flags, endpoint: &SocketName, log: &Log) {
    if let Some(address) = flags.unserved_control() {
        let text = format!(
            "`--control {address}` is not served: without a token, every user of the machine, and any web page that one of them opens, \
             could run code as the server through it; the control API is at `{endpoint}`; hint: name a socket, `--control unix:PATH`, or \
             keep a secret in a file and add `--control-token FILE`"
        );
        log.line(Level::Warn, &text);
    }
    if let SocketName::Inet(address) = endpoint {
        let clear = if address.ip().is_loopback() {
            "a unix socket needs no secret"
        } else {
            "it is not encrypted: anyone who sees the packets can read the token; a TLS proxy or an SSH tunnel to a unix socket is safer"
        };
        log.line(
            Level::Warn,
            &format!(
                "the control API is on the TCP port {address}: anyone with its token can run code as this server; {clear}"
            ),
        );
    }
}

/// Reads the token in a file that belongs to this user or to root, and that no other user can read: the control API's,
/// or the dashboard's.
pub(crate) fn read_secret(path: &Path) -> io::Result<Token> {
    let (about, token) = open(path)?;
    if !is_secret(&about) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "the token in `{}` is not secret: other users can read or change it; `chown root` and `chmod 600` it, and write a new \
                 token to it",
                path.display()
            ),
        ));
    }
    Ok(token)
}

/// True if a file belongs to this user or to root, and no other user can read or change it.
pub(super) fn is_secret(about: &Metadata) -> bool {
    let is_ours = about.uid() == 0 || about.uid() == credentials::current_user();
    is_ours && about.mode() & NOT_THE_OWNERS == 0
}

/// Reads the token in a file.
///
/// # Errors
/// The file cannot be read, or contains no token.
pub fn read_token(path: &Path) -> io::Result<Token> {
    open(path).map(|(_, token)| token)
}

fn open(path: &Path) -> io::Result<(Metadata, Token)> {
    let named = |e: io::Error| {
        let is_missing = e.kind() == io::ErrorKind::NotFound;
        let error = context(format!("reading the token in `{}`", path.display()), e);
        if !is_missing {
            return error;
        }
        let cure = format!("(umask 077; openssl rand -hex 32 > {})", path.display());
        io::Error::new(error.kind(), format!("{error}; create it with `{cure}`"))
    };
    let (file, about) = tutti_sys::file::open_ordinary(path).map_err(named)?;
    let mut text = String::new();
    file.take(LONGEST_TOKEN)
        .read_to_string(&mut text)
        .map_err(named)?;
    let token = Token::read(&text)
        .map_err(|reason| named(io::Error::new(io::ErrorKind::InvalidData, reason)))?;
    Ok((about, token))
}
