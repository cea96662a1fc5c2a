//! Converts the answer of a server that does not speak HTTP for [`http1`](crate::http1).

use tutti_gateway::fastcgi::ProtocolStatus;
use tutti_http::{CGI_STATUS_LINE, HeadError};
use tutti_log::Level;
use tutti_upstream::UpstreamError;

use super::Records;
use super::frame::HTTP;
use crate::attempt::StepError;
use crate::client::Client;
use crate::http1::Exchange;

/// Error output of an application is logged after this many bytes, or at the end of the request.
const ERRORS_BYTES: usize = 16 * 1024;

impl<C: Client> Exchange<'_, C> {
    /// Reads records until there is more of the answer; `None` at its end.
    pub(crate) async fn receive_records(&mut self) -> Result<Option<usize>, StepError> {
        let before = self.received.len();
        loop {
            let Some(records) = self.records() else {
                return Ok(None);
            };
            if records.end.is_some() {
                return Ok(None);
            }
            let mut raw = std::mem::take(&mut records.raw);
            let outcome = self.receive_into(&mut raw).await;
            let mut received = std::mem::take(&mut self.received);
            let Some(records) = self.records() else {
                return Ok(None);
            };
            records.raw = raw;
            let read = records.read(&mut received);
            let is_over = records.end.is_some();
            let must_log = is_over || records.errors.len() > ERRORS_BYTES;
            self.received = received;
            if must_log || read.is_err() || outcome.is_err() {
                self.log_errors();
            }
            let more = outcome?;
            read?;
            if more.is_none() && !is_over {
                self.log_errors();
                let received = self.count();
                return Err(StepError::Server(match received {
                    0 => self.closed(),
                    received => UpstreamError::CutShort { received },
                }));
            }
            let more = self.received.len() - before;
            if more > 0 {
                return Ok(Some(more));
            }
            if is_over {
                return Ok(None);
            }
        }
    }

    fn records(&mut self) -> Option<&mut Records> {
        self.incoming.as_mut()?.records.as_mut()
    }

    /// Reads until the head has been received; returns its length.
    pub(crate) async fn receive_cgi_head(&mut self) -> Result<usize, StepError> {
        loop {
            if self.ensure_status_line() {
                match self.parse_head() {
                    Ok(Some(length)) => {
                        let is_cgi = self.incoming.as_ref().is_some_and(|one| one.is_cgi);
                        let checked = if is_cgi {
                            self.head.read_as_cgi(&self.received)
                        } else {
                            Ok(())
                        };
                        let status = self.head.view(&self.received).status();
                        return match checked {
                            Ok(()) if status >= 200 => Ok(length),
                            Ok(()) => Err(no_head(HeadError::StartLine).into()),
                            Err(error) => Err(no_head(error).into()),
                        };
                    }
                    Ok(None) => {}
                    Err(UpstreamError::Malformed(reason)) => {
                        return Err(
                            UpstreamError::Malformed(format!("no CGI head: {reason}")).into()
                        );
                    }
                    Err(failure) => return Err(failure.into()),
                }
            }
            if self.receive().await?.is_none() {
                return Err(self.without_head().into());
            }
        }
    }

    /// Puts a status line before a CGI head; false if too few bytes have arrived to know whether it is one.
    fn ensure_status_line(&mut self) -> bool {
        let Some(incoming) = &mut self.incoming else {
            return true;
        };
        if !incoming.has_line {
            let known = self.received.iter().zip(HTTP);
            let may_be_http = known.clone().all(|(byte, http)| byte == http);
            if may_be_http && self.received.len() < HTTP.len() && !incoming.has_ended() {
                return false;
            }
            incoming.has_line = true;
            if !may_be_http || self.received.len() < HTTP.len() {
                incoming.is_cgi = true;
                self.received.splice(..0, CGI_STATUS_LINE.iter().copied());
            }
        }
        true
    }

    /// The failure for an answer that ended without a head.
    fn without_head(&mut self) -> UpstreamError {
        let line = match &self.incoming {
            Some(incoming) if incoming.is_cgi => CGI_STATUS_LINE.len(),
            _ => 0,
        };
        let received = self.received.len() - line;
        let end = self.records().and_then(|records| records.end);
        match end {
            // It rejects a new request (FastCGI 1.0 §5.5).
            Some((
                _,
                status @ (ProtocolStatus::CannotMultiplex
                | ProtocolStatus::Overloaded
                | ProtocolStatus::UnknownRole),
            )) if received == 0 => UpstreamError::Refused(status.to_string()),
            Some((_, status)) if status != ProtocolStatus::Complete => {
                UpstreamError::Malformed(status.to_string())
            }
            Some((status, _)) if received == 0 => UpstreamError::Malformed(format!(
                "it is empty: not even a head (exit status {status})"
            )),
            None if received == 0 => self.closed(),
            _ => UpstreamError::Malformed("no CGI head: it ends before its empty line".to_owned()),
        }
    }

    /// Waits for the end of the request after the answer. Returns true if the connection can be reused.
    pub(crate) async fn finish_request(&mut self) -> Result<bool, StepError> {
        if self.records().is_none() {
            return Ok(false);
        }
        loop {
            self.received.clear();
            if self.receive().await?.is_none() {
                break;
            }
        }
        let is_clean = self.records().is_some_and(|records| !records.has_more);
        Ok(is_clean && self.link.outgoing.is_done())
    }

    /// Logs the application's error output.
    pub(crate) fn log_errors(&mut self) {
        let Some(records) = self.records() else {
            return;
        };
        let errors = std::mem::take(&mut records.errors);
        let name = self.request.upstream().name();
        for line in errors.split(|byte| matches!(byte, b'\n' | b'\r')) {
            let line = String::from_utf8_lossy(line);
            let line = line.trim();
            if !line.is_empty() {
                let text = format!(
                    "upstream \"{name}\" wrote to stderr: {}",
                    line.replace(char::is_control, " ")
                );
                self.client.log(Level::Error, &text);
            }
        }
    }
}

fn no_head(error: HeadError) -> UpstreamError {
    UpstreamError::Malformed(format!("no CGI head: {error}"))
}
