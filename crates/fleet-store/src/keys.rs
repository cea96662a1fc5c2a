//! Names of things in the store, below the fleet's prefix.

pub use tutti_options::source::ALL;

/// Heads are below this: `heads/all`, `heads/LABEL=VALUE`.
pub const HEADS: &str = "heads/";

/// Documents are below this, by their generation.
pub const DOCUMENTS: &str = "documents/";

/// Answers of nodes are below this, by the node's name.
pub const NODES: &str = "nodes/";

/// The addresses of nodes are below this, by the node's name. They change seldom, and are followed by all nodes: answers are not.
pub const ADDRESSES: &str = "addresses/";

/// Roll-outs are below this, by their number.
pub const LOG: &str = "log/";

/// Certificates for all nodes are below this, sealed, by their names.
pub const CERTIFICATES: &str = "certificates/";

/// Owners of certificates and accounts that come by themselves are below this, by the names of their documents.
pub const LOCKS: &str = "acme/state/locks/";

/// Documents of certificates and accounts that come by themselves are below this, sealed.
pub const STATE: &str = "acme/state/documents/";

/// Locks and documents together are below this.
pub const ACME: &str = "acme/state/";

/// Certificates that have come by themselves are below this, sealed, with their keys.
pub const CHAINS: &str = "acme/chains/";

/// Answers to authorities are below this, sealed, for as long as the order's owner is there.
pub const ANSWERS: &str = "acme/answers/";
/// Purges of caches are below this, by their number.
pub const PURGES: &str = "purges/";

/// The head for all nodes, or for those with a label.
pub fn head(selector: &str) -> String {
    format!("{HEADS}{selector}")
}

/// The document of a generation. Names are in the order of generations.
pub fn document(generation: u64) -> String {
    format!("{DOCUMENTS}{generation:012}")
}

/// The answer of a node.
pub fn node(name: &str) -> String {
    format!("{NODES}{name}")
}

/// The address of a node.
pub fn address(name: &str) -> String {
    format!("{ADDRESSES}{name}")
}

/// The record of a roll-out. Names are in the order of numbers.
pub fn roll_out(number: u64) -> String {
    format!("{LOG}{number:012}")
}

/// A purge of caches. Names are in the order of numbers.
pub fn purge(number: u64) -> String {
    format!("{PURGES}{number:012}")
}

/// The number at the end of a name, of a document or a roll-out.
pub fn number(key: &str) -> Option<u64> {
    key.rsplit('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        assert!(document(9) < document(10));
        assert_eq!(number(&document(12)), Some(12));
        assert_eq!(number(&roll_out(7)), Some(7));
        assert_eq!(number("documents/x"), None);
    }
}
