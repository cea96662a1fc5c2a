//! An HTTPS server to be asked: Python's `ssl`, which is OpenSSL. It reports what it sees of a client, and ends connections as the test says.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// One, running. Dropping it ends it.
pub struct TlsServer {
    child: Child,
    port: u16,
}

const PROGRAM: &str = r#"
import json, socket, ssl, sys, threading

options = json.loads(sys.argv[1])
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(options["chain"], options["key"])
if "clients" in options:
    context.load_verify_locations(options["clients"])
    context.verify_mode = ssl.CERT_REQUIRED
if options.get("version") == "1.2":
    context.maximum_version = ssl.TLSVersion.TLSv1_2
context.set_alpn_protocols(options.get("protocols", ["h2", "http/1.1"]))
names = {}

def note(connection, name, _):
    names[connection] = name

context.sni_callback = note
count = 0

def serve(raw):
    global count
    try:
        stream = context.wrap_socket(raw, server_side=True)
    except (ssl.SSLError, OSError):
        raw.close()
        return
    count += 1
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            more = stream.recv(65536)
            if not more:
                stream.close()
                return
            data += more
        head, data = data.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        path = lines[0].split(" ")[1]
        length = int(fields.get("content-length", 0))
        while len(data) < length:
            more = stream.recv(65536)
            if not more:
                return
            data += more
        body, data = data[:length], data[length:]
        if fields.get("upgrade") == "echo":
            stream.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
            while True:
                more = data or stream.recv(65536)
                data = b""
                if not more:
                    stream.unwrap().close()
                    return
                stream.sendall(more)
        if path == "/info":
            peer = stream.getpeercert()
            body = json.dumps({
                "name": names.get(stream), "version": stream.version(), "resumed": stream.session_reused,
                "protocol": stream.selected_alpn_protocol(), "connections": count,
                "client": dict(pair[0] for pair in peer["subject"])["commonName"] if peer else None,
                "host": fields.get("host"),
            }).encode()
        elif path == "/large":
            body = b"0123456789abcdef" * 200000
        if path in ("/cut", "/end"):
            stream.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nno length")
            if path == "/end":
                stream.unwrap().close()
            else:
                # Python says nothing to the other side.
                stream.close()
            return
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        if path == "/rude":
            stream.close()
            return

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

impl TlsServer {
    /// With these options: `chain` and `key` are PEM files, `clients` the authorities of clients (who then must have a certificate),
    /// `version` the latest that is spoken.
    pub fn start(options: &Value) -> Self {
        let program = Path::new("/usr/bin/python3");
        assert!(program.exists(), "Python is not installed");
        let mut child = Command::new(program)
            .args(["-c", PROGRAM, &options.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let output = child.stdout.take().expect("its output");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a line");
        let port = line.trim().parse().expect("a port");
        Self { child, port }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
