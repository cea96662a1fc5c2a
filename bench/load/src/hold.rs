//! Idle keep-alive connections: one request on each, then silence until standard input ends.

use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};

use crate::connection::{LoadConnection, Progress, Target};

/// Connections opened at a time: below any server's usual accept backlog (511), so that none waits for a
/// retransmitted SYN.
const BATCH: usize = 200;

/// Opens `count` connections, prints `{"ready":…}`, holds them, and reports how many the server closed.
pub(crate) fn run(target: &Target, count: usize) -> io::Result<Value> {
    let mut held: Vec<LoadConnection> = Vec::with_capacity(count);
    let mut refused = 0_usize;
    while held.len() + refused < count {
        let size = BATCH.min(count - held.len() - refused);
        let mut batch = Vec::with_capacity(size);
        for _ in 0..size {
            batch.push(LoadConnection::open(target)?);
        }
        for mut connection in batch {
            if ask_once(&mut connection, target)? {
                held.push(connection)
            } else {
                refused += 1
            }
        }
    }
    println!("{}", json!({ "ready": held.len(), "refused": refused }));
    io::stdin().read_to_end(&mut Vec::new())?;
    let closed = held
        .iter_mut()
        .map(LoadConnection::receive)
        .filter(|progress| !matches!(progress, Progress::Pending))
        .count();
    Ok(json!({ "held": held.len(), "closed": closed, "refused": refused }))
}

/// `true` when the answer was a 2xx and the connection stays open.
fn ask_once(connection: &mut LoadConnection, target: &Target) -> io::Result<bool> {
    wait_for(connection, PollFlags::OUT)?;
    if connection.send(target).is_err() {
        return Ok(false);
    }
    loop {
        wait_for(connection, PollFlags::IN)?;
        match connection.receive() {
            Progress::Pending => {}
            Progress::Answered { status, reusable } => {
                return Ok(reusable && (200..300).contains(&status));
            }
            Progress::Failed | Progress::Closed => return Ok(false),
        }
    }
}

fn wait_for(connection: &LoadConnection, flags: PollFlags) -> io::Result<()> {
    let fd = connection.as_fd();
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), flags)];
    poll(&mut fds, None)?;
    Ok(())
}
