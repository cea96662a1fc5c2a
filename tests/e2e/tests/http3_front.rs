//! Strangers of HTTP/3 before the cache and the guards: requests whose end comes late or that have a body where none should be, fields that
//! make another request of one, answers that lead round in a circle, and users that only the client has made up.

#[path = "cache/origin.rs"]
mod origin;

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use origin::{Origin, answer, field};
use serde_json::{Value, json};
use tutti_e2e::http3_raw::{DATA, Field, HEADERS, Raw, RawResponse, frame, head, section};
use tutti_e2e::http3_site::{self, run};
use tutti_testkit::{Server, client};

/// An origin that puts into its answer whatever it may have believed.
fn believer() -> Origin {
    Origin::start(|head| {
        let believed: String = head.lines().skip(1).collect::<Vec<_>>().join(" ");
        let fields = "Cache-Control: public, max-age=600\r\nVary: X-Variant\r\n";
        answer(200, fields, &believed)
    })
}

/// A server, and the address where it speaks without TLS.
struct Site {
    server: Server,
    plain: SocketAddr,
}

/// A server that speaks all versions of HTTP.
fn speaking(routes: &Value, settings: &Value) -> Site {
    let server = http3_site::bare();
    let mut settings = settings.clone();
    settings["http"] = json!({"discard_unsafe_fields": false});
    let plain = tutti_testkit::free_port();
    let mut listeners = http3_site::listeners(&server, "routes/main", &json!(true));
    listeners[format!("127.0.0.1:{plain}")] = json!({"pass": "routes/main"});
    server.put(
        "/config",
        &json!({"listeners": listeners, "routes": routes, "settings": settings}),
    );
    Site {
        server,
        plain: ([127, 0, 0, 1], plain).into(),
    }
}

fn cache_status(answer: &RawResponse) -> &str {
    answer.fields.get("cache-status").map_or("", String::as_str)
}

fn cached(origin: &Origin) -> Site {
    let routes = json!({"main": [{"action": {"proxy": origin.url(), "cache": "pages"}}]});
    speaking(&routes, &json!({"cache": {"pages": {}}}))
}

/// Sends a request whose stream ends a good while after its head.
async fn ends_late(raw: &Raw, path: &str, body: &[u8]) -> RawResponse {
    let (mut sending, receiving) = raw.quic.open_bi().await.unwrap();
    sending
        .write_all(&frame(HEADERS, &section(&head("GET", path, &[]))))
        .await
        .unwrap();
    // The server has the head when it answers what comes behind it.
    assert_eq!(raw.get("/before", &[]).await.status(), 200);
    if !body.is_empty() {
        sending.write_all(&frame(DATA, body)).await.unwrap();
    }
    sending.finish().unwrap();
    Raw::outcome(receiving).await.answered()
}

/// A GET of which more may follow is one with a body: no key has what is in it, so it neither gets a kept answer nor leaves one.
#[test]
fn a_get_that_may_have_a_body_passes_the_cache_by() {
    let origin = believer();
    let site = cached(&origin);
    run(async {
        let raw = Raw::connect(site.server.port()).await;
        // Kept before, so that a hit differs from the origin's own response.
        for path in ["/late", "/fat", "/zero"] {
            assert!(cache_status(&raw.get(path, &[]).await).contains("stored"));
            assert!(cache_status(&raw.get(path, &[]).await).contains("hit"));
        }
        let before = origin.count();
        let answer = ends_late(&raw, "/late", b"").await;
        assert!(cache_status(&answer).contains("fwd=bypass"), "{answer:?}");
        let answer = ends_late(&raw, "/fat", b"evil").await;
        assert!(cache_status(&answer).contains("fwd=bypass"), "{answer:?}");
        // All of it at once, with its length and without.
        for length in [&[][..], &[(&b"content-length"[..], &b"4"[..])]] {
            let answer = raw
                .send(&head("GET", "/fat", length), Some(b"evil"), &[])
                .await
                .answered();
            assert!(cache_status(&answer).contains("fwd=bypass"), "{answer:?}");
        }
        // Those that are not kept before are not kept then either.
        ends_late(&raw, "/new", b"evil").await;
        assert!(cache_status(&raw.get("/new", &[]).await).contains("fwd=uri-miss"));
        let heads = origin.heads();
        let of_bodies = heads[before..].iter().filter(|head| {
            field(head, "transfer-encoding").is_some() || field(head, "content-length").is_some()
        });
        assert_eq!(of_bodies.count(), 4, "{heads:#?}");
        // A length of nothing is as good as none: it ends with its head, whenever its stream does.
        let nothing = [(&b"content-length"[..], &b"0"[..])];
        let answer = raw.get("/zero", &nothing).await;
        assert!(cache_status(&answer).contains("hit"), "{answer:?}");
    });
    by_older_versions(&site, &origin);
}

/// The same of HTTP/1 and 2, with what HTTP/3 has had kept.
fn by_older_versions(site: &Site, origin: &Origin) {
    let request = |target: &str, fields: &str, body: &str| {
        let text = format!(
            "GET {target} HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n{fields}\r\n{body}"
        );
        let reply = client::request(site.plain, text.as_bytes()).unwrap();
        reply.field("cache-status").unwrap_or_default().to_owned()
    };
    // The scheme is part of the key.
    assert!(request("/fat", "", "").contains("stored"));
    assert!(request("/fat", "", "").contains("hit"));
    let chunked = "Transfer-Encoding: chunked\r\n";
    for body in ["4\r\nevil\r\n0\r\n\r\n", "0\r\n\r\n"] {
        let told = request("/fat", chunked, body);
        assert!(told.contains("fwd=bypass"), "{told}");
    }
    assert!(request("/fat", "", "").contains("hit"));
    let file = site.server.write("body", "evil");
    let url = format!("https://127.0.0.1:{}/fat", site.server.port());
    let by_curl = |version: &str, more: &[&str]| {
        let mut arguments = vec![
            "-sSki",
            version,
            "--max-time",
            "60",
            "-X",
            "GET",
            "-H",
            "Host: site.example",
        ];
        arguments.extend_from_slice(more);
        let output = Command::new("curl")
            .args(&arguments)
            .arg(&url)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(by_curl("--http2", &[]).contains("Tutti; hit"));
    let data = format!("@{}", file.display());
    let before = origin.count();
    for more in [
        &["--data-binary", &data][..],
        &["--data-binary", &data, "-H", "Transfer-Encoding: chunked"],
        &["-T", file.to_str().unwrap(), "-H", "Content-Length:"],
    ] {
        let answer = by_curl("--http2", more);
        assert!(answer.contains("fwd=bypass"), "{more:?}: {answer}");
    }
    assert_eq!(origin.count(), before + 3);
    assert!(by_curl("--http2", &[]).contains("Tutti; hit"));
}

/// Frames of HTTP/2 by hand, as no client of others leaves the end of a GET for later.
#[test]
fn a_get_of_http2_that_ends_late_passes_the_cache_by() {
    use std::io::{Read, Write};
    let origin = believer();
    let site = cached(&origin);
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes
    };
    // GET, http, and the authority and path as they are (RFC 7541).
    let block = |path: &str| {
        let mut block = b"\x82\x86\x41\x0csite.example\x44".to_vec();
        block.push(path.len() as u8);
        block.extend_from_slice(path.as_bytes());
        block
    };
    let mut stream = std::net::TcpStream::connect(site.plain).unwrap();
    stream
        .set_read_timeout(Some(tutti_testkit::PATIENCE))
        .unwrap();
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap();
    stream.write_all(&frame(4, 0, 0, b"")).unwrap();
    let until = |stream: &mut std::net::TcpStream, id: u32| {
        // Until the end of this stream.
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            stream.read_exact(&mut payload).unwrap();
            let of = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            // Its end, or the answer to a PING.
            let is_end = head[4] & 1 == 1 && matches!((id, head[3]), (0, 6) | (1.., 0 | 1));
            if of == id && is_end {
                return;
            }
        }
    };
    // Kept, by a request that ends with its head.
    stream.write_all(&frame(1, 5, 1, &block("/late"))).unwrap();
    until(&mut stream, 1);
    stream.write_all(&frame(1, 5, 3, &block("/late"))).unwrap();
    until(&mut stream, 3);
    assert_eq!(origin.count(), 1);
    for (id, body) in [(5, &b""[..]), (7, b"evil")] {
        stream.write_all(&frame(1, 4, id, &block("/late"))).unwrap();
        // The server has the head when it answers what comes behind it.
        stream.write_all(&frame(6, 0, 0, b"whatever")).unwrap();
        until(&mut stream, 0);
        stream.write_all(&frame(0, 1, id, body)).unwrap();
        until(&mut stream, id);
    }
    assert_eq!(origin.count(), 3);
    let last = origin.heads().pop().unwrap();
    assert_eq!(
        field(&last, "content-length").as_deref(),
        Some("4"),
        "{last}"
    );
    stream.write_all(&frame(1, 5, 9, &block("/late"))).unwrap();
    until(&mut stream, 9);
    assert_eq!(origin.count(), 3, "kept as it was");
}

/// Nothing that one client says beside the target is in an answer that another gets.
#[test]
fn no_client_puts_something_into_what_others_get_over_http3() {
    let origin = believer();
    let Site { server, .. } = cached(&origin);
    run(async {
        let raw = Raw::connect(server.port()).await;
        let evil: [Field<'_>; 12] = [
            (b"x-forwarded-host", b"evil"),
            (b"x_forwarded_host", b"evil"),
            (b"x.forwarded.host", b"evil"),
            (b"x-original-url", b"/evil"),
            (b"x-rewrite-url", b"/evil"),
            (b"x-http-method-override", b"evil"),
            (b"x_http_method_override", b"evil"),
            (b"x-http-method", b"evil"),
            (b"x.method.override", b"evil"),
            (b"x-forwarded-proto", b"evil"),
            (b"forwarded", b"host=evil"),
            (b"x-variant", b"evil"),
        ];
        for (number, spoof) in evil.into_iter().enumerate() {
            let path = format!("/{number}");
            raw.get(&path, &[spoof]).await;
            // Another first, so that there is nothing better to be had.
            let mine = raw.get(&path, &[]).await;
            assert!(!mine.text().contains("evil"), "{spoof:?}: {}", mine.text());
        }
        // Each value of what an answer varies by has its own.
        for _ in 0..2 {
            for value in [&b"one"[..], b"two", b"", b"one, two"] {
                let mine = raw.get("/vary", &[(b"x-variant", value)]).await;
                let expected = format!("x-variant: {}", String::from_utf8_lossy(value));
                assert!(mine.text().contains(&expected), "{}", mine.text());
            }
        }
        let before = origin.count();
        let again = raw.get("/vary", &[(b"x-variant", b"two")]).await;
        assert!(cache_status(&again).contains("hit"), "{again:?}");
        // Two lines are what one with both is (RFC 9110 §5.3), and not the first of them.
        let lines: [Field<'_>; 2] = [(b"x-variant", b"one"), (b"x-variant", b"two")];
        let both = raw.get("/vary", &lines).await;
        assert!(both.text().contains("one, two"), "{}", both.text());
        assert_eq!(origin.count(), before);
        // However many a client says, few are kept.
        for number in 0..200 {
            let value = number.to_string();
            raw.get("/many", &[(b"x-variant", value.as_bytes())]).await;
        }
    });
    let entries = server.status("/cache/pages/entries").as_u64().unwrap();
    assert!(entries <= 100, "{entries}");
}

/// Answers that lead to an answer that leads on come to an end, also when they are in the cache.
#[test]
fn answers_that_lead_in_a_circle_end_over_http3() {
    let origin = Origin::start(|head| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let fields = match target {
            "/loop" | "/again/loop" => {
                "X-Accel-Redirect: /again/loop\r\nCache-Control: max-age=600\r\n"
            }
            "/climb" => "X-Accel-Redirect: /again/../secret\r\n",
            _ => "",
        };
        answer(200, fields, "origin")
    });
    let inner =
        json!({"proxy": origin.url(), "cache": "pages", "internal": {"/again/": "routes/inner"}});
    let routes = json!({
        "main": [{"action": inner}],
        "inner": [{"match": {"uri": "/again/*"}, "action": inner}]
    });
    let Site { server, .. } = speaking(&routes, &json!({"cache": {"pages": {}}}));
    run(async {
        let raw = Raw::connect(server.port()).await;
        for _ in 0..2 {
            let circle = raw.get("/loop", &[]).await;
            assert!(circle.status() >= 500, "{circle:?}");
            let climbed = raw.get("/climb", &[]).await;
            assert!(climbed.status() >= 500, "{climbed:?}");
        }
        assert_eq!(raw.get("/plain", &[]).await.text(), "origin");
        // A client says nothing of the kind.
        let mine = raw
            .get(
                "/mine",
                &[
                    (b"x-accel-redirect", b"/again/loop"),
                    (b"x-sendfile", b"/etc/passwd"),
                ],
            )
            .await;
        assert_eq!(mine.text(), "origin");
    });
    assert!(origin.count() <= 40, "{} requests", origin.count());
}

fn base64(bytes: &[u8]) -> String {
    let output = openssl(&["base64", "-A"], bytes);
    let text = String::from_utf8(output).unwrap();
    text.trim_end_matches('=')
        .replace('+', "-")
        .replace('/', "_")
}

fn openssl(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut child = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "openssl {arguments:?}");
    output.stdout
}

/// A token of this user.
fn token(secret: &str, user: &str) -> String {
    let head = base64(br#"{"alg":"HS256","typ":"JWT"}"#);
    let claims = base64(
        json!({"sub": user, "exp": 4_000_000_000_u64})
            .to_string()
            .as_bytes(),
    );
    let text = format!("{head}.{claims}");
    let key = format!("key:{secret}");
    let signature = openssl(
        &[
            "dgst", "-sha256", "-mac", "HMAC", "-macopt", &key, "-binary",
        ],
        text.as_bytes(),
    );
    format!("Bearer {text}.{}", base64(&signature))
}

/// Fields that a token's guard and a server that is asked have set come from no client, by whatever name an interface would know them.
#[test]
fn users_come_from_guards_alone_over_http3() {
    let origin = Origin::start(|head| answer(200, "", head));
    let door = Origin::start(|head| match field(head, "cookie").as_deref() {
        Some("in") => answer(200, "X-User: anna\r\n", ""),
        Some("nobody") => answer(200, "", ""),
        _ => answer(403, "", ""),
    });
    let server = http3_site::bare();
    let secret = "0123456789abcdef0123456789abcdef";
    let key = server.write("secret", secret);
    let jwt =
        json!({"jwt": {"algorithms": ["HS256"], "key_file": key, "fields": {"X-User": "sub"}}});
    let forward = json!({"forward": {"pass": "upstreams/door", "uri": "/verify", "copy": ["X-User"], "user_field": "X-User"}});
    let proxy = |guard: &Value| json!({"proxy": origin.url(), "authenticate": guard});
    let address = door.url().replace("http://", "");
    server.put(
        "/config",
        &json!({
            "listeners": http3_site::listeners(&server, "routes", &json!(true)),
            "upstreams": {"door": {"servers": {address: {}}}},
            "routes": [
                {"match": {"uri": "/jwt"}, "action": proxy(&jwt)},
                {"match": {"uri": "/forward"}, "action": proxy(&forward)},
                // Without a guard of its own: no client may set the fields of guards elsewhere.
                {"action": {"proxy": origin.url()}}
            ],
            "settings": {"http": {"discard_unsafe_fields": false}}
        }),
    );
    let right = token(secret, "anna");
    let wrong = token("another secret, of another server", "root");
    run(async {
        let raw = Raw::connect(server.port()).await;
        for spoof in [&b"x-user"[..], b"x_user", b"x.user"] {
            let spoof = (spoof, &b"root"[..]);
            let cases: [(&str, Field<'_>, u16, bool); 6] = [
                ("/jwt", (b"authorization", right.as_bytes()), 200, true),
                ("/jwt", (b"authorization", wrong.as_bytes()), 401, false),
                ("/jwt", (b"x-kept", b"1"), 401, false),
                ("/forward", (b"cookie", b"in"), 200, true),
                ("/forward", (b"cookie", b"nobody"), 200, false),
                ("/forward", (b"cookie", b"out"), 403, false),
            ];
            for (path, shown, status, is_known) in cases {
                for fields in [[shown, spoof], [spoof, shown]] {
                    let answer = raw.get(path, &fields).await;
                    let said = answer.text();
                    assert_eq!(answer.status(), status, "{path} {fields:?}: {said}");
                    assert!(!said.contains("root"), "{path} {fields:?}: {said}");
                    assert_eq!(said.contains("X-User: anna"), is_known, "{path}: {said}");
                }
            }
            let answer = raw.get("/open", &[spoof, (b"x-kept", b"1")]).await;
            let said = answer.text();
            assert!(
                said.contains("x-kept: 1") && !said.contains("root"),
                "{said}"
            );
        }
        assert!(door.heads().iter().all(|head| !head.contains("root")));
    });
}
