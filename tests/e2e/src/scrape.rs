//! Metrics as a test reads them: Prometheus's text.

use std::collections::BTreeMap;

use tutti_testkit::{Reply, Server, client};

/// The samples of a page, by name and labels as they are written.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples(pub BTreeMap<String, f64>);

impl Samples {
    /// Reads a page.
    pub fn read(page: &str) -> Samples {
        let mut samples = BTreeMap::new();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').expect(line);
            let value = value.parse().expect(line);
            let before = samples.insert(name.to_owned(), value);
            assert_eq!(before, None, "{line}");
        }
        Samples(samples)
    }

    /// The metrics at the control socket.
    pub fn of(server: &Server) -> Samples {
        let reply = client::control(server.control(), "GET", "/metrics", b"").expect("a reply");
        assert_eq!(reply.status, 200, "{}", reply.text());
        Samples::read(&reply.text())
    }

    /// The value of a sample: its name, and labels as in `a="b",c="d"`.
    pub fn get(&self, name: &str, labels: &str) -> f64 {
        let key = match labels {
            "" => name.to_owned(),
            labels => format!("{name}{{{labels}}}"),
        };
        *self
            .0
            .get(&key)
            .unwrap_or_else(|| panic!("{key} is not among {:#?}", self.0.keys()))
    }

    /// The names of the samples without their labels.
    pub fn names(&self) -> std::collections::BTreeSet<&str> {
        let keys = self.0.keys();
        keys.map(|key| key.split('{').next().unwrap_or(key))
            .collect()
    }
}

/// `GET` at the control socket, with this `Accept`.
pub fn accepting(server: &Server, accept: &str) -> Reply {
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: {accept}\r\n\r\n"
    );
    client::request_by_path(server.control(), request.as_bytes()).expect("a reply")
}
