//! The stored script modules that the configuration may name.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tutti_config::model::StoredName;
use tutti_config::{Config, Diagnostic, Location, Pointer};
use tutti_script::{CompileError, Modules, ScriptModule};

/// Reads the stored ones. Whether one can be loaded is checked when it is named.
pub fn read(stored: &BTreeMap<String, String>) -> Modules {
    let modules = stored.iter().map(|(name, source)| ScriptModule {
        name: name.as_str().into(),
        source: source.as_str().into(),
    });
    Modules::new(modules.collect())
}

/// The content of `/js_modules`: the text of each.
pub fn description(modules: &Modules) -> Value {
    let modules = modules.iter();
    let texts = modules.map(|module| (module.name.to_string(), Value::from(&*module.source)));
    Value::Object(texts.collect::<Map<_, _>>())
}

/// Returns the places where a configuration names a module.
pub fn places(config: &Config, name: &str) -> Vec<String> {
    let named = config.settings.js_modules.iter();
    let is_it = |module: &&StoredName| module.name == name;
    named
        .filter(is_it)
        .map(|module| module.pointer.as_str().to_owned())
        .collect()
}

/// Returns the module that was uploaded as `name`.
pub fn parse(name: &str, bytes: &[u8]) -> Result<ScriptModule, Box<Diagnostic>> {
    match std::str::from_utf8(bytes) {
        Ok(source) => Ok(ScriptModule {
            name: name.into(),
            source: source.into(),
        }),
        Err(error) => {
            let message = format!("the module is not UTF-8 at byte {}", error.valid_up_to());
            Err(Box::new(Diagnostic::new(Pointer::default(), message)))
        }
    }
}

/// Returns a fault for the client of `/js_modules`, with its position in the upload.
pub fn fault(fault: &CompileError, sent: &ScriptModule) -> Box<Diagnostic> {
    let is_here = fault.module.as_ref().is_none_or(|name| *name == sent.name);
    let message = match (&fault.module, fault.place) {
        (Some(name), Some((line, column))) if !is_here => format!(
            "with it module `{name}` cannot be loaded: {} (line {line}, column {column} there)",
            fault.message
        ),
        (Some(name), _) if !is_here => {
            format!(
                "with it module `{name}` cannot be loaded: {}",
                fault.message
            )
        }
        _ => fault.message.clone(),
    };
    let mut diagnostic = Diagnostic::new(Pointer::default(), message);
    diagnostic.suggestion = fault.hint.map(str::to_owned);
    if is_here
        && let (Some((line, column)), Some(offset)) = (fault.place, fault.offset(&sent.source))
    {
        let location = Location {
            offset,
            length: 1,
            line,
            column,
        };
        diagnostic.location = Some(location);
        diagnostic.message = format!("{} at line {line}, column {column}", diagnostic.message);
    }
    Box::new(diagnostic)
}
