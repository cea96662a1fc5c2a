//! Hosts of a test's own: network namespaces, each with links to switches, which are bridges. Everything is in a network that the test
//! alone has, and goes with its processes.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use tutti_testkit::{is_root, skipped};

/// Set where the test runs in its own network.
const INSIDE: &str = "TUTTI_TEST_HAS_ITS_NETWORK";

/// All that hosts need of the kernel and of iproute2.
const ATTEMPT: &str = "ip link add switch type bridge && ip link add here type veth peer name there && \
    ip link set here master switch && mount -t tmpfs -o size=1m tmpfs /mnt";

/// True if this test runs in a network and with mounts of its own. If not, the test of this name is run so, in another process, and the
/// caller has to end; where that is not possible it is skipped.
pub fn has_own_network(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !is_root() {
        skipped("only root can make network namespaces");
        return false;
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount"]);
        command
    };
    let attempt = unshare().args(["sh", "-ec", ATTEMPT]).output();
    let failure = match attempt {
        Ok(attempt) if attempt.status.success() => None,
        Ok(attempt) => Some(String::from_utf8_lossy(&attempt.stderr).trim().to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(failure) = failure {
        skipped(&format!("no hosts of its own: {failure}"));
        return false;
    }
    let program = std::env::current_exe().expect("the path of this test");
    let run = unshare()
        .args(["sh", "-ec", "ip link set lo up; exec \"$@\"", "sh"])
        .arg(program)
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare runs");
    print!("{}", String::from_utf8_lossy(&run.stdout));
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "in its own network:\n{errors}");
    eprint!("{errors}");
    false
}

/// Runs iproute2.
fn ip(arguments: &[&str]) {
    let run = Command::new("ip").args(arguments).output();
    let run = run.expect("iproute2 is installed");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "ip {}: {errors}", arguments.join(" "));
}

/// A bridge that hosts have links to.
pub struct Switch {
    name: &'static str,
}

impl Switch {
    /// Makes one; the test itself is on it, with this address of a /16. Its hardware address stays: without one of its own a bridge has the
    /// lowest of its links, and when that link is taken out all others look for the test at an address that is no more, for half a minute.
    pub fn new(name: &'static str, own: Ipv4Addr) -> Switch {
        let [a, b, c, d] = own.octets();
        let hardware = format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
        ip(&["link", "add", name, "address", &hardware, "type", "bridge"]);
        ip(&["addr", "add", &format!("{own}/16"), "dev", name]);
        ip(&["link", "set", name, "up"]);
        Switch { name }
    }
}

/// A host: it is there as long as this value.
pub struct Host {
    name: String,
    /// A process that holds the namespace.
    holder: Child,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

impl Host {
    /// Makes one without links.
    pub fn new(name: &str) -> Host {
        // It ends with its input, that is with the test at the latest.
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-ec", "ip link set lo up; echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare runs");
        let output = holder.stdout.take().expect("a pipe");
        let mut line = String::new();
        let heard = BufReader::new(output).read_line(&mut line);
        assert!(heard.is_ok() && line == "\n", "no host {name}");
        Host {
            name: name.to_owned(),
            holder,
        }
    }

    /// Words before a program that put it on this host.
    pub fn wrapper(&self) -> Vec<String> {
        let namespace = format!("--net=/proc/{}/ns/net", self.holder.id());
        vec!["nsenter".to_owned(), namespace]
    }

    fn port(&self, switch: &Switch) -> String {
        format!("{}-{}", self.name, switch.name)
    }

    /// Links it to a switch, with this address of a /16.
    pub fn link(&self, switch: &Switch, address: Ipv4Addr) {
        let port = self.port(switch);
        let holder = self.holder.id().to_string();
        let veth = ["link", "add", &port, "type", "veth", "peer", "name"];
        ip(&[&veth[..], &[switch.name, "netns", &holder]].concat());
        let own = |arguments: &[&str]| {
            let wrapper = self.wrapper();
            let mut words = wrapper.iter().skip(1).map(String::as_str);
            let namespace = words.next().unwrap_or_default();
            let run = Command::new("nsenter")
                .args([namespace, "ip"])
                .args(arguments)
                .output();
            let run = run.expect("nsenter runs");
            assert!(run.status.success(), "{run:?}");
        };
        own(&["addr", "add", &format!("{address}/16"), "dev", switch.name]);
        own(&["link", "set", switch.name, "up"]);
        ip(&["link", "set", &port, "up"]);
        self.plug(switch);
    }

    /// Takes its link out of the switch: what is sent is lost without a word.
    pub fn unplug(&self, switch: &Switch) {
        ip(&["link", "set", &self.port(switch), "nomaster"]);
    }

    /// Puts its link into the switch, again or still.
    pub fn plug(&self, switch: &Switch) {
        ip(&["link", "set", &self.port(switch), "master", switch.name]);
    }
}
