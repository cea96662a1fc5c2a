//! Static files: what is served, and how.

mod support;

use std::os::unix::fs::symlink;

use support::Site;
use support::h2_client::over_http2_with;
use tutti_testkit::wait_until;

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

#[test]
fn validators_and_length_are_sent() {
    let site = Site::sharing("{}");
    site.write("a.css", "0123456789");
    site.age("a.css");
    for method in ["GET", "HEAD"] {
        let response = site.request(method, "/a.css", "");
        assert_eq!(response.status, 200);
        for (name, value) in [
            ("Content-Type", "text/css"),
            ("Content-Length", "10"),
            ("Last-Modified", DATE),
            ("ETag", "\"2ebc98a1-a\""),
            ("Accept-Ranges", "bytes"),
        ] {
            assert_eq!(response.field(name), Some(value), "{method} {name}");
        }
        assert_eq!(
            response.text(),
            if method == "GET" { "0123456789" } else { "" }
        );
    }
}

#[test]
fn small_and_large_files_arrive_whole() {
    let site = Site::sharing("{}");
    for size in [
        0, 1, 1000, 16_384, 32_768, 32_769, 100_000, 1_048_576, 5_000_000,
    ] {
        let content: Vec<u8> = (0..size)
            .map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let name = format!("{size}.bin");
        site.write(&name, &content);
        let mut client = site.connect();
        for _ in 0..2 {
            client.send(format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert!(client.response("GET").body == content, "{size} bytes");
        }
        client.send(format!("HEAD /{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(
            client.response("HEAD").field("Content-Length"),
            Some(size.to_string().as_str())
        );
    }
}

#[test]
fn conditional_requests_are_decided() {
    let site = Site::sharing("{}");
    site.write("a.txt", "0123456789");
    site.age("a.txt");
    for (fields, status) in [
        ("If-None-Match: \"2ebc98a1-a\"\r\n", 304),
        ("If-None-Match: W/\"2ebc98a1-a\"\r\n", 304),
        ("If-None-Match: *\r\n", 304),
        ("If-None-Match: \"other\"\r\n", 200),
        ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 304),
        ("If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", 200),
        (
            "If-None-Match: \"other\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            200,
        ),
        ("If-Match: \"2ebc98a1-a\"\r\n", 200),
        ("If-Match: \"other\"\r\n", 412),
        // Issue 28: a list may be spread over several fields (RFC 9110 §5.3).
        (
            "If-None-Match: \"other\"\r\nIf-None-Match: \"2ebc98a1-a\"\r\n",
            304,
        ),
        ("If-Match: \"other\"\r\nIf-Match: \"2ebc98a1-a\"\r\n", 200),
        ("If-Match: \"other\"\r\nIf-Match: \"third\"\r\n", 412),
        (
            "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n",
            412,
        ),
    ] {
        let response = site.request("GET", "/a.txt", fields);
        assert_eq!(response.status, status, "{fields}");
        if status == 304 {
            assert_eq!(response.field("ETag"), Some("\"2ebc98a1-a\""));
            assert_eq!(response.field("Last-Modified"), Some(DATE));
            assert_eq!(response.field("Content-Length"), None);
        }
    }
}

#[test]
fn ranges_of_files_in_memory_and_on_disk() {
    let site = Site::sharing("{}");
    let large: Vec<u8> = (0..2_000_000_u32).map(|n| (n % 251) as u8).collect();
    for content in [b"0123456789".as_slice(), &large] {
        site.write("f", content);
        site.age("f");
        let size = content.len();
        let etag = format!("\"2ebc98a1-{size:x}\"");
        for (range, extra, expected) in [
            ("0-0", String::new(), Some(0..1)),
            ("2-5", String::new(), Some(2..6)),
            ("5-", String::new(), Some(5..size)),
            ("-3", String::new(), Some(size - 3..size)),
            ("2-5", format!("If-Range: {etag}\r\n"), Some(2..6)),
            ("2-5", format!("If-Range: {DATE}\r\n"), Some(2..6)),
            ("2-5", "If-Range: \"other\"\r\n".into(), None),
            ("5-2", String::new(), None),
        ] {
            let response = site.request("GET", "/f", &format!("Range: bytes={range}\r\n{extra}"));
            match expected {
                Some(part) => {
                    assert_eq!(response.status, 206, "{range} {extra}");
                    let content_range = format!("bytes {}-{}/{size}", part.start, part.end - 1);
                    assert_eq!(
                        response.field("Content-Range"),
                        Some(content_range.as_str())
                    );
                    assert!(response.body == content[part], "{range}");
                }
                None => {
                    assert_eq!(response.status, 200, "{range} {extra}");
                    assert!(response.body == content);
                }
            }
        }
        let response = site.request("GET", "/f", &format!("Range: bytes={size}-\r\n"));
        assert_eq!(response.status, 416);
        assert_eq!(
            response.field("Content-Range"),
            Some(format!("bytes */{size}").as_str())
        );
        // Ranges are for GET only.
        assert_eq!(
            site.request("HEAD", "/f", "Range: bytes=0-0\r\n").status,
            200
        );
    }
}

#[test]
fn several_ranges_come_as_multipart() {
    let site = Site::sharing("{}");
    let large: Vec<u8> = (0..200_000_u32).map(|n| b'a' + (n % 26) as u8).collect();
    for (name, content) in [("s.txt", b"0123456789".as_slice()), ("l.txt", &large)] {
        site.write(name, content);
        let size = content.len();
        let mut client = site.connect();
        client.send(format!(
            "GET /{name} HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,4-6,-2\r\n\r\n"
        ));
        let response = client.response("GET");
        assert_eq!(response.status, 206);
        let boundary = response
            .field("Content-Type")
            .unwrap()
            .strip_prefix("multipart/byteranges; boundary=")
            .unwrap();
        let part = |from: usize, to: usize| {
            let text = std::str::from_utf8(&content[from..to]).unwrap();
            format!(
                "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes {from}-{}/{size}\r\n\r\n{text}",
                to - 1
            )
        };
        let expected = [
            part(0, 2),
            part(4, 7),
            part(size - 2, size),
            format!("\r\n--{boundary}--\r\n"),
        ]
        .concat();
        assert_eq!(response.text(), expected);
        // The connection is still usable.
        client.send("GET /return/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response("GET").status, 200);
    }
}

#[test]
fn a_request_with_too_many_ranges_gets_the_whole_file() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "routes": [
                {{"match": {{"uri": "/none/*"}}, "action": {{"share": "{folder}$uri", "http": {{"max_ranges": 0}}}}}},
                {{"match": {{"uri": "/two/*"}}, "action": {{"share": "{folder}$uri", "http": {{"max_ranges": 2}}}}}},
                {{"action": {{"share": "{folder}$uri"}}}}]}}"#
        )
    });
    let content = "x".repeat(1000);
    for name in ["a.txt", "two/a.txt", "none/a.txt"] {
        site.write(name, &content);
    }
    let ranges = |count: usize| {
        let all: Vec<String> = (0..count).map(|at| format!("{at}-{at}")).collect();
        format!("bytes={}", all.join(","))
    };
    for (target, count, status) in [
        ("/a.txt", 32, 206),
        ("/a.txt", 33, 200),
        ("/two/a.txt", 1, 206),
        ("/two/a.txt", 2, 206),
        ("/two/a.txt", 3, 200),
        ("/none/a.txt", 1, 200),
    ] {
        let reply = site.request("GET", target, &format!("Range: {}\r\n", ranges(count)));
        assert_eq!(reply.status, status, "{target} {count}");
        if status == 200 {
            assert_eq!(reply.text(), content);
        }
        let range = ranges(count);
        let fields = [("range", range.as_str())];
        let other = over_http2_with(site.address(), ("GET", target), &fields, b"");
        assert_eq!(other.status, status, "{target} {count}");
    }
    assert_eq!(site.get("/none/a.txt").field("Accept-Ranges"), None);
    assert_eq!(site.get("/two/a.txt").field("Accept-Ranges"), Some("bytes"));
    // A range that cannot be satisfied is ignored, too.
    let beyond = site.request("GET", "/none/a.txt", "Range: bytes=5000-\r\n");
    assert_eq!(beyond.status, 200);
}

#[test]
fn directories_have_an_index_or_redirect() {
    let site = Site::sharing("{}");
    site.write("index.html", "root");
    site.write("d/index.html", "inner");
    site.write("with space/index.html", "space");
    std::fs::create_dir(site.path().join("empty")).unwrap();
    assert_eq!(site.get("/").text(), "root");
    assert_eq!(site.get("/d/").text(), "inner");
    assert_eq!(site.get("/empty/").status, 404);
    for (target, location) in [
        ("/d", "/d/"),
        ("/d?a=b&c", "/d/?a=b&c"),
        ("/with%20space", "/with%20space/"),
        ("//d", "/d/"),
        ("http://test/d", "/d/"),
    ] {
        let response = site.get(target);
        assert_eq!(
            (response.status, response.field("Location")),
            (301, Some(location)),
            "{target}"
        );
    }
}

#[test]
fn nothing_outside_the_share_is_served() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/arg/*"}}, "action": {{"share": "{folder}/public/$arg_file"}}}},
                            {{"match": {{"uri": "/cookie"}}, "action": {{"share": "{folder}/public/$cookie_file"}}}},
                            {{"action": {{"share": "{folder}/public$uri"}}}}]}}"#
        )
    });
    site.write("secret", "secret");
    site.write("public/open", "open");
    assert_eq!(site.get("/open").text(), "open");
    assert_eq!(site.get("/a/../open").text(), "open");
    assert_eq!(site.get("/%6fpen").text(), "open");
    for target in [
        "/../secret",
        "/%2e%2e/secret",
        "/%2e%2e%2fsecret",
        "/..%2fsecret",
        "/..%5csecret",
        "/a/..%2f..%2fsecret",
        "/a/../../secret",
        "/....//secret",
        "/open%00.txt",
        "/.%2e/secret",
        "/arg/?file=../secret",
        "/arg/?file=a/../../secret",
        "/arg/?file=%2e%2e/secret",
    ] {
        let response = site.get(target);
        assert!(
            matches!(response.status, 400 | 403 | 404),
            "{target}: {}",
            response.status
        );
        assert_ne!(response.text(), "secret", "{target}");
    }
    let response = site.request("GET", "/cookie", "Cookie: file=../secret\r\n");
    assert_eq!(response.status, 403);
}

/// Issue 10: they were 403.
#[test]
fn special_files_are_not_found_and_block_no_request() {
    let site = Site::sharing("{}");
    let at = |name: &str| site.path().join(name);
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        at("fifo"),
        rustix::fs::Mode::from_raw_mode(0o666),
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    symlink("/dev/zero", at("zero")).unwrap();
    symlink("/dev/tty", at("tty")).unwrap();
    symlink("loop", at("loop")).unwrap();
    site.write("file", "x");
    symlink("file", at("link")).unwrap();
    for target in ["/fifo", "/socket", "/zero", "/tty"] {
        assert_eq!(site.get(target).status, 404, "{target}");
    }
    assert_eq!(site.get("/loop").status, 403);
    assert_eq!(site.get("/link").text(), "x");
    assert_eq!(site.get("/file/").status, 404);
    assert_eq!(site.get(&format!("/{}", "n".repeat(300))).status, 404);
}

#[test]
fn a_changed_file_is_served_changed() {
    let site = Site::sharing("{}");
    let mut client = site.connect();
    let mut get = |target: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.response("GET")
    };
    for round in 0..50 {
        let content = format!("{round:04}");
        site.write("a", &content);
        assert_eq!(get("/a").text(), content);
    }
    std::fs::remove_file(site.path().join("a")).unwrap();
    assert_eq!(get("/a").status, 404);
    site.write("a", "back");
    assert_eq!(get("/a").text(), "back");
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_sent_ends_the_connection() {
    let site = Site::sharing("{}");
    let path = site.path().join("large");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    let mut client = site.connect();
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.fill().unwrap() > 0);
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1000)
        .unwrap();
    assert!(client.read_to_end().len() < 64 << 20);
}

#[test]
fn clients_that_take_large_files_slowly_do_not_hold_up_others() {
    let site = Site::sharing("{}");
    let content: Vec<u8> = (0..16 << 20)
        .map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    site.write("large", &content);
    site.write("small", "small");
    let request = |name: &str| format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut slow: Vec<_> = (0..4)
        .map(|_| {
            let mut client = site.connect();
            client.send(request("large") + &request("small"));
            assert!(client.fill().unwrap() > 0);
            client
        })
        .collect();
    for _ in 0..100 {
        // One client reads a little at a time, the others nothing.
        slow[0].fill().unwrap();
        let mut client = site.connect();
        client.send(request("small"));
        assert_eq!(client.response("GET").text(), "small");
    }
    for client in &mut slow {
        assert!(client.response("GET").body == content);
        assert_eq!(client.response("GET").text(), "small");
    }
}

#[test]
fn only_get_and_head_read_files() {
    let site = Site::sharing("{}");
    site.write("a", "x");
    for method in ["POST", "PUT", "DELETE", "get"] {
        let response = site.request(method, "/a", "");
        assert_eq!(
            (response.status, response.field("Allow")),
            (405, Some("GET, HEAD, OPTIONS")),
            "{method}"
        );
    }
}

#[test]
fn options_names_the_methods_of_files() {
    let site = Site::sharing("{}");
    site.write("a", "x");
    for target in ["/a", "/none", "*"] {
        let response = site.request("OPTIONS", target, "");
        assert_eq!(
            (response.status, response.field("Allow")),
            (204, Some("GET, HEAD, OPTIONS")),
            "{target}"
        );
        assert_eq!(response.field("Content-Length"), None, "RFC 9110 §8.6");
    }
}

#[test]
fn a_folder_whose_contents_are_denied_is_as_if_it_were_not_there() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/else*"}}, "action": {{"share": "{folder}$uri", "deny": "/else/*", "fallback": {{"return": 410}}}}}},
                            {{"action": {{"share": "{folder}$uri", "deny": "/private/*"}}}}]}}"#
        )
    });
    for folder in ["private", "else", "open"] {
        site.write(&format!("{folder}/file"), "x");
    }
    for (target, status) in [
        ("/open", 301),
        ("/private", 404),
        ("/private/", 404),
        ("/none", 404),
        ("/else", 410),
        ("/elsewhere", 410),
        ("/else/file", 404),
    ] {
        assert_eq!(site.get(target).status, status, "{target}");
    }
}

#[test]
fn a_variable_does_not_climb_where_the_configuration_does() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/joined"}}, "action": {{"share": "{folder}/app/../www/.$arg_name"}}}},
                            {{"action": {{"share": "{folder}/app/../www/$arg_name"}}}}]}}"#
        )
    });
    site.write("app/file", "app");
    site.write("www/file", "www");
    site.write("secret", "secret");
    assert_eq!(site.get("/?name=file").text(), "www");
    for target in [
        "/?name=../secret",
        "/?name=x/../../secret",
        "/joined?name=./secret",
    ] {
        assert_eq!(site.get(target).status, 403, "{target}");
    }
}

#[test]
fn shares_types_index_and_fallback_work_together() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "settings": {{"http": {{"static": {{"mime_types": {{"text/x-own": [".own"]}}}}}}}},
                 "routes": {{
                   "main": [{{"match": {{"uri": "/array/*"}}, "action": {{"share": ["{folder}/a$uri", "{folder}/b$uri"]}}}},
                            {{"match": {{"uri": "/typed/*"}}, "action": {{"share": "{folder}/a$uri", "types": ["text/*", "!text/css"]}}}},
                            {{"match": {{"uri": "/known/*"}}, "action": {{"share": "{folder}/a$uri", "types": ["!"],
                               "fallback": {{"return": 410}}}}}},
                            {{"action": {{"share": "{folder}/a$uri", "index": "start.txt", "fallback":
                               {{"share": "{folder}/b$uri", "fallback": {{"pass": "routes/last"}}}}}}}}],
                   "last": [{{"action": {{"return": 302, "location": "/from$uri"}}}}]}}}}"#
        )
        .replace("\"pass\": \"routes\"", "\"pass\": \"routes/main\"")
    });
    for (name, content) in [
        ("a/array/1", "a1"),
        ("b/array/1", "b1"),
        ("b/array/2", "b2"),
        ("a/typed/t.txt", "txt"),
        ("a/typed/t.own", "own"),
        ("a/typed/t.css", "css"),
        ("a/typed/t.png", "png"),
        ("a/known/t.unknown", "unknown"),
        ("a/known/t.txt", "known"),
        ("a/d/start.txt", "start"),
        ("b/only", "only b"),
    ] {
        site.write(name, content);
    }
    for (target, status, text) in [
        ("/array/1", 200, "a1"),
        ("/array/2", 200, "b2"),
        ("/array/3", 404, ""),
        ("/typed/t.txt", 200, "txt"),
        ("/typed/t.own", 200, "own"),
        ("/typed/t.css", 403, ""),
        ("/typed/t.png", 403, ""),
        ("/known/t.unknown", 410, ""),
        ("/known/t.txt", 200, "known"),
        ("/d/", 200, "start"),
        ("/only", 200, "only b"),
        ("/nowhere", 302, ""),
    ] {
        let response = site.get(target);
        assert_eq!(response.status, status, "{target}");
        if status == 200 {
            assert_eq!(response.text(), text, "{target}");
        }
    }
    assert_eq!(
        site.get("/nowhere").field("Location"),
        Some("/from/nowhere")
    );
    assert_eq!(
        site.get("/typed/t.own").field("Content-Type"),
        Some("text/x-own")
    );
    // Another method goes to the fallback.
    assert_eq!(
        site.request("POST", "/only", "Content-Length: 0\r\n")
            .status,
        302
    );
}

/// nginx's `try_files`: the existence of a file decides, and the file is not served.
#[test]
fn a_file_that_is_found_may_lead_elsewhere() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes/main"}}}},
                 "routes": {{
                   "main": [{{"match": {{"uri": "*/"}}, "action": {{"share": "{folder}${{uri}}index.php", "index": "",
                                "found": {{"rewrite": "${{uri}}index.php", "pass": "routes/scripts"}},
                                "fallback": {{"return": 204}}}}}},
                            {{"action": {{"share": "{folder}$uri", "types": "text/css", "found": {{"return": 202}}, "fallback": {{"return": 203}}}}}}],
                   "scripts": [{{"action": {{"return": 302, "location": "/script$uri"}}}}]}}}}"#
        )
    });
    site.write("shop/index.php", "<?php secret");
    site.write("plain/page.html", "page");
    let empty = "Content-Length: 0\r\n";
    for (method, target, fields, status) in [
        ("GET", "/shop/", "", 302),
        // The next action gets the method of the request.
        ("POST", "/shop/", empty, 302),
        ("GET", "/plain/", "", 204),
        ("GET", "/plain/page.html", "", 202),
        ("POST", "/plain/page.html", empty, 202),
        ("GET", "/shop/index.php", "", 202),
        // A folder is not a file, and is not redirected.
        ("GET", "/plain", "", 203),
        ("GET", "/nowhere", "", 203),
    ] {
        let response = site.request(method, target, fields);
        assert_eq!(response.status, status, "{method} {target}");
        assert!(!response.text().contains("secret"), "{method} {target}");
    }
    assert_eq!(
        site.get("/shop/").field("Location"),
        Some("/script/shop/index.php")
    );
}

/// nginx's `-d` and `-e`, and its 403 for a folder without an index.
#[test]
fn a_folder_without_anything_to_serve_has_an_action_of_its_own() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/test/*"}}, "action": {{"share": "{folder}$uri", "index": "", "prefix": "/test",
                                "found": {{"return": 201}}, "folder": {{"return": 202}}, "fallback": {{"return": 204}}}}}},
                            {{"match": {{"uri": "/list/*"}}, "action": {{"share": "{folder}$uri", "prefix": "/list", "listing": "html", "folder": {{"return": 403}}}}}},
                            {{"match": {{"uri": "/kept/*"}}, "action": {{"share": "{folder}$uri", "prefix": "/kept", "chroot": "{folder}/shop/", "folder": {{"return": 403}}, "fallback": {{"return": 204}}}}}},
                            {{"action": {{"share": "{folder}$uri", "folder": {{"return": 403}}, "fallback": {{"return": 204}}}}}}]}}"#
        )
    });
    site.write("shop/index.html", "the shop");
    site.write("plain/page.html", "page");
    let empty = "Content-Length: 0\r\n";
    for (method, target, fields, status) in [
        ("GET", "/plain/", "", 403),
        ("GET", "/plain", "", 301),
        ("GET", "/shop/", "", 200),
        ("GET", "/nowhere/", "", 204),
        ("GET", "/plain/page.html/", "", 204),
        // Only a test accepts the path without the slash, and any method.
        ("GET", "/test/plain", "", 202),
        ("GET", "/test/plain/", "", 202),
        ("POST", "/test/plain", empty, 202),
        ("GET", "/test/shop", "", 202),
        ("GET", "/test/plain/page.html", "", 201),
        ("GET", "/test/nowhere", "", 204),
        ("GET", "/list/plain/", "", 200),
        // A folder outside of the bounds does not exist.
        ("GET", "/kept/plain/", "", 204),
    ] {
        let response = site.request(method, target, fields);
        assert_eq!(response.status, status, "{method} {target}");
    }
}

/// A site whose folder is shared with these options, `WWW` standing for it.
fn bounded(share: &str) -> Site {
    let site = Site::new(1, |folder| {
        let share = share.replace("WWW", folder);
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "routes": [{{"action": {share}}}]}}"#
        )
    });
    site.write("data/index.html", "inside");
    site.write("data/deep/file", "deep");
    site.write("outside", "outside");
    site.write("data/outside", "the chroot's own");
    let link = |target: &str, name: &str| {
        let made = std::os::unix::fs::symlink(target, site.path().join(name));
        assert!(made.is_ok(), "{made:?}");
    };
    link("file", "data/deep/near");
    link("../../outside", "data/deep/up");
    link("/outside", "data/absolute");
    link("data", "linked");
    site
}

#[test]
fn links_stop_at_the_chroot() {
    // The examples of Unit's documentation, "Path restrictions".
    let site = bounded(r#"{"share": "WWW/data$uri", "chroot": "WWW/data/"}"#);
    assert_eq!(site.get("/deep/near").text(), "deep");
    assert_eq!(site.get("/absolute").text(), "the chroot's own");
    assert_eq!(site.get("/deep/up").text(), "the chroot's own");
    assert_eq!(site.get("/").text(), "inside");
    assert_eq!(site.get("/none").status, 404);
    assert_eq!(site.get("/deep").status, 301);
    let site = bounded(r#"{"share": "WWW$uri", "chroot": "WWW/data/"}"#);
    assert_eq!(site.get("/outside").status, 403);
    assert_eq!(site.get("/data/deep/file").text(), "deep");
    // Without it, links lead where they point to.
    let site = bounded(r#"{"share": "WWW/data$uri"}"#);
    assert_eq!(site.get("/deep/up").text(), "outside");
}

#[test]
fn links_can_be_forbidden() {
    let site = bounded(r#"{"share": "WWW/data$uri", "follow_symlinks": false}"#);
    assert_eq!(site.get("/deep/file").text(), "deep");
    for link in ["/deep/near", "/deep/up", "/absolute"] {
        assert_eq!(site.get(link).status, 403, "{link}");
    }
    // Applies to the whole path, but not to that of the chroot.
    let site = bounded(r#"{"share": "WWW/linked$uri", "follow_symlinks": false}"#);
    assert_eq!(site.get("/deep/file").status, 403);
    let site = bounded(
        r#"{"share": "WWW/linked$uri", "chroot": "WWW/linked/", "follow_symlinks": false}"#,
    );
    assert_eq!(site.get("/deep/file").text(), "deep");
    assert_eq!(site.get("/deep/near").status, 403);
}

#[test]
fn mounts_can_be_forbidden() {
    // `/proc` is a mount point wherever tests run. (The length of its files is 0.)
    let site = bounded(r#"{"share": "$uri", "traverse_mounts": false}"#);
    assert_eq!(site.get("/proc/version").status, 403);
    let site = bounded(r#"{"share": "$uri", "chroot": "/proc/", "traverse_mounts": false}"#);
    assert_eq!(site.get("/proc/version").status, 200);
    let site = bounded(r#"{"share": "$uri"}"#);
    assert_eq!(site.get("/proc/version").status, 200);
}

#[test]
fn a_path_within_other_bounds_is_another_one() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"query": "free"}}, "action": {{"share": "{folder}/data$uri"}}}},
                            {{"action": {{"share": "{folder}/data$uri", "follow_symlinks": false}}}}]}}"#
        )
    });
    site.write("data/file", "content");
    std::os::unix::fs::symlink("file", site.path().join("data/link")).unwrap();
    for _ in 0..40 {
        assert_eq!(site.get("/link?free").text(), "content");
        assert_eq!(site.get("/link").status, 403);
    }
}

/// Issue 10: values that Unit treats as unset were refused.
#[test]
fn empty_strings_mean_nothing() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                "routes": [
                  {{"match": {{"uri": "/index/*"}},
                    "action": {{"share": "{folder}/", "index": "", "fallback": {{"return": 410}}}}}},
                  {{"match": {{"uri": "/alone/*"}}, "action": {{"share": "{folder}/", "index": ""}}}},
                  {{"match": {{"uri": "/go"}}, "action": {{"return": 302, "location": ""}}}},
                  {{"match": {{"uri": "/to"}}, "action": {{"return": 302, "location": "$arg_to"}}}},
                  {{"action": {{"share": "{folder}$uri", "rewrite": "", "chroot": ""}}}}]}}"#
        )
    });
    site.write("a.txt", "text");
    site.write("index.html", "index");
    for (target, location) in [("/go", None), ("/to", None), ("/to?to=/a", Some("/a"))] {
        let moved = site.get(target);
        assert_eq!(
            (moved.status, moved.field("Location")),
            (302, location),
            "{target}"
        );
    }
    assert_eq!(site.get("/index/").status, 410);
    assert_eq!(site.get("/alone/").status, 404);
    assert_eq!(site.get("/a.txt").text(), "text");
    assert_eq!(site.get("/").text(), "index");
}

/// Issue 28, 3.8.
#[test]
fn a_location_is_one_uri() {
    let site = Site::new(1, |_| {
        r#"{"listeners": {"127.0.0.1:1": {"pass": "routes"}},
            "routes": [
              {"match": {"uri": "/none"}, "action": {"return": 302, "location": ""}},
              {"match": {"uri": "/999"}, "action": {"return": 999}},
              {"action": {"return": 302, "location": "/to?a=$arg_a&b=?"}}]}"#
            .to_owned()
    });
    for (target, location) in [
        ("/none", None),
        (
            "/?a=%22%3C%3E%0A%20%C3%A4%25",
            Some("/to?a=%22%3C%3E%0A%20%C3%A4%&b=?"),
        ),
        ("/?a='()", Some("/to?a='()&b=?")),
    ] {
        assert_eq!(site.get(target).field("Location"), location, "{target}");
    }
    let page = site.get("/999");
    assert_eq!(page.status, 999);
    assert!(page.text().contains("999"), "{}", page.text());
    let old = site.exchange("GET /none HTTP/1.0\r\n\r\n");
    assert!(old.contains("\r\nConnection: close\r\n"), "{old}");
}

/// CHANGES of FreeUnit 1.36.0: another file than the requested one was served.
#[test]
fn a_path_with_a_nul_is_refused() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                "routes": [
                  {{"match": {{"uri": "/chroot"}}, "action": {{"share": "{folder}/a.txt", "chroot": "{folder}$arg_file"}}}},
                  {{"action": {{"share": "{folder}/$arg_file.html"}}}}]}}"#
        )
    });
    site.write("a.txt", "text");
    assert_eq!(site.get("/?file=a.txt%00").status, 404);
    assert_eq!(site.get("/?file=a.txt").status, 404);
    assert_eq!(site.get("/chroot?file=").status, 200);
    assert_eq!(site.get("/chroot?file=%00/other").status, 404);
}

/// CHANGES of FreeUnit 1.36.2: a file that may be written again within the same second had a strong entity tag.
#[test]
fn the_tag_of_a_file_is_weak_until_its_second_is_over() {
    let site = Site::sharing("{}");
    wait_until("a file is asked for in the second it was written", || {
        site.write("a.txt", "text");
        let weak = site.get("/a.txt").field("ETag").unwrap().to_owned();
        let Some(tag) = weak.strip_prefix("W/") else {
            return false;
        };
        let condition = format!("If-Match: {tag}\r\n");
        let failed = site.request("GET", "/a.txt", &condition).status == 412;
        wait_until("the tag is strong", || {
            site.get("/a.txt").field("ETag") == Some(tag)
        });
        // Each thread looks at the file for itself, and not at every request.
        wait_until("it is strong everywhere", || {
            (0..8).all(|_| site.request("GET", "/a.txt", &condition).status == 200)
        });
        failed
    });
}

/// Issue 10: it was redirected to itself endlessly.
#[test]
fn a_share_that_is_a_directory_does_not_redirect() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "routes": [
                {{"match": {{"uri": "/back/*"}}, "action": {{"share": "{folder}", "fallback": {{"return": 204}}}}}},
                {{"match": {{"uri": "/index/*"}}, "action": {{"share": "{folder}$uri", "index": "sub"}}}},
                {{"action": {{"share": "{folder}"}}}}]}}"#
        )
    });
    std::fs::create_dir_all(site.path().join("index/sub")).unwrap();
    for target in ["/", "/a", "/a/", "/index/"] {
        let response = site.get(target);
        assert_eq!(
            (response.status, response.field("Location")),
            (404, None),
            "{target}"
        );
    }
    assert_eq!(site.get("/back/").status, 204);
    site.log
        .wait_for("is a directory; hint: end the `share` with `$uri` to serve its contents");
}

/// Issue 10: `"!IMAGE/PNG"` let a PNG through.
#[test]
fn patterns_of_types_ignore_case() {
    let site = Site::new(1, |folder| {
        let share = |types: &str| format!(r#"{{"share": "{folder}/a.png", "types": "{types}"}}"#);
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "routes": [
                {{"match": {{"uri": "/not"}}, "action": {}}}, {{"match": {{"uri": "/only"}}, "action": {}}}]}}"#,
            share("!IMAGE/PNG"),
            share("Image/*")
        )
    });
    site.write("a.png", "x");
    assert_eq!(site.get("/not").status, 403);
    assert_eq!(site.get("/only").status, 200);
    site.log.wait_for("a.png\" is of a MIME type that `types` does not allow, client 127.0.0.1, request \"GET /not HTTP/1.1\"");
}

/// Issue 10: the log did not name the missing file.
#[test]
fn a_missing_file_of_a_share_is_logged_with_its_path() {
    let site = Site::sharing("{}");
    assert_eq!(site.get("/missing/x?y").status, 404);
    let path = site.path().join("missing/x");
    site.log.wait_for(&format!(
        "Info: 404: \"{}\" does not exist, client 127.0.0.1, request \"GET /missing/x?y HTTP/1.1\"",
        path.display()
    ));
    symlink("loop", site.path().join("loop")).unwrap();
    assert_eq!(site.get("/loop").status, 403);
    site.log.wait_for("Warn: 403: \"");
    // With a fallback nothing is logged.
    let folder = site.path().to_str().unwrap();
    site.configure(&format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "routes": [
            {{"action": {{"share": "{folder}$uri", "fallback": {{"return": 204}}}}}}]}}"#
    ))
    .unwrap();
    assert_eq!(site.get("/elsewhere").status, 204);
    assert_eq!(site.log.count("elsewhere"), 0);
}

/// Issue 10, 1.10.
#[test]
fn denied_files_are_not_found_and_have_no_fallback() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/i/*"}}, "action": {{"share": "{folder}$uri", "index": "index.php", "deny": "*.php"}}}},
                            {{"match": {{"uri": "/old/*"}}, "action": {{"rewrite": "/.env", "share": "{folder}$uri", "deny": "*/.*"}}}},
                            {{"action": {{"share": "{folder}$uri", "deny": ["*/.*", "!/.well-known/*", "*.php*"],
                               "fallback": {{"return": 410}}}}}}]}}"#
        )
    });
    for name in [
        "page.html",
        ".env",
        ".git/config",
        "a/.b/c",
        ".well-known/acme",
        "config.php",
        "config.php.bak",
        "i/index.php",
        "i/a.css",
    ] {
        site.write(name, name);
    }
    for (target, status) in [
        ("/page.html", 200),
        ("/.well-known/acme", 200),
        ("/nowhere", 410),
        ("/.env", 404),
        ("/%2eenv", 404),
        ("/./.env", 404),
        ("/x/../.env", 404),
        ("//.env", 404),
        ("/.git/config", 404),
        ("/.git", 404),
        ("/a/.b/c", 404),
        ("/.nowhere", 404),
        ("/config.php", 404),
        ("/config.ph%70", 404),
        ("/config.php.bak", 404),
        // The index file is denied by its own name.
        ("/i/", 404),
        ("/i/a.css", 200),
        ("/old/x", 404),
    ] {
        assert_eq!(site.get(target).status, status, "{target}");
    }
    for method in ["HEAD", "POST", "DELETE"] {
        assert_eq!(site.request(method, "/.env", "").status, 404, "{method}");
    }
}

/// Issue 13, 10: Apache's `Alias`.
#[test]
fn a_share_stands_at_its_prefix() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/icons*"}}, "action": {{"share": ["{folder}/none$uri", "{folder}/apache$uri"],
                               "prefix": "/icons/", "deny": "/icons/secret*", "fallback": {{"return": 410}}}}}},
                            {{"match": {{"uri": "/moved/*"}}, "action": {{"rewrite": "/new$uri", "prefix": "/new/moved", "share": "{folder}/apache$uri"}}}},
                            {{"match": {{"uri": "/held/*"}}, "action": {{"prefix": "/held", "share": "{folder}/apache$uri", "chroot": "{folder}/apache/"}}}},
                            {{"match": {{"uri": "/chosen/*"}}, "action": {{"prefix": "/chosen", "share": "{folder}/$arg_in$uri"}}}},
                            {{"action": {{"share": "{folder}/apache$uri", "prefix": "/other"}}}}]}}"#
        )
    });
    for name in ["a.gif", "index.html", "small/b.gif", "secret.gif"] {
        site.write(&format!("apache/{name}"), name);
    }
    for (path, expected) in [
        ("/icons/a.gif", (200, "a.gif")),
        ("/icons/", (200, "index.html")),
        ("/icons/small/b.gif", (200, "small/b.gif")),
        ("/moved/a.gif", (200, "a.gif")),
        ("/held/a.gif", (200, "a.gif")),
        ("/chosen/a.gif?in=apache", (200, "a.gif")),
        ("/other/a.gif", (200, "a.gif")),
    ] {
        let response = site.get(path);
        assert_eq!((response.status, &*response.text()), expected, "{path}");
    }
    for (path, status, location) in [
        ("/icons", 301, Some("/icons/")),
        ("/icons/small?a=b", 301, Some("/icons/small/?a=b")),
        ("/icons/none.gif", 410, None),
        ("/icons.gif", 410, None),
        ("/iconsa.gif", 410, None),
        ("/icons/secret.gif", 404, None),
        ("/a.gif", 404, None),
    ] {
        let response = site.get(path);
        assert_eq!(
            (response.status, response.field("Location")),
            (status, location),
            "{path}"
        );
    }
    site.log
        .wait_for("Info: 404: is not below the `prefix` \"/other\", client 127.0.0.1");
}
