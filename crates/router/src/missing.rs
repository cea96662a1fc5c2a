//! Resources that a stored configuration needs and that are unavailable now.

use std::net::SocketAddr;
use std::path::PathBuf;

use tutti_config::{Diagnostic, Diagnostics, Pointer};
use tutti_protocol::{BindAddress, CacheGrant};
use tutti_spool::Spool;
use tutti_unprivileged::fault;

/// A resource that main opens, and that may become available later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Need {
    Place(BindAddress),
    Datagrams(SocketAddr),
    Log(PathBuf),
    Cache(CacheGrant),
    Jobs,
}

/// A part of the configuration that lacks a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lacking {
    /// The part.
    pub(super) pointer: Pointer,
    pub(super) need: Need,
}

/// Why resources of a configuration could not be opened.
#[derive(Default)]
pub(super) struct Unopened {
    pub(super) faults: Vec<Diagnostic>,
    /// The missing resources.
    pub(super) lacking: Vec<Lacking>,
}

impl Unopened {
    pub(super) fn add(
        &mut self,
        pointer: Pointer,
        need: Need,
        message: String,
        hint: Option<String>,
    ) {
        self.faults.push(fault(pointer.clone(), message, hint));
        self.lacking.push(Lacking { pointer, need });
    }
}

/// The handling of a missing resource that the rest of the configuration does not need.
pub(super) enum Leniency {
    /// The configuration is applied whole or not at all.
    None,
    /// A stored configuration is served without it. With the faults so far, each once.
    Forgiving(Vec<Diagnostic>),
}

impl Leniency {
    /// Notes a fault that does not prevent serving.
    pub(super) fn forgive(&mut self, fault: Diagnostic) -> Result<(), Diagnostics> {
        match self {
            Leniency::None => return Err(Diagnostics::one(fault)),
            Leniency::Forgiving(faults) if faults.contains(&fault) => {}
            Leniency::Forgiving(faults) => faults.push(fault),
        }
        Ok(())
    }

    /// Keeps bodies in memory if no folder can be used; a folder that the configuration names is removed from it.
    pub(super) fn or_in_memory(
        &mut self,
        spool: Result<Spool, Diagnostic>,
        longest: u64,
    ) -> Result<Spool, Diagnostics> {
        let fault = match spool {
            Ok(spool) => return Ok(spool),
            Err(fault) if fault.pointer != Pointer::root() => return Err(Diagnostics::one(fault)),
            Err(fault) => fault,
        };
        self.forgive(fault.clone())?;
        Spool::in_memory(longest).map_err(|_| Diagnostics::one(fault))
    }

    /// The faults that were noted.
    pub(super) fn faults(self) -> Vec<Diagnostic> {
        match self {
            Leniency::None => Vec::new(),
            Leniency::Forgiving(faults) => faults,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Diagnostic {
        Diagnostic::apply(Pointer::from_escaped("/settings/a"), text)
    }

    #[test]
    fn a_change_is_applied_whole_or_not_at_all() {
        let mut leniency = Leniency::None;
        let refused = leniency.forgive(one("no port"));
        assert!(refused.is_err_and(|faults| faults.0 == [one("no port")]));
        assert_eq!(leniency.faults(), []);
    }

    #[test]
    fn a_stored_configuration_is_served_without_missing_resources_and_each_fault_reported_once() {
        let mut leniency = Leniency::Forgiving(Vec::new());
        for text in ["no port", "no file", "no port"] {
            assert!(leniency.forgive(one(text)).is_ok(), "{text}");
        }
        assert_eq!(leniency.faults(), [one("no port"), one("no file")]);
    }

    #[test]
    fn bodies_stay_in_memory_only_where_the_folder_is_not_the_configurations() {
        let full = Diagnostic::apply(Pointer::root(), "disk full");
        let mut lenient = Leniency::Forgiving(Vec::new());
        assert!(lenient.or_in_memory(Err(full.clone()), 1000).is_ok());
        assert!(lenient.or_in_memory(Err(one("no folder")), 1000).is_err());
        assert_eq!(lenient.faults().len(), 1);
        assert!(Leniency::None.or_in_memory(Err(full), 1000).is_err());
    }

    #[test]
    fn a_resource_that_could_not_be_opened_is_a_fault_with_its_need() {
        let mut unopened = Unopened::default();
        let pointer = Pointer::from_escaped("/settings/access_log");
        let need = Need::Log(PathBuf::from("/nowhere/log"));
        unopened.add(
            pointer.clone(),
            need.clone(),
            "no such folder".to_owned(),
            None,
        );
        assert_eq!(
            unopened.lacking,
            [Lacking {
                pointer: pointer.clone(),
                need
            }]
        );
        assert!(
            unopened
                .faults
                .first()
                .is_some_and(|fault| fault.pointer == pointer)
        );
    }
}
