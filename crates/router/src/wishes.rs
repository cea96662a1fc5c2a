//! Certificates that clients ask for: wishes of the listen threads, on their way to main.
//!
//! Many handshakes for one name are one wish. What must never happen: that wishes for ever other names take more memory than
//! [`MOST_NAMES`] of them do.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tutti_protocol::FromRouter;
use tutti_tls::{Outcome, Wanted};

use super::line::Link;

/// Names that are waited for at the same time: beyond, they are refused.
const MOST_NAMES: usize = 256;

/// Wishes on their way from the listen threads.
const MOST_ON_THE_WAY: usize = 1024;

/// Account and name.
type Name = (String, String);

/// Begins to take wishes. Ends when nobody can have any more.
pub(super) fn take(link: &Arc<Link>) -> mpsc::Sender<Wanted> {
    let (sender, receiver) = mpsc::channel(MOST_ON_THE_WAY);
    tokio::spawn(serve(Arc::clone(link), receiver));
    sender
}

async fn serve(link: Arc<Link>, mut wishes: mpsc::Receiver<Wanted>) {
    let mut waiting: HashMap<Name, Vec<oneshot::Sender<Outcome>>> = HashMap::new();
    let mut asked: JoinSet<(Name, Outcome)> = JoinSet::new();
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
                    link.tell(&FromRouter::CertificateUsed { account, name });
                    continue;
                };
                let name = (wish.account, wish.name);
                if let Some(others) = waiting.get_mut(&name) {
                    others.retain(|other| !other.is_closed());
                    others.push(answer);
                } else if waiting.len() >= MOST_NAMES {
                    let _ = answer.send(Err("too many names are asked for at once".to_owned()));
                } else {
                    waiting.insert(name.clone(), vec![answer]);
                    asked.spawn(ask(Arc::clone(&link), name, wish.client));
                }
            }
        }
    }
}

async fn ask(link: Arc<Link>, name: Name, client: Option<std::net::IpAddr>) -> (Name, Outcome) {
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
