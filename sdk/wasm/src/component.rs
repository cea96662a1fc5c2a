//! The component: read, compiled and checked, before anything is forked. Most mistakes show here, with their cure.

use std::path::Path;

use wasmtime::Engine;
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime_wasi_http::p2::bindings::ProxyPre;

use tutti_sys::fork::is_single_threaded;
use tutti_worker::StartError;

use crate::engine;
use crate::settings::Settings;
use crate::state::State;

/// The option that is to blame.
const MEMBER: &str = "component";

/// The first bytes of what is compiled from text to WebAssembly (its specification, §5.5.16), and then the version: of a module, of a component.
const MAGIC: &[u8] = b"\0asm";
const MODULE: &[u8] = &[1, 0, 0, 0];

/// Bytes of a page of memory (WebAssembly's specification, §4.2.8).
const PAGE: u64 = 65_536;

/// The interface that a component serves, but for the last number of its version.
const HANDLER: &str = "wasi:http/incoming-handler@0.2.";

/// A compiled component, ready to be instantiated.
pub(crate) struct Loaded {
    /// Its engine.
    pub(crate) engine: Engine,
    /// The component with everything that it imports.
    pub(crate) proxy: ProxyPre<State>,
}

impl Loaded {
    /// Loads the configured component. The process has one thread afterwards, as before.
    pub(crate) fn new(settings: &Settings) -> Result<Self, StartError> {
        let shown = settings.component.display().to_string();
        let bytes = read(&settings.component, &shown)?;
        let compiled = compile(&bytes, &shown)?;
        drop(bytes);
        let failed =
            |error: wasmtime::Error| StartError::new("preparing the engine", format!("{error:#}"));
        let trial = load(&engine::compiling().map_err(failed)?, &compiled, &shown)?;
        let needed = trial.resources_required().ok_or_else(|| {
            refused(&shown, "it imports modules or instances of modules").hint(
                "what a component imports from others has to be composed into it (`wac plug`)",
            )
        })?;
        let pages = needed.max_initial_memory_size.unwrap_or(0);
        let initial = pages.saturating_mul(PAGE);
        if initial > settings.memory as u64 {
            let message = format!(
                "it needs {initial} bytes of memory from the start, and may have {}",
                settings.memory
            );
            return Err(StartError::new(format!("preparing `{shown}`"), message)
                .member("instance/memory")
                .hint("give its instances more, and some for what they compute"));
        }
        check_exports(&trial, &shown)?;
        drop(trial);
        let engine = engine::pooling(settings, &needed).map_err(|error| {
            failed(error)
                .member("limits/concurrency")
                .hint("each instance takes 4 GiB of addresses (not of memory); fewer at once (`limits.concurrency`) take fewer")
        })?;
        let component = load(&engine, &compiled, &shown)?;
        Ok(Self {
            proxy: link(&engine, &component, &shown)?,
            engine,
        })
    }
}

fn refused(shown: &str, problem: impl std::fmt::Display) -> StartError {
    StartError::new(format!("loading `{shown}`"), problem).member(MEMBER)
}

/// Reads the file, and looks at its first bytes: what people give in place of a component is told by its name.
fn read(path: &Path, shown: &str) -> Result<Vec<u8>, StartError> {
    let bytes = std::fs::read(path).map_err(|error| {
        refused(shown, error).hint(
            "a relative path starts at `working_directory`; the application's user must be allowed to read the file",
        )
    })?;
    if Engine::detect_precompiled(&bytes).is_some() {
        return Err(refused(shown, "it is machine code that wasmtime has compiled")
            .hint("give the component itself (.wasm): the server compiles it, and runs no machine code that it finds"));
    }
    let Some(version) = bytes.strip_prefix(MAGIC) else {
        let is_text = bytes.trim_ascii_start().starts_with(b"(");
        let hint = match is_text {
            true => "this seems to be its text format: make it binary with `wasm-tools parse`",
            false => "give the .wasm file that the compiler has made",
        };
        return Err(refused(shown, "it is not WebAssembly").hint(hint));
    };
    if version.starts_with(MODULE) {
        return Err(refused(shown, "it is a module, not a component").hint(
            "build a component: in Rust with `--target wasm32-wasip2`; a module for `wasi:http/proxy` becomes one by `wasm-tools component new`",
        ));
    }
    Ok(bytes)
}

/// Compiles on all cores. What comes out is machine code for [`load`].
fn compile(bytes: &[u8], shown: &str) -> Result<Vec<u8>, StartError> {
    let engine = engine::compiling()
        .map_err(|error| StartError::new("preparing the compiler", format!("{error:#}")))?;
    // The threads end here: a process that is to be forked has but one.
    let compiled = rayon::ThreadPoolBuilder::new()
        .build_scoped(
            |thread| thread.run(),
            |pool| pool.install(|| engine.precompile_component(bytes)),
        )
        .map_err(|error| StartError::new("starting the compiler", error))?;
    // The kernel may need a moment to forget a thread that has been waited for.
    while !is_single_threaded().unwrap_or(true) {
        std::thread::yield_now();
    }
    compiled.map_err(|error| {
        refused(shown, format!("{error:#}")).hint(
            "components of WASI 0.2 are served, without the proposals for exceptions, garbage collection, threads and asynchronous functions (WASI 0.3)",
        )
    })
}

fn load(engine: &Engine, compiled: &[u8], shown: &str) -> Result<Component, StartError> {
    // SAFETY: these bytes come from `precompile_component` of this very process, and nobody else could change them since.
    let component = unsafe { Component::deserialize(engine, compiled) };
    component.map_err(|error| refused(shown, format!("{error:#}")))
}

/// Looks for the interface that is served, and tells what is there in its place.
fn check_exports(component: &Component, shown: &str) -> Result<(), StartError> {
    let kind = component.component_type();
    let names: Vec<&str> = kind
        .exports(component.engine())
        .map(|(name, _)| name)
        .collect();
    let has = |start: &str| names.iter().any(|name| name.starts_with(start));
    if has(HANDLER) {
        return Ok(());
    }
    let problem = match names.as_slice() {
        [] => "it exports nothing".to_owned(),
        names => format!("it exports `{}`", names.join("`, `")),
    };
    let hint = if has("wasi:http/handler@0.3.") || has("wasi:http/incoming-handler@0.3") {
        "WASI 0.3 is not served yet: build it for `wasi:http/proxy` 0.2"
    } else if has("wasi:cli/run@") {
        "this is a command: build a component for the world `wasi:http/proxy`, which handles requests"
    } else {
        "build it for the world `wasi:http/proxy`"
    };
    let problem =
        format!("{problem}, and not `wasi:http/incoming-handler@0.2`, which handles requests");
    Err(refused(shown, problem).hint(hint))
}

/// Gives the component everything that it imports.
fn link(
    engine: &Engine,
    component: &Component,
    shown: &str,
) -> Result<ProxyPre<State>, StartError> {
    let failed = |error: wasmtime::Error| StartError::new("preparing WASI", format!("{error:#}"));
    let mut linker: Linker<State> = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker).map_err(failed)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker).map_err(failed)?;
    let instance: InstancePre<State> = linker.instantiate_pre(component).map_err(|error| {
        refused(shown, format!("{error:#}")).hint(
            "a component may import WASI 0.2; what it needs of other components has to be composed into it (`wac plug`)",
        )
    })?;
    ProxyPre::new(instance).map_err(|error| {
        refused(shown, format!("{error:#}")).hint("build it for the world `wasi:http/proxy`")
    })
}
