//! An authority for tests that other people wrote: pebble, with its DNS server, pebble-challtestsrv.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};
use tutti_testkit::server::binaries;
use tutti_testkit::{free_port, wait_until};

use crate::authority::{Authority, EC};
use crate::external::need_go;

/// The version that is built.
const VERSION: &str = "v2.10.1";

/// The folder of the two programs, as Go names it.
const MODULE: &str = "github.com/letsencrypt/pebble/v2/cmd";

/// The authority that a test wants.
#[derive(Debug, Clone)]
pub struct PebbleOptions {
    /// Where it asks by HTTP.
    pub http: u16,
    /// Where it asks by TLS.
    pub tls: u16,
    /// So many of a hundred requests are refused, for their nonce.
    pub bad_nonces: u32,
    /// For how many seconds certificates hold.
    pub validity: u64,
    /// The port of another DNS server that it asks.
    pub dns: Option<u16>,
    /// Members of its configuration that replace others.
    pub more: Value,
}

impl Default for PebbleOptions {
    fn default() -> Self {
        PebbleOptions {
            http: free_port(),
            tls: free_port(),
            bad_nonces: 0,
            validity: 90 * 86_400,
            dns: None,
            more: json!({}),
        }
    }
}

/// Both programs. Dropping it ends them.
pub struct Pebble {
    folder: tempfile::TempDir,
    pebble: Child,
    dns: Child,
    directory: u16,
    management: u16,
    names: u16,
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for child in [&mut self.pebble, &mut self.dns] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Pebble {
    /// Builds it where that has not been done, and starts it.
    pub fn start(options: &PebbleOptions) -> Self {
        let programs = programs();
        let folder = tempfile::Builder::new()
            .prefix("tutti-pebble-")
            .tempdir()
            .expect("a folder");
        // The server's user reads its root.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path(), mode).expect("its mode");
        let authority = Authority::new(folder.path());
        authority.issue("directory", EC, "ca", "subjectAltName=IP:127.0.0.1");
        let [directory, management, names, records] = std::array::from_fn(|_| free_port());
        let mut config = json!({
            "listenAddress": format!("127.0.0.1:{directory}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": authority.path("directory.pem"),
            "privateKey": authority.path("directory.key"),
            "httpPort": options.http,
            "tlsPort": options.tls,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": false,
            "domainBlocklist": ["refused.example"],
            "retryAfter": {"authz": 1, "order": 1},
            "keyAlgorithm": "ecdsa",
            "profiles": {
                "default": {"description": "what tests want", "validityPeriod": options.validity},
                "shortlived": {"description": "six days", "validityPeriod": 6 * 86_400}
            }
        });
        tutti_testkit::set_members(&mut config, &options.more);
        let path = folder.path().join("pebble.json");
        fs::write(&path, json!({"pebble": config}).to_string()).expect("a file");
        let log = |name: &str| Stdio::from(File::create(folder.path().join(name)).expect("a file"));
        let dns = Command::new(programs.join("pebble-challtestsrv"))
            .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""])
            .args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""])
            .args(["-dnsserver", &format!("127.0.0.1:{records}")])
            .args(["-management", &format!("127.0.0.1:{names}")])
            .stdout(log("dns.log"))
            .stderr(log("dns-errors.log"))
            .spawn()
            .expect("it starts");
        let pebble = Command::new(programs.join("pebble"))
            .arg("-config")
            .arg(&path)
            .args([
                "-dnsserver",
                &format!("127.0.0.1:{}", options.dns.unwrap_or(records)),
            ])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_AUTHZREUSE", "0")
            .env("PEBBLE_WFE_NONCEREJECT", options.bad_nonces.to_string())
            .stdout(log("pebble.log"))
            .stderr(log("pebble-errors.log"))
            .spawn()
            .expect("it starts");
        let started = Pebble {
            folder,
            pebble,
            dns,
            directory,
            management,
            names,
        };
        for port in [directory, management, names] {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            wait_until("the authority", || TcpStream::connect(address).is_ok());
        }
        started
    }

    /// URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.directory)
    }

    /// The address of its directory.
    pub fn directory_address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.directory).into()
    }

    /// Has it wish that this certificate (PEM) be renewed between these times (RFC 9773 §4.2).
    pub fn wish(&self, certificate: &str, start: &str, end: &str) {
        let window = json!({"suggestedWindow": {"start": start, "end": end}}).to_string();
        let body = json!({"Certificate": certificate, "ARIResponse": window}).to_string();
        let run = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--max-time", "60"])
            .arg("--cacert")
            .arg(self.roots())
            .args(["--data-binary", &body])
            .arg(format!(
                "https://127.0.0.1:{}/set-renewal-info/",
                self.management
            ))
            .output()
            .expect("curl");
        assert!(run.status.success(), "{run:?}");
    }

    /// The file with the certificate that vouches for its directory.
    pub fn roots(&self) -> PathBuf {
        self.folder.path().join("ca/ca.pem")
    }

    /// An account with it, for `settings/acme`.
    pub fn account(&self, more: &Value) -> Value {
        let mut account = json!({"directory": self.directory(), "roots": self.roots()});
        tutti_testkit::set_members(&mut account, more);
        account
    }

    /// URL of what changes the records of its DNS server.
    pub fn records(&self) -> String {
        format!("http://127.0.0.1:{}", self.names)
    }

    /// Writes the root that its certificates are below to a file.
    pub fn root(&self, to: &Path) {
        let url = format!("https://127.0.0.1:{}/roots/0", self.management);
        let run = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--max-time", "60"])
            .arg("--cacert")
            .arg(self.roots())
            .arg("--output")
            .arg(to)
            .arg(url)
            .output()
            .expect("curl");
        assert!(run.status.success(), "{run:?}");
    }

    /// Its words so far.
    pub fn log(&self) -> String {
        let read = |name| fs::read(self.folder.path().join(name)).unwrap_or_default();
        let bytes = [read("pebble.log"), read("pebble-errors.log")].concat();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Orders that it has been given.
    pub fn orders(&self) -> usize {
        self.log().matches("Added order").count()
    }

    /// Certificates that it has made.
    pub fn issued(&self) -> usize {
        self.log().matches("Issued certificate serial").count()
    }

    /// Accounts that it has made.
    pub fn accounts(&self) -> usize {
        self.log().matches("accounts in memory").count()
    }
}

/// The folder with both programs.
fn programs() -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().expect("no holder panics");
    let folder = binaries()
        .join("go-programs")
        .join(format!("pebble-{VERSION}"));
    let names = ["pebble", "pebble-challtestsrv"];
    if names.iter().all(|name| folder.join(name).exists()) {
        return folder;
    }
    need_go();
    fs::create_dir_all(&folder).expect("a folder");
    let run = Command::new("go")
        .arg("install")
        .args(names.map(|name| format!("{MODULE}/{name}@{VERSION}")))
        .env("GOBIN", &folder)
        .output()
        .expect("go runs");
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    folder
}
