//! Template literals: gives `tutti-script` access to the values of a request.

use tutti_config::model::{PLAIN_VARIABLES, Variable};
use tutti_script::{EvaluatedPart, Modules, Values};

use crate::fields;
use crate::info::RequestInfo;
use crate::variables;

/// A script has no value for a request: it threw, or exceeded a limit. The caller decides what that means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptFailed;

/// Appends the value of a script; notifies the request if it failed.
pub(crate) fn value<R: RequestInfo + ?Sized>(
    source: &str,
    request: &R,
    out: &mut Vec<u8>,
) -> Result<(), ScriptFailed> {
    tutti_script::evaluate(modules(request), source, &ScriptRequest(request), out).map_err(
        |failure| {
            request.script_failed(source, &failure);
            ScriptFailed
        },
    )
}

/// Calls `each` with the texts and the values of a script, in order; notifies the request if it failed.
pub(crate) fn parts<R: RequestInfo + ?Sized>(
    source: &str,
    request: &R,
    each: &mut dyn FnMut(EvaluatedPart<'_>),
) -> Result<(), ScriptFailed> {
    let view = ScriptRequest(request);
    tutti_script::evaluate_parts(modules(request), source, &view, each).map_err(|failure| {
        request.script_failed(source, &failure);
        ScriptFailed
    })
}

fn modules<R: RequestInfo + ?Sized>(request: &R) -> &Modules {
    static NONE: std::sync::LazyLock<Modules> = std::sync::LazyLock::new(Modules::default);
    request.modules().unwrap_or(&NONE)
}

/// A request, as a script reads it.
struct ScriptRequest<'a, R: ?Sized>(&'a R);

impl<R: RequestInfo + ?Sized> Values for ScriptRequest<'_, R> {
    fn uri(&self) -> Vec<u8> {
        self.0.path().to_vec()
    }
    fn host(&self) -> Vec<u8> {
        self.0.host().to_vec()
    }
    fn remote_address(&self) -> Vec<u8> {
        let mut address = Vec::new();
        variables::value(&Variable::RemoteAddr, self.0, &mut address);
        address
    }
    fn each_argument(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        fields::all_arguments(self.0.query().unwrap_or_default(), each);
    }
    fn each_cookie(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        self.0
            .each_field(b"cookie", &mut |field| fields::all_cookies(field, each));
    }
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        self.0.each_header(each);
    }
    fn each_response_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        if let Some(response) = self.0.response() {
            response.each_header(each);
        }
    }
    fn each_variable(&self, each: &mut dyn FnMut(&str, &[u8])) {
        let mut value = Vec::new();
        for plain in PLAIN_VARIABLES {
            value.clear();
            variables::value(&plain.variable, self.0, &mut value);
            each(plain.name, &value);
        }
    }
}
