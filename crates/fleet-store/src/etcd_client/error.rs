//! Why a call did not succeed.

/// gRPC's code for a call about something that does not exist (<https://grpc.io/docs/guides/status-codes/>).
const NOT_FOUND: u32 = 5;
/// gRPC's code for a call without permission.
const PERMISSION_DENIED: u32 = 7;
/// gRPC's code for a call without authentication.
const UNAUTHENTICATED: u32 = 16;
/// gRPC's code for an invalid call.
const INVALID_ARGUMENT: u32 = 3;
/// gRPC's code for a range that no longer exists: compacted revisions.
const OUT_OF_RANGE: u32 = 11;

/// Why a call did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// There is no connection, or it has ended.
    #[error("{0}")]
    Connection(String),
    /// No answer was received in time.
    #[error("no answer within {0} seconds")]
    Silent(f64),
    /// etcd has rejected it.
    #[error("etcd refuses it: {message}")]
    Refused {
        /// The code of gRPC.
        code: u32,
        /// etcd's message.
        message: String,
    },
    /// The watch must start over: its revisions are compacted, or the member has no leader.
    #[error("the watch has ended: {0}")]
    Ended(String),
    /// The answer does not conform to etcd's v3 API.
    #[error("this is not an etcd server: {0}")]
    Foreign(String),
    /// A certificate, a key or a name cannot be used.
    #[error("{0}")]
    Unusable(String),
}

impl EtcdError {
    /// True if another member would answer the same.
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

    /// True if etcd does not have what the call is about, such as a lease that has ended.
    pub fn is_not_found(&self) -> bool {
        matches!(self, EtcdError::Refused { code, .. } if *code == NOT_FOUND)
    }
}
