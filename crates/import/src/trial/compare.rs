//! The differences of two answers.
//!
//! What differs between any two servers is not a difference: the list is [`NEVER_COMPARED`], with the reasons in `docs/start/import.md`.
//! What the old server answers differently each time cannot be compared, which the caller finds out by asking it twice.

use std::collections::BTreeSet;

use tutti_http::{parse_date, write_error_page};

use super::ask::Answer;
use super::requests::{Request, resolved};
use super::sites::Site;

/// Fields that any two servers write differently, or that belong to one connection.
pub(super) const NEVER_COMPARED: &[&str] = &[
    "accept-ranges",
    "age",
    "alt-svc",
    "connection",
    "content-length",
    "date",
    "etag",
    "keep-alive",
    "server",
    "transfer-encoding",
    "via",
    "x-request-id",
];

/// The characters of a value that are shown.
const LONGEST_SHOWN: usize = 60;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// `status`, `body`, or the name of a field.
    pub(super) aspect: String,
    pub(super) old: String,
    pub(super) new: String,
}

/// Compares two answers to a request.
pub(super) fn differences(
    (site, request): (&Site, &Request),
    old: &Answer,
    new: &Answer,
    ignored: &[String],
) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |aspect: &str, old: String, new: String| {
        found.push(Difference {
            aspect: aspect.to_owned(),
            old,
            new,
        });
    };
    if old.status != new.status {
        differ("status", old.status.to_string(), new.status.to_string());
    }
    let is_own = is_own_page(old) && is_own_page(new);
    let names: BTreeSet<&str> = old
        .fields
        .iter()
        .chain(&new.fields)
        .map(|(name, _)| name.as_str())
        .collect();
    for name in names {
        let is_ignored = NEVER_COMPARED.contains(&name)
            || name == "expires" && (has_age(old) && has_age(new))
            || ignored.iter().any(|one| one.eq_ignore_ascii_case(name))
            || is_own && name == "content-type";
        if is_ignored {
            continue;
        }
        let value = |answer: &Answer, port: u16| {
            let cleaned = |value: &str| comparable(name, value, (site, request), port);
            if name != "set-cookie" {
                return answer.field(name).map(|value| cleaned(&value));
            }
            let lines = answer.fields.iter().filter(|(known, _)| known == name);
            let mut cookies: Vec<String> = lines.map(|(_, value)| cleaned(value)).collect();
            cookies.sort();
            (!cookies.is_empty()).then(|| cookies.join(", "))
        };
        let (before, after) = (value(old, site.old.port()), value(new, site.new.port()));
        if before != after {
            let shown = |value: Option<String>| value.map_or("–".to_owned(), |value| cut(&value));
            differ(name, shown(before), shown(after));
        }
    }
    if !is_own {
        let moved = at_port(&new.body, site.new.port(), site.old.port());
        if old.body != moved {
            let (before, after) = shown_bodies(&old.body, &moved);
            differ("body", before, after);
        }
    }
    found
}

/// True if `Cache-Control` gives a lifetime: it goes before `Expires` (RFC 9111 §5.3).
fn has_age(answer: &Answer) -> bool {
    let said = answer.field("cache-control").unwrap_or_default();
    said.to_ascii_lowercase().contains("max-age")
}

/// A value without what differs by itself: the port of the server on trial, values of cookies, moments.
fn comparable(name: &str, value: &str, (site, request): (&Site, &Request), port: u16) -> String {
    let value = value.replace(&format!(":{port}"), &format!(":{}", site.old.port()));
    match name {
        "location" | "content-location" | "refresh" => {
            let base = format!(
                "{}://{}{}",
                site.scheme(),
                site.authority(&request.host),
                request.target
            );
            resolved(&value, &base).unwrap_or(value)
        }
        "content-type" => {
            let parts: Vec<&str> = value.split(';').map(str::trim).collect();
            parts.join("; ").to_ascii_lowercase()
        }
        "vary" | "allow" | "cache-control" => {
            let mut members: Vec<String> = value
                .split(',')
                .map(|member| member.trim().to_ascii_lowercase())
                .filter(|member| !member.is_empty())
                .collect();
            members.sort();
            members.dedup();
            members.join(", ")
        }
        "set-cookie" => {
            // A comma may stand in `Expires`; names come before the first `=`.
            let (name, rest) = value.split_once('=').unwrap_or((&value, ""));
            let attributes = rest.split(';').skip(1).map(str::trim);
            let kept = attributes.filter(|one| !one.to_ascii_lowercase().starts_with("expires"));
            let mut all = vec![name.to_owned()];
            all.extend(kept.map(str::to_ascii_lowercase));
            all.join("; ")
        }
        // A moment that depends on when it was asked.
        "expires" if parse_date(value.as_bytes()).is_some() => "a date".to_owned(),
        _ => value,
    }
}

/// A body in which the port of the server on trial is that of the old one.
fn at_port(body: &[u8], from: u16, to: u16) -> Vec<u8> {
    let (from, to) = (format!(":{from}"), format!(":{to}"));
    let mut replaced = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = position(rest, from.as_bytes()) {
        let (before, after) = rest.split_at(at);
        replaced.extend_from_slice(before);
        replaced.extend_from_slice(to.as_bytes());
        rest = after.get(from.len()..).unwrap_or_default();
    }
    replaced.extend_from_slice(rest);
    replaced
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// True for a page that a server writes by itself, in words of its own: those of nginx, Apache, Caddy, gunicorn, uWSGI, Puma and Tutti.
fn is_own_page(answer: &Answer) -> bool {
    if answer.status < 300 {
        return false;
    }
    let body = answer.body.as_slice();
    let mut own = Vec::new();
    write_error_page(answer.status, &mut own);
    let has = |part: &str| position(body, part.as_bytes()).is_some();
    body.is_empty()
        || body == own
        || body.starts_with(format!("<!DOCTYPE html><title>{} ", answer.status).as_bytes())
        || has("<hr><center>nginx")
        || has("<address>Apache")
        || body.starts_with(b"<!DOCTYPE HTML PUBLIC") && has(&format!("<title>{} ", answer.status))
        || (has("<h1><p>") && body.starts_with(b"<html>\n  <head>\n    <title>"))
        || matches!(
            body,
            b"Not Found"
                | b"400 Bad Request"
                | b"Internal Server Error"
                | b"uWSGI Error"
                | b"File not found.\n"
        )
}

fn cut(value: &str) -> String {
    let plain: String = value
        .chars()
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .collect();
    match plain.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", plain.get(..end).unwrap_or_default()),
        None => plain,
    }
}

/// Two bodies: their lengths, and where they begin to differ.
fn shown_bodies(old: &[u8], new: &[u8]) -> (String, String) {
    let same = old.iter().zip(new).take_while(|(one, other)| one == other);
    let same = same.count();
    let shown = |body: &[u8]| {
        if body.is_empty() {
            return "empty".to_owned();
        }
        let from = body.get(same..).unwrap_or_default();
        let text = String::from_utf8_lossy(from.get(..40).unwrap_or(from)).into_owned();
        format!("{} bytes, from {same}: {}", body.len(), cut(&text))
    };
    (shown(old), shown(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, fields: &[(&str, &str)], body: &str) -> Answer {
        let fields = fields.iter();
        Answer {
            status,
            fields: fields
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            body: body.as_bytes().to_vec(),
        }
    }

    fn aspects(old: &Answer, new: &Answer) -> Vec<String> {
        let site = Site {
            listener: String::new(),
            old: ([127, 0, 0, 1], 8080).into(),
            new: ([127, 0, 0, 1], 41_000).into(),
            is_tls: false,
            hosts: Vec::new(),
        };
        let request = Request {
            site: 0,
            method: "GET".to_owned(),
            host: "a.com".to_owned(),
            target: "/x/y".to_owned(),
        };
        let found = differences((&site, &request), old, new, &["X-Own".to_owned()]);
        found.into_iter().map(|one| one.aspect).collect()
    }

    #[test]
    fn what_any_two_servers_say_differently_is_no_difference() {
        for (old, new) in [
            (
                answer(
                    200,
                    &[
                        ("date", "a"),
                        ("server", "nginx"),
                        ("etag", "1"),
                        ("x-own", "1"),
                    ],
                    "x",
                ),
                answer(
                    200,
                    &[("date", "b"), ("server", "Tutti"), ("connection", "close")],
                    "x",
                ),
            ),
            (
                answer(
                    301,
                    &[("location", "http://a.com:8080/x/y/")],
                    "<hr><center>nginx/1</center>",
                ),
                answer(301, &[("location", "/x/y/")], ""),
            ),
            (
                answer(
                    200,
                    &[
                        ("cache-control", "max-age=1"),
                        ("expires", "Thu, 01 Jan 1970 00:00:00 GMT"),
                    ],
                    "",
                ),
                answer(200, &[("cache-control", "max-age=1")], ""),
            ),
            (
                answer(301, &[("location", "http://a.com:8080/")], ""),
                answer(301, &[("location", "http://a.com:41000/")], ""),
            ),
            (
                answer(
                    200,
                    &[
                        ("content-type", "text/html;charset=UTF-8"),
                        ("vary", "Cookie, Accept"),
                    ],
                    "",
                ),
                answer(
                    200,
                    &[
                        ("content-type", "text/html; charset=utf-8"),
                        ("vary", "accept"),
                        ("vary", "cookie"),
                    ],
                    "",
                ),
            ),
            (
                answer(
                    200,
                    &[(
                        "set-cookie",
                        "id=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
                    )],
                    "at :8080/",
                ),
                answer(200, &[("set-cookie", "id=2; path=/")], "at :41000/"),
            ),
            (
                answer(
                    404,
                    &[("content-type", "text/html")],
                    "<address>Apache/2</address>",
                ),
                answer(
                    404,
                    &[],
                    "<!DOCTYPE html>\n<title>404 Not Found</title>\n<h1>404 Not Found</h1>\n",
                ),
            ),
        ] {
            assert_eq!(aspects(&old, &new), [""; 0], "{old:?} {new:?}");
        }
    }

    #[test]
    fn differences_are_found() {
        let plain = answer(200, &[("x-frame-options", "DENY")], "abc");
        for (new, wanted) in [
            (
                answer(403, &[("x-frame-options", "DENY")], "abc"),
                vec!["status"],
            ),
            (answer(200, &[], "abc"), vec!["x-frame-options"]),
            (
                answer(200, &[("x-frame-options", "DENY")], "abd"),
                vec!["body"],
            ),
            (
                answer(
                    200,
                    &[("x-frame-options", "DENY"), ("set-cookie", "a=1")],
                    "abc",
                ),
                vec!["set-cookie"],
            ),
        ] {
            assert_eq!(aspects(&plain, &new), wanted);
        }
        // The site's own page of an error is none of the server's.
        let own = answer(404, &[], "our page");
        let lost = answer(
            404,
            &[],
            "<!DOCTYPE html>\n<title>404 Not Found</title>\n<h1>404 Not Found</h1>\n",
        );
        assert_eq!(aspects(&own, &lost), ["body"]);
        let elsewhere = answer(301, &[("location", "http://b.com/")], "");
        assert_eq!(
            aspects(&answer(301, &[("location", "/")], ""), &elsewhere),
            ["location"]
        );
    }
}
