//! The messages between the process for automatic certificates and the one that follows a source, forwarded by main: the automatic
//! certificates that the nodes of a fleet share.
//!
//! The former communicates with authorities and has no key of the fleet; the latter has the store and the keys, and gives out only what
//! these requests name.

use serde::{Deserialize, Serialize};

use crate::challenge::Challenge;

/// A document and its text; `None`: there is no such document.
pub type SharedDocument = (String, Option<String>);

/// A request of the process for automatic certificates.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum SharedRequest {
    /// Claim this document for this node; answered by [`SharedAnswer::Claimed`] or [`SharedAnswer::Busy`].
    Claim {
        /// Name of the document.
        name: String,
    },
    /// Release the claim.
    Release {
        /// Name of the document.
        name: String,
    },
    /// Store texts, all at once, if the claim still holds; answered by [`SharedAnswer::Done`] or [`SharedAnswer::Lost`].
    Write {
        /// The claimed document.
        lock: String,
        /// The new text; `None`: delete the document.
        text: Option<String>,
        /// The certificate with its key that belongs to it; `Some(None)`: delete it.
        chain: Option<Option<String>>,
    },
    /// Make all nodes give these answers to authorities as long as the claim holds; answered when all nodes have them, or have had time to
    /// get them.
    Give {
        /// The claimed document.
        lock: String,
        /// All answers for this order; empty: stop giving them.
        challenges: Vec<Challenge>,
    },
    /// Compare this node's clock with the others'; answered by [`SharedAnswer::Text`], with its fault if it is more than
    /// a day ahead.
    CheckClock,
    /// Return the certificate that belongs to a document; answered by [`SharedAnswer::Text`].
    Chain {
        /// Name of the document.
        name: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum SharedAnswer {
    /// This node holds the claim.
    Claimed {
        /// The current text of the document.
        text: Option<String>,
    },
    /// Another node holds the claim.
    Busy {
        /// Its name.
        node: String,
    },
    Done,
    /// The requested text.
    Text {
        /// `None`: there is none.
        text: Option<String>,
    },
    /// This node does not hold the claim any more: nothing was done.
    Lost,
    /// It cannot be done now.
    Unavailable {
        reason: String,
    },
}

/// An update of what the nodes share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedNews {
    /// Why nothing can be shared now; `None`: it can.
    pub error: Option<String>,
    /// These are all documents: other known ones have been deleted.
    pub is_whole: bool,
    /// Documents that have changed.
    pub documents: Vec<SharedDocument>,
    /// Claimed documents, and the names of the nodes that hold the claims.
    pub owners: Vec<(String, String)>,
}
