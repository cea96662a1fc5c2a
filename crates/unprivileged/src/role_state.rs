//! The state of a role: it accepts changes, rejects them for now, or stops.
//!
//! Used by the services of controller and router, which main freezes before an upgrade, thaws, and stops. Must never
//! happen: that a stopping role accepts changes again.

use tokio::sync::watch;

/// The state of a role with regard to changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleState {
    /// It accepts them.
    Running,
    /// It rejects them until it is thawed: another version is about to take over.
    Frozen,
    /// It rejects them for good.
    Stopping,
}

/// The state of one role, which can be awaited.
#[derive(Debug)]
pub struct Standings(watch::Sender<RoleState>);

impl Default for Standings {
    fn default() -> Standings {
        Standings(watch::Sender::new(RoleState::Running))
    }
}

impl Standings {
    /// Returns the current state.
    pub fn now(&self) -> RoleState {
        *self.0.borrow()
    }

    /// Rejects changes for now.
    pub fn freeze(&self) {
        self.go_over(RoleState::Running, RoleState::Frozen);
    }

    /// Accepts changes again.
    pub fn thaw(&self) {
        self.go_over(RoleState::Frozen, RoleState::Running);
    }

    /// Rejects changes for good.
    pub fn stop(&self) {
        self.0.send_replace(RoleState::Stopping);
    }

    /// Completes when the role must stop.
    pub async fn stopped(&self) {
        let mut standing = self.0.subscribe();
        let _ = standing
            .wait_for(|standing| *standing == RoleState::Stopping)
            .await;
    }

    fn go_over(&self, from: RoleState, to: RoleState) {
        self.0.send_if_modified(|standing| {
            let is_from = *standing == from;
            if is_from {
                *standing = to;
            }
            is_from
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_for_good() {
        let standings = Standings::default();
        assert_eq!(standings.now(), RoleState::Running);
        standings.freeze();
        assert_eq!(standings.now(), RoleState::Frozen);
        standings.thaw();
        assert_eq!(standings.now(), RoleState::Running);
        standings.stop();
        standings.freeze();
        standings.thaw();
        assert_eq!(standings.now(), RoleState::Stopping);
    }
}
