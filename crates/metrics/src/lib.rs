//! Metrics: the families, a page of their values, and the formats that Prometheus reads.
//!
//! Owns the names. Code that counts adds its numbers to a [`Page`] under one of the [`families`], and the page is
//! written in the [`ExpositionFormat`] that the reader prefers. Also contains the cells that threads count in, and the [`Alert`]s
//! derived from the numbers of a running server. No I/O, and no clock.
//!
//! Must never: give a label a value sent by a client. The labels of a family are names from the configuration, or words
//! of a fixed list.

#![forbid(unsafe_code)]

mod alerts;
mod cells;
mod exposition_parser;
mod families;
mod format;
mod histogram;
mod openmetrics;
mod page;
mod protobuf;
pub mod status_value;
mod text;

pub use alerts::{Alert, EXPIRES_SOON, Observation, Severity, Subject, is_saturated, quoted};
pub use cells::{Classes, Counter, Durations, Measured, PerThread};
pub use exposition_parser::Readings;
pub use families::{ALL, Family, MetricKind, Unit, names, table};
pub use format::ExpositionFormat;
pub use histogram::{BUCKETS, Histogram, bucket_of, upper_bound};
pub use page::{MetricValue, Page, Series};
