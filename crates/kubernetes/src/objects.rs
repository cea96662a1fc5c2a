//! The objects of the API, with the members that are used
//! (<https://kubernetes.io/docs/reference/kubernetes-api/service-resources/endpoint-slice-v1/>).
//!
//! Empty lists may be missing or `null`: Go writes both.

use serde::Deserialize;
use serde_json::Value;

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct List {
    #[serde(default)]
    pub(crate) metadata: ListMeta,
    #[serde(default)]
    pub(crate) items: Option<Vec<EndpointSlice>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ListMeta {
    pub(crate) resource_version: String,
    /// The token for the rest of the list.
    #[serde(rename = "continue")]
    pub(crate) rest: Option<String>,
}

/// An event of a watch.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) object: Value,
}

/// An object of which only the version matters.
#[derive(Debug, Deserialize)]
pub(crate) struct Bookmark {
    pub(crate) metadata: ObjectMeta,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ObjectMeta {
    pub(crate) name: String,
    pub(crate) resource_version: String,
}

/// A rejection.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) message: String,
    pub(crate) code: u16,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointSlice {
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    /// `IPv4`, `IPv6` or `FQDN`.
    #[serde(default)]
    pub(crate) address_type: String,
    #[serde(default)]
    pub(crate) endpoints: Option<Vec<EndpointObject>>,
    #[serde(default)]
    pub(crate) ports: Option<Vec<PortObject>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointObject {
    #[serde(default)]
    pub(crate) addresses: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) conditions: Option<Conditions>,
    #[serde(default)]
    pub(crate) target_ref: Option<TargetRef>,
}

/// `None`: unknown, which counts as ready.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Conditions {
    pub(crate) ready: Option<bool>,
    pub(crate) terminating: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TargetRef {
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PortObject {
    pub(crate) name: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) protocol: Option<String>,
}
