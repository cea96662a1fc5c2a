//! The processes of a server as `/proc` shows them.

use std::collections::BTreeSet;

/// One process of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its title, as `ps` shows it.
    pub title: String,
}

/// All descendants of `pid`, itself included, as far as they run (those that wait to be reaped do not).
pub fn tree(pid: i32) -> Vec<Process> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut todo = vec![pid];
    while let Some(pid) = todo.pop() {
        if !seen.insert(pid) {
            continue;
        }
        todo.extend(children(pid));
        if is_running(pid) {
            found.push(Process {
                pid,
                title: title(pid),
            });
        }
    }
    found.sort_by_key(|process| process.pid);
    found
}

/// The title of a process; empty once it is gone.
pub fn title(pid: i32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    text.trim_end().to_owned()
}

/// Runs, and is no zombie.
pub fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything.
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some(state) if state != 'Z' && state != 'X')
}

fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut children = Vec::new();
    for task in tasks.flatten() {
        let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(
            list.split_ascii_whitespace()
                .filter_map(|word| word.parse::<i32>().ok()),
        );
    }
    children
}

/// CPU time used so far by a process, user and system, in clock ticks.
pub fn cpu_ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest)
        .unwrap_or_default();
    let fields: Vec<u64> = rest
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|word| word.parse().ok())
        .collect();
    fields.iter().sum()
}
