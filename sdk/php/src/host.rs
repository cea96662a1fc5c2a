//! PHP on the worker base: the prototype starts PHP, its forks serve.
//!
//! Must never happen: a response whose head the router refuses. Fields that cannot be sent make it a 500, with the reason in the log.

use std::{borrow::BorrowMut, io};

use tutti_worker::{
    BodyRef, Common, Describe, Host, Requests, ResponseHeadError, Served, Start, StartError,
    is_valid_field,
};

use crate::{
    exchange::{HttpProtocol, PhpField, PhpRequest, RequestAborted},
    log,
    options::LoadError,
    resident::RequestSource,
    serve::{After, PhpInstance, VERSION},
};

/// The language.
#[derive(Debug)]
pub enum PhpHost {}

impl Host for PhpHost {
    type App = PhpInstance;

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
            .chain(crate::adapters::find())
            .collect()
    }

    fn load(start: &Start, common: &Common) -> Result<PhpInstance, StartError> {
        let php = PhpInstance::start(&start.config)?;
        if common.preload {
            php.preload()?;
        }
        Ok(php)
    }

    fn worker_started(php: &mut PhpInstance, worker: u32) -> Result<(), StartError> {
        php.worker_started(worker);
        Ok(())
    }

    fn serve(php: &mut PhpInstance, exchange: &mut tutti_worker::Exchange) -> Served {
        match php.serve(&mut Wire(exchange)) {
            After::Again => Served::Again,
            After::Recycle => Served::Recycle,
        }
    }

    fn run(php: &mut PhpInstance, requests: &mut Requests<'_>) -> Result<(), StartError> {
        if php.is_resident() {
            let mut asked = WorkerRequests {
                requests,
                current: None,
            };
            return php.reside(&mut asked).map_err(StartError::from);
        }
        requests.ready();
        while let Some(mut exchange) = requests.next_request() {
            let then = Self::serve(php, &mut exchange);
            requests.done(exchange, then);
        }
        Ok(())
    }
}

/// The requests of a worker, for a script that asks for them.
struct WorkerRequests<'a, 'b> {
    requests: &'a mut Requests<'b>,
    current: Option<Wire<tutti_worker::Exchange>>,
}

impl RequestSource for WorkerRequests<'_, '_> {
    fn ready(&mut self) {
        self.requests.ready();
    }
    fn next(&mut self) -> bool {
        self.current = self.requests.next_request().map(Wire);
        self.current.is_some()
    }
    fn exchange(&mut self) -> Option<&mut dyn PhpRequest> {
        self.current
            .as_mut()
            .map(|current| -> &mut dyn PhpRequest { current })
    }
    fn done(&mut self) {
        if let Some(Wire(exchange)) = self.current.take() {
            self.requests.done(exchange, Served::Again);
        }
    }
    fn leave(&mut self) {
        self.requests.leave();
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
struct Wire<E>(E);

impl<E: BorrowMut<tutti_worker::Exchange>> PhpRequest for Wire<E> {
    fn method(&self) -> &[u8] {
        self.0.borrow().request().method()
    }
    fn target(&self) -> &[u8] {
        self.0.borrow().request().target()
    }
    fn path(&self) -> &[u8] {
        self.0.borrow().request().path()
    }
    fn query(&self) -> &[u8] {
        self.0.borrow().request().query()
    }
    fn protocol(&self) -> HttpProtocol {
        match self.0.borrow().request().version_minor() {
            0 => HttpProtocol::Http10,
            1 => HttpProtocol::Http11,
            2 => HttpProtocol::Http2,
            _ => HttpProtocol::Http3,
        }
    }
    fn is_tls(&self) -> bool {
        self.0.borrow().request().tls()
    }
    fn remote_address(&self) -> &[u8] {
        self.0.borrow().request().remote_address()
    }
    fn remote_port(&self) -> u16 {
        self.0.borrow().request().remote_port()
    }
    fn local_address(&self) -> &[u8] {
        self.0.borrow().request().local_address()
    }
    fn local_port(&self) -> u16 {
        self.0.borrow().request().local_port()
    }
    fn server_name(&self) -> &[u8] {
        self.0.borrow().request().server_name()
    }
    fn target_name(&self) -> &[u8] {
        self.0.borrow().request().target_name()
    }
    fn user(&self) -> &[u8] {
        self.0.borrow().request().user()
    }
    fn content_length(&self) -> Option<u64> {
        self.0.borrow().request().content_length()
    }
    fn has_body(&self) -> bool {
        !matches!(self.0.borrow().request().body(), BodyRef::None)
    }
    fn visit_fields(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        for (name, value) in self.0.borrow().request().fields() {
            visit(name, value);
        }
    }

    fn body_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().body_read(buffer)
    }

    fn start(&mut self, status: u16, fields: &[PhpField]) {
        let pairs = fields.iter().map(|field| (field.name(), field.value()));
        let Err(error) = self.0.borrow_mut().start(status, pairs) else {
            return;
        };
        log::error(&format!("response head cannot be sent as it is: {error}"));
        if let ResponseHeadError::Field(_) = error {
            // As web servers do, a field that is none is left out: the page itself may be good.
            let pairs = fields.iter().map(|field| (field.name(), field.value()));
            let pairs = pairs.filter(|(name, value)| is_valid_field(name, value));
            if self.0.borrow_mut().start(status, pairs).is_ok() {
                return;
            }
        }
        // A bare status can always be sent; if not, the exchange has ended and the router has answered.
        let _ = self.0.borrow_mut().start(500, std::iter::empty());
    }

    fn write(&mut self, data: &[u8]) -> Result<(), RequestAborted> {
        self.0.borrow_mut().write(data).map_err(|_| RequestAborted)
    }

    fn flush(&mut self) -> Result<(), RequestAborted> {
        self.0.borrow_mut().flush();
        if self.0.borrow().is_client_gone() {
            Err(RequestAborted)
        } else {
            Ok(())
        }
    }

    fn finish(&mut self) {
        self.0.borrow_mut().finish();
    }

    fn is_client_gone(&self) -> bool {
        self.0.borrow().is_client_gone()
    }
}
