//! The OpenAPI description of the control API: the parts beside the configuration, written by hand.
//!
//! Called by `cargo xtask` (which writes `spec/openapi.json`) and by the control API (`/schema/openapi.json`), whose
//! description contains no shared path items.

use serde_json::{Map, Value, json};

/// The whole description, OpenAPI 3.1.
pub fn openapi() -> Value {
    let answers = [("done", done()), ("failure", failure())];
    let answers = answers.map(|(name, schema)| (name.to_owned(), schema));
    tutti_config::openapi(paths(), answers.into_iter().collect())
}

/// The description as it is served.
pub(crate) fn served() -> Value {
    tutti_config::without_shared_paths(openapi())
}

fn read(tag: &str, summary: &str, schema: &Value) -> Value {
    json!({
        "tags": [tag],
        "summary": summary,
        "responses": {
            "200": {
                "description": "The value",
                "content": {"application/json": {"schema": schema}}
            },
            "default": {"$ref": "#/components/responses/failure"}
        }
    })
}

fn action(tag: &str, summary: &str) -> Value {
    json!({
        "tags": [tag],
        "summary": summary,
        "responses": {
            "200": {"$ref": "#/components/responses/done"},
            "default": {"$ref": "#/components/responses/failure"}
        }
    })
}

/// Paths of jobs.
fn spooler_paths() -> Map<String, Value> {
    let parameter = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}});
    let name = json!([parameter("name")]);
    let job = json!([parameter("name"), parameter("job")]);
    let entries = json!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["id", "method", "target", "body_size", "received", "failed", "attempts", "error"],
            "properties": {
                "id": {"type": "string"},
                "method": {"type": "string"},
                "target": {"type": "string"},
                "body_size": {"type": "integer"},
                "received": {"type": "integer"},
                "failed": {"type": "integer"},
                "attempts": {"type": "integer"},
                "error": {"type": "string"}
            }
        }
    });
    match json!({
        "/control/spoolers/{name}/failed": {
            "parameters": name,
            "get": read("server", "Failed jobs of a spooler, the oldest first, at most 1000", &entries),
            "delete": action("server", "Remove them")
        },
        "/control/spoolers/{name}/failed/{job}": {
            "parameters": job,
            "delete": action("server", "Remove one of them")
        },
        "/control/spoolers/{name}/failed/{job}/retry": {
            "parameters": job,
            "post": action("server", "Retry one of them")
        },
        "/control/spoolers/{name}/retry": {
            "parameters": name,
            "post": action("server", "Retry all of them")
        },
        "/control/spoolers/{name}/jobs": {
            "parameters": name,
            "delete": action("server", "Remove the remaining jobs of a spooler that is no longer in the configuration")
        }
    }) {
        Value::Object(paths) => paths,
        _ => Map::new(),
    }
}

/// Paths that are not in the option table.
fn paths() -> Map<String, Value> {
    let object = json!({"type": "object"});
    let text = json!({"type": "string"});
    let number = json!([{"name": "number", "in": "path", "required": true, "schema": {"type": "integer", "minimum": 1}}]);
    let entries = json!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["number", "time", "by", "change"],
            "properties": {
                "number": {"type": "integer"},
                "time": {"type": "string"},
                "by": {"type": "string"},
                "change": {"type": "string"}
            }
        }
    });
    let name = json!([{"name": "name", "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}]);
    let paths = json!({
        "/": {"get": read("server", "Everything there is", &object)},
        "/status": {"get": read("server", "Counters of connections, requests and applications, and the parts of the configuration that are not in force", &object)},
        "/metrics": {"get": {
            "tags": ["server"],
            "summary": "Metrics, in the format that `Accept` asks for",
            "responses": {
                "200": {"description": "The metrics", "content": {
                    "text/plain": {"schema": text},
                    "application/openmetrics-text": {"schema": text},
                    "application/vnd.google.protobuf": {"schema": text}
                }},
                "default": {"$ref": "#/components/responses/failure"}
            }
        }},
        "/control/applications/{name}/restart": {
            "parameters": name,
            "get": action("server", "Replace an application's processes (the path of NGINX Unit)"),
            "post": action("server", "Replace an application's processes")
        },
        "/control/certificates/{name}/renew": {
            "parameters": name,
            "get": action("stored", "Same as `POST`, which is the better method for a change"),
            "post": action("stored", "Order a new certificate from its authority, or reload it from its files; the response comes when it is in force")
        },
        "/control/reload": {"post": action("configuration", "Reload the files of `--config`")},
        "/control/upgrade": {"post": action("server", "Upgrade to the program now installed at this one's path")},
        "/control/stop": {"post": action("server", "Stop after the requests in progress are answered")},
        "/control/stop/quick": {"post": action("server", "Stop immediately")},
        "/history": {"get": read("history", "The last changes, newest first", &entries)},
        "/history/{number}": {
            "parameters": number,
            "get": read("history", "The configuration after a change", &object)
        },
        "/history/{number}/restore": {
            "parameters": number,
            "post": action("history", "Restore that configuration")
        },
        "/schema/openapi.json": {"get": read("configuration", "This description", &object)}
    });
    let mut paths = match paths {
        Value::Object(paths) => paths,
        _ => Map::new(),
    };
    paths.insert("/control/maintenance".to_owned(), maintenance());
    paths.append(&mut spooler_paths());
    paths.append(&mut cache_paths());
    paths.append(&mut stored_paths());
    let schema = json!({
        "tags": ["configuration"],
        "summary": "JSON Schema of the configuration, for editors",
        "responses": {
            "200": {
                "description": "The schema",
                "content": {"application/schema+json": {"schema": object}}
            },
            "default": {"$ref": "#/components/responses/failure"}
        }
    });
    paths.insert("/schema".to_owned(), json!({"get": schema}));
    paths
}

/// The path of the maintenance.
fn maintenance() -> Value {
    let object = json!({"type": "object"});
    let mut put = action("server", "Start maintenance: requests get 503");
    if let Value::Object(put) = &mut put {
        let body = json!({"required": false, "content": {"application/json": {"schema": object}}});
        put.insert("requestBody".to_owned(), body);
    }
    json!({
        "get": read("server", "The options of the maintenance; 404 while there is none", &object),
        "put": put,
        "delete": action("server", "End maintenance")
    })
}

/// Paths of stores of responses.
fn cache_paths() -> Map<String, Value> {
    let parameter = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}});
    let with = |name: &str| json!([parameter("name"), parameter(name)]);
    match json!({
        "/control/cache/{name}": {
            "parameters": [parameter("name")],
            "delete": action("server", "Remove all responses of a store")
        },
        "/control/cache/{name}/keys/{key}": {
            "parameters": with("key"),
            "delete": action("server", "Remove the responses with this key")
        },
        "/control/cache/{name}/prefixes/{prefix}": {
            "parameters": with("prefix"),
            "delete": action("server", "Remove the responses whose keys begin with this")
        },
        "/control/cache/{name}/tags/{tag}": {
            "parameters": with("tag"),
            "delete": action("server", "Remove the responses with this tag")
        }
    }) {
        Value::Object(paths) => paths,
        _ => Map::new(),
    }
}

/// Paths of objects that are stored beside the configuration.
fn stored_paths() -> Map<String, Value> {
    let object = json!({"type": "object"});
    let text = json!({"type": "string"});
    let any_name = json!({"type": "string", "minLength": 1});
    let script_name = json!({"type": "string", "pattern": "^[A-Za-z_$][A-Za-z0-9_$]*$"});
    let stores = [
        (
            "/certificates",
            "certificate bundle",
            "application/x-pem-file",
            &object,
            &any_name,
        ),
        (
            "/js_modules",
            "script module",
            "text/javascript",
            &text,
            &script_name,
        ),
    ];
    let mut paths = Map::new();
    for (section, what, media_type, schema, name) in stores {
        let all = json!({"type": "object", "additionalProperties": schema});
        let get = read("stored", &format!("Every {what}, by name"), &all);
        paths.insert(section.to_owned(), json!({"get": get}));
        let mut put = action("stored", &format!("Store a {what}, or replace it"));
        if let Value::Object(put) = &mut put {
            let body = json!({"required": true, "content": {media_type: {"schema": text}}});
            put.insert("requestBody".to_owned(), body);
        }
        let one = json!({
            "parameters": [{"name": "name", "in": "path", "required": true, "schema": name}],
            "get": read("stored", &format!("A {what}"), schema),
            "put": put,
            "delete": action("stored", &format!("Delete a {what} that the configuration does not name"))
        });
        paths.insert(format!("{section}/{{name}}"), one);
    }
    paths
}

fn done() -> Value {
    json!({
        "type": "object",
        "required": ["success"],
        "properties": {
            "success": {"type": "string"},
            "warnings": {"description": "Parts that are valid, but likely a mistake", "type": "array", "items": fault()}
        }
    })
}

fn fault() -> Value {
    json!({
        "type": "object",
        "required": ["pointer", "message"],
        "properties": {
            "pointer": {"type": "string", "description": "JSON pointer (RFC 6901) into the configuration"},
            "message": {"type": "string"},
            "value": {"type": "string"},
            "expected": {"type": "string"},
            "suggestion": {"type": "string"},
            "file": {"type": "string"},
            "offset": {"type": "integer"},
            "length": {"type": "integer"},
            "line": {"type": "integer"},
            "column": {"type": "integer"}
        }
    })
}

fn failure() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {"type": "string", "description": "The kind of failure"},
            "detail": {"type": "string", "description": "The first fault, in a sentence"},
            "location": {"type": "object", "description": "Position of the first fault in the request body"},
            "path": {"type": "string", "description": "JSON pointer of the first fault; for an unknown option, of the object that contains it"},
            "suggestion": {"type": "string", "description": "The likely option, if the first fault is a misspelt one"},
            "errors": {"type": "array", "description": "The first hundred faults, and how many more there are", "items": fault()}
        }
    })
}
