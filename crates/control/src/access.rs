//! Access to the control API: the checks before a request is processed.
//!
//! The mode of a socket's file keeps other users out. An abstract socket has no mode, so the kernel is asked for the
//! user at the other end. A TCP connection has no user, so each of its requests must carry a token. Users with access
//! may also run a browser, which web pages must not abuse: requests from web pages are rejected. Called by the listener
//! for each connection, and by the connection for each request. Must never happen: a request that is processed before
//! all checks have passed.

use std::net::IpAddr;
use std::os::fd::AsFd;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, ORIGIN, REFERER};
use http::request::Parts;
use http::{HeaderValue, Method};
use tokio::net::UnixStream;
use tutti_http::{media_type, split_port};
use tutti_protocol::{ControlAccess, ROUTER_TITLE};
use tutti_sys::{proc, process};

use crate::api_response::ApiResponse;

/// Checks the user at the other end of an abstract socket.
pub(crate) fn check_peer(
    access: &ControlAccess,
    stream: &UnixStream,
    peer: &str,
) -> Result<(), ApiResponse> {
    let is_allowed = stream.peer_cred().is_ok_and(|credentials| {
        let is_member = || {
            let others = tutti_sys::credentials::peer_groups(stream.as_fd()).unwrap_or_default();
            std::iter::once(credentials.gid())
                .chain(others)
                .any(|group| access.groups.contains(&group))
        };
        credentials.uid() == 0 || access.users.contains(&credentials.uid()) || is_member()
    });
    if is_allowed {
        return Ok(());
    }
    Err(ApiResponse::error(
        403,
        "Forbidden.",
        Some(&format!(
            "Over an abstract socket the API answers root, the user that started the server, and those of --control-user \
             and --control-group; this is {peer}."
        )),
    ))
}

/// True for a router of this server: a child of main, like this process, with the router's name. Its requests come from
/// clients that a `proxy` let through.
pub(crate) fn is_router(stream: &UnixStream) -> bool {
    let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let is_ours = |pid: i32| {
        let is_sibling = proc::stat(pid).is_ok_and(|stat| stat.parent == process::parent());
        is_sibling && proc::command_line(pid).is_ok_and(|title| title == ROUTER_TITLE)
    };
    peer.is_some_and(is_ours)
}

/// Checks the origin of a request.
pub(crate) fn check(access: &ControlAccess, head: &Parts, host: &[u8]) -> Result<(), ApiResponse> {
    check_token(access, head)?;
    check_host(host)?;
    check_browser(head, host)
}

/// Returns the values of a field, line by line.
fn lines(head: &Parts, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    head.headers
        .get_all(name)
        .into_iter()
        .map(HeaderValue::as_bytes)
}

/// Checks the token of the request.
pub(crate) fn check_token(access: &ControlAccess, head: &Parts) -> Result<(), ApiResponse> {
    let Some(token) = &access.token else {
        return Ok(());
    };
    let mut shown = lines(head, AUTHORIZATION);
    let is_right = shown.next().is_some_and(|field| token.is_shown_by(field));
    if is_right && shown.next().is_none() {
        return Ok(());
    }
    let mut answer = ApiResponse::error(
        401,
        "Unauthorized.",
        Some("Send the token of the server's --control-token as `Authorization: Bearer TOKEN`."),
    );
    answer.authenticate = Some("Bearer");
    Err(answer)
}

/// A foreign web page can make its host name resolve to this machine (DNS rebinding); its requests then have that name
/// in `Host`. Names that such a site cannot have are accepted: addresses, `localhost`, a single label (`unit`), and the
/// path of a unix socket as clients encode it (`%2Frun%2Fcontrol.sock`; no browser sends `%` there).
fn check_host(host: &[u8]) -> Result<(), ApiResponse> {
    if is_own_host(host) {
        return Ok(());
    }
    Err(ApiResponse::error(
        403,
        "Forbidden.",
        Some(&format!(
            "`{}` is not a name of the control API; send an IP address or `localhost` as `Host`.",
            String::from_utf8_lossy(host)
        )),
    ))
}

/// True for a `Host` that no foreign site can have: an address, `localhost`, a single label.
pub fn is_own_host(authority: &[u8]) -> bool {
    let (host, _port) = split_port(authority);
    let Ok(host) = std::str::from_utf8(host) else {
        return false;
    };
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    !name.contains('.')
        || name.contains('%')
        || name.ends_with(".localhost")
        || address.parse::<IpAddr>().is_ok()
}

/// Browsers declare where a request comes from; cross-site requests are rejected (Fetch Metadata, RFC 6454).
fn check_browser(head: &Parts, host: &[u8]) -> Result<(), ApiResponse> {
    let foreign = |field: &str, value: &[u8]| {
        Err(ApiResponse::error(
            403,
            "Forbidden.",
            Some(&format!(
                "A web page must not use the control API: `{field}: {}`.",
                String::from_utf8_lossy(value)
            )),
        ))
    };
    for site in lines(head, HeaderName::from_static("sec-fetch-site")) {
        if !matches!(site, b"same-origin" | b"none") {
            return foreign("Sec-Fetch-Site", site);
        }
    }
    let mut has_origin = false;
    for origin in lines(head, ORIGIN) {
        has_origin = true;
        if !is_same_authority(origin, host) {
            return foreign("Origin", origin);
        }
    }
    // Browsers older than these fields still send the page that contains a form.
    for referer in lines(head, REFERER) {
        if !has_origin && !is_page_of(referer, host) {
            return foreign("Referer", referer);
        }
    }
    check_media_type(head)
}

/// True if an origin, which has no path, is that of `host`.
pub fn is_same_authority(origin: &[u8], host: &[u8]) -> bool {
    behind_scheme(origin).is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// True if a page belongs to `host`.
fn is_page_of(url: &[u8], host: &[u8]) -> bool {
    let mut parts = behind_scheme(url)
        .into_iter()
        .flat_map(|rest| rest.split(|byte| matches!(byte, b'/' | b'?' | b'#')));
    parts
        .next()
        .is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

fn behind_scheme(url: &[u8]) -> Option<&[u8]> {
    url.strip_prefix(b"http://")
        .or_else(|| url.strip_prefix(b"https://"))
}

/// Refuses two of the media types that a page may POST to another site without a preflight; no tool of ours sends
/// them. The third, `application/x-www-form-urlencoded`, is the default of `curl --data-binary`, and is accepted.
fn check_media_type(head: &Parts) -> Result<(), ApiResponse> {
    if head.method != Method::POST {
        return Ok(());
    }
    for value in lines(head, CONTENT_TYPE) {
        let name = media_type(value);
        if name.eq_ignore_ascii_case(b"text/plain")
            || name.eq_ignore_ascii_case(b"multipart/form-data")
        {
            return Err(ApiResponse::error(
                415,
                "Unsupported media type.",
                Some(
                    "Web pages can send such a body without permission; send `Content-Type: application/json`.",
                ),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_no_strange_site_can_have_are_our_own() {
        for host in [
            "",
            "localhost",
            "LOCALHOST:8443",
            "localhost.",
            "unit",
            "127.0.0.1:80",
            "[::1]:8443",
            "203.0.113.9",
            "app.localhost",
            "%2Frun%2Fcontrol.unit.sock",
            "2f746d702f78:0",
        ] {
            assert!(is_own_host(host.as_bytes()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8443",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "1.2.3",
        ] {
            assert!(!is_own_host(host.as_bytes()), "{host}");
        }
    }
}
