//! The tasks of the router's threads, as tokio has them.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use crate::kernel::with;
use crate::state::tasks::Task;

struct TaskWaker(u64);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let id = self.0;
        with(|kernel| {
            let Some(task) = kernel.tasks.get_mut(id) else {
                return;
            };
            if !std::mem::replace(&mut task.is_queued, true)
                && let Some(thread) = kernel.threads.get_mut(task.thread)
            {
                thread.ready.push_back(id);
            }
        });
    }
}

/// A task that was started.
#[derive(Debug)]
pub struct Spawned(u64);

/// Ends a task.
#[derive(Debug)]
pub struct AbortHandle(u64);

impl Spawned {
    /// A handle that ends it.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle(self.0)
    }
}

impl AbortHandle {
    /// Ends it.
    pub fn abort(&self) {
        let task = with(|kernel| kernel.tasks.remove(self.0));
        drop(task);
    }
}

/// Starts a task on the running thread.
pub fn spawn(future: impl Future<Output = ()> + 'static) -> Spawned {
    let thread = with(|kernel| kernel.thread_of_task());
    spawn_on(thread, future)
}

/// Starts a task on a thread.
pub fn spawn_on(thread: usize, future: impl Future<Output = ()> + 'static) -> Spawned {
    with(|kernel| {
        let tasks = &mut kernel.tasks;
        let id = tasks.next();
        let task = Task {
            thread,
            future: Some(Box::pin(future)),
            waker: Waker::from(Arc::new(TaskWaker(id))),
            is_queued: true,
        };
        tasks.add(task);
        if let Some(thread) = kernel.threads.get_mut(thread) {
            thread.ready.push_back(id);
        }
        Spawned(id)
    })
}

/// Polls a task that is ready.
pub(crate) fn poll(id: u64) {
    let taken = with(|kernel| {
        let task = kernel.tasks.get_mut(id)?;
        task.is_queued = false;
        Some((task.future.take()?, task.waker.clone()))
    });
    let Some((mut future, waker)) = taken else {
        return;
    };
    let is_over = future
        .as_mut()
        .poll(&mut Context::from_waker(&waker))
        .is_ready();
    let ended = with(|kernel| {
        if is_over {
            return kernel.tasks.remove(id);
        }
        // It may have been aborted meanwhile.
        if let Some(task) = kernel.tasks.get_mut(id) {
            task.future = Some(std::mem::replace(&mut future, Box::pin(async {})));
        }
        None
    });
    drop(ended);
    drop(future);
}

/// Ends all tasks.
pub(crate) fn end_all() {
    while let Some(task) = with(|kernel| kernel.tasks.pop()) {
        drop(task);
    }
}
