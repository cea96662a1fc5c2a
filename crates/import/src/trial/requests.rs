//! The requests of a trial: lines of access logs, addresses, links of pages.
//!
//! Clients write most of an access log: must never make a request of a line that is not a single one, or for another server.

use std::collections::HashSet;

use serde_json::Value;

use super::sites::Site;

/// Links of a page that are followed, and bytes of one.
const MOST_LINKS: usize = 10_000;
const LONGEST_LINK: usize = 2 << 10;

/// A request for both servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    /// Its site, by number.
    pub(super) site: usize,
    pub(super) method: String,
    pub(super) host: String,
    /// Path and query.
    pub(super) target: String,
}

/// A line of a source of requests.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    pub(super) method: String,
    /// True for `https`, if the line tells it.
    pub(super) is_tls: Option<bool>,
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) target: String,
}

/// Requests in the order in which they are sent, each once.
#[derive(Debug)]
pub(super) struct Queue<'s> {
    sites: &'s [Site],
    methods: &'s [String],
    /// Names for every site in place of its own.
    hosts: &'s [String],
    most: usize,
    known: HashSet<Request>,
    pub(super) list: Vec<Request>,
    /// Requests with methods that are not sent.
    pub(super) unsafe_count: usize,
    /// Requests for addresses that the old server does not listen on.
    pub(super) foreign_count: usize,
    /// Requests beyond the largest number.
    pub(super) excess_count: usize,
}

impl<'s> Queue<'s> {
    pub(super) fn new(
        sites: &'s [Site],
        methods: &'s [String],
        hosts: &'s [String],
        most: usize,
    ) -> Self {
        Self {
            sites,
            methods,
            hosts,
            most,
            known: HashSet::new(),
            list: Vec::new(),
            unsafe_count: 0,
            foreign_count: 0,
            excess_count: 0,
        }
    }

    /// The names of a site.
    pub(super) fn hosts_of(&self, site: &Site) -> Vec<String> {
        match (self.hosts, site.hosts.as_slice()) {
            ([], []) => vec!["localhost".to_owned()],
            ([], own) => own.to_vec(),
            (given, _) => given.to_vec(),
        }
    }

    /// Adds a line: to the site of its address, or to all sites if it names none.
    pub(super) fn add(&mut self, line: &Line) {
        if !self.methods.contains(&line.method) {
            self.unsafe_count += 1;
            return;
        }
        let is_meant = |site: &Site| {
            line.is_tls.is_none_or(|is_tls| is_tls == site.is_tls)
                && line.port.is_none_or(|port| port == site.old.port())
        };
        let meant: Vec<usize> = (0..self.sites.len())
            .filter(|number| self.sites.get(*number).is_some_and(is_meant))
            .collect();
        if meant.is_empty() {
            self.foreign_count += 1;
        }
        for number in meant {
            let Some(site) = self.sites.get(number) else {
                continue;
            };
            let hosts = match &line.host {
                Some(host) => vec![host.clone()],
                None => self.hosts_of(site),
            };
            for host in hosts {
                self.push(Request {
                    site: number,
                    method: line.method.clone(),
                    host,
                    target: line.target.clone(),
                });
            }
        }
    }

    fn push(&mut self, request: Request) {
        if self.known.contains(&request) {
            return;
        }
        if self.list.len() >= self.most {
            self.excess_count += 1;
            return;
        }
        self.known.insert(request.clone());
        self.list.push(request);
    }
}

/// Reads a line: an address, a path, or a line of an access log. `None`: it is none of these.
pub(super) fn line(text: &str) -> Option<Line> {
    let text = text.trim();
    if text.starts_with("http://") || text.starts_with("https://") {
        return of_url(text);
    }
    if text.starts_with('/') {
        return of_parts("GET", text, None);
    }
    if text.starts_with('{') {
        return of_json(&serde_json::from_str(text).ok()?);
    }
    let (before, request) = quoted_request(text)?;
    let mut words = request.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    if !words.next()?.starts_with("HTTP/") || words.next().is_some() {
        return None;
    }
    of_parts(method, target, virtual_host(before))
}

/// An absolute address.
pub(super) fn of_url(url: &str) -> Option<Line> {
    let (scheme, rest) = url.split_once("://")?;
    let is_tls = match scheme {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    let target = target.split('#').next().unwrap_or_default();
    let target = match target.starts_with('/') {
        true => target.to_owned(),
        false => format!("/{target}"),
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, if is_tls { 443 } else { 80 }),
    };
    let line = of_parts("GET", &target, Some(host))?;
    Some(Line {
        is_tls: Some(is_tls),
        port: Some(port),
        ..line
    })
}

fn of_parts(method: &str, target: &str, host: Option<&str>) -> Option<Line> {
    let is_method = !method.is_empty()
        && method.len() <= 32
        && method
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    // Anything else would end the line of the request, or be another one.
    let is_target =
        target.starts_with('/') && target.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    let is_host = |host: &&str| {
        let of_names = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
        !host.is_empty() && host.bytes().all(of_names)
    };
    if !is_method || !is_target || host.is_some_and(|host| !is_host(&host)) {
        return None;
    }
    Some(Line {
        method: method.to_owned(),
        is_tls: None,
        host: host.map(str::to_ascii_lowercase),
        port: None,
        target: target.to_owned(),
    })
}

/// A line in JSON: that of Caddy, or one with nginx's or Apache's names of variables.
fn of_json(line: &Value) -> Option<Line> {
    let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
    let request = line.get("request").unwrap_or(line);
    let host = ["host", "vhost", "server_name"]
        .iter()
        .find_map(|name| text(request, name).or_else(|| text(line, name)));
    let host = host.as_deref();
    let host = host.map(|host| host.rsplit_once(':').map_or(host, |(name, _)| name));
    if let Some(request) = request.as_str() {
        let mut words = request.split(' ');
        return of_parts(words.next()?, words.next()?, host);
    }
    let method = text(request, "method").or_else(|| text(request, "request_method"));
    let target = ["uri", "request_uri", "target"]
        .iter()
        .find_map(|name| text(request, name));
    of_parts(&method?, &target?, host)
}

/// The first quoted part of a line that is a request, without its escapes, and what stands before it.
fn quoted_request(text: &str) -> Option<(&str, String)> {
    let mut rest = text;
    loop {
        let (_, after) = rest.split_once('"')?;
        let end = closing_quote(after)?;
        let quoted = after.get(..end)?;
        if quoted.contains(" HTTP/") {
            let length = text.len() - after.len();
            return Some((text.get(..length)?, unescaped(quoted)));
        }
        rest = after.get(end + 1..)?;
    }
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !is_escaped => return Some(position),
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    None
}

/// A text without the escapes of nginx (`\x22`) and Apache (`\"`).
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let hexadecimal = after.strip_prefix('x').and_then(|digits| digits.get(..2));
        let byte = hexadecimal.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            // A byte that is no text of its own stays escaped, and the line is left out if it is not a target then.
            Some(byte) if byte.is_ascii() => {
                plain.push(char::from(byte));
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                let mut characters = after.chars();
                plain.extend(characters.next());
                rest = characters.as_str();
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// The name of the host in front of a line: `site.example:80 192.0.2.1 - -`.
fn virtual_host(before: &str) -> Option<&str> {
    let (name, port) = before.split(' ').next()?.rsplit_once(':')?;
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = !name.is_empty() && name.parse::<std::net::IpAddr>().is_err();
    let is_host = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    (is_port && is_name && is_host).then_some(name)
}

/// The addresses that a page links to, in its order; `base` is the page's own.
pub(super) fn links(page: &str, base: &str) -> Vec<String> {
    let lower = page.to_ascii_lowercase();
    let mut found = Vec::new();
    let mut ends: Vec<usize> = ["href=", "src="]
        .iter()
        .flat_map(|name| lower.match_indices(name).map(|(at, name)| at + name.len()))
        .collect();
    ends.sort_unstable();
    for from in ends.into_iter().take(MOST_LINKS) {
        let rest = page.get(from..).unwrap_or_default();
        // Without quotes and spaces, each link would be the whole rest of the page.
        let mut length = rest.len().min(LONGEST_LINK);
        while !rest.is_char_boundary(length) {
            length -= 1;
        }
        let rest = rest.get(..length).unwrap_or_default();
        let value = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => rest.get(1..).and_then(|rest| rest.split(quote).next()),
            _ => rest.split([' ', '>', '\n', '\t', '\r']).next(),
        };
        let value = value.unwrap_or_default().replace("&amp;", "&");
        if let Some(address) = resolved(&value, base) {
            found.push(address);
        }
    }
    found
}

/// An address that stands in a page or a `Location`, as an absolute one (RFC 3986 §5.2); `None` where it is not one of HTTP.
pub(super) fn resolved(reference: &str, base: &str) -> Option<String> {
    let reference = reference.trim().split('#').next().unwrap_or_default();
    if reference.is_empty() {
        return None;
    }
    let (scheme, rest) = base.split_once("://")?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split('?').next().unwrap_or_default();
    if reference.starts_with("http://") || reference.starts_with("https://") {
        return Some(reference.to_owned());
    }
    if let Some(other) = reference.strip_prefix("//") {
        return Some(format!("{scheme}://{other}"));
    }
    let before_query = reference.split(['/', '?']).next().unwrap_or_default();
    if before_query.contains(':') {
        return None;
    }
    let target = match reference.chars().next() {
        Some('/') => reference.to_owned(),
        Some('?') => format!("{path}{reference}"),
        _ => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{reference}")
        }
    };
    Some(format!("{scheme}://{authority}{}", without_dots(&target)))
}

/// A target without `.` and `..` in its path (RFC 3986 §5.2.4).
fn without_dots(target: &str) -> String {
    let (path, query) = match target.find('?') {
        Some(at) => target.split_at(at),
        None => (target, ""),
    };
    let mut segments: Vec<&str> = Vec::new();
    let all: Vec<&str> = path.split('/').skip(1).collect();
    for (index, segment) in all.iter().enumerate() {
        let is_last = index + 1 == all.len();
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    segments.pop();
                }
                if is_last {
                    segments.push("");
                }
            }
            other => segments.push(other),
        }
    }
    format!("/{}{query}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, Option<String>, String)> {
        line(text).map(|line| (line.method, line.host, line.target))
    }

    fn expected(
        method: &str,
        host: Option<&str>,
        target: &str,
    ) -> Option<(String, Option<String>, String)> {
        Some((
            method.to_owned(),
            host.map(str::to_owned),
            target.to_owned(),
        ))
    }

    #[test]
    fn lines_of_access_logs_are_read() {
        for (text, wanted) in [
            (
                r#"192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET /a?b=1 HTTP/1.1" 200 5 "-" "curl""#,
                expected("GET", None, "/a?b=1"),
            ),
            (
                r#"Site.example:80 192.0.2.1 - - [x] "HEAD / HTTP/1.0" 200 5"#,
                expected("HEAD", Some("site.example"), "/"),
            ),
            (
                r#"::1 - - [x] "GET /\x22q\x22 HTTP/1.1" 200 5"#,
                expected("GET", None, "/\"q\""),
            ),
            (
                r#"{"request":{"method":"GET","host":"a.com:81","uri":"/x"}}"#,
                expected("GET", Some("a.com"), "/x"),
            ),
            (
                r#"{"request":"POST /x HTTP/1.1","host":"a.com"}"#,
                expected("POST", Some("a.com"), "/x"),
            ),
            ("/path?x", expected("GET", None, "/path?x")),
            (
                "https://A.com:8443/x#y",
                expected("GET", Some("a.com"), "/x"),
            ),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_line_is_one_request_or_none() {
        for text in [
            "",
            "# a comment",
            r#"x "GET /\x0d\x0aHost: b HTTP/1.1" 200"#,
            r#"x "GET /a b HTTP/1.1" 200"#,
            r#"x "\x16\x03\x01" 400"#,
            r#"x "GET http://other.example/ HTTP/1.1" 200"#,
            "/a b",
            "/a\tb",
            "http://a.com@b/",
            r#"{"request":{"method":"GET","host":"a\r\nb","uri":"/x"}}"#,
            "ftp://a.com/",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn links_are_those_of_the_page() {
        let page = r##"<a href="b?x=1&amp;y=2">b</a> <IMG SRC='/c.png'> <a href=../d> <a href="#top"> <a href="mailto:x@y"> <a href="//e.com/f"> <a href="https://g.com">"##;
        assert_eq!(
            links(page, "http://a.com/x/y/z?q"),
            [
                "http://a.com/x/y/b?x=1&y=2",
                "http://a.com/c.png",
                "http://a.com/x/d",
                "http://e.com/f",
                "https://g.com"
            ]
        );
        assert_eq!(
            resolved("../../..", "http://a.com/x/"),
            Some("http://a.com/".to_owned())
        );
    }

    #[test]
    fn a_request_goes_to_the_site_of_its_address_alone() {
        let site = |port, is_tls| Site {
            listener: String::new(),
            old: ([127, 0, 0, 1], port).into(),
            new: ([127, 0, 0, 1], 1).into(),
            is_tls,
            hosts: vec!["a.com".to_owned()],
        };
        let sites = [site(80, false), site(443, true)];
        let methods = ["GET".to_owned()];
        let mut queue = Queue::new(&sites, &methods, &[], 3);
        for text in [
            "https://b.com/",
            "/x",
            "/x",
            "http://b.com:81/",
            r#"x "DELETE /y HTTP/1.1""#,
            "/z",
        ] {
            queue.add(&line(text).unwrap());
        }
        let list: Vec<(usize, &str)> = queue
            .list
            .iter()
            .map(|request| (request.site, request.host.as_str()))
            .collect();
        assert_eq!(list, [(1, "b.com"), (0, "a.com"), (1, "a.com")]);
        assert_eq!(
            (queue.unsafe_count, queue.foreign_count, queue.excess_count),
            (1, 1, 2)
        );
    }
}
