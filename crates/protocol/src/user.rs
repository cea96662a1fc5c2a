//! The user of a process that main starts for itself, passed in the environment.

use std::ffi::OsString;

use tutti_sys::credentials::Credentials;

/// The numbers of the user and groups to become; absent if the server was not started by root.
pub const BECOME: &str = "TUTTI_BECOME";

/// The value of [`BECOME`].
pub fn written_user(credentials: &Credentials) -> String {
    let groups: Vec<String> = credentials.groups.iter().map(u32::to_string).collect();
    format!(
        "{}:{}:{}",
        credentials.uid,
        credentials.gid,
        groups.join(",")
    )
}

/// Parses such a value; `None` if it is malformed.
pub fn read_user(text: &OsString) -> Option<Credentials> {
    let mut parts = text.to_str()?.split(':');
    let (uid, gid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let groups = parts.next()?.split(',').filter(|group| !group.is_empty());
    let groups = groups.map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(Credentials { uid, gid, groups })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_arrive_as_they_were_written() {
        for groups in [vec![], vec![7, 65534]] {
            let credentials = Credentials {
                uid: 3,
                gid: 4,
                groups,
            };
            assert_eq!(
                read_user(&written_user(&credentials).into()),
                Some(credentials)
            );
        }
        for text in ["", "3", "3:4", "root:root:", "3:4:x", "-1:0:"] {
            assert_eq!(read_user(&text.into()), None, "{text}");
        }
    }
}
