//! Tasks that wait for news of an exchange.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::task::Waker;

/// The waker of the task that waits for news of a slot, by slot.
pub(crate) type Waiting = Rc<RefCell<HashMap<u32, Waker>>>;
