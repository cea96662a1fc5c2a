//! The module: read, compiled and checked, before anything is forked. Most mistakes show here, with their cure.

use tutti_options::wasm::Wasm;
use tutti_worker::StartError;
use wasmtime::{Engine, InstancePre, Linker, Module};

use super::state::State;
use super::{handlers, imports};
use crate::code::{Code, Form};
use crate::engine;
use crate::settings::Settings;

/// Loads the configured module: its engine, and itself with everything that it imports. The process has one thread afterwards, as before.
pub(super) fn load(
    settings: &Settings,
    names: &Wasm,
) -> Result<(Engine, InstancePre<State>), StartError> {
    let code = Code::read(settings, "module")?;
    if code.form == Some(Form::Component) {
        return Err(code
            .refused("it is a component, not a module")
            .hint("configure it as `\"type\": \"wasm-wasi-component\"`, with `component` in place of `module`"));
    }
    let compiled = code.compile(|engine, bytes| engine.precompile_module(bytes));
    let compiled = compiled.map_err(|error| {
        error.hint("modules are served without the proposals for exceptions, garbage collection and threads")
    })?;
    let compiling = engine::compiling()
        .map_err(|error| StartError::new("preparing the engine", format!("{error:#}")))?;
    let trial = deserialize(&compiling, &compiled, &code)?;
    handlers::check(names, &trial, &code)?;
    let engine = code.engine(settings, &trial.resources_required())?;
    drop(trial);
    let module = deserialize(&engine, &compiled, &code)?;
    let mut linker = Linker::new(&engine);
    imports::add(&mut linker)
        .map_err(|error| StartError::new("preparing WASI", format!("{error:#}")))?;
    let instance = linker.instantiate_pre(&module).map_err(|error| {
        code.refused(format!("{error:#}")).hint(
            "a module may import WASI preview 1 and the functions of Unit's SDK (`env`, `nxt_wasm_…`): build it for `wasm32-wasip1`, with `unit-wasm` 0.3 or later",
        )
    })?;
    Ok((engine, instance))
}

fn deserialize(engine: &Engine, compiled: &[u8], code: &Code) -> Result<Module, StartError> {
    // SAFETY: these bytes come from `precompile_module` of this very process, and no other process could change them since.
    let module = unsafe { Module::deserialize(engine, compiled) };
    module.map_err(|error| code.refused(format!("{error:#}")))
}
