//! gRPC through the proxy: the interoperability tests of gRPC itself, its client and its server, and Python's grpcio.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use tutti_e2e::authority::{Authority, EC};
use tutti_e2e::external::{need_go, source};
use tutti_e2e::wait_for_health;
use tutti_testkit::{Server, ServerOptions, client, free_port, wait_until};

/// gRPC's `client` and `server`, built from the versions that `tests/conformance/grpc/go.sum` names.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        need_go();
        let folder = std::env::temp_dir().join(format!("tutti-grpc-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let output = Command::new("go")
            .args(["build", "-mod=readonly", "-o"])
            .arg(&folder)
            .args([
                "google.golang.org/grpc/interop/client",
                "google.golang.org/grpc/interop/server",
                "./health",
            ])
            .current_dir(source("tests/conformance/grpc"))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "go build: {errors}");
        folder
    })
}

/// gRPC's test server, until it is dropped.
struct TestServer {
    address: SocketAddr,
    process: Child,
}

impl TestServer {
    fn start(options: &[String]) -> Self {
        Self::start_program("server", options)
    }

    fn start_program(name: &str, options: &[String]) -> Self {
        let port = free_port();
        let process = Command::new(programs().join(name))
            .arg(format!("--port={port}"))
            .args(options)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        wait_until("gRPC's server", || TcpStream::connect(address).is_ok());
        Self { address, process }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server with the configuration of the guide, in front of this one.
fn in_front_of(address: SocketAddr) -> Server {
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &example(&server, address));
    server
}

/// The configuration of the guide.
fn example(server: &Server, address: SocketAddr) -> Value {
    let page = include_str!("../../../docs/proxy/upstreams.md");
    let examples = page.split("```json\n").skip(1);
    let mut examples = examples.map(|rest| rest.split("```").next().unwrap());
    let example = examples.find(|one| one.contains("http_version")).unwrap();
    let example = example
        .replace("*:8080", &format!("127.0.0.1:{}", server.port()))
        .replace("10.0.0.1:9000", &address.to_string())
        // One server is away: the other serves.
        .replace("10.0.0.2:9000", &format!("127.0.0.1:{}", free_port()));
    serde_json::from_str(&example).unwrap()
}

fn succeeds(what: &str, command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{what}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// "gRPC Interop Tests", those that need no credentials and that its Go client has.
const CASES: [&str; 15] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "rpc_soak",
];

#[test]
fn the_interoperability_tests_of_grpc_pass() {
    let backend = TestServer::start(&[]);
    let server = in_front_of(backend.address);
    interoperate(&server);
}

#[test]
fn the_interoperability_tests_of_grpc_pass_with_tls_to_the_server() {
    let server = Server::start(&ServerOptions::default());
    let authority = Authority::new(server.folder());
    authority.issue("backend", EC, "ca", "subjectAltName=IP:127.0.0.1");
    let file = |name| authority.path(name).display().to_string();
    let backend = TestServer::start(&[
        "--use_tls".to_owned(),
        format!("--tls_cert_file={}", file("backend.pem")),
        format!("--tls_key_file={}", file("backend.key")),
    ]);
    let pem = authority.read("ca.pem");
    let path = "/certificates/inner";
    let reply = client::control(server.control(), "PUT", path, pem.as_bytes()).unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    let mut example = example(&server, backend.address);
    example["upstreams"]["greeter"]["tls"] = json!({"ca": "inner"});
    server.put("/config", &example);
    interoperate(&server);
}

/// Each case with gRPC's client.
fn interoperate(server: &Server) {
    for case in CASES {
        let mut command = Command::new(programs().join("client"));
        command.args([
            "--server_host=127.0.0.1",
            &format!("--server_port={}", server.port()),
            &format!("--test_case={case}"),
            "--soak_iterations=200",
            "--soak_overall_timeout_seconds=120",
            "--soak_per_iteration_max_acceptable_latency_ms=60000",
        ]);
        succeeds(case, &mut command);
    }
}

fn python(server: &Server, state: &str) {
    // Debian's own Python has Debian's packages.
    let mut command = Command::new("/usr/bin/python3");
    command
        .arg(source("tests/conformance/grpc").join("client.py"))
        .arg(format!("127.0.0.1:{}", server.port()))
        .arg(state);
    succeeds(state, &mut command);
}

#[test]
fn grpcio_gets_an_error_when_no_server_is_there() {
    let backend = TestServer::start(&[]);
    let server = in_front_of(backend.address);
    python(&server, "up");
    drop(backend);
    python(&server, "down");
    server.wait_for_log("upstream \"greeter\": server ");
}

#[test]
fn health_is_asked_for_by_grpcs_own_protocol() {
    let server = Server::start(&ServerOptions::default());
    let mood = server.folder().join("mood");
    let healthy = TestServer::start_program("health", &[format!("--mood={}", mood.display())]);
    let other = TestServer::start(&[]);
    let upstream = |address: SocketAddr, service: &str| {
        json!({
            "servers": {address.to_string(): {}},
            "http_version": 2,
            "health_check": {"grpc_service": service, "interval": 0.1},
        })
    };
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "upstreams/whole"}},
            "upstreams": {
                "whole": upstream(healthy.address, ""),
                "up": upstream(healthy.address, "up"),
                "down": upstream(healthy.address, "down"),
                "moody": upstream(healthy.address, "moody"),
                "unknown": upstream(healthy.address, "none"),
                "other": upstream(other.address, ""),
            },
        }),
    );
    for (upstream, state, why) in [
        ("whole", "passing", ""),
        ("up", "passing", ""),
        ("down", "failing", "its status is NOT_SERVING"),
        ("moody", "failing", "its status is NOT_SERVING"),
        ("unknown", "failing", "it does not provide the service"),
        ("other", "failing", "it has no `grpc.health.v1.Health`"),
    ] {
        wait_for_health(&server, upstream, state, why);
    }
    std::fs::write(mood, "").unwrap();
    wait_for_health(&server, "moody", "passing", "its status is NOT_SERVING");
}
