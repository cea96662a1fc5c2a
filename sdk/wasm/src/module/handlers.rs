//! The functions of a module that the server calls: looked for before anything is forked, and found again in each instance.

use tutti_options::wasm::Wasm;
use tutti_worker::StartError;
use wasmtime::{ExternType, Instance, Module, Store, TypedFunc, WasmParams, WasmResults};

use super::state::State;
use crate::code::Code;

/// The function that starts a module without a `main` (WASI application ABI); called if it is there.
const INITIALIZE: &str = "_initialize";

/// The memory of a module (likewise).
pub(super) const MEMORY: &str = "memory";

/// The functions of an instance.
pub(super) struct Handlers {
    pub(super) initialize: Option<TypedFunc<(), ()>>,
    pub(super) request: TypedFunc<u32, u32>,
    pub(super) malloc: TypedFunc<u32, u32>,
    pub(super) free: TypedFunc<u32, ()>,
    pub(super) module_init: Option<TypedFunc<(), ()>>,
    pub(super) module_end: Option<TypedFunc<(), ()>>,
    pub(super) request_init: Option<TypedFunc<(), ()>>,
    pub(super) request_end: Option<TypedFunc<(), ()>>,
    pub(super) response_end: Option<TypedFunc<(), ()>>,
}

impl Handlers {
    /// Finds them in an instance.
    pub(super) fn of(
        names: &Wasm,
        instance: &Instance,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Self> {
        let has_initialize = instance.get_func(&mut *store, INITIALIZE).is_some();
        let mut find = Find { instance, store };
        let given = |name: &'static str| has_initialize.then_some(name);
        Ok(Self {
            initialize: find.optional(given(INITIALIZE))?,
            request: find.required(&names.request_handler)?,
            malloc: find.required(&names.malloc_handler)?,
            free: find.required(&names.free_handler)?,
            module_init: find.optional(names.module_init_handler.as_deref())?,
            module_end: find.optional(names.module_end_handler.as_deref())?,
            request_init: find.optional(names.request_init_handler.as_deref())?,
            request_end: find.optional(names.request_end_handler.as_deref())?,
            response_end: find.optional(names.response_end_handler.as_deref())?,
        })
    }
}

struct Find<'a> {
    instance: &'a Instance,
    store: &'a mut Store<State>,
}

impl Find<'_> {
    fn required<P: WasmParams, R: WasmResults>(
        &mut self,
        name: &str,
    ) -> wasmtime::Result<TypedFunc<P, R>> {
        self.instance.get_typed_func(&mut *self.store, name)
    }

    fn optional(&mut self, name: Option<&str>) -> wasmtime::Result<Option<TypedFunc<(), ()>>> {
        name.map(|name| self.required(name)).transpose()
    }
}

/// Looks for them, and tells which option names one that is not there, or is another kind of function.
pub(super) fn check(names: &Wasm, module: &Module, code: &Code) -> Result<(), StartError> {
    let required = [
        (Wasm::request_handler.name, &names.request_handler, (1, 1)),
        (Wasm::malloc_handler.name, &names.malloc_handler, (1, 1)),
        (Wasm::free_handler.name, &names.free_handler, (1, 0)),
    ];
    let optional = [
        (Wasm::module_init_handler.name, &names.module_init_handler),
        (Wasm::module_end_handler.name, &names.module_end_handler),
        (Wasm::request_init_handler.name, &names.request_init_handler),
        (Wasm::request_end_handler.name, &names.request_end_handler),
        (Wasm::response_end_handler.name, &names.response_end_handler),
    ];
    let optional = optional
        .into_iter()
        .filter_map(|(option, name)| Some((option, name.as_ref()?, (0, 0))));
    for (option, name, shape) in required.into_iter().chain(optional) {
        check_one(option, name, shape, module, code)?;
    }
    match module.get_export(MEMORY) {
        Some(ExternType::Memory(memory)) if !memory.is_64() => Ok(()),
        _ => Err(code
            .refused(format!("it does not export its memory as `{MEMORY}`"))
            .hint("build it for `wasm32-wasip1` (`wasm32-wasi`), where the linker does so")),
    }
}

/// So many parameters and results, all of 32 bits.
type Shape = (usize, usize);

fn check_one(
    option: &'static str,
    name: &str,
    shape: Shape,
    module: &Module,
    code: &Code,
) -> Result<(), StartError> {
    let Some(ExternType::Func(found)) = module.get_export(name) else {
        return Err(code
            .refused(format!(
                "it exports no function `{name}`, which `{option}` names"
            ))
            .member(option)
            .hint(there_is(module)));
    };
    let numbers = |count| vec!["i32"; count].join(", ");
    let written = |parameters: String, results: String| format!("({parameters}) -> ({results})");
    let wanted = written(numbers(shape.0), numbers(shape.1));
    let list = |types: &mut dyn Iterator<Item = wasmtime::ValType>| {
        let names: Vec<String> = types.map(|kind| kind.to_string()).collect();
        names.join(", ")
    };
    let has = written(list(&mut found.params()), list(&mut found.results()));
    if wanted == has {
        return Ok(());
    }
    Err(code
        .refused(format!(
            "`{option}` names the function `{name}`, which is {has}, and not {wanted}"
        ))
        .member(option)
        .hint("its declaration is in the SDK's header, `unit/unit-wasm.h`"))
}

/// The functions that a module exports, as a hint.
fn there_is(module: &Module) -> String {
    let functions = module
        .exports()
        .filter(|export| matches!(export.ty(), ExternType::Func(_)));
    let names: Vec<String> = functions
        .map(|export| format!("`{}`", export.name()))
        .collect();
    match names.is_empty() {
        true => "it exports no function at all: build it as a library without `main` (C: `-mexec-model=reactor`, Rust: `crate-type = [\"cdylib\"]`)".to_owned(),
        false => format!("it exports {}", names.join(", ")),
    }
}
