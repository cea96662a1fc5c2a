//! Why a call did not succeed.

/// The code of gRPC for a call without rights (<https://grpc.io/docs/guides/status-codes/>).
const PERMISSION_DENIED: u32 = 7;
/// The same for one that does not say who calls.
const UNAUTHENTICATED: u32 = 16;
/// The same for one that is not valid.
const INVALID_ARGUMENT: u32 = 3;
/// The same for a range that is no more: revisions that were compacted.
const OUT_OF_RANGE: u32 = 11;

/// Why a call did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// There is no connection, or it has ended.
    #[error("{0}")]
    Connection(String),
    /// No answer has come in time.
    #[error("no answer within {0} seconds")]
    Silent(f64),
    /// etcd has refused it.
    #[error("etcd refuses it: {message}")]
    Refused {
        /// The code of gRPC.
        code: u32,
        /// etcd's words.
        message: String,
    },
    /// The watch has to begin anew: revisions that it needs are compacted, or the member has no leader.
    #[error("the watch has ended: {0}")]
    Ended(String),
    /// The answer is none of etcd's third API.
    #[error("this is no etcd: {0}")]
    Foreign(String),
    /// A certificate, a key or a name cannot be used.
    #[error("{0}")]
    Unusable(String),
}

impl EtcdError {
    /// True where another member would say the same.
    pub fn is_final(&self) -> bool {
        match self {
            EtcdError::Refused { code, .. } => matches!(
                *code,
                PERMISSION_DENIED | UNAUTHENTICATED | INVALID_ARGUMENT | OUT_OF_RANGE
            ),
            EtcdError::Unusable(_) => true,
            _ => false,
        }
    }
}
