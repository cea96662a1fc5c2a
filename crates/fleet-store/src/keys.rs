//! Names in the store, below the fleet's prefix.

pub use tutti_options::source::ALL;

/// Prefix of heads: `heads/all`, `heads/LABEL=VALUE`.
pub const HEADS: &str = "heads/";

/// Prefix of documents, by generation.
pub const DOCUMENTS: &str = "documents/";

/// Prefix of nodes' answers, by the node's name.
pub const NODES: &str = "nodes/";

/// Prefix of nodes' addresses, by the node's name. They change rarely, and are followed by all nodes, unlike answers.
pub const ADDRESSES: &str = "addresses/";

/// Prefix of roll-outs, by number.
pub const LOG: &str = "log/";

/// Prefix of certificates for all nodes, encrypted, by name.
pub const CERTIFICATES: &str = "certificates/";

/// Prefix of the owners of automatic certificates and accounts, by the names of their documents.
pub const LOCKS: &str = "acme/state/locks/";

/// Prefix of the documents of automatic certificates and accounts, encrypted.
pub const STATE: &str = "acme/state/documents/";

/// Common prefix of locks and documents.
pub const ACME: &str = "acme/state/";

/// Prefix of automatic certificates, encrypted, with their keys.
pub const CHAINS: &str = "acme/chains/";

/// Prefix of challenge responses, encrypted, which live as long as the order's owner.
pub const ANSWERS: &str = "acme/answers/";
/// Prefix of cache purges, by number.
pub const PURGES: &str = "purges/";

/// Returns the name of the head for all nodes, or for those with a label.
pub fn head(selector: &str) -> String {
    format!("{HEADS}{selector}")
}

/// Returns the name of the document of a generation. Names sort by generation.
pub fn document(generation: u64) -> String {
    format!("{DOCUMENTS}{generation:012}")
}

/// Returns the name of a node's answer.
pub fn node(name: &str) -> String {
    format!("{NODES}{name}")
}

/// Returns the name of a node's address.
pub fn address(name: &str) -> String {
    format!("{ADDRESSES}{name}")
}

/// Returns the name of the record of a roll-out. Names sort by number.
pub fn roll_out(number: u64) -> String {
    format!("{LOG}{number:012}")
}

/// Returns the name of a cache purge. Names sort by number.
pub fn purge(number: u64) -> String {
    format!("{PURGES}{number:012}")
}

/// Returns the number at the end of a name of a document or a roll-out.
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
