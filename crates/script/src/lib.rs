//! JavaScript in the configuration: template literals (`` `/www/${host}${uri}` ``) and the modules they use.
//!
//! Owns the engine (QuickJS), what a script sees of a request, and the limits it runs within. Called by `tutti-config`,
//! which checks syntax ([`check_template`], [`check_modules`]), by the daemon when a module is stored ([`check_module`]), and by `tutti-routing`, which asks for values ([`evaluate`]).
//! Each thread has engines of its own, made when it first needs one; nothing of JavaScript goes from thread to thread.
//!
//! Must never happen: that a script reaches a file, a socket, the clock's setting or another request's values; that
//! it keeps a thread longer than [`TIME_LIMIT`], and what its modules take to be loaded, or takes more than [`MEMORY_LIMIT`]; that
//! anything of one request is left behind for the next.

#![forbid(unsafe_code)]

mod builtin;
mod check;
mod engine;
mod failure;
mod limits;
mod maker;
mod modules;
mod values;

use std::cell::RefCell;

pub use check::{CompileError, check_module, check_modules, check_template};
pub use failure::ScriptError;
pub use limits::{MEMORY_LIMIT, STACK_LIMIT, TIME_LIMIT};
pub use modules::{Modules, ScriptModule};
pub use values::Values;

use crate::engine::Engine;

/// Engines a thread keeps: of the configuration in force, and of the one before, whose last requests are under way.
const KEPT_ENGINES: usize = 2;

thread_local! {
    static ENGINES: RefCell<Vec<Engine>> = const { RefCell::new(Vec::new()) };
}

/// Appends the value of the template literal `source` for a request; nothing after a failure.
///
/// # Errors
/// The script throws, or meets a limit. The next evaluation begins anew.
pub fn evaluate(
    modules: &Modules,
    source: &str,
    values: &dyn Values,
    out: &mut Vec<u8>,
) -> Result<(), ScriptError> {
    ENGINES.with_borrow_mut(|engines| {
        let place = match engines.iter().position(|engine| engine.is_for(modules)) {
            Some(place) => place,
            None => {
                engines.truncate(KEPT_ENGINES - 1);
                let engine = Engine::new(modules).map_err(|thrown| thrown.failure)?;
                engines.insert(0, engine);
                0
            }
        };
        let Some(engine) = engines.get_mut(place) else {
            return Err(ScriptError::Memory);
        };
        let evaluated = engine.evaluate(source, values, out);
        if matches!(evaluated, Err(ScriptError::Time | ScriptError::Memory)) {
            // The next request shall not find out how full the memory is.
            engines.remove(place);
        }
        evaluated
    })
}
