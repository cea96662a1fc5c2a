//! Requests to the controller, through main.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tutti_options::source::LiveNodes;
use tutti_protocol::{FleetAnswer, FleetRequest, FleetText, FromFleet, ToFleet};

/// Sends requests to main, and receives its messages.
pub(crate) type Link = tutti_unprivileged::link::Link<FromFleet, ToFleet>;

/// The controller, as seen by this process.
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

    /// Sends a request, and waits for the answer: main answers if there is no controller.
    pub(crate) async fn ask(&self, request: FleetRequest) -> FleetAnswer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.asked().insert(id, sender);
        self.link.send(&FromFleet::Tell { id, request });
        receiver.await.unwrap_or_else(|_| FleetAnswer::Unavailable {
            reason: "the main process has ended".to_owned(),
        })
    }

    /// Delivers an answer.
    pub(crate) fn answered(&self, id: u64, answer: FleetAnswer) {
        if let Some(sender) = self.asked().remove(&id) {
            // The request may have been given up.
            let _ = sender.send(answer);
        }
    }

    /// Sends main the nodes of the fleet, for the routers.
    pub(crate) fn send_nodes(&self, known: LiveNodes) {
        self.link.send(&FromFleet::Nodes { known });
    }

    /// Reports to main that other nodes know of the stop, or cannot.
    pub(crate) fn send_left(&self) {
        self.link.send(&FromFleet::Left);
    }

    /// Makes main keep this text about certificates for the next source process.
    pub(crate) fn keep_certificates(&self, text: String) {
        self.link.send(&FromFleet::KeepCertificates { text });
    }

    /// Makes main keep this text for the next source process.
    pub(crate) fn keep(&self, text: String) {
        self.link.send(&FromFleet::Keep { text });
    }

    /// Makes main keep this additional text.
    pub(crate) fn keep_beside(&self, name: FleetText, text: String) {
        self.link.send(&FromFleet::KeepBeside { name, text });
    }
}
