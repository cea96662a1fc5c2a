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

/// Waits until none of these processes runs.
#[track_caller]
pub fn wait_until_gone(all: &[Process]) {
    crate::wait_until("the end of all processes", || {
        all.iter().all(|process| !is_running(process.pid))
    });
}

/// The name of the user a process runs as; `None` once it is gone.
pub fn user(pid: i32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("Uid:"))?;
    let number = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(tutti_sys::credentials::user_name(number).expect("a user with a name"))
}

/// True if it runs, and is no zombie. A process whose first thread has ended keeps its files open until the last one has.
pub fn is_running(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    if threads.is_ok_and(|threads| threads.count() > 1) {
        return true;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything.
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some(state) if state != 'Z' && state != 'X')
}

pub(crate) fn children(pid: i32) -> Vec<i32> {
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
