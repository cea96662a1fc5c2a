//! The last hour as SVG, drawn here: it works without a script.
//!
//! Each line has its own dash pattern, and a legend with its last value; the picture has a name and a summary for
//! screen readers.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use maud::{Markup, html};

use crate::markup::maybe;
use crate::watch::{KEPT, Number, Point, STEP};

/// Inner size of the picture, in its own units; the window scales it.
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 84.0;

/// Margins for the largest value at the top, and for the times at the bottom.
const TOP: f64 = 14.0;
const BOTTOM: f64 = 14.0;

pub(crate) struct Graph {
    /// One word.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// At most three, because there are three patterns.
    pub(crate) lines: &'static [(&'static str, Number)],
    pub(crate) show: fn(f64) -> String,
    /// Its scale has steps of 1024.
    pub(crate) is_bytes: bool,
}

/// Time spans: the shortest one that covers all data is shown, so that a new server's lines are visible.
const SPANS: [(Duration, [&str; 2]); 3] = [
    (Duration::from_secs(600), ["10 min ago", "5 min"]),
    (Duration::from_secs(1800), ["30 min ago", "15 min"]),
    (KEPT, ["1 h ago", "30 min"]),
];

fn span_of(points: &VecDeque<Point>, now: Option<Instant>) -> (Duration, [&'static str; 2]) {
    let oldest = points.front().zip(now);
    let age = oldest.map_or(Duration::ZERO, |(oldest, now)| {
        now.saturating_duration_since(oldest.at)
    });
    let [short, middle, hour] = SPANS;
    let fitting = [short, middle].into_iter().find(|(span, _)| age <= *span);
    fitting.unwrap_or(hour)
}

pub(crate) fn draw(graph: &Graph, points: &VecDeque<Point>, now: Option<Instant>) -> Markup {
    let values = graph
        .lines
        .iter()
        .flat_map(|(_, number)| points.iter().filter_map(|point| point.value(*number)));
    let highest = values.fold(0.0, f64::max);
    let scale = if graph.is_bytes {
        nice_bytes(highest)
    } else {
        nice(highest)
    };
    let (span, [earliest, middle]) = span_of(points, now);
    let lines: Vec<(String, &str, Option<f64>)> = graph
        .lines
        .iter()
        .map(|(name, number)| {
            let path =
                now.map_or_else(String::new, |now| path(points, *number, now, (span, scale)));
            let last = points.back().and_then(|point| point.value(*number));
            (path, *name, last)
        })
        .collect();
    let (title, description) = (format!("{}-title", graph.id), format!("{}-text", graph.id));
    let bottom = TOP + HEIGHT;
    html! {
        section.graph {
            h3 id=(title) { (graph.title) }
            div id=(graph.id) data-live {
                svg role="img" aria-labelledby=(title) aria-describedby=(description)
                    viewBox=(format!("0 0 {WIDTH} {}", bottom + BOTTOM)) {
                    line.axis x1="0" y1=(bottom) x2=(WIDTH) y2=(bottom) {}
                    line.grid x1="0" y1=(TOP) x2=(WIDTH) y2=(TOP) {}
                    line.grid x1="0" y1=(TOP + HEIGHT / 2.0) x2=(WIDTH) y2=(TOP + HEIGHT / 2.0) {}
                    text x="0" y=(TOP - 3.0) { ((graph.show)(scale)) }
                    text x="0" y=(bottom + 11.0) { (earliest) }
                    text x=(WIDTH / 2.0) y=(bottom + 11.0) text-anchor="middle" { (middle) }
                    text x=(WIDTH) y=(bottom + 11.0) text-anchor="end" { "now" }
                    @for (index, (path, _, _)) in lines.iter().enumerate() {
                        @if !path.is_empty() {
                            path.(format!("line-{index}")) d=(path) {}
                        }
                    }
                }
                p.visually-hidden id=(description) { (summary(graph, points)) }
                ul.legend {
                    @for (index, (_, name, last)) in lines.iter().enumerate() {
                        li {
                            svg.key viewBox="0 0 24 8" aria-hidden="true" {
                                path.(format!("line-{index}")) d="M0 4H24" {}
                            }
                            (name) " " strong { (maybe(*last, graph.show)) }
                        }
                    }
                }
            }
        }
    }
}

/// Describes the graph.
fn summary(graph: &Graph, points: &VecDeque<Point>) -> String {
    let mut text = String::new();
    for (name, number) in graph.lines {
        let values: Vec<f64> = points
            .iter()
            .filter_map(|point| point.value(*number))
            .collect();
        let (Some(last), false) = (points.back(), values.is_empty()) else {
            let _ = write!(text, "{name}: nothing yet. ");
            continue;
        };
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        let show = graph.show;
        let _ = write!(
            text,
            "{name}: now {}, in the last hour from {} to {}. ",
            maybe(last.value(*number), show),
            show(low),
            show(high)
        );
    }
    text
}

/// Returns a round number that is not less than the highest value.
fn nice(highest: f64) -> f64 {
    if highest <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(highest.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= highest);
    step.unwrap_or(10.0) * power
}

/// Returns a number of bytes that is round in its unit.
fn nice_bytes(highest: f64) -> f64 {
    let unit = 1024f64.powf(highest.max(1.0).log(1024.0).floor());
    nice(highest / unit) * unit
}

/// Draws the line, with gaps for missing values.
fn path(
    points: &VecDeque<Point>,
    number: Number,
    now: Instant,
    (span, scale): (Duration, f64),
) -> String {
    let mut path = String::new();
    let mut before: Option<Instant> = None;
    for point in points {
        let age = now.saturating_duration_since(point.at);
        let (Some(value), true) = (point.value(number), age <= span) else {
            before = None;
            continue;
        };
        let x = WIDTH * (1.0 - age.as_secs_f64() / span.as_secs_f64());
        let y = TOP + HEIGHT * (1.0 - (value / scale).clamp(0.0, 1.0));
        let is_next = |before: Instant| point.at.saturating_duration_since(before) < longest_step();
        let command = if before.is_some_and(is_next) {
            'L'
        } else {
            'M'
        };
        let _ = write!(path, "{command}{x:.1} {y:.1}");
        if command == 'M' {
            // Makes a single point visible too.
            path.push_str("h.5");
        }
        before = Some(point.at);
    }
    path
}

/// Points further apart are not connected.
fn longest_step() -> Duration {
    STEP * 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::look_at;

    #[test]
    fn scales_are_round() {
        assert_eq!(
            [0.0, 0.03, 1.0, 7.0, 230.0].map(nice),
            [1.0, 0.05, 1.0, 10.0, 250.0]
        );
    }

    #[test]
    fn a_gap_is_not_bridged_and_the_summary_says_what_is_drawn() {
        let first = Instant::now();
        let mut seen = crate::watch::Seen::default();
        for (step, router, requests) in [(0, 1, 0), (10, 1, 100), (20, 2, 5), (30, 2, 205)] {
            seen.add(look_at(first, step, router, requests));
        }
        let now = first + Duration::from_secs(30);
        let path = path(&seen.points, Number::Requests, now, (KEPT, 20.0));
        assert_eq!(path, "M318.2 56.0h.5M320.0 14.0h.5");
        assert_eq!(span_of(&seen.points, Some(now)).1, ["10 min ago", "5 min"]);
        assert_eq!(span_of(&seen.points, Some(now + KEPT)).0, KEPT);
        let graph = Graph {
            id: "requests",
            title: "Requests",
            lines: &[("all", Number::Requests)],
            show: crate::markup::rate,
            is_bytes: false,
        };
        let words = summary(&graph, &seen.points);
        assert_eq!(words, "all: now 20/s, in the last hour from 10/s to 20/s. ");
        let drawn = draw(&graph, &seen.points, Some(now)).into_string();
        assert!(
            drawn.contains("role=\"img\" aria-labelledby=\"requests-title\""),
            "{drawn}"
        );
    }
}
