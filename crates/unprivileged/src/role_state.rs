//! The standing of a role: it makes changes, makes none for now, or ends.
//!
//! Kept by the services of controller and router, which main tells to rest before an upgrade, to go on, and to stop. Must never happen:
//! that one which stops takes changes again.

use tokio::sync::watch;

/// The answer of a role to changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleState {
    /// It makes them.
    Running,
    /// It makes none until it is told to go on: another version is about to take over.
    Frozen,
    /// It makes none any more.
    Stopping,
}

/// The standing of one role, which may be waited for.
#[derive(Debug)]
pub struct Standings(watch::Sender<RoleState>);

impl Default for Standings {
    fn default() -> Standings {
        Standings(watch::Sender::new(RoleState::Running))
    }
}

impl Standings {
    /// Returns the standing now.
    pub fn now(&self) -> RoleState {
        *self.0.borrow()
    }

    /// Makes no changes for now.
    pub fn freeze(&self) {
        self.go_over(RoleState::Running, RoleState::Frozen);
    }

    /// Makes changes again.
    pub fn thaw(&self) {
        self.go_over(RoleState::Frozen, RoleState::Running);
    }

    /// Makes no changes any more.
    pub fn stop(&self) {
        self.0.send_replace(RoleState::Stopping);
    }

    /// Ends when the role is to stop.
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
