//! Reads `/proc`: memory, children, CPU time; and the number of CPUs we may use.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::error::context;

/// Number of CPUs this process may run on (affinity mask), at least 1.
pub fn cpu_count() -> usize {
    rustix::thread::sched_getaffinity(None)
        .map_or(1, |set| set.count() as usize)
        .max(1)
}

/// Resident set size of a process in bytes (`statm`).
pub fn rss(pid: i32) -> io::Result<u64> {
    let path = format!("/proc/{pid}/statm");
    let text = std::fs::read_to_string(&path).map_err(|e| context(path, e))?;
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "short statm"))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// The same of a process and of what it has started, directly or not. Where the system does not list these, of the
/// process alone.
pub fn rss_of_family(pid: i32) -> io::Result<u64> {
    let mut used = rss(pid)?;
    let mut waiting = started_by(pid);
    let mut seen = 0;
    while let Some(child) = waiting.pop()
        && seen < LARGEST_FAMILY
    {
        seen += 1;
        // One that has just ended has no memory.
        used += rss(child).unwrap_or(0);
        waiting.extend(started_by(child));
    }
    Ok(used)
}

/// Most processes of a family that are counted: a bound of the cost of a look.
const LARGEST_FAMILY: u32 = 1024;

/// The children that the threads of a process have started, and the orphans that have become its children (proc(5),
/// `task/TID/children`); unlike [`children`] it costs one read for each thread.
pub fn started_by(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let mut found = Vec::new();
    // A thread that has ended meanwhile has left its children to another one.
    for thread in threads.into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let numbers = text.split_ascii_whitespace();
        found.extend(numbers.filter_map(|number| number.parse::<i32>().ok()));
    }
    found
}

/// File descriptors that a process has open.
pub fn open_files(pid: i32) -> io::Result<u64> {
    let path = format!("/proc/{pid}/fd");
    let folder = std::fs::read_dir(&path).map_err(|e| context(path, e))?;
    // The one that reads them is open too.
    Ok((folder.count() as u64).saturating_sub(1))
}

/// Returns the number of file descriptors that this process may have open; `None`: as many as it likes.
pub fn open_files_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Memory that can still be had without swapping, in bytes: the machine's `MemAvailable`, or what the control group of
/// this process (v2) leaves where that is less. `None` where neither is known.
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let machine = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse::<u64>().ok())
        .map(|kilobytes| kilobytes * 1024)?;
    Some(left_in_group().map_or(machine, |left| left.min(machine)))
}

/// The memory that the limits of the control group and its parents leave, page cache that can be dropped not counted.
fn left_in_group() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let name = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let group = root.join(name);
    let number = |folder: &Path, file: &str| -> Option<u64> {
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        text.trim().parse().ok()
    };
    group
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
        .filter_map(|folder| {
            let max = number(folder, "memory.max")?;
            let used = number(folder, "memory.current")?;
            let statistics = std::fs::read_to_string(folder.join("memory.stat")).ok()?;
            let cache = statistics
                .lines()
                .find_map(|line| line.strip_prefix("inactive_file "))
                .and_then(|number| number.parse().ok())
                .unwrap_or(0);
            Some(max.saturating_sub(used.saturating_sub(cache)))
        })
        .min()
}

/// A line of `/proc/PID/stat`, as far as it is of use here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// State letter: `R` running, `S` sleeping, `Z` zombie, …
    pub state: char,
    /// Parent's number.
    pub parent: i32,
    /// Process group.
    pub group: i32,
    /// User and system time in clock ticks.
    pub cpu_ticks: u64,
    /// When it was started, in clock ticks after the system.
    pub started_ticks: u64,
}

/// True if a process belongs to the group of `leader`, or is its child: a worker may leave the group (setsid(2)), but it stays a child
/// of its prototype.
pub fn is_of(pid: i32, leader: i32) -> io::Result<bool> {
    let stat = stat(pid)?;
    Ok(stat.group == leader || stat.parent == leader)
}

/// True if a debugger holds this process (`TracerPid` of its status).
pub fn is_traced(pid: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))
        .is_some_and(|tracer| tracer.trim() != "0")
}

/// The user ids of a process: real, effective, saved and of the file system (`Uid` of its status); empty if it has ended.
pub fn users(pid: i32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"));
    let ids = line.unwrap_or_default().split_whitespace();
    ids.filter_map(|id| id.parse().ok()).collect()
}

/// Reads `/proc/PID/stat`.
pub fn stat(pid: i32) -> io::Result<Stat> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).map_err(|e| context(path, e))?;
    parse_stat(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "malformed stat"))
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name in parentheses may itself hold spaces and parentheses: the last one ends it.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok());
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        cpu_ticks: number(11)? + number(12)?,
        started_ticks: number(19)?,
    })
}

/// Returns the time since the start of a process.
pub fn age(pid: i32) -> io::Result<Duration> {
    let started = stat(pid)?.started_ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now = Duration::try_from(now).unwrap_or_default();
    Ok(now.saturating_sub(Duration::from_secs_f64(started)))
}

/// CPU time of the whole machine that was not idle, since it started (`/proc/stat`); what a hypervisor took away is not in it.
pub fn machine_busy_time() -> Option<Duration> {
    busy_time(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn busy_time(text: &str) -> Option<Duration> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let mut fields = line.split_ascii_whitespace().map(str::parse::<u64>);
    // user, nice, system; then idle and waiting for disks; then interrupts.
    let mut ticks = 0;
    for place in 0..7 {
        let field = fields.next()?.ok()?;
        if place != 3 && place != 4 {
            ticks += field;
        }
    }
    Some(of_ticks(ticks))
}

/// CPU time of this process, all its threads.
pub fn own_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// CPU time of a process, all its threads, to the tick.
pub fn cpu_time(pid: i32) -> io::Result<Duration> {
    Ok(of_ticks(stat(pid)?.cpu_ticks))
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(
        ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1),
    )
}

/// All processes whose parent is `pid`.
pub fn children(pid: i32) -> Vec<i32> {
    all()
        .into_iter()
        .filter(|&p| stat(p).is_ok_and(|s| s.parent == pid))
        .collect()
}

/// The numbers of all processes that can be seen.
pub fn all() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(Path::new("/proc")) else {
        return Vec::new();
    };
    entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// The command line of a process, arguments separated by spaces; empty for a zombie.
pub fn command_line(pid: i32) -> io::Result<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline"))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_end_matches('\0').replace('\0', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_figures_are_plausible() {
        let me = std::process::id() as i32;
        assert!(cpu_count() >= 1);
        assert!(rss(me).unwrap() > 10_000);
        assert!(rss_of_family(me).unwrap() > 10_000);
        assert!(rss_of_family(i32::MAX).is_err());
        assert!(available_memory().unwrap() > 1 << 20);
        assert_eq!(
            stat(me).unwrap().parent,
            rustix::process::getppid().unwrap().as_raw_nonzero().get()
        );
        assert!(all().contains(&me));
    }

    #[test]
    fn children_of_every_thread_are_found() {
        // Tests run in threads that are not the first one.
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let found = started_by(std::process::id() as i32);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&(child.id() as i32)), "{found:?}");
    }

    #[test]
    fn idle_time_is_not_busy_time() {
        let line = "cpu  100 20 30 9000 400 5 6 70 0 0\ncpu0 1 2 3\n";
        let tick = 1000 / rustix::param::clock_ticks_per_second();
        assert_eq!(busy_time(line), Some(Duration::from_millis(161 * tick)));
        assert_eq!(busy_time("intr 1\n"), None);
        assert_eq!(busy_time("cpu  1 2 3\n"), None);
        assert!(machine_busy_time().unwrap() > Duration::ZERO);
        assert!(own_cpu_time() > Duration::ZERO);
    }

    #[test]
    fn stat_survives_odd_names() {
        let text = "7 (a) b) (c) S 5 6 6 0 -1 4194560 1 2 3 4 100 20 0 0 20 0 1 0 4711 0";
        assert_eq!(
            parse_stat(text),
            Some(Stat {
                state: 'S',
                parent: 5,
                group: 6,
                cpu_ticks: 120,
                started_ticks: 4711,
            })
        );
        assert_eq!(parse_stat("garbage"), None);
    }
}
