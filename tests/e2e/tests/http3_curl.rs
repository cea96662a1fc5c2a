//! HTTP/3 as curl speaks it (ngtcp2's place is taken by OpenSSL and nghttp3 in Debian 13): files, a server and PHP behind it, bodies, many at
//! once, and the way from HTTP/2 to it by `Alt-Svc`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tutti_e2e::http3_site::{configuration, large, site, sum};
use tutti_testkit::Server;

/// A curl that speaks HTTP/3: this machine's, or Debian 13's, which is got for it.
fn curl() -> Command {
    let said = Command::new("curl").arg("-V").output().unwrap().stdout;
    if String::from_utf8_lossy(&said).contains("HTTP3") {
        return Command::new("curl");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join(".work/programs/curl");
    let made = Command::new(root.join("packaging/debian-programs"))
        .arg("trixie")
        .arg(&folder)
        .arg("curl")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{errors}");
    let mut command = Command::new(folder.join("run"));
    command.arg("curl");
    command
}

/// A site, and a curl that trusts it.
struct Visit {
    server: Server,
}

impl Visit {
    fn new() -> Self {
        let server = site(&json!(true));
        Self { server }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.server.port())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.server.folder().join(name)
    }

    /// Runs curl; what `-w` says comes last.
    fn curl(&self, arguments: &[&str]) -> Vec<u8> {
        let output = curl()
            .args(["-sS4", "--max-time", "60", "--cacert"])
            .arg(self.file("site.pem"))
            .args(arguments)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        output.stdout
    }

    /// The same over HTTP/3 and nothing else, with the version and the status at the end.
    fn get_http3(&self, path: &str, more: &[&str]) -> String {
        let url = self.url(path);
        let mut arguments = vec!["--http3-only", "-w", " %{http_version} %{http_code}", &url];
        arguments.extend_from_slice(more);
        String::from_utf8(self.curl(&arguments)).unwrap()
    }
}

#[test]
fn files_servers_and_php_answer_curl() {
    let visit = Visit::new();
    assert_eq!(visit.get_http3("/small.txt", &[]), "small 3 200");
    assert_eq!(visit.get_http3("/behind/x", &[]), "small 3 200");
    assert_eq!(visit.get_http3("/page", &[]), " 3 200");
    assert!(visit.get_http3("/none", &[]).ends_with(" 3 404"));
    let part = visit.get_http3("/small.txt", &["-r", "1-3"]);
    assert_eq!(part, "mal 3 206");
    let head = visit.get_http3("/large.bin", &["-I"]);
    assert!(head.starts_with("HTTP/3 200"), "{head}");
    assert!(head.contains("content-length: 3000000"), "{head}");
    let none = visit.get_http3("/digest.php", &[]);
    assert_eq!(
        none,
        format!("HTTP/3.0 https 0 {} 3 200", sum("sha1sum", b""))
    );
    let got = visit.curl(&["--http3-only", &visit.url("/large.bin")]);
    assert!(got == large());
}

#[test]
fn bodies_come_whole_from_curl() {
    let visit = Visit::new();
    for size in [1, 1_000, 100_000, 5_000_000] {
        let body: Vec<u8> = (0..size).map(|n: u32| (n * 7 + n / 251) as u8).collect();
        let file = visit.file("body");
        std::fs::write(&file, &body).unwrap();
        let expected = format!("HTTP/3.0 https {size} {} 3 200", sum("sha1sum", &body));
        let whole = format!("@{}", file.display());
        let name = file.to_str().unwrap();
        for more in [
            &["--data-binary", &whole][..],
            // The length is not said before.
            &["-X", "POST", "-T", name, "-H", "Content-Length:"],
        ] {
            assert_eq!(visit.get_http3("/digest.php", more), expected, "{more:?}");
        }
    }
    let too_much = visit.file("too-much");
    std::fs::write(&too_much, vec![0; (16 << 20) + 1]).unwrap();
    let whole = format!("@{}", too_much.display());
    let refused = visit.get_http3("/digest.php", &["--data-binary", &whole]);
    assert!(refused.ends_with(" 3 413"), "{refused}");
}

#[test]
fn many_requests_of_curl_share_a_connection() {
    let visit = Visit::new();
    let url = visit.url("/large.bin?[1-30]");
    let folder = visit.file("got");
    std::fs::create_dir(&folder).unwrap();
    let out = format!("{}/#1", folder.display());
    let said = visit.curl(&[
        "--http3-only",
        "-Z",
        "-w",
        "%{http_version} %{http_code} %{num_connects}\n",
        "-o",
        &out,
        &url,
    ]);
    let said = String::from_utf8(said).unwrap();
    assert_eq!(said.lines().count(), 30, "{said}");
    assert!(
        said.lines().all(|line| line.starts_with("3 200 ")),
        "{said}"
    );
    let connections = said.lines().filter(|line| line.ends_with(" 1")).count();
    assert!(connections < 30, "{said}");
    for number in 1..=30 {
        let got = std::fs::read(folder.join(number.to_string())).unwrap();
        assert!(got == large(), "{number}");
    }
}

#[test]
fn curl_goes_over_to_http3_when_it_learns_of_it() {
    let visit = Visit::new();
    let known = visit.file("alt-svc");
    let ask = || {
        let text = visit.curl(&[
            "--alt-svc",
            known.to_str().unwrap(),
            "-w",
            " %{http_version}",
            &visit.url("/small.txt"),
        ]);
        String::from_utf8(text).unwrap()
    };
    assert_eq!(ask(), "small 2");
    let told = std::fs::read_to_string(&known).unwrap();
    assert!(told.contains("h3 localhost"), "{told}");
    assert_eq!(ask(), "small 3");
    // One that does not know of it goes on as before, and does not learn of it any more. (curl does not go back by itself.)
    let without = configuration(&visit.server, &json!({"alt_svc_max_age": 0}));
    visit.server.put("/config", &without);
    std::fs::remove_file(&known).unwrap();
    assert_eq!([ask(), ask()], ["small 2", "small 2"]);
}
