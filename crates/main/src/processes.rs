//! The processes of one kind that main has started for itself: one serves, one may be about to, others have served.

/// A process that can be told from others.
pub(super) trait Numbered {
    /// Its process number.
    fn pid(&self) -> i32;
}

/// Controllers, or routers.
#[derive(Debug)]
pub(super) struct Processes<P> {
    /// The one whose word counts.
    pub(super) serving: Option<P>,
    /// The one that is to be it after an upgrade.
    pub(super) next: Option<P>,
    /// Those that were it before, and end what they have begun.
    pub(super) leaving: Vec<P>,
}

impl<P> Default for Processes<P> {
    fn default() -> Processes<P> {
        Processes {
            serving: None,
            next: None,
            leaving: Vec::new(),
        }
    }
}

impl<P: Numbered> Processes<P> {
    pub(super) fn all(&self) -> impl Iterator<Item = &P> {
        self.serving.iter().chain(&self.next).chain(&self.leaving)
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut P> {
        let serving = self.serving.iter_mut();
        serving.chain(&mut self.next).chain(&mut self.leaving)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// The numbers of all.
    pub(super) fn pids(&self) -> Vec<i32> {
        self.all().map(Numbered::pid).collect()
    }

    pub(super) fn has(&self, pid: i32) -> bool {
        self.all().any(|process| process.pid() == pid)
    }

    pub(super) fn find(&mut self, pid: i32) -> Option<&mut P> {
        self.all_mut().find(|process| process.pid() == pid)
    }

    pub(super) fn is_serving(&self, pid: i32) -> bool {
        self.serving.as_ref().is_some_and(|one| one.pid() == pid)
    }

    pub(super) fn is_next(&self, pid: i32) -> bool {
        self.next.as_ref().is_some_and(|one| one.pid() == pid)
    }

    /// Finds the one of this number among those that leave.
    pub(super) fn leaving(&mut self, pid: i32) -> Option<&mut P> {
        self.leaving.iter_mut().find(|one| one.pid() == pid)
    }

    /// Forgets the one of this number, if it is among those that leave, and returns it.
    pub(super) fn take_leaving(&mut self, pid: i32) -> Option<P> {
        let place = self.leaving.iter().position(|one| one.pid() == pid)?;
        Some(self.leaving.remove(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Numbered for i32 {
        fn pid(&self) -> i32 {
            *self
        }
    }

    #[test]
    fn each_is_found_in_its_place() {
        let mut processes = Processes {
            serving: Some(1),
            next: Some(2),
            leaving: vec![3, 4],
        };
        assert_eq!(processes.pids(), [1, 2, 3, 4]);
        assert!(processes.is_serving(1) && !processes.is_serving(2));
        assert!(processes.is_next(2) && !processes.is_next(1));
        assert_eq!(processes.find(4), Some(&mut 4));
        assert_eq!(processes.leaving(2), None);
        assert_eq!(processes.take_leaving(2), None);
        assert_eq!(processes.take_leaving(3), Some(3));
        assert!(!processes.has(3) && processes.has(4) && !processes.is_empty());
        assert!(Processes::<i32>::default().is_empty());
    }
}
