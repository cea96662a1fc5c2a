//! The messages between the process for automatic certificates and the one that follows a source, which main passes on: what the nodes of a
//! fleet share of certificates that come by themselves.
//!
//! The one speaks with authorities and has no key of the fleet; the other has the store and the keys, and gives out nothing but what these
//! requests name.

use serde::{Deserialize, Serialize};

use crate::challenge::Challenge;

/// A document and its text; `None`: there is no such document.
pub type SharedDocument = (String, Option<String>);

/// A request of the process for automatic certificates.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum SharedRequest {
    /// Be the only node that works at this document; answered with [`SharedAnswer::Claimed`] or [`SharedAnswer::Busy`].
    Claim {
        /// Name of the document.
        name: String,
    },
    /// Let others work at it.
    Release {
        /// Name of the document.
        name: String,
    },
    /// Store texts, all at once, if this node is still the one; answered with [`SharedAnswer::Done`] or [`SharedAnswer::Lost`].
    Write {
        /// Name of the document that was claimed.
        lock: String,
        /// The document of this name; `None`: it is deleted.
        text: Option<String>,
        /// The certificate with its key that belongs to it; `Some(None)`: it is deleted.
        chain: Option<Option<String>>,
    },
    /// Have all nodes give these answers to authorities as long as this node works at the document; answered when all have them that can, or
    /// have had time for it.
    Give {
        /// Name of the document that was claimed.
        lock: String,
        /// All answers of this order; none: they are given no longer.
        challenges: Vec<Challenge>,
    },
    /// Tell the certificate that belongs to a document; answered with [`SharedAnswer::Text`].
    Chain {
        /// Name of the document.
        name: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum SharedAnswer {
    /// This node is the only one that works at it.
    Claimed {
        /// The document as it is now.
        text: Option<String>,
    },
    /// Another node works at it.
    Busy {
        /// Its name.
        node: String,
    },
    Done,
    /// The text that was asked for.
    Text {
        /// `None`: there is none.
        text: Option<String>,
    },
    /// This node is not the one that works at the document any more: nothing was done.
    Lost,
    /// It cannot be done now.
    Unavailable {
        reason: String,
    },
}

/// News of what the nodes share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedNews {
    /// Why nothing can be shared now; `None`: it can.
    pub error: Option<String>,
    /// These are all documents there are: others that were known have gone.
    pub is_whole: bool,
    /// Documents that are other than before.
    pub documents: Vec<SharedDocument>,
    /// Documents that nodes work at, and the names of these nodes.
    pub owners: Vec<(String, String)>,
}
