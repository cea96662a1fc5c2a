//! Large responses in slices.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tutti_testkit::wait_until;

use super::origin::{Origin, answer, field};
use super::{cache_status, caching, get, is_hit, send, with_store};

const SLICE: usize = 1024;

/// A body of which each part is different.
fn body(length: usize, version: usize) -> String {
    let mut body = String::new();
    while body.len() < length {
        body.push_str(&format!("{version}-{} ", body.len()));
    }
    body.truncate(length);
    body
}

/// Answers with the part of `body` that a request wants.
fn part(head: &str, body: &str, fields: &str) -> String {
    let Some(range) = field(head, "range") else {
        return answer(200, fields, body);
    };
    let (first, last) = range
        .strip_prefix("bytes=")
        .and_then(|range| range.split_once('-'))
        .unwrap();
    let total = body.len();
    let (first, last) = match first.parse::<usize>() {
        Ok(first) => (first, last.parse().unwrap_or(total).min(total - 1)),
        Err(_) => (total - last.parse::<usize>().unwrap(), total - 1),
    };
    if first >= total {
        return answer(416, &format!("Content-Range: bytes */{total}\r\n"), "");
    }
    let fields = format!("Content-Range: bytes {first}-{last}/{total}\r\n{fields}");
    answer(206, &fields, &body[first..=last])
}

fn ranges(origin: &Origin) -> Vec<String> {
    let heads = origin.heads();
    let range = |head: &String| field(head, "range").unwrap_or_default();
    heads.iter().map(range).collect()
}

const FIELDS: &str = "Cache-Control: max-age=600\r\nETag: \"a\"\r\nContent-Type: text/plain\r\n";

fn slicing() -> serde_json::Value {
    json!({"store": "pages", "slice": SLICE})
}

#[test]
fn a_large_response_is_fetched_and_stored_in_slices() {
    let whole = body(2500, 1);
    let origin = Origin::start({
        let whole = whole.clone();
        move |head| part(head, &whole, FIELDS)
    });
    let server = caching(&origin, &slicing());
    let first = get(&server, "/x");
    assert_eq!((first.status, first.text()), (200, whole.clone()));
    assert_eq!(first.field("content-length"), Some("2500"));
    assert_eq!(first.field("content-range"), None);
    assert!(
        cache_status(&first).starts_with("Tutti; fwd=uri-miss; stored"),
        "{}",
        cache_status(&first)
    );
    let all = ["bytes=0-1023", "bytes=1024-2047", "bytes=2048-3071"];
    assert_eq!(ranges(&origin), all);
    let second = get(&server, "/x");
    assert!(is_hit(&second) && second.text() == whole);
    for (fields, status, range, text) in [
        (
            "Range: bytes=1000-1100",
            206,
            "bytes 1000-1100/2500",
            &whole[1000..1101],
        ),
        (
            "Range: bytes=-10",
            206,
            "bytes 2490-2499/2500",
            &whole[2490..],
        ),
        (
            "Range: bytes=2047-",
            206,
            "bytes 2047-2499/2500",
            &whole[2047..],
        ),
        ("Range: bytes=0-1\r\nIf-Range: \"b\"", 200, "", &whole),
        (
            "Range: bytes=0-1\r\nIf-Range: \"a\"",
            206,
            "bytes 0-1/2500",
            &whole[..2],
        ),
        ("If-None-Match: \"a\"", 304, "", ""),
    ] {
        let reply = send(&server, "GET", "/x", &format!("{fields}\r\n"));
        assert_eq!(
            (reply.status, reply.text().as_str()),
            (status, text),
            "{fields}"
        );
        assert_eq!(
            reply.field("content-range").unwrap_or_default(),
            range,
            "{fields}"
        );
    }
    assert_eq!(ranges(&origin), all, "all came from the cache");
    // The origin says that there is no such part.
    let none = send(&server, "GET", "/x", "Range: bytes=9000-\r\n");
    assert_eq!(
        (none.status, none.field("content-range")),
        (416, Some("bytes */2500"))
    );
    // Only the slices that a client wants are fetched.
    let before = origin.count();
    let middle = send(&server, "GET", "/y", "Range: bytes=1500-2100\r\n");
    assert_eq!(
        (middle.status, middle.text().as_str()),
        (206, &whole[1500..2101])
    );
    assert_eq!(ranges(&origin)[before..], all[1..]);
    // A purge removes all slices.
    let path = "/control/cache/pages/keys/http%3A%2F%2Fa.example%2Fx";
    let purged = server.call("DELETE", path, &json!(null));
    assert!(
        purged.text().contains("3 responses purged"),
        "{}",
        purged.text()
    );
}

#[test]
fn a_server_that_ignores_ranges_is_used_as_without_slices() {
    let origin = Origin::start(|_| answer(200, FIELDS, &body(3000, 1)));
    let server = caching(&origin, &slicing());
    assert_eq!(get(&server, "/").text(), body(3000, 1));
    let second = get(&server, "/");
    assert!(is_hit(&second) && second.text() == body(3000, 1));
    let part = send(&server, "GET", "/", "Range: bytes=0-9\r\n");
    assert_eq!(
        (part.status, part.text().as_str()),
        (206, &body(3000, 1)[..10])
    );
    assert_eq!(ranges(&origin), ["bytes=0-1023", ""]);
}

#[test]
fn what_may_not_be_stored_is_forwarded() {
    let origin = Origin::start(|head| part(head, &body(3000, 1), "Cache-Control: private\r\n"));
    let server = caching(&origin, &slicing());
    for _ in 0..2 {
        assert_eq!(get(&server, "/").text(), body(3000, 1));
    }
    let two = send(&server, "GET", "/", "Range: bytes=5-9\r\n");
    assert_eq!(
        (two.status, two.text().as_str()),
        (206, &body(3000, 1)[5..10])
    );
    assert_eq!(server.status("/cache/pages/entries"), json!(0));
    // A request with an HTTP condition about the origin's state, or for several parts, goes to the origin as it is.
    let several = send(
        &server,
        "GET",
        "/",
        "Range: bytes=0-1\r\nIf-Match: \"a\"\r\n",
    );
    assert_eq!((several.status, several.text().as_str()), (206, "1-"));
}

/// Two versions of one length could be mixed otherwise.
#[test]
fn a_response_without_a_validator_is_not_sliced() {
    for fields in [
        "Cache-Control: max-age=600\r\n",
        "Cache-Control: max-age=600\r\nETag: W/\"a\"\r\n",
    ] {
        let origin = Origin::start(move |head| part(head, &body(3000, 1), fields));
        let server = caching(&origin, &slicing());
        assert_eq!(get(&server, "/").text(), body(3000, 1));
        assert_eq!(ranges(&origin), ["bytes=0-1023", ""], "{fields}");
        assert!(is_hit(&get(&server, "/")));
    }
}

#[test]
fn a_response_that_changes_meanwhile_is_cut_off_and_fetched_anew() {
    let version = Arc::new(AtomicUsize::new(1));
    let origin = Origin::start({
        let version = Arc::clone(&version);
        move |head| {
            let version = version.load(Ordering::Relaxed);
            let fields = format!("Cache-Control: max-age=600\r\nETag: \"{version}\"\r\n");
            part(head, &body(3000, version), &fields)
        }
    });
    let server = caching(&origin, &slicing());
    let start = send(&server, "GET", "/", "Range: bytes=0-9\r\n");
    assert_eq!(start.text(), body(3000, 1)[..10]);
    version.store(2, Ordering::Relaxed);
    let text = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let cut = tutti_testkit::client::request(server.address(), text.as_bytes());
    assert!(cut.is_err() || cut.unwrap().text().len() == SLICE);
    wait_until("the reason is logged", || {
        server.log().contains(
            "a response is cut off at byte 1024: the file changed after its beginning was stored",
        )
    });
    assert_eq!(get(&server, "/").text(), body(3000, 2));
}

/// A slice that may not be stored after others have been sent cost the client the rest of the response.
#[test]
fn the_rest_is_passed_on_from_the_first_slice_that_may_not_be_stored() {
    let fields = |head: &str| match field(head, "range").unwrap_or_default().as_str() {
        "bytes=0-1023" | "bytes=1024-2047" => FIELDS.to_owned(),
        _ => FIELDS.replace("max-age=600", "private"),
    };
    let whole = body(9000, 1);
    let origin = Origin::start({
        let whole = whole.clone();
        move |head| part(head, &whole, &fields(head))
    });
    let server = caching(&origin, &slicing());
    for _ in 0..2 {
        let reply = get(&server, "/");
        assert_eq!((reply.status, reply.text()), (200, whole.clone()));
        assert_eq!(reply.field("content-length"), Some("9000"));
    }
    let part = send(&server, "GET", "/", "Range: bytes=1000-8000\r\n");
    assert_eq!(
        (part.status, part.text().as_str()),
        (206, &whole[1000..=8000])
    );
    let all = ranges(&origin);
    assert_eq!(
        all[..4],
        [
            "bytes=0-1023",
            "bytes=1024-2047",
            "bytes=2048-3071",
            "bytes=2048-8999"
        ]
    );
    assert_eq!(all.last().unwrap(), "bytes=2048-8000");
    assert_eq!(server.status("/cache/pages/entries"), json!(2));
    let url = format!("http://{}/", server.address());
    let curl = Command::new("curl")
        .args([
            "--silent",
            "--fail",
            "--http2-prior-knowledge",
            "--header",
            "Host: a.example",
            &url,
        ])
        .output()
        .unwrap();
    assert!(curl.status.success() && curl.stdout == whole.as_bytes());
}

/// A server that ignores `Range` sends the whole file, of which the client has the beginning.
#[test]
fn the_rest_is_taken_from_a_whole_response() {
    let whole = body(300_000, 1);
    let has_ranges = Arc::new(AtomicUsize::new(1));
    let origin = Origin::start({
        let (whole, has_ranges) = (whole.clone(), Arc::clone(&has_ranges));
        move |head| match has_ranges.load(Ordering::Relaxed) {
            0 => answer(200, FIELDS, &whole),
            _ => part(head, &whole, FIELDS),
        }
    });
    let server = caching(&origin, &slicing());
    let start = send(&server, "GET", "/", "Range: bytes=0-9\r\n");
    assert_eq!(start.text(), whole[..10]);
    has_ranges.store(0, Ordering::Relaxed);
    assert_eq!(get(&server, "/").text(), whole);
    let part = send(&server, "GET", "/", "Range: bytes=1000-2000\r\n");
    assert_eq!(part.text(), whole[1000..=2000]);
}

/// Bytes of another version, of another position, or of a failing server never follow the beginning.
#[test]
fn the_rest_of_another_version_or_none_at_all_cuts_the_response_off() {
    let private = "Cache-Control: private\r\nETag: \"a\"\r\n";
    type Answers = fn(&str) -> String;
    let answers: [(&str, Answers); 6] = [
        ("an error", |_| answer(500, "", "failed")),
        ("another version", |head| {
            part(
                head,
                &body(3000, 2),
                "Cache-Control: private\r\nETag: \"b\"\r\n",
            )
        }),
        ("a whole one of another length", |_| {
            answer(200, "ETag: \"a\"\r\n", &body(2999, 1))
        }),
        ("another part", |_| {
            answer(
                206,
                "ETag: \"a\"\r\nContent-Range: bytes 0-1975/3000\r\n",
                &body(1976, 1),
            )
        }),
        ("a short part", |_| {
            answer(
                206,
                "ETag: \"a\"\r\nContent-Range: bytes 1024-2999/3000\r\n",
                "short",
            )
        }),
        ("no part", |_| {
            answer(416, "ETag: \"a\"\r\nContent-Range: bytes */3000\r\n", "")
        }),
    ];
    for (what, rest) in answers {
        let origin =
            Origin::start(
                move |head| match field(head, "range").unwrap_or_default().as_str() {
                    "bytes=0-1023" => part(head, &body(3000, 1), FIELDS),
                    "bytes=1024-2047" => part(head, &body(3000, 1), private),
                    _ => rest(head),
                },
            );
        let server = caching(&origin, &slicing());
        let text = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
        let cut = tutti_testkit::client::request(server.address(), text.as_bytes()).unwrap();
        assert!(!cut.is_whole, "{what}");
        assert!(body(3000, 1).starts_with(&cut.text()), "{what}");
        wait_until("the reason is logged", || {
            server
                .log()
                .contains("a response is cut off at byte 1024: the ")
        });
    }
}

#[test]
fn clients_of_one_slice_share_its_fetch() {
    let origin = Origin::start(|head| part(head, &body(20_000, 1), FIELDS));
    let server = caching(&origin, &slicing());
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| get(&server, "/"))).collect();
        for one in all {
            assert_eq!(one.join().unwrap().text(), body(20_000, 1));
        }
    });
    assert_eq!(origin.count(), 20, "{:?}", ranges(&origin));
}

#[test]
fn a_slice_fits_the_store() {
    let (status, text) = with_store(
        &json!({"store": "pages", "slice": "2M"}),
        &json!({"pages": {}}),
    );
    assert_eq!(status, 400);
    assert!(
        text.contains(
            "`slice` is 2097152 bytes, but the store `pages` accepts only responses of up to 1048576 bytes"
        ),
        "{text}"
    );
}
