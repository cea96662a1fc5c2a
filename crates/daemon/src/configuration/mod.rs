//! What a configuration is checked against and what it comes to, for every role that reads one.
//!
//! Controller and router both parse the same text with the same code: the one to judge it, the other to serve it. Nothing here
//! touches a process, a socket or a file.

pub(crate) mod certificates;
pub(crate) mod grants;
pub(crate) mod js_modules;
pub(crate) mod partial;

use tutti_config::{Context, Diagnostic, Diagnostics, Pointer};
use tutti_pool::Level;

use crate::log::Log;
use crate::protocol::Module;

/// What configurations are checked against.
pub(crate) fn context(modules: &[Module]) -> Context {
    Context::with_modules(
        modules
            .iter()
            .map(|m| (m.kind.as_str(), m.version.as_str())),
    )
}

/// A fault of something valid that cannot be had here and now.
pub(crate) fn fault(pointer: Pointer, message: String, hint: Option<String>) -> Diagnostic {
    let fault = Diagnostic::apply(pointer, message);
    match hint {
        Some(hint) => fault.suggest(hint),
        None => fault,
    }
}

/// Writes each fault of a configuration to the log.
pub(crate) fn log_faults(log: &Log, faults: &Diagnostics) {
    for fault in &faults.0 {
        let text = format!("configuration: {}{}", fault.place(), fault.detail());
        log.line(Level::Alert, &text);
    }
}
