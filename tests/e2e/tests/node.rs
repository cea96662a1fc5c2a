//! Node.js applications: what they see of a request, how they listen, start and end.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::external::source;
use tutti_e2e::node::NodeSite;
use tutti_sys::signal;
use tutti_testkit::files::copy;
use tutti_testkit::{client, free_port, guide, processes, skip, wait_until};

/// A client that says who it is, in the field of the relay and in others.
const FORGED: &str = "Tutti-Client: 6.6.6.6 6 7.7.7.7 443 1\r\ntutti-client: 6.6.6.6 6 7.7.7.7 443 1\r\nX-Forwarded-For: 6.6.6.6\r\n";

#[test]
fn a_request_is_the_clients_and_not_the_relays() {
    let site = NodeSite::start(&json!({"processes": 1}));
    let mut stream = site.connect();
    let port = stream.local_addr().unwrap().port();
    let request = format!(
        "POST /told?a=%20b HTTP/1.1\r\nHost: test\r\nX-Own: a\r\nX-Own: b\r\nConnection: close\r\n{FORGED}Content-Length: 4\r\n\r\nbody"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let seen = client::Client::of(stream).response("POST").json();
    assert_eq!(
        seen["socket"],
        json!({
            "remoteAddress": "127.0.0.1", "remoteFamily": "IPv4", "remotePort": port,
            "localAddress": "127.0.0.1", "localFamily": "IPv4", "localPort": site.server.port(),
            "address": {"address": "127.0.0.1", "family": "IPv4", "port": site.server.port()},
        })
    );
    assert_eq!(
        (&seen["url"], &seen["body"], &seen["version"]),
        (&json!("/told?a=%20b"), &json!("body"), &json!("1.1"))
    );
    assert_eq!(seen["headers"]["x-own"], "a, b");
    assert_eq!(seen["distinct"]["x-own"], json!(["a", "b"]));
    assert_eq!(seen["headers"]["x-forwarded-for"], "127.0.0.1");
    for part in ["headers", "rawHeaders", "distinct"] {
        let text = seen[part].to_string().to_ascii_lowercase();
        assert!(
            !text.contains("tutti") && !text.contains("6.6.6.6"),
            "{text}"
        );
    }
    assert_eq!(
        seen["headers"]["host"], "test",
        "the first field that is the client's"
    );
    assert_eq!(
        seen["rawHeaders"].as_array().unwrap().len() % 2,
        0,
        "names and values"
    );
}

#[test]
fn each_client_of_a_kept_connection_is_named_by_itself() {
    let site = NodeSite::start(&json!({"processes": 1}));
    let mut ports = Vec::new();
    for _ in 0..5 {
        let mut client = client::Client::to(site.server.address());
        let own = client.stream.local_addr().unwrap().port();
        client.send("GET /told HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        let seen = client.response("GET").json()["socket"]["remotePort"].clone();
        assert_eq!(seen, own);
        ports.push(own);
    }
}

#[test]
fn listen_takes_every_form_of_arguments() {
    let any = |port: u16| json!({"address": "::", "family": "IPv6", "port": port});
    let local = |port: u16| json!({"address": "127.0.0.1", "family": "IPv4", "port": port});
    let site = NodeSite::bare();
    for (given, address) in [
        (json!([]), any(0)),
        (json!([3000]), any(3000)),
        (json!(["3000"]), any(3000)),
        (json!([3000, "localhost"]), local(3000)),
        (json!([3000, "127.0.0.1", 10]), local(3000)),
        (json!([3000, 10]), any(3000)),
        (json!([null]), any(0)),
        (json!([{"port": 3000, "host": "127.0.0.1"}]), local(3000)),
        (
            json!([{"port": "3000", "host": "::1"}]),
            json!({"address": "::1", "family": "IPv6", "port": 3000}),
        ),
        (
            json!(["/no/such/folder/a.sock"]),
            json!("/no/such/folder/a.sock"),
        ),
        (
            json!([{"path": "/no/such/folder/a.sock"}]),
            json!("/no/such/folder/a.sock"),
        ),
    ] {
        let environment = json!({"LISTEN": given.to_string(), "WORK": site.work()});
        site.configure(&json!({"environment": environment, "processes": 1}));
        let seen = site.get("/told").json();
        assert_eq!(seen["address"], address, "{given}");
        assert_eq!(seen["listening"], true, "{given}");
        let start = json!({"calls": ["event", "callback"], "returned": true, "before": null});
        assert_eq!(seen["start"], start, "{given}");
    }
    for (given, message) in [
        (json!([70000]), "ERR_SOCKET_BAD_PORT"),
        (json!([{}]), "ERR_INVALID_ARG_VALUE"),
        (json!([true]), "ERR_INVALID_ARG_VALUE"),
    ] {
        let environment = json!({"LISTEN": given.to_string(), "WORK": site.work()});
        let refused = site
            .refused(&json!({"environment": environment}))
            .to_string();
        assert!(refused.contains(message), "{given}: {refused}");
    }
}

#[test]
fn the_script_gets_what_the_configuration_says_and_nothing_of_ours() {
    let site = NodeSite::bare();
    site.configure(&json!({
        "processes": 1,
        "arguments": ["--first", "a b", "$PORT"],
        "environment": {"MINE": "yes", "PORT": "3456", "NODE_OPTIONS": "--max-old-space-size=333"},
    }));
    let seen = site.get("/told").json();
    assert_eq!(seen["arguments"], json!(["--first", "a b", "$PORT"]));
    assert_eq!(seen["script"], json!(site.root().join("app.js")));
    assert_eq!(seen["folder"], json!(site.root()));
    assert_eq!(
        (&seen["mine"], &seen["port"]),
        (&json!("yes"), &json!("3456"))
    );
    assert_eq!(seen["options"], "--max-old-space-size=333");
    assert_eq!(seen["execArgv"], json!([]));
    assert_eq!(seen["told"], Value::Null);
    site.configure(&json!({"processes": 1}));
    assert_eq!(site.get("/told").json()["options"], Value::Null);
    assert_eq!(site.text("/thread"), "ours in a thread: false");
    assert_eq!(site.text("/child"), "a port: true");
}

#[test]
fn an_es_module_and_a_cluster_serve_as_they_are() {
    let site = NodeSite::bare();
    site.configure(&json!({"script": "module.mjs"}));
    assert_eq!(site.text("/"), "module true false true 127.0.0.1");
    site.configure(&json!({"script": "parallel.js", "processes": 2}));
    let text = site.text("/");
    assert!(text == "worker 1" || text == "worker 2", "{text}");
    // The former ones leave, and none comes of its own.
    wait_until("two programs", || site.programs().len() == 2);
}

#[test]
fn the_first_server_is_the_applications_and_the_others_are_their_own() {
    let site = NodeSite::start(&json!({"processes": 1}));
    assert_eq!(site.text("/others"), "second raw true");
    assert!(site.text("/fork").contains("`processes`"));
    let cluster = &site.get("/told").json()["cluster"];
    assert_eq!(cluster["primary"], false);
    assert_eq!(cluster["worker"], true);
}

#[test]
fn a_worker_that_leaves_lets_the_script_end_by_itself() {
    let site = NodeSite::start(&json!({"processes": 1}));
    let before = site.get("/told").json()["pid"].clone();
    site.server.restart("app");
    site.wait_for_note("ended", &format!("{before} ended"));
    assert_ne!(site.get("/told").json()["pid"], before);
}

/// A failed start and everything that its answer must have: the pointer, the cause and the cure.
#[test]
fn what_does_not_start_is_reported_with_its_place_its_cause_and_its_cure() {
    let site = NodeSite::bare();
    let root = site.root();
    let write = |name: &str, text: &str| {
        fs::write(root.join(name), text).unwrap();
        name.to_owned()
    };
    for (members, pointer, parts) in [
        (
            json!({"script": "none.js"}),
            "script",
            [
                "looking for the script `none.js`",
                "No such file",
                "working_directory",
            ],
        ),
        (
            json!({"runtime": "/no/node"}),
            "runtime",
            ["`/no/node`", "No such file", "install Node.js"],
        ),
        (
            json!({"runtime": "no-node"}),
            "runtime",
            ["`no-node`", "in PATH (", "\"runtime\\\": \\\"/opt"],
        ),
        (
            json!({"script": write("missing.js", "require('left-pad')")}),
            "script",
            [
                "Cannot find module 'left-pad'",
                "exited with code 1",
                "`npm install`",
            ],
        ),
        (
            json!({"script": write("missing.mjs", "import 'left-pad'")}),
            "script",
            [
                "Cannot find package 'left-pad'",
                "exited with code 1",
                "`npm install`",
            ],
        ),
        (
            json!({"script": write("faulty.js", "let x = 1;\nlet = = 2;")}),
            "script",
            ["SyntaxError", "faulty.js:2", "node --check"],
        ),
        (
            json!({"script": write("thrown.js", "throw new Error('no license found')")}),
            "script",
            ["no license found", "exited with code 1", "thrown.js:1"],
        ),
        (
            json!({"script": write("rejected.mjs", "await Promise.reject(new Error('no database'))")}),
            "script",
            ["no database", "exited with code 1", "rejected.mjs:1"],
        ),
        (
            json!({"script": write("done.js", "console.error('done already')")}),
            "script",
            [
                "ended before it listened",
                "exited with code 0",
                "http.createServer",
            ],
        ),
        (
            json!({"script": write("exits.js", "process.exit(5)")}),
            "script",
            [
                "exited with code 5",
                "waiting until the script listens",
                "http.createServer",
            ],
        ),
    ] {
        let reply = site.refused(&members);
        let text = reply.to_string();
        for part in parts {
            assert!(text.contains(part), "{members}: no `{part}` in {text}");
        }
        assert!(
            text.contains(&format!("/applications/app/{pointer}")),
            "{members}: {text}"
        );
    }
}

/// Each server that is not one of `http` is named, with its place and what to use instead.
#[test]
fn a_script_that_listens_otherwise_gets_a_hint() {
    let site = NodeSite::bare();
    for (made, named, cure) in [
        (
            "require('net').createServer()",
            "`net.createServer()`",
            "first server of `http`",
        ),
        (
            "require('http2').createServer()",
            "`http2.createServer()`",
            "HTTP/1 with the application",
        ),
        (
            "require('http2').createSecureServer({ allowHTTP1: true })",
            "`http2.createSecureServer()`",
            "TLS and HTTP/2 are the listener's",
        ),
        (
            "require('https').createServer()",
            "`https.createServer()`",
            "request.socket.encrypted",
        ),
    ] {
        let script = format!("const server = {made};\nserver.listen(0, '127.0.0.1');\n");
        fs::write(site.root().join("other.js"), script).unwrap();
        // It is reported when the time for a start is over, if Node.js has come to the script by then.
        let text = [3, 12, 48]
            .iter()
            .map(|seconds| json!({"script": "other.js", "limits": {"start_timeout": seconds}}))
            .map(|members| site.refused(&members).to_string())
            .find(|text| text.contains("another server than one of `http`"))
            .unwrap();
        for part in [
            "start_timeout",
            "other.js:2",
            "use `http.createServer()`",
            "/applications/app/script",
            named,
            cure,
        ] {
            assert!(text.contains(part), "{named}: no `{part}` in {text}");
        }
    }
}

/// For metrics, say: at the port that it names, whatever kind of server it is.
#[test]
fn a_second_server_listens_at_its_port() {
    let site = NodeSite::bare();
    for made in ["http", "net"] {
        let port = free_port();
        let script = format!(
            "require('http').createServer((request, response) => response.end('first')).listen(3000);
            require('{made}').createServer().listen({port}, '127.0.0.1').on('connection', (socket) => socket.end('second'));"
        );
        let name = format!("with_{made}.js");
        fs::write(site.root().join(&name), script).unwrap();
        site.configure(&json!({"script": name, "processes": 1}));
        assert_eq!(site.text("/"), "first");
        let mut heard = String::new();
        let connect = || TcpStream::connect(("127.0.0.1", port));
        wait_until("the second server", || connect().is_ok());
        let mut second = connect().unwrap();
        second.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "second", "{made}");
    }
}

/// The log says that an application which would tunnel cannot, with the line that waits for it; its clients are refused and nothing else is harmed.
#[test]
fn connect_is_refused_and_the_application_that_waits_for_it_named() {
    let site = NodeSite::bare();
    let script = "const server = require('http').createServer((request, response) => response.end('still here'));\n\
        server.listen(1, () => {\n\
        server.on('connect', (request, socket) => socket.end('HTTP/1.1 200 Connection Established\\r\\n\\r\\n'));\n\
        });\n";
    fs::write(site.root().join("tunnel.js"), script).unwrap();
    for environment in [json!({}), json!({"TUTTI_NODE_SOCKET": "1"})] {
        site.configure(&json!({"script": "tunnel.js", "processes": 1, "environment": environment}));
        site.wait_for_log("the application waits for `connect`");
        site.wait_for_log("tunnel.js:3, which does not come");
        let mut client = client::Client::of(site.connect());
        client.send("CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n");
        assert_eq!(client.response("CONNECT").status, 405);
        assert_eq!(site.text("/"), "still here");
    }
}

/// A protocol that is not WebSocket is not carried: the request comes as one without it (RFC 9110 §7.8 allows that), and the log says so once.
#[test]
fn an_upgrade_to_another_protocol_comes_as_an_ordinary_request_and_is_logged_once() {
    let site = NodeSite::bare();
    let script = "const server = require('http').createServer((request, response) => response.end(`plain ${request.headers.upgrade}`));\n\
        server.on('upgrade', (request, socket) => socket.end('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\n\\r\\n'));\n\
        server.listen(1);\n";
    fs::write(site.root().join("upgrade.js"), script).unwrap();
    site.configure(&json!({"script": "upgrade.js", "processes": 1}));
    let ask = |protocol: &str| {
        let fields = format!("Connection: Upgrade\r\nUpgrade: {protocol}\r\n");
        let reply = site.send("GET", "/room", &fields, b"");
        assert_eq!(
            (reply.status, reply.text()),
            (200, "plain undefined".to_owned())
        );
    };
    for protocol in ["h2c", "echo", "echo", "other/2, echo", "echo"] {
        ask(protocol);
    }
    site.wait_for_log("GET /room: an upgrade to `other/2, echo` is not carried");
    site.wait_for_log("(hint: only WebSocket is");
    let log = site.server.log();
    let told = |protocol: &str| log.matches(&format!("an upgrade to `{protocol}`")).count();
    assert_eq!(
        (told("echo"), told("other/2, echo"), told("h2c")),
        (1, 1, 0),
        "{log}"
    );
}

#[test]
fn an_exception_in_a_request_is_502_with_its_stack_in_the_log() {
    let site = NodeSite::start(&json!({"processes": 1}));
    assert_eq!(site.get("/throw").status, 502);
    site.wait_for_log("Error: thrown in a request");
    site.wait_for_log("app.js:");
    site.wait_for_log("exited with code 1 while serving `GET /throw`");
    wait_until("another process", || site.get("/").status == 200);
}

/// The worker that relays to Node.js.
#[test]
fn a_killed_worker_takes_its_node_with_it_and_costs_what_it_had_begun() {
    let site = NodeSite::start(&json!({"processes": 1}));
    let mut waits = site.open("/never");
    // The next worker would get a request that this one has not taken.
    site.wait_for_log("this request gets no answer");
    let programs = site.programs();
    signal::send(site.server.workers("app")[0], libc::SIGKILL).unwrap();
    let mut answer = String::new();
    waits.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    wait_until("its program is gone", || {
        !programs.iter().any(|pid| processes::is_running(*pid))
    });
    assert_eq!(site.get("/").status, 200);
}

/// An application's own handler of SIGINT does not keep the stack from being printed.
#[test]
fn a_loop_that_does_not_end_says_where_it_stands() {
    let site = NodeSite::bare();
    let text = "process.on('SIGINT', () => process.exit());\nrequire('./app.js');\n";
    fs::write(site.root().join("handler.js"), text).unwrap();
    site.configure(&json!({"script": "handler.js", "processes": 1, "limits": {"timeout": 1}}));
    wait_until("504", || site.get("/loop").status == 504);
    site.wait_for_log("is blocked; its stack");
    site.wait_for_log("app.js:");
    site.wait_for_log("/loop");
}

#[test]
fn a_request_that_waits_for_ever_costs_itself_only() {
    let site = NodeSite::start(&json!({"processes": 1, "limits": {"timeout": 1}}));
    let before = site.programs();
    wait_until("504", || site.get("/never").status == 504);
    site.wait_for_log("waits: its event loop turns");
    site.server
        .put("/config/applications/app/limits/timeout", &json!(60));
    assert_eq!(site.get("/told").json()["pid"], before[0]);
}

/// The configurations that NGINX Unit documents for Node.js, with our package in place of its own.
#[test]
fn units_configurations_work_with_the_package_of_the_same_name() {
    let site = NodeSite::bare();
    let root = site.root().join("unit");
    let package = root.join("node_modules/unit-http");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/node/unit-http");
    copy(&source, &package);
    fs::set_permissions(root.join("app.js"), fs::Permissions::from_mode(0o755)).unwrap();
    for (members, answer) in [
        (
            json!({"executable": "app.js", "arguments": ["--tmp", "/tmp"]}),
            "Hello, Node.js on Unit! 127.0.0.1 --tmp,/tmp\n",
        ),
        (
            json!({"executable": "/usr/bin/env", "arguments": ["node", "--loader", "unit-http/loader.mjs", "--require", "unit-http/loader", "plain.js"]}),
            "Hello from 127.0.0.1\n",
        ),
        (
            json!({"executable": "/usr/bin/env", "arguments": ["node", "--require", "unit-http/loader", "plain.js"]}),
            "Hello from 127.0.0.1\n",
        ),
        (
            json!({"executable": "/usr/bin/env", "arguments": ["node", "--loader", "unit-http/loader.mjs", "--require", "unit-http/loader", "module.mjs"]}),
            "module true\n",
        ),
    ] {
        let mut whole = site.configuration(&json!({}));
        whole["applications"]["app"] = members.clone();
        whole["applications"]["app"]["type"] = json!("external");
        whole["applications"]["app"]["working_directory"] = json!(root);
        site.server.put("/config", &whole);
        assert_eq!(site.text("/"), answer, "{members}");
    }
    // Where `node` cannot be determined, the message says what to do.
    let mut whole = site.configuration(&json!({}));
    whole["applications"]["app"] = json!({
        "type": "external", "executable": "/bin/sh", "arguments": ["-c", "exec node app.js"], "working_directory": root,
    });
    let text = site.server.call("PUT", "/config", &whole).text();
    for part in [
        "exited with code 1",
        "unit-http: the application's `executable` is not `node` itself",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}

/// The commands of the guide that install `unit-http`, in an installation of npm's own.
#[test]
fn unit_http_is_installed_as_the_guide_says() {
    if Command::new("npm").arg("--version").output().is_err() {
        skip!("npm is not installed");
    }
    let page = include_str!("../../../docs/languages/node.md");
    let commands = guide::commands(page);
    let Some((_, [install, link])) = commands.split_last_chunk() else {
        panic!("the guide has no commands");
    };
    let package = source("sdk/node/unit-http").display().to_string();
    let places = [("/usr/share/tutti/node/unit-http", package.as_str())];
    let install = guide::filled(std::slice::from_ref(install), &places).concat();
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("package.json"), "{}").unwrap();
    let run = |line: &str| {
        let done = Command::new("sh")
            .args(["-c", line])
            .current_dir(&project)
            .env("npm_config_prefix", folder.path().join("global"))
            .env("npm_config_cache", folder.path().join("cache"))
            .env("npm_config_offline", "true")
            .env("npm_config_audit", "false")
            .env("npm_config_fund", "false")
            .output()
            .unwrap();
        assert!(done.status.success(), "{line}: {done:?}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    run(&install);
    run(&link.line);
    let said = run("node -p 'typeof require(\"unit-http\").createServer'");
    assert_eq!(said.trim(), "function");
}
