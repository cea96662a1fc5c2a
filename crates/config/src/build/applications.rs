//! Applications, and the modules that run them.

use std::time::Duration;

use super::{Builder, Reader};
use crate::diagnostic::{Diagnostic, FaultKind, shorten};
use crate::document::{Member, Node, Value};
use crate::model::{
    Application, ApplicationKind, Limits, ModuleReference, Perl, Php, PhpTarget, Processes,
};
use crate::pointer::Pointer;
use crate::table::{LIMITS, Object, PHP_OPTIONS, PHP_TARGET, PROCESSES, QUEUE, Support, TYPES};

/// The smallest page of memory on any machine: a size that is not so many whole ones is a mistake everywhere.
const PAGE: u32 = 4096;

/// Targets are numbered with one byte, two numbers are reserved (Unit documents 254).
const MAX_TARGETS: usize = 254;

impl<'d> Builder<'d> {
    pub(super) fn application(
        &mut self,
        member: &'d Member,
        pointer: Pointer,
    ) -> Option<Application> {
        let text = member.node.child("type")?.as_str()?;
        let word = text.split(' ').next()?;
        let known = TYPES
            .iter()
            .find(|known| known.name == word && known.support == Support::Now)?;
        let reader = Reader {
            node: &member.node,
            table: known.object,
            pointer,
        };
        let module = self.module(&reader, text, known.versions);
        let kind = match known.name {
            "php" => ApplicationKind::Php(self.php(&reader)),
            "python" => ApplicationKind::Python(self.python(&reader)),
            "perl" => ApplicationKind::Perl(self.perl(&reader)),
            "external" => ApplicationKind::External(self.external(&reader)),
            _ => return None,
        };
        let environment = reader
            .node
            .child("environment")
            .map(pairs)
            .unwrap_or_default()
            .into_iter()
            .collect();
        Some(Application {
            name: member.name.to_string(),
            module: module?,
            kind,
            processes: self.processes(&reader),
            limits: self.limits(&reader),
            request_buffering: reader.boolean("request_buffering"),
            preload: reader.boolean("preload"),
            watch: reader.boolean("watch"),
            environment,
            user: reader.string("user"),
            group: reader.string("group"),
            working_directory: reader.path("working_directory"),
            stdout: reader.path("stdout"),
            stderr: reader.path("stderr"),
            isolation: self.isolation(&reader),
            pointer: reader.pointer,
        })
    }

    /// Chooses among the installed modules.
    fn module(
        &mut self,
        reader: &Reader<'d>,
        text: &str,
        versions: bool,
    ) -> Option<ModuleReference> {
        let (node, pointer) = reader.get("type")?;
        let (kind, requested) = match text.split_once(' ') {
            Some((kind, version)) => (kind, Some(version.trim())),
            None => (text, None),
        };
        if !versions && requested.is_some() {
            let diagnostic = Diagnostic::new(pointer, format!("the type `{kind}` has no versions"));
            self.faults
                .value(diagnostic.suggest(format!("write `{kind}`")), node);
            return None;
        }
        let version = requested.unwrap_or_default();
        if let Some(module) = self.context.find(kind, version) {
            let requested = requested.map(str::to_owned);
            return Some(ModuleReference {
                kind: kind.to_owned(),
                requested,
                version: module.version.clone(),
            });
        }
        let installed = self.context.versions(kind);
        let diagnostic = if !versions {
            let message =
                format!("applications of type `{kind}` are not supported by this version yet");
            Diagnostic {
                kind: FaultKind::Unsupported,
                ..Diagnostic::new(pointer, message)
            }
        } else if installed.is_empty() {
            let message = format!("no module for `{kind}` is installed");
            Diagnostic::new(pointer, message).suggest(self.context.summary())
        } else {
            let message = format!("no module for `{kind} {}` is installed", shorten(version));
            Diagnostic::new(pointer, message)
                .suggest(format!("installed: {}", installed.join(", ")))
        };
        self.faults.value(diagnostic, node);
        None
    }

    fn processes(&mut self, reader: &Reader<'d>) -> Processes {
        let Some(inner) = reader.inner("processes", &PROCESSES) else {
            return Processes::default();
        };
        if !matches!(inner.node.value, Value::Object(_)) {
            return Processes::Fixed(reader.count("processes"));
        }
        let (max, spare) = (inner.count("max"), inner.count("spare"));
        if let Some((node, pointer)) = inner.get("spare").filter(|_| spare > max) {
            let message =
                format!("{spare} spare processes are more than the {max} there can be (`max`)");
            if !self.faults.has(node) {
                self.faults.value(Diagnostic::new(pointer, message), node);
            }
        }
        Processes::Dynamic {
            max,
            spare,
            idle_timeout: inner.seconds("idle_timeout"),
        }
    }

    fn limits(&mut self, reader: &Reader<'d>) -> Limits {
        let Some(inner) = reader.inner("limits", &LIMITS) else {
            return Limits::default();
        };
        let time = |limit: Duration| Some(limit).filter(|limit| *limit > Duration::ZERO);
        let size = |name: &str| inner.bytes(name).filter(|limit| *limit > 0);
        let queue = inner.inner("queue", &QUEUE);
        let none = Limits::default();
        let memory = size("memory");
        let memory_max = match inner.bytes("memory_max") {
            Some(limit) => Some(limit).filter(|limit| *limit > 0),
            None => memory.map(|limit| limit.saturating_mul(2)),
        };
        if let (Some(soft), Some(hard), Some((node, pointer))) =
            (memory, memory_max, inner.get("memory_max"))
            && hard < soft
        {
            let message = format!(
                "a process would be killed at {hard} bytes, before it is replaced at {soft} (`memory`)"
            );
            self.faults.value(Diagnostic::new(pointer, message), node);
        }
        Limits {
            requests: Some(inner.unsigned("requests")).filter(|limit| *limit > 0),
            timeout: time(inner.seconds("timeout")),
            drain_timeout: time(inner.seconds("drain_timeout")),
            start_timeout: inner.seconds("start_timeout"),
            memory,
            memory_max,
            queue_length: queue
                .as_ref()
                .map_or(none.queue_length, |queue| queue.count("length")),
            queue_wait: queue.and_then(|queue| time(queue.seconds("wait"))),
            concurrency: inner.get("concurrency").map(|_| inner.count("concurrency")),
        }
    }

    fn php(&mut self, reader: &Reader<'d>) -> Php {
        let options = reader.inner("options", &PHP_OPTIONS);
        let directives = |name: &str| {
            let node = options
                .as_ref()
                .and_then(|options| options.node.child(name));
            node.map(pairs).unwrap_or_default()
        };
        let mut php = Php {
            targets: Vec::new(),
            ini_file: options.as_ref().and_then(|options| options.path("file")),
            admin: directives("admin"),
            user: directives("user"),
            resident: reader.text("mode") == "resident",
        };
        if php.resident {
            self.resident(reader);
        }
        match reader.get("targets") {
            Some((node, pointer)) => {
                self.count_targets(reader, node, &pointer);
                for member in node.members() {
                    let pointer = pointer.child(&member.name);
                    let target = Reader {
                        node: &member.node,
                        table: &PHP_TARGET,
                        pointer,
                    };
                    php.targets.push(php_target(
                        &target,
                        &PHP_TARGET,
                        Some(member.name.to_string()),
                    ));
                }
            }
            None => php.targets.push(php_target(reader, reader.table, None)),
        }
        php
    }

    /// A resident process has booted one script: that one answers everything.
    fn resident(&mut self, reader: &Reader<'d>) {
        let message = if reader.get("targets").is_some() {
            "`resident` does not go with `targets`: each script needs an application of its own"
        } else if reader.get("script").is_none() {
            "`resident` needs `script`, the one that loops on `tutti_handle_request()`"
        } else {
            return;
        };
        if let Some((node, pointer)) = reader.get("mode") {
            self.faults.value(Diagnostic::new(pointer, message), node);
        }
    }

    fn perl(&mut self, reader: &Reader<'d>) -> Perl {
        Perl {
            script: reader.path("script").unwrap_or_default(),
            threads: reader.count("threads"),
            thread_stack_size: self.thread_stack_size(reader).map(u64::from),
        }
    }

    /// The stack of a thread, if one is given; whole pages of it.
    pub(super) fn thread_stack_size(&mut self, reader: &Reader<'d>) -> Option<u32> {
        let size = Some(reader.count("thread_stack_size")).filter(|size| *size > 0)?;
        if let Some((node, pointer)) = reader.get("thread_stack_size")
            && !size.is_multiple_of(PAGE)
            && !self.faults.has(node)
        {
            let message = format!("{size} is not a multiple of {PAGE}, the size of a page");
            let near = size.next_multiple_of(PAGE);
            let diagnostic = Diagnostic::new(pointer, message);
            self.faults
                .value(diagnostic.suggest(format!("write {near}")), node);
        }
        Some(size)
    }

    pub(super) fn count_targets(&mut self, reader: &Reader<'d>, node: &'d Node, pointer: &Pointer) {
        let count = node.members().len();
        let message = match count {
            0 if matches!(node.value, Value::Object(_)) => {
                "an application needs at least one target".to_owned()
            }
            count if count > MAX_TARGETS => format!("{count} targets are more than {MAX_TARGETS}"),
            _ => return,
        };
        if let Some(member) = reader.member("targets") {
            self.faults
                .name(Diagnostic::new(pointer.clone(), message), member);
        }
    }
}

fn php_target(reader: &Reader<'_>, table: &'static Object, name: Option<String>) -> PhpTarget {
    let reader = Reader {
        table,
        ..reader.clone()
    };
    PhpTarget {
        name,
        root: reader.path("root").unwrap_or_default(),
        script: reader.string("script"),
        index: reader.text("index"),
        pointer: reader.pointer,
    }
}

fn pairs(node: &Node) -> Vec<(String, String)> {
    let members = node.members().iter();
    members
        .filter_map(|member| Some((member.name.to_string(), member.node.as_str()?.to_owned())))
        .collect()
}

pub(super) fn texts(node: &Node) -> Vec<String> {
    node.elements()
        .iter()
        .filter_map(Node::as_str)
        .map(str::to_owned)
        .collect()
}
