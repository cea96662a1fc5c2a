//! Building blocks of pages: tables, formatted numbers, times. The library escapes every text that is inserted into
//! markup here.

use std::time::{SystemTime, UNIX_EPOCH};

use maud::{Markup, html};
use serde_json::Value;
pub(crate) use tutti_metrics::status_value::{members, time};

/// A column of a table.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) is_number: bool,
}

/// A column of words.
pub(crate) const fn words(name: &'static str) -> Column {
    Column {
        name,
        is_number: false,
    }
}

/// A column of numbers.
pub(crate) const fn number(name: &'static str) -> Column {
    Column {
        name,
        is_number: true,
    }
}

/// A table with a caption, whose first column names its rows. If it is too wide for the window, the table is scrolled
/// (with the keyboard too), not the page. On a phone each row is a card: its cells have the headings of their columns
/// (`data-label`), and the roles keep it a table for a screen reader although it is not displayed as one. The script
/// replaces the body; `id` is one word.
pub(crate) fn table(id: &str, caption: &str, columns: &[Column], rows: &[Vec<Markup>]) -> Markup {
    let caption_id = format!("{id}-caption");
    html! {
        div.scroll role="region" aria-labelledby=(caption_id) tabindex="0" {
            table role="table" aria-labelledby=(caption_id) {
                caption id=(caption_id) { (caption) }
                thead role="rowgroup" { tr role="row" {
                    @for column in columns {
                        th scope="col" role="columnheader" class=[column.is_number.then_some("number")] { (column.name) }
                    }
                } }
                tbody id=(id) role="rowgroup" data-live {
                    @for row in rows { tr role="row" {
                        @for (index, (cell, column)) in row.iter().zip(columns).enumerate() {
                            @if index == 0 {
                                th scope="row" role="rowheader" { (cell) }
                            } @else {
                                td role="cell" data-label=(column.name) class=[column.is_number.then_some("number")] { (cell) }
                            }
                        }
                    } }
                }
            }
        }
    }
}

/// A state, shown by a word and a mark and not only by colour.
pub(crate) fn state(word: &str, mood: Mood) -> Markup {
    let (class, mark) = match mood {
        Mood::Good => ("good", "✓"),
        Mood::Doubtful => ("doubtful", "!"),
        Mood::Bad => ("bad", "✗"),
    };
    html! { span.state.(class) { span aria-hidden="true" { (mark) "\u{a0}" } (word) } }
}

/// The meaning of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Good,
    Doubtful,
    Bad,
}

/// Formats a number that may be missing.
pub(crate) fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "–".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => match number.as_u64() {
            Some(number) => grouped(number),
            None => number.to_string(),
        },
        Some(other) => other.to_string(),
    }
}

/// `1 234 567`, with non-breaking spaces.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digits.len() > 4 {
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    text
}

/// Formats a rate, or any other measured number.
pub(crate) fn measured(value: f64) -> String {
    if value >= 1000.0 {
        grouped(value.round() as u64)
    } else if value >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

pub(crate) fn rate(value: f64) -> String {
    format!("{}/s", measured(value))
}

pub(crate) fn bytes(value: f64) -> String {
    let mut value = value;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return format!("{} {unit}", measured(value));
        }
        value /= 1024.0;
    }
    format!("{} TiB", measured(value))
}

pub(crate) fn bytes_a_second(value: f64) -> String {
    format!("{}/s", bytes(value))
}

/// Formats seconds in a suitable unit.
pub(crate) fn seconds(value: f64) -> String {
    if value < 0.001 {
        format!("{} µs", measured(value * 1e6))
    } else if value < 1.0 {
        format!("{} ms", measured(value * 1e3))
    } else {
        format!("{} s", measured(value))
    }
}

/// Formats errors per second, and their share of all requests.
pub(crate) fn errors(failed: Option<f64>, all: Option<f64>) -> Markup {
    let share = failed
        .zip(all)
        .filter(|(failed, all)| *failed > 0.0 && *all > 0.0);
    match share {
        None => html! { (maybe(failed, rate)) },
        Some((failed, all)) => {
            let percent = 100.0 * failed / all;
            let digits = usize::from(percent < 10.0);
            html! { span.bad { (rate(failed)) " (" (format!("{percent:.digits$}")) "\u{a0}%)" } }
        }
    }
}

/// Formats a number that may be missing with `show`.
pub(crate) fn maybe(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

/// Formats a time in UTC, the same for all users.
pub(crate) fn moment(time: SystemTime) -> Markup {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let Ok(stamp) = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap_or_default()) else {
        return html! { "–" };
    };
    html! { time datetime=(stamp.strftime("%Y-%m-%dT%H:%M:%SZ")) { (stamp.strftime("%Y-%m-%d %H:%M:%S")) " UTC" } }
}

/// Formats a time that another program has written; unchanged if it cannot be parsed.
pub(crate) fn written(time: Option<&Value>) -> Markup {
    let text = plain(time);
    match text.parse::<jiff::Timestamp>() {
        Ok(stamp) => moment(stamp.into()),
        Err(_) => html! { (text) },
    }
}

/// Formats the time of day only.
pub(crate) fn clock(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    match jiff::Timestamp::from_second(i64::try_from(seconds).unwrap_or_default()) {
        Ok(stamp) => stamp.strftime("%H:%M").to_string(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(1234), "1234");
        assert_eq!(grouped(12_345_678), "12\u{a0}345\u{a0}678");
        let shown = [0.0, 0.256, 12.34, 123.4].map(measured);
        assert_eq!(shown, ["0", "0.26", "12.3", "123"]);
        assert_eq!(bytes(1536.0), "1.50 KiB");
        assert_eq!(
            [0.00025, 0.0125, 2.5].map(seconds),
            ["250 µs", "12.5 ms", "2.50 s"]
        );
    }
}
