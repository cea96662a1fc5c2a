//! A fleet as a site has it: members of etcd, nodes and an administrator, each on a host of its own; clients at all nodes, whose requests are
//! counted; and ways to break each of these.
//!
//! Nodes have two links: to their clients, which nothing here breaks, and to the store. The test's own process is on both switches.

use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tutti_testkit::{
    Load, LoadOptions, Outcome, Server, ServerOptions, client, processes, wait_until,
};

use crate::clocks::{Clock, Clocks};
use crate::etcd::{Etcd, MemberAddress};
use crate::fleet::{Fleet, environment};
use crate::hosts::{Host, Switch};
use crate::slow_ways::SlowWays;

/// The nodes.
pub const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Members of the store.
pub const MEMBERS: usize = 3;

/// Clients of each node.
const CLIENTS: usize = 2;

/// Between an answer and the next request of a client: about 500 requests a second in all, which leave the machine room for the rest.
const PAUSE: Duration = Duration::from_millis(20);

/// The port that documents are to have a listener at.
const PORT: u16 = 8080;

/// Room for a member: its log takes twice 64 MB.
const DISK_OF_A_MEMBER: &str = "size=192m,mode=700";

/// Room for the state of a node.
const DISK_OF_A_NODE: &str = "size=2m,mode=700";

/// The file that fills a disk.
const FILLER: &str = "filler";

/// The name of the snapshot to go back to.
const SNAPSHOT: &str = "snapshot";

/// All of it.
pub struct Hosts {
    /// Store and nodes.
    pub fleet: Fleet,
    /// Requests to nodes that were up.
    pub served: Outcome,
    /// Requests to nodes that were killed, from shortly before that until they served again.
    pub apart: Outcome,
    /// Members that ended because their disk was full.
    pub ended_by_full_disks: usize,
    ways: SlowWays,
    back: Switch,
    members: Vec<Host>,
    nodes: Vec<Host>,
    administrator: Host,
    options: Vec<ServerOptions>,
    clocks: Vec<Clock>,
    loads: Vec<Option<Load>>,
    loads_apart: Vec<Option<Load>>,
    disks: tempfile::TempDir,
    _clocks: Clocks,
}

/// Addresses of the network of clients.
fn front(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 91, 0, u8::try_from(number).expect("a small number"))
}

/// Addresses of the network of the store.
fn back(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 92, 0, u8::try_from(number).expect("a small number"))
}

fn mount(path: &Path, options: &str) {
    fs::create_dir_all(path).expect("a folder");
    let run = Command::new("mount")
        .args(["-t", "tmpfs", "-o", options, "tmpfs"])
        .arg(path)
        .output();
    let run = run.expect("mount runs");
    assert!(run.status.success(), "{run:?}");
}

fn fill(disk: &Path) {
    let zeros = vec![0; 1 << 16];
    let mut file = File::create(disk.join(FILLER)).expect("a file");
    while file.write_all(&zeros).is_ok() {}
    // The rest of it byte by byte, as it were.
    while file.write_all(&[0; 512]).is_ok() {}
}

impl Hosts {
    /// Starts everything but the clients: they need a document first.
    pub fn start() -> Hosts {
        let clients = Switch::new("front", front(1));
        let store = Switch::new("back", back(1));
        let disks = tempfile::tempdir().expect("a folder");
        let place = |number: usize, host: &Host| {
            let at = |port| SocketAddr::from((back(30 + number), port));
            let disk = (number == 0).then(|| disks.path().join("member"));
            if let Some(disk) = &disk {
                mount(disk, DISK_OF_A_MEMBER);
            }
            MemberAddress {
                wrapper: host.wrapper(),
                client: at(2379),
                peer: at(2380),
                disk,
            }
        };
        let on_store = |name: String, number: usize| {
            let host = Host::new(&name);
            host.link(&store, back(number));
            host
        };
        let members: Vec<Host> = (0..MEMBERS)
            .map(|number| on_store(format!("m{number}"), 30 + number))
            .collect();
        let places: Vec<MemberAddress> = members
            .iter()
            .enumerate()
            .map(|(number, host)| place(number, host))
            .collect();
        let addresses: Vec<SocketAddr> = places.iter().map(|place| place.client).collect();
        let etcd = Etcd::on(places);
        let ways = SlowWays::open(back(1), &addresses);
        let more = json!({"etcd": {"endpoints": urls(&ways)}});
        let made = Clocks::new();
        let mut clocks = Vec::new();
        let (mut hosts, mut options) = (Vec::new(), Vec::new());
        for (number, name) in NODES.iter().enumerate() {
            let host = on_store(format!("n{number}"), 10 + number);
            host.link(&clients, front(10 + number));
            let clock = made.make(name);
            let state = disks.path().join(name);
            mount(&state, DISK_OF_A_NODE);
            options.push(of_node(&etcd.source(name, &more), &host, &clock, state));
            clocks.push(clock);
            hosts.push(host);
        }
        let administrator = on_store("admin".to_owned(), 50);
        let mut fleet = Fleet::on(etcd, &[], &more);
        fleet.wrapper = administrator.wrapper();
        fleet.nodes = std::thread::scope(|scope| {
            let started = options
                .iter()
                .map(|options| scope.spawn(move || Server::start(options)));
            let started: Vec<_> = started.collect();
            started
                .into_iter()
                .map(|node| node.join().expect("a node"))
                .collect()
        });
        wait_until("all nodes answer", || fleet.answers().len() == NODES.len());
        Hosts {
            fleet,
            served: Outcome::default(),
            apart: Outcome::default(),
            ended_by_full_disks: 0,
            ways,
            back: store,
            members,
            nodes: hosts,
            administrator,
            options,
            clocks,
            loads: NODES.iter().map(|_| None).collect(),
            loads_apart: NODES.iter().map(|_| None).collect(),
            disks,
            _clocks: made,
        }
    }

    /// A document with a listener for the clients; a bad one has the address of another machine as well.
    pub fn document(number: u64, is_good: bool) -> Value {
        let own =
            json!({"match": {"uri": format!("/document-{number}")}, "action": {"return": 404}});
        let mut document = json!({
            "listeners": {format!("*:{PORT}"): {"pass": "routes"}},
            "routes": [own, {"action": {"return": 200}}]
        });
        if !is_good {
            document["listeners"]["192.0.2.1:8080"] = json!({"pass": "routes"});
        }
        document
    }

    fn address(node: usize) -> SocketAddr {
        SocketAddr::from((front(10 + node), PORT))
    }

    fn begin_load(node: usize) -> Load {
        let mut options = LoadOptions::get(Hosts::address(node), "/", CLIENTS);
        options.pause = PAUSE;
        Load::start(&options)
    }

    /// Clients ask all nodes from now on.
    pub fn begin_loads(&mut self) {
        for (node, load) in self.loads.iter_mut().enumerate() {
            wait_for_answer(node);
            *load = Some(Hosts::begin_load(node));
        }
    }

    /// The clients end, and everything that they have seen is counted.
    pub fn end_loads(&mut self) {
        for load in self.loads.iter_mut().filter_map(Option::take) {
            self.served += load.stop();
        }
    }

    /// Kills a node, under load: what its clients see is counted apart.
    pub fn kill_node(&mut self, node: usize) {
        let Some(load) = self.loads[node].take() else {
            return;
        };
        // Requests under way are to end.
        self.signal_node(node, libc::SIGCONT);
        self.served += load.stop();
        let load = Hosts::begin_load(node);
        assert!(load.wait_for_answers(4, tutti_testkit::PATIENCE));
        self.fleet.nodes[node].signal(libc::SIGKILL);
        self.loads_apart[node] = Some(load);
    }

    /// Sends a signal to all processes of a node.
    pub fn signal_node(&self, node: usize, signal: i32) {
        for process in self.fleet.nodes[node].processes() {
            let _ = tutti_sys::signal::send(process.pid, signal);
        }
    }

    /// Kills a process of a node, by its title.
    pub fn kill_process(&self, node: usize, title: &str) {
        for pid in self.fleet.nodes[node].pids(title) {
            let _ = tutti_sys::signal::send(pid, libc::SIGKILL);
        }
    }

    /// Cuts the link of a member.
    pub fn cut_member(&self, member: usize) {
        self.members[member].unplug(&self.back);
    }

    /// Cuts a node's link to the store. Its clients have another.
    pub fn cut_node(&self, node: usize) {
        self.nodes[node].unplug(&self.back);
    }

    /// Cuts the link of the administrator.
    pub fn cut_administrator(&self) {
        self.administrator.unplug(&self.back);
    }

    /// From now on each byte between nodes or commands and the store takes this long.
    pub fn slow_down(&self, delay: Duration) {
        self.ways.set_delay(delay);
    }

    /// Moves the clock of a node.
    pub fn move_clock(&mut self, node: usize, seconds: i64) {
        self.clocks[node].set(seconds);
    }

    /// Fills the disk of the first member.
    pub fn fill_disk_of_member(&self) {
        fill(&self.disks.path().join("member"));
    }

    /// Fills the disk with the state of a node.
    pub fn fill_disk_of_node(&self, node: usize) {
        fill(&self.disks.path().join(NODES[node]));
    }

    /// Saves what there is, to go back to; the last that was saved stays if that is not possible.
    pub fn save(&self) -> bool {
        self.fleet.etcd.save(1, SNAPSHOT)
    }

    /// Goes back to what was saved last.
    pub fn restore(&mut self) {
        self.fleet.etcd.restore_all(SNAPSHOT);
    }

    /// Forgets all revisions but the last, and gives the room back; false if that is not possible now.
    pub fn compact(&self) -> bool {
        let etcd = &self.fleet.etcd;
        let status = etcd.run("etcdctl", &["endpoint", "status", "--write-out=json"]);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
        let revision = status[0]["Status"]["header"]["revision"].to_string();
        etcd.run("etcdctl", &["compact", &revision])
            .status
            .success()
            && etcd.run("etcdctl", &["defrag"]).status.success()
    }

    /// Revokes all leases; how many.
    pub fn revoke_leases(&self) -> usize {
        let etcd = &self.fleet.etcd;
        let list = etcd.run("etcdctl", &["lease", "list"]);
        let list = String::from_utf8_lossy(&list.stdout).into_owned();
        let revoked = list.lines().skip(1).filter(|lease| {
            let run = etcd.run("etcdctl", &["lease", "revoke", lease]);
            run.status.success()
        });
        revoked.count()
    }

    /// Ends everything that is broken, and waits until each process is there again.
    pub fn heal(&mut self) {
        for (node, name) in NODES.iter().enumerate() {
            self.signal_node(node, libc::SIGCONT);
            self.nodes[node].plug(&self.back);
            self.clocks[node].set(0);
            self.empty(name);
        }
        let was_full = self.empty("member");
        if was_full && self.fleet.etcd.has_ended(0) {
            self.ended_by_full_disks += 1;
        }
        self.administrator.plug(&self.back);
        self.ways.set_delay(Duration::ZERO);
        for member in 0..MEMBERS {
            self.members[member].plug(&self.back);
            self.fleet.etcd.signal(member, libc::SIGCONT);
        }
        self.fleet.etcd.start_ended();
        for node in 0..NODES.len() {
            let Some(load) = self.loads_apart[node].take() else {
                continue;
            };
            let options = &self.options[node];
            wait_until("the killed node is gone", || {
                !processes::is_running(self.fleet.nodes[node].pid())
            });
            self.fleet.nodes[node].start_again(options);
            wait_for_answer(node);
            self.apart += load.stop();
            self.loads[node] = Some(Hosts::begin_load(node));
        }
    }

    /// Gives the room on a disk back; true if it was taken.
    fn empty(&self, disk: &str) -> bool {
        fs::remove_file(self.disks.path().join(disk).join(FILLER)).is_ok()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // No process stays stopped, to be waited for in vain.
        for node in 0..self.fleet.nodes.len() {
            self.signal_node(node, libc::SIGCONT);
        }
        for disk in ["member"].iter().chain(&NODES) {
            let path = self.disks.path().join(disk);
            let _ = Command::new("umount").arg("--lazy").arg(path).status();
        }
    }
}

fn urls(ways: &SlowWays) -> Vec<String> {
    let ways = ways.addresses.iter();
    ways.map(|address| format!("http://{address}")).collect()
}

fn of_node(source: &Path, host: &Host, clock: &Clock, state: PathBuf) -> ServerOptions {
    let words = ["env".to_owned()].into_iter();
    let words = words.chain(environment()).chain(clock.environment());
    ServerOptions {
        flags: vec!["--source".to_owned(), source.display().to_string()],
        state: Some(state),
        wrapper: words.chain(host.wrapper()).collect(),
        ..ServerOptions::default()
    }
}

fn wait_for_answer(node: usize) {
    wait_until("a node serves", || {
        client::get(Hosts::address(node), "/").is_ok_and(|reply| reply.status == 200)
    });
}
