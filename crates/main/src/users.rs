//! The users of the server's processes.

use std::io;

use tutti_log::{Level, Log};
use tutti_sys::credentials::{self, Credentials};

use super::flags::Flags;

/// Returns the user of applications without `user`; `None` if the server was not started by root.
pub(super) fn default_credentials(flags: &Flags, log: &Log) -> io::Result<Option<Credentials>> {
    if credentials::is_root() {
        let user = default_user(flags, |name| credentials::user_number(name).is_ok());
        return credentials::lookup(user, flags.group.as_deref()).map(Some);
    }
    if flags.user.is_some() || flags.group.is_some() || flags.router_user.is_some() {
        log.line(
            Level::Warn,
            "not started by root: `--user`, `--group` and `--router-user` have no effect",
        );
    }
    Ok(None)
}

fn default_user(flags: &Flags, exists: impl Fn(&str) -> bool) -> &str {
    match &flags.user {
        Some(user) => user,
        // Images for Unit give it the files that applications write to.
        None if flags.as_unit && exists(UNIT_USER) => UNIT_USER,
        None => NOBODY,
    }
}

/// The user that packages and images of NGINX Unit create for applications.
const UNIT_USER: &str = "unit";

/// The user that packages create for controller and router.
const OWN_USER: &str = "tutti";

/// Their user if that one does not exist.
const NOBODY: &str = "nobody";

/// Returns the user of controller and router: a separate one, so that no application can signal, stop or trace them.
pub(super) fn own_credentials(flags: &Flags, log: &Log) -> io::Result<Option<Credentials>> {
    if !credentials::is_root() {
        return Ok(None);
    }
    if let Some(user) = &flags.router_user {
        return credentials::lookup(user, None).map(Some);
    }
    match credentials::lookup(OWN_USER, None) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            log.line(
                Level::Warn,
                "there is no user `tutti`: controller and router run as `nobody`, and applications of that user can signal and stop \
                 them; create it with `useradd --system --no-create-home --shell /usr/sbin/nologin tutti`, or name another with `--router-user`",
            );
            credentials::lookup(NOBODY, None).map(Some)
        }
        found => found.map(Some),
    }
}

/// Returns the user of the process that checks the configuration in the trial of an upgrade: the trial does not know
/// `--router-user`, and any unprivileged user will do.
pub(super) fn without_rights() -> io::Result<Credentials> {
    credentials::lookup(OWN_USER, None).or_else(|_| credentials::lookup(NOBODY, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 28: applications could not write files that images give to Unit's user.
    #[test]
    fn under_units_name_applications_are_units_user_where_it_exists() {
        let unit = Flags {
            as_unit: true,
            ..Flags::default()
        };
        let exists = |name: &str| name == "unit";
        assert_eq!(default_user(&unit, exists), "unit");
        assert_eq!(default_user(&unit, |_| false), "nobody");
        assert_eq!(default_user(&Flags::default(), exists), "nobody");
        let given = Flags {
            user: Some("www-data".to_owned()),
            ..unit
        };
        assert_eq!(default_user(&given, exists), "www-data");
    }
}
