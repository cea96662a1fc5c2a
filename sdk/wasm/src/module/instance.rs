//! An instance of a module: it lives as long as its process, and serves one request after the other.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http_body::Body as _;
use tokio::sync::oneshot;
use tutti_options::wasm::Wasm;
use tutti_worker::{Exchange, StartError};
use wasmtime::{Engine, InstancePre, Memory, Store, TypedFunc};

use super::handlers::{Handlers, MEMORY};
use super::load;
use super::request::{self, ModuleRequest};
use super::shared::SIZE;
use super::state::{Misuse, State, Turn};
use crate::body::{Body, Feed};
use crate::clock::Meter;
use crate::guest::{self, GuestResponse};
use crate::settings::Settings;

/// The module, compiled, with everything that it imports.
#[derive(Clone)]
pub(crate) struct Maker {
    engine: Engine,
    instance: InstancePre<State>,
    settings: Rc<Settings>,
    names: Rc<Wasm>,
}

/// An instance of it.
pub(crate) struct Module {
    store: Store<State>,
    memory: Memory,
    handlers: Handlers,
    title: Arc<str>,
}

impl guest::Maker for Maker {
    type Guest = Module;

    fn load(settings: &Rc<Settings>) -> Result<Self, StartError> {
        let Some(names) = settings.module.clone() else {
            return Err(StartError::new("loading a module", "it has no functions"));
        };
        let (engine, instance) = load::load(settings, &names)?;
        Ok(Self {
            engine,
            instance,
            settings: Rc::clone(settings),
            names: Rc::new(names),
        })
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    async fn make(&self, title: Arc<str>, meter: &Arc<Meter>) -> wasmtime::Result<Module> {
        let state = State::new(&self.settings, Arc::clone(&title))?;
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limiter);
        meter.measure(&mut store);
        let instance = self.instance.instantiate_async(&mut store).await?;
        let handlers = Handlers::of(&self.names, &instance, &mut store)?;
        let memory = instance.get_memory(&mut store, MEMORY);
        let memory = memory.ok_or_else(|| wasmtime::Error::msg("it has no memory"))?;
        store.data_mut().memory = Some(memory);
        call(&mut store, handlers.initialize.as_ref()).await?;
        call(&mut store, handlers.module_init.as_ref()).await?;
        let address = handlers.malloc.call_async(&mut store, SIZE).await?;
        let end = (address as usize).saturating_add(SIZE as usize);
        let has = memory.data_size(&store);
        if address == 0 || end > has {
            let misuse = Misuse::NoRoom {
                option: Wasm::malloc_handler.name,
                name: self.names.malloc_handler.clone(),
                address,
                memory: has,
            };
            return Err(misuse.into());
        }
        store.data_mut().shared = address;
        Ok(Module {
            store,
            memory,
            handlers,
            title,
        })
    }
}

impl guest::Guest for Module {
    type Request = ModuleRequest;

    const NOUN: &'static str = "module";
    const KEEPS_THE_FIRST: bool = true;

    fn request(exchange: &Exchange) -> Result<(ModuleRequest, Feed), String> {
        request::build(exchange)
    }

    fn begin(&mut self, title: &Arc<str>, meter: &Arc<Meter>) {
        self.title = Arc::clone(title);
        self.store.data_mut().limiter.serves(Arc::clone(title));
        meter.measure(&mut self.store);
    }

    async fn handle(
        &mut self,
        request: ModuleRequest,
        answer: oneshot::Sender<GuestResponse>,
    ) -> wasmtime::Result<bool> {
        let turn = Turn::new(Arc::clone(&self.title), answer);
        self.store.data_mut().turn = Some(turn);
        call(&mut self.store, self.handlers.request_init.as_ref()).await?;
        if !self.pass(request).await? {
            return Ok(false);
        }
        let turn = self.store.data_mut().turn.take();
        if !turn.is_some_and(|turn| turn.has_ended) {
            return Err(Misuse::NotEnded.into());
        }
        call(&mut self.store, self.handlers.request_end.as_ref()).await?;
        Ok(true)
    }

    async fn end(mut self, meter: &Arc<Meter>) -> wasmtime::Result<()> {
        meter.measure(&mut self.store);
        let shared = self.store.data().shared;
        call(&mut self.store, self.handlers.module_end.as_ref()).await?;
        self.handlers.free.call_async(&mut self.store, shared).await
    }
}

impl Module {
    /// Has the module handle the request, as much of it at a time as fits. False: the client has broken it off.
    async fn pass(&mut self, mut request: ModuleRequest) -> wasmtime::Result<bool> {
        let shared = self.store.data().shared;
        let mut rest = Bytes::new();
        let mut total = 0;
        loop {
            let sent = self.fill(&mut request, &mut rest).await?;
            total += u64::from(sent);
            let is_last = total >= request.content_length;
            if sent == 0 && !is_last {
                return Ok(false);
            }
            let head = request.head.part(sent, total);
            self.memory.write(&mut self.store, shared as usize, head)?;
            let handler = &self.handlers.request;
            // The number that it gives back means nothing (API-C.md, `luw_request_handler`).
            handler.call_async(&mut self.store, shared).await?;
            self.tell_the_end().await?;
            if is_last {
                return Ok(true);
            }
        }
    }

    /// Lays down as much of the body as fits: so many bytes.
    async fn fill(
        &mut self,
        request: &mut ModuleRequest,
        rest: &mut Bytes,
    ) -> wasmtime::Result<u32> {
        let room = request.head.room();
        let start = self.store.data().shared as usize + request.head.length();
        let mut filled = 0;
        while filled < room {
            if rest.is_empty() {
                match next(&mut request.body).await {
                    Some(piece) => *rest = piece,
                    None => break,
                }
            }
            let now = rest.split_to(rest.len().min(room - filled));
            self.memory.write(&mut self.store, start + filled, &now)?;
            filled += now.len();
        }
        Ok(u32::try_from(filled).unwrap_or(SIZE))
    }

    /// Calls the function for the end of an answer, once for each.
    async fn tell_the_end(&mut self) -> wasmtime::Result<()> {
        let turn = self.store.data_mut().turn.as_mut();
        if turn.is_some_and(Turn::needs_notice) {
            call(&mut self.store, self.handlers.response_end.as_ref()).await?;
        }
        Ok(())
    }
}

/// The next piece of a body; `None` at its end, and when the client has broken it off.
async fn next(body: &mut Body) -> Option<Bytes> {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
    frame?.ok()?.into_data().ok()
}

async fn call(
    store: &mut Store<State>,
    handler: Option<&TypedFunc<(), ()>>,
) -> wasmtime::Result<()> {
    match handler {
        Some(handler) => handler.call_async(store, ()).await,
        None => Ok(()),
    }
}
