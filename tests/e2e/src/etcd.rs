//! A store for tests that other people wrote: etcd, of one or more members on this machine.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;

use data_encoding::BASE64;
use serde_json::{Value, json};
use tutti_testkit::{client, free_port, server, wait_until};

use crate::authority::{Authority, EC};

/// Members of an etcd. Dropping it ends them.
pub struct Etcd {
    folder: tempfile::TempDir,
    members: Vec<Member>,
    is_secure: bool,
    /// The number of times that it was restored from a snapshot: each time it is another cluster.
    restored: u32,
}

/// A key and its text.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The text.
    pub text: String,
    /// The number of times that it was written.
    pub version: u64,
}

struct Member {
    child: Option<Child>,
    place: MemberAddress,
}

/// Where a member runs.
pub struct MemberAddress {
    /// Words before its program, which put it on another host.
    pub wrapper: Vec<String>,
    /// Where clients find it.
    pub client: SocketAddr,
    /// Where other members find it.
    pub peer: SocketAddr,
    /// The folder that holds its data; `None`: the store's own.
    pub disk: Option<PathBuf>,
}

impl MemberAddress {
    /// This machine.
    fn here() -> MemberAddress {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        MemberAddress {
            wrapper: Vec::new(),
            client: at(free_port()),
            peer: at(free_port()),
            disk: None,
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for number in 0..self.members.len() {
            self.kill(number);
        }
    }
}

impl Etcd {
    /// Starts so many members, and waits until they answer.
    pub fn start(count: usize) -> Etcd {
        Etcd::on((0..count).map(|_| MemberAddress::here()).collect())
    }

    /// One member that speaks TLS, and asks clients for certificates.
    pub fn secure() -> Etcd {
        Etcd::begin(vec![MemberAddress::here()], true)
    }

    /// Starts a member at each place, and waits until they answer.
    pub fn on(places: Vec<MemberAddress>) -> Etcd {
        Etcd::begin(places, false)
    }

    fn begin(places: Vec<MemberAddress>, is_secure: bool) -> Etcd {
        let folder = tempfile::Builder::new().prefix("tutti-etcd-").tempdir();
        let folder = folder.expect("a folder");
        if is_secure {
            let authority = Authority::new(folder.path());
            authority.issue("member", EC, "ca", "subjectAltName=IP:127.0.0.1");
            authority.issue("client", EC, "ca", "subjectAltName=DNS:node");
        }
        let count = places.len();
        let members = places
            .into_iter()
            .map(|place| Member { child: None, place });
        let mut etcd = Etcd {
            members: members.collect(),
            folder,
            is_secure,
            restored: 0,
        };
        for number in 0..count {
            etcd.spawn(number);
        }
        for number in 0..count {
            etcd.wait_for(number);
        }
        etcd
    }

    /// The folder of a member's data.
    fn data(&self, number: usize) -> PathBuf {
        let disk = self.members[number].place.disk.as_deref();
        let folder = disk.unwrap_or(self.folder.path());
        folder.join(format!("data-{number}"))
    }

    /// A file of the store's authority.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("ca").join(name)
    }

    fn spawn(&mut self, number: usize) {
        let scheme = if self.is_secure { "https" } else { "http" };
        let place = &self.members[number].place;
        let log = self.folder.path().join(format!("log-{number}"));
        let log = File::options().create(true).append(true).open(log);
        let log = log.expect("a log");
        let clients = format!("{scheme}://{}", place.client);
        let peers = format!("http://{}", place.peer);
        let program = programs().join("etcd");
        let mut command = match place.wrapper.split_first() {
            Some((wrapper, words)) => {
                let mut command = Command::new(wrapper);
                command.args(words).arg(program);
                command
            }
            None => Command::new(program),
        };
        command
            .args(["--name", &format!("m{number}")])
            .arg("--data-dir")
            .arg(self.data(number))
            .args([
                "--listen-client-urls",
                &clients,
                "--advertise-client-urls",
                &clients,
            ])
            .args(["--listen-peer-urls", &peers])
            .args(["--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &self.all_members()])
            // Nothing here has to outlive the machine, and elections are to be over soon.
            .args([
                "--unsafe-no-fsync",
                "--heartbeat-interval",
                "50",
                "--election-timeout",
                "500",
            ])
            .args(["--log-level", "warn"])
            .stdout(Stdio::null())
            .stderr(log);
        if self.is_secure {
            command
                .arg("--client-cert-auth")
                .args(["--trusted-ca-file".into(), self.path("ca.pem")])
                .args(["--cert-file".into(), self.path("member.pem")])
                .args(["--key-file".into(), self.path("member.key")]);
        }
        self.members[number].child = Some(command.spawn().expect("etcd starts"));
    }

    /// The members for each other.
    fn all_members(&self) -> String {
        let all = self.members.iter().enumerate();
        let all = all.map(|(number, member)| format!("m{number}=http://{}", member.place.peer));
        all.collect::<Vec<_>>().join(",")
    }

    fn wait_for(&self, number: usize) {
        wait_until("a member of etcd", || self.is_well(number));
    }

    /// True if a member answers, and the others with it.
    fn is_well(&self, number: usize) -> bool {
        if self.is_secure {
            return self
                .run("etcdctl", &["endpoint", "health"])
                .status
                .success();
        }
        client::get(self.members[number].place.client, "/health")
            .is_ok_and(|reply| reply.status == 200)
    }

    /// Kills a member, if it runs.
    pub fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.members[number].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts a member again on its data.
    pub fn start_again(&mut self, number: usize) {
        self.kill(number);
        self.spawn(number);
        self.wait_for(number);
    }

    /// Starts all members again on their data: they need each other to answer.
    pub fn start_all_again(&mut self) {
        for number in 0..self.members.len() {
            self.kill(number);
            self.spawn(number);
        }
        for number in 0..self.members.len() {
            self.wait_for(number);
        }
    }

    /// Sends a member a signal.
    pub fn signal(&self, number: usize, signal: i32) {
        if let Some(child) = &self.members[number].child {
            let pid = i32::try_from(child.id()).expect("a process number");
            let _ = tutti_sys::signal::send(pid, signal);
        }
    }

    /// Copies the data of the only member, which is started again.
    pub fn copy(&mut self, to: &str) {
        // It writes down everything before it ends.
        self.signal(0, libc::SIGTERM);
        if let Some(mut child) = self.members[0].child.take() {
            let _ = child.wait();
        }
        let to = self.folder.path().join(to);
        copy_folder(&self.data(0), &to);
        self.start_again(0);
    }

    /// Goes back to a copy of the data of the only member; `is_new`: as etcd's own tool does it, as a cluster with another number.
    pub fn restore(&mut self, from: &str, is_new: bool) {
        self.kill(0);
        let data = self.data(0);
        fs::remove_dir_all(&data).expect("the data goes");
        let from = self.folder.path().join(from);
        if is_new {
            let snapshot = from.join("member/snap/db");
            self.unpack(0, &snapshot, "restored", &["--skip-hash-check"]);
        } else {
            copy_folder(&from, &data);
        }
        self.start_again(0);
    }

    /// Makes the data of a member from a snapshot, as that of a new cluster.
    fn unpack(&self, number: usize, snapshot: &Path, token: &str, more: &[&str]) {
        let peer = format!("http://{}", self.members[number].place.peer);
        let run = Command::new(programs().join("etcdutl"))
            .args(["snapshot", "restore"])
            .arg(snapshot)
            .args(["--name", &format!("m{number}"), "--data-dir"])
            .arg(self.data(number))
            .args(["--initial-cluster", &self.all_members()])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster-token", token])
            .args(more)
            .output()
            .expect("etcdutl runs");
        assert!(run.status.success(), "{run:?}");
    }

    /// Saves a snapshot of a member as etcd's own client does it; false if that is not possible now.
    pub fn save(&self, number: usize, name: &str) -> bool {
        let path = self.folder.path().join(name);
        let new = self.folder.path().join(format!("{name}-new"));
        let endpoint = self.endpoints().swap_remove(number);
        let run = self.run_on(
            &[endpoint],
            "etcdctl",
            &["snapshot", "save", &new.display().to_string()],
        );
        run.status.success() && fs::rename(&new, &path).is_ok()
    }

    /// Kills all members, and starts them on a snapshot that was saved before, as a new cluster. Does not wait for them.
    pub fn restore_all(&mut self, name: &str) {
        let snapshot = self.folder.path().join(name);
        for number in 0..self.members.len() {
            self.kill(number);
            fs::remove_dir_all(self.data(number)).expect("the data goes");
        }
        self.restored += 1;
        let token = format!("restored-{}", self.restored);
        for number in 0..self.members.len() {
            self.unpack(number, &snapshot, &token, &[]);
            self.spawn(number);
        }
    }

    /// Starts the members that have ended, and waits until all answer. Returns how many had.
    pub fn start_ended(&mut self) -> usize {
        let mut count = 0;
        for number in 0..self.members.len() {
            if self.has_ended(number) {
                self.spawn(number);
                count += 1;
            }
        }
        for number in 0..self.members.len() {
            self.wait_for(number);
        }
        count
    }

    /// True if a member has ended, by itself or because it was killed.
    pub fn has_ended(&mut self, number: usize) -> bool {
        let child = self.members[number].child.as_mut();
        child.is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// URLs of the members.
    pub fn endpoints(&self) -> Vec<String> {
        let scheme = if self.is_secure { "https" } else { "http" };
        let members = self.members.iter();
        members
            .map(|member| format!("{scheme}://{}", member.place.client))
            .collect()
    }

    /// The number of the member that has this URL.
    pub fn number_of(&self, endpoint: &str) -> Option<usize> {
        self.endpoints().iter().position(|one| one == endpoint)
    }

    /// Runs a tool of etcd on its members.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Output {
        self.run_on(&self.endpoints(), program, arguments)
    }

    fn run_on(&self, endpoints: &[String], program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(programs().join(program));
        command
            .arg(format!("--endpoints={}", endpoints.join(",")))
            .args(["--command-timeout=5s", "--dial-timeout=2s"])
            .env("ETCDCTL_API", "3")
            .args(arguments);
        if self.is_secure {
            command
                .arg("--cacert")
                .arg(self.path("ca.pem"))
                .arg("--cert")
                .arg(self.path("client.pem"))
                .arg("--key")
                .arg(self.path("client.key"));
        }
        command.output().expect("a tool of etcd runs")
    }

    /// The output of etcd's own client.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let run = self.run("etcdctl", arguments);
        assert!(run.status.success(), "{arguments:?}: {run:?}");
        String::from_utf8_lossy(&run.stdout).into_owned()
    }

    /// Writes a file with the source for a node, which has everybody's rights to be read.
    pub fn source(&self, name: &str, more: &Value) -> PathBuf {
        let mut source = json!({"etcd": {"endpoints": self.endpoints()}, "name": name});
        if self.is_secure {
            source["etcd"]["tls"] = json!({
                "ca": self.path("ca.pem"),
                "certificate": self.path("client.pem"),
                "key": self.path("client.key"),
            });
        }
        for (member, value) in more.as_object().into_iter().flatten() {
            source[member] = value.clone();
        }
        let path = self.folder.path().join(format!("{name}.json"));
        fs::write(&path, source.to_string()).expect("a file");
        path
    }

    /// A file with keys of a fleet, one a line, that no other user can read.
    pub fn secret(&self, name: &str, lines: &[&str]) -> PathBuf {
        let path = self.write(name, &(lines.join("\n") + "\n"));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&path, mode).expect("its mode");
        path
    }

    /// All keys that begin so, by the first member that is asked over JSON: fast enough for a look in a loop.
    pub fn range(&self, prefix: &str) -> Vec<Entry> {
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let question =
            json!({"key": BASE64.encode(prefix.as_bytes()), "range_end": BASE64.encode(&end)});
        let question = question.to_string();
        let address = self.members[0].place.client;
        let request = format!(
            "POST /v3/kv/range HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{question}",
            question.len()
        );
        let reply = client::request(address, request.as_bytes()).expect("etcd answers");
        let answer = reply.json();
        let text = |value: &Value| {
            let bytes = BASE64.decode(value.as_str().unwrap_or_default().as_bytes());
            String::from_utf8(bytes.expect("Base64")).expect("text")
        };
        let entries = answer["kvs"].as_array().into_iter().flatten();
        entries
            .map(|entry| Entry {
                key: text(&entry["key"]),
                text: text(&entry["value"]),
                version: entry["version"]
                    .as_str()
                    .and_then(|version| version.parse().ok())
                    .unwrap_or_default(),
            })
            .collect()
    }

    /// The text that a key has.
    pub fn text(&self, key: &str) -> String {
        let text = self.ctl(&["get", key, "--print-value-only"]);
        text.trim_end().to_owned()
    }

    /// A file of the folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }
}

fn copy_folder(from: &Path, to: &Path) {
    let run = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(run.expect("cp runs").success());
}

/// The folder with etcd's programs, which `packaging/etcd` fills.
fn programs() -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().expect("no holder panics");
    let folder = server::binaries().join("etcd-programs");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/etcd");
    let run = Command::new(script).arg(&folder).output().expect("it runs");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{errors}");
    folder
}
