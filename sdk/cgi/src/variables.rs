//! The environment of a script: the variables of CGI, `PATH`, and the option `environment`, which takes precedence; nothing else.

use tutti_gateway::cgi::{CgiRequest, ScriptLocation, variables};
use tutti_worker::WireRequestView;

use crate::scripts::{Script, Target};

/// `SERVER_SOFTWARE`.
const SOFTWARE: &[u8] = concat!("Tutti/", env!("CARGO_PKG_VERSION")).as_bytes();

/// Calls `each` with the name and the value of each variable of a request, except those that are `left_out`.
pub(crate) fn each_variable(
    request: &WireRequestView<'_>,
    target: &Target,
    script: &Script,
    left_out: impl Fn(&[u8]) -> bool,
    each: &mut impl FnMut(&[u8], &[u8]),
) {
    let fields: Vec<(&[u8], &[u8])> = request.fields().collect();
    let cgi = CgiRequest {
        method: request.method(),
        target: request.target(),
        query: request.query(),
        protocol: request.protocol().as_bytes(),
        is_https: request.tls(),
        remote_address: request.remote_address(),
        remote_port: request.remote_port(),
        local_address: request.local_address(),
        local_port: request.local_port(),
        server_name: request.server_name(),
        software: SOFTWARE,
        user: request.user(),
        content_length: request.content_length(),
        fields: &fields,
    };
    let location = ScriptLocation {
        root: Some(&target.root),
        script_name: &script.name,
        path_info: script.path_info_at.and_then(|at| request.path().get(at..)),
    };
    // `SCRIPT_NAME` may begin with a prefix, which is not a part of the file's name.
    const FILE: &[u8] = b"SCRIPT_FILENAME";
    let is_left_out = |name: &[u8]| name == FILE || left_out(name);
    variables(
        &cgi,
        &location,
        is_left_out,
        &mut |name: &[u8], parts: &[&[u8]]| {
            let value = parts.concat();
            // RFC 3875 §4.1.2 and §4.1.3: they exist if there is a body.
            if !(value.is_empty() && name.starts_with(b"CONTENT_")) {
                each(name, &value);
            }
        },
    );
    if !left_out(FILE) {
        each(FILE, script.file.as_os_str().as_encoded_bytes());
    }
}
