//! Simulated processes of one thread each: a stack of their own, which is left at each switch.

use generator::Gn;

use crate::kernel::{killing, with};
use crate::state::processes::{Pid, Process, Waits};

/// Words of a process's stack: the production code of a worker needs little.
const STACK_WORDS: usize = 16 * 1024;

/// Starts a process that runs `body` and ends with it.
pub fn start_process(body: impl FnOnce() + Send + 'static) -> Pid {
    let stack = Gn::<()>::new_opt(STACK_WORDS, body);
    with(|kernel| {
        let processes = &mut kernel.processes;
        let pid = Pid(processes.next);
        processes.next += 1;
        processes.all.push(Process {
            pid,
            stack: Some(stack),
            waits: Waits::No,
            stopped_until: 0,
        });
        pid
    })
}

/// Kills a process. False if there is none, or it runs.
pub fn kill(pid: Pid) -> bool {
    let Some(process) = with(|kernel| kernel.processes.remove(pid)) else {
        return false;
    };
    killing(|| drop(process));
    true
}
