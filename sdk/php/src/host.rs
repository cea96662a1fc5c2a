//! PHP on the worker base: the prototype starts PHP, its forks serve.
//!
//! What must never happen: a response whose head the router refuses. Fields that cannot be sent make it a 500, with the reason in the log.

use std::io;

use tutti_worker::{BodyView, Describe, HeadError, Host, Served, Start, StartError};

use crate::{
    exchange::{ClientGone, Exchange, Field, Protocol},
    log,
    options::LoadError,
    serve::{After, Php, VERSION},
};

/// The language.
#[derive(Debug)]
pub enum PhpHost {}

impl Host for PhpHost {
    type App = Php;

    fn describe() -> Describe {
        Describe {
            kind: "php".to_owned(),
            version: VERSION.to_owned(),
        }
    }

    fn dependencies() -> Vec<std::path::PathBuf> {
        env!("TUTTI_PHP_DEPENDENCIES")
            .split(':')
            .filter(|path| !path.is_empty())
            .map(Into::into)
            .collect()
    }

    fn load(start: &Start) -> Result<Php, StartError> {
        Php::start(&start.config).map_err(StartError::from)
    }

    fn worker_started(php: &mut Php, worker: u32) -> Result<(), StartError> {
        php.worker_started(worker);
        Ok(())
    }

    fn serve(php: &mut Php, exchange: &mut tutti_worker::Exchange) -> Served {
        match php.serve(&mut Wire(exchange)) {
            After::Again => Served::Again,
            After::Recycle => Served::Recycle,
        }
    }
}

impl From<LoadError> for StartError {
    fn from(error: LoadError) -> Self {
        let mut converted = Self::new(error.step, error.message);
        if !error.member.is_empty() {
            converted = converted.member(error.member);
        }
        if error.hint.is_empty() {
            converted
        } else {
            converted.hint(error.hint)
        }
    }
}

/// An exchange over shared memory.
struct Wire<'a>(&'a mut tutti_worker::Exchange);

impl Exchange for Wire<'_> {
    fn method(&self) -> &[u8] {
        self.0.request().method()
    }
    fn target(&self) -> &[u8] {
        self.0.request().target()
    }
    fn path(&self) -> &[u8] {
        self.0.request().path()
    }
    fn query(&self) -> &[u8] {
        self.0.request().query()
    }
    fn protocol(&self) -> Protocol {
        match self.0.request().version_minor() {
            0 => Protocol::Http10,
            1 => Protocol::Http11,
            2 => Protocol::Http2,
            _ => Protocol::Http3,
        }
    }
    fn is_tls(&self) -> bool {
        self.0.request().tls()
    }
    fn remote_address(&self) -> &[u8] {
        self.0.request().remote_address()
    }
    fn remote_port(&self) -> u16 {
        self.0.request().remote_port()
    }
    fn local_address(&self) -> &[u8] {
        self.0.request().local_address()
    }
    fn local_port(&self) -> u16 {
        self.0.request().local_port()
    }
    fn server_name(&self) -> &[u8] {
        self.0.request().server_name()
    }
    fn target_name(&self) -> &[u8] {
        self.0.request().target_name()
    }
    fn content_length(&self) -> Option<u64> {
        self.0.request().content_length()
    }
    fn has_body(&self) -> bool {
        !matches!(self.0.request().body(), BodyView::None)
    }
    fn visit_fields(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        for (name, value) in self.0.request().fields() {
            visit(name, value);
        }
    }

    fn body_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.body_read(buffer)
    }

    fn start(&mut self, status: u16, fields: &[Field]) {
        let pairs = fields.iter().map(|field| (field.name(), field.value()));
        let Err(error) = self.0.start(status, pairs) else {
            return;
        };
        log::error(&format!("response head cannot be sent as it is: {error}"));
        if let HeadError::Field(_) = error {
            // As web servers do, a field that is none is left out: the page itself may be good.
            let sound = fields.iter().filter(|field| is_sound(field));
            let pairs = sound.map(|field| (field.name(), field.value()));
            if self.0.start(status, pairs).is_ok() {
                return;
            }
        }
        // A bare status can always be sent; if not, the exchange has ended and the router has answered.
        let _ = self.0.start(500, std::iter::empty());
    }

    fn write(&mut self, data: &[u8]) -> Result<(), ClientGone> {
        self.0.write(data).map_err(|_| ClientGone)
    }

    fn flush(&mut self) -> Result<(), ClientGone> {
        self.0.flush();
        if self.0.is_client_gone() {
            Err(ClientGone)
        } else {
            Ok(())
        }
    }

    fn finish(&mut self) {
        self.0.finish();
    }

    fn is_client_gone(&self) -> bool {
        self.0.is_client_gone()
    }
}

/// The name is a token (RFC 9110 section 5.6.2), the value has no line break.
fn is_sound(field: &Field) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !field.name().is_empty()
        && field.name().iter().all(is_token)
        && !field
            .value()
            .iter()
            .any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}
