//! Prometheus's protocol buffers: messages of `io.prometheus.client.MetricFamily`, each preceded by its length.
//!
//! Only the fields that are written; their numbers are those of
//! <https://github.com/prometheus/client_model/blob/master/io/prometheus/client/metrics.proto>.

use prost::Message;

use crate::families::{Family, MetricKind};
use crate::histogram::{self, Histogram, SCHEMA};
use crate::page::{MetricValue, Page, Series, labels};

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    #[prost(enumeration = "MetricType", optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
    #[prost(string, optional, tag = "5")]
    unit: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum MetricType {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Buckets>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// A gauge or a counter.
#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

/// A histogram. The classic buckets are included beside the native ones, for readers that support only those.
#[derive(Clone, PartialEq, Message)]
struct Buckets {
    #[prost(uint64, optional, tag = "1")]
    sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<Classic>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<Span>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Classic {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
}

/// Consecutive buckets: their distance from the end of the previous span, and their number.
#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

/// The bound below which a native histogram counts zeros, 2^-128, as in Prometheus's own libraries.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

/// Up to this many empty buckets between two others cost less than a separate span.
const GAP: i32 = 2;

/// Writes a page.
pub(crate) fn write(page: &Page) -> Vec<u8> {
    let mut out = Vec::new();
    for (family, series) in page.families() {
        let message = MetricFamily {
            name: Some(format!("{}{}", family.name, family.suffix())),
            help: Some(family.help.to_owned()),
            kind: Some(match family.kind {
                MetricKind::Counter => MetricType::Counter.into(),
                MetricKind::Gauge | MetricKind::Info => MetricType::Gauge.into(),
                MetricKind::Histogram => MetricType::Histogram.into(),
            }),
            metric: series.iter().map(|one| metric(family, one)).collect(),
            unit: family.unit.word().map(str::to_owned),
        };
        out.extend_from_slice(&message.encode_length_delimited_to_vec());
    }
    out
}

fn metric(family: &Family, series: &Series) -> Metric {
    let label = |(name, value): (&str, &str)| Label {
        name: Some(name.to_owned()),
        value: Some(value.to_owned()),
    };
    let mut metric = Metric {
        label: labels(family, series).map(label).collect(),
        ..Metric::default()
    };
    let number = match &series.value {
        MetricValue::Count(count) => *count as f64,
        MetricValue::Real(number) => *number,
        MetricValue::Histogram(histogram) => {
            metric.histogram = Some(buckets(histogram));
            return metric;
        }
    };
    let number = Some(Number {
        value: Some(number),
    });
    match family.kind {
        MetricKind::Counter => metric.counter = number,
        _ => metric.gauge = number,
    }
    metric
}

fn buckets(histogram: &Histogram) -> Buckets {
    let (mut spans, mut deltas) = (Vec::<Span>::new(), Vec::new());
    // The index after the last written bucket, and its count.
    let (mut next, mut before) = (0_i32, 0_i64);
    let mut push = |count: u64| {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        deltas.push(count - before);
        before = count;
    };
    for (bucket, &count) in histogram.counts.iter().enumerate() {
        if count == 0 {
            continue;
        }
        let index = histogram::native_index(bucket);
        let gap = index - next;
        match spans.last_mut() {
            Some(last) if gap <= GAP => {
                (0..gap).for_each(|_| push(0));
                let more = u32::try_from(gap).unwrap_or_default() + 1;
                last.length = last.length.map(|length| length + more);
            }
            _ => spans.push(Span {
                offset: Some(gap),
                length: Some(1),
            }),
        }
        push(count);
        next = index + 1;
    }
    if spans.is_empty() {
        // A span without buckets marks a native histogram that has no data yet.
        spans.push(Span {
            offset: Some(0),
            length: Some(0),
        });
    }
    Buckets {
        sample_count: Some(histogram.count()),
        sample_sum: Some(histogram.sum),
        bucket: histogram
            .classic()
            .map(|(bound, count)| Classic {
                cumulative_count: Some(count),
                upper_bound: Some(bound),
            })
            .collect(),
        schema: Some(SCHEMA),
        zero_threshold: Some(ZERO_THRESHOLD),
        zero_count: Some(0),
        positive_span: spans,
        positive_delta: deltas,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns the count of each native bucket, as a reader decodes it.
    fn read(buckets: &Buckets) -> Vec<(i32, i64)> {
        let (mut index, mut count) = (0, 0);
        let mut deltas = buckets.positive_delta.iter();
        let mut found = Vec::new();
        for span in &buckets.positive_span {
            index += span.offset();
            for _ in 0..span.length() {
                count += deltas.next().unwrap();
                found.push((index, count));
                index += 1;
            }
        }
        assert!(deltas.next().is_none());
        found.retain(|(_, count)| *count != 0);
        found
    }

    #[test]
    fn spans_and_deltas_give_each_bucket() {
        let mut histogram = Histogram::default();
        let mut expected = std::collections::BTreeMap::new();
        for micros in [0, 3, 4, 5, 700, 1_000, 1_001, 90_000, 1_000_000, 5_000_000] {
            let bucket = histogram::bucket_of(Duration::from_micros(micros));
            histogram.counts[bucket] += micros + 1;
            *expected.entry(histogram::native_index(bucket)).or_insert(0) += micros as i64 + 1;
        }
        let message = buckets(&histogram);
        assert_eq!(read(&message), expected.into_iter().collect::<Vec<_>>());
        assert_eq!(message.sample_count, Some(histogram.count()));
        assert!(message.positive_span.len() > 2, "gaps are left out");
    }

    #[test]
    fn a_histogram_without_anything_is_still_a_native_one() {
        let message = buckets(&Histogram::default());
        assert_eq!(message.positive_span.len(), 1);
        assert_eq!(read(&message), []);
    }
}
