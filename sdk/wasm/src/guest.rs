//! Guests: instances of a component, or of a module of Unit's SDK. The rest of the host knows no other difference.

use std::rc::Rc;
use std::sync::Arc;

use hyper::Response;
use tokio::sync::oneshot;
use tutti_worker::{Exchange, StartError};
use wasmtime::Engine;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use crate::body::Feed;
use crate::clock::Meter;
use crate::settings::Settings;

/// An answer of a guest: a response, or the reason why there is none.
pub(crate) type GuestResponse = Result<Response<HyperOutgoingBody>, ErrorCode>;

/// A request for an instance.
pub(crate) struct Order<R> {
    /// Its name in the log.
    pub(crate) title: Arc<str>,
    pub(crate) request: R,
    pub(crate) answer: oneshot::Sender<GuestResponse>,
    pub(crate) meter: Arc<Meter>,
}

/// The maker of instances: compiled in the prototype, used by its forks.
pub(crate) trait Maker: Clone + 'static {
    /// The instances.
    type Guest: Guest;

    /// Loads the configured file. The process has one thread afterwards, as before.
    fn load(settings: &Rc<Settings>) -> Result<Self, StartError>;

    /// The engine that instances run on.
    fn engine(&self) -> &Engine;

    /// Makes an instance for the request of this title.
    async fn make(&self, title: Arc<str>, meter: &Arc<Meter>) -> wasmtime::Result<Self::Guest>;
}

/// An instance.
pub(crate) trait Guest: Sized + 'static {
    /// A request in its terms.
    type Request: 'static;

    /// The word for its code, and the option that names the file.
    const NOUN: &'static str;
    /// True if the instance that is made at the start, to see that it can be, is kept for the first request.
    const KEEPS_THE_FIRST: bool;

    /// The request of an exchange, and where the pieces of its body are to go. `Err`: what it could not be given.
    fn request(exchange: &Exchange) -> Result<(Self::Request, Feed), String>;

    /// Begins another request.
    fn begin(&mut self, title: &Arc<str>, meter: &Arc<Meter>);

    /// Handles a request. True if the instance may serve another.
    async fn handle(
        &mut self,
        request: Self::Request,
        answer: oneshot::Sender<GuestResponse>,
    ) -> wasmtime::Result<bool>;

    /// The process ends.
    async fn end(self, meter: &Arc<Meter>) -> wasmtime::Result<()>;
}
