//! The generic cell rate algorithm as a Valkey script, which is one atomic operation there.
//!
//! A key has the time at which its requests so far are paid off, in microseconds since 1970 by the store's clock: the clocks of servers do
//! not matter. It expires at that time.

use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;

/// More than rounding can lose.
const ROUNDING: Duration = Duration::from_micros(2);

/// Bytes of a digest in a key: a collision cannot be found.
const DIGEST_BYTES: usize = 16;

/// `ARGV[1]`: the time per request in microseconds. `ARGV[2]`: the burst. Returns whether the request is admitted; how many microseconds
/// the key was ahead of the rate before it, or until one is admitted; and how many with it.
///
/// The time is written with all its digits: Lua's default has fourteen. The effect of a clock that was set back is limited to the bound.
/// Half a microsecond is added for rounding.
pub(crate) const SCRIPT: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval = tonumber(ARGV[1])
local most = interval * tonumber(ARGV[2])
local kept = tonumber(redis.call('GET', KEYS[1]) or now) or now
local debt = math.min(math.max(kept - now, 0), most)
local owed = debt + interval
if owed > most + 0.5 then
    return {0, math.ceil(owed - most), 0}
end
redis.call('SET', KEYS[1], string.format('%.3f', now + owed), 'PX', math.ceil(owed / 1000))
return {1, math.floor(debt), math.ceil(owed)}
";

/// The limit that a request is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedBound {
    /// The time per request.
    pub interval: Duration,
    /// The burst; at least one.
    pub requests: u64,
}

/// The result of counting a request, here or in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is within the rate and its burst.
    Admitted {
        /// Time until it would be within the rate alone.
        early: Duration,
        /// Requests that may follow at once.
        remaining: u64,
        /// Time until the requests of the key are paid off.
        reset: Duration,
    },
    /// It is not.
    Refused {
        /// Time until one is admitted again.
        retry: Duration,
    },
}

impl CountedBound {
    /// The interval as the script takes it.
    pub(crate) fn microseconds(&self) -> String {
        format!("{:.3}", self.interval.as_secs_f64() * 1e6)
    }

    /// Converts the script's result.
    pub(crate) fn answer(&self, (is_admitted, first, owed): (i64, i64, i64)) -> Taken {
        let time = |microseconds: i64| {
            Duration::from_micros(u64::try_from(microseconds).unwrap_or_default())
        };
        if is_admitted == 0 {
            return Taken::Refused { retry: time(first) };
        }
        let requests = u32::try_from(self.requests).unwrap_or(u32::MAX);
        let whole = self.interval.saturating_mul(requests);
        let left = whole.saturating_sub(time(owed)) + ROUNDING;
        let remaining = left.as_nanos() / self.interval.as_nanos().max(1);
        let remaining = u64::try_from(remaining).unwrap_or(u64::MAX);
        Taken::Admitted {
            early: time(first),
            remaining: remaining.min(self.requests.saturating_sub(1)),
            reset: time(owed),
        }
    }
}

/// The name of a key: short, and with fixed characters, whatever clients send.
pub(crate) fn key(prefix: &str, limit: &str, key: &[u8]) -> String {
    let mut digest = Context::new(&SHA256);
    // Different limits and keys never give the same bytes.
    digest.update(&(limit.len() as u64).to_be_bytes());
    digest.update(limit.as_bytes());
    digest.update(key);
    let digest = digest.finish();
    let bytes = digest.as_ref().get(..DIGEST_BYTES).unwrap_or_default();
    format!("{prefix}{}", HEXLOWER.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_short_and_differ_between_limits() {
        let long = vec![0; 100_000];
        for hostile in [&b"a\r\nDEL x"[..], b"", b"{a}", b"\0\xff", &long] {
            let name = key("tutti:", "api", hostile);
            assert_eq!(name.len(), "tutti:".len() + 2 * DIGEST_BYTES);
            assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b':'));
        }
        assert_ne!(key("p", "ab", b"c"), key("p", "a", b"bc"));
        assert_ne!(key("p", "a", b"x"), key("p", "b", b"x"));
        assert_eq!(key("p", "a", b"x"), key("p", "a", b"x"));
    }

    #[test]
    fn answers_are_read_in_time() {
        let bound = CountedBound {
            interval: Duration::from_millis(100),
            requests: 5,
        };
        assert_eq!(bound.microseconds(), "100000.000");
        // The first of five.
        let expected = Taken::Admitted {
            early: Duration::ZERO,
            remaining: 4,
            reset: Duration::from_millis(100),
        };
        assert_eq!(bound.answer((1, 0, 100_000)), expected);
        // The last of five.
        let expected = Taken::Admitted {
            early: Duration::from_millis(400),
            remaining: 0,
            reset: Duration::from_millis(500),
        };
        assert_eq!(bound.answer((1, 400_000, 500_000)), expected);
        let retry = Duration::from_micros(99_500);
        assert_eq!(bound.answer((0, 99_500, 0)), Taken::Refused { retry });
        // The answer may be arbitrary.
        let nonsense = bound.answer((1, -5, i64::MAX));
        assert!(matches!(nonsense, Taken::Admitted { remaining: 0, .. }));
        let odd = CountedBound {
            interval: Duration::from_secs(1) / 7,
            requests: 1,
        };
        assert_eq!(odd.microseconds(), "142857.142");
    }
}
