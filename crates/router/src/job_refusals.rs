//! The answers to clients whose jobs are not stored.

use tutti_jobs::{JobRejection, JobStoreError};
use tutti_server::JobNotStored;

/// `Retry-After` of a spooler that is full: delivered jobs make room.
const COME_AGAIN: u32 = 5;

/// Returns the answer to the client of a job that was not stored.
pub(super) fn not_stored(refusal: &JobRejection) -> JobNotStored {
    let status = match refusal {
        JobRejection::Malformed => 400,
        JobRejection::Store(JobStoreError::Full(_)) => 507,
        JobRejection::Store(JobStoreError::Failed(_)) => 500,
        // The spooler existed when the request came.
        _ => 503,
    };
    JobNotStored {
        status,
        retry_after: match status {
            503 | 507 => COME_AGAIN,
            _ => 0,
        },
        reason: Some(refusal.to_string()),
    }
}
