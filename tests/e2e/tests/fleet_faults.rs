//! A fleet on hosts of its own, in whose roll-outs things break by schedules that a seed gives: every node ends on the same generation, which
//! is one that was asked for; a command that says it has succeeded is right; and no request to a node that is up is lost.
//!
//! `TUTTI_FLEET_SEEDS=7` runs one schedule, `TUTTI_FLEET_SEEDS=41-80` some.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tutti_e2e::fleet::Fleet;
use tutti_e2e::hosts::has_own_network;
use tutti_e2e::hosts_of_a_fleet::{Hosts, MEMBERS, NODES};
use tutti_testkit::{Load, LoadOptions, Outcome, Server, wait_until};

/// The longest that a command may take: two waves and the way back, each with its own bound, on a busy machine.
const LONGEST_COMMAND: Duration = Duration::from_secs(240);

/// Seconds of a day.
const DAY: i64 = 86_400;

/// Schedules take a few seconds. What a longer one waited for is in the logs of its nodes.
const UNUSUAL: Duration = Duration::from_secs(20);

fn is_long() -> bool {
    std::env::var_os("TUTTI_LONG").is_some()
}

/// The seeds of `make test`, of `make test-long`, or those that the environment says.
fn seeds() -> RangeInclusive<u64> {
    let Ok(text) = std::env::var("TUTTI_FLEET_SEEDS") else {
        return 1..=if is_long() { 200 } else { 10 };
    };
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    // `7` or `1-40`.
    let number = |text: &str| text.parse().unwrap();
    number(first)..=number(last)
}

/// Numbers of a schedule (SplitMix64, Steele, Lea and Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(u64::try_from(bound).unwrap())).unwrap()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InjectedFault {
    MemberKilled(usize),
    MemberStopped(usize),
    MemberCut(usize),
    StoreKilled,
    StoreStopped,
    StoreCompacted,
    StoreRestored,
    DiskOfMemberFull,
    LeasesRevoked,
    Delayed(u64),
    NodeKilled(usize),
    NodeStopped(usize),
    NodeCut(usize),
    DiskOfNodeFull(usize),
    ClockMoved(usize, i64),
    FollowerKilled(usize),
    ControllerKilled(usize),
    CommandKilled,
    CommandStopped,
    CommandCut,
}

/// The number of kinds.
const KINDS: u64 = 20;

impl InjectedFault {
    fn of(kind: u64, numbers: &mut Numbers) -> InjectedFault {
        let member = numbers.index(MEMBERS);
        let node = numbers.index(NODES.len());
        match kind % KINDS {
            0 => InjectedFault::MemberKilled(member),
            1 => InjectedFault::MemberStopped(member),
            2 => InjectedFault::MemberCut(member),
            3 => InjectedFault::StoreKilled,
            4 => InjectedFault::StoreStopped,
            5 => InjectedFault::StoreCompacted,
            6 => InjectedFault::StoreRestored,
            7 => InjectedFault::DiskOfMemberFull,
            8 => InjectedFault::LeasesRevoked,
            9 => InjectedFault::Delayed(50 + numbers.below(400)),
            10 => InjectedFault::NodeKilled(node),
            11 => InjectedFault::NodeStopped(node),
            12 => InjectedFault::NodeCut(node),
            13 => InjectedFault::DiskOfNodeFull(node),
            14 => InjectedFault::ClockMoved(node, [-DAY, -60, 60, DAY][numbers.index(4)]),
            15 => InjectedFault::FollowerKilled(node),
            16 => InjectedFault::ControllerKilled(node),
            17 => InjectedFault::CommandKilled,
            18 => InjectedFault::CommandStopped,
            _ => InjectedFault::CommandCut,
        }
    }

    /// Its kind alone.
    fn kind(self) -> String {
        let text = format!("{self:?}");
        let end = text.find('(').unwrap_or(text.len());
        text[..end].to_owned()
    }

    fn breaks(self, hosts: &mut Hosts, command: &mut Child) {
        let etcd = &mut hosts.fleet.etcd;
        match self {
            InjectedFault::MemberKilled(member) => etcd.kill(member),
            InjectedFault::MemberStopped(member) => etcd.signal(member, libc::SIGSTOP),
            InjectedFault::MemberCut(member) => hosts.cut_member(member),
            InjectedFault::StoreKilled => (0..MEMBERS).for_each(|member| etcd.kill(member)),
            InjectedFault::StoreStopped => {
                (0..MEMBERS).for_each(|member| etcd.signal(member, libc::SIGSTOP));
            }
            // Not possible where a fault before has taken the store away.
            InjectedFault::StoreCompacted => drop(hosts.compact()),
            InjectedFault::StoreRestored => hosts.restore(),
            InjectedFault::DiskOfMemberFull => hosts.fill_disk_of_member(),
            InjectedFault::LeasesRevoked => drop(hosts.revoke_leases()),
            InjectedFault::Delayed(milliseconds) => {
                hosts.slow_down(Duration::from_millis(milliseconds))
            }
            InjectedFault::NodeKilled(node) => hosts.kill_node(node),
            InjectedFault::NodeStopped(node) => hosts.signal_node(node, libc::SIGSTOP),
            InjectedFault::NodeCut(node) => hosts.cut_node(node),
            InjectedFault::DiskOfNodeFull(node) => hosts.fill_disk_of_node(node),
            InjectedFault::ClockMoved(node, seconds) => hosts.move_clock(node, seconds),
            InjectedFault::FollowerKilled(node) => hosts.kill_process(node, "tutti: fleet"),
            InjectedFault::ControllerKilled(node) => hosts.kill_process(node, "tutti: controller"),
            InjectedFault::CommandKilled => command.kill().unwrap(),
            InjectedFault::CommandStopped => signal(command, libc::SIGSTOP),
            InjectedFault::CommandCut => hosts.cut_administrator(),
        }
    }
}

fn signal(child: &Child, signal: i32) {
    let _ = tutti_sys::signal::send(i32::try_from(child.id()).unwrap(), signal);
}

/// Everything that a schedule does, from its seed alone.
#[derive(Debug)]
struct Schedule {
    seed: u64,
    /// Nodes can put the document in force.
    is_good: bool,
    /// Another command rolls something else out at the same time.
    has_rival: bool,
    /// Each with the milliseconds before it.
    faults: [(u64, InjectedFault); 2],
    /// The milliseconds until all is healed.
    during: u64,
}

impl Schedule {
    fn of(seed: u64) -> Schedule {
        let mut numbers = Numbers(seed);
        // All kinds come within ten seeds, and all pairs of them in the long run.
        let first = InjectedFault::of(seed, &mut numbers);
        let second = InjectedFault::of(seed + seed / KINDS + KINDS / 2, &mut numbers);
        Schedule {
            seed,
            is_good: numbers.below(4) != 0,
            has_rival: numbers.below(4) == 0,
            faults: [(numbers.below(900), first), (numbers.below(700), second)],
            during: numbers.below(1500),
        }
    }

    fn has(&self, fault: InjectedFault) -> bool {
        self.faults.iter().any(|(_, one)| *one == fault)
    }

    fn document(&self) -> Value {
        Hosts::document(2 * self.seed, self.is_good)
    }

    fn rival(&self) -> Option<Value> {
        let rival = || Hosts::document(2 * self.seed + 1, true);
        self.has_rival.then(rival)
    }

    /// Rolls out while things break, heals them, and waits for the commands: true for each that says it has succeeded.
    fn run(&self, hosts: &mut Hosts) -> Vec<bool> {
        let documents = std::iter::once(self.document()).chain(self.rival());
        let mut commands: Vec<Child> = documents
            .map(|document| begin(&hosts.fleet, &document))
            .collect();
        for (before, fault) in self.faults {
            pass(before);
            fault.breaks(hosts, &mut commands[0]);
        }
        pass(self.during);
        hosts.heal();
        signal(&commands[0], libc::SIGCONT);
        commands.into_iter().map(ends).collect()
    }
}

fn begin(fleet: &Fleet, document: &Value) -> Child {
    let file = fleet.file(&document.to_string());
    fleet
        .command(&["put", &file, "--wait", "0.2", "--timeout", "20"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for the end of a command; true if it has succeeded.
fn ends(mut command: Child) -> bool {
    let until = Instant::now() + LONGEST_COMMAND;
    loop {
        if let Some(status) = command.try_wait().unwrap() {
            return status.success();
        }
        assert!(Instant::now() < until, "a command does not end");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// The generation that a head says its nodes run.
fn settled(head: &Value) -> Option<u64> {
    let version = match head["state"].as_str()? {
        "returned" => &head["former"],
        _ => &head["version"],
    };
    version["generation"].as_u64()
}

/// Waits until no roll-out is under way, and each node runs the generation of the head and has answered so. Returns its document.
fn one_document(fleet: &Fleet, what: &str) -> Value {
    let mut documents = Vec::new();
    let mut last = Value::Null;
    let is_one = || {
        last = fleet.status();
        let head = &last["heads"]["all"];
        if head["state"] == "rolling" {
            // Its command has died.
            fleet.run(&["rollback"]);
            return false;
        }
        let Some(found) = settled(head) else {
            return false;
        };
        let answers = last["nodes"].as_object().into_iter().flatten();
        let answers: Vec<_> = answers
            .filter(|(_, one)| one["generation"] == found)
            .collect();
        documents = (0..NODES.len())
            .map(|node| fleet.configuration(node))
            .collect();
        let runs = |node: usize| {
            let source = fleet.source_of(node);
            source["state"] == "applied"
                && source["connected"] == true
                && source["generation"] == found
        };
        answers.len() == NODES.len()
            && (0..NODES.len()).all(runs)
            && documents.iter().all(|document| *document == documents[0])
    };
    let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_until(what, is_one);
    }));
    assert!(waited.is_ok(), "{what}: {last}; they run {documents:?}");
    documents.swap_remove(0)
}

/// Lets time pass in which the roll-out comes to another place each time.
#[expect(
    clippy::disallowed_methods,
    reason = "the moment of a fault is a number of its schedule: no condition may choose it"
)]
fn pass(milliseconds: u64) {
    sleep(Duration::from_millis(milliseconds));
}

/// Nothing went wrong for anybody who asked.
fn costs_nothing(outcome: &Outcome) -> bool {
    outcome.answered > 0 && outcome.failures() + outcome.refused == 0
}

#[test]
fn whatever_breaks_in_a_roll_out_all_nodes_end_on_one_generation_that_was_asked_for() {
    if !has_own_network(
        "whatever_breaks_in_a_roll_out_all_nodes_end_on_one_generation_that_was_asked_for",
    ) {
        return;
    }
    let mut hosts = Hosts::start();
    let mut in_force = Hosts::document(0, true);
    hosts.fleet.put(&in_force.to_string());
    hosts.begin_loads();
    assert!(hosts.save());
    let mut asked_for = vec![in_force.clone()];
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    let (mut count, mut done) = (0, 0);
    for seed in seeds() {
        let schedule = Schedule::of(seed);
        let what = format!("{schedule:?}");
        let start = Instant::now();
        let ends = schedule.run(&mut hosts);
        let now = one_document(&hosts.fleet, &what);
        let took = start.elapsed();
        println!("{took:.1?}: {what}, succeeded: {ends:?}");
        if took > UNUSUAL {
            let logs = hosts.fleet.nodes.iter().map(Server::log);
            println!(
                "logs of its nodes:\n{}",
                logs.collect::<Vec<_>>().join("\n---\n")
            );
        }
        asked_for.extend(schedule.is_good.then(|| schedule.document()));
        asked_for.extend(schedule.rival());
        assert!(asked_for.contains(&now), "{what}: {now}");
        if !schedule.is_good {
            assert!(!ends[0], "{what}: a bad document is no success");
        }
        // A store that goes back to older documents forgets what it has said.
        if !schedule.has_rival && !schedule.has(InjectedFault::StoreRestored) {
            let is_own = now == schedule.document();
            assert!(is_own || !ends[0], "{what}: it was said to be in force");
            assert!(is_own || now == in_force, "{what}: {now}");
        }
        // Some schedules go back further than the one before.
        if seed % 3 == 0 {
            hosts.save();
        }
        count += 1;
        done += u64::from(ends.contains(&true));
        for (_, fault) in schedule.faults {
            *faults.entry(fault.kind()).or_default() += 1;
        }
        in_force = now;
    }
    hosts.end_loads();
    println!(
        "{count} schedules, {done} with a roll-out that was done; faults: {faults:?}; members that ended by full disks: {}",
        hosts.ended_by_full_disks
    );
    println!("requests to nodes that were up: {}", hosts.served);
    println!("requests to nodes as they were killed: {}", hosts.apart);
    assert!(costs_nothing(&hosts.served), "{}", hosts.served);
}

#[test]
fn a_roll_out_to_five_nodes_under_load_loses_no_request_and_a_bad_document_comes_back() {
    if !has_own_network(
        "a_roll_out_to_five_nodes_under_load_loses_no_request_and_a_bad_document_comes_back",
    ) {
        return;
    }
    let mut hosts = Hosts::start();
    hosts.fleet.put(&Hosts::document(0, true).to_string());
    hosts.begin_loads();
    let rounds = if is_long() { 50 } else { 3 };
    for round in 1..=rounds {
        let good = Hosts::document(2 * round, true);
        let words = hosts.fleet.put(&good.to_string());
        assert!(words.contains("is in force on 5 nodes"), "{words}");
        let bad = Hosts::document(2 * round + 1, false).to_string();
        let file = hosts.fleet.file(&bad);
        let words = hosts.fleet.fail(&["put", &file, "--wait", "0"]);
        assert!(
            words.contains("all nodes are back at generation")
                && words.contains("at `/listeners/192.0.2.1:8080`"),
            "{words}"
        );
        assert_eq!(one_document(&hosts.fleet, "after a bad document"), good);
    }
    // A wrong clock is reported, and nothing depends on it.
    hosts.move_clock(1, DAY);
    hosts.fleet.put(&Hosts::document(1000, true).to_string());
    let answers = hosts.fleet.answers();
    let since = |node: usize| answers[NODES[node]]["since"].as_i64().unwrap();
    let apart = since(1) - since(0);
    assert!((DAY / 2..2 * DAY).contains(&apart), "{answers:?}");
    hosts.move_clock(1, 0);
    hosts.end_loads();
    println!(
        "{rounds} roll-outs and as many bad documents: {}",
        hosts.served
    );
    assert!(costs_nothing(&hosts.served), "{}", hosts.served);
}

#[test]
fn a_store_that_ends_and_begins_again_under_load_costs_no_request() {
    let mut fleet = Fleet::start(1, &["a"]);
    let listener = fleet.nodes[0].address().to_string();
    let serving = |number: u64| {
        let listeners = json!({listener.as_str(): {"pass": "routes"}});
        let other = json!({"match": {"uri": format!("/{number}")}, "action": {"return": 404}});
        json!({"listeners": listeners, "routes": [other, {"action": {"return": 200}}]}).to_string()
    };
    fleet.put(&serving(0));
    let mut load = LoadOptions::get(fleet.nodes[0].address(), "/", 4);
    load.pause = Duration::from_millis(1);
    let load = Load::start(&load);
    let mut numbers = Numbers(1);
    let rounds = if is_long() { 200 } else { 10 };
    for round in 1..=rounds {
        if numbers.below(2) == 0 {
            fleet.etcd.kill(0);
        } else {
            fleet.etcd.signal(0, libc::SIGSTOP);
        }
        wait_until("the node has noticed", || {
            fleet.source_of(0)["connected"] == false
        });
        fleet.etcd.start_again(0);
        wait_until("the node is there again", || {
            fleet.source_of(0)["connected"] == true && fleet.answers().len() == 1
        });
        fleet.put(&serving(round));
        fleet.wait_for(0, &serving(round));
    }
    let outcome = load.stop();
    println!("{rounds} ends of the store under load: {outcome}");
    assert_eq!(outcome.failures() + outcome.refused, 0, "{outcome}");
}
