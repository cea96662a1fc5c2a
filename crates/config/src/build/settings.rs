//! `settings` and `access_log`.

use std::collections::BTreeMap;

use tutti_document::{Diagnostic, Pointer, TreeNode, Value, shorten};

use super::builder::Builder;
use super::reader::{Reader, strings};
use crate::model::{
    AccessLog, Compression, CompressionLevel, Http, HttpLevel, LogFormat, LogTarget, LogValue,
    RequestId, Resolver, Settings, SlowLog,
};
use crate::table::{
    AccessLogOptions, HTTP_LISTENER, HttpConnectionOptions, HttpListenerOptions, HttpOptions,
    HttpRequestOptions, LogNumberOptions, Object, RequestIdOptions, ResolverOptions,
    SettingsOptions, SlowLogOptions, Static, WEBSOCKET,
};
use crate::template::Template;

impl<'d> Builder<'d> {
    pub(super) fn settings(&mut self, reader: &Reader<'d>) -> Settings {
        let options: SettingsOptions = reader.read();
        let (js_modules, modules) = self.js_modules(reader.get(&SettingsOptions::js_module));
        let telemetry = reader.inner(&SettingsOptions::telemetry);
        let dashboard = reader.inner(&SettingsOptions::dashboard);
        Settings {
            listen_threads: options.listen_threads,
            http: self.http(&reader.inner_or_nothing(&SettingsOptions::http)),
            resolver: self.resolver(&reader.inner_or_nothing(&SettingsOptions::resolver)),
            kubernetes: self.kubernetes(&reader.inner_or_nothing(&SettingsOptions::kubernetes)),
            caches: self.cache_stores(reader),
            limit_stores: self.limit_stores(reader),
            js_modules,
            modules,
            telemetry: telemetry.and_then(|telemetry| self.telemetry(telemetry)),
            maintenance: self.maintenance(reader, &SettingsOptions::maintenance),
            dashboard: dashboard.and_then(|dashboard| self.dashboard(dashboard)),
            acme: self.acme_accounts(reader.get(&SettingsOptions::acme)),
            source: reader
                .inner(&SettingsOptions::source)
                .and_then(|source| self.source(&source)),
        }
    }

    fn resolver(&mut self, reader: &Reader<'d>) -> Resolver {
        let mut options: ResolverOptions = reader.read();
        let bounds = [&ResolverOptions::max_ttl, &ResolverOptions::min_ttl];
        if options.min_ttl > options.max_ttl
            && let Some((node, pointer)) = bounds.into_iter().find_map(|bound| reader.get(bound))
        {
            let message = format!(
                "`min_ttl` is {} seconds, more than `max_ttl` with {}",
                options.min_ttl.as_secs_f64(),
                options.max_ttl.as_secs_f64()
            );
            self.wrong(node, pointer, message);
        }
        options.max_ttl = options.max_ttl.max(options.min_ttl);
        Resolver::from(options)
    }

    fn http(&mut self, reader: &Reader<'d>) -> Http {
        let options: HttpOptions = reader.read();
        let compression = self.compression(reader);
        let files = reader.inner(&HttpOptions::files);
        Http {
            request_id: request_id(reader, &options.connection),
            compression: (compression != CompressionLevel::default())
                .then(|| Compression::default().with(&compression)),
            mime_types: self.mime_types(files.and_then(|files| files.get(&Static::mime_types))),
            options,
        }
    }

    /// `http` of a listener or an action.
    pub(super) fn http_level(&mut self, reader: &Reader<'d>) -> HttpLevel {
        let options: HttpListenerOptions = reader.read();
        let websocket = reader.inner_or_nothing(&HttpRequestOptions::websocket);
        HttpLevel {
            request_id: request_id(reader, &options.connection),
            compression: self.compression(reader),
            given: given(reader, &HTTP_LISTENER),
            given_websocket: given(&websocket, &WEBSOCKET),
            options,
        }
    }

    /// Inverts the map, because the file server looks up a type by extension. No extension can have two types.
    pub(super) fn mime_types(
        &mut self,
        given: Option<(&'d TreeNode, Pointer)>,
    ) -> BTreeMap<String, String> {
        let mut types: BTreeMap<String, String> = BTreeMap::new();
        let mut known: BTreeMap<String, &str> = BTreeMap::new();
        let Some((node, pointer)) = given else {
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

    pub(super) fn access_log(&mut self, node: &'d TreeNode, pointer: Pointer) -> Option<AccessLog> {
        if let Some(path) = node.as_str() {
            return Some(AccessLog {
                pointer,
                target: LogTarget::parse(path)?,
                format: LogFormat::default(),
                condition: None,
            });
        }
        let reader = Reader::new(node, pointer);
        let format = match reader.get(&AccessLogOptions::format) {
            None => LogFormat::default(),
            Some((node, _)) => log_format(node)?,
        };
        Some(AccessLog {
            target: LogTarget::parse(reader.text(&AccessLogOptions::path)?)?,
            format,
            condition: reader.condition(&AccessLogOptions::condition),
            pointer: reader.pointer,
        })
    }
}

pub(super) fn slow_log(reader: &Reader<'_>) -> Option<SlowLog> {
    let options: SlowLogOptions = reader.read();
    Some(SlowLog {
        target: LogTarget::parse(reader.text(&SlowLogOptions::path)?)?,
        options,
        pointer: reader.pointer.clone(),
    })
}

fn request_id(reader: &Reader<'_>, options: &HttpConnectionOptions) -> Option<RequestId> {
    let source = reader
        .inner(&HttpConnectionOptions::request_id)
        .and_then(|given| given.addresses(&RequestIdOptions::source));
    let options = options.request_id.clone().on()?;
    Some(RequestId { source, options })
}

/// The names of the options of an object that are present.
fn given(reader: &Reader<'_>, table: &Object) -> Vec<&'static str> {
    let present = table.all().filter(|option| reader.has(option));
    present.map(|option| option.name).collect()
}

fn log_format(node: &TreeNode) -> Option<LogFormat> {
    if let Value::String(text) = &node.value {
        return Template::parse(text).ok().map(LogFormat::Text);
    }
    let members = node
        .members()
        .iter()
        .filter_map(|member| Some((member.name.to_string(), log_value(&member.node)?)));
    Some(LogFormat::Json(members.collect()))
}

fn log_value(node: &TreeNode) -> Option<LogValue> {
    let (text, is_number) = match node.as_str() {
        Some(text) => (text, false),
        None => {
            let number = node.child(LogNumberOptions::number.name)?;
            (number.as_str()?, true)
        }
    };
    Some(LogValue {
        template: Template::parse(text).ok()?,
        is_number,
    })
}
