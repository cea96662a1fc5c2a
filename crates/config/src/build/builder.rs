//! The state of the second half of validation; each file beside this one builds a part.

use std::collections::BTreeMap;
use std::sync::Arc;

use tutti_document::{Diagnostic, Pointer, TreeNode, shorten, suggest};
use tutti_options::table::Opt;

use super::pass::{self, Sections};
use super::reader::Reader;
use crate::check::{self, Faults};
use crate::context::ValidationContext;
use crate::model::{AcmeCertificate, CertificateFile, Limit, Pass, Scope, Stream, TlsOnDemand};
use crate::table::{ROOT, RootOptions};
use crate::template::Template;
use crate::variables::Variable;

pub(super) struct Builder<'d> {
    pub(super) root: &'d TreeNode,
    pub(super) sections: Sections<'d>,
    pub(super) context: &'d ValidationContext,
    pub(super) faults: Faults<'d>,
    /// The certificates in files found so far.
    pub(super) certificate_files: Vec<CertificateFile>,
    /// The limits that actions name.
    pub(super) limits: BTreeMap<String, Arc<Limit>>,
    /// The streams that listeners name.
    pub(super) streams: BTreeMap<String, Arc<Stream>>,
    /// True while reading an error page, or an action inside one.
    pub(super) in_error_page: bool,
    /// The automatic certificates found so far.
    pub(super) acme_certificates: Vec<AcmeCertificate>,
    /// The on-demand certificates of the `tls` that is being built.
    pub(super) on_demand: Option<TlsOnDemand>,
    /// The settings of listeners and actions found so far.
    pub(super) scopes: Vec<Scope>,
}

impl<'d> Builder<'d> {
    /// Reports an option that should not be present.
    pub(super) fn refuse(&mut self, reader: &Reader<'d>, option: &Opt, message: impl Into<String>) {
        if let Some(member) = reader.member(option) {
            let diagnostic = Diagnostic::new(reader.place(option), message.into());
            self.faults.name(diagnostic, member);
        }
    }

    /// Refuses `$remote_user` in a template that is evaluated before `authenticate`: it would always be empty.
    pub(super) fn refuse_user(
        &mut self,
        reader: &Reader<'d>,
        option: &Opt,
        template: Option<&Template>,
        hint: &str,
    ) {
        if template.is_some_and(|template| template.names(&Variable::RemoteUser))
            && let Some((node, place)) = reader.get(option)
        {
            let message = "`$remote_user` is always empty here, because this is evaluated before `authenticate`";
            let diagnostic = Diagnostic::new(place, message);
            self.faults.value(diagnostic.suggest(hint), node);
        }
    }

    /// Reports a wrong value.
    pub(super) fn wrong(
        &mut self,
        node: &'d TreeNode,
        pointer: Pointer,
        message: impl Into<String>,
    ) {
        self.faults
            .value(Diagnostic::new(pointer, message.into()), node);
    }

    /// A member of `settings`.
    pub(super) fn setting(&self, option: &Opt) -> Option<&'d TreeNode> {
        let settings = self.root.child(RootOptions::settings.name);
        settings.and_then(|settings| settings.child(option.name))
    }

    /// Checks that the store of this name is one of those that a setting has; `example` is the value of one.
    pub(super) fn check_store(
        &mut self,
        (node, pointer): (&'d TreeNode, Pointer),
        setting: &Opt,
        example: &str,
    ) {
        let Some(name) = node.as_str().filter(|_| !self.faults.has(node)) else {
            return;
        };
        let stores = self.setting(setting).map(TreeNode::members);
        let names: Vec<&str> = stores
            .unwrap_or_default()
            .iter()
            .map(|member| &*member.name)
            .collect();
        if names.contains(&name) {
            return;
        }
        let setting = setting.name;
        let name = shorten(name);
        let message = format!("there is no store `{name}` in `settings.{setting}`");
        let hint = match suggest::nearest(&name, names.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("add `\"{setting}\": {{\"{name}\": {example}}}` to `settings`"),
        };
        let fault = Diagnostic::new(pointer, message).suggest(hint);
        self.faults.value(fault, node);
    }

    /// Builds a destination; those without variables must exist.
    pub(super) fn pass(&mut self, node: &'d TreeNode, pointer: Pointer) -> Option<Pass> {
        let template = Template::parse(node.as_str()?).ok()?;
        self.resolved(pass::resolve(&self.sections, &template), node, pointer)
    }

    /// Builds `application` of a listener, which is a name and not a destination.
    pub(super) fn named_application(
        &mut self,
        node: &'d TreeNode,
        pointer: Pointer,
    ) -> Option<Pass> {
        let named = pass::application(&self.sections, node.as_str()?, None);
        self.resolved(named.map(Pass::Fixed), node, pointer)
    }

    /// Returns a destination that was found, or reports why it was not.
    pub(super) fn resolved<T>(
        &mut self,
        resolved: Result<T, pass::DestinationError>,
        node: &'d TreeNode,
        pointer: Pointer,
    ) -> Option<T> {
        match resolved {
            Ok(found) => Some(found),
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

    /// True if the missing target of a destination is in the configuration under a misspelt name, or in a form that has
    /// been reported.
    fn is_consequence(&self, fault: &pass::DestinationError) -> bool {
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
