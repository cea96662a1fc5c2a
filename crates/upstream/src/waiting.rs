//! The claim of a request that may wait: until names have been looked up for the first time, then until a server has capacity.
//!
//! Called for requests and for connections that are passed on. Must never happen: a request waits longer than `connect_timeout` for names, or
//! longer than `queue_timeout` for capacity.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep, timeout};

use crate::Millis;
use crate::group::{ServerChoice, ServerClaim, ServerGroup, Tried, Unavailable};

/// The effect of a group without capacity on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits in the queue.
    Wait,
    /// It is refused.
    Refuse,
}

impl ServerGroup {
    /// Claims a server for a request, which waits if it must. `clock` returns the current time.
    ///
    /// # Errors
    /// [`Unavailable`]; with [`WhenFull::Wait`], [`Unavailable::Full`] means that the queue is full or that no capacity has come in time.
    pub async fn claim_in_time<'c>(
        self: &Arc<Self>,
        choice: impl Into<ServerChoice<'c>>,
        tried: &Tried,
        when_full: WhenFull,
        clock: fn() -> Millis,
    ) -> Result<ServerClaim, Unavailable> {
        let choice = choice.into();
        let mut claimed = self.claim(choice, tried, clock());
        if let Err(Unavailable::Naming) = claimed {
            let mut named = self.named();
            let naming = named.wait_for(|is_named| *is_named);
            // After the wait, in time or not, the servers known now are used.
            let _ = timeout(self.options().connect_timeout, naming).await;
            claimed = self.claim(choice, tried, clock());
        }
        if !matches!(claimed, Err(Unavailable::Full)) || when_full == WhenFull::Refuse {
            return claimed;
        }
        let place = self.wait().ok_or(Unavailable::Full)?;
        let mut end_of_rest: Option<Pin<Box<Sleep>>> = None;
        let turn = poll_fn(|context| {
            loop {
                if let Some(end) = &mut end_of_rest
                    && end.as_mut().poll(context).is_ready()
                {
                    // A server may get requests again without one having ended.
                    self.wake_next();
                }
                let now = clock();
                let polled = self.poll_claim(context, &place, choice, tried, now);
                if polled.is_ready() {
                    return polled;
                }
                let pause = self.next_end_of_rest(now).map(|end| end - now);
                end_of_rest = pause.map(|pause| Box::pin(sleep(Duration::from_millis(pause))));
                match &mut end_of_rest {
                    Some(end) => ready!(end.as_mut().poll(context)),
                    None => return Poll::Pending,
                }
            }
        });
        let waited = timeout(self.model().group.queue_timeout, turn).await;
        waited.unwrap_or(Err(Unavailable::Full))
    }
}
