//! A member that uses gRPC correctly, but answers what etcd never does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::client::{EtcdClient, KeepAlive};
use super::error::EtcdError;
use super::messages::{
    Compared, Header, KeyValue, LeaseGrantAnswer, LeaseKeepAliveAnswer, LeaseRevokeAnswer, Put,
    PutAnswer, RangeAnswer, Request, Txn, TxnAnswer, WatchAnswer, WatchEvent,
};
use super::pairs::Pair;
use super::transport::{ClusterOptions, EtcdEndpoint, EtcdTls};
use super::watch::KeyChange;

/// The member's answer to a call.
#[derive(Clone, Default)]
pub(crate) struct Lies {
    messages: Vec<Bytes>,
    /// The status in the trailers; `None`: the call ends without one.
    outcome: Option<&'static str>,
    /// The call does not end.
    goes_on: bool,
}

fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).unwrap());
    message.encode(&mut bytes).unwrap();
    bytes.freeze()
}

fn whole(message: &impl Message) -> Lies {
    Lies {
        messages: vec![framed(message)],
        outcome: Some("0"),
        goes_on: false,
    }
}

/// Creates a call that gives these answers, and goes on.
pub(crate) fn stream(messages: &[WatchAnswer]) -> Lies {
    Lies {
        messages: messages.iter().map(framed).collect(),
        outcome: None,
        goes_on: true,
    }
}

/// Returns a client of a member that gives this answer. Needs a runtime, with which the member ends.
pub(crate) async fn client(lies: Lies) -> EtcdClient {
    let endpoint = member(lies).await;
    EtcdClient::connect(&endpoint, &options(&endpoint))
        .await
        .unwrap()
}

/// Returns the options for a member, which has plenty of time for its answers.
pub(crate) fn options(endpoint: &EtcdEndpoint) -> ClusterOptions {
    ClusterOptions {
        endpoints: vec![endpoint.clone()],
        tls: EtcdTls::default(),
        user: None,
        patience: Duration::from_secs(60),
    }
}

/// Starts a member that gives this answer to every call.
async fn member(lies: Lies) -> EtcdEndpoint {
    serve(move |_, _| lies.clone()).await
}

/// Starts a member that answers each call by its method and first message.
async fn serve(answer: impl Fn(&str, &[u8]) -> Lies + Send + Sync + 'static) -> EtcdEndpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve_connection(stream, Arc::clone(&answer)));
        }
    });
    EtcdEndpoint {
        is_secure: false,
        host: "127.0.0.1".to_owned(),
        port,
    }
}

async fn serve_connection(
    stream: TcpStream,
    answer: Arc<impl Fn(&str, &[u8]) -> Lies + Send + Sync + 'static>,
) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let (head, mut asked) = request.into_parts();
            let question = asked.data().await.unwrap().unwrap();
            let (_, method) = head.uri.path().rsplit_once('/').unwrap();
            // After the flag and the length.
            let lies = answer(method, &question[5..]);
            let mut body = respond.send_response(Response::new(()), false).unwrap();
            for message in &lies.messages {
                body.send_data(message.clone(), false).unwrap();
            }
            match lies.outcome {
                _ if lies.goes_on => {
                    // The request stream stays open as long as the client wants it.
                    while let Some(Ok(_)) = asked.data().await {}
                }
                Some(outcome) => {
                    let mut trailers = HeaderMap::new();
                    trailers.insert("grpc-status", HeaderValue::from_static(outcome));
                    body.send_trailers(trailers).unwrap();
                }
                None => body.send_data(Bytes::new(), true).unwrap(),
            }
        });
    }
}

/// Starts a member with one key and one lease, which makes the first change of a transaction without answering.
pub(crate) async fn member_that_loses_an_answer(key: &'static [u8]) -> EtcdEndpoint {
    let state = Mutex::new((None::<Vec<u8>>, false));
    serve(move |method, question| {
        let (value, has_lost) = &mut *state.lock().unwrap();
        match method {
            "LeaseGrant" => whole(&LeaseGrantAnswer {
                id: 5,
                error: String::new(),
            }),
            "LeaseKeepAlive" => whole(&LeaseKeepAliveAnswer { id: 5, seconds: 9 }),
            "Put" => {
                *value = Some(Put::decode(question).unwrap().value);
                whole(&PutAnswer {})
            }
            "Txn" => {
                let Txn { compare, success } = Txn::decode(question).unwrap();
                let succeeded = match &compare[0].to {
                    Some(Compared::Value(expected)) => value.as_ref() == Some(expected),
                    _ => value.is_none(),
                };
                let answer = whole(&TxnAnswer { succeeded });
                let Some(Request::Put(put)) = &success[0].request else {
                    return answer;
                };
                if !succeeded {
                    return answer;
                }
                *value = Some(put.value.clone());
                match std::mem::replace(has_lost, true) {
                    true => answer,
                    false => Lies::default(),
                }
            }
            "Range" => {
                let pairs = value.iter().map(|value| KeyValue {
                    key: key.to_vec(),
                    value: value.clone(),
                });
                let pairs: Vec<KeyValue> = pairs.collect();
                whole(&RangeAnswer {
                    count: i64::try_from(pairs.len()).unwrap(),
                    pairs,
                    ..range(9, &[])
                })
            }
            other => panic!("`{other}` is not expected"),
        }
    })
    .await
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(test);
}

/// Returns a key with a value.
pub(crate) fn pair(key: &[u8]) -> KeyValue {
    KeyValue {
        key: key.to_vec(),
        value: b"v".to_vec(),
    }
}

fn range(revision: i64, keys: &[&[u8]]) -> RangeAnswer {
    RangeAnswer {
        header: Some(Header {
            cluster: 7,
            revision,
        }),
        pairs: keys.iter().map(|key| pair(key)).collect(),
        more: false,
        count: i64::try_from(keys.len()).unwrap(),
    }
}

fn is_foreign<T>(outcome: &Result<T, EtcdError>) -> bool {
    matches!(outcome, Err(EtcdError::Foreign(_)))
}

#[test]
fn a_list_that_is_not_what_was_asked_for_is_refused() {
    run(async {
        let honest = client(whole(&range(9, &[b"a/1", b"a/2"]))).await;
        let (pairs, revision) = honest.list(b"a/").await.unwrap();
        assert_eq!((pairs.len(), revision), (2, 9));
        let not_whole = RangeAnswer {
            count: 3,
            ..range(9, &[b"a/1"])
        };
        let more = RangeAnswer {
            more: true,
            ..range(9, &[b"a/1"])
        };
        for (what, lie) in [
            ("another key", range(9, &[b"a/1", b"b/2"])),
            ("no revision", range(0, &[])),
            ("a negative revision", range(-1, &[])),
            ("a revision that has no next", range(i64::MAX, &[])),
            ("fewer than it says", not_whole),
            ("more to come", more),
        ] {
            let client = client(whole(&lie)).await;
            assert!(is_foreign(&client.list(b"a/").await), "{what}");
            assert!(is_foreign(&client.keys(b"a/").await), "{what}");
        }
        let negative = RangeAnswer {
            count: -1,
            ..range(9, &[])
        };
        assert!(is_foreign(
            &client(whole(&negative)).await.count(b"a/").await
        ));
    });
}

#[test]
fn an_answer_without_an_outcome_is_none() {
    run(async {
        let cut = Lies {
            outcome: None,
            ..whole(&range(9, &[b"a/1"]))
        };
        let outcome = client(cut).await.list(b"a/").await;
        assert!(
            matches!(outcome, Err(EtcdError::Connection(_))),
            "{outcome:?}"
        );
        let nonsense = Lies {
            outcome: Some("fine"),
            ..whole(&range(9, &[b"a/1"]))
        };
        assert!(is_foreign(&client(nonsense).await.list(b"a/").await));
        for garbage in [
            &b"\0\0\0\0\x02\xff\xff"[..],
            b"\x01\0\0\0\0",
            b"\0\xff\xff\xff\xff",
        ] {
            let lie = Lies {
                messages: vec![Bytes::from_static(garbage)],
                ..whole(&range(9, &[]))
            };
            assert!(
                is_foreign(&client(lie).await.list(b"a/").await),
                "{garbage:?}"
            );
        }
        let nothing = Lies {
            messages: Vec::new(),
            ..whole(&range(9, &[]))
        };
        assert!(is_foreign(&client(nothing).await.list(b"a/").await));
    });
}

#[test]
fn a_lease_that_is_none_or_anothers_is_refused() {
    run(async {
        let grant = |id| LeaseGrantAnswer {
            id,
            error: String::new(),
        };
        let life = Duration::from_secs(5);
        assert_eq!(client(whole(&grant(5))).await.grant(life).await.unwrap(), 5);
        // Values under lease 0 stay forever.
        assert!(is_foreign(
            &client(whole(&grant(0))).await.grant(life).await
        ));
        let kept = |id, seconds| LeaseKeepAliveAnswer { id, seconds };
        let outcome = client(whole(&kept(5, 9))).await.keep_alive(5).await;
        assert_eq!(outcome.unwrap(), KeepAlive::Held);
        let outcome = client(whole(&kept(5, 0))).await.keep_alive(5).await;
        assert_eq!(outcome.unwrap(), KeepAlive::Lost);
        assert!(is_foreign(
            &client(whole(&kept(6, 9))).await.keep_alive(5).await
        ));
    });
}

#[test]
fn a_lease_that_has_ended_is_revoked() {
    run(async {
        let refused = |outcome| Lies {
            outcome: Some(outcome),
            ..Lies::default()
        };
        let done = client(whole(&LeaseRevokeAnswer {})).await;
        assert!(done.revoke(5).await.is_ok());
        // NOT_FOUND, and UNAVAILABLE.
        assert!(client(refused("5")).await.revoke(5).await.is_ok());
        assert!(client(refused("14")).await.revoke(5).await.is_err());
        assert!(client(refused("5")).await.list(b"a/").await.is_err());
    });
}

fn header(revision: i64) -> Option<Header> {
    Some(Header {
        cluster: 7,
        revision,
    })
}

/// Returns the first message of a watch.
pub(crate) fn begun() -> WatchAnswer {
    WatchAnswer {
        header: header(9),
        created: true,
        ..WatchAnswer::default()
    }
}

/// Returns a message with an event.
pub(crate) fn news(kind: i32, pair: Option<KeyValue>) -> WatchAnswer {
    WatchAnswer {
        header: header(10),
        events: vec![WatchEvent { kind, pair }],
        ..WatchAnswer::default()
    }
}

#[test]
fn a_silent_watch_is_noticed_by_a_caller_that_waits_for_less_time() {
    run(async {
        let endpoint = member(stream(&[begun()])).await;
        let options = ClusterOptions {
            patience: Duration::from_millis(500),
            ..options(&endpoint)
        };
        let client = EtcdClient::connect(&endpoint, &options).await.unwrap();
        let mut watch = client.watch(b"a/", 9).await.unwrap();
        let waited = async {
            loop {
                if let Ok(ended) = timeout(Duration::from_millis(10), watch.next()).await {
                    return ended;
                }
            }
        };
        let ended = timeout(Duration::from_secs(20), waited).await.unwrap();
        assert!(matches!(ended, Err(EtcdError::Silent(_))), "{ended:?}");
    });
}

#[test]
fn no_event_is_left_out_or_made_up() {
    run(async {
        let honest = client(stream(&[begun(), news(0, Some(pair(b"a/1")))])).await;
        let mut watch = honest.watch(b"a/", 9).await.unwrap();
        let put = KeyChange::Put(Pair {
            key: b"a/1".to_vec(),
            value: b"v".to_vec(),
        });
        assert_eq!(watch.next().await.unwrap(), [put]);
        for (what, lie) in [
            ("no key", news(0, None)),
            ("another key", news(0, Some(pair(b"b/1")))),
            ("another key that is deleted", news(1, Some(pair(b"b/1")))),
            ("no type that there is", news(7, Some(pair(b"a/1")))),
        ] {
            let client = client(stream(&[begun(), lie])).await;
            let mut watch = client.watch(b"a/", 9).await.unwrap();
            assert!(is_foreign(&watch.next().await), "{what}");
        }
        let older = WatchAnswer {
            header: header(8),
            ..news(0, Some(pair(b"a/1")))
        };
        let client_of_older = client(stream(&[begun(), older])).await;
        let mut watch = client_of_older.watch(b"a/", 9).await.unwrap();
        assert!(matches!(watch.next().await, Err(EtcdError::Ended(_))));
        // It never starts, or its first message already has events, which would be lost.
        for lie in [
            WatchAnswer {
                created: false,
                ..begun()
            },
            WatchAnswer {
                created: true,
                ..news(0, Some(pair(b"a/1")))
            },
        ] {
            let client = client(stream(&[lie])).await;
            assert!(
                client
                    .watch(b"a/", 9)
                    .await
                    .is_err_and(|error| matches!(error, EtcdError::Foreign(_)))
            );
        }
    });
}
