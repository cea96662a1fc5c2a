//! Instances of the component: made for a request, or kept from the last one; and what each of them may reach.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Request;
use hyper::Response;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};
use tutti_event_loop::is_leaving;
use tutti_worker::StartError;
use wasmtime::{Engine, Store};
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::bindings::{Proxy, ProxyPre};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use crate::clock::{Clock, Meter};
use crate::component::Loaded;
use crate::fault;
use crate::outgoing::Network;
use crate::request::Body;
use crate::settings::Settings;
use crate::state::State;

/// An answer of the component: a response, or the reason why there is none.
pub(crate) type Answer = Result<Response<HyperOutgoingBody>, ErrorCode>;

/// A request for an instance.
pub(crate) struct Order {
    /// Its name in the log.
    pub(crate) title: Arc<str>,
    pub(crate) is_tls: bool,
    pub(crate) request: Request<Body>,
    pub(crate) answer: oneshot::Sender<Answer>,
    pub(crate) meter: Arc<Meter>,
}

/// An instance that can serve another request.
pub(crate) struct Instance {
    store: Store<State>,
    proxy: Proxy,
    served: u32,
}

/// The instances of a worker.
pub(crate) struct Instances {
    proxy: ProxyPre<State>,
    engine: Engine,
    settings: Rc<Settings>,
    network: Network,
    clock: Clock,
    room: Semaphore,
    resting: RefCell<Vec<Instance>>,
    asked: Asked,
}

/// The server's question where the worker is: a request has run out of time.
#[derive(Debug, Default)]
struct Asked {
    last: Cell<Option<Instant>>,
    news: Notify,
}

/// The client of a request that has run out of time is told right before the worker is asked, so each may be seen first.
const AT_ONCE: Duration = Duration::from_secs(1);

impl Instances {
    /// None yet. Starts the clock, a thread.
    pub(crate) fn new(loaded: &Loaded, settings: Rc<Settings>) -> Result<Self, StartError> {
        let clock = Clock::start(&loaded.engine)
            .map_err(|error| StartError::new("starting a thread", error))?;
        Ok(Self {
            proxy: loaded.proxy.clone(),
            engine: loaded.engine.clone(),
            network: Network::new(Arc::clone(&settings.destinations)),
            room: Semaphore::new(settings.concurrency as usize),
            settings,
            clock,
            resting: RefCell::default(),
            asked: Asked::default(),
        })
    }

    /// Makes an instance, to see that it can be.
    pub(crate) async fn try_one(&self) -> Result<(), StartError> {
        let meter = Meter::new(self.settings.time);
        let _work = self.clock.begin();
        match self.make("at the start".into(), &meter).await {
            Ok(_) => Ok(()),
            Err(error) => Err(
                StartError::new("making an instance", fault::describe(&error)).member("component"),
            ),
        }
    }

    /// The most computing time for a request.
    pub(crate) fn meter(&self) -> Arc<Meter> {
        Meter::new(self.settings.time)
    }

    /// Waits until there is room for another instance.
    pub(crate) async fn room(&self) -> Option<SemaphorePermit<'_>> {
        self.room.acquire().await.ok()
    }

    /// Waits until no instance is at work.
    pub(crate) async fn all_done(&self) {
        // Nobody closes it.
        let _ = self.room.acquire_many(self.settings.concurrency).await;
    }

    /// The server asks where the worker is.
    pub(crate) fn is_asked(&self) {
        self.asked.last.set(Some(Instant::now()));
        self.asked.news.notify_waiters();
    }

    /// Waits until the server has given the request up whose client was gone then.
    pub(crate) async fn late(&self, gone: Instant) {
        let news = self.asked.news.notified();
        let last = self.asked.last.get();
        if last.is_some_and(|last| last + AT_ONCE >= gone) || is_leaving() {
            return;
        }
        news.await;
    }

    /// Has an instance handle a request: the instance, if it may serve another. Its answer goes to the order's sender.
    pub(crate) async fn handle(self: Rc<Self>, order: Order) -> wasmtime::Result<Option<Instance>> {
        let _work = self.clock.begin();
        let rested = self.resting.borrow_mut().pop();
        let mut instance = match rested {
            Some(mut instance) => {
                instance.serves(&order);
                instance
            }
            None => self.make(Arc::clone(&order.title), &order.meter).await?,
        };
        let scheme = match order.is_tls {
            true => Scheme::Https,
            false => Scheme::Http,
        };
        let mut http = instance.store.data_mut().http();
        let request = http.new_incoming_request(scheme, order.request)?;
        let answer = http.new_response_outparam(order.answer)?;
        let handler = instance.proxy.wasi_http_incoming_handler();
        handler
            .call_handle(&mut instance.store, request, answer)
            .await?;
        instance.served += 1;
        Ok((instance.served < self.settings.requests).then_some(instance))
    }

    /// Keeps an instance for the next request.
    pub(crate) fn rest(&self, instance: Instance) {
        self.resting.borrow_mut().push(instance);
    }

    async fn make(&self, title: Arc<str>, meter: &Arc<Meter>) -> wasmtime::Result<Instance> {
        let state = State::new(&self.settings, &self.network, title)?;
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limiter);
        meter.measure(&mut store);
        let proxy = self.proxy.instantiate_async(&mut store).await?;
        Ok(Instance {
            store,
            proxy,
            served: 0,
        })
    }
}

impl Instance {
    /// Begins another request.
    fn serves(&mut self, order: &Order) {
        self.store.data_mut().serves(&order.title);
        order.meter.measure(&mut self.store);
    }
}
