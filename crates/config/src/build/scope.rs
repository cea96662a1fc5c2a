//! Settings of listeners and actions for the requests that pass through them.

use tutti_document::{Diagnostic, Value};
use tutti_options::table::Opt;

use super::builder::Builder;
use super::reader::{Reader, each};
use crate::model::{AccessLog, HttpLevel, Scope};
use crate::table::ScopeOptions;

impl<'d> Builder<'d> {
    /// Builds the settings of a listener or an action, whose row for `http` is given. Returns their number in
    /// [`Config::scopes`](crate::Config::scopes); `None`: there are none.
    pub(super) fn scope(&mut self, reader: &Reader<'d>, http: &Opt) -> Option<usize> {
        let http = match reader.inner(http) {
            Some(http) => self.http_level(&http),
            None => HttpLevel::default(),
        };
        let scope = Scope {
            pointer: reader.pointer.clone(),
            http,
            access_logs: self.own_access_logs(reader),
            maintenance: self.maintenance(reader, &ScopeOptions::maintenance),
        };
        if scope.is_empty() {
            return None;
        }
        self.scopes.push(scope);
        Some(self.scopes.len() - 1)
    }

    fn own_access_logs(&mut self, reader: &Reader<'d>) -> Option<Vec<AccessLog>> {
        let (node, pointer) = reader.get(&ScopeOptions::access_log)?;
        if let Value::Bool(is_on) = node.value {
            if is_on {
                let diagnostic = Diagnostic::new(pointer, "`true` does not name a log");
                let hint = "write the path of a file; or remove the option, to use the outer logs";
                self.faults.value(diagnostic.suggest(hint), node);
            }
            return Some(Vec::new());
        }
        let logs = each(node, &pointer).into_iter();
        Some(
            logs.filter_map(|(node, pointer)| self.access_log(node, pointer))
                .collect(),
        )
    }
}
