//! `settings` and `access_log`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::routes::condition;
use super::{Builder, Reader, strings};
use crate::address::parse_name_server;
use crate::diagnostic::{Diagnostic, shorten};
use crate::document::{Node, Value};
use crate::model::{AccessLog, DEFAULT_LOG_FORMAT, Http, LogFormat, Resolver, Settings, WebSocket};
use crate::pointer::Pointer;
use crate::table::{ACCESS_LOG, HTTP, Object, RESOLVER, SETTINGS, TELEMETRY, WEBSOCKET};
use crate::template::Template;

/// An object that says nothing: all defaults.
pub(super) static NOTHING: Node = Node {
    value: Value::Null,
    span: crate::document::Span {
        source: 0,
        start: 0,
        end: 0,
    },
};

/// A member that is not there: all its defaults.
pub(super) fn nothing<'d>(parent: &Reader<'d>, name: &str, table: &'static Object) -> Reader<'d> {
    Reader {
        node: &NOTHING,
        table,
        pointer: parent.pointer.child(name),
    }
}

impl<'d> Builder<'d> {
    pub(super) fn settings(&mut self, given: Option<(&'d Node, &Pointer)>) -> Settings {
        let reader = match given {
            Some((node, pointer)) => Reader {
                node,
                table: &SETTINGS,
                pointer: pointer.clone(),
            },
            None => Reader {
                node: &NOTHING,
                table: &SETTINGS,
                pointer: Pointer::root().child("settings"),
            },
        };
        let http = reader
            .inner("http", &HTTP)
            .unwrap_or_else(|| nothing(&reader, "http", &HTTP));
        let listen_threads = reader
            .get("listen_threads")
            .map(|_| reader.count("listen_threads"));
        let (js_modules, modules) = self.js_modules(reader.get("js_module"));
        let telemetry = reader.inner("telemetry", &TELEMETRY);
        Settings {
            listen_threads,
            http: self.http(&http),
            resolver: self.resolver(&reader),
            js_modules,
            modules,
            telemetry: telemetry.and_then(|telemetry| self.telemetry(telemetry)),
        }
    }

    /// `settings.resolver`.
    fn resolver(&mut self, settings: &Reader<'d>) -> Resolver {
        let reader = settings
            .inner("resolver", &RESOLVER)
            .unwrap_or_else(|| nothing(settings, "resolver", &RESOLVER));
        let servers = reader.get("servers").map(|(node, _)| strings(node));
        let servers = servers.unwrap_or_default();
        let (min_ttl, max_ttl) = (reader.time("min_ttl"), reader.time("max_ttl"));
        let is_written = |name: &&str| reader.get(name).is_some();
        if min_ttl > max_ttl
            && let Some(name) = ["max_ttl", "min_ttl"].into_iter().find(is_written)
            && let Some((node, pointer)) = reader.get(name)
        {
            let message = format!(
                "`min_ttl` is {} seconds, more than `max_ttl` with {}",
                min_ttl.as_secs_f64(),
                max_ttl.as_secs_f64()
            );
            self.faults.value(Diagnostic::new(pointer, message), node);
        }
        Resolver {
            servers: servers.into_iter().filter_map(parse_name_server).collect(),
            timeout: reader.time("timeout"),
            min_ttl,
            max_ttl: max_ttl.max(min_ttl),
        }
    }

    fn http(&mut self, reader: &Reader<'d>) -> Http {
        let websocket = reader
            .inner("websocket", &WEBSOCKET)
            .unwrap_or_else(|| nothing(reader, "websocket", &WEBSOCKET));
        let response_bytes = reader
            .bytes("response_buffering")
            .or_else(|| reader.default("response_buffering").parse().ok());
        Http {
            header_read_timeout: reader.seconds("header_read_timeout"),
            body_read_timeout: reader.seconds("body_read_timeout"),
            send_timeout: reader.seconds("send_timeout"),
            idle_timeout: reader.seconds("idle_timeout"),
            drain_timeout: reader.given_seconds("drain_timeout"),
            max_body_size: reader.unsigned("max_body_size"),
            body_buffer_size: reader.unsigned("body_buffer_size"),
            body_temp_path: reader.path("body_temp_path"),
            response_buffering: response_bytes.unwrap_or(0),
            header_buffer_size: reader.size("header_buffer_size"),
            large_header_buffer_size: reader.size("large_header_buffer_size"),
            large_header_buffers: reader.size("large_header_buffers"),
            discard_unsafe_fields: reader.boolean("discard_unsafe_fields"),
            log_route: reader.boolean("log_route"),
            server_version: reader.boolean("server_version"),
            chunked_transform: reader.boolean("chunked_transform"),
            websocket: WebSocket {
                max_frame_size: websocket.unsigned("max_frame_size"),
                read_timeout: websocket.seconds("read_timeout"),
                keepalive_interval: websocket.seconds("keepalive_interval"),
            },
            compression: self.compression(reader),
            mime_types: self.mime_types(reader),
        }
    }

    /// Turned around: the file server looks for a type by extension. No extension can have two types.
    fn mime_types(&mut self, reader: &Reader<'d>) -> BTreeMap<String, String> {
        let mut types: BTreeMap<String, String> = BTreeMap::new();
        let mut known: BTreeMap<String, &str> = BTreeMap::new();
        let Some((node, pointer)) = reader
            .node
            .child("static")
            .and_then(|node| node.child("mime_types"))
            .map(|node| {
                let pointer = reader.pointer.child("static").child("mime_types");
                (node, pointer)
            })
        else {
            return types;
        };
        for member in node.members() {
            for extension in strings(&member.node) {
                types.insert(extension.to_owned(), member.name.to_string());
                // Names of files are compared without case.
                let Some(other) = known.insert(extension.to_ascii_lowercase(), &member.name) else {
                    continue;
                };
                if *other == *member.name {
                    continue;
                }
                let message = format!(
                    "`{}` has the type `{}` already",
                    shorten(extension),
                    shorten(other)
                );
                let diagnostic = Diagnostic::new(pointer.child(&member.name), message);
                self.faults.value(diagnostic, &member.node);
            }
        }
        types
    }

    pub(super) fn access_log(&mut self, node: &'d Node, pointer: Pointer) -> Option<AccessLog> {
        let default = || {
            Template::parse(DEFAULT_LOG_FORMAT)
                .ok()
                .map(LogFormat::Text)
        };
        if let Some(path) = node.as_str() {
            return Some(AccessLog {
                pointer,
                path: PathBuf::from(path),
                format: default()?,
                condition: None,
            });
        }
        let reader = Reader {
            node,
            table: &ACCESS_LOG,
            pointer,
        };
        let format = match reader.get("format") {
            None => default()?,
            Some((node, _)) => match &node.value {
                Value::String(text) => LogFormat::Text(Template::parse(text).ok()?),
                _ => LogFormat::Json(
                    node.members()
                        .iter()
                        .filter_map(|member| {
                            let template = Template::parse(member.node.as_str()?).ok()?;
                            Some((member.name.to_string(), template))
                        })
                        .collect(),
                ),
            },
        };
        let condition = reader.string("if").and_then(|text| condition(&text));
        Some(AccessLog {
            path: reader.path("path")?,
            format,
            condition,
            pointer: reader.pointer,
        })
    }
}
