//! The processes of one kind that main has started for itself: one serves, others leave. A process that will serve
//! after an upgrade belongs to the upgrade: see [`super::lifecycle`].

/// A process with a process id.
pub(super) trait Numbered {
    /// Its process id.
    fn pid(&self) -> i32;
}

/// Controllers, or routers.
#[derive(Debug)]
pub(super) struct Processes<P> {
    /// The serving one.
    pub(super) serving: Option<P>,
    /// Those that finish their work: they were serving, or were to serve.
    pub(super) leaving: Vec<P>,
}

impl<P> Default for Processes<P> {
    fn default() -> Processes<P> {
        Processes {
            serving: None,
            leaving: Vec::new(),
        }
    }
}

impl<P: Numbered> Processes<P> {
    pub(super) fn all(&self) -> impl Iterator<Item = &P> {
        self.serving.iter().chain(&self.leaving)
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut P> {
        self.serving.iter_mut().chain(&mut self.leaving)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    pub(super) fn is_serving(&self, pid: i32) -> bool {
        self.serving.as_ref().is_some_and(|one| one.pid() == pid)
    }

    /// Finds a leaving process by its process id.
    pub(super) fn leaving(&mut self, pid: i32) -> Option<&mut P> {
        self.leaving.iter_mut().find(|one| one.pid() == pid)
    }

    /// Forgets a leaving process, and returns it.
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
            leaving: vec![3, 4],
        };
        assert!(processes.is_serving(1) && !processes.is_serving(3));
        assert_eq!(processes.leaving(4), Some(&mut 4));
        assert_eq!(processes.leaving(1), None);
        assert_eq!(processes.take_leaving(1), None);
        assert_eq!(processes.take_leaving(3), Some(3));
        assert!(processes.all().eq(&[1, 4]) && !processes.is_empty());
        assert!(Processes::<i32>::default().is_empty());
    }
}
