//! From a document to the typed configuration, and what concerns several places at once: destinations that must
//! exist, modules that must be installed, numbers that must fit each other.
//!
//! Second half of validation. It runs also when the first half found faults, so it takes what it can read and leaves
//! out the rest without a word: what cannot be read has been reported already. Its result counts only if there are
//! no faults at all.

mod applications;
mod compression;
mod forwarded;
mod gateways;
mod pass;
mod routes;
mod settings;
mod stored;
mod telemetry;
mod tls;
mod upstreams;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::check::{self, Faults};
use crate::context::Context;
use crate::diagnostic::{Diagnostic, Diagnostics, shorten};
use crate::document::{Document, Member, Node, Value};
use crate::model::{Config, Http2, Listener, Pass};
use crate::pointer::Pointer;
use crate::table::{HTTP2, LISTENER, Object, PROXY_PROTOCOL, ROOT};
use crate::template::Template;

use self::pass::Sections;
pub(crate) use self::routes::patterns;

/// Checks a document and makes the typed configuration of it.
///
/// # Errors
/// Every fault, in the order of the document as far as they were sent.
pub fn validate(document: &Document, context: &Context) -> Result<Config, Diagnostics> {
    let mut faults = Faults::new(document);
    check::check(document, &mut faults);
    let mut builder = Builder {
        root: document.root(),
        sections: Sections::of(document.root()),
        context,
        faults,
    };
    let config = builder.config();
    let mut list = builder.faults.list;
    let more = builder.faults.more;
    if list.is_empty() {
        return Ok(config);
    }
    list.sort_by(|a, b| {
        let place = |fault: &Diagnostic| fault.location.map(|location| location.offset);
        (&a.file, place(a)).cmp(&(&b.file, place(b)))
    });
    if more > 0 {
        list.push(Diagnostic::more(more));
    }
    Err(Diagnostics(list))
}

struct Builder<'d> {
    root: &'d Node,
    sections: Sections<'d>,
    context: &'d Context,
    faults: Faults<'d>,
}

/// A value, its options, and where it is.
#[derive(Clone)]
struct Reader<'d> {
    node: &'d Node,
    table: &'static Object,
    pointer: Pointer,
}

impl<'d> Builder<'d> {
    fn config(&mut self) -> Config {
        let root = Reader {
            node: self.root,
            table: &ROOT,
            pointer: Pointer::root(),
        };
        let mut config = Config::default();
        if let Some((node, pointer)) = root.get("listeners") {
            config.listeners = self.listeners(node, &pointer);
        }
        if let Some((node, pointer)) = root.get("routes") {
            config.routes = self.routes(node, &pointer);
        }
        if let Some((node, pointer)) = root.get("applications") {
            for member in node.members() {
                let application = self.application(member, pointer.child(&member.name));
                if let Some(application) = application {
                    config
                        .applications
                        .insert(member.name.to_string(), Arc::new(application));
                }
            }
        }
        if let Some((node, pointer)) = root.get("upstreams") {
            config.upstreams = self.upstreams(node, &pointer);
        }
        let settings = root.get("settings");
        config.settings = self.settings(settings.as_ref().map(|(node, pointer)| (*node, pointer)));
        config.access_log = root
            .get("access_log")
            .and_then(|(node, pointer)| self.access_log(node, pointer));
        config
    }

    fn listeners(&mut self, node: &'d Node, pointer: &Pointer) -> Vec<Listener> {
        let mut listeners: Vec<Listener> = Vec::new();
        let mut addresses: BTreeMap<crate::model::ListenAddress, String> = BTreeMap::new();
        for member in node.members() {
            let reader = Reader {
                node: &member.node,
                table: &LISTENER,
                pointer: pointer.child(&member.name),
            };
            let pass = match (reader.get("pass"), reader.get("application")) {
                (Some((node, pointer)), _) => self.pass(node, pointer),
                (None, Some((node, pointer))) => self.named_application(node, pointer),
                (None, None) => None,
            };
            let Ok(address) = member.name.parse() else {
                continue;
            };
            let name = member.name.to_string();
            if let Some(other) = addresses.insert(address, name.clone()) {
                let message = format!(
                    "`{}` is the same address as `{}`",
                    shorten(&name),
                    shorten(&other)
                );
                self.faults
                    .name(Diagnostic::new(reader.pointer.clone(), message), member);
            }
            let backlog = i32::try_from(reader.integer("backlog"))
                .ok()
                .filter(|backlog| *backlog >= 0);
            let forwarded = self.forwarded(&reader);
            let tls = self.tls(&reader);
            let Ok(address) = member.name.parse() else {
                continue;
            };
            if let Some(pass) = pass {
                let proxies = reader.inner("proxy_protocol", &PROXY_PROTOCOL);
                listeners.push(Listener {
                    proxy_protocol: proxies
                        .and_then(|proxies| proxies.get("source"))
                        .map(|(node, _)| routes::trusted(node)),
                    pointer: reader.pointer.clone(),
                    name,
                    address,
                    pass,
                    backlog,
                    forwarded,
                    tls,
                    http2: http2(&reader),
                });
            }
        }
        listeners
    }

    /// A destination; those without variables must exist.
    fn pass(&mut self, node: &'d Node, pointer: Pointer) -> Option<Pass> {
        let template = Template::parse(node.as_str()?).ok()?;
        self.resolved(pass::resolve(&self.sections, &template), node, pointer)
    }

    /// `application` of a listener, which is a name and not a destination.
    fn named_application(&mut self, node: &'d Node, pointer: Pointer) -> Option<Pass> {
        let named = pass::application(&self.sections, node.as_str()?, None);
        self.resolved(named.map(Pass::Fixed), node, pointer)
    }

    fn resolved(
        &mut self,
        resolved: Result<Pass, pass::Fault>,
        node: &'d Node,
        pointer: Pointer,
    ) -> Option<Pass> {
        match resolved {
            Ok(pass) => Some(pass),
            Err(_) if self.faults.has(node) => None,
            Err(fault) if self.is_consequence(&fault) => None,
            Err(fault) => {
                let mut diagnostic = Diagnostic::new(pointer, fault.message);
                diagnostic.suggestion = fault.suggestion;
                diagnostic.expected = fault.expected;
                self.faults.value(diagnostic, node);
                None
            }
        }
    }
}

impl Builder<'_> {
    /// Whether what a destination lacks is in the configuration under a name or in a form that has been reported.
    fn is_consequence(&self, fault: &pass::Fault) -> bool {
        let Some(section) = fault.section else {
            return false;
        };
        let sent = self.root.child(section);
        let is_faulty = sent.is_some_and(|node| self.faults.has(node));
        is_faulty
            || sent.is_none() && check::is_misspelt(self.root, &ROOT, section)
            || fault.is_target_misspelt
    }
}

/// `http2` of a listener.
fn http2(listener: &Reader<'_>) -> Option<Http2> {
    if !listener.boolean("http2") {
        return None;
    }
    let limits = listener.inner("http2", &HTTP2);
    let limits = limits.filter(|limits| matches!(limits.node.value, Value::Object(_)));
    Some(limits.map_or_else(Http2::default, |limits| Http2 {
        max_concurrent_streams: limits.count("max_concurrent_streams"),
        stream_window_size: limits.count("stream_window_size"),
        connection_window_size: limits.count("connection_window_size"),
    }))
}

impl<'d> Reader<'d> {
    fn get(&self, name: &str) -> Option<(&'d Node, Pointer)> {
        self.node
            .child(name)
            .map(|node| (node, self.pointer.child(name)))
    }

    fn member(&self, name: &str) -> Option<&'d Member> {
        self.node
            .members()
            .iter()
            .find(|member| *member.name == *name)
    }

    fn inner(&self, name: &str, table: &'static Object) -> Option<Reader<'d>> {
        self.get(name).map(|(node, pointer)| Reader {
            node,
            table,
            pointer,
        })
    }

    /// The default of an option, from the table.
    fn default(&self, name: &str) -> &'static str {
        self.table.option(name).map_or("", |option| option.default)
    }

    fn integer(&self, name: &str) -> i64 {
        let given = self.node.child(name).and_then(|node| match node.as_str() {
            Some(text) => i64::try_from(tutti_options::size::parse(text)?).ok(),
            None => node.whole_number(),
        });
        given.unwrap_or_else(|| self.default(name).parse().unwrap_or(0))
    }

    fn unsigned(&self, name: &str) -> u64 {
        u64::try_from(self.integer(name)).unwrap_or(0)
    }

    fn count(&self, name: &str) -> u32 {
        u32::try_from(self.integer(name)).unwrap_or(0)
    }

    fn size(&self, name: &str) -> usize {
        usize::try_from(self.integer(name)).unwrap_or(0)
    }

    /// A size, if one is given.
    fn bytes(&self, name: &str) -> Option<u64> {
        self.node.child(name)?;
        u64::try_from(self.integer(name)).ok()
    }

    fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs(self.unsigned(name))
    }

    /// A time without a default.
    fn given_seconds(&self, name: &str) -> Option<Duration> {
        self.node.child(name).map(|_| self.seconds(name))
    }

    /// A time that need not be whole.
    fn time(&self, name: &str) -> Duration {
        Duration::try_from_secs_f64(self.number(name)).unwrap_or_default()
    }

    fn number(&self, name: &str) -> f64 {
        let given = match self.node.child(name).map(|node| &node.value) {
            Some(Value::Number(text)) => text.parse().ok(),
            _ => None,
        };
        given.unwrap_or_else(|| self.default(name).parse().unwrap_or(0.0))
    }

    fn boolean(&self, name: &str) -> bool {
        match self.node.child(name).map(|node| &node.value) {
            Some(Value::Bool(value)) => *value,
            _ => self.default(name) == "true",
        }
    }

    fn string(&self, name: &str) -> Option<String> {
        self.node
            .child(name)
            .and_then(Node::as_str)
            .map(str::to_owned)
    }

    /// The string, or the default of the table.
    fn text(&self, name: &str) -> String {
        self.string(name)
            .unwrap_or_else(|| self.default(name).trim_matches('"').to_owned())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.string(name).map(PathBuf::from)
    }

    /// A template; an empty string is none.
    fn some_template(&self, name: &str) -> Option<Template> {
        self.template(name)
            .filter(|template| !template.source().is_empty())
    }

    fn template(&self, name: &str) -> Option<Template> {
        self.node
            .child(name)
            .and_then(Node::as_str)
            .and_then(|text| Template::parse(text).ok())
    }
}

/// A string, or the strings of an array.
fn strings(node: &Node) -> Vec<&str> {
    match node.as_str() {
        Some(text) => vec![text],
        None => node.elements().iter().filter_map(Node::as_str).collect(),
    }
}
