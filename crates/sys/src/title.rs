//! The title of a process, as `ps` shows it.
//!
//! The kernel shows the memory where the program's arguments were put at exec; a title is written over it, and
//! over the environment behind it when it is longer (after the environment has been copied away).

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::context;
use crate::fork::is_single_threaded;

/// The memory the title may use, found once.
#[derive(Debug, Clone, Copy)]
struct Area {
    start: usize,
    len: usize,
}

static AREA: Mutex<Option<Area>> = Mutex::new(None);

/// Takes the memory for titles, while the process has one thread only: it moves the environment. What it runs later may start threads
/// before there is a title to set.
pub fn prepare() -> io::Result<()> {
    area(&mut lock()).map(drop)
}

/// Sets the title. The first call must be made while the process has one thread only, unless [`prepare`] was; an error otherwise. A title
/// longer than the memory there is gets cut.
pub fn set(title: &str) -> io::Result<()> {
    let mut known = lock();
    let area = area(&mut known)?;
    let bytes = title.as_bytes();
    let len = bytes.len().min(area.len.saturating_sub(1));
    let start = std::ptr::with_exposed_provenance_mut::<u8>(area.start);
    // SAFETY: `find` has found start..start+len to be the argument and environment memory, writable and used by
    // nothing else since the environment was moved; the lock keeps other callers out.
    unsafe { std::ptr::write_bytes(start, 0, area.len) };
    // SAFETY: as above; `len` is within the area and the source is a live slice that cannot overlap it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, len) };
    Ok(())
}

fn lock() -> MutexGuard<'static, Option<Area>> {
    AREA.lock().unwrap_or_else(PoisonError::into_inner)
}

fn area(known: &mut Option<Area>) -> io::Result<Area> {
    match *known {
        Some(area) => Ok(area),
        None => Ok(*known.insert(find()?)),
    }
}

fn find() -> io::Result<Area> {
    if !is_single_threaded()? {
        return Err(io::Error::other(
            "the process title can only be prepared by a single-threaded process",
        ));
    }
    let text = std::fs::read_to_string("/proc/self/stat")
        .map_err(|e| context("reading /proc/self/stat", e))?;
    let area = parse(&text)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "malformed /proc/self/stat"))?;
    // The copies live for the life of the process: that is what an environment does.
    for (name, value) in std::env::vars_os().collect::<Vec<_>>() {
        // SAFETY: single-threaded, checked above. `setenv` copies; removing first makes it forget the old place.
        unsafe { std::env::remove_var(&name) };
        // SAFETY: single-threaded, checked above.
        unsafe { std::env::set_var(&name, value) };
    }
    Ok(area)
}

/// Fields 48 to 51 of `stat`: arg_start, arg_end, env_start, env_end (proc(5)).
fn parse(stat: &str) -> Option<Area> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest
        .split_ascii_whitespace()
        .skip(45)
        .map(|f| f.parse::<usize>().ok());
    let arg_start = fields.next()??;
    let arg_end = fields.next()??;
    let env_start = fields.next()??;
    let env_end = fields.next()??;
    // Both lie in one piece on the stack; anything else (checkpointed process) gets the arguments only.
    let end = if env_start == arg_end && env_end >= env_start {
        env_end
    } else {
        arg_end
    };
    (arg_start != 0 && end > arg_start).then(|| Area {
        start: arg_start,
        len: end - arg_start,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_spans_arguments_and_environment_only_when_joined() {
        let line = |a, b, c, d| {
            let mut text = String::from("1 (x y) S");
            for _ in 4..48 {
                text.push_str(" 0");
            }
            format!("{text} {a} {b} {c} {d} 0")
        };
        assert_eq!(parse(&line(100, 150, 150, 400)).unwrap().len, 300);
        assert_eq!(parse(&line(100, 150, 160, 400)).unwrap().len, 50);
        assert!(parse("nonsense").is_none());
        assert!(parse(&line(0, 0, 0, 0)).is_none());
    }
}
