//! Collects a request's body before the request continues: in memory while it is small, in a spool beyond that.

use tutti_pool::Level;
use tutti_spool::{Region, Spool, SpoolError};

use crate::exchange::body::ClientBody;
use crate::exchange::client::ClientSide;
use crate::job_submission::Gathered;

/// A request's body.
#[derive(Default)]
pub(crate) enum Collected {
    #[default]
    None,
    Memory(Vec<u8>),
    Spool(Region),
    /// The body of a job.
    Job(Gathered),
}

/// A request's body for an action.
pub(crate) enum ActionBody<'r> {
    /// Complete.
    Collected(Collected),
    /// Streamed.
    Stream(Box<ClientBody<'r>>),
}

impl<'r> ActionBody<'r> {
    /// Splits it into the collected and the streamed body.
    pub(crate) fn parts(self) -> (Collected, Option<Box<ClientBody<'r>>>) {
        match self {
            Self::Collected(body) => (body, None),
            Self::Stream(body) => (Collected::None, Some(body)),
        }
    }

    /// The body of a job.
    pub(crate) fn gathered(self) -> Gathered {
        match self {
            Self::Collected(Collected::Job(gathered)) => gathered,
            _ => Gathered::default(),
        }
    }
}

/// Collects a body: in memory while it is small, in the application's spool beyond that.
pub(crate) struct Collector<'a> {
    /// The name of the recipient, for the log.
    name: &'a str,
    spool: &'a Spool,
    /// Larger bodies go to the spool.
    memory_limit: usize,
    body: Collected,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(name: &'a str, spool: &'a Spool, memory_limit: usize) -> Self {
        Self {
            name,
            spool,
            memory_limit,
            body: Collected::None,
        }
    }

    /// Adds bytes; the error is a status.
    pub(crate) fn add(&mut self, data: &[u8], client: &ClientSide) -> Result<(), u16> {
        let outcome = match &mut self.body {
            Collected::Spool(region) => region.append(data),
            Collected::None if data.len() <= self.memory_limit => {
                self.body = Collected::Memory(data.to_vec());
                Ok(())
            }
            Collected::Memory(bytes) if bytes.len() + data.len() <= self.memory_limit => {
                bytes.extend_from_slice(data);
                Ok(())
            }
            Collected::None | Collected::Job(_) => self.spool(&[], data),
            Collected::Memory(bytes) => {
                let bytes = std::mem::take(bytes);
                self.spool(&bytes, data)
            }
        };
        outcome.map_err(|error| {
            client
                .local
                .log_failure(Level::Error, &format!("\"{}\": {error}", self.name));
            error.status()
        })
    }

    fn spool(&mut self, first: &[u8], second: &[u8]) -> Result<(), SpoolError> {
        let mut region = self.spool.allocate()?;
        region.append(first)?;
        region.append(second)?;
        self.body = Collected::Spool(region);
        Ok(())
    }

    pub(crate) fn finish(self) -> Collected {
        self.body
    }
}
