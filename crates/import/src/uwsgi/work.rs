//! uWSGI's work without a request: `cron`, `attach-daemon`, `mule`; and the options for which only uWSGI's own
//! functions can give work.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::finding::{Findings, SourceLocation};
use crate::output::unused;
use crate::program::Program;
use crate::sources::Sources;

/// A run may take any time with uWSGI; a day is the longest that a daily one takes.
const LONGEST_RUN: u64 = 86_400;

/// Reports an option about work for functions of uWSGI's own. False if the option is none of these.
pub(super) fn report(name: &str, place: &SourceLocation, findings: &mut Findings) -> bool {
    let lost = lost(name);
    if let Some((problem, hint)) = lost {
        findings.lost(place, name, problem, hint);
    }
    lost.is_some()
}

/// The problem with an option about work for functions of uWSGI's own, and the cure; `None` for other options.
pub(super) fn lost(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "spooler" | "spooler-external" => (
            "its jobs are submitted and run by functions of `uwsgi`, which do not exist here",
            "jobs for `spoolers` are submitted as requests (`docs/operate/jobs.md`)",
        ),
        "spooler-processes" | "spooler-frequency" | "spooler-quiet" | "spooler-max-tasks"
        | "spooler-harakiri" | "spooler-import" => (
            "it is about `spooler`",
            "`concurrency`, `timeout` and `backoff` of a spooler (`docs/operate/jobs.md`)",
        ),
        "mule" | "mules" | "farm" => (
            "a mule without a file waits for messages from functions of `uwsgi`, which do not exist here",
            "`mules` of an application run commands (`docs/operate/jobs.md`)",
        ),
        "legion-cron" => (
            "legions are not supported: it would run on every machine",
            "use `schedules` on one of the machines (`docs/operate/jobs.md`)",
        ),
        "timer" | "rb-timer" => (
            "signals of `uwsgi` do not exist here",
            "`schedules` have `every` (`docs/operate/jobs.md`)",
        ),
        "attach-daemon2" | "smart-attach-daemon" | "smart-attach-daemon2" => (
            "a command with a pid file is not carried over",
            "`mules` of an application run commands that stay in the foreground (`docs/operate/jobs.md`)",
        ),
        "import" => (
            "modules of `uwsgidecorators` need functions of `uwsgi`, which do not exist here",
            "`mules` and `schedules` run commands (`docs/operate/jobs.md`)",
        ),
        _ => return None,
    })
}

/// The fields of `cron`, with the first and the last number of each.
const FIELDS: [(&str, [u32; 2]); 5] = [
    ("minute", [0, 59]),
    ("hour", [0, 23]),
    ("day", [1, 31]),
    ("month", [1, 12]),
    ("week", [0, 6]),
];

/// A field of `cron`: -1 is any, -5 each number that five divides.
fn field(text: &str, [first, last]: [u32; 2]) -> Option<String> {
    let number: i32 = text.trim().parse().ok()?;
    let step = number.unsigned_abs();
    Some(match number {
        -1 => "*".to_owned(),
        ..-1 if step > last && first == 0 => "0".to_owned(),
        ..-1 if step > last => return None,
        ..-1 if first == 0 => format!("*/{step}"),
        ..-1 => format!("{step}-{last}/{step}"),
        _ => number.to_string(),
    })
}

/// `cron = 30 3 -1 -1 -1 command`, and `cron2 = minute=30,hour=3 command`.
pub(super) fn schedule(
    name: &str,
    value: &str,
    place: &SourceLocation,
    program: &mut Program,
    findings: &mut Findings,
) {
    let read = match name {
        "cron2" => by_name(value),
        _ => in_order(value),
    };
    let Some((cron, timeout, command)) = read else {
        let hint = "write one of `schedules` (`docs/operate/jobs.md`)";
        findings.lost(place, name, "its times cannot be read", hint);
        return;
    };
    let note = "times are in UTC, and a run may take at most a day";
    let hint = "change `time_zone` and `timeout` of the schedule if needed";
    findings.note(place, name, note, hint);
    let schedule = json!({
        "cron": cron,
        "command": ["sh", "-c", command],
        "timeout": timeout.unwrap_or(LONGEST_RUN),
    });
    let name = unused(&program.schedules, command);
    program.schedules.insert(name, schedule);
}

fn in_order(value: &str) -> Option<(String, Option<u64>, &str)> {
    let mut rest = value.trim_start();
    let mut fields = Vec::new();
    for (_, bounds) in FIELDS {
        let (word, after) = rest.split_once(char::is_whitespace)?;
        fields.push(field(word, bounds)?);
        rest = after.trim_start();
    }
    (!rest.is_empty()).then(|| (fields.join(" "), None, rest))
}

fn by_name(value: &str) -> Option<(String, Option<u64>, &str)> {
    let (options, command) = value.trim().split_once(char::is_whitespace)?;
    let mut fields = ["*", "*", "*", "*", "*"].map(str::to_owned);
    let mut timeout = None;
    for option in options.split(',') {
        let (name, value) = option.split_once('=')?;
        match name {
            "harakiri" => {
                timeout = Some(value.parse().ok()?);
                continue;
            }
            // Never two at once, which is so anyway.
            "unique" => continue,
            _ => {}
        }
        let mut known = fields.iter_mut().zip(FIELDS);
        let (written, (_, bounds)) = known.find(|(_, (known, _))| *known == name)?;
        *written = field(value, bounds)?;
    }
    let command = command.trim_start();
    (!command.is_empty()).then(|| (fields.join(" "), timeout, command))
}

/// `attach-daemon`: a command that runs beside the application, by a shell as with uWSGI.
pub(super) fn daemon(command: &str, program: &mut Program) {
    let mule = json!({"command": ["sh", "-c", format!("exec {command}")]});
    let name = unused(&program.mules, command);
    program.mules.insert(name, mule);
}

/// `mule = file.py`, where the file does not use functions of uWSGI's own.
pub(super) fn mule(
    (file, place): (&str, &SourceLocation),
    (home, chdir): (Option<&str>, Option<&str>),
    sources: &dyn Sources,
    program: &mut Program,
    findings: &mut Findings,
) {
    let whole = match chdir {
        Some(chdir) if !file.starts_with('/') => Path::new(chdir).join(file),
        _ => PathBuf::from(file),
    };
    let text = sources.read(&whole).ok();
    let is_free = text.is_some_and(|bytes| !String::from_utf8_lossy(&bytes).contains("uwsgi"));
    if !is_free {
        let problem = format!("`{file}` uses functions of `uwsgi`, or could not be read");
        let hint = "remove them, and write it as one of `mules` (`docs/operate/jobs.md`)";
        findings.lost(place, "mule", &problem, hint);
        return;
    }
    let python = home.map_or_else(
        || "python3".to_owned(),
        |home| format!("{}/bin/python3", home.trim_end_matches('/')),
    );
    let stem = whole
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    let name = unused(&program.mules, stem.as_deref().unwrap_or("mule"));
    let command = Value::from(vec![python, whole.display().to_string()]);
    program.mules.insert(
        name,
        Map::from_iter([("command".to_owned(), command)]).into(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_crontab() {
        assert_eq!(
            in_order("30 3 -1 -1 1 run it"),
            Some(("30 3 * * 1".to_owned(), None, "run it"))
        );
        assert_eq!(
            in_order("-5 -1 -1 -1 -1 x"),
            Some(("*/5 * * * *".to_owned(), None, "x"))
        );
        assert_eq!(in_order("30 3 -1 -1 x"), None);
        // Days that two divides: `*/2` would be the others.
        assert_eq!(
            in_order("0 0 -2 -1 -1 x"),
            Some(("0 0 2-31/2 * *".to_owned(), None, "x"))
        );
        assert_eq!(in_order("0 0 -40 -1 -1 x"), None);
        assert_eq!(
            by_name("minute=-60,month=-3 x"),
            Some(("0 * * 3-12/3 *".to_owned(), None, "x"))
        );
        assert_eq!(
            by_name("minute=39,hour=23,unique=1,harakiri=60 clean up"),
            Some(("39 23 * * *".to_owned(), Some(60), "clean up"))
        );
        assert_eq!(by_name("legion=x,hour=3 y"), None);
    }
}
