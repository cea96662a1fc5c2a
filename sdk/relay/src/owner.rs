//! Finds out if another process has taken the port of a program.
//!
//! A port is chosen before the program listens on it. Another process that listens there by then would get requests that are not for it, and
//! one that has connected from there makes the program end. The system is asked (proc(5), `net/tcp`) once: when the port takes its first
//! connection, or when the program has ended before that.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use tutti_sys::{credentials, proc};

/// `st` of a socket that listens.
const LISTENING: &str = "0A";

/// The sockets that keep a program from its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    /// Those that listen: the program may still be about to.
    Listening,
    /// Also those of connections, which an ended program could not listen beside.
    Any,
}

/// True if another process than `program` and those it started has taken this port. False also where the system does not show it.
pub(crate) fn is_taken(port: u16, program: i32, by: Taking) -> bool {
    let mut sockets = sockets(port);
    sockets.retain(|socket| socket.listens || by == Taking::Any);
    let own_user = credentials::current_user();
    !sockets.is_empty()
        && sockets.iter().all(|socket| {
            let holders = holders(socket.inode);
            match holders.as_slice() {
                // No process whose descriptors we may see, or none at all: a closed connection keeps its port for a minute.
                [] => !socket.listens || socket.user != own_user,
                holders => !holders.iter().any(|pid| is_of(*pid, program, port)),
            }
        })
}

struct Socket {
    listens: bool,
    user: u32,
    inode: u64,
}

/// Sockets with this local port, on any address.
fn sockets(port: u16) -> Vec<Socket> {
    let mut sockets = Vec::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let Ok(text) = fs::read_to_string(table) else {
            continue;
        };
        sockets.extend(text.lines().filter_map(|line| parse(line, port)));
    }
    sockets
}

/// One line: number, local and remote address, state, queues, timer, retransmissions, user, timeout, inode.
fn parse(line: &str, port: u16) -> Option<Socket> {
    let mut columns = line.split_ascii_whitespace().skip(1);
    let (_, local) = columns.next()?.rsplit_once(':')?;
    let has_port = u16::from_str_radix(local, 16).ok()? == port;
    let listens = columns.nth(1)? == LISTENING;
    let user = columns.nth(3)?.parse().ok()?;
    let inode = columns.nth(1)?.parse().ok()?;
    has_port.then_some(Socket {
        listens,
        user,
        inode,
    })
}

/// The processes that have a descriptor of this socket, as far as they let us see.
fn holders(inode: u64) -> Vec<i32> {
    if inode == 0 {
        return Vec::new();
    }
    let wanted = format!("socket:[{inode}]");
    let holds = |pid: &i32| {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        descriptors.flatten().any(|descriptor| {
            fs::read_link(descriptor.path()).is_ok_and(|target| *target == *wanted)
        })
    };
    proc::all().into_iter().filter(holds).collect()
}

/// True if a process is the program or was started by it: it descends from it, or, if it went its own way, was given the same port.
fn is_of(pid: i32, program: i32, port: u16) -> bool {
    let mut ancestor = Some(pid);
    while let Some(at) = ancestor.filter(|at| *at > 1) {
        if at == program {
            return true;
        }
        ancestor = proc::stat(at).ok().map(|stat| stat.parent);
    }
    let told = format!("PORT={port}");
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|variable| OsStr::from_bytes(variable) == &*told)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, TcpStream};
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn own() -> i32 {
        std::process::id().cast_signed()
    }

    /// A shell that has started a program which listens, and the port.
    fn listener() -> (Child, u16) {
        let script = "import socket,time\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\nprint(s.getsockname()[1], flush=True)\ntime.sleep(60)";
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "python3 -c \"$0\" & exec sleep 60", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        (shell, line.trim().parse().unwrap())
    }

    #[test]
    fn a_port_is_taken_by_others_than_the_programs_descendants() {
        let (mut shell, port) = listener();
        let program = shell.id().cast_signed();
        assert!(!is_taken(port, program, Taking::Listening));
        assert!(!is_taken(port, own(), Taking::Listening));
        let mine = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = mine.local_addr().unwrap();
        assert!(is_taken(address.port(), program, Taking::Listening));
        // The port that a connection goes out from is no place to listen.
        let connection = TcpStream::connect(address).unwrap();
        let port = connection.local_addr().unwrap().port();
        assert!(!is_taken(port, program, Taking::Listening));
        assert!(is_taken(port, program, Taking::Any));
        assert!(!is_taken(port, own(), Taking::Any));
        // The end that closes first keeps the port, without a process.
        drop(connection);
        assert!(is_taken(port, program, Taking::Any));
        for child in proc::children(program) {
            tutti_sys::signal::send(child, libc::SIGKILL).unwrap();
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn a_port_without_sockets_is_not_taken() {
        // No system gives this one to a connection.
        assert!(!is_taken(1, own(), Taking::Any));
    }

    #[test]
    fn lines_of_the_table() {
        let line = "   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0";
        let socket = parse(line, 8080).unwrap();
        assert_eq!(
            (socket.listens, socket.user, socket.inode),
            (true, 1000, 4711)
        );
        assert!(parse(line, 8081).is_none());
        assert!(!parse(&line.replace(" 0A ", " 01 "), 8080).unwrap().listens);
        assert!(parse("  sl  local_address rem_address   st", 8080).is_none());
    }
}
