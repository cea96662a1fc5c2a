//! The world of one instance: what it may reach, and what it has there.

use std::io;
use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::outgoing::{Network, Outgoing};
use crate::limiter::Limiter;
use crate::settings::Settings;
use crate::wasi;

/// The world of one instance.
pub(crate) struct State {
    table: ResourceTable,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    outgoing: Outgoing,
    /// Its memory.
    pub(crate) limiter: Limiter,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            hooks: &mut self.outgoing,
            table: &mut self.table,
            ctx: &mut self.http,
        }
    }
}

impl State {
    /// The world of an instance that begins with the request of this title.
    pub(crate) fn new(settings: &Settings, network: &Network, title: Arc<str>) -> io::Result<Self> {
        Ok(Self {
            table: ResourceTable::new(),
            wasi: wasi::world(settings)?.build(),
            http: WasiHttpCtx::new(),
            outgoing: Outgoing::new(network.clone(), Arc::clone(&title)),
            limiter: Limiter::new("component", settings.memory, title),
        })
    }

    /// Begins another request of the same instance.
    pub(crate) fn serves(&mut self, title: &Arc<str>) {
        self.outgoing.serves(Arc::clone(title));
        self.limiter.serves(Arc::clone(title));
    }
}
