//! The time in which a certificate is valid, and the decision to replace one by another without a person.

/// The time in which a certificate is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub since: i64,
    /// The last second.
    pub until: i64,
}

/// Why a certificate must not replace another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplacementError {
    /// It has expired, and the other has not.
    #[error(
        "it has expired, and the one in use has not; hint: check the clock of this machine and the origin of the certificate"
    )]
    Expired,
    /// It is not valid yet, and the other is.
    #[error("it is not valid yet, and the one in use is; hint: check the clock of this machine")]
    Early,
}

impl Validity {
    /// True if a certificate is valid at this time.
    pub fn contains(self, now: i64) -> bool {
        (self.since..=self.until).contains(&now)
    }

    /// Checks that a certificate with this validity may replace one with another.
    ///
    /// # Errors
    /// The other is valid now, and this one is not.
    pub fn replace(self, other: Validity, now: i64) -> Result<(), ReplacementError> {
        match self.contains(now) || !other.contains(now) {
            true => Ok(()),
            false if now > self.until => Err(ReplacementError::Expired),
            false => Err(ReplacementError::Early),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_certificate_replaces_a_valid_one() {
        let of = |since, until| Validity { since, until };
        let now = 100;
        let (valid, expired, early) = (of(50, 150), of(10, 99), of(101, 300));
        assert_eq!(of(60, 100).replace(valid, now), Ok(()));
        assert_eq!(expired.replace(valid, now), Err(ReplacementError::Expired));
        assert_eq!(early.replace(valid, now), Err(ReplacementError::Early));
        for other in [expired, early] {
            for new in [valid, expired, early] {
                assert_eq!(new.replace(other, now), Ok(()));
            }
        }
    }
}
