//! One request over HTTP/2, by a client of the `h2` crate.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request};
use tutti_testkit::PATIENCE;

/// A response over HTTP/2.
pub(crate) struct Http2Reply {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: HeaderMap,
}

impl Http2Reply {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The response to a request with this body.
pub(crate) fn over_http2(
    address: SocketAddr,
    method: &str,
    target: &str,
    body: &[u8],
) -> Http2Reply {
    over_http2_with(address, (method, target), &[], body)
}

/// The same for a request with these fields.
pub(crate) fn over_http2_with(
    address: SocketAddr,
    (method, target): (&str, &str),
    fields: &[(&str, &str)],
    body: &[u8],
) -> Http2Reply {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://test{target}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let request = request.body(()).unwrap();
    let body = Bytes::copy_from_slice(body);
    runtime.block_on(async {
        let talk = async {
            let socket = tokio::net::TcpStream::connect(address).await.unwrap();
            let (client, connection) = h2::client::handshake(socket).await.unwrap();
            let connection = tokio::spawn(connection);
            let mut client = client.ready().await.unwrap();
            let (response, mut stream) = client.send_request(request, body.is_empty()).unwrap();
            if !body.is_empty() {
                // A server that refuses the request may have reset the stream.
                let _ = stream.send_data(body, true);
            }
            let (head, mut receive) = response.await.unwrap().into_parts();
            let mut content = Vec::new();
            while let Some(data) = receive.data().await {
                match data {
                    Ok(data) => {
                        content.extend_from_slice(&data);
                        let _ = receive.flow_control().release_capacity(data.len());
                    }
                    // The response is complete, and the rest of the request is not read.
                    Err(error) => {
                        assert_eq!(error.reason(), Some(h2::Reason::NO_ERROR));
                        break;
                    }
                }
            }
            let trailers = receive.trailers().await.ok().flatten();
            connection.abort();
            Http2Reply {
                status: head.status.as_u16(),
                fields: head.headers,
                body: content,
                trailers: trailers.unwrap_or_default(),
            }
        };
        tokio::time::timeout(PATIENCE, talk)
            .await
            .expect("an answer in time")
    })
}
