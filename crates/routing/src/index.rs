//! Finds the few steps of a route that can match, among thousands.
//!
//! A step with conditions on hosts or paths is indexed by them: exact values and prefixes in a byte trie that is walked forwards, suffixes
//! (`*.php`, `*.example.com`) in one walked backwards. The result is a superset: the step's conditions are evaluated in full afterwards, in
//! the order of the route.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tutti_config::model::{Conditions, PatternKind, Patterns};

/// With fewer steps, trying one after the other is faster.
const SMALL_ROUTE: usize = 8;

/// Sorted lists of steps, to be merged in order.
pub(crate) type Lists<'i> = SmallVec<[&'i [u32]; 24]>;

/// The steps of a route by host and path.
#[derive(Debug, Default)]
pub(crate) struct Index {
    hosts: Filed,
    paths: Filed,
    /// Steps that are indexed by neither host nor path.
    rest: Vec<u32>,
}

/// Steps indexed by one property.
#[derive(Debug, Default)]
struct Filed {
    forward: Tree,
    backward: Tree,
}

/// A byte trie; the first node is the root.
#[derive(Debug)]
struct Tree {
    nodes: Vec<TreeNode>,
}

#[derive(Debug, Default)]
struct TreeNode {
    /// Sorted by byte.
    edges: SmallVec<[(u8, u32); 2]>,
    /// Steps for values that begin with the path to this node.
    open: Vec<u32>,
    /// Steps for the value that equals the path to this node.
    exact: Vec<u32>,
}

/// The key of a pattern in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key<'p> {
    Exact(&'p [u8]),
    Prefix(&'p [u8]),
    Suffix(&'p [u8]),
}

impl Index {
    /// Indexes the steps; `None` if there are too few for that to pay.
    pub(crate) fn build<'c>(
        steps: impl ExactSizeIterator<Item = &'c Conditions> + Clone,
    ) -> Option<Index> {
        if steps.len() < SMALL_ROUTE {
            return None;
        }
        let mut hosts: FxHashMap<Key<'_>, usize> = FxHashMap::default();
        let mut paths: FxHashMap<Key<'_>, usize> = FxHashMap::default();
        for step in steps.clone() {
            keys(step.host.as_ref())
                .into_iter()
                .flatten()
                .for_each(|key| *hosts.entry(key).or_default() += 1);
            keys(step.uri.as_ref())
                .into_iter()
                .flatten()
                .for_each(|key| *paths.entry(key).or_default() += 1);
        }
        let mut index = Index::default();
        for (number, step) in (0_u32..).zip(steps) {
            let host = keys(step.host.as_ref());
            let path = keys(step.uri.as_ref());
            // The number of steps with the same keys: the fewer, the more selective the index.
            let crowd = |keys: &[Key<'_>], all: &FxHashMap<Key<'_>, usize>| -> usize {
                keys.iter().filter_map(|key| all.get(key)).sum()
            };
            match (host, path) {
                (Some(host), Some(path)) if crowd(&host, &hosts) <= crowd(&path, &paths) => {
                    index.hosts.file(&host, number)
                }
                (_, Some(path)) => index.paths.file(&path, number),
                (Some(host), None) => index.hosts.file(&host, number),
                (None, None) => index.rest.push(number),
            }
        }
        Some(index)
    }

    /// The steps that can match a request with this host and path.
    pub(crate) fn find<'i>(&'i self, host: &[u8], path: &[u8]) -> Lists<'i> {
        let mut lists = Lists::new();
        if !self.rest.is_empty() {
            lists.push(&self.rest);
        }
        self.hosts.find(host, &mut lists);
        self.paths.find(path, &mut lists);
        lists
    }
}

/// Removes the smallest number from all lists; repeated calls merge them in order, without duplicates.
pub(crate) fn next(lists: &mut Lists<'_>) -> Option<u32> {
    let smallest = lists
        .iter()
        .filter_map(|list| list.first())
        .min()
        .copied()?;
    for list in lists.iter_mut() {
        if let [first, rest @ ..] = *list
            && *first == smallest
        {
            *list = rest;
        }
    }
    Some(smallest)
}

/// The keys of a set of patterns; `None` if some values cannot be indexed.
fn keys(patterns: Option<&Patterns>) -> Option<Vec<Key<'_>>> {
    let patterns = patterns?;
    if !patterns.has_positive() {
        return None;
    }
    let positive = patterns.list().iter().filter(|pattern| !pattern.negated);
    positive
        .map(|pattern| match &pattern.kind {
            PatternKind::Exact(text) => Some(Key::Exact(text)),
            PatternKind::Wildcard { first, .. } if !first.is_empty() => Some(Key::Prefix(first)),
            PatternKind::Wildcard { last, .. } if !last.is_empty() => Some(Key::Suffix(last)),
            PatternKind::Wildcard { .. } | PatternKind::Regex(_) => None,
        })
        .collect()
}

impl Filed {
    fn file(&mut self, keys: &[Key<'_>], number: u32) {
        for key in keys {
            // Patterns of hosts are in lower case, as are the hosts of requests.
            let list = match key {
                Key::Exact(text) => &mut self.forward.node(text.iter()).exact,
                Key::Prefix(text) => &mut self.forward.node(text.iter()).open,
                Key::Suffix(text) => &mut self.backward.node(text.iter().rev()).open,
            };
            if list.last() != Some(&number) {
                list.push(number);
            }
        }
    }

    fn find<'i>(&'i self, value: &[u8], lists: &mut Lists<'i>) {
        if let Some(last) = self.forward.walk(value.iter(), lists)
            && !last.exact.is_empty()
        {
            lists.push(&last.exact);
        }
        self.backward.walk(value.iter().rev(), lists);
    }
}

impl Default for Tree {
    fn default() -> Self {
        Tree {
            nodes: vec![TreeNode::default()],
        }
    }
}

impl Tree {
    /// The node for these bytes, made if necessary.
    fn node<'b>(&mut self, bytes: impl Iterator<Item = &'b u8>) -> &mut TreeNode {
        let mut current = 0;
        for byte in bytes {
            let fresh = self.nodes.len();
            let edges = &mut self.nodes[current].edges;
            current = match edges.binary_search_by_key(byte, |edge| edge.0) {
                Ok(position) => edges[position].1 as usize,
                Err(position) => {
                    // There are fewer nodes than bytes of configuration, which is less than 4 GB.
                    edges.insert(position, (*byte, u32::try_from(fresh).unwrap_or(u32::MAX)));
                    self.nodes.push(TreeNode::default());
                    fresh
                }
            };
        }
        &mut self.nodes[current]
    }

    /// Collects the prefix lists on the path; returns the node at its end, if there is one.
    fn walk<'i, 'b>(
        &'i self,
        bytes: impl Iterator<Item = &'b u8>,
        lists: &mut Lists<'i>,
    ) -> Option<&'i TreeNode> {
        let mut node = self.nodes.first()?;
        for byte in bytes {
            let position = match node.edges.as_slice() {
                [] => return None,
                [only] if only.0 == *byte => 0,
                [_] => return None,
                edges => edges.binary_search_by_key(byte, |edge| edge.0).ok()?,
            };
            node = self.nodes.get(node.edges.get(position)?.1 as usize)?;
            if !node.open.is_empty() {
                lists.push(&node.open);
            }
        }
        Some(node)
    }
}
