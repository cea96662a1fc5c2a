//! Where request bodies are kept that are too large for memory.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::path::Path;
use std::thread;

use serde_json::{Value, json};
use tutti_testkit::{Server, ServerOptions, client, wait_until};

/// More than stays in memory, and than a socket takes at once.
const BODY: usize = 3 << 20;

/// Files without a name that the router has in a folder.
fn unnamed(server: &Server, folder: &Path) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", server.router())).unwrap();
    let names = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let mut found: Vec<_> = names
        .filter(|path| path.starts_with(folder) && path.to_string_lossy().ends_with(" (deleted)"))
        .collect();
    // Each is open twice: for writing, and for reading.
    found.sort();
    found.dedup();
    found.len()
}

fn post(server: &Server, target: &str) -> client::Reply {
    let mut request = format!(
        "POST {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {BODY}\r\n\r\n"
    )
    .into_bytes();
    request.extend((0..BODY).map(|at| b'a' + u8::try_from(at % 23).unwrap()));
    client::request(server.address(), &request).unwrap()
}

/// Answers each request with the length of its body.
fn backend() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = Vec::new();
            let mut buffer = vec![0; 65536];
            let body = loop {
                let head = bytes.windows(4).position(|four| four == b"\r\n\r\n");
                let length = head.map_or(0, |end| bytes.len() - end - 4);
                if length == BODY {
                    break length;
                }
                match stream.read(&mut buffer).unwrap() {
                    0 => break length,
                    read => bytes.extend_from_slice(buffer.get(..read).unwrap()),
                }
            };
            let text = body.to_string();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                text.len()
            );
            stream.write_all(answer.as_bytes()).unwrap();
            let _ = stream.shutdown(Shutdown::Write);
        }
    });
    format!("http://{address}")
}

fn configuration(server: &Server, backend: &str, folder: &Path) -> Value {
    json!({
        "listeners": {server.address().to_string(): {"pass": "routes"}},
        "settings": {"http": {"body_temp_path": folder}},
        "routes": [
            {"match": {"uri": "/proxy"}, "action": {"proxy": backend}},
            {"action": {"pass": "applications/php"}}
        ],
        "applications": {
            "php": {"type": "php", "root": server.folder().join("www"), "script": "index.php", "processes": 1}
        }
    })
}

#[test]
fn large_bodies_are_kept_in_the_folder_that_is_configured() {
    let mut server = Server::start(&ServerOptions::default());
    server.write(
        "www/index.php",
        "<?php echo strlen(file_get_contents('php://input'));",
    );
    let backend = backend();
    // The router, which is `nobody` where the server is root's, may not write there.
    let first = server.folder().join("first");
    fs::create_dir(&first).unwrap();
    server.put("/config", &configuration(&server, &backend, &first));
    // One of the application and one of the proxied requests, and one for answers that clients do not take.
    assert_eq!(unnamed(&server, &first), 3);
    for target in ["/", "/proxy"] {
        let reply = post(&server, target);
        assert_eq!(
            (reply.status, reply.text()),
            (200, BODY.to_string()),
            "{target}"
        );
    }
    // Another folder is in use with the answer to the change, and the first one is left.
    let second = server.folder().join("second");
    fs::create_dir(&second).unwrap();
    server.put("/config", &configuration(&server, &backend, &second));
    assert_eq!(unnamed(&server, &second), 3);
    wait_until("nothing is kept in the first folder", || {
        unnamed(&server, &first) == 0
    });
    for target in ["/", "/proxy"] {
        let reply = post(&server, target);
        assert_eq!(
            (reply.status, reply.text()),
            (200, BODY.to_string()),
            "{target}"
        );
    }
    // A folder that is not there changes nothing.
    let third = server.folder().join("third");
    let refused = server.call("PUT", "/config", &configuration(&server, &backend, &third));
    assert_eq!(refused.status, 500, "{}", refused.text());
    let said = refused.text();
    assert!(
        said.contains("/settings/http/body_temp_path") && said.contains("the folder must exist"),
        "{said}"
    );
    assert_eq!(post(&server, "/").text(), BODY.to_string());
    // Nor does one that has gone keep the rest from being served after a start.
    fs::remove_dir(&second).unwrap();
    server.start_again(&ServerOptions::default());
    wait_until("it serves again", || {
        client::get(server.address(), "/").is_ok()
    });
    let problems = server.status("/problems").to_string();
    assert!(problems.contains("body_temp_path"), "{problems}");
    assert_eq!(post(&server, "/").text(), BODY.to_string());
}
