//! HTTP/3 with quiche: `quiche-cases PORT` runs each case against the server at that port of this machine, and prints a line for each: its
//! name, a tab, and what is wrong, if something is.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use quiche::h3::{self, Header, NameValue as _, Priority};

/// A case ends with an error when the server is silent for so long.
const PATIENCE: Duration = Duration::from_secs(30);
const WINDOW: u64 = 1 << 20;
/// Packets that may be under way from the first request on: quiche sends a head only as a whole.
const PACKETS: usize = 64;
/// More than a datagram.
const ROOM: usize = 65_536;
/// H3_REQUEST_CANCELLED.
const CANCELLED: u64 = 0x10c;

type Outcome<T = ()> = Result<T, String>;

fn wrong(error: impl Debug) -> String {
    format!("{error:?}")
}

fn expect(is_so: bool, text: impl Into<String>) -> Outcome {
    is_so.then_some(()).ok_or_else(|| text.into())
}

/// A response, as far as it has come.
#[derive(Default)]
struct Response {
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    is_whole: bool,
    reset: Option<u64>,
}

impl Response {
    fn field(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(own, _)| own == name);
        found.map_or("", |(_, value)| value)
    }

    fn is(&self, status: &str, body: &[u8]) -> Outcome {
        let (found, length) = (self.field(":status"), self.body.len());
        expect(
            found == status,
            format!("status {found} in place of {status}"),
        )?;
        expect(
            self.body == body,
            format!("{length} bytes in place of {}, or other ones", body.len()),
        )
    }
}

struct Client {
    sockets: Vec<UdpSocket>,
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    responses: BTreeMap<u64, Response>,
    /// The streams whose responses are whole, in that order.
    order: Vec<u64>,
    heard: Instant,
}

fn socket() -> Outcome<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(wrong)?;
    socket.set_nonblocking(true).map_err(wrong)?;
    Ok(socket)
}

impl Client {
    /// Sends its first packet, with the session of an earlier connection.
    fn new(port: u16, session: Option<&[u8]>) -> Outcome<Self> {
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).map_err(wrong)?;
        config
            .set_application_protos(h3::APPLICATION_PROTOCOL)
            .map_err(wrong)?;
        config.verify_peer(false);
        config.enable_early_data();
        config.set_max_idle_timeout(30_000);
        config.set_initial_max_data(4 * WINDOW);
        config.set_initial_max_stream_data_bidi_local(WINDOW);
        config.set_initial_max_stream_data_uni(WINDOW);
        config.set_initial_max_streams_uni(8);
        config.set_initial_congestion_window_packets(PACKETS);
        config.set_active_connection_id_limit(4);
        let socket = socket()?;
        let local = socket.local_addr().map_err(wrong)?;
        let id = local.port().to_be_bytes().repeat(8);
        let id = quiche::ConnectionId::from_ref(&id);
        let peer = SocketAddr::from(([127, 0, 0, 1], port));
        let mut quic =
            quiche::connect(Some("localhost"), &id, local, peer, &mut config).map_err(wrong)?;
        if let Some(session) = session {
            quic.set_session(session).map_err(wrong)?;
        }
        let mut client = Self {
            sockets: vec![socket],
            quic,
            http: None,
            responses: BTreeMap::new(),
            order: Vec::new(),
            heard: Instant::now(),
        };
        client.send()?;
        Ok(client)
    }

    fn connected(port: u16) -> Outcome<Self> {
        let mut client = Self::new(port, None)?;
        client.until("a handshake", |client| client.quic.is_established())?;
        client.open()?;
        Ok(client)
    }

    fn open(&mut self) -> Outcome {
        let config = h3::Config::new().map_err(wrong)?;
        let http = h3::Connection::with_transport(&mut self.quic, &config).map_err(wrong)?;
        self.http = Some(http);
        Ok(())
    }

    fn send(&mut self) -> Outcome {
        let mut bytes = [0; 1500];
        loop {
            match self.quic.send(&mut bytes) {
                Ok((length, info)) => {
                    let from =
                        |socket: &&UdpSocket| socket.local_addr().is_ok_and(|own| own == info.from);
                    let socket = self
                        .sockets
                        .iter()
                        .find(from)
                        .ok_or("a packet from another address")?;
                    // A full socket loses it, as the way does.
                    let _ = socket.send_to(&bytes[..length], info.to);
                }
                Err(quiche::Error::Done) => return Ok(()),
                Err(error) => return Err(wrong(error)),
            }
        }
    }

    fn receive(&mut self) -> Outcome {
        let mut bytes = [0; ROOM];
        for socket in &self.sockets {
            let to = socket.local_addr().map_err(wrong)?;
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                self.heard = Instant::now();
                let info = quiche::RecvInfo { from, to };
                match self.quic.recv(&mut bytes[..length], info) {
                    Ok(_) | Err(quiche::Error::Done) => {}
                    Err(error) => return Err(wrong(error)),
                }
            }
        }
        if self.quic.timeout().is_some_and(|left| left.is_zero()) {
            self.quic.on_timeout();
        }
        Ok(())
    }

    fn take(&mut self) -> Outcome {
        let Some(http) = &mut self.http else {
            return Ok(());
        };
        loop {
            match http.poll(&mut self.quic) {
                Ok((stream, event)) => {
                    let response = self.responses.entry(stream).or_default();
                    match event {
                        h3::Event::Headers { list, .. } => {
                            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                            let fields = list
                                .iter()
                                .map(|field| (text(field.name()), text(field.value())));
                            response.fields.extend(fields);
                        }
                        h3::Event::Data => {
                            let mut bytes = [0; ROOM];
                            while let Ok(length) =
                                http.recv_body(&mut self.quic, stream, &mut bytes)
                            {
                                response.body.extend_from_slice(&bytes[..length]);
                            }
                        }
                        h3::Event::Finished => {
                            response.is_whole = true;
                            self.order.push(stream);
                        }
                        h3::Event::Reset(code) => response.reset = Some(code),
                        _ => {}
                    }
                }
                Err(h3::Error::Done) => return Ok(()),
                Err(error) => return Err(wrong(error)),
            }
        }
    }

    /// Sends and receives until the condition is met.
    fn until(&mut self, what: &str, mut is_met: impl FnMut(&mut Self) -> bool) -> Outcome {
        loop {
            self.receive()?;
            self.take()?;
            let is_over = is_met(self);
            self.send()?;
            if is_over {
                return Ok(());
            }
            if self.quic.is_closed() || self.heard.elapsed() > PATIENCE {
                let reason = self.quic.peer_error().map(|error| error.error_code);
                return Err(format!(
                    "{what} does not come; the server's error: {reason:?}"
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn begin(
        &mut self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        ends: bool,
    ) -> Outcome<u64> {
        let head = [
            (":method", method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", path),
        ];
        let fields: Vec<Header> = head
            .iter()
            .chain(more)
            .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()))
            .collect();
        let http = self.http.as_mut().ok_or("no HTTP/3")?;
        let stream = http
            .send_request(&mut self.quic, &fields, ends)
            .map_err(wrong)?;
        // At once: after the handshake's end, which may have arrived, it is no early data.
        self.send()?;
        Ok(stream)
    }

    fn whole(&mut self, stream: u64) -> Outcome<Response> {
        self.until("a response", |client| {
            client
                .responses
                .get(&stream)
                .is_some_and(|one| one.is_whole || one.reset.is_some())
        })?;
        let response = self.responses.remove(&stream).unwrap_or_default();
        expect(
            response.is_whole,
            format!("the stream is reset with {:?}", response.reset),
        )?;
        Ok(response)
    }

    fn get(&mut self, path: &str) -> Outcome<Response> {
        let stream = self.begin("GET", path, &[], true)?;
        self.whole(stream)
    }

    fn is_served(&mut self) -> Outcome {
        self.get("/bytes/16")?.is("200", &pattern(16))
    }
}

/// The body of `/bytes/LENGTH`.
fn pattern(length: usize) -> Vec<u8> {
    b"0123456789abcdef".repeat(length / 16)
}

fn get(port: u16) -> Outcome {
    let mut client = Client::connected(port)?;
    client.get("/bytes/1024")?.is("200", &pattern(1024))?;
    let stream = client.begin("HEAD", "/files/page.txt", &[], true)?;
    let response = client.whole(stream)?;
    response.is("200", b"")?;
    expect(
        response.field("content-length") == "7",
        "HEAD has no length",
    )
}

fn get_large(port: u16) -> Outcome {
    Client::connected(port)?
        .get("/bytes/8000000")?
        .is("200", &pattern(8_000_000))
}

fn get_many(port: u16) -> Outcome {
    let mut client = Client::connected(port)?;
    let mut streams = Vec::new();
    for number in 0..80 {
        streams.push(client.begin("GET", &format!("/bytes/{}", 16 * number), &[], true)?);
    }
    for (number, stream) in streams.into_iter().enumerate() {
        client.whole(stream)?.is("200", &pattern(16 * number))?;
    }
    Ok(())
}

fn empty(port: u16) -> Outcome {
    let mut client = Client::connected(port)?;
    for status in ["204", "304", "404"] {
        client.get(&format!("/status/{status}"))?.is(status, b"")?;
    }
    Ok(())
}

fn post(port: u16) -> Outcome {
    let mut client = Client::connected(port)?;
    for length in [1, 1000, 16_385, 3_000_000] {
        let body = vec![b'x'; length];
        let stream = client.begin("POST", "/echo/", &[], false)?;
        let mut sent = 0;
        client.until("room for a body", |client| {
            let http = client.http.as_mut().expect("it is open");
            while sent < length {
                match http.send_body(&mut client.quic, stream, &body[sent..], true) {
                    Ok(taken) => sent += taken,
                    Err(_) => return false,
                }
            }
            true
        })?;
        client.whole(stream)?.is("200", &body)?;
    }
    Ok(())
}

fn fields(port: u16) -> Outcome {
    let mut client = Client::connected(port)?;
    let value = "v".repeat(400);
    let names: Vec<String> = (0..60).map(|number| format!("x-field-{number}")).collect();
    let fields: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), value.as_str()))
        .collect();
    let stream = client.begin("GET", "/fields/", &fields, true)?;
    let seen = String::from_utf8_lossy(&client.whole(stream)?.body)
        .matches(&value)
        .count();
    expect(seen == 60, format!("{seen} of 60 fields"))?;
    let response = client.get("/answers/60")?;
    let seen = response
        .fields
        .iter()
        .filter(|(name, _)| name.starts_with("x-field-"))
        .count();
    expect(seen == 60, format!("{seen} of 60 fields of a response"))
}

fn cancelled(port: u16) -> Outcome {
    let mut client = Client::connected(port)?;
    let stream = client.begin("GET", "/bytes/20000000", &[], true)?;
    client.until("a response", |client| {
        client
            .responses
            .get(&stream)
            .is_some_and(|one| !one.body.is_empty())
    })?;
    client
        .quic
        .stream_shutdown(stream, quiche::Shutdown::Read, CANCELLED)
        .map_err(wrong)?;
    client.is_served()
}

/// A `PRIORITY_UPDATE` for a request of urgency 7 that waits behind another has it served first.
fn priority(port: u16) -> Outcome {
    let mut client = Client::connected(port)?;
    let late = [("priority", "u=7")];
    let first = client.begin("GET", "/bytes/6000000", &late, true)?;
    let second = client.begin("GET", "/bytes/6000000", &late, true)?;
    client.until("the first response", |client| {
        client
            .responses
            .get(&first)
            .is_some_and(|one| !one.body.is_empty())
    })?;
    let http = client.http.as_mut().ok_or("no HTTP/3")?;
    http.send_priority_update_for_request(&mut client.quic, second, &Priority::new(0, false))
        .map_err(wrong)?;
    client.whole(first)?;
    client.whole(second)?;
    expect(
        client.order == [second, first],
        format!("the order is {:?}", client.order),
    )
}

fn migration(port: u16) -> Outcome {
    let mut client = Client::connected(port)?;
    client.until("an id for another path", |client| {
        client.quic.available_dcids() > 0
    })?;
    let stream = client.begin("GET", "/bytes/8000000", &[], true)?;
    client.until("a response", |client| {
        client
            .responses
            .get(&stream)
            .is_some_and(|one| !one.body.is_empty())
    })?;
    let (old, new) = (client.sockets[0].local_addr().map_err(wrong)?, socket()?);
    let local = new.local_addr().map_err(wrong)?;
    client.sockets.push(new);
    let id = quiche::ConnectionId::from_vec(local.port().to_be_bytes().repeat(8));
    client.quic.new_scid(&id, 1, false).map_err(wrong)?;
    client.quic.migrate_source(local).map_err(wrong)?;
    client.whole(stream)?.is("200", &pattern(8_000_000))?;
    let mut paths = client.quic.path_stats();
    let is_there =
        paths.any(|path| path.active && path.local_addr == local && path.local_addr != old);
    expect(is_there, "the new path is not in use")
}

/// The session of a first connection.
fn session(port: u16) -> Outcome<Vec<u8>> {
    let mut client = Client::connected(port)?;
    client.is_served()?;
    client.until("a ticket", |client| client.quic.session().is_some())?;
    Ok(client.quic.session().unwrap_or_default().to_vec())
}

fn resumed(port: u16) -> Outcome {
    let session = session(port)?;
    let mut client = Client::new(port, Some(&session))?;
    client.until("a handshake", |client| client.quic.is_established())?;
    expect(client.quic.is_resumed(), "it is another session")?;
    client.open()?;
    client.is_served()
}

/// quiche does not keep the tokens that prove a client's address, so its request waits for the handshake.
fn early_get(port: u16) -> Outcome {
    let session = session(port)?;
    let mut client = Client::new(port, Some(&session))?;
    expect(client.quic.is_in_early_data(), "no early data is allowed")?;
    client.open()?;
    let stream = client.begin("GET", "/fields/", &[], true)?;
    let response = client.whole(stream)?;
    let seen = String::from_utf8_lossy(&response.body).contains("[\"early-data\", \"1\"]");
    expect(
        !seen,
        "a request from an address that is not proven has not waited for the handshake",
    )
}

fn closed(port: u16) -> Outcome {
    let mut client = Client::connected(port)?;
    client.is_served()?;
    client.quic.close(true, 0x100, b"").map_err(wrong)?;
    client.send()?;
    Client::connected(port)?.is_served()
}

fn main() {
    let port = std::env::args()
        .nth(1)
        .and_then(|port| port.parse().ok())
        .expect("a port");
    let cases: [(&str, fn(u16) -> Outcome); 12] = [
        ("get", get),
        ("get-large", get_large),
        ("get-many", get_many),
        ("empty", empty),
        ("post", post),
        ("fields", fields),
        ("cancelled", cancelled),
        ("priority", priority),
        ("migration", migration),
        ("resumed", resumed),
        ("early-get", early_get),
        ("close", closed),
    ];
    for (name, case) in cases {
        println!("{name}\t{}", case(port).err().unwrap_or_default());
    }
}
