//! Certificates made by openssl(1), as people make them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tutti_testkit::Server;

/// The value of `openssl req -newkey` for a key on P-256.
pub const EC: &str = "ec -pkeyopt ec_paramgen_curve:P-256";

/// A root, `ca.pem`, and an intermediate that it has signed, `sub.pem`, in a folder of their own.
pub struct Authority {
    folder: PathBuf,
}

impl Authority {
    /// In the folder `ca` below this one.
    pub fn new(below: &Path) -> Self {
        let authority = Authority {
            folder: below.join("ca"),
        };
        fs::create_dir(&authority.folder).unwrap();
        authority.openssl(
            "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 90 -subj /CN=root -addext keyUsage=keyCertSign",
        );
        // Python 3.13 wants the key usage (RFC 5280 §4.2.1.3), testssl more than 40 days.
        let extensions = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign";
        authority.issue_for("-days 80", "sub", "rsa:2048", "ca", extensions);
        authority
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file there.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The text of such a file.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs openssl there.
    pub fn openssl(&self, arguments: &str) {
        let arguments = arguments.split_ascii_whitespace();
        let run = Command::new("openssl")
            .args(arguments)
            .current_dir(&self.folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{text}");
    }

    /// `NAME.pem` and `NAME.key`, signed by `by`. `key` is what `openssl req -newkey` takes.
    pub fn issue(&self, name: &str, key: &str, by: &str, extension: &str) {
        self.issue_for("-days 20", name, key, by, extension);
    }

    /// The same, valid for so long: options of `openssl x509`.
    pub fn issue_for(&self, validity: &str, name: &str, key: &str, by: &str, extension: &str) {
        let extensions = format!("{extension}\n");
        fs::write(self.path("extensions"), extensions).unwrap();
        self.openssl(&format!(
            "req -new -newkey {key} -nodes -keyout {name}.key -out {name}.csr -subj /C=US/ST=CA/O=Acme/CN={name}"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {by}.pem -CAkey {by}.key -CAcreateserial -out {name}.pem {validity} -extfile extensions"
        ));
    }

    /// A leaf below the intermediate for these names; what is to be uploaded.
    pub fn bundle(&self, name: &str, key: &str, names: &str) -> String {
        self.issue(name, key, "sub", &format!("subjectAltName={names}"));
        [
            format!("{name}.pem"),
            "sub.pem".to_owned(),
            format!("{name}.key"),
        ]
        .map(|file| self.read(&file))
        .concat()
    }

    /// The status of a request as `example.com`, and the serial number of the certificate that is shown.
    pub fn shown_by(&self, server: &Server) -> (String, String) {
        let output = Command::new("curl")
            .args(["-sS", "--output", "/dev/null", "--cacert"])
            .arg(self.path("ca.pem"))
            .args(["--write-out", "%{http_code} %{certs}", "--resolve"])
            .arg(format!("example.com:{}:127.0.0.1", server.port()))
            .arg(format!("https://example.com:{}/", server.port()))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let serial = text.lines().find(|line| line.starts_with("Serial"));
        let status = text.split(' ').next().unwrap_or_default();
        (status.to_owned(), serial.unwrap_or_default().to_owned())
    }
}
