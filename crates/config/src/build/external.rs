//! Programs: with the worker protocol, or HTTP servers of their own.

use super::{Builder, Reader};
use crate::diagnostic::Diagnostic;
use crate::model::{External, ExternalHttp};

impl<'d> Builder<'d> {
    pub(super) fn external(&mut self, reader: &Reader<'d>) -> External {
        let http = reader.get("protocol").map(|_| ExternalHttp {
            listen: reader.text("listen"),
            probe: reader.string("probe"),
        });
        for name in ["listen", "probe"] {
            if let (None, Some(member), Some((_, pointer))) =
                (&http, reader.member(name), reader.get(name))
            {
                let message = "this is for programs that speak HTTP";
                let diagnostic = Diagnostic::new(pointer, message.to_owned());
                self.faults
                    .name(diagnostic.suggest("add \"protocol\": \"http\""), member);
            }
        }
        if let Some((node, pointer)) = reader.get("probe")
            && node.as_str().is_some_and(|path| !path.starts_with('/'))
        {
            let message = "a path of the program's, so it starts with `/`".to_owned();
            self.faults.value(Diagnostic::new(pointer, message), node);
        }
        let arguments = reader
            .node
            .child("arguments")
            .map(super::applications::texts);
        External {
            executable: reader.path("executable").unwrap_or_default(),
            arguments: arguments.unwrap_or_default(),
            http,
        }
    }
}
