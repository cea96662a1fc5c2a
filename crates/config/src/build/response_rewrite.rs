//! `rewrite_response` of an upstream or a `proxy`.

use std::sync::Arc;

use tutti_document::{TreeNode, Value};
use tutti_options::table::Opt;

use super::builder::Builder;
use super::reader::Reader;
use crate::model::ResponseRewrite;
use crate::table::{CookieAttributes, ResponseRewriteOptions, UpstreamOptions};
use crate::template::Template;

impl<'d> Builder<'d> {
    pub(super) fn response_rewrite(
        &mut self,
        options: &Reader<'d>,
    ) -> Option<Arc<ResponseRewrite>> {
        let reader = options.inner(&UpstreamOptions::rewrite_response)?;
        let location = reader.get(&ResponseRewriteOptions::location);
        let mut rewrite = ResponseRewrite {
            own_location: location.is_some_and(|(node, _)| matches!(node.value, Value::Bool(true))),
            location: pairs(&reader, &ResponseRewriteOptions::location),
            cookie_path: pairs(&reader, &ResponseRewriteOptions::cookie_path),
            ..ResponseRewrite::default()
        };
        for (name, node) in members(&reader, &ResponseRewriteOptions::cookie_domain) {
            let name = name.strip_prefix('.').unwrap_or(name).to_ascii_lowercase();
            rewrite.cookie_domain.push((name.into(), template(node)));
        }
        for (name, node) in members(&reader, &ResponseRewriteOptions::cookie_attributes) {
            let reader = Reader::new(node, reader.pointer.clone());
            let attributes: CookieAttributes = reader.read();
            rewrite.cookie_attributes.push((name.into(), attributes));
        }
        Some(Arc::new(rewrite))
    }
}

fn members<'d>(reader: &Reader<'d>, option: &Opt) -> impl Iterator<Item = (&'d str, &'d TreeNode)> {
    let members = reader.get(option).map(|(node, _)| node.members());
    let members = members.unwrap_or_default().iter();
    members.map(|member| (&*member.name, &member.node))
}

/// Beginnings, the longest first, and what replaces each.
fn pairs(reader: &Reader<'_>, option: &Opt) -> Vec<(Box<str>, Template)> {
    let pairs = members(reader, option);
    let pairs = pairs.filter_map(|(from, to)| Some((from.into(), template(to)?)));
    let mut pairs: Vec<(Box<str>, Template)> = pairs.collect();
    pairs.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    pairs
}

fn template(node: &TreeNode) -> Option<Template> {
    Template::parse(node.as_str()?).ok()
}
