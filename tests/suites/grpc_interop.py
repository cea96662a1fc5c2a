"""gRPC through the proxy: the interoperability tests of gRPC, its Go client and server"""

import subprocess

from base import Case

RELEASE = "v1.73.0"
VERSION = f"google.golang.org/grpc {RELEASE}"
SECONDS = 120
# All of the client that need no credentials.
CASES = (
    "empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream", "timeout_on_sleeping_server", "cancel_after_begin",
    "cancel_after_first_response", "status_code_and_message", "special_status_message", "custom_metadata", "unimplemented_method",
    "unimplemented_service", "rpc_soak", "channel_soak",
)
CREDENTIALS = "it needs credentials of Google's cloud"
LEFT_OUT = {
    **dict.fromkeys(("compute_engine_creds", "service_account_creds", "jwt_token_creds", "per_rpc_creds", "oauth2_auth_token", "google_default_credentials",
                     "compute_engine_channel_credentials"), CREDENTIALS),
    **dict.fromkeys(("orca_per_rpc", "orca_oob"), "it needs a client that is configured for load reports: it fails without a proxy, too"),
    "pick_first_unary": "it needs a server that names itself, as for xDS: it fails without a proxy, too",
}
SOAK = ("--soak_iterations=200", "--soak_overall_timeout_seconds=120", "--soak_per_iteration_max_acceptable_latency_ms=60000")


def outcome(client, port, name):
    command = [client, "--server_host=127.0.0.1", f"--server_port={port}", f"--test_case={name}", *SOAK]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return Case(name, "fail", f"no end within {SECONDS} s")
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return Case(name, "fail" if done.returncode else "pass", last if done.returncode else "")


def run(context):
    client, backend = (context.go(f"google.golang.org/grpc/interop/{name}@{RELEASE}") / name for name in ("client", "server"))
    behind = context.free_port()
    context.process([backend, f"--port={behind}"], behind, "backend")
    server = context.server(lambda port: {
        "listeners": {f"127.0.0.1:{port}": {"pass": "upstreams/backend"}},
        "upstreams": {"backend": {"servers": {f"127.0.0.1:{behind}": {}}, "http_version": 2, "read_timeout": 3600}},
    })
    for name in CASES:
        yield outcome(client, server.port, name)
    for name, reason in LEFT_OUT.items():
        yield Case(name, "skip", reason)
