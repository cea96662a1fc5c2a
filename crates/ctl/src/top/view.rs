//! The screen: what is known of the server, and what of it is shown.
//!
//! Drawn in the terminal's own colours, and red and magenta: of the named ones those that can be seen on light and on dark. No ground is ever set.

use std::collections::VecDeque;
use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Block, Cell, Clear, Paragraph, Row as TableRow, Sparkline, Table, TableState,
};

use serde_json::Value;

use super::log_tail::LogTail;
use super::order::Order;
use super::samples::{REQUESTS, Row, Sample};
use crate::status::page::{mules, size, time};

/// Rates that are kept: as many as the widest screen has columns.
const KEPT: usize = 512;

/// Requests under way that are shown of the chosen application.
const SHOWN_REQUESTS: usize = 5;

/// The meaning that keys have now.
#[derive(Debug, Default)]
pub(super) enum Mode {
    #[default]
    Normal,
    /// Letters go into the filter.
    Filter,
    /// The next key says whether it is to be done.
    Confirm(Order),
    Help,
}

/// All that is shown.
pub(super) struct State {
    now: Sample,
    before: Sample,
    /// Requests a second, oldest first.
    rates: VecDeque<u64>,
    log: Option<LogTail>,
    is_colourful: bool,
    /// Said last, and when.
    said: Option<String>,
    /// Since when, and why, the server does not answer.
    silence: Option<(Instant, String)>,
    chosen: Option<String>,
    sort: usize,
    pub(super) mode: Mode,
    pub(super) filter: String,
    pub(super) is_paused: bool,
    pub(super) shows_details: bool,
}

/// Headings of the applications, with what sorting by them means: the largest first.
type Column = (&'static str, fn(&Row) -> f64);
const COLUMNS: [Column; 9] = [
    ("RUN", |row| row.running as f64),
    ("IDLE", |row| row.idle as f64),
    ("QUEUE", |row| row.queued as f64),
    ("REQ/S", |row| row.rate),
    ("P50", |row| row.median.unwrap_or(0.0)),
    ("P99", |row| row.slow.unwrap_or(0.0)),
    ("RESTARTS", |row| row.restarts as f64),
    ("FAILED", |row| row.failures as f64),
    ("MEMORY", |row| row.memory as f64),
];

impl State {
    pub(super) fn new(first: Sample, log: Option<LogTail>, is_colourful: bool) -> State {
        let mut state = State {
            before: first.clone(),
            now: first,
            rates: VecDeque::new(),
            log,
            is_colourful,
            said: None,
            silence: None,
            chosen: None,
            sort: 0,
            mode: Mode::Normal,
            filter: String::new(),
            is_paused: false,
            shows_details: false,
        };
        state.choose(0);
        state
    }

    /// Shows this from now on, unless it is paused.
    pub(super) fn add(&mut self, sample: Sample) {
        self.silence = None;
        if self.is_paused {
            return;
        }
        self.before = std::mem::replace(&mut self.now, sample);
        let rate = self.now.rate(&self.before, REQUESTS, &[]);
        self.rates.push_back(rate.round() as u64);
        if self.rates.len() > KEPT {
            self.rates.pop_front();
        }
        self.choose(0);
    }

    pub(super) fn say(&mut self, text: String) {
        self.said = Some(text);
    }

    pub(super) fn is_silent(&mut self, why: String) {
        let since = self.silence.take().map(|(since, _)| since);
        self.silence = Some((since.unwrap_or_else(Instant::now), why));
    }

    pub(super) fn sort_by_next(&mut self) {
        self.sort = (self.sort + 1) % (COLUMNS.len() + 1);
        let by = self
            .sort
            .checked_sub(1)
            .and_then(|index| COLUMNS.get(index));
        let by = by.map_or("name", |(heading, _)| heading);
        self.say(format!("sorted by {}", by.to_lowercase()));
    }

    /// Chooses the application so many places further down; where the chosen one has gone, the first.
    pub(super) fn choose(&mut self, by: isize) {
        let rows = self.rows();
        let chosen = self.chosen.as_ref();
        let place = rows.iter().position(|row| Some(&row.name) == chosen);
        let place = place.map_or(0, |place| place.saturating_add_signed(by));
        let place = place.min(rows.len().saturating_sub(1));
        self.chosen = rows.get(place).map(|row| row.name.clone());
    }

    /// The application that an order is for.
    pub(super) fn chosen(&self) -> Option<String> {
        let rows = self.rows();
        let mut names = rows.into_iter().map(|row| row.name);
        let first = names.next()?;
        if self.chosen.as_ref() == Some(&first) {
            return Some(first);
        }
        let found = names.find(|name| Some(name) == self.chosen.as_ref());
        Some(found.unwrap_or(first))
    }

    /// The applications that are shown, in their order.
    fn rows(&self) -> Vec<Row> {
        let mut rows = self.now.applications(&self.before);
        let filter = self.filter.to_lowercase();
        rows.retain(|row| row.name.to_lowercase().contains(&filter));
        if let Some((_, key)) = self
            .sort
            .checked_sub(1)
            .and_then(|index| COLUMNS.get(index))
        {
            rows.sort_by(|a, b| key(b).total_cmp(&key(a)).then(a.name.cmp(&b.name)));
        }
        rows
    }

    fn coloured(&self, color: Color) -> Style {
        if self.is_colourful {
            Style::new().fg(color)
        } else {
            Style::new()
        }
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let rows = self.rows();
        let servers = self.now.servers(&self.before);
        let details = self.details();
        let servers_height = if servers.is_empty() {
            0
        } else {
            servers.len() + 2
        };
        let log_height = if self.log.is_some() { 6 } else { 0 };
        let [head, graph, applications, more, upstreams, log, foot] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(3),
            Constraint::Min(3),
            Constraint::Length(length(details.len())),
            Constraint::Max(length(servers_height)),
            Constraint::Length(log_height),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(self.head(head.width)), head);
        self.draw_rates(frame, graph);
        self.draw_applications(frame, applications, &rows);
        frame.render_widget(Paragraph::new(details), more);
        if !servers.is_empty() {
            self.draw_servers(frame, upstreams, &servers);
        }
        if let Some(tail) = &self.log {
            let height = usize::from(log.height.saturating_sub(1));
            let lines = folded(&tail.lines(height), usize::from(log.width));
            let first = lines.len().saturating_sub(height);
            let title = Line::from("LOG").style(Modifier::BOLD);
            let lines = lines.into_iter().skip(first).map(Line::from);
            let lines = std::iter::once(title).chain(lines);
            frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), log);
        }
        frame.render_widget(Paragraph::new(self.foot()), foot);
        if matches!(self.mode, Mode::Help) {
            draw_help(frame);
        }
    }

    fn head(&self, width: u16) -> Vec<Line<'_>> {
        let text = |pointer: &str| {
            let value = self.now.status.pointer(pointer);
            value.and_then(Value::as_str).unwrap_or("?")
        };
        let mut server = vec![
            Span::styled("tutti ", Modifier::BOLD),
            Span::raw(format!(
                "{}, process {}, up {}",
                text("/server/version"),
                self.now.number("/server/pid"),
                time(self.now.number("/server/uptime"))
            )),
        ];
        if let Some((since, why)) = &self.silence {
            let seconds = since.elapsed().as_secs();
            let style = self.coloured(Color::Red).add_modifier(Modifier::BOLD);
            let text = format!("no answer for {seconds} s: {why}");
            // All else is as it was before; the reason needs the line.
            server.truncate(1);
            server.push(Span::styled(text, style));
        } else if self.is_paused {
            server.push(Span::styled("   paused", Modifier::REVERSED));
        }
        let rate =
            |family: &str, labels: &[(&str, &str)]| self.now.rate(&self.before, family, labels);
        let classes = ["2xx", "3xx", "4xx", "5xx"].map(|class| {
            let count = rate(REQUESTS, &[("class", class)]);
            let style = match class {
                "5xx" if count > 0.0 => self.coloured(Color::Red).add_modifier(Modifier::BOLD),
                _ => Style::new(),
            };
            Span::styled(format!("  {class} {}", count_of(count)), style)
        });
        let mut requests = vec![
            Span::styled("requests    ", Modifier::BOLD),
            Span::raw(format!("{}/s", count_of(rate(REQUESTS, &[])))),
        ];
        requests.extend(classes);
        let quantile = |part| seconds_of(self.now.quantile(&self.before, &[], part));
        requests.push(Span::raw(format!(
            "  p50 {}  p99 {}",
            quantile(0.5),
            quantile(0.99)
        )));
        let bytes = |family: &str| size(rate(family, &[]) as u64);
        let mut connections = format!(
            "{} active, {} idle",
            self.now.number("/connections/active"),
            self.now.number("/connections/idle"),
        );
        let traffic = format!(
            "   in {}/s  out {}/s",
            bytes("tutti_received_bytes_total"),
            bytes("tutti_sent_bytes_total")
        );
        if 12 + connections.len() + traffic.len() <= usize::from(width) {
            connections.push_str(&traffic);
        }
        let connections = vec![
            Span::styled("connections ", Modifier::BOLD),
            Span::raw(connections),
        ];
        vec![server.into(), requests.into(), connections.into()]
    }

    /// Requests a second, the newest at the right.
    fn draw_rates(&self, frame: &mut Frame<'_>, area: Rect) {
        let width = usize::from(area.width);
        let first = self.rates.len().saturating_sub(width);
        let mut data = vec![0; width.saturating_sub(self.rates.len())];
        data.extend(self.rates.iter().skip(first));
        let graph = Sparkline::default()
            .data(data)
            .style(self.coloured(Color::Magenta));
        frame.render_widget(graph, area);
    }

    fn draw_applications(&self, frame: &mut Frame<'_>, area: Rect, rows: &[Row]) {
        let heading = std::iter::once("APPLICATION").chain(COLUMNS.map(|(heading, _)| heading));
        let heading = heading.enumerate().map(|(index, heading)| {
            let mark = if index == self.sort { "▾" } else { "" };
            let text = Line::from(format!("{heading}{mark}"));
            match index {
                0 => Cell::from(text),
                _ => Cell::from(text.right_aligned()),
            }
        });
        let lines = rows.iter().map(|row| {
            let cells = [
                format!("{}{}", row.running, if row.starting > 0 { "+" } else { "" }),
                row.idle.to_string(),
                row.queued.to_string(),
                count_of(row.rate),
                seconds_of(row.median),
                seconds_of(row.slow),
                row.restarts.to_string(),
                row.failures.to_string(),
                size(row.memory),
            ];
            let cells = cells
                .into_iter()
                .map(|cell| Cell::from(Line::from(cell).right_aligned()));
            let line = TableRow::new(std::iter::once(Cell::from(row.name.clone())).chain(cells));
            if row.running == 0 {
                line.style(self.coloured(Color::Red))
            } else {
                line
            }
        });
        let widths = [5, 5, 6, 7, 7, 7, 9, 7, 9];
        // On a wide screen the figures stay beside the names.
        let rest = area.width.saturating_sub(widths.iter().sum());
        let names = rows.iter().map(|row| row.name.as_str());
        let name = longest(names.chain(["APPLICATION▾"])).saturating_add(2);
        let widths = std::iter::once(name.min(rest)).chain(widths);
        let table = Table::new(lines, widths.map(Constraint::Length))
            .header(TableRow::new(heading).style(Modifier::BOLD))
            .column_spacing(0)
            .row_highlight_style(Modifier::REVERSED);
        let chosen = self.chosen.as_ref();
        let place = rows.iter().position(|row| Some(&row.name) == chosen);
        let mut state = TableState::new().with_selected(place);
        frame.render_stateful_widget(table, area, &mut state);
    }

    /// The processes of the chosen application, and why its last start failed.
    fn details(&self) -> Vec<Line<'_>> {
        let chosen = self.chosen().filter(|_| self.shows_details);
        let applications = self.now.status.get("applications");
        let Some((name, status)) = chosen.and_then(|name| {
            let status = applications?.get(&name)?;
            Some((name, status))
        }) else {
            return Vec::new();
        };
        let pids = status.get("pids").and_then(Value::as_array);
        let pids: Vec<String> = pids.into_iter().flatten().map(Value::to_string).collect();
        let mut lines =
            vec![Line::from(format!("{name}: processes {}", pids.join(" "))).style(Modifier::BOLD)];
        lines.extend(mules(status, usize::MAX).into_iter().map(Line::from));
        let oldest = status.pointer("/requests/oldest").and_then(Value::as_array);
        let oldest = oldest.into_iter().flatten().take(SHOWN_REQUESTS);
        lines.extend(oldest.map(|request| Line::from(old_request(request))));
        let last = status.pointer("/failures/last");
        let text = |member: &str| {
            let text = last.and_then(|last| last.get(member));
            text.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        if last.is_some_and(Value::is_object) {
            let failed = format!("last start failed: {} {}", text("message"), text("hint"));
            lines.push(Line::from(failed).style(self.coloured(Color::Red)));
        }
        lines
    }

    fn draw_servers(&self, frame: &mut Frame<'_>, area: Rect, servers: &[[String; 6]]) {
        let headings = ["UPSTREAM", "SERVER", "STATE", "ACTIVE", "REQ/S", "FAILED"];
        let cell = |index: usize, text: String| match index {
            0..3 => Cell::from(text),
            _ => Cell::from(Line::from(text).right_aligned()),
        };
        let heading = headings.into_iter().enumerate();
        let heading = heading.map(|(index, text)| cell(index, text.to_owned()));
        let lines = servers.iter().map(|row| {
            let is_down = row.get(2).is_some_and(|state| state != "up");
            let cells = row.iter().cloned().enumerate();
            let line = TableRow::new(cells.map(|(index, text)| cell(index, text)));
            if is_down {
                line.style(self.coloured(Color::Red))
            } else {
                line
            }
        });
        let widths = [11, 7, 8, 7];
        let column = |index: usize| {
            let texts = servers.iter().filter_map(|row| row.get(index));
            let heading = headings.get(index).copied();
            longest(texts.map(String::as_str).chain(heading)).saturating_add(2)
        };
        // With a space before each column but the first.
        let rest = area.width.saturating_sub(widths.iter().sum::<u16>() + 5);
        let upstream = column(0).min(rest / 3);
        let server = column(1).min(rest - upstream);
        let widths = [upstream, server].into_iter().chain(widths);
        let table = Table::new(lines, widths.map(Constraint::Length))
            .header(TableRow::new(heading).style(Modifier::BOLD).top_margin(1));
        frame.render_widget(table, area);
    }

    fn foot(&self) -> Line<'_> {
        match &self.mode {
            Mode::Confirm(Order::Restart(name)) => {
                let text = format!("restart {name}? y: yes, any other key: no");
                Line::from(text).style(Modifier::REVERSED)
            }
            Mode::Filter => Line::from(format!("filter: {}▏ Enter: keep, Esc: none", self.filter)),
            Mode::Normal | Mode::Help => match &self.said {
                Some(said) => Line::from(said.as_str()),
                None => Line::from("q quit  ↑↓ choose  Enter details  s sort  / filter  r restart  p pause  ? help")
                    .style(Modifier::DIM),
            },
        }
    }
}

/// `  1.2 s  process 4711  GET /slow`.
fn old_request(request: &Value) -> String {
    let line = request.get("request").and_then(Value::as_str);
    let age = request.get("age").and_then(Value::as_f64);
    let process = match request.get("pid").and_then(Value::as_i64) {
        Some(pid) => format!("process {pid}"),
        None => "waits".to_owned(),
    };
    let age = format!("{:.1} s", age.unwrap_or_default());
    format!("{age:>9}  {process:<15} {}", line.unwrap_or_default())
}

fn draw_help(frame: &mut Frame<'_>) {
    const HELP: [&str; 14] = [
        "q, Esc, Ctrl-C  quit",
        "↑ ↓, k j        choose an application",
        "Enter           its processes, what they are at, why it does not start",
        "s               sort by the next column",
        "/               show applications with this in their name",
        "r               restart the chosen application",
        "p, Space        hold the page still",
        "",
        "RUN   processes that serve; + more are starting",
        "IDLE  those of them with nothing to do",
        "QUEUE requests that no process has begun",
        "P50, P99  half, and 99 of 100, took no longer",
        "",
        "All of it is since the last look. Any key leads back.",
    ];
    let area = frame.area();
    // With a border.
    let width = (longest(HELP.into_iter()) + 2).min(area.width);
    let height = (HELP.len() as u16 + 2).min(area.height);
    let [area] = Layout::horizontal([Constraint::Length(width)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    let [area] = Layout::vertical([Constraint::Length(height)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    frame.render_widget(Clear, area);
    let lines: Vec<Line<'_>> = HELP.map(Line::from).to_vec();
    let help = Paragraph::new(lines).block(Block::bordered().title(" keys "));
    frame.render_widget(help, area);
}

/// Lines broken where the screen ends, what goes on after a space: the end of a line is what went wrong.
fn folded(lines: &[String], width: usize) -> Vec<String> {
    let mut folded = Vec::new();
    for line in lines {
        let characters: Vec<char> = line.chars().collect();
        let (first, rest) = characters.split_at(width.min(characters.len()));
        folded.push(first.iter().collect());
        let parts = rest.chunks(width.saturating_sub(1).max(1));
        folded.extend(parts.map(|part| std::iter::once(&' ').chain(part).collect::<String>()));
    }
    folded
}

/// Columns of the longest text.
fn longest<'t>(texts: impl Iterator<Item = &'t str>) -> u16 {
    let widths = texts.map(|text| Line::from(text).width());
    length(widths.max().unwrap_or_default())
}

fn length(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// `12`, `1,234`, `12.3k`: no more than six characters.
fn count_of(rate: f64) -> String {
    match rate {
        rate if rate < 9.95 && rate > 0.0 => format!("{rate:.1}"),
        rate if rate < 100_000.0 => format!("{rate:.0}"),
        rate if rate < 1e6 => format!("{:.0}k", rate / 1e3),
        rate => format!("{:.1}M", rate / 1e6),
    }
}

/// `0.4ms`, `120ms`, `1.2s`; `-` where there was nothing.
fn seconds_of(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 0.01 => format!("{:.1}ms", seconds * 1e3),
        Some(seconds) if seconds < 1.0 => format!("{:.0}ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.1}s"),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::samples::tests::two;
    use super::*;

    fn drawn(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| state.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let mut text = String::new();
        for y in 0..height {
            let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn state() -> State {
        let (before, now) = two();
        let mut state = State::new(before, None, true);
        state.add(now);
        state
    }

    #[test]
    fn all_of_it_is_there_in_80_columns_and_in_200() {
        let mut state = state();
        state.shows_details = true;
        for width in [80, 200] {
            let page = drawn(&state, width, 24);
            for part in [
                "tutti 0.1.0, process 4711, up 3 days 4 hours",
                "requests    1510/s  2xx 1500  3xx 0  4xx 0  5xx 10",
                "p50 1.0ms",
                "connections 1024 active, 300 idle   in 0 B/s  out 2.0 MiB/s",
                "APPLICATION▾",
                "blog",
                "120 MiB",
                "blog: processes 100 101",
                "   12.3 s  process 100     GET /slow?n=1",
                "    0.2 s  waits           GET /next",
                "last start failed: exit code 1",
                "10.0.0.1:80",
                "q quit",
            ] {
                assert!(page.contains(part), "{part} in {width}:\n{page}");
            }
            let row = page.lines().find(|line| line.starts_with("blog ")).unwrap();
            let cells: Vec<&str> = row.split_whitespace().collect();
            assert_eq!(
                cells,
                [
                    "blog", "5+", "3", "6", "1010", "1.0ms", "2.0ms", "8", "1", "120", "MiB"
                ]
            );
        }
    }

    /// Pictures of the page showed figures far from their names, and help and log cut off.
    #[test]
    fn nothing_is_far_off_or_cut() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let line = format!(
            "[error] server 10.0.0.1:80: {}refused",
            "so it goes; ".repeat(8)
        );
        std::fs::write(&log, format!("first\n{line}\n")).unwrap();
        let (before, now) = two();
        let mut state = State::new(before, Some(LogTail::new(log)), true);
        state.add(now);
        let page = drawn(&state, 80, 24);
        assert!(page.contains("refused"), "{page}");
        let wide = drawn(&state, 200, 24);
        for name in ["blog ", "10.0.0.1:80 "] {
            let row = wide.lines().find(|line| line.contains(name)).unwrap();
            assert!(row.len() < 100, "{row}");
        }
        state.mode = Mode::Help;
        assert!(drawn(&state, 80, 24).contains("why it does not start│"));
    }

    #[test]
    fn small_screens_and_strange_answers_do_no_harm() {
        let state = state();
        for (width, height) in [(1, 1), (20, 5), (80, 8), (400, 100)] {
            drawn(&state, width, height);
        }
        for status in [
            Value::Null,
            serde_json::json!({"applications": {"a": 1}, "upstreams": []}),
        ] {
            let sample = Sample::of(Instant::now(), status, "garbage{\n");
            let mut state = State::new(sample.clone(), None, false);
            state.add(sample);
            state.mode = Mode::Help;
            assert!(
                drawn(&state, 80, 24).contains("any key")
                    || drawn(&state, 80, 24).contains("Any key")
            );
        }
    }

    #[test]
    fn sorting_pausing_and_silence_are_seen() {
        let mut state = state();
        // By memory, the largest first.
        for _ in 0..9 {
            state.sort_by_next();
        }
        let page = drawn(&state, 80, 24);
        assert!(page.contains("MEMORY▾"), "{page}");
        assert!(page.find("blog ").unwrap() < page.find("shop ").unwrap());
        state.is_paused = true;
        assert!(drawn(&state, 80, 24).contains("paused"));
        state.is_silent("connection refused".to_owned());
        let page = drawn(&state, 80, 24);
        assert!(
            page.contains("no answer for 0 s: connection refused"),
            "{page}"
        );
        let (_, now) = two();
        state.add(now);
        assert!(!drawn(&state, 80, 24).contains("no answer"));
    }

    #[test]
    fn numbers_stay_short() {
        for (rate, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (12.4, "12"),
            (99_999.0, "99999"),
            (123_456.0, "123k"),
            (12_345_678.0, "12.3M"),
        ] {
            assert_eq!(count_of(rate), text);
        }
        for (seconds, text) in [
            (None, "-"),
            (Some(0.000_42), "0.4ms"),
            (Some(0.12), "120ms"),
            (Some(1.25), "1.2s"),
        ] {
            assert_eq!(seconds_of(seconds), text);
        }
    }
}
