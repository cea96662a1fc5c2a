//! Applications of all languages that answer with what they are sent, for the tests of each version of HTTP.

use serde_json::{Value, json};
use tutti_testkit::{Server, ServerOptions};

use crate::external::build;
use crate::{tls, wasm};

/// Their names; `/NAME/` leads to each.
pub const NAMES: [&str; 8] = ["php", "wsgi", "asgi", "psgi", "go", "rack", "node", "wasm"];

/// The sources of those that are one file.
const SOURCES: [(&str, &str); 6] = [
    ("echo.php", "<?php readfile('php://input');"),
    (
        "wsgi_echo.py",
        "def application(environ, start_response):\n\
         \x20   body = environ['wsgi.input'].read()\n\
         \x20   start_response('200 OK', [('Content-Length', str(len(body)))])\n\
         \x20   return [body]\n",
    ),
    (
        "asgi_echo.py",
        "async def application(scope, receive, send):\n\
         \x20   more, body = True, b''\n\
         \x20   while more:\n\
         \x20       message = await receive()\n\
         \x20       more, body = message.get('more_body'), body + message['body']\n\
         \x20   await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n\
         \x20   await send({'type': 'http.response.body', 'body': body})\n",
    ),
    (
        "echo.psgi",
        "sub {\n\
         \x20   my ($environ) = @_;\n\
         \x20   my ($body, $piece) = ('');\n\
         \x20   $body .= $piece while $environ->{'psgi.input'}->read($piece, 65536);\n\
         \x20   return [200, [], [$body]];\n\
         };\n",
    ),
    (
        "config.ru",
        "run lambda { |env| [200, {}, [env['rack.input'] ? env['rack.input'].read : '']] }\n",
    ),
    (
        "echo.js",
        "require('node:http').createServer((request, response) => request.pipe(response)).listen(0);\n",
    ),
];

/// A server with all of them behind this listener; the certificate `site` is there.
pub fn site(listener: &Value) -> Server {
    let server = Server::start(&ServerOptions::default());
    tls::certificate(&server);
    let folder = server.folder();
    for (name, source) in SOURCES {
        server.write(name, source);
    }
    let program = folder.join("echo");
    build("tests/conformance/go", &program);
    let component = std::fs::read(wasm::rust()).expect("the component");
    let component = server.write("echo.wasm", component);
    let routes = NAMES.map(|name| {
        json!({"match": {"uri": format!("/{name}/*")}, "action": {"rewrite": "/echo", "pass": format!("applications/{name}")}})
    });
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): listener},
            "routes": routes,
            "applications": {
                "php": {"type": "php", "root": folder, "script": "echo.php", "processes": 2},
                "wsgi": {"type": "python", "path": folder, "module": "wsgi_echo", "processes": 2},
                "asgi": {"type": "python", "path": folder, "module": "asgi_echo", "processes": 1},
                "psgi": {"type": "perl", "script": folder.join("echo.psgi"), "processes": 2},
                "go": {"type": "external", "executable": program, "processes": 2},
                "rack": {"type": "ruby", "script": folder.join("config.ru"), "processes": 1},
                "node": {"type": "node", "working_directory": folder, "script": "echo.js", "processes": 1},
                "wasm": {"type": "wasm-wasi-component", "component": component, "processes": 1}
            },
            "settings": {"http": {"max_body_size": 16 << 20}}
        }),
    );
    server
}
