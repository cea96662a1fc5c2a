//! Template literals: gives `tutti-script` access to the values of a request.

use tutti_config::model::{PLAIN_VARIABLES, ScriptPart, Variable};
use tutti_script::{EvaluatedPart, Modules, Values};

use crate::fields;
use crate::info::RequestInfo;
use crate::variables;

/// A script has no value for a request: it threw, or exceeded a limit. The caller decides what that means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptFailed;

/// Appends the value of a script; notifies the request if it failed.
pub(crate) fn value<R: RequestInfo + ?Sized>(
    script: &ScriptPart,
    maps: MapValues,
    request: &R,
    out: &mut Vec<u8>,
) -> Result<(), ScriptFailed> {
    let view = ScriptRequest { request, maps };
    let evaluated = tutti_script::evaluate(modules(request), &script.source, &view, out);
    evaluated.map_err(|failure| {
        request.script_failed(&script.source, &failure);
        ScriptFailed
    })
}

/// Calls `each` with the texts and the values of a script, in order; notifies the request if it failed.
pub(crate) fn parts<R: RequestInfo + ?Sized>(
    script: &ScriptPart,
    maps: MapValues,
    request: &R,
    each: &mut dyn FnMut(EvaluatedPart<'_>),
) -> Result<(), ScriptFailed> {
    let view = ScriptRequest { request, maps };
    let evaluated = tutti_script::evaluate_parts(modules(request), &script.source, &view, each);
    evaluated.map_err(|failure| {
        request.script_failed(&script.source, &failure);
        ScriptFailed
    })
}

fn modules<R: RequestInfo + ?Sized>(request: &R) -> &Modules {
    static NONE: std::sync::LazyLock<Modules> = std::sync::LazyLock::new(Modules::default);
    request.modules().unwrap_or(&NONE)
}

/// The variables of the maps that a script names, with their values.
pub(crate) type MapValues = Vec<(String, Vec<u8>)>;

/// A request, as a script reads it.
struct ScriptRequest<'a, R: ?Sized> {
    request: &'a R,
    maps: MapValues,
}

impl<R: RequestInfo + ?Sized> Values for ScriptRequest<'_, R> {
    fn uri(&self) -> Vec<u8> {
        self.request.path().to_vec()
    }
    fn host(&self) -> Vec<u8> {
        self.request.host().to_vec()
    }
    fn remote_address(&self) -> Vec<u8> {
        let mut address = Vec::new();
        variables::value(&Variable::RemoteAddr, self.request, &mut address);
        address
    }
    fn each_argument(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        fields::all_arguments(self.request.query().unwrap_or_default(), each);
    }
    fn each_cookie(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        self.request
            .each_field(b"cookie", &mut |field| fields::all_cookies(field, each));
    }
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        self.request.each_header(each);
    }
    fn each_response_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        if let Some(response) = self.request.response() {
            response.each_header(each);
        }
    }
    fn each_variable(&self, each: &mut dyn FnMut(&str, &[u8])) {
        let mut value = Vec::new();
        for plain in PLAIN_VARIABLES {
            value.clear();
            variables::value(&plain.variable, self.request, &mut value);
            each(plain.name, &value);
        }
        for (name, value) in &self.maps {
            each(name, value);
        }
    }
}
