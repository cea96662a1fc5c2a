//! The listening sockets. Main keeps a copy of each, so that they outlive a router.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use tutti_protocol::BindAddress;
use tutti_sys::listen::{ListenOptions, SocketName, listen, set_backlog, set_port_sharing};
use tutti_sys::port_group::{BANKS, Banks, bind_group, steer};
use tutti_sys::spawn::inherited;

use super::handover::{DatagramUse, FileIdentity, HandedDatagrams, HandedSocket};

/// Mode of a listener's socket file: all users may connect, as to a port. The configuration decides which clients to
/// serve.
const SOCKET_FILE_MODE: u32 = 0o666;

/// Backlog of the dashboard, which only few people use.
const DASHBOARD_BACKLOG: i32 = 64;

/// More sockets than this are not useful: one message to a router carries at most 253 descriptors.
const MOST_DATAGRAM_SOCKETS: usize = 64;

struct Held {
    socket: OwnedFd,
    backlog: i32,
    /// Its file: another program may have replaced it by its own, which must stay.
    file: Option<FileIdentity>,
}

/// The UDP sockets of an address.
struct HeldDatagrams {
    purpose: DatagramUse,
    /// In the kernel's order; those of QUIC bank by bank.
    sockets: Vec<OwnedFd>,
}

impl HeldDatagrams {
    /// The sockets for the router of this bank.
    fn of_bank(&self, bank: u8) -> &[OwnedFd] {
        match self.purpose {
            DatagramUse::Quic => {
                let length = self.sockets.len() / usize::from(BANKS);
                let mut banks = self.sockets.chunks(length.max(1));
                banks.nth(usize::from(bank % BANKS)).unwrap_or_default()
            }
            DatagramUse::Stream => &self.sockets,
        }
    }
}

/// All sockets that main has bound for the router.
#[derive(Default)]
pub(super) struct Sockets {
    held: HashMap<BindAddress, Held>,
    /// Opened by the service manager, which keeps them open: they must not be closed or removed here.
    given: HashMap<BindAddress, OwnedFd>,
    /// The controller's sockets for the dashboard: no router gets them.
    dashboard: HashSet<BindAddress>,
    /// UDP sockets.
    datagrams: HashMap<SocketAddr, HeldDatagrams>,
    /// The banks that routers have, and the one whose router gets new clients.
    banks: Banks,
}

/// Why a socket is not available, and the remedy.
pub(super) struct BindError {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Sockets {
    /// Returns the socket that listens at `place`: an existing or a new one.
    pub(super) fn get(&mut self, place: &BindAddress, backlog: i32) -> Result<OwnedFd, BindError> {
        let plain = |error: io::Error| BindError {
            message: error.to_string(),
            hint: None,
        };
        if let Some(held) = self.held.get_mut(place) {
            if held.backlog != backlog {
                set_backlog(&held.socket, backlog).map_err(plain)?;
                held.backlog = backlog;
            }
            return held.socket.try_clone().map_err(plain);
        }
        let options = ListenOptions {
            backlog,
            mode: Some(SOCKET_FILE_MODE),
            ..ListenOptions::default()
        };
        if let Some(given) = self.given.get(place) {
            let socket = given.try_clone().map_err(plain)?;
            set_backlog(&socket, backlog).map_err(plain)?;
            let copy = socket.try_clone().map_err(plain)?;
            self.held.insert(
                place.clone(),
                Held {
                    socket,
                    backlog,
                    // It belongs to the service manager.
                    file: None,
                },
            );
            return Ok(copy);
        }
        let endpoint = SocketName::from(place.clone());
        let socket = listen(&endpoint, options)
            .or_else(|error| self.listen_beside_own(place, &endpoint, options, error))
            .map_err(|error| BindError {
                message: error.to_string(),
                hint: hint(place, &error),
            })?;
        let copy = socket.try_clone().map_err(plain)?;
        // With port 0 the address differs each time; a new router cannot find such a socket again.
        let file = file_of(place);
        self.held.insert(
            place.clone(),
            Held {
                socket,
                backlog,
                file,
            },
        );
        Ok(copy)
    }

    /// Returns UDP sockets at `address`, for QUIC those of this bank: existing or new ones, one for each processor.
    pub(super) fn get_datagrams(
        &mut self,
        address: SocketAddr,
        purpose: DatagramUse,
        bank: u8,
    ) -> Result<Vec<OwnedFd>, BindError> {
        if !self.datagrams.contains_key(&address) {
            let sockets = self.bind_datagrams(address, purpose)?;
            self.datagrams
                .insert(address, HeldDatagrams { purpose, sockets });
        }
        let held = self.datagrams.get(&address);
        let own = match held {
            Some(held) if held.purpose != purpose => {
                return Err(BindError {
                    message: "the port is in use for other datagrams".to_owned(),
                    hint: Some(
                        "first remove the listener that has it, in a separate change".to_owned(),
                    ),
                });
            }
            Some(held) => held.of_bank(bank),
            None => &[],
        };
        let copies: io::Result<Vec<OwnedFd>> = own.iter().map(OwnedFd::try_clone).collect();
        copies.map_err(|error| BindError {
            message: error.to_string(),
            hint: None,
        })
    }

    fn bind_datagrams(
        &self,
        address: SocketAddr,
        purpose: DatagramUse,
    ) -> Result<Vec<OwnedFd>, BindError> {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let count = processors.min(MOST_DATAGRAM_SOCKETS);
        let all = match purpose {
            DatagramUse::Quic => count * usize::from(BANKS),
            DatagramUse::Stream => count,
        };
        let mut own = self.datagrams.keys();
        let is_own = own.any(|own| own.port() == address.port());
        let sockets = bind_group(address, all, is_own).map_err(|error| BindError {
            message: error.to_string(),
            hint: datagrams_hint(address, &error),
        })?;
        if purpose == DatagramUse::Quic {
            steer_all(&sockets, self.banks).map_err(|error| BindError {
                message: error.to_string(),
                hint: Some(
                    "HTTP/3 needs a kernel that can distribute datagrams: Linux 4.6 or later"
                        .to_owned(),
                ),
            })?;
        }
        Ok(sockets)
    }

    /// Returns the bank of the router that gets new clients.
    pub(super) fn bank(&self) -> u8 {
        self.banks.current
    }

    /// From now on the router of this bank gets new clients, and there are routers for these banks, too.
    pub(super) fn turn_to(&mut self, bank: u8, read: impl Iterator<Item = u8>) -> io::Result<()> {
        self.banks = Banks::new(bank, read);
        let groups = self.datagrams.values();
        let mut of_quic = groups.filter(|held| held.purpose == DatagramUse::Quic);
        of_quic.try_for_each(|held| steer_all(&held.sockets, self.banks))
    }

    /// True if there are UDP sockets at `address`.
    pub(super) fn has_datagrams(&self, address: &SocketAddr) -> bool {
        self.datagrams.contains_key(address)
    }

    /// Closes main's copies of the UDP sockets there.
    pub(super) fn release_datagrams(&mut self, address: &SocketAddr) {
        self.datagrams.remove(address);
    }

    /// Closes the UDP sockets whose addresses are not wanted.
    pub(super) fn retain_datagrams(
        &mut self,
        is_wanted: impl Fn(&SocketAddr, DatagramUse) -> bool,
    ) {
        self.datagrams
            .retain(|address, held| is_wanted(address, held.purpose));
    }

    /// Returns the UDP sockets for a handover.
    pub(super) fn handed_datagrams(&self) -> Vec<HandedDatagrams> {
        let handed = |(address, held): (&SocketAddr, &HeldDatagrams)| HandedDatagrams {
            address: *address,
            purpose: held.purpose,
            sockets: held.sockets.iter().map(AsRawFd::as_raw_fd).collect(),
        };
        self.datagrams.iter().map(handed).collect()
    }

    /// Takes over UDP sockets from a handover.
    pub(super) fn adopt_datagrams(&mut self, handed: &HandedDatagrams) -> io::Result<()> {
        let sockets: io::Result<Vec<OwnedFd>> = handed
            .sockets
            .iter()
            .map(|socket| inherited(*socket))
            .collect();
        let held = HeldDatagrams {
            purpose: handed.purpose,
            sockets: sockets?,
        };
        self.datagrams.insert(handed.address, held);
        Ok(())
    }

    /// Returns the socket of the dashboard at `place`.
    pub(super) fn get_for_dashboard(&mut self, place: &BindAddress) -> Result<OwnedFd, BindError> {
        let socket = self.get(place, DASHBOARD_BACKLOG)?;
        self.dashboard.insert(place.clone());
        Ok(socket)
    }

    /// True if the dashboard listens there.
    pub(super) fn is_of_dashboard(&self, place: &BindAddress) -> bool {
        self.dashboard.contains(place)
    }

    /// The dashboard no longer listens there.
    pub(super) fn release_of_dashboard(&mut self, place: &BindAddress) {
        if self.dashboard.remove(place) {
            self.release(place);
        }
    }

    /// A change from `*:80` to `127.0.0.1:80` needs both sockets for a moment. The kernel allows this only if both
    /// share the port, which they do only while binding: a program that does not ask for sharing, such as another
    /// instance, is rejected as usual.
    fn listen_beside_own(
        &self,
        place: &BindAddress,
        endpoint: &SocketName,
        options: ListenOptions,
        error: io::Error,
    ) -> io::Result<OwnedFd> {
        let port = |place: &BindAddress| match place {
            BindAddress::Inet(address) => Some(address.port()),
            _ => None,
        };
        let wanted = port(place);
        let own: Vec<&OwnedFd> = self
            .held
            .iter()
            .filter(|(held, _)| wanted.is_some() && port(held) == wanted)
            .map(|(_, held)| &held.socket)
            .collect();
        if error.kind() != io::ErrorKind::AddrInUse || own.is_empty() {
            return Err(error);
        }
        own.iter()
            .try_for_each(|socket| set_port_sharing(socket, true))?;
        let options = ListenOptions {
            share_port: true,
            ..options
        };
        let made = listen(endpoint, options);
        for socket in own.iter().copied().chain(made.as_ref().ok()) {
            set_port_sharing(socket, false)?;
        }
        // Still in use: by another program.
        made.map_err(|_| error)
    }

    /// Adds a socket that the service manager has opened.
    pub(super) fn give(&mut self, place: BindAddress, socket: OwnedFd) {
        self.given.insert(place, socket);
    }

    /// Returns all sockets that the service manager has opened, for a handover.
    pub(super) fn handed_given(&self) -> Vec<HandedSocket> {
        let handed = |(place, socket): (&BindAddress, &OwnedFd)| HandedSocket {
            place: place.clone(),
            socket: socket.as_raw_fd(),
            backlog: 0,
            file: None,
        };
        self.given.iter().map(handed).collect()
    }

    /// Returns the held sockets, for a handover.
    pub(super) fn handed(&self) -> Vec<HandedSocket> {
        let handed = |(place, held): (&BindAddress, &Held)| HandedSocket {
            place: place.clone(),
            socket: held.socket.as_raw_fd(),
            backlog: held.backlog,
            file: held.file,
        };
        self.held.iter().map(handed).collect()
    }

    /// Takes over a socket from a handover.
    pub(super) fn adopt(&mut self, handed: &HandedSocket) -> io::Result<()> {
        let held = Held {
            socket: inherited(handed.socket)?,
            backlog: handed.backlog,
            file: handed.file.or_else(|| file_of(&handed.place)),
        };
        self.held.insert(handed.place.clone(), held);
        Ok(())
    }

    /// Closes main's copy.
    pub(super) fn release(&mut self, place: &BindAddress) {
        if let Some(held) = self.held.remove(place)
            && !self.given.contains_key(place)
        {
            held.remove_file(place);
        }
    }

    /// Closes those whose addresses are not wanted.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&BindAddress) -> bool) {
        let is_wanted = |place: &BindAddress| is_wanted(place) || self.dashboard.contains(place);
        let unwanted = self.held.keys().filter(|place| !is_wanted(place));
        for place in unwanted.cloned().collect::<Vec<_>>() {
            self.release(&place);
        }
    }

    /// Closes all.
    pub(super) fn release_all(&mut self) {
        self.datagrams.clear();
        for (place, held) in self.held.drain() {
            if !self.given.contains_key(&place) {
                held.remove_file(&place);
            }
        }
    }
}

impl Held {
    fn remove_file(&self, place: &BindAddress) {
        if let BindAddress::Path(path) = place
            && self.file.is_some()
            && self.file == file_of(place)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns the identity of the file that is now at `place`.
fn file_of(place: &BindAddress) -> Option<FileIdentity> {
    let BindAddress::Path(path) = place else {
        return None;
    };
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

fn steer_all(sockets: &[OwnedFd], banks: Banks) -> io::Result<()> {
    match sockets.first() {
        Some(first) => steer(first, sockets.len() / usize::from(BANKS), banks),
        None => Ok(()),
    }
}

fn datagrams_hint(address: SocketAddr, error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::AddrInUse => Some(format!(
            "another program receives datagrams there, or this server does until the last response of a listener that was removed is complete; \
             `ss -lunp 'sport = :{}'` names it",
            address.port()
        )),
        _ => hint(&BindAddress::Inet(address), error),
    }
}

fn hint(place: &BindAddress, error: &io::Error) -> Option<String> {
    let port = match place {
        BindAddress::Inet(address) => Some(address.port()),
        _ => None,
    };
    match (error.kind(), port) {
        (io::ErrorKind::AddrInUse, Some(port)) => {
            Some(format!("another program listens there; `ss -ltnp 'sport = :{port}'` names it"))
        }
        (io::ErrorKind::AddrInUse, None) => Some("another program listens at this socket".to_owned()),
        (io::ErrorKind::AddrNotAvailable, _) => {
            Some("no network interface of this machine has this address; `ip address` lists the addresses".to_owned())
        }
        (io::ErrorKind::PermissionDenied, Some(port)) if port < 1024 => Some(format!(
            "ports below 1024 are reserved for root: start as root, give the program CAP_NET_BIND_SERVICE, or listen on a higher port than {port}"
        )),
        (io::ErrorKind::NotFound, None) => Some("the folder of the socket does not exist".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

    use rustix::event::{PollFd, PollFlags, poll};
    use tutti_testkit::{free_port, wait_until};

    use super::*;

    #[test]
    fn the_same_place_gives_the_same_socket_until_released() {
        let free = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let place = BindAddress::Inet(free);
        let mut sockets = Sockets::default();
        let first = sockets.get(&place, 10).ok().unwrap();
        drop(first);
        let second = TcpListener::from(sockets.get(&place, 20).ok().unwrap());
        let _client = TcpStream::connect(free).unwrap();
        second.set_nonblocking(false).unwrap();
        second.accept().unwrap();
        sockets.release(&place);
        drop(second);
        // A program that another test starts has a copy until it is executed.
        wait_until("it is closed", || TcpStream::connect(free).is_err());
    }

    #[test]
    fn the_socket_file_of_another_program_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.sock");
        let place = BindAddress::Path(path.clone());
        let mut sockets = Sockets::default();
        let first = sockets.get(&place, 10).ok().unwrap();
        std::fs::remove_file(&path).unwrap();
        let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        sockets.release(&place);
        assert!(path.exists(), "it belongs to the other program");
        std::fs::remove_file(&path).unwrap();
        drop(first);
        let _second = sockets.get(&place, 10).ok().unwrap();
        sockets.release_all();
        assert!(!path.exists());
    }

    #[test]
    fn a_wildcard_can_be_narrowed_and_widened_without_a_gap_but_no_other_process_gets_in() {
        for is_narrowed in [true, false] {
            let port = free_port();
            let wide = BindAddress::Inet(SocketAddr::from(([0, 0, 0, 0], port)));
            let narrow = BindAddress::Inet(SocketAddr::from(([127, 0, 0, 1], port)));
            let (before, after) = match is_narrowed {
                true => (&wide, &narrow),
                false => (&narrow, &wide),
            };
            let mut sockets = Sockets::default();
            let first = sockets.get(before, 10).ok().unwrap();
            let second = sockets.get(after, 10).ok().unwrap();
            assert!(listen(&SocketName::from(narrow.clone()), ListenOptions::default()).is_err());
            assert!(Sockets::default().get(&wide, 10).is_err());
            sockets.release(before);
            drop(first);
            TcpStream::connect(("127.0.0.1", port)).unwrap();
            drop(second);
        }
    }

    #[test]
    fn datagrams_of_a_stream_have_the_same_sockets_in_every_bank_until_released() {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut sockets = Sockets::default();
        let mut get = |bank| sockets.get_datagrams(address, DatagramUse::Stream, bank);
        let first = UdpSocket::from(get(0).ok().unwrap().remove(0));
        let all: Vec<UdpSocket> = get(1).ok().unwrap().into_iter().map(Into::into).collect();
        // The kernel selects one of them by the addresses: whichever it is, both routers have it. A busy kernel delivers after the system call.
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(b"x", address).unwrap();
        let mut polled: Vec<PollFd<'_>> = all
            .iter()
            .map(|one| PollFd::new(one, PollFlags::IN))
            .collect();
        poll(&mut polled, None).unwrap();
        let mut room = [0; 2];
        assert!(all.iter().any(|one| one.recv(&mut room).is_ok()));
        let refusal = sockets.get_datagrams(address, DatagramUse::Quic, 0);
        assert!(refusal.err().unwrap().hint.is_some());
        sockets.release_datagrams(&address);
        drop((first, all));
        // A program that another test starts has copies until it is executed.
        wait_until("the port is free", || {
            let quic = sockets.get_datagrams(address, DatagramUse::Quic, 0);
            quic.is_ok()
        });
    }

    #[test]
    fn refusals_come_with_a_hint() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let refusal = Sockets::default()
            .get(&BindAddress::Inet(taken.local_addr().unwrap()), 10)
            .err()
            .unwrap();
        assert!(refusal.message.contains("in use"), "{}", refusal.message);
        assert!(refusal.hint.unwrap().contains("ss -ltnp"));
        let foreign: SocketAddr = "192.0.2.1:80".parse().unwrap();
        assert!(
            Sockets::default()
                .get(&BindAddress::Inet(foreign), 10)
                .err()
                .unwrap()
                .hint
                .is_some()
        );
    }

    #[test]
    fn socket_files_go_with_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let place = BindAddress::Path(folder.path().join("s"));
        let mut sockets = Sockets::default();
        sockets.get(&place, 10).ok().unwrap();
        assert!(folder.path().join("s").exists());
        sockets.release_all();
        assert!(!folder.path().join("s").exists());
    }
}
