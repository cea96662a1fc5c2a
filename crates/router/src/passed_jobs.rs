//! Jobs that clients submit to a router that retires, on connections that they have kept: it has released the store of
//! jobs, so the router in force stores them.
//!
//! Each job has a stream of its own between both routers, which main passes on. Must never happen: that a client receives
//! the number of a job that is not on disk; a job is stored with a part of its body.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tutti_jobs::{JobRejection, JobRequest, JobStoreError, Jobs};
use tutti_protocol::{FromRouter, PassedJob, PassedJobAnswer};
use tutti_server::JobNotStored;

use super::job_refusals::not_stored;
use super::line::Link;

/// Maximum bytes of a job: all bodies that a router has not stored yet take 128 MiB, and the head of a request is less than the rest.
const LONGEST_JOB: u64 = 136 << 20;

/// Maximum bytes of an answer.
const LONGEST_ANSWER: u64 = 64 << 10;

/// Makes the router in force store a job.
pub(super) async fn pass_on(
    link: &Link,
    spooler: String,
    request: JobRequest,
    delay: Duration,
) -> Result<String, JobNotStored> {
    match exchange(link, spooler, request, delay).await {
        Ok(PassedJobAnswer::Stored { id }) => Ok(id),
        Ok(PassedJobAnswer::NotStored {
            status,
            retry_after,
            reason,
        }) => Err(JobNotStored {
            status,
            retry_after,
            reason,
        }),
        // There is no router in force, or it has ended.
        Err(_) => Err(not_stored(&JobRejection::Store(JobStoreError::Closed))),
    }
}

async fn exchange(
    link: &Link,
    spooler: String,
    request: JobRequest,
    delay: Duration,
) -> io::Result<PassedJobAnswer> {
    let (mut stream, theirs) = UnixStream::pair()?;
    link.give(
        &FromRouter::PassJob,
        vec![OwnedFd::from(theirs.into_std()?)],
    );
    let JobRequest {
        method,
        target,
        fields,
        body,
    } = request;
    let head = PassedJob {
        spooler,
        method,
        target,
        fields,
        delay: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
        length: body.len(),
    };
    let mut line = serde_json::to_vec(&head)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
    Ok(serde_json::from_slice(&answer)?)
}

/// Stores a job of a former router. Without an answer, its client is answered 503.
pub(super) async fn take(jobs: Jobs, stream: OwnedFd) {
    let stream = StdStream::from(stream);
    let stream = stream.set_nonblocking(true).map(|()| stream);
    let Ok(mut stream) = stream.and_then(UnixStream::from_std) else {
        return;
    };
    let Ok((spooler, request, delay)) = read(&mut stream).await else {
        return;
    };
    // The former router counts the body until it has the answer.
    let answer = match jobs.post(&spooler, request, delay, Box::new(())).await {
        Ok(id) => PassedJobAnswer::Stored { id },
        Err(refusal) => {
            let JobNotStored {
                status,
                retry_after,
                reason,
            } = not_stored(&refusal);
            PassedJobAnswer::NotStored {
                status,
                retry_after,
                reason,
            }
        }
    };
    // Strings and numbers: this cannot fail.
    let answer = serde_json::to_vec(&answer).unwrap_or_default();
    // The former router may have ended.
    let _ = stream.write_all(&answer).await;
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(String, JobRequest, Duration)> {
    let mut bytes = Vec::new();
    stream.take(LONGEST_JOB).read_to_end(&mut bytes).await?;
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or(io::ErrorKind::InvalidData)?;
    let body = bytes.split_off(end + 1);
    let PassedJob {
        spooler,
        method,
        target,
        fields,
        delay,
        length,
    } = serde_json::from_slice(&bytes)?;
    if body.len() != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let request = JobRequest {
        method,
        target,
        fields,
        body,
    };
    Ok((spooler, request, Duration::from_millis(delay)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// The application got a part of a body for the whole, if the client or the former router had gone meanwhile.
    #[tokio::test]
    async fn a_job_that_is_broken_off_is_not_stored() {
        let head = PassedJob {
            spooler: "mail".to_owned(),
            method: "POST".to_owned(),
            target: b"/send".to_vec(),
            fields: Vec::new(),
            delay: 0,
            length: 5,
        };
        let mut line = serde_json::to_vec(&head).unwrap();
        line.push(b'\n');
        let with = |body: &[u8]| [&line, body].concat();
        let outcome = read(&mut &*with(b"who")).await;
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let (spooler, request, _) = read(&mut &*with(b"whole")).await.unwrap();
        assert_eq!((spooler.as_str(), &*request.body), ("mail", &b"whole"[..]));
    }
}
