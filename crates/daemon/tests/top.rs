//! `tutti top` in a terminal: tmux is the terminal, with the keys and the screen of a user.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::process::Command;

use serde_json::json;
use support::terminal::Terminal;
use support::{TUTTI, sample_configuration, with_sample};
use tempfile::TempDir;
use tutti_sys::signal;
use tutti_testkit::{Server, refusing_address, skip, wait_until};

#[test]
fn the_page_lives_and_keys_do_what_they_say() {
    if !Terminal::is_there() {
        skip!("tmux is not installed");
    }
    let (options, folder) = with_sample("");
    let server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    let log = folder.path().join("some.log");
    std::fs::write(&log, "the last line of the log\n").unwrap();
    let command = format!(
        "{TUTTI} top --interval 1 --log {} --control unix:{}",
        log.display(),
        server.control().display()
    );
    for columns in [80, 200] {
        let terminal = Terminal::start(columns, &command);
        // The screen may be captured while it is drawn: each part is awaited.
        for part in [
            "tutti 0.1.0, process ",
            "APPLICATION",
            "the last line of the log",
        ] {
            terminal.wait_for(part);
        }
        // Requests appear.
        wait_until("a rate", || {
            for _ in 0..20 {
                server.get("/hello");
            }
            !terminal.screen().contains("requests    0/s")
        });
        terminal.type_keys(&["Enter"]);
        terminal.wait_for("sample: processes ");
        terminal.type_keys(&["s"]);
        terminal.wait_for("REQ/S▾");
        terminal.type_keys(&["/"]);
        terminal.type_keys(&["nothing", "Enter"]);
        wait_until("no application", || !terminal.screen().contains("sample  "));
        terminal.type_keys(&["/", "Escape"]);
        terminal.wait_for("sample  ");
        let before = server.workers("sample");
        terminal.type_keys(&["r"]);
        terminal.wait_for("restart sample? y: yes");
        terminal.type_keys(&["y"]);
        terminal.wait_for("application sample restarted");
        wait_until("other processes", || {
            let now = server.workers("sample");
            now.len() == before.len() && now.iter().all(|pid| !before.contains(pid))
        });
        terminal.type_keys(&["?"]);
        terminal.wait_for("Any key closes this.");
        terminal.type_keys(&["x", "q"]);
        wait_until("the end", || terminal.screen().is_empty());
    }
}

#[test]
fn a_server_that_stops_is_reported_on_the_page() {
    if !Terminal::is_there() {
        skip!("tmux is not installed");
    }
    let mut server = Server::start(&with_sample("").0);
    let control = server.control().display().to_string();
    let terminal = Terminal::start(
        90,
        &format!("{TUTTI} top --interval 1 --control unix:{control}"),
    );
    terminal.wait_for("APPLICATION");
    server.stop(libc::SIGTERM);
    terminal.wait_for("no response for");
    terminal.type_keys(&["q"]);
    wait_until("the end", || terminal.screen().is_empty());
}

#[test]
fn numbers_of_a_server_that_hangs_are_not_shown_as_current() {
    if !Terminal::is_there() {
        skip!("tmux is not installed");
    }
    let server = Server::start(&with_sample("").0);
    let control = server.control().display().to_string();
    let terminal = Terminal::start(
        90,
        &format!("{TUTTI} top --interval 1 --control unix:{control}"),
    );
    terminal.wait_for("APPLICATION");
    let controllers = server.pids("tutti: controller");
    for controller in &controllers {
        signal::send(*controller, libc::SIGSTOP).unwrap();
    }
    terminal.wait_for("no response for");
    for controller in &controllers {
        signal::send(*controller, libc::SIGCONT).unwrap();
    }
    terminal.type_keys(&["q"]);
    wait_until("the end", || terminal.screen().is_empty());
}

/// A character on the screen, with its attributes.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    letter: char,
    colour: Option<usize>,
    ground: Option<usize>,
    is_bold: bool,
    is_dim: bool,
    is_reversed: bool,
}

/// The colours of xterm (XTerm-col.ad); other terminals use slightly lighter or darker ones.
const COLOURS: [[u8; 3]; 8] = [
    [0, 0, 0],
    [205, 0, 0],
    [0, 205, 0],
    [205, 205, 0],
    [0, 0, 238],
    [205, 0, 205],
    [0, 205, 205],
    [229, 229, 229],
];

impl Cell {
    /// Applies the numbers between `ESC [` and `m` (ECMA-48, 8.3.117).
    fn apply(&mut self, numbers: &str) {
        let mut numbers = numbers
            .split(';')
            .map(|number| number.parse().unwrap_or(0_usize));
        let indexed = |numbers: &mut dyn Iterator<Item = usize>| {
            assert_eq!(numbers.next(), Some(5), "one of the terminal's own colours");
            numbers.next()
        };
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Cell::default(),
                1 => self.is_bold = true,
                2 => self.is_dim = true,
                7 => self.is_reversed = true,
                22 => (self.is_bold, self.is_dim) = (false, false),
                27 => self.is_reversed = false,
                30..38 => self.colour = Some(number - 30),
                38 => self.colour = indexed(&mut numbers),
                39 => self.colour = None,
                40..48 => self.ground = Some(number - 40),
                48 => self.ground = indexed(&mut numbers),
                49 => self.ground = None,
                other => panic!("{other} changes the look in a way that was not reviewed"),
            }
        }
    }

    /// Readability on this background: contrast as defined by the W3C (WCAG 2.1), 1 to 21.
    fn contrast(&self, is_dark: bool) -> f64 {
        let own = |is_ink: bool| if is_ink == is_dark { [255; 3] } else { [0; 3] };
        let named = |colour: Option<usize>, is_ink| {
            colour.map_or_else(|| own(is_ink), |colour| COLOURS[colour])
        };
        let (mut ink, mut ground) = (named(self.colour, true), named(self.ground, false));
        if self.is_reversed {
            (ink, ground) = (ground, ink);
        }
        if self.is_dim {
            // Halfway to the background, as terminals do it.
            ink = std::array::from_fn(|part| u8::midpoint(ink[part], ground[part]));
        }
        let luminance = |colour: [u8; 3]| -> f64 {
            let linear = colour.map(|part| match f64::from(part) / 255.0 {
                part if part <= 0.039_28 => part / 12.92,
                part => ((part + 0.055) / 1.055).powf(2.4),
            });
            0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05
        };
        let (one, other) = (luminance(ink), luminance(ground));
        one.max(other) / one.min(other)
    }
}

/// Parses the lines of a screen captured with its colours.
fn cells(screen: &str) -> Vec<Vec<Cell>> {
    let mut look = Cell::default();
    let mut lines = Vec::new();
    for line in screen.lines() {
        let mut parts = line.split("\x1b[");
        let mut cells: Vec<Cell> = Vec::new();
        let mut add = |look: &Cell, text: &str| {
            cells.extend(text.chars().map(|letter| Cell { letter, ..*look }));
        };
        add(&look, parts.next().unwrap_or_default());
        for part in parts {
            let (numbers, text) = part.split_once('m').unwrap();
            look.apply(numbers);
            add(&look, text);
        }
        lines.push(cells);
    }
    lines
}

/// Returns the cells of the first occurrence of this text.
fn cells_of(lines: &[Vec<Cell>], text: &str) -> Vec<Cell> {
    for line in lines {
        let letters: String = line.iter().map(|cell| cell.letter).collect();
        if let Some(place) = letters.find(text) {
            let first = letters[..place].chars().count();
            return line[first..first + text.chars().count()].to_vec();
        }
    }
    panic!("`{text}` is not on the screen");
}

/// The screen of a server with a working application, a failing one, an upstream that is down, and errors.
struct Troubled {
    terminal: Terminal,
    /// With its colours, at a moment when all of that was visible.
    screen: String,
    _server: Server,
    _folder: TempDir,
}

fn troubled(columns: u16, variables: &str) -> Troubled {
    let (options, folder) = with_sample("");
    let server = Server::start(&options);
    let mut config = sample_configuration(server.port());
    let listener = format!("127.0.0.1:{}", server.port());
    config["listeners"][&listener]["pass"] = "routes".into();
    config["routes"] = json!([
        {"match": {"uri": "/away"}, "action": {"pass": "upstreams/away"}},
        {"action": {"pass": "applications/sample"}},
    ]);
    config["upstreams"]["away"]["servers"] = json!({refusing_address().to_string(): {}});
    config["applications"]["asleep"] =
        json!({"type": "php", "root": "/tmp", "processes": {"max": 1, "spare": 0}});
    server.put("/config", &config);
    let log = folder.path().join("some.log");
    std::fs::write(&log, "the last line of the log\n").unwrap();
    let command = format!(
        "env {variables} {TUTTI} top --interval 1 --log {} --control unix:{}",
        log.display(),
        server.control().display()
    );
    let terminal = Terminal::start(columns, &command);
    terminal.wait_for("APPLICATION");
    let mut screen = String::new();
    wait_until("errors, and a server that is down", || {
        for _ in 0..10 {
            server.get("/away");
            server.get("/hello");
        }
        screen = terminal.coloured_screen();
        let lines = cells(&screen);
        let text: String = lines.iter().flatten().map(|cell| cell.letter).collect();
        !text.contains("5xx 0") && text.contains("down") && text.contains('█')
    });
    Troubled {
        terminal,
        screen,
        _server: server,
        _folder: folder,
    }
}

/// Issue 13, 3: inspected on both backgrounds, at both widths; this preserves the result.
#[test]
fn everything_can_be_read_on_a_dark_and_on_a_light_ground() {
    if !Terminal::is_there() {
        skip!("tmux is not installed");
    }
    for columns in [80, 200] {
        let troubled = troubled(columns, "TERM=xterm-256color");
        let screen = &troubled.screen;
        let lines = cells(screen);
        let is = |text: &str, look: fn(&Cell) -> bool| {
            let cells = cells_of(&lines, text);
            assert!(cells.iter().all(look), "{text}: {cells:?}\n{screen}");
        };
        is("requests", |cell| cell.is_bold);
        is("APPLICATION", |cell| cell.is_bold);
        is("UPSTREAM", |cell| cell.is_bold);
        is("5xx", |cell| cell.is_bold && cell.colour == Some(1));
        is("2xx", |cell| !cell.is_bold && cell.colour.is_none());
        // The selected one; its colour is preserved.
        is("asleep", |cell| cell.is_reversed && cell.colour == Some(1));
        is("sample", |cell| !cell.is_reversed && cell.colour.is_none());
        is("down", |cell| cell.colour == Some(1));
        is("the last line of the log", |cell| cell.colour.is_none());
        is("q quit", |cell| cell.is_dim);
        is("█", |cell| cell.colour == Some(5));
        for (keys, shows) in [
            ("?", "Any key closes this."),
            ("x", "q quit"),
            ("Enter", "asleep: processes"),
            ("r", "restart asleep? y: yes"),
        ] {
            troubled.terminal.type_keys(&[keys]);
            troubled.terminal.wait_for(shows);
            let screen = troubled.terminal.coloured_screen();
            let lines = cells(&screen);
            let shown = lines.iter().flatten().filter(|cell| cell.letter != ' ');
            for cell in shown {
                assert_eq!(cell.ground, None, "a ground of our own: {cell:?}");
                for is_dark in [true, false] {
                    // Enough for graphical elements (WCAG 2.1, 1.4.11).
                    let contrast = cell.contrast(is_dark);
                    assert!(contrast >= 3.0, "{contrast:.1} for {cell:?}\n{screen}");
                }
            }
            let widest = lines.iter().map(Vec::len).max();
            assert!(widest <= Some(usize::from(columns)), "{widest:?}");
        }
    }
}

/// no-color.org.
#[test]
fn without_colours_bold_and_reversed_mark_what_matters() {
    if !Terminal::is_there() {
        skip!("tmux is not installed");
    }
    let lines = cells(&troubled(80, "NO_COLOR=1").screen);
    let all = || lines.iter().flatten();
    assert!(all().all(|cell| cell.colour.is_none() && cell.ground.is_none()));
    assert!(cells_of(&lines, "5xx").iter().all(|cell| cell.is_bold));
    assert!(all().any(|cell| cell.is_reversed));
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let output = Command::new(TUTTI).arg("top").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("tutti status --watch --json"), "{said}");
}
