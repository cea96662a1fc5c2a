//! `spoolers`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::builder::Builder;
use super::reader::Reader;
use crate::document::Node;
use crate::model::{Destination, Pass, Spooler};
use crate::pointer::Pointer;
use crate::table::SpoolerOptions;

impl<'d> Builder<'d> {
    pub(super) fn spoolers(
        &mut self,
        node: &'d Node,
        pointer: &Pointer,
    ) -> BTreeMap<String, Arc<Spooler>> {
        let mut spoolers = BTreeMap::new();
        for member in node.members() {
            let reader = Reader::new(&member.node, pointer.child(&member.name));
            if let Some(spooler) = self.spooler(&member.name, reader) {
                spoolers.insert(member.name.to_string(), Arc::new(spooler));
            }
        }
        spoolers
    }

    fn spooler(&mut self, name: &str, reader: Reader<'d>) -> Option<Spooler> {
        let (node, place) = reader.get(&SpoolerOptions::pass)?;
        let pass = self.pass(node, place.clone())?;
        let refused = match &pass {
            Pass::Fixed(Destination::Spooler(_)) => Some(
                "a spooler delivers its jobs to an application, a route or an upstream, not to a spooler",
            ),
            Pass::Fixed(Destination::Metrics) => Some("`metrics` takes no jobs"),
            _ => None,
        };
        if let Some(message) = refused {
            self.wrong(node, place, message);
            return None;
        }
        let options: SpoolerOptions = reader.read();
        if options.max_backoff < options.backoff {
            let message = "`max_backoff` is the longest pause: it cannot be shorter than `backoff`, the first";
            match reader.get(&SpoolerOptions::max_backoff) {
                Some((node, place)) => self.wrong(node, place, message),
                None => self.refuse(&reader, &SpoolerOptions::backoff, message),
            }
        }
        Some(Spooler {
            name: name.to_owned(),
            pass,
            options,
            pointer: reader.pointer,
        })
    }
}
