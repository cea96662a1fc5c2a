//! `tutti log`: the last lines of the daemon's log, and the lines that follow.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::client::ControlClient;
use super::control_address::ControlArguments;
use super::report::CommandError;

/// Interval between checks of the end of the file. A person does not notice the delay.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Bytes to read at once.
const BLOCK_BYTES: usize = 64 * 1024;

#[derive(Args)]
pub(crate) struct LogArguments {
    /// Number of lines to begin with
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 20)]
    lines: usize,
    /// Print further lines as they are written, even after a rotation
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    control: ControlArguments,
}

pub(crate) fn run(arguments: &LogArguments) -> Result<ExitCode, CommandError> {
    let client = ControlClient::new(&arguments.control)?;
    let answer = client.call("GET", "/status/server/log", None, None)?;
    if answer.status == 404 {
        return Err(
            CommandError::new("this version of the server does not report its log")
                .hint("`tutti upgrade` replaces it with the installed version"),
        );
    }
    answer.succeeded(None)?;
    let place = answer.json()?;
    let Some(path) = place.get("file").and_then(Value::as_str) else {
        return Err(elsewhere(&place));
    };
    let path = Path::new(path);
    let outcome = last_lines(path, arguments.lines).and_then(|file| match arguments.follow {
        true => follow(path, file),
        false => Ok(()),
    });
    match outcome {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // The reader has closed the pipe (`| head`).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => {
            let failure = CommandError::new(format!("cannot read `{}`: {error}", path.display()));
            Err(match error.kind() {
                io::ErrorKind::PermissionDenied => failure.hint("try with sudo"),
                _ => failure.hint("the log is on the server's machine, or in its container"),
            })
        }
    }
}

/// Returns the failure for a log that is not a file, with the way to read it.
fn elsewhere(place: &Value) -> CommandError {
    let text = |name: &str| place.get(name).and_then(Value::as_str);
    if let Some(server) = text("syslog") {
        let tag = text("tag").unwrap_or("tutti");
        return CommandError::new(format!("the log goes to the syslog server `{server}`")).hint(
            format!("`journalctl --identifier {tag} --follow`, if that is systemd's journal"),
        );
    }
    if place.get("journal").is_some() {
        let unit = text("journal").unwrap_or("tutti");
        return CommandError::new("the log goes to systemd's journal")
            .hint(format!("`journalctl --unit {unit} --follow`"));
    }
    let stream = match text("stream") {
        Some("stdout") => "standard output",
        _ => "standard error",
    };
    CommandError::new(format!("the log goes to the server's {stream}")).hint(
        "look where the server was started: in a terminal, or a container (`docker logs`, `kubectl logs`); under systemd `journalctl --unit tutti --follow`",
    )
}

/// Prints the last lines. Returns the file, positioned at its end.
fn last_lines(path: &Path, count: usize) -> io::Result<File> {
    let mut file = File::open(path)?;
    let mut blocks: VecDeque<Vec<u8>> = VecDeque::new();
    let mut start = file.seek(SeekFrom::End(0))?;
    let (end, mut lines) = (start, 0);
    // One line break more than lines: the last one ends the file.
    while start > 0 && lines <= count {
        let length = start.min(BLOCK_BYTES as u64);
        start -= length;
        file.seek(SeekFrom::Start(start))?;
        let mut block = Vec::new();
        (&file).take(length).read_to_end(&mut block)?;
        lines += block.iter().filter(|&&byte| byte == b'\n').count();
        blocks.push_front(block);
    }
    let text: Vec<u8> = blocks.into_iter().flatten().collect();
    io::stdout().write_all(tail(&text, count))?;
    file.seek(SeekFrom::Start(end))?;
    Ok(file)
}

/// Returns the last lines of a text. An incomplete last line counts.
fn tail(text: &[u8], count: usize) -> &[u8] {
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let ends = body.iter().enumerate().rev();
    let mut ends = ends.filter(|(_, byte)| **byte == b'\n');
    let Some(before) = count.checked_sub(1) else {
        return &[];
    };
    match ends.nth(before) {
        Some((end, _)) => text.get(end + 1..).unwrap_or_default(),
        None => text,
    }
}

/// Prints lines that are added to the file, and to its successors after a rotation.
fn follow(path: &Path, mut file: File) -> io::Result<()> {
    let mut output = io::stdout();
    loop {
        io::copy(&mut file, &mut output)?;
        output.flush()?;
        let at = file.stream_position()?;
        let is_cut = file.metadata()?.len() < at;
        if is_cut {
            file.seek(SeekFrom::Start(0))?;
        }
        std::thread::park_timeout(LOOK_INTERVAL);
        // Between the renaming and the creation of the new file there is no file.
        if let Ok(found) = path.metadata()
            && is_other(&found, &file.metadata()?)
        {
            io::copy(&mut file, &mut output)?;
            file = File::open(path)?;
        }
    }
}

fn is_other(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    (one.dev(), one.ino()) != (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_lines_are_those_at_the_end() {
        for (count, expected) in [(0, ""), (1, "c\n"), (2, "b\nc\n"), (9, "a\nb\nc\n")] {
            assert_eq!(tail(b"a\nb\nc\n", count), expected.as_bytes(), "{count}");
        }
        assert_eq!(tail(b"a\nb\nc", 2), b"b\nc");
        assert_eq!(tail(b"", 2), b"");
        assert_eq!(tail(b"\n\n", 1), b"\n");
    }

    #[test]
    fn a_log_that_is_not_a_file_is_named_with_the_way_to_read_it() {
        for (place, words) in [
            (
                json!({"stream": "stderr", "journal": "tutti.service"}),
                "`journalctl --unit tutti.service --follow`",
            ),
            (json!({"stream": "stderr"}), "the server's standard error"),
            (json!({"stream": "stdout"}), "the server's standard output"),
            (
                json!({"syslog": "unix:/dev/log", "tag": "web"}),
                "`journalctl --identifier web --follow`",
            ),
        ] {
            let text = elsewhere(&place).text();
            assert!(text.contains(words), "{text}");
        }
    }
}
