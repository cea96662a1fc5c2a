//! `tutti log`: the last lines of the daemon's log, and the lines that follow.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tutti_options::visible;

use super::client::ControlClient;
use super::control_address::ControlArguments;
use super::report::{CommandError, unwritten};

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
    let stdout = io::stdout();
    let mut output = Output::new(&stdout, stdout.is_terminal());
    let outcome =
        last_lines(path, arguments.lines, &mut output).and_then(|file| match arguments.follow {
            true => follow(path, file, &mut output),
            false => output.end(),
        });
    match outcome {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if output.has_failed => unwritten(&error),
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

/// Prints lines; to a terminal without control characters, because applications and clients choose a part of the text.
struct Output<W> {
    to: W,
    /// The beginning of a line, if this is a terminal.
    line: Option<Vec<u8>>,
    has_failed: bool,
}

impl<W: Write> Output<W> {
    fn new(to: W, is_terminal: bool) -> Output<W> {
        Output {
            to,
            line: is_terminal.then(Vec::new),
            has_failed: false,
        }
    }

    /// Prints a last line without its end.
    fn end(&mut self) -> io::Result<()> {
        let rest = self.line.as_mut().map(std::mem::take).unwrap_or_default();
        let rest = visible(&String::from_utf8_lossy(&rest));
        let printed = self.to.write_all(rest.as_bytes());
        let printed = printed.and_then(|()| self.to.flush());
        self.noted(printed)
    }

    fn noted<T>(&mut self, printed: io::Result<T>) -> io::Result<T> {
        self.has_failed |= printed.is_err();
        printed
    }

    fn print(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(line) = &mut self.line else {
            return self.to.write_all(bytes);
        };
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            line.extend_from_slice(part);
            if line.ends_with(b"\n") || line.len() >= BLOCK_BYTES {
                let whole = line.strip_suffix(b"\n");
                let end = if whole.is_some() { "\n" } else { "" };
                let text = String::from_utf8_lossy(whole.unwrap_or(line));
                self.to.write_all((visible(&text) + end).as_bytes())?;
                line.clear();
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let printed = self.print(bytes);
        self.noted(printed)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let printed = self.to.flush();
        self.noted(printed)
    }
}

/// Prints the last lines. Returns the file, positioned at its end.
fn last_lines(path: &Path, count: usize, output: &mut impl Write) -> io::Result<File> {
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
    output.write_all(tail(&text, count))?;
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
fn follow(path: &Path, mut file: File, output: &mut impl Write) -> io::Result<()> {
    loop {
        io::copy(&mut file, output)?;
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
            io::copy(&mut file, output)?;
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
    fn a_terminal_gets_no_control_characters_and_a_file_gets_all_bytes() {
        let text = "one\ttwo\x1b[2J\nthree \u{9b}é";
        for (is_terminal, expected) in [(true, "one two·[2J\nthree ·é"), (false, text)] {
            let mut printed = Vec::new();
            let mut output = Output::new(&mut printed, is_terminal);
            // A character may come in two parts.
            for byte in text.as_bytes() {
                output.write_all(&[*byte]).unwrap();
            }
            output.end().unwrap();
            assert_eq!(String::from_utf8(printed).unwrap(), expected);
        }
        let mut printed = Vec::new();
        let endless = [b'x'; 2 * BLOCK_BYTES];
        Output::new(&mut printed, true).write_all(&endless).unwrap();
        assert_eq!(printed, endless);
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
