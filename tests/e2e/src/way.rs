//! A way to a server on which nothing passes unseen.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;

/// A way to this address on which nothing passes before it has been looked once more: `looked` counts the looks.
pub fn watched_way(to: SocketAddr, looked: watch::Receiver<u64>) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = tokio::net::TcpStream::connect(to).await else {
                    continue;
                };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(watched(from_client, to_server, looked.clone()));
                tokio::spawn(watched(from_server, to_client, looked.clone()));
            }
        });
    });
    address
}

async fn watched(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut looked: watch::Receiver<u64>,
) {
    let mut room = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut room).await {
        // A look that has begun already may have missed the event of this piece; the one after it ends two later.
        let enough = *looked.borrow() + 2;
        let has_looked = looked.wait_for(|looks| *looks >= enough).await.is_ok();
        if !has_looked || to.write_all(&room[..count]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
