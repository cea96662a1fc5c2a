//! Questions to the controller, through main.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tutti_options::source::LiveNodes;
use tutti_protocol::{FleetAnswer, FleetRequest, FleetText, FromFleet, ToFleet};

/// Asks main, and hears its news.
pub(crate) type Link = tutti_unprivileged::link::Link<FromFleet, ToFleet>;

/// The controller, as this process knows it.
pub(crate) struct Controller {
    link: Arc<Link>,
    next: AtomicU64,
    asked: Mutex<HashMap<u64, oneshot::Sender<FleetAnswer>>>,
}

impl Controller {
    pub(crate) fn new(link: Arc<Link>) -> Controller {
        Controller {
            link,
            next: AtomicU64::new(1),
            asked: Mutex::default(),
        }
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<FleetAnswer>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, and waits for the answer: main gives one also where there is no controller.
    pub(crate) async fn ask(&self, request: FleetRequest) -> FleetAnswer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.asked().insert(id, sender);
        self.link.send(&FromFleet::Tell { id, request });
        receiver.await.unwrap_or_else(|_| FleetAnswer::Unavailable {
            reason: "the main process has gone".to_owned(),
        })
    }

    /// An answer has come.
    pub(crate) fn answered(&self, id: u64, answer: FleetAnswer) {
        if let Some(sender) = self.asked().remove(&id) {
            // Whoever asked may have given up.
            let _ = sender.send(answer);
        }
    }

    /// Tells main of the nodes of the fleet, which it passes on to routers.
    pub(crate) fn tell_nodes(&self, known: LiveNodes) {
        self.link.send(&FromFleet::Nodes { known });
    }

    /// Tells main that other nodes have been told of the stop, or cannot be.
    pub(crate) fn tell_left(&self) {
        self.link.send(&FromFleet::Left);
    }

    /// Has main keep this about certificates for the next process of this kind.
    pub(crate) fn keep_certificates(&self, text: String) {
        self.link.send(&FromFleet::KeepCertificates { text });
    }

    /// Has main keep this for the next process of this kind.
    pub(crate) fn keep(&self, text: String) {
        self.link.send(&FromFleet::Keep { text });
    }

    /// Has main keep this beside it.
    pub(crate) fn keep_beside(&self, name: FleetText, text: String) {
        self.link.send(&FromFleet::KeepBeside { name, text });
    }
}
