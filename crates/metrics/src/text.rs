//! Prometheus's text format, version 0.0.4, and the parts that OpenMetrics shares with it.
//!
//! <https://github.com/prometheus/docs/blob/main/docs/instrumenting/exposition_formats.md>

use crate::families::{Family, MetricKind};
use crate::page::{MetricValue, Page, Series, labels};

/// Writes a page.
pub(crate) fn write(page: &Page) -> String {
    let mut out = String::new();
    for (family, series) in page.families() {
        let (name, suffix) = (family.name, family.suffix());
        // This format has no type for info families; by convention they are gauges.
        let kind = match family.kind {
            MetricKind::Info => MetricKind::Gauge,
            kind => kind,
        };
        out.push_str(&format!("# HELP {name}{suffix} "));
        escape(family.help, Quotes::Kept, &mut out);
        out.push_str(&format!("\n# TYPE {name}{suffix} {}\n", kind.word()));
        for one in series {
            sample(family, one, &mut out);
        }
    }
    out
}

/// Writes the lines of a series.
pub(crate) fn sample(family: &Family, series: &Series, out: &mut String) {
    match &series.value {
        MetricValue::Count(count) => {
            line(family, series, family.suffix(), None, out);
            push_count(*count, out);
        }
        MetricValue::Real(number) => {
            line(family, series, family.suffix(), None, out);
            push_real(*number, out);
        }
        MetricValue::Histogram(histogram) => {
            for (bound, count) in histogram.classic() {
                let mut text = String::new();
                push_real(bound, &mut text);
                line(family, series, "_bucket", Some(&text), out);
                push_count(count, out);
                out.push('\n');
            }
            line(family, series, "_bucket", Some("+Inf"), out);
            push_count(histogram.count(), out);
            out.push('\n');
            line(family, series, "_sum", None, out);
            push_real(histogram.sum, out);
            out.push('\n');
            line(family, series, "_count", None, out);
            push_count(histogram.count(), out);
        }
    }
    out.push('\n');
}

/// Writes the name and the labels of a line, and the space after them.
fn line(family: &Family, series: &Series, suffix: &str, bound: Option<&str>, out: &mut String) {
    out.push_str(family.name);
    out.push_str(suffix);
    let all = labels(family, series).chain(bound.map(|bound| ("le", bound)));
    let mut separator = '{';
    for (name, value) in all {
        out.push(separator);
        out.push_str(name);
        out.push_str("=\"");
        escape(value, Quotes::Escaped, out);
        out.push('"');
        separator = ',';
    }
    out.push_str(if separator == '{' { " " } else { "} " });
}

fn push_count(count: u64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(count));
}

/// A float is always recognizable as one, as OpenMetrics requires of bounds.
fn push_real(number: f64, out: &mut String) {
    out.push_str(&format!("{number:?}"));
}

/// Quotation marks in a text.
#[derive(PartialEq)]
pub(crate) enum Quotes {
    Kept,
    Escaped,
}

/// Escapes text so that it stays on its line, and within its quotation marks.
pub(crate) fn escape(text: &str, quotes: Quotes, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes == Quotes::Escaped => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::families::names::{BUILD, CONNECTIONS, QUEUE_WAIT, REQUESTS};
    use crate::histogram::{Histogram, bucket_of};

    #[test]
    fn labels_are_escaped_and_left_out_where_empty() {
        let mut page = Page::default();
        page.add(REQUESTS, &["application", "a\"b\\c\nd", "", "2xx"], 7_u64);
        let text = write(&page);
        let line = "tutti_requests_total{action=\"application\",application=\"a\\\"b\\\\c\\nd\",class=\"2xx\"} 7";
        assert!(text.lines().any(|one| one == line), "{text}");
        assert!(text.contains("# TYPE tutti_requests_total counter\n"));
        assert!(
            !text.contains("tutti_connections"),
            "a family without series"
        );
    }

    #[test]
    fn a_histogram_has_its_buckets_its_sum_and_its_count() {
        let mut page = Page::default();
        let mut histogram = Histogram::default();
        histogram.counts[bucket_of(Duration::from_millis(900))] = 2;
        histogram.sum = 1.8;
        page.add(QUEUE_WAIT, &["a"], histogram);
        let text = write(&page);
        for line in [
            "tutti_application_queue_wait_seconds_bucket{application=\"a\",le=\"0.5\"} 0",
            "tutti_application_queue_wait_seconds_bucket{application=\"a\",le=\"1.0\"} 2",
            "tutti_application_queue_wait_seconds_bucket{application=\"a\",le=\"+Inf\"} 2",
            "tutti_application_queue_wait_seconds_sum{application=\"a\"} 1.8",
            "tutti_application_queue_wait_seconds_count{application=\"a\"} 2",
        ] {
            assert!(
                text.lines().any(|one| one == line),
                "{line} is not in\n{text}"
            );
        }
    }

    #[test]
    fn facts_are_gauges_here() {
        let mut page = Page::default();
        page.add(BUILD, &["1.2"], 1_u64);
        page.add(CONNECTIONS, &["idle"], 3_u64);
        let text = write(&page);
        assert!(
            text.contains("# TYPE tutti_build_info gauge\ntutti_build_info{version=\"1.2\"} 1\n")
        );
        assert!(text.ends_with("tutti_connections{state=\"idle\"} 3\n"));
    }
}
