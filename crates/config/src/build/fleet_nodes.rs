//! `fleet` of servers: nodes of the fleet that this server is one of.

use tutti_document::{Diagnostic, Pointer};

use super::builder::Builder;
use super::reader::Reader;
use crate::address::AddressError;
use crate::model::UpstreamAddress;
use crate::table::{FleetNodesOptions, RootOptions, ServerOptions, SettingsOptions};

impl<'d> Builder<'d> {
    /// Builds the server for nodes of the fleet.
    pub(super) fn nodes_of_fleet(
        &mut self,
        selector: &str,
        server: &Reader<'d>,
        nodes: &Reader<'d>,
    ) -> Result<UpstreamAddress, (AddressError, Option<String>)> {
        if let Some(member) = server.member(&ServerOptions::fleet)
            && !self.may_follow_a_source()
        {
            let place = server.place(&ServerOptions::fleet);
            let message = "this server is not a node of a fleet, so there are no other nodes";
            let hint = "name the store of the fleet in `settings.source`, or with `--source`";
            let fault = Diagnostic::new(place, message).suggest(hint);
            self.faults.name(fault, member);
        }
        let options: FleetNodesOptions = nodes.read();
        UpstreamAddress::fleet(selector, options.port)
    }

    /// False if there is certainly no source, neither in this configuration nor by a flag.
    fn may_follow_a_source(&self) -> bool {
        let root = Reader::new(self.root, Pointer::root());
        let settings = root.inner(&RootOptions::settings);
        self.context.is_given_source != Some(false)
            || settings.is_some_and(|settings| settings.has(&SettingsOptions::source))
    }
}
