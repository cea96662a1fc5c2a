//! A page: the values of all families at one moment.

use crate::families::{ALL, Family};
use crate::histogram::Histogram;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// A whole number.
    Count(u64),
    /// Another number.
    Real(f64),
    /// Durations.
    Histogram(Box<Histogram>),
}

impl From<u64> for MetricValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<u32> for MetricValue {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<f64> for MetricValue {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<Histogram> for MetricValue {
    fn from(histogram: Histogram) -> Self {
        Self::Histogram(Box::new(histogram))
    }
}

/// One series of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Values of the family's labels, in their order; empty ones are left out.
    pub labels: Vec<String>,
    /// Its value.
    pub value: MetricValue,
}

/// The values of all families.
#[derive(Debug)]
pub struct Page {
    /// In the order of [`ALL`].
    series: Vec<Vec<Series>>,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            series: ALL.iter().map(|_| Vec::new()).collect(),
        }
    }
}

impl Page {
    /// Adds a series. `labels` are the values of the family's labels, in their order; empty ones are left out.
    pub fn add(&mut self, family: &'static Family, labels: &[&str], value: impl Into<MetricValue>) {
        debug_assert_eq!(labels.len(), family.labels.len(), "{}", family.name);
        let position = ALL.iter().position(|known| known.name == family.name);
        let series = position.and_then(|position| self.series.get_mut(position));
        debug_assert!(series.is_some(), "{}", family.name);
        if let Some(series) = series {
            series.push(Series {
                labels: labels.iter().map(|&label| label.to_owned()).collect(),
                value: value.into(),
            });
        }
    }

    /// Returns the families that have series.
    pub(crate) fn families(&self) -> impl Iterator<Item = (&'static Family, &[Series])> {
        let all = ALL
            .iter()
            .copied()
            .zip(self.series.iter().map(Vec::as_slice));
        all.filter(|(_, series)| !series.is_empty())
    }
}

/// Returns the labels of a series that have a value.
pub(crate) fn labels<'a>(
    family: &Family,
    series: &'a Series,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    let names = family.labels.iter().copied();
    let all = names.zip(series.labels.iter().map(String::as_str));
    all.filter(|(_, value)| !value.is_empty())
}
