//! Roll-outs in the middle of which something breaks, by schedules that a seed gives: every node ends on the same generation, which is one
//! that was asked for, and a command that says it has succeeded is right.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use tutti_e2e::fleet::{Fleet, options};
use tutti_testkit::{Load, LoadOptions, wait_until};

/// The nodes.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Members of the store.
const MEMBERS: usize = 3;

/// Schedules in `make test`, and in `make test-long`.
fn schedules() -> u64 {
    match std::env::var_os("TUTTI_LONG") {
        Some(_) => 200,
        None => 10,
    }
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

#[derive(Clone, Copy, Debug)]
enum Fault {
    MemberKilled(usize),
    MemberStopped(usize),
    StoreStopped,
    StoreKilled,
    FollowerKilled(usize),
    NodeKilled(usize),
    CommandKilled,
}

impl Fault {
    fn of(numbers: &mut Numbers) -> Fault {
        match numbers.below(7) {
            0 => Fault::MemberKilled(numbers.index(MEMBERS)),
            1 => Fault::MemberStopped(numbers.index(MEMBERS)),
            2 => Fault::StoreStopped,
            3 => Fault::StoreKilled,
            4 => Fault::FollowerKilled(numbers.index(NAMES.len())),
            5 => Fault::NodeKilled(numbers.index(NAMES.len())),
            _ => Fault::CommandKilled,
        }
    }

    fn breaks(self, fleet: &mut Fleet, commands: &mut [Child]) {
        match self {
            Fault::MemberKilled(number) => fleet.etcd.kill(number),
            Fault::MemberStopped(number) => fleet.etcd.signal(number, libc::SIGSTOP),
            Fault::StoreStopped => {
                for number in 0..MEMBERS {
                    fleet.etcd.signal(number, libc::SIGSTOP);
                }
            }
            Fault::StoreKilled => {
                for number in 0..MEMBERS {
                    fleet.etcd.kill(number);
                }
            }
            Fault::FollowerKilled(node) => {
                for pid in fleet.nodes[node].pids("tutti: fleet") {
                    let _ = tutti_sys::signal::send(pid, libc::SIGKILL);
                }
            }
            Fault::NodeKilled(node) => {
                let source = fleet.etcd.source(NAMES[node], &json!({}));
                fleet.nodes[node].start_again(&options(&source));
            }
            Fault::CommandKilled => commands[0].kill().unwrap(),
        }
    }

    fn ends(self, fleet: &mut Fleet) {
        match self {
            Fault::MemberKilled(number) => fleet.etcd.start_again(number),
            Fault::MemberStopped(number) => fleet.etcd.signal(number, libc::SIGCONT),
            Fault::StoreStopped => {
                for number in 0..MEMBERS {
                    fleet.etcd.signal(number, libc::SIGCONT);
                }
            }
            // They need each other to answer.
            Fault::StoreKilled => fleet.etcd.start_all_again(),
            Fault::FollowerKilled(_) | Fault::NodeKilled(_) | Fault::CommandKilled => {}
        }
    }
}

/// The document of a number; a bad one has the address of another machine.
fn document(number: u64, is_good: bool) -> Value {
    let routes =
        json!([{"match": {"uri": format!("/document-{number}")}, "action": {"return": 200}}]);
    match is_good {
        true => json!({"routes": routes}),
        false => json!({"listeners": {"192.0.2.1:8080": {"pass": "routes"}}, "routes": routes}),
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

/// The generation that a head says its nodes run.
fn settled(head: &Value) -> Option<u64> {
    let version = match head["state"].as_str()? {
        "returned" => &head["former"],
        _ => &head["version"],
    };
    version["generation"].as_u64()
}

/// Waits until no roll-out is under way and each node has answered with the generation of the head: that one.
fn one_generation(fleet: &Fleet, what: &str) -> u64 {
    let mut found = None;
    wait_until(what, || {
        let status = fleet.status();
        let head = &status["heads"]["all"];
        if head["state"] == "rolling" {
            // Its command has died.
            fleet.run(&["rollback"]);
            return false;
        }
        found = settled(head);
        let nodes = status["nodes"].as_object();
        found.is_some()
            && nodes.is_some_and(|nodes| {
                nodes.len() == NAMES.len()
                    && nodes
                        .values()
                        .all(|node| node["generation"].as_u64() == found)
            })
    });
    found.unwrap()
}

/// Lets time pass in which the roll-out comes to another place each time.
#[expect(
    clippy::disallowed_methods,
    reason = "the moment of a fault is a number of its schedule: no condition may choose it"
)]
fn pass(milliseconds: u64) {
    sleep(Duration::from_millis(milliseconds));
}

#[test]
fn whatever_breaks_in_a_roll_out_all_nodes_end_on_one_generation_that_was_asked_for() {
    let mut fleet = Fleet::start(MEMBERS, &NAMES);
    let first = document(0, true);
    fleet.put(&first.to_string());
    let mut asked_for = vec![first.clone()];
    let mut in_force = first;
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    let mut done = 0;
    for seed in 1..=schedules() {
        let mut numbers = Numbers(seed);
        let is_good = numbers.below(4) != 0;
        let has_rival = numbers.below(4) == 0;
        let fault = Fault::of(&mut numbers);
        let (before, during) = (numbers.below(400), numbers.below(1500));
        let what = format!("seed {seed}: good {is_good}, rival {has_rival}, {fault:?}");
        println!("{what}, {before} ms after, for {during} ms");
        let own = document(2 * seed, is_good);
        let rival = document(2 * seed + 1, true);
        let mut commands = vec![begin(&fleet, &own)];
        if has_rival {
            commands.push(begin(&fleet, &rival));
        }
        pass(before);
        fault.breaks(&mut fleet, &mut commands);
        pass(during);
        fault.ends(&mut fleet);
        let ends = commands.into_iter();
        let ends: Vec<bool> = ends
            .map(|mut command| command.wait().unwrap().success())
            .collect();
        if is_good {
            asked_for.push(own.clone());
        }
        if has_rival {
            asked_for.push(rival);
        }
        one_generation(&fleet, &what);
        let now = fleet.configuration(0);
        for node in 1..NAMES.len() {
            assert_eq!(fleet.configuration(node), now, "{what}");
        }
        assert!(asked_for.contains(&now), "{what}: {now}");
        if !is_good {
            assert!(!ends[0], "{what}: a bad document is no success");
        }
        if !has_rival {
            let expected = if ends[0] { &own } else { &now };
            assert_eq!(&now, expected, "{what}: it was said to be in force");
            assert!(now == own || now == in_force, "{what}: {now}");
        }
        done += u64::from(ends.contains(&true));
        *faults
            .entry(format!("{fault:?}").replace(|byte: char| !byte.is_alphabetic(), ""))
            .or_default() += 1;
        in_force = now;
    }
    println!(
        "{} schedules, {done} with a roll-out that was done; faults: {faults:?}",
        schedules()
    );
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
    for round in 1..=schedules() {
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
    println!("{} ends of the store under load: {outcome}", schedules());
    assert_eq!(outcome.failures() + outcome.refused, 0, "{outcome}");
}
