//! Servers other people wrote, for the proxy to ask: nginx, Apache, gunicorn, Node.js, Python's own.
//!
//! Each answers any path with that path, and logs a line for each request it has seen: what it takes for one request is what counts.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tutti_sys::credentials::is_root;
use tutti_testkit::{client, free_port, wait_until};

/// The kinds there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nginx of Debian.
    Nginx,
    /// Apache's httpd of Debian.
    Apache,
    /// gunicorn of Debian, with a WSGI application.
    Gunicorn,
    /// Node's `http`.
    Node,
    /// Python's `http.server`.
    Python,
}

/// All of them.
pub const KINDS: [Kind; 5] = [
    Kind::Nginx,
    Kind::Apache,
    Kind::Gunicorn,
    Kind::Node,
    Kind::Python,
];

/// One of them, running. Dropping it ends it.
pub struct Running {
    /// Which.
    pub kind: Kind,
    folder: tempfile::TempDir,
    child: Child,
    port: u16,
}

const NGINX: &str = r#"
daemon off; master_process off; pid FOLDER/pid; worker_processes 1; error_log FOLDER/error.log;
events { worker_connections 512; }
http {
    log_format seen '$request_method $request_uri';
    access_log FOLDER/seen.log seen;
    client_body_temp_path FOLDER/body; proxy_temp_path FOLDER/p; fastcgi_temp_path FOLDER/f; uwsgi_temp_path FOLDER/u;
    scgi_temp_path FOLDER/s; client_max_body_size 64m; keepalive_timeout 60;
    server {
        listen 127.0.0.1:PORT; root FOLDER/www;
        location / { return 200 "$request_uri\n"; }
        location /files/ { }
    }
}
"#;

const APACHE: &str = r#"
ServerRoot FOLDER
ServerName localhost
PidFile FOLDER/pid
Listen 127.0.0.1:PORT
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule headers_module /usr/lib/apache2/modules/mod_headers.so
LoadModule rewrite_module /usr/lib/apache2/modules/mod_rewrite.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
Mutex file:FOLDER default
ErrorLog FOLDER/error.log
LogFormat "%m %U%q" seen
CustomLog FOLDER/seen.log seen
DocumentRoot FOLDER/www
KeepAliveTimeout 60
RewriteEngine On
RewriteCond %{REQUEST_URI} !^/files/
RewriteRule .* - [R=404]
ErrorDocument 404 "found nothing"
Header always set X-Path "expr=%{REQUEST_URI}"
"#;

const WSGI: &str = r#"
def application(environ, start_response):
    body = environ["wsgi.input"].read()
    path = environ["RAW_URI"]
    with open("FOLDER/seen.log", "a") as log:
        log.write(environ["REQUEST_METHOD"] + " " + path + "\n")
    answer = (path + "\n").encode("latin-1")
    start_response("200 OK", [("Content-Length", str(len(answer))), ("X-Body", str(len(body)))])
    return [answer]
"#;

const NODE: &str = r#"
const fs = require('fs');
require('http').createServer((request, response) => {
    let length = 0;
    fs.appendFileSync('FOLDER/seen.log', request.method + ' ' + request.url + '\n');
    request.on('data', (piece) => { length += piece.length; });
    request.on('end', () => {
        response.setHeader('X-Body', length);
        response.end(request.url + '\n');
    });
}).listen(PORT, '127.0.0.1');
"#;

const PYTHON: &str = r#"
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with open("FOLDER/seen.log", "a") as log:
            log.write(self.command + " " + self.path + "\n")
        answer = (self.path + "\n").encode("latin-1")
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("X-Body", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = answer

    def log_message(self, *arguments):
        pass

ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
"#;

impl Running {
    /// Starts one and waits until it answers.
    pub fn start(kind: Kind) -> Self {
        Self::serving(
            kind,
            match kind {
                Kind::Nginx => NGINX,
                Kind::Apache => APACHE,
                Kind::Gunicorn => WSGI,
                Kind::Node => NODE,
                Kind::Python => PYTHON,
            },
        )
    }

    /// Starts one that does what `script` says, in which `FOLDER` and `PORT` stand for its own, and waits until it answers.
    pub fn serving(kind: Kind, script: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("tutti-backend-")
            .tempdir()
            .expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("its mode");
        fs::create_dir_all(folder.path().join("www/files")).expect("a folder");
        fs::write(folder.path().join("www/files/large"), large()).expect("a file");
        let port = free_port();
        let write = |name: &str, text: &str| {
            let text = text
                .replace("FOLDER", &folder.path().to_string_lossy())
                .replace("PORT", &port.to_string());
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            path
        };
        let mut command = match kind {
            Kind::Nginx => {
                let user = if is_root() {
                    "user nobody nogroup;"
                } else {
                    ""
                };
                let file = write("nginx.conf", &format!("{user}{script}"));
                let mut command = program("/usr/sbin/nginx");
                command.arg("-p").arg(folder.path()).arg("-c").arg(file);
                command.arg("-e").arg(folder.path().join("error.log"));
                command
            }
            Kind::Apache => {
                let user = if is_root() {
                    "User nobody\nGroup nogroup\n"
                } else {
                    ""
                };
                let file = write("apache.conf", &format!("{script}{user}"));
                let mut command = program("/usr/sbin/apache2");
                command.arg("-X").arg("-f").arg(file);
                command
            }
            Kind::Gunicorn => {
                write("app.py", script);
                let mut command = program("/usr/bin/gunicorn");
                command.current_dir(folder.path());
                command.args(["-k", "gthread", "--threads", "4", "--keep-alive", "60"]);
                command.args(["-b", &format!("127.0.0.1:{port}"), "app:application"]);
                command
            }
            Kind::Node => {
                let file = write("app.js", script);
                let mut command = program("/usr/bin/node");
                // Debian's packages, also where `node` is not Debian's.
                command.env("NODE_PATH", "/usr/share/nodejs").arg(file);
                command
            }
            Kind::Python => {
                let file = write("server.py", script);
                let mut command = program("/usr/bin/python3");
                command.arg(file);
                command
            }
        };
        let output = fs::File::create(folder.path().join("output.log")).expect("a file");
        let errors = output.try_clone().expect("a file");
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .expect("it starts");
        let running = Self {
            kind,
            folder,
            child,
            port,
        };
        wait_until(&format!("{kind:?} to answer"), || {
            client::get(running.address(), "/ready").is_ok()
        });
        running
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Method and target of the requests it has seen.
    pub fn seen(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("seen.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = tutti_sys::signal::send(pid, libc::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

/// A file of a few megabytes.
pub fn large() -> Vec<u8> {
    (0..3_000_000_u32)
        .map(|number| (number % 251) as u8)
        .collect()
}

fn program(path: &str) -> Command {
    assert!(Path::new(path).exists(), "`{path}` is not installed");
    Command::new(path)
}
