//! The world of one instance of a module, and the answer that it is at.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use tokio::sync::{mpsc, oneshot};
use tutti_worker::Level;
use wasmtime::Memory;
use wasmtime_wasi::p1::WasiP1Ctx;

use super::shared::{Field, Outside, SIZE};
use crate::body::Body;
use crate::guest::GuestResponse;
use crate::limiter::Limiter;
use crate::log;
use crate::settings::Settings;
use crate::wasi;

/// The world of one instance.
pub(crate) struct State {
    pub(super) wasi: WasiP1Ctx,
    /// Its memory's bound.
    pub(super) limiter: Limiter,
    /// The memory, once it is there.
    pub(super) memory: Option<Memory>,
    /// The place of what it shares.
    pub(super) shared: u32,
    /// The answer to the request that it has.
    pub(super) turn: Option<Turn>,
}

impl State {
    /// The world of an instance that begins with the request of this title.
    pub(super) fn new(settings: &Settings, title: Arc<str>) -> io::Result<Self> {
        Ok(Self {
            wasi: wasi::world(settings)?.build_p1(),
            limiter: Limiter::new("module", settings.memory, title),
            memory: None,
            shared: 0,
            turn: None,
        })
    }

    /// The answer that a function is called for.
    pub(super) fn turn(&mut self) -> Result<&mut Turn, Misuse> {
        self.turn.as_mut().ok_or(Misuse::NoRequest)
    }
}

/// A fault of a module: it ends the instance.
#[derive(Debug, thiserror::Error)]
pub(super) enum Misuse {
    #[error(transparent)]
    Outside(#[from] Outside),
    #[error("it called this function without a request")]
    NoRequest,
    #[error("it sent a header twice")]
    SecondHeader,
    #[error("it sent something after it had ended its answer")]
    AfterTheEnd,
    #[error("it set the status {0}, which is none")]
    Status(u32),
    #[error("it sent a field that is none: {0}")]
    Field(String),
    #[error("it sent more fields than fit")]
    ManyFields,
    #[error(
        "it came back without having ended its answer: `luw_http_response_end` does, which calls `nxt_wasm_response_end`"
    )]
    NotEnded,
    #[error(
        "`{option}`, the function `{name}`, gave {address} as the address of {SIZE} bytes, and its memory has {memory}"
    )]
    NoRoom {
        option: &'static str,
        name: String,
        address: u32,
        memory: usize,
    },
}

/// An answer.
pub(crate) struct Turn {
    /// The request, as the log names it.
    title: Arc<str>,
    status: StatusCode,
    /// `None`: the header has been sent.
    answer: Option<oneshot::Sender<GuestResponse>>,
    /// Where the parts of the body go.
    pieces: Option<mpsc::Sender<io::Result<Bytes>>>,
    pub(super) has_ended: bool,
    /// The module's function for the end has been called.
    is_told: bool,
}

impl Turn {
    pub(super) fn new(title: Arc<str>, answer: oneshot::Sender<GuestResponse>) -> Self {
        Self {
            title,
            status: StatusCode::OK,
            answer: Some(answer),
            pieces: None,
            has_ended: false,
            is_told: false,
        }
    }

    /// True once, after the end.
    pub(super) fn needs_notice(&mut self) -> bool {
        self.has_ended && !std::mem::replace(&mut self.is_told, self.has_ended)
    }

    /// Sets the status of the header that is to come.
    pub(super) fn set_status(&mut self, status: u32) -> Result<(), Misuse> {
        let number = u16::try_from(status).ok();
        let code = number.and_then(|number| StatusCode::from_u16(number).ok());
        self.status = code.ok_or(Misuse::Status(status))?;
        if self.answer.is_none() {
            let message = format!(
                "{}: the module set the status {status} when its header had been sent; the client has got another",
                self.title
            );
            log::write(Level::Warn, &message);
        }
        Ok(())
    }

    /// Sends the header.
    pub(super) fn begin(&mut self, fields: &[Field<'_>]) -> Result<(), Misuse> {
        self.check_open()?;
        let answer = self.answer.take().ok_or(Misuse::SecondHeader)?;
        let (give, pieces) = mpsc::channel(1);
        let mut response = Response::new(Body::Pieces(pieces, None).boxed_unsync());
        *response.status_mut() = self.status;
        *response.headers_mut() = header(fields)?;
        self.pieces = Some(give);
        // The client has gone.
        let _ = answer.send(Ok(response));
        Ok(())
    }

    /// Where the next part of the body goes. Sends the header if that has not been.
    pub(super) fn pieces(&mut self) -> Result<mpsc::Sender<io::Result<Bytes>>, Misuse> {
        self.check_open()?;
        if self.answer.is_some() {
            self.begin(&[])?;
        }
        self.pieces.clone().ok_or(Misuse::AfterTheEnd)
    }

    /// The answer is whole. What is left of the request is still to come, so the client gets it later.
    pub(super) fn end(&mut self) -> Result<(), Misuse> {
        if self.answer.is_some() {
            self.begin(&[])?;
        }
        self.has_ended = true;
        Ok(())
    }

    fn check_open(&self) -> Result<(), Misuse> {
        match self.has_ended {
            true => Err(Misuse::AfterTheEnd),
            false => Ok(()),
        }
    }
}

fn header(fields: &[Field<'_>]) -> Result<HeaderMap, Misuse> {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let bad = || Misuse::Field(String::from_utf8_lossy(name).escape_debug().to_string());
        let name = HeaderName::from_bytes(name).map_err(|_| bad())?;
        let value = HeaderValue::from_bytes(value).map_err(|_| bad())?;
        map.try_append(name, value)
            .map_err(|_| Misuse::ManyFields)?;
    }
    Ok(map)
}
