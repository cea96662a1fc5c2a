//! The world of one instance: what it may reach, and what it has there.

use std::io;
use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::limiter::Limiter;
use crate::log::{Lines, Output};
use crate::outgoing::{Network, Outgoing};
use crate::settings::Settings;

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
            wasi: wasi(settings)?,
            http: WasiHttpCtx::new(),
            outgoing: Outgoing::new(network.clone(), Arc::clone(&title)),
            limiter: Limiter::new(settings.memory, title),
        })
    }

    /// Begins another request of the same instance.
    pub(crate) fn serves(&mut self, title: &Arc<str>) {
        self.outgoing.serves(Arc::clone(title));
        self.limiter.serves(Arc::clone(title));
    }
}

/// Output, the configured environment, the configured folders: no input, no arguments, no sockets.
fn wasi(settings: &Settings) -> io::Result<WasiCtx> {
    let mut builder = WasiCtxBuilder::new();
    builder
        .stdout(Lines::new(Output::Out))
        .stderr(Lines::new(Output::Error));
    for (name, value) in &settings.environment {
        builder.env(name, value);
    }
    for folder in &settings.folders {
        builder
            .preopened_dir(&folder.path, &folder.name, FsPerms::ReadWrite)
            .map_err(|error| io::Error::other(format!("opening `{}`: {error:#}", folder.name)))?;
    }
    Ok(builder.build())
}
