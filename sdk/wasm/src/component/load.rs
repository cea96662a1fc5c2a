//! The component: read, compiled and checked, before anything is forked. Most mistakes show here, with their cure.

use tutti_worker::StartError;
use wasmtime::Engine;
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime_wasi_http::p2::bindings::ProxyPre;

use super::state::State;
use crate::code::{Code, Form};
use crate::engine;
use crate::settings::Settings;

/// The interface that a component serves, but for the last number of its version.
const HANDLER: &str = "wasi:http/incoming-handler@0.2.";

/// Loads the configured component: its engine, and itself with everything that it imports. The process has one thread afterwards, as before.
pub(super) fn load(settings: &Settings) -> Result<(Engine, ProxyPre<State>), StartError> {
    let code = Code::read(settings, "component")?;
    if code.form == Some(Form::Module) {
        return Err(code.refused("it is a module, not a component").hint(
            "build a component: in Rust with `--target wasm32-wasip2`; a module for `wasi:http/proxy` becomes one by `wasm-tools component new`; \
             one of Unit's SDK (`unit-wasm`) is of type `wasm`",
        ));
    }
    let compiled = code.compile(|engine, bytes| engine.precompile_component(bytes));
    let compiled = compiled.map_err(|error| {
        error.hint(
            "components of WASI 0.2 are served, without the proposals for exceptions, garbage collection, threads and asynchronous functions (WASI 0.3)",
        )
    })?;
    let compiling = engine::compiling()
        .map_err(|error| StartError::new("preparing the engine", format!("{error:#}")))?;
    let trial = deserialize(&compiling, &compiled, &code)?;
    let needed = trial.resources_required().ok_or_else(|| {
        code.refused("it imports modules or instances of modules")
            .hint("what a component imports from others has to be composed into it (`wac plug`)")
    })?;
    let engine = code.engine(settings, &needed)?;
    check_exports(&trial, &code)?;
    drop(trial);
    let component = deserialize(&engine, &compiled, &code)?;
    let proxy = link(&engine, &component, &code)?;
    Ok((engine, proxy))
}

fn deserialize(engine: &Engine, compiled: &[u8], code: &Code) -> Result<Component, StartError> {
    // SAFETY: these bytes come from `precompile_component` of this very process, and no other process could change them since.
    let component = unsafe { Component::deserialize(engine, compiled) };
    component.map_err(|error| code.refused(format!("{error:#}")))
}

/// Looks for the interface that is served, and tells what is there in its place.
fn check_exports(component: &Component, code: &Code) -> Result<(), StartError> {
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
    Err(code.refused(problem).hint(hint))
}

/// Gives the component everything that it imports.
fn link(
    engine: &Engine,
    component: &Component,
    code: &Code,
) -> Result<ProxyPre<State>, StartError> {
    let failed = |error: wasmtime::Error| StartError::new("preparing WASI", format!("{error:#}"));
    let mut linker: Linker<State> = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker).map_err(failed)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker).map_err(failed)?;
    let instance: InstancePre<State> = linker.instantiate_pre(component).map_err(|error| {
        code.refused(format!("{error:#}")).hint(
            "a component may import WASI 0.2; what it needs of other components has to be composed into it (`wac plug`)",
        )
    })?;
    ProxyPre::new(instance).map_err(|error| {
        code.refused(format!("{error:#}"))
            .hint("build it for the world `wasi:http/proxy`")
    })
}
