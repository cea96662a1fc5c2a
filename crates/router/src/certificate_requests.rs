//! Certificates that clients ask for: wishes of the listen threads, on their way to main.
//!
//! Many handshakes for one name are one wish. What must never happen: that wishes for ever other names take more memory than
//! [`MOST_NAMES`] of them do.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tutti_protocol::FromRouter;
use tutti_tls::{CertificateRequest, CertificateResult};

use super::line::Link;

/// Names that are waited for at the same time: beyond, they are refused.
const MOST_NAMES: usize = 256;

/// Wishes on their way from the listen threads.
const MOST_ON_THE_WAY: usize = 1024;

/// Account and name.
type Name = (String, String);

/// Begins to take wishes. Ends when nobody can have any more.
pub(super) fn take(link: &Arc<Link>) -> mpsc::Sender<CertificateRequest> {
    let (sender, receiver) = mpsc::channel(MOST_ON_THE_WAY);
    tokio::spawn(serve(Arc::clone(link), receiver));
    sender
}

async fn serve(link: Arc<Link>, mut wishes: mpsc::Receiver<CertificateRequest>) {
    let mut waiting: HashMap<Name, Vec<oneshot::Sender<CertificateResult>>> = HashMap::new();
    let mut asked: JoinSet<(Name, CertificateResult)> = JoinSet::new();
    loop {
        tokio::select! {
            Some(done) = asked.join_next() => {
                let Ok((name, outcome)) = done else { continue };
                for answer in waiting.remove(&name).unwrap_or_default() {
                    // A client may have gone.
                    let _ = answer.send(outcome.clone());
                }
            }
            wish = wishes.recv() => {
                let Some(wish) = wish else { return };
                let Some(answer) = wish.answer else {
                    let (account, name) = (wish.account, wish.name);
                    link.send(&FromRouter::CertificateUsed { account, name });
                    continue;
                };
                let name = (wish.account, wish.name);
                if let Some(others) = waiting.get_mut(&name) {
                    others.retain(|other| !other.is_closed());
                    others.push(answer);
                } else if waiting.len() >= MOST_NAMES {
                    let _ = answer.send(Err("too many names are requested at once".to_owned()));
                } else {
                    waiting.insert(name.clone(), vec![answer]);
                    asked.spawn(ask(Arc::clone(&link), name, wish.client));
                }
            }
        }
    }
}

async fn ask(
    link: Arc<Link>,
    name: Name,
    client: Option<std::net::IpAddr>,
) -> (Name, CertificateResult) {
    let make = |id| FromRouter::WantCertificate {
        id,
        account: name.0.clone(),
        name: name.1.clone(),
        client,
    };
    let done = link.request(&make, Vec::new()).await;
    let outcome = done.map(drop).map_err(|refused| refused.message);
    (name, outcome)
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
mod tests {
    use super::*;
    use crate::tests::Main;

    /// A listen thread's end of the wishes, and main's.
    struct Router {
        main: Main,
        wishes: mpsc::Sender<CertificateRequest>,
    }

    impl Router {
        fn new() -> Self {
            let (main, link) = Main::new();
            let wishes = take(&link);
            Self { main, wishes }
        }

        /// A client asks for a certificate, or uses one that there is.
        async fn wish(&self, name: &str, answer: Option<oneshot::Sender<CertificateResult>>) {
            let wish = CertificateRequest {
                account: "account".to_owned(),
                name: name.to_owned(),
                client: None,
                answer,
            };
            self.wishes.send(wish).await.unwrap();
        }

        async fn want(&self, name: &str) -> oneshot::Receiver<CertificateResult> {
            let (sender, receiver) = oneshot::channel();
            self.wish(name, Some(sender)).await;
            receiver
        }

        /// The number of main's next request, which is for this name.
        async fn asked_for(&mut self, expected: &str) -> u64 {
            match self.main.next().await {
                FromRouter::WantCertificate { id, name, .. } if name == expected => id,
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn all_that_want_a_name_share_a_request_and_its_outcome() {
        let mut router = Router::new();
        for outcome in [Ok(()), Err("no such host".to_owned())] {
            let first = router.want("a").await;
            let gone = router.want("a").await;
            let other = router.want("b").await;
            let last = router.want("a").await;
            drop(gone);
            let (a, b) = (router.asked_for("a").await, router.asked_for("b").await);
            match &outcome {
                Ok(()) => router.main.done(a, Vec::new()),
                Err(message) => router.main.fail(a, message),
            }
            assert_eq!(first.await.unwrap(), outcome);
            assert_eq!(last.await.unwrap(), outcome);
            router.main.done(b, Vec::new());
            assert_eq!(other.await.unwrap(), Ok(()));
            // The next round asks anew.
        }
    }

    #[tokio::test]
    async fn the_use_of_a_certificate_is_reported() {
        let mut router = Router::new();
        router.wish("a", None).await;
        let told = router.main.next().await;
        assert!(
            matches!(&told, FromRouter::CertificateUsed { account, name } if account == "account" && name == "a"),
            "{told:?}"
        );
    }

    #[tokio::test]
    async fn names_that_are_waited_for_are_bounded() {
        let mut router = Router::new();
        let mut waiting = Vec::new();
        let mut asked = Vec::new();
        for number in 0..MOST_NAMES {
            waiting.push(router.want(&number.to_string()).await);
            asked.push(router.asked_for(&number.to_string()).await);
        }
        let refused = router.want("one more").await.await.unwrap();
        assert!(refused.is_err());
        // One that is waited for already is not another name.
        let same = router.want("0").await;
        router.main.done(asked[0], Vec::new());
        for answer in [waiting.remove(0), same] {
            assert_eq!(answer.await.unwrap(), Ok(()));
        }
        let has_room = router.want("one more").await;
        let id = router.asked_for("one more").await;
        router.main.done(id, Vec::new());
        assert_eq!(has_room.await.unwrap(), Ok(()));
    }
}
