//! An instance of a component.

use std::rc::Rc;
use std::sync::Arc;

use http::uri::Scheme as UriScheme;
use tokio::sync::oneshot;
use tutti_worker::{Exchange, StartError};
use wasmtime::{Engine, Store};
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::http::types::Scheme;
use wasmtime_wasi_http::p2::bindings::{Proxy, ProxyPre};

use super::load;
use super::outgoing::Network;
use super::request;
use super::state::State;
use crate::body::{Body, Feed};
use crate::clock::Meter;
use crate::guest::{self, GuestResponse};
use crate::settings::Settings;

/// The component, compiled, with everything that it imports.
#[derive(Clone)]
pub(crate) struct Maker {
    engine: Engine,
    proxy: ProxyPre<State>,
    network: Network,
    settings: Rc<Settings>,
}

/// An instance of it.
pub(crate) struct Component {
    store: Store<State>,
    proxy: Proxy,
    served: u32,
    /// Requests that it may serve.
    most: u32,
}

impl guest::Maker for Maker {
    type Guest = Component;

    fn load(settings: &Rc<Settings>) -> Result<Self, StartError> {
        let (engine, proxy) = load::load(settings)?;
        Ok(Self {
            engine,
            proxy,
            network: Network::new(Arc::clone(&settings.destinations)),
            settings: Rc::clone(settings),
        })
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    async fn make(&self, title: Arc<str>, meter: &Arc<Meter>) -> wasmtime::Result<Component> {
        let state = State::new(&self.settings, &self.network, title)?;
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limiter);
        meter.measure(&mut store);
        let proxy = self.proxy.instantiate_async(&mut store).await?;
        Ok(Component {
            store,
            proxy,
            served: 0,
            most: self.settings.requests,
        })
    }
}

impl guest::Guest for Component {
    type Request = http::Request<Body>;

    const NOUN: &'static str = "component";
    const KEEPS_THE_FIRST: bool = false;

    fn request(exchange: &Exchange) -> Result<(Self::Request, Feed), String> {
        request::build(exchange)
    }

    fn begin(&mut self, title: &Arc<str>, meter: &Arc<Meter>) {
        self.store.data_mut().serves(title);
        meter.measure(&mut self.store);
    }

    async fn handle(
        &mut self,
        request: Self::Request,
        answer: oneshot::Sender<GuestResponse>,
    ) -> wasmtime::Result<bool> {
        let scheme = match request.uri().scheme() == Some(&UriScheme::HTTPS) {
            true => Scheme::Https,
            false => Scheme::Http,
        };
        let mut http = self.store.data_mut().http();
        let request = http.new_incoming_request(scheme, request)?;
        let answer = http.new_response_outparam(answer)?;
        let handler = self.proxy.wasi_http_incoming_handler();
        handler
            .call_handle(&mut self.store, request, answer)
            .await?;
        self.served += 1;
        Ok(self.served < self.most)
    }

    async fn end(self, _meter: &Arc<Meter>) -> wasmtime::Result<()> {
        Ok(())
    }
}
