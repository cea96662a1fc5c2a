//! Applications, and the modules that run them.

use tutti_document::{Diagnostic, Member, Pointer, TreeNode, shorten};
use tutti_options::application::Common;
use tutti_options::processes::Processes;
use tutti_options::{Complaint, Complaints, MemberPart};

use super::builder::Builder;
use super::reader::Reader;
use crate::model::{Application, ModuleReference, Special};
use crate::table::ApplicationType;

impl<'d> Builder<'d> {
    pub(super) fn application(
        &mut self,
        member: &'d Member,
        pointer: Pointer,
    ) -> Option<Application> {
        let node = &member.node;
        let text = node.child(Common::module.name)?.as_str()?;
        let (known, version) = ApplicationType::of(text)?;
        let reader = Reader::new(node, pointer.clone());
        let module = self.module(&reader, known, version);
        let mut common: Common = reader.read();
        let special = Special::of(known.name, node)?;
        let is_written = |path: &[String]| at(node, path).is_some();
        let mut complaints = Complaints::new(&is_written);
        common.check(&mut complaints);
        special.check(&mut complaints);
        // A larger number is not an error, because NGINX Unit accepts it: a warning states the actual maximum. Too many
        // threads leave no process, which counts as one.
        let most = Processes::most(special.threads());
        common.processes = common.processes.capped(most);
        for complaint in complaints.into_list() {
            self.complain(node, &pointer, complaint);
        }
        Some(Application {
            name: member.name.to_string(),
            module: module?,
            common,
            special,
            pointer,
        })
    }

    /// Reports a complaint about `object`, unless the value has been reported.
    fn complain(&mut self, object: &'d TreeNode, pointer: &Pointer, complaint: Complaint) {
        let Some((last, before)) = complaint.path.split_last() else {
            return;
        };
        let Some(holder) = at(object, before) else {
            return;
        };
        let pointer = complaint
            .path
            .iter()
            .fold(pointer.clone(), |pointer, segment| pointer.child(segment));
        let mut diagnostic = Diagnostic::new(pointer, complaint.message);
        diagnostic.suggestion = complaint.hint;
        match complaint.part {
            MemberPart::Name => {
                let mut members = holder.members().iter();
                if let Some(member) = members.find(|member| *member.name == **last) {
                    self.faults.name(diagnostic, member);
                }
            }
            MemberPart::Value => match holder.child(last) {
                Some(node) if !self.faults.has(node) => self.faults.value(diagnostic, node),
                _ => {}
            },
        }
    }

    /// Selects an installed module.
    fn module(
        &mut self,
        reader: &Reader<'d>,
        known: &ApplicationType,
        requested: Option<&str>,
    ) -> Option<ModuleReference> {
        let (node, pointer) = reader.get(&Common::module)?;
        let kind = known.name;
        if !known.versions && requested.is_some() {
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
        let diagnostic = if installed.is_empty() {
            let message = format!("no module for `{kind}` is installed");
            let hint = format!("{}; {NEW_MODULES}", self.context.summary());
            Diagnostic::new(pointer, message).suggest(hint)
        } else {
            let message = format!("no module for `{kind} {}` is installed", shorten(version));
            Diagnostic::new(pointer, message).suggest(format!(
                "installed: {}; {NEW_MODULES}",
                installed.join(", ")
            ))
        };
        self.faults.value(diagnostic, node);
        None
    }
}

/// The hint for a missing module: a running server looks for modules at its start, and when it is upgraded.
const NEW_MODULES: &str =
    "one that was installed after the server's start is found by `tutti upgrade`";

/// Returns the value at a path inside another.
fn at<'d>(node: &'d TreeNode, path: &[String]) -> Option<&'d TreeNode> {
    path.iter()
        .try_fold(node, |node, segment| node.child(segment))
}
