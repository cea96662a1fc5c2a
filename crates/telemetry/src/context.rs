//! The trace context of a request: W3C Trace Context, level 1 (<https://www.w3.org/TR/trace-context/>), and sampling.

/// Flag of a trace that is recorded (§3.2.2.5.1).
const SAMPLED: u8 = 1;

/// Flag of a trace whose id is random (level 2, §3.2.2.5.2); passed on unchanged.
const RANDOM: u8 = 2;

/// Bytes of a `traceparent` of version 00 (§3.2.2).
const LENGTH: usize = 55;

/// The parent span that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

impl Parent {
    /// Parses the value of `traceparent`; `None` if it is not valid, and then `tracestate` is ignored too (§3.2.2.3,
    /// §4.3).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (known, rest) = value.split_at_checked(LENGTH)?;
        let mut parts = known.split(|byte| *byte == b'-');
        let version = hexadecimal(parts.next()?, 2)?;
        let trace_id = hexadecimal(parts.next()?, 32)?;
        let span_id = hexadecimal(parts.next()?, 16)?;
        let flags = hexadecimal(parts.next()?, 2)?;
        let is_rest_valid = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        if !is_rest_valid || parts.next().is_some() || trace_id == 0 || span_id == 0 {
            return None;
        }
        Some(Self {
            trace_id,
            span_id: u64::try_from(span_id).ok()?,
            flags: u8::try_from(flags).ok()?,
        })
    }
}

/// Parses a number of exactly this many lowercase digits.
fn hexadecimal(text: &[u8], digits: usize) -> Option<u128> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != digits || !text.iter().all(is_digit) {
        return None;
    }
    u128::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// The trace context of a request: its span, and the trace of that span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub(crate) trace_id: u128,
    pub(crate) span_id: u64,
    /// The parent span; `None`: the request begins the trace.
    pub(crate) parent: Option<u64>,
    pub(crate) flags: u8,
}

impl TraceContext {
    /// Creates the context of a request with this parent, or without one. `trace_id` and `span_id` are new and random.
    /// A request that begins a trace is sampled if its id is among the `ratio` of all ids, as defined for
    /// `TraceIdRatioBased` of the OpenTelemetry specification; any other if its parent is.
    pub(crate) fn new(parent: Option<Parent>, trace_id: u128, span_id: u64, ratio: f64) -> Self {
        // Zero is not a valid id (§3.2.2.3).
        let span_id = span_id.max(1);
        match parent {
            Some(parent) => Self {
                trace_id: parent.trace_id,
                span_id,
                parent: Some(parent.span_id),
                flags: parent.flags & (SAMPLED | RANDOM),
            },
            None => {
                let trace_id = trace_id.max(1);
                Self {
                    trace_id,
                    span_id,
                    parent: None,
                    flags: u8::from(is_among(trace_id, ratio)) * SAMPLED,
                }
            }
        }
    }

    /// True if the request is sampled.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the value of `traceparent` for the next receiver of the request.
    pub fn traceparent(&self) -> String {
        format!(
            "00-{:032x}-{:016x}-{:02x}",
            self.trace_id, self.span_id, self.flags
        )
    }
}

/// True if an id is in the lowest `ratio` of all; 0: none is, 1: each is.
fn is_among(trace_id: u128, ratio: f64) -> bool {
    /// Only 63 bits of the ids are compared, as in other implementations.
    const ALL: f64 = (1u64 << 63) as f64;
    if ratio >= 1.0 {
        return true;
    }
    // Converting a float to an integer saturates.
    let bound = (ratio * ALL) as u64;
    (trace_id as u64) >> 1 < bound
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn parse(text: &str) -> Option<Parent> {
        Parent::parse(text.as_bytes())
    }

    #[test]
    fn a_valid_parent_is_understood() {
        let whole = format!("00-{TRACE}-b7ad6b7169203331-01");
        let parent = parse(&whole).unwrap();
        assert_eq!(parent.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(parent.span_id, 0xb7ad_6b71_6920_3331);
        assert_eq!(parent.flags, 1);
        // A later version may have more fields.
        for later in ["cc", "01", "fe"] {
            assert_eq!(
                parse(&format!("{later}-{TRACE}-b7ad6b7169203331-01")),
                Some(parent)
            );
            assert_eq!(
                parse(&format!("{later}-{TRACE}-b7ad6b7169203331-01-what")),
                Some(parent)
            );
        }
    }

    #[test]
    fn what_is_not_valid_is_no_parent() {
        let zeros = "0".repeat(32);
        let upper = TRACE.to_uppercase();
        for text in [
            String::new(),
            "00".to_owned(),
            TRACE.to_owned(),
            format!("00-{TRACE}-b7ad6b7169203331"),
            format!("00-{TRACE}-b7ad6b7169203331-"),
            format!("00-{TRACE}-b7ad6b7169203331-1"),
            format!("00-{TRACE}-b7ad6b7169203331-011"),
            format!("00-{TRACE}-b7ad6b7169203331-01-"),
            format!("00-{TRACE}-b7ad6b7169203331-01-what"),
            format!("00-{TRACE}-b7ad6b7169203331-0x"),
            format!("00-{TRACE}-b7ad6b7169203331-+1"),
            format!("00-{TRACE}-b7ad6b7169203331 01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{zeros}-b7ad6b7169203331-01"),
            format!("00-{upper}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-B7AD6B7169203331-01"),
            format!("00_{TRACE}_b7ad6b7169203331_01"),
            format!("0-0{TRACE}-b7ad6b7169203331-01"),
            format!("00-{TRACE}0-b7ad6b716920333-01"),
            format!("00-{TRACE}-b7ad6b716920333-001"),
            format!("0g-{TRACE}-b7ad6b7169203331-01"),
            format!("FF-{TRACE}-b7ad6b7169203331-01"),
            format!("ff-{TRACE}-b7ad6b7169203331-01"),
            format!("cc-{TRACE}-b7ad6b7169203331-01.what"),
            format!(" 00-{TRACE}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-b7ad6b7169203331-01, 00-{TRACE}-b7ad6b7169203331-01"),
        ] {
            assert_eq!(parse(&text), None, "{text}");
        }
        // Any change of a valid one is rejected or yields other values, and nothing panics.
        let whole = format!("00-{TRACE}-b7ad6b7169203331-01").into_bytes();
        let valid = Parent::parse(&whole);
        for place in 0..whole.len() {
            for byte in 0..=255 {
                let mut changed = whole.clone();
                changed[place] = byte;
                let parsed = Parent::parse(&changed);
                let is_version = place < 2;
                assert!(
                    changed == whole || is_version || parsed != valid,
                    "{changed:?}"
                );
            }
            assert_eq!(Parent::parse(&whole[..place]), None);
        }
    }

    #[test]
    fn a_request_with_a_parent_belongs_to_its_trace() {
        for (flags, ratio) in [(0, 1.0), (1, 0.0), (2, 1.0), (3, 0.0), (0xfc, 1.0)] {
            let parent = parse(&format!("00-{TRACE}-b7ad6b7169203331-{flags:02x}"));
            let context = TraceContext::new(parent, 7, 8, ratio);
            assert_eq!(context.parent, Some(0xb7ad_6b71_6920_3331));
            assert_eq!(context.is_sampled(), flags & 1 == 1);
            let expected = format!("00-{TRACE}-0000000000000008-{:02x}", flags & 3);
            assert_eq!(context.traceparent(), expected);
        }
    }

    #[test]
    fn the_ratio_of_traces_is_recorded() {
        let count = |ratio| {
            // Spread over all ids.
            let ids = (0..1000u128).map(|number| number << 54 | number << 100);
            ids.filter(|id| TraceContext::new(None, *id, 1, ratio).is_sampled())
                .count()
        };
        assert_eq!(count(0.0), 0);
        assert_eq!(count(1.0), 1000);
        let quarter = count(0.25);
        assert!((250..=260).contains(&quarter), "{quarter}");
        // An id is never zero.
        let context = TraceContext::new(None, 0, 0, 1.0);
        assert!(parse(&context.traceparent()).is_some());
    }
}
