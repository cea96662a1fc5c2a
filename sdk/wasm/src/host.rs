//! WebAssembly on the worker base: the prototype compiles the file, its forks serve.

use std::rc::Rc;

use tutti_options::Options as _;
use tutti_options::wasm::{Wasi, Wasm};
use tutti_sys::signal::Signals;
use tutti_sys::{process as system, sandbox};
use tutti_worker::{
    Common, Describe, Exchange, Host, Level, Process, Served, Start, StartError, WHERE_SIGNAL,
};

use crate::guest::Maker;
use crate::instance::Instances;
use crate::settings::Settings;
use crate::{component, driver, log, module};

/// Set to `off`, it leaves a worker the rights of its user, as it does for the server's own processes.
const SANDBOX: &str = "TUTTI_SANDBOX";

/// The language.
#[derive(Debug)]
pub(crate) enum WebAssembly {}

/// A loaded application.
pub(crate) struct App {
    loaded: Loaded,
    settings: Rc<Settings>,
}

enum Loaded {
    Component(component::Maker),
    Module(module::Maker),
}

impl Host for WebAssembly {
    type App = App;

    fn describe() -> Describe {
        Describe {
            kind: Wasi::TABLE.name.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn also() -> Vec<String> {
        vec![Wasm::TABLE.name.to_owned()]
    }

    fn load(start: &Start, common: &Common) -> Result<App, StartError> {
        let settings = Rc::new(Settings::read(start, common)?);
        let loaded = match settings.module {
            None => Loaded::Component(Maker::load(&settings)?),
            Some(_) => Loaded::Module(Maker::load(&settings)?),
        };
        Ok(App { loaded, settings })
    }

    fn process(app: &mut App, process: &mut Process) -> Result<(), StartError> {
        let settings = Rc::clone(&app.settings);
        match &app.loaded {
            Loaded::Component(maker) => run(maker.clone(), settings, process),
            Loaded::Module(maker) => run(maker.clone(), settings, process),
        }
    }

    /// Never called: a worker has a loop of its own.
    fn serve(_app: &mut App, exchange: &mut Exchange) -> Served {
        exchange.abort();
        Served::Recycle
    }
}

/// The life of a worker.
fn run(maker: impl Maker, settings: Rc<Settings>, process: &mut Process) -> Result<(), StartError> {
    let Some(unstarted) = process.take_worker() else {
        return Ok(());
    };
    let mut worker = unstarted.into_worker();
    worker
        .enter_loop(settings.concurrency)
        .map_err(|error| StartError::new("entering the event loop", error))?;
    // Before there are threads, which would get it.
    let question = Signals::take(&[WHERE_SIGNAL])
        .map_err(|error| StartError::new("taking the server's signal", error))?;
    give_up_rights(&settings);
    let instances = Instances::new(maker, settings)?;
    driver::run(worker, process, Rc::new(instances), question)
}

/// Gives up what code that breaks out of its instance would miss: other programs, the kernel's rarely used parts, the network
/// unless hosts are named, and writing but in its folders. Before there are threads.
fn give_up_rights(settings: &Settings) {
    if std::env::var_os(SANDBOX).is_some_and(|value| value == "off") {
        return log::write(
            Level::Warn,
            "the process keeps all privileges of its user: TUTTI_SANDBOX is `off`",
        );
    }
    let network = match settings.destinations.is_empty() {
        true => sandbox::Network::Refused,
        false => sandbox::Network::Allowed,
    };
    let forbidden = system::forbid_new_privileges().and_then(|()| sandbox::forbid_calls(network));
    let confined = forbidden.and_then(|()| {
        let folders: Vec<_> = settings
            .folders
            .iter()
            .map(|folder| folder.path.as_path())
            .collect();
        sandbox::confine_writing(&folders)
    });
    match confined {
        Ok(true) => {}
        Ok(false) => log::write(
            Level::Info,
            "this kernel has no Landlock: the process may write where its user may",
        ),
        Err(error) => {
            let message =
                format!("the process cannot drop privileges that it does not need: {error}");
            log::write(Level::Warn, &message);
        }
    }
}
