//! HTTPS for the tests: a certificate that signs itself.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tutti_testkit::{Server, client};

use crate::python::run;

/// Stores a certificate for `localhost` and 127.0.0.1 as the bundle `site`; the file that clients are to trust.
pub fn certificate(server: &Server) -> PathBuf {
    let (pem, key) = (
        server.folder().join("site.pem"),
        server.folder().join("site.key"),
    );
    run(Command::new("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost".split(' '))
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&pem));
    let bundle = [&pem, &key]
        .map(|path| fs::read(path).expect("openssl wrote it"))
        .concat();
    let reply = client::control(server.control(), "PUT", "/certificates/site", &bundle);
    let reply = reply.expect("an answer");
    assert_eq!(reply.status, 200, "{}", reply.text());
    pem
}
