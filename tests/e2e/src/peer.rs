//! nginx and PHP-FPM on temporary folders, configured as Debian's own snippet does it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tutti_sys::credentials::is_root;
use tutti_testkit::{client, free_port, wait_until};

use crate::fpm::Fpm;

const NGINX: &str = "/usr/sbin/nginx";

/// Both, serving one folder. Dropping it ends them.
pub struct Peer {
    folder: tempfile::TempDir,
    nginx: Child,
    fpm: Fpm,
    port: u16,
}

impl Peer {
    /// True if this nginx joins several fields of one name for FastCGI; before 1.23 it hands over the last one.
    pub fn joins_fields(&self) -> bool {
        let output = Command::new(NGINX).arg("-v").output().expect("nginx -v");
        // `nginx version: nginx/1.22.1`
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let version = text.rsplit('/').next().unwrap_or_default();
        let mut numbers = version.split('.').map(|part| part.trim().parse().ok());
        let major_and_minor: (Option<u32>, Option<u32>) =
            (numbers.next().flatten(), numbers.next().flatten());
        major_and_minor >= (Some(1), Some(23))
    }

    /// Starts them on `root` with `ini` as php.ini; nothing where one of them is not installed.
    pub fn start(root: &Path, ini: &Path) -> Option<Self> {
        if !Path::new(NGINX).exists() || !Fpm::is_installed() {
            return None;
        }
        let folder = tempfile::Builder::new()
            .prefix("tutti-peer-")
            .tempdir()
            .expect("a folder");
        fs::set_permissions(
            folder.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .expect("its mode");
        let port = free_port();
        let fpm = Fpm::start(ini, 2);
        let nginx_conf = folder.path().join("nginx.conf");
        fs::write(
            &nginx_conf,
            nginx_configuration(folder.path(), root, port, &fpm.socket()),
        )
        .expect("a file");
        let mut nginx = Command::new(NGINX);
        nginx
            .arg("-p")
            .arg(folder.path())
            .arg("-c")
            .arg(&nginx_conf);
        nginx.arg("-e").arg(folder.path().join("nginx.log"));
        let start = |command: &mut Command| {
            let log = fs::File::create(folder.path().join("output.log")).expect("a file");
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .expect("it starts")
        };
        let peer = Self {
            fpm,
            nginx: start(&mut nginx),
            folder,
            port,
        };
        wait_until("nginx to answer", || {
            client::get(peer.address(), "/hello.php").is_ok_and(|reply| reply.status == 200)
        });
        Some(peer)
    }

    /// Where nginx listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The PHP-FPM behind it.
    pub fn fpm(&self) -> &Fpm {
        &self.fpm
    }

    /// The logs of both.
    pub fn log(&self) -> String {
        let nginx = fs::read_to_string(self.folder.path().join("nginx.log"));
        self.fpm.log() + &nginx.unwrap_or_default()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.nginx.id()) {
            // It ends its own workers.
            let _ = tutti_sys::signal::send(pid, libc::SIGTERM);
        }
        let _ = self.nginx.wait();
    }
}

/// `/etc/nginx/snippets/fastcgi-php.conf` and `fastcgi.conf` of Debian 12, written out; but what is empty is left out, except for
/// the two variables of the content, which applications expect.
fn nginx_configuration(folder: &Path, root: &Path, port: u16, fpm: &Path) -> String {
    let (folder, root, fpm) = (folder.display(), root.display(), fpm.display());
    let user = if is_root() {
        "user nobody nogroup;"
    } else {
        ""
    };
    let mut parameters = String::new();
    for (name, value) in [
        ("SCRIPT_FILENAME", "$document_root$fastcgi_script_name"),
        ("QUERY_STRING", "$query_string"),
        ("REQUEST_METHOD", "$request_method"),
        ("CONTENT_TYPE", "$content_type"),
        ("CONTENT_LENGTH", "$content_length"),
        ("SCRIPT_NAME", "$fastcgi_script_name"),
        ("REQUEST_URI", "$request_uri"),
        ("DOCUMENT_URI", "$document_uri"),
        ("DOCUMENT_ROOT", "$document_root"),
        ("SERVER_PROTOCOL", "$server_protocol"),
        ("REQUEST_SCHEME", "$scheme"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_SOFTWARE", "nginx/$nginx_version"),
        ("REMOTE_ADDR", "$remote_addr"),
        ("REMOTE_PORT", "$remote_port"),
        ("REMOTE_USER", "$remote_user if_not_empty"),
        ("SERVER_ADDR", "$server_addr"),
        ("SERVER_PORT", "$server_port"),
        ("SERVER_NAME", "$server_name"),
        ("REDIRECT_STATUS", "200"),
        ("PATH_INFO", "$path_info if_not_empty"),
        // The usual hardening against CVE-2016-5385.
        ("HTTP_PROXY", "\"\""),
    ] {
        parameters.push_str(&format!("    fastcgi_param {name} {value};\n"));
    }
    format!(
        "daemon off; {user} worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;\n\
         events {{}}\n\
         http {{\n\
           access_log off; default_type text/plain; client_max_body_size 16m;\n\
           client_body_temp_path {folder}/body; fastcgi_temp_path {folder}/fastcgi; proxy_temp_path {folder}/proxy;\n\
           uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
           server {{\n\
             listen 127.0.0.1:{port}; server_name example.test; root {root}; index index.php; absolute_redirect off;\n\
             location ~ [^/]\\.php(/|$) {{\n\
               fastcgi_split_path_info ^(.+?\\.php)(/.*)$;\n\
               try_files $fastcgi_script_name =404;\n\
               set $path_info $fastcgi_path_info;\n\
               fastcgi_index index.php;\n\
               fastcgi_buffer_size 64k; fastcgi_buffers 16 64k;\n\
         {parameters}\
               fastcgi_pass unix:{fpm};\n\
             }}\n\
           }}\n\
         }}\n"
    )
}
