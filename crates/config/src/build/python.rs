//! Options of a Python application.

use super::{Builder, Reader, strings};
use crate::diagnostic::Diagnostic;
use crate::model::{Python, PythonProtocol, PythonTarget};
use crate::table::PYTHON_TARGET;

impl<'d> Builder<'d> {
    pub(super) fn python(&mut self, reader: &Reader<'d>) -> Python {
        let path = reader.get("path").map(|(node, _)| strings(node));
        let mut python = Python {
            targets: Vec::new(),
            home: reader.path("home"),
            path: path.into_iter().flatten().map(Into::into).collect(),
            protocol: match reader.string("protocol").as_deref() {
                Some("wsgi") => Some(PythonProtocol::Wsgi),
                Some("asgi") => Some(PythonProtocol::Asgi),
                _ => None,
            },
            threads: reader.count("threads"),
            thread_stack_size: self.thread_stack_size(reader),
        };
        match reader.get("targets") {
            Some((node, pointer)) => {
                self.count_targets(reader, node, &pointer);
                for member in node.members() {
                    let target = Reader {
                        node: &member.node,
                        table: &PYTHON_TARGET,
                        pointer: pointer.child(&member.name),
                    };
                    let name = Some(member.name.to_string());
                    python.targets.push(self.python_target(target, name));
                }
            }
            None => {
                let target = self.python_target(reader.clone(), None);
                python.targets.push(target);
            }
        }
        python
    }

    fn python_target(&mut self, reader: Reader<'d>, name: Option<String>) -> PythonTarget {
        let prefix = reader.string("prefix");
        if let (Some(prefix), Some((node, pointer))) = (&prefix, reader.get("prefix"))
            && !prefix.starts_with('/')
            && !self.faults.has(node)
        {
            let diagnostic = Diagnostic::new(pointer, "`prefix` must begin with a slash");
            let better = format!("write `\"/{prefix}\"`");
            self.faults.value(diagnostic.suggest(better), node);
        }
        PythonTarget {
            name,
            module: reader.text("module"),
            callable: reader.text("callable"),
            factory: reader.boolean("factory"),
            // `/` and `/a/` mean what `` and `/a` mean: a path is divided at a slash.
            prefix: prefix.map(|prefix| prefix.trim_end_matches('/').to_owned()),
            pointer: reader.pointer,
        }
    }
}
