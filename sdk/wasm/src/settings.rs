//! The application's options, as its instances need them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tutti_options::Options as _;
use tutti_options::wasm::{NetworkDestination, Wasi, Wasm};
use tutti_worker::{Common, Start, StartError};

/// Requests that a worker serves at once when `limits.concurrency` says nothing: each may have as much memory as `memory` of
/// `instance` allows.
const DEFAULT_CONCURRENCY: u32 = 128;

/// The same for a module: it has one instance in a process, which lives as long, and may count on that.
const DEFAULT_CONCURRENCY_OF_MODULES: u32 = 1;

/// A folder that an instance may use.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    /// Its name for the instance: as it is configured.
    pub(crate) name: String,
    /// Its place.
    pub(crate) path: PathBuf,
}

/// The options of an application.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The .wasm file.
    pub(crate) file: PathBuf,
    /// The functions of a module; `None`: it is a component.
    pub(crate) module: Option<Wasm>,
    /// Folders that it may use.
    pub(crate) folders: Vec<Folder>,
    /// Where its own requests may go.
    pub(crate) destinations: Arc<[NetworkDestination]>,
    /// Its whole environment.
    pub(crate) environment: BTreeMap<String, String>,
    /// Requests that a worker serves at once.
    pub(crate) concurrency: u32,
    /// Requests that an instance of a component serves.
    pub(crate) requests: u32,
    /// Bytes of linear memory that an instance may have.
    pub(crate) memory: usize,
    /// Time that an instance may compute for a request.
    pub(crate) time: Option<Duration>,
}

impl Settings {
    /// Reads the start document. The working directory has been entered: relative paths start there.
    pub(crate) fn read(start: &Start, common: &Common) -> Result<Self, StartError> {
        if start.kind == Wasm::TABLE.name {
            return Self::of_module(start, common);
        }
        let configured = Wasi::from_json(&start.config)?;
        let destinations = configured
            .access
            .network
            .iter()
            .enumerate()
            .map(|(index, text)| {
                NetworkDestination::parse(text).map_err(|problem| {
                    StartError::new(format!("reading `{text}`"), problem)
                        .member(format!("access/network/{index}"))
                })
            });
        Ok(Self {
            destinations: destinations.collect::<Result<_, _>>()?,
            requests: configured.instance.requests,
            memory: usize::try_from(configured.instance.memory).unwrap_or(usize::MAX),
            time: configured.instance.time.0,
            folders: folders(&configured.access.filesystem)?,
            file: configured.component,
            module: None,
            environment: common.environment.clone(),
            concurrency: concurrency(common, DEFAULT_CONCURRENCY),
        })
    }

    fn of_module(start: &Start, common: &Common) -> Result<Self, StartError> {
        let configured = Wasm::from_json(&start.config)?;
        Ok(Self {
            destinations: Arc::default(),
            requests: 0,
            memory: usize::try_from(configured.instance.memory).unwrap_or(usize::MAX),
            time: configured.instance.time.0,
            folders: folders(&configured.access.filesystem)?,
            file: configured.module.clone(),
            module: Some(configured),
            environment: common.environment.clone(),
            concurrency: concurrency(common, DEFAULT_CONCURRENCY_OF_MODULES),
        })
    }
}

fn concurrency(common: &Common, default: u32) -> u32 {
    common.limits.concurrency.map_or(default, NonZeroU32::get)
}

fn folders(paths: &[PathBuf]) -> Result<Vec<Folder>, StartError> {
    let numbered = paths.iter().enumerate();
    numbered.map(|(index, path)| folder(index, path)).collect()
}

fn folder(index: usize, path: &Path) -> Result<Folder, StartError> {
    let shown = path.display();
    let failed = |problem: String| {
        StartError::new(format!("opening the folder `{shown}`"), problem)
            .member(format!("access/filesystem/{index}"))
            .hint("it must be a folder that is there, and the application's user must be allowed to enter it")
    };
    let place = std::path::absolute(path).map_err(|error| failed(error.to_string()))?;
    match std::fs::read_dir(&place) {
        Ok(_) => Ok(Folder {
            name: path.to_string_lossy().into_owned(),
            path: place,
        }),
        Err(error) => Err(failed(error.to_string())),
    }
}
