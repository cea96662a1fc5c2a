//! The screen: first current problems and the commands that fix them, then rates, errors, latency and saturation.
//!
//! Drawn in the terminal's own colours, and red and magenta: the named colours that are visible on both light and dark
//! backgrounds. The background is never set.

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
use tutti_metrics::status_value::time;
use tutti_metrics::{Alert, Severity};

use super::log_tail::LogTail;
use super::order::Order;
use super::samples::{REQUESTS, RouteRow, Row, Sample};
use crate::status::page::{mules, size};
use crate::wrap::wrapped;

/// Rates to keep: as many as the widest screen has columns.
const KEPT: usize = 512;

/// Requests in progress to show for the chosen application.
const SHOWN_REQUESTS: usize = 5;

/// The current meaning of keys.
#[derive(Debug, Default)]
pub(super) enum Mode {
    #[default]
    Normal,
    /// Letters go to the filter.
    Filter,
    /// The next key confirms or cancels.
    Confirm(Order),
    Help,
}

/// Everything that is shown.
pub(super) struct State {
    now: Sample,
    before: Sample,
    /// Requests per second, oldest first.
    rates: VecDeque<u64>,
    log: Option<LogTail>,
    is_colourful: bool,
    /// The last message, and when it was shown.
    said: Option<String>,
    /// Since when, and why, the server does not respond.
    silence: Option<(Instant, String)>,
    chosen: Option<String>,
    sort: usize,
    pub(super) mode: Mode,
    pub(super) filter: String,
    pub(super) is_paused: bool,
    pub(super) shows_details: bool,
}

/// A column of the applications: its heading, and the value to sort by, the largest first.
type Column = (&'static str, fn(&Row) -> f64);
const COLUMNS: [Column; 8] = [
    ("REQ/S", |row| row.rate),
    ("5XX/S", |row| row.errors),
    ("P50", |row| row.median.unwrap_or(0.0)),
    ("P99", |row| row.slow.unwrap_or(0.0)),
    ("WORKERS", |row| row.busy as f64),
    ("BACKLOG", |row| row.queued as f64),
    ("MEMORY", |row| row.memory as f64),
    ("RESTARTS", |row| row.restarts as f64),
];

/// Widths of those columns.
const WIDTHS: [u16; 8] = [7, 7, 7, 7, 9, 9, 9, 10];

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

    /// Shows this sample from now on, unless paused.
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

    /// Moves the selection by this many applications; if the selected one is gone, to the first.
    pub(super) fn choose(&mut self, by: isize) {
        let rows = self.rows();
        let chosen = self.chosen.as_ref();
        let place = rows.iter().position(|row| Some(&row.name) == chosen);
        let place = place.map_or(0, |place| place.saturating_add_signed(by));
        let place = place.min(rows.len().saturating_sub(1));
        self.chosen = rows.get(place).map(|row| row.name.clone());
    }

    /// Returns the application that an order applies to.
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

    /// True if a row with this text matches the filter.
    fn is_wanted(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.filter.to_lowercase())
    }

    /// Returns the applications that are shown, in order.
    fn rows(&self) -> Vec<Row> {
        let mut rows = self.now.applications(&self.before);
        rows.retain(|row| self.is_wanted(&row.name));
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
        let mut routes = self.now.routes(&self.before);
        routes.retain(|row| self.is_wanted(&row.name));
        routes.sort_by(|a, b| b.rates[0].total_cmp(&a.rates[0]));
        let mut servers = self.now.servers(&self.before);
        servers.retain(|row| row.iter().take(2).any(|text| self.is_wanted(text)));
        servers.sort_by_key(is_healthy);
        let details = self.details();
        let log_height = if self.log.is_some() { 6 } else { 0 };
        let area = frame.area();
        let alerts = self.alerts(area);
        // If there are alerts, they need the room.
        let graph_height = if alerts.len() > 1 { 1 } else { 3 };
        let fixed =
            length(alerts.len() + details.len()).saturating_add(5 + graph_height + log_height);
        let room = area.height.saturating_sub(fixed);
        let applications = length(rows.len() + 1).min(room);
        // With the heading and the empty line above it; a table without rows is not shown.
        let height = |rows: usize, room: u16| match length(rows + 2).min(room) {
            height if rows == 0 || height < 3 => 0,
            height => height,
        };
        let rest = room - applications;
        let share = if servers.is_empty() { rest } else { rest / 2 };
        let by_route = height(routes.len(), share);
        let upstreams = height(servers.len(), rest - by_route);
        let heights = [
            1,
            length(alerts.len()),
            3,
            graph_height,
            applications,
            length(details.len()),
            by_route,
            upstreams,
            log_height,
        ];
        let [
            server,
            wrong,
            head,
            graph,
            applications,
            more,
            by_route,
            upstreams,
            log,
        ] = Layout::vertical(heights.map(Constraint::Length)).areas(area);
        let [_, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
        frame.render_widget(self.server(), server);
        frame.render_widget(Paragraph::new(alerts), wrong);
        frame.render_widget(Paragraph::new(self.head(head.width)), head);
        self.draw_rates(frame, graph);
        self.draw_applications(frame, applications, &rows);
        frame.render_widget(Paragraph::new(details), more);
        if !routes.is_empty() {
            self.draw_routes(frame, by_route, &routes);
        }
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

    /// Returns the alerts with their commands, on about a third of the screen; a single line if there are none.
    fn alerts(&self, area: Rect) -> Vec<Line<'static>> {
        let alerts = self.now.alerts(&self.before);
        if alerts.is_empty() {
            let style = self.coloured(Color::Green);
            return vec![Line::from("✓ everything is healthy").style(style)];
        }
        let most = usize::from(area.height / 3).max(2);
        let mut lines = Vec::new();
        let mut shown = 0;
        for alert in &alerts {
            let text = wrapped(&alert_line(alert), 0, 2, usize::from(area.width));
            // At most two lines of its text, and the command.
            let text: Vec<&str> = text.lines().take(2).collect();
            if shown > 0 && lines.len() + text.len() >= most {
                break;
            }
            shown += 1;
            let style = self.style_of(alert);
            lines.extend(
                text.into_iter()
                    .map(|line| Line::from(line.to_owned()).style(style)),
            );
            lines.push(Line::from(vec![
                Span::raw("    run: "),
                Span::styled(alert.command.clone(), Modifier::BOLD),
            ]));
        }
        match alerts.len() - shown {
            0 => {}
            more => lines.push(Line::from(format!("  {more} more in a taller window"))),
        }
        lines
    }

    fn style_of(&self, alert: &Alert) -> Style {
        match alert.severity {
            Severity::Critical => self.coloured(Color::Red).add_modifier(Modifier::BOLD),
            Severity::Warning => self.coloured(Color::Magenta),
        }
    }

    /// Returns the first line: the server, or that it does not respond.
    fn server(&self) -> Line<'_> {
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
            let text = format!("no response for {seconds} s: {why}");
            // Everything else is outdated; the reason needs the line.
            server.truncate(1);
            server.push(Span::styled(text, style));
        } else if self.is_paused {
            server.push(Span::styled("   paused", Modifier::REVERSED));
        }
        server.into()
    }

    fn head(&self, width: u16) -> Vec<Line<'_>> {
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
        let running = self.now.of_applications("/processes/running");
        let idle = self.now.of_applications("/processes/idle");
        let saturation = vec![
            Span::styled("workers     ", Modifier::BOLD),
            Span::raw(format!(
                "{} of {running} busy  backlog {}  memory {}",
                running.saturating_sub(idle),
                self.now.of_applications("/requests/queued"),
                size(self.now.memory())
            )),
        ];
        vec![requests.into(), saturation.into(), connections.into()]
    }

    /// Draws requests per second, the newest on the right.
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
                count_of(row.rate),
                count_of(row.errors),
                seconds_of(row.median),
                seconds_of(row.slow),
                format!(
                    "{}/{}{}",
                    row.busy,
                    row.running,
                    if row.starting > 0 { "+" } else { "" }
                ),
                row.queued.to_string(),
                size(row.memory),
                row.restarts.to_string(),
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
        let widths = std::iter::once(self.name_width(area.width)).chain(WIDTHS);
        let table = Table::new(lines, widths.map(Constraint::Length))
            .header(TableRow::new(heading).style(Modifier::BOLD))
            .column_spacing(0)
            .row_highlight_style(Modifier::REVERSED);
        let chosen = self.chosen.as_ref();
        let place = rows.iter().position(|row| Some(&row.name) == chosen);
        let mut state = TableState::new().with_selected(place);
        frame.render_stateful_widget(table, area, &mut state);
    }

    /// Returns the width of names of applications and routes. On a wide screen the figures stay next to them.
    fn name_width(&self, width: u16) -> u16 {
        let names = self.rows().into_iter().map(|row| row.name);
        let routes = self.now.routes(&self.before).into_iter();
        let names: Vec<String> = names.chain(routes.map(|row| row.name)).collect();
        let names = names.iter().map(String::as_str).chain(["APPLICATION▾"]);
        let rest = width.saturating_sub(WIDTHS.iter().sum());
        longest(names).saturating_add(2).min(rest)
    }

    fn draw_routes(&self, frame: &mut Frame<'_>, area: Rect, routes: &[RouteRow]) {
        let right = |text: String| Cell::from(Line::from(text).right_aligned());
        let headings = ["REQ/S", "5XX/S", "P50", "P99", "4XX/S"];
        let heading = headings.map(|text| right(text.to_owned()));
        let heading = std::iter::once(Cell::from("ROUTE")).chain(heading);
        let lines = routes.iter().map(|row| {
            let [all, client, server] = row.rates.map(count_of);
            let [median, slow] = row.quantiles.map(seconds_of);
            let cells = [all, server, median, slow, client].map(right);
            TableRow::new(std::iter::once(Cell::from(row.name.clone())).chain(cells))
        });
        let widths = std::iter::once(self.name_width(area.width)).chain(WIDTHS);
        let table = Table::new(lines, widths.take(6).map(Constraint::Length))
            .header(TableRow::new(heading).style(Modifier::BOLD).top_margin(1))
            .column_spacing(0);
        frame.render_widget(table, area);
    }

    /// Describes the processes of the chosen application, and why its last start failed.
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
            let cells = row.iter().cloned().enumerate();
            let line = TableRow::new(cells.map(|(index, text)| cell(index, text)));
            if !is_healthy(row) {
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
        // With a space before each column except the first.
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
            Mode::Filter => Line::from(format!("search: {}▏ Enter: keep, Esc: clear", self.filter)),
            Mode::Normal | Mode::Help => match &self.said {
                Some(said) => Line::from(said.as_str()),
                None => Line::from("q quit  ↑↓ choose  Enter details  s sort  / search  r restart  p pause  ? help")
                    .style(Modifier::DIM),
            },
        }
    }
}

/// True if a server of an upstream gets requests.
fn is_healthy([_, _, state, ..]: &[String; 6]) -> bool {
    state == "healthy"
}

/// `✗ Application blog cannot start: exit code 1`.
fn alert_line(alert: &Alert) -> String {
    let mark = match alert.severity {
        Severity::Critical => '✗',
        Severity::Warning => '!',
    };
    match alert.detail.as_str() {
        "" => format!("{mark} {}", alert.title),
        detail => format!("{mark} {}: {detail}", alert.title),
    }
}

/// `  1.2 s  process 4711  GET /slow`.
fn old_request(request: &Value) -> String {
    let line = request.get("request").and_then(Value::as_str);
    let age = request.get("age").and_then(Value::as_f64);
    let process = match request.get("pid").and_then(Value::as_i64) {
        Some(pid) => format!("process {pid}"),
        None => "in the backlog".to_owned(),
    };
    let age = format!("{:.1} s", age.unwrap_or_default());
    format!("{age:>9}  {process:<15} {}", line.unwrap_or_default())
}

fn draw_help(frame: &mut Frame<'_>) {
    const HELP: [&str; 12] = [
        "q, Esc, Ctrl-C  quit",
        "↑ ↓, k j        choose an application",
        "Enter           show its processes, requests and last failure",
        "s               sort by the next column",
        "/               search applications, routes and upstreams",
        "r               restart the chosen application",
        "p, Space        pause",
        "",
        "WORKERS  busy and running workers; + if more are starting",
        "BACKLOG  requests that wait for a worker",
        "",
        "Rates, p50 and p99 are since the last refresh. Any key closes this.",
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

/// Wraps lines at the edge of the screen, with a space before continuation lines: the end of a line often is the actual
/// error.
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

/// Returns the columns of the longest text.
fn longest<'t>(texts: impl Iterator<Item = &'t str>) -> u16 {
    let widths = texts.map(|text| Line::from(text).width());
    length(widths.max().unwrap_or_default())
}

fn length(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// `12`, `1,234`, `12.3k`: at most six characters.
fn count_of(rate: f64) -> String {
    match rate {
        rate if rate < 9.95 && rate > 0.0 => format!("{rate:.1}"),
        rate if rate < 100_000.0 => format!("{rate:.0}"),
        rate if rate < 1e6 => format!("{:.0}k", rate / 1e3),
        rate => format!("{:.1}M", rate / 1e6),
    }
}

/// `0.4ms`, `120ms`, `1.2s`; `-` if there was nothing.
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
                "! Some processes of application blog cannot start: exit code 1",
                "    run: tutti restart blog",
                "workers     2 of 7 busy  backlog 6  memory 137 MiB",
                "ROUTE",
                "   12.3 s  process 100     GET /slow?n=1",
                "    0.2 s  in the backlog  GET /next",
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
                    "blog", "1010", "10", "1.0ms", "2.0ms", "2/5+", "6", "120", "MiB", "8"
                ]
            );
        }
    }

    #[test]
    fn alerts_come_first_with_their_commands_and_leave_room_for_the_rest() {
        let servers: Vec<String> = (0..9)
            .map(|number| format!("\"10.0.0.{number}:80\": {{\"state\": \"down\"}}"))
            .collect();
        let of = |servers: &str| {
            let status = format!(
                "{{\"applications\": {{\"a\": {{}}}}, \"upstreams\": {{\"api\": {{\"servers\": {{{servers}}}}}}}}}"
            );
            let status = serde_json::from_str(&status).unwrap();
            let mut state = State::new(Sample::of(Instant::now(), Value::Null, ""), None, true);
            state.add(Sample::of(Instant::now(), status, ""));
            drawn(&state, 80, 24)
        };
        let page = of(&servers.join(","));
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(
            lines[1], "✗ Server 10.0.0.0:80 of upstream api is down",
            "{page}"
        );
        assert_eq!(lines[2], "    run: curl -iv http://10.0.0.0:80/", "{page}");
        assert!(page.contains("5 more in a taller window"), "{page}");
        for part in ["requests", "APPLICATION", "\na ", "UPSTREAM", "q quit"] {
            assert!(page.contains(part), "{part} in {page}");
        }
        // The servers that are down come before the healthy ones.
        let page =
            of("\"10.0.0.1:80\": {\"state\": \"up\"}, \"10.0.0.2:80\": {\"state\": \"down\"}");
        let row = |state: &str| {
            page.lines()
                .position(|line| line.contains(&format!(" {state} ")))
        };
        assert!(row("down").unwrap() < row("healthy").unwrap(), "{page}");
        assert!(of("").contains("✓ everything is healthy"));
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
        assert!(drawn(&state, 80, 24).contains("if more are starting"));
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
            assert!(drawn(&state, 80, 24).contains("Any key"));
        }
    }

    #[test]
    fn sorting_pausing_and_silence_are_seen() {
        let mut state = state();
        // By memory, the largest first.
        for _ in 0..7 {
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
            page.contains("no response for 0 s: connection refused"),
            "{page}"
        );
        let (_, now) = two();
        state.add(now);
        assert!(!drawn(&state, 80, 24).contains("no response"));
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
