//! JavaScript in the configuration: template literals (`` `/www/${host}${uri}` ``) and the modules they use.
//!
//! Contains the engine (QuickJS), a script's view of a request, and its limits. Called by `tutti-config`, which checks syntax
//! ([`check_template`], [`check_modules`]), by the daemon when a module is stored ([`check_module`]), and by `tutti-routing`, which
//! evaluates ([`evaluate`]). Each thread has its own engines, made on demand; no JavaScript value is passed between threads.
//!
//! Must never happen: a script accesses a file, a socket, the setting of the clock or the values of another request; blocks a thread longer
//! than [`TIME_LIMIT`] plus the loading of its modules, or uses more than [`MEMORY_LIMIT`]; or leaves anything of one request for the next.

#![forbid(unsafe_code)]

mod builtin;
mod check;
mod engine;
mod failure;
mod limits;
mod maker;
mod modules;
mod parts;
mod values;

use std::cell::RefCell;

pub use check::{CompileError, check_module, check_modules, check_template};
pub use failure::ScriptError;
pub use limits::{MEMORY_LIMIT, STACK_LIMIT, TIME_LIMIT};
pub use modules::{Modules, ScriptModule};
pub use parts::EvaluatedPart;
pub use values::Values;

use crate::engine::Engine;

/// Engines kept per thread: of the configuration in force, and of the former one, whose last requests may be in progress.
const KEPT_ENGINES: usize = 2;

thread_local! {
    static ENGINES: RefCell<Vec<Engine>> = const { RefCell::new(Vec::new()) };
}

/// Appends the value of the template literal `source` for a request; nothing after a failure.
///
/// # Errors
/// The script throws, or exceeds a limit. The next evaluation starts anew.
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
            // The next request must not be able to observe how full the memory is.
            engines.remove(place);
        }
        evaluated
    })
}

/// Calls `each` with the texts and the values of the template literal `source` for a request, in order; not at all after a failure.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_parts(
    modules: &Modules,
    source: &str,
    values: &dyn Values,
    each: &mut dyn FnMut(EvaluatedPart<'_>),
) -> Result<(), ScriptError> {
    let mut joined = Vec::new();
    evaluate(modules, &parts::tagged(source), values, &mut joined)?;
    parts::separate(&joined, each);
    Ok(())
}
