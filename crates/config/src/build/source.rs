//! `settings.source`: a store from which the configuration is taken.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tutti_document::Diagnostic;
use tutti_options::source::{EtcdMember, is_name, read_member};

use super::builder::Builder;
use super::reader::{Reader, each};
use crate::model::Source;
use crate::table::{EtcdOptions, EtcdTlsOptions, SourceOptions};

/// The characters that a part of a key may have.
const NAME: &str = "letters, digits, `-`, `_` and `.`";

impl<'d> Builder<'d> {
    pub(super) fn source(&mut self, reader: &Reader<'d>) -> Option<Source> {
        let options: SourceOptions = reader.read();
        if let (Some((node, pointer)), Some(name)) =
            (reader.get(&SourceOptions::name), &options.name)
            && !is_name(name)
        {
            let fault = Diagnostic::new(pointer, "this is not a valid node name").expect(NAME);
            self.faults.value(fault, node);
        }
        self.must_be_absolute(reader, &SourceOptions::secret_file);
        let labels = self.labels(reader);
        let address = self.own_address(reader);
        let etcd = reader.inner(&SourceOptions::etcd)?;
        let tls = etcd.inner_or_nothing(&EtcdOptions::tls);
        for option in [
            &EtcdTlsOptions::ca,
            &EtcdTlsOptions::certificate,
            &EtcdTlsOptions::key,
        ] {
            self.must_be_absolute(&tls, option);
        }
        self.must_be_absolute(&etcd, &EtcdOptions::password_file);
        let members = self.members(&etcd);
        if let (Some(member), true) = (
            etcd.member(&EtcdOptions::tls),
            members.iter().all(|member| !member.is_secure),
        ) {
            let fault = Diagnostic::new(
                etcd.place(&EtcdOptions::tls),
                "no endpoint begins with `https://`, so there is no TLS",
            );
            self.faults.name(fault, member);
        }
        Some(Source {
            labels,
            address,
            members,
            etcd: etcd.read(),
            tls: tls.read(),
            options,
        })
    }

    /// Builds the address of this node for others.
    fn own_address(&mut self, reader: &Reader<'d>) -> Option<IpAddr> {
        let (node, pointer) = reader.get(&SourceOptions::address)?;
        let address = node.as_str()?.parse::<IpAddr>().ok();
        let address =
            address.filter(|address| !address.is_unspecified() && !address.is_multicast());
        if address.is_none() {
            let fault =
                Diagnostic::new(pointer, "other nodes cannot reach this one at that address");
            let expected = "an IPv4 or IPv6 address of this machine, without a port";
            self.faults.value(fault.expect(expected), node);
        }
        address
    }

    fn labels(&mut self, reader: &Reader<'d>) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        let Some((node, pointer)) = reader.get(&SourceOptions::labels) else {
            return labels;
        };
        for member in node.members() {
            let value = member.node.as_str().unwrap_or_default();
            if !is_name(&member.name) || !is_name(value) {
                let place = pointer.child(&member.name);
                let fault = Diagnostic::new(place, "this is not a valid label").expect(NAME);
                self.faults.value(fault, &member.node);
            }
            labels.insert(member.name.to_string(), value.to_owned());
        }
        labels
    }

    fn members(&mut self, etcd: &Reader<'d>) -> Vec<EtcdMember> {
        let mut members = Vec::new();
        let Some((node, pointer)) = etcd.get(&EtcdOptions::endpoints) else {
            return members;
        };
        for (node, pointer) in each(node, &pointer) {
            match node.as_str().map(read_member) {
                Some(Ok(member)) => members.push(member),
                Some(Err(expected)) => {
                    let expected = expected.trim_start_matches("expected ").to_owned();
                    let fault = Diagnostic::new(pointer, "this is not an etcd endpoint");
                    self.faults.value(fault.expect(expected), node);
                }
                // The table check has reported it.
                None => {}
            }
        }
        if members.is_empty() && node.elements().is_empty() && node.as_str().is_none() {
            self.wrong(node, pointer, "at least one endpoint is needed");
        }
        members
    }
}
