//! The CGI variables of a request (RFC 3875 §4.1), with those that PHP, WSGI and PSGI expect in addition.

/// A request, and the connection it came on.
#[derive(Clone, Copy, Debug)]
pub struct CgiRequest<'a> {
    /// `GET`.
    pub method: &'a [u8],
    /// Path and query as received.
    pub target: &'a [u8],
    /// The part after `?`.
    pub query: &'a [u8],
    /// `HTTP/1.1`.
    pub protocol: &'a [u8],
    /// The client uses https.
    pub is_https: bool,
    /// The client.
    pub remote_address: &'a [u8],
    /// Its port; 0: it has none.
    pub remote_port: u16,
    /// The local address.
    pub local_address: &'a [u8],
    /// Its port; 0: it has none.
    pub local_port: u16,
    /// The requested host; may be empty.
    pub server_name: &'a [u8],
    /// The server's own name.
    pub software: &'a [u8],
    /// The user that the server has authenticated; may be empty.
    pub user: &'a [u8],
    /// Bytes of the body, if it has one.
    pub content_length: Option<u64>,
    /// Header fields in their order.
    pub fields: &'a [(&'a [u8], &'a [u8])],
}

/// The script and path of a request in the application.
#[derive(Clone, Copy, Debug)]
pub struct ScriptLocation<'a> {
    /// Root of the scripts; `None` if the application has no scripts.
    pub root: Option<&'a [u8]>,
    /// The script's name below the root, or the mount point of the application (usually empty).
    pub script_name: &'a [u8],
    /// The rest of the path; with a root `None` if there is none.
    pub path_info: Option<&'a [u8]>,
}

/// The longest name of a variable that is built on the stack; longer ones are built on the heap.
const NAME_BYTES: usize = 128;

/// Calls `each` with the name and the parts of the value of every variable except those that are `left_out`.
pub fn variables(
    request: &CgiRequest<'_>,
    place: &ScriptLocation<'_>,
    left_out: impl Fn(&[u8]) -> bool,
    each: &mut (impl FnMut(&[u8], &[&[u8]]) + ?Sized),
) {
    let mut put = |name: &[u8], value: &[&[u8]]| {
        if !left_out(name) {
            each(name, value);
        }
    };
    let info = place.path_info.unwrap_or_default();
    if let Some(root) = place.root {
        put(b"SCRIPT_FILENAME", &[root, place.script_name]);
        put(b"DOCUMENT_ROOT", &[root]);
        if place.path_info.is_some() {
            put(b"PATH_TRANSLATED", &[root, info]);
        }
    }
    put(b"SCRIPT_NAME", &[place.script_name]);
    if place.path_info.is_some() || place.root.is_none() {
        put(b"PATH_INFO", &[info]);
    }
    put(b"DOCUMENT_URI", &[place.script_name, info]);
    put(b"REQUEST_URI", &[request.target]);
    put(b"QUERY_STRING", &[request.query]);
    put(b"REQUEST_METHOD", &[request.method]);
    put(b"SERVER_PROTOCOL", &[request.protocol]);
    put(b"GATEWAY_INTERFACE", &[b"CGI/1.1"]);
    put(b"SERVER_SOFTWARE", &[request.software]);
    if request.is_https {
        put(b"REQUEST_SCHEME", &[b"https"]);
        put(b"HTTPS", &[b"on"]);
    } else {
        put(b"REQUEST_SCHEME", &[b"http"]);
    }
    let mut digits = itoa::Buffer::new();
    put(b"REMOTE_ADDR", &[request.remote_address]);
    if request.remote_port != 0 {
        let port = digits.format(request.remote_port).as_bytes();
        put(b"REMOTE_PORT", &[port]);
    }
    if !request.user.is_empty() {
        put(b"REMOTE_USER", &[request.user]);
    }
    put(b"SERVER_ADDR", &[request.local_address]);
    let port = match (request.local_port, request.is_https) {
        (0, true) => 443,
        (0, false) => 80,
        (port, _) => port,
    };
    put(b"SERVER_PORT", &[digits.format::<u16>(port).as_bytes()]);
    let name = match request.server_name {
        b"" => request.local_address,
        name => name,
    };
    put(b"SERVER_NAME", &[name]);
    // PHP refuses to run without it if it was built or configured so (`cgi.force_redirect`).
    put(b"REDIRECT_STATUS", &[b"200"]);
    // Both exist, and are empty, when the request has no body, as applications expect.
    let is_type = |(name, _): &&(&[u8], &[u8])| name.eq_ignore_ascii_case(b"content-type");
    let content_type = request.fields.iter().find(is_type);
    put(
        b"CONTENT_TYPE",
        &[content_type.map_or(&b""[..], |(_, value)| value)],
    );
    match request.content_length {
        Some(length) => put(b"CONTENT_LENGTH", &[digits.format(length).as_bytes()]),
        None => put(b"CONTENT_LENGTH", &[b""]),
    }
    fields(request.fields, &mut put);
}

/// The header fields as `HTTP_*`.
///
/// Several fields of one name become one value (RFC 9110 §5.3). Different names that CGI's translation makes equal are not combined: if a
/// plain one (letters, digits, hyphens) is among them, only such fields count, so that `X_Real_Ip` is never taken for `X-Real-Ip`.
fn fields(fields: &[(&[u8], &[u8])], put: &mut impl FnMut(&[u8], &[&[u8]])) {
    for (index, (name, value)) in fields.iter().enumerate() {
        if is_left_out(name) {
            continue;
        }
        let is_plain = is_plain(name);
        // True if a field counts besides `other`, whose name CGI makes equal.
        let counts =
            |other: &&(&[u8], &[u8])| is_same(other.0, name) && self::is_plain(other.0) == is_plain;
        let (before, after) = fields.split_at(index);
        if before.iter().any(|other| counts(&other)) {
            continue;
        }
        if is_imitation(name, fields.iter().map(|other| other.0)) {
            continue;
        }
        with_name(name, |cgi_name| {
            let mut others = after.iter().skip(1).filter(counts);
            let Some(second) = others.next() else {
                put(cgi_name, &[value]);
                return;
            };
            let separator: &[u8] = if name.eq_ignore_ascii_case(b"cookie") {
                b"; " // RFC 6265 §5.4
            } else {
                b", "
            };
            let mut parts = vec![*value, separator, second.1];
            for other in others {
                parts.extend([separator, other.1]);
            }
            put(cgi_name, &parts);
        });
    }
}

/// True if this field could be taken for another: its name is not plain, and CGI makes it equal to a plain one.
pub fn is_imitation(name: &[u8], mut others: impl Iterator<Item = impl AsRef<[u8]>>) -> bool {
    !is_plain(name) && others.any(|other| is_same(other.as_ref(), name) && is_plain(other.as_ref()))
}

/// Fields that have a variable of their own, and `Proxy`: libraries would use `HTTP_PROXY` as the proxy of their own requests
/// (CVE-2016-5385).
fn is_left_out(name: &[u8]) -> bool {
    match name.len() {
        0 => true,
        5 => is_same(name, b"proxy"),
        12 => is_same(name, b"content-type"),
        14 => is_same(name, b"content-length"),
        _ => false,
    }
}

/// Calls `use_name` with `HTTP_` and the name in CGI form.
fn with_name(name: &[u8], use_name: impl FnOnce(&[u8])) {
    const PREFIX: &[u8] = b"HTTP_";
    let mut in_place = [0; NAME_BYTES];
    let mut on_heap = Vec::new();
    let length = PREFIX.len() + name.len();
    let room = match in_place.get_mut(..length) {
        Some(room) => room,
        None => {
            on_heap.resize(length, 0);
            on_heap.as_mut_slice()
        }
    };
    let bytes = PREFIX
        .iter()
        .copied()
        .chain(name.iter().map(|byte| upper(*byte)));
    for (place, byte) in room.iter_mut().zip(bytes) {
        *place = byte;
    }
    use_name(room);
}

/// Converts a byte of a name to CGI form (RFC 3875 §4.1.18).
fn upper(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() {
        byte.to_ascii_uppercase()
    } else {
        b'_'
    }
}

/// True if both names are equal in CGI form.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| upper(*a) == upper(*b))
}

fn is_plain(name: &[u8]) -> bool {
    name.iter()
        .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(fields: &'a [(&'a [u8], &'a [u8])]) -> CgiRequest<'a> {
        CgiRequest {
            method: b"GET",
            target: b"/a.php/b%20c?d=e",
            query: b"d=e",
            protocol: b"HTTP/1.1",
            is_https: false,
            remote_address: b"192.0.2.1",
            remote_port: 4711,
            local_address: b"127.0.0.1",
            local_port: 8080,
            server_name: b"example.org",
            software: b"Tutti/1",
            user: b"",
            content_length: None,
            fields,
        }
    }

    const SCRIPT: ScriptLocation<'static> = ScriptLocation {
        root: Some(b"/www"),
        script_name: b"/a.php",
        path_info: Some(b"/b c"),
    };

    const MOUNTED: ScriptLocation<'static> = ScriptLocation {
        root: None,
        script_name: b"",
        path_info: Some(b"/b c"),
    };

    fn list(
        request: &CgiRequest<'_>,
        place: &ScriptLocation<'_>,
        overrides: &[&str],
    ) -> Vec<String> {
        let left_out = |name: &[u8]| overrides.iter().any(|said| said.as_bytes() == name);
        let mut found = Vec::new();
        variables(
            request,
            place,
            left_out,
            &mut |name: &[u8], value: &[&[u8]]| {
                found.push(format!(
                    "{}={}",
                    String::from_utf8_lossy(name),
                    String::from_utf8_lossy(&value.concat())
                ));
            },
        );
        found
    }

    #[test]
    fn the_user_is_the_one_that_the_server_has_authenticated() {
        let fields: [(&[u8], &[u8]); 1] = [(b"Remote-User", b"mallory")];
        let is_user = |line: &String| line.starts_with("REMOTE_USER=");
        let anonymous = list(&request(&fields), &SCRIPT, &[]);
        assert!(!anonymous.iter().any(is_user), "{anonymous:?}");
        let request = CgiRequest {
            user: b"anna",
            ..request(&fields)
        };
        let known = list(&request, &SCRIPT, &[]);
        assert!(known.contains(&"REMOTE_USER=anna".to_owned()), "{known:?}");
        let replaced = list(&request, &SCRIPT, &["REMOTE_USER"]);
        assert!(!replaced.iter().any(is_user), "{replaced:?}");
    }

    #[test]
    fn a_script_gets_what_php_expects() {
        let request = request(&[(b"Host", b"example.org:8080")]);
        assert_eq!(
            list(&request, &SCRIPT, &[]),
            [
                "SCRIPT_FILENAME=/www/a.php",
                "DOCUMENT_ROOT=/www",
                "PATH_TRANSLATED=/www/b c",
                "SCRIPT_NAME=/a.php",
                "PATH_INFO=/b c",
                "DOCUMENT_URI=/a.php/b c",
                "REQUEST_URI=/a.php/b%20c?d=e",
                "QUERY_STRING=d=e",
                "REQUEST_METHOD=GET",
                "SERVER_PROTOCOL=HTTP/1.1",
                "GATEWAY_INTERFACE=CGI/1.1",
                "SERVER_SOFTWARE=Tutti/1",
                "REQUEST_SCHEME=http",
                "REMOTE_ADDR=192.0.2.1",
                "REMOTE_PORT=4711",
                "SERVER_ADDR=127.0.0.1",
                "SERVER_PORT=8080",
                "SERVER_NAME=example.org",
                "REDIRECT_STATUS=200",
                "CONTENT_TYPE=",
                "CONTENT_LENGTH=",
                "HTTP_HOST=example.org:8080",
            ]
        );
    }

    #[test]
    fn an_application_gets_the_whole_path() {
        let mut request = request(&[]);
        request.is_https = true;
        request.local_port = 0;
        request.server_name = b"";
        request.content_length = Some(u64::MAX);
        let found = list(&request, &MOUNTED, &[]);
        for expected in [
            "SCRIPT_NAME=",
            "PATH_INFO=/b c",
            "HTTPS=on",
            "REQUEST_SCHEME=https",
            "SERVER_PORT=443",
            "SERVER_NAME=127.0.0.1",
            "CONTENT_LENGTH=18446744073709551615",
        ] {
            assert!(
                found.iter().any(|line| line == expected),
                "{expected} {found:?}"
            );
        }
        assert!(!found.iter().any(|line| line.starts_with("SCRIPT_FILENAME")));
    }

    fn http(fields: &[(&[u8], &[u8])]) -> Vec<String> {
        let mut found = list(&request(fields), &SCRIPT, &[]);
        found.retain(|line| line.starts_with("HTTP_") || line.starts_with("CONTENT_"));
        found
    }

    #[test]
    fn several_fields_of_a_name_are_joined() {
        assert_eq!(
            http(&[
                (b"Accept", b"a"),
                (b"Cookie", b"x=1"),
                (b"accept", b"b"),
                (b"COOKIE", b"y=2"),
                (b"Accept", b"c"),
                (b"Content-Type", b"text/plain"),
                (b"Content-Type", b"text/html"),
                (b"Content-Length", b"7"),
            ]),
            [
                "CONTENT_TYPE=text/plain",
                "CONTENT_LENGTH=",
                "HTTP_ACCEPT=a, b, c",
                "HTTP_COOKIE=x=1; y=2",
            ]
        );
    }

    #[test]
    fn no_field_passes_for_another_or_for_a_variable() {
        assert_eq!(
            http(&[
                (b"X_Real_Ip", b"evil"),
                (b"X-Real-Ip", b"192.0.2.7"),
                (b"X_Real-Ip", b"evil"),
                (b"Under_Score", b"1"),
                (b"Under.Score", b"2"),
                (b"Proxy", b"evil"),
                (b"Content_Length", b"9"),
                (b"Content.Type", b"evil"),
            ]),
            [
                "CONTENT_TYPE=",
                "CONTENT_LENGTH=",
                "HTTP_X_REAL_IP=192.0.2.7",
                "HTTP_UNDER_SCORE=1, 2",
            ]
        );
    }

    #[test]
    fn a_long_name_is_whole() {
        let name = [b'x'; 500];
        assert_eq!(
            http(&[(&name, b"1")]).last(),
            Some(&format!("HTTP_{}=1", "X".repeat(500)))
        );
    }

    #[test]
    fn fields_that_the_configuration_sets_are_omitted() {
        let fields: &[(&[u8], &[u8])] = &[(b"Host", b"a"), (b"Accept", b"b")];
        let found = list(&request(fields), &SCRIPT, &["HTTP_HOST", "DOCUMENT_ROOT"]);
        assert!(
            !found
                .iter()
                .any(|line| line.starts_with("HTTP_HOST") || line.starts_with("DOCUMENT_ROOT"))
        );
        assert!(found.iter().any(|line| line == "HTTP_ACCEPT=b"));
    }
}
