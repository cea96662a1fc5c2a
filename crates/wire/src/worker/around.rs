//! Interim responses before the head, and trailer fields after the body: they share the head area with the head.

use super::exchange::Exchange;
use crate::layout::{HEAD_CAPACITY, HEAD_INLINE};
use crate::response::{INTERIM_PREFIX, ResponseHeadError, encode_into, is_interim, measure};
use crate::shared::Region;
use crate::sync::Ordering;

impl Exchange {
    /// Writes fields in the head area at this offset.
    pub(super) fn encode_at<'f>(
        &self,
        start: usize,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> bool {
        let area = self.core.shared.region(self.slot, Region::Head);
        area.is_some_and(|area| encode_into(area, start, fields))
    }

    /// True at the first call for an exchange: an interim response or trailer fields did not fit, which is to be logged once.
    pub fn is_overflow_news(&self) -> bool {
        !self.is_overflow_known.replace(true)
    }

    /// Sends an interim response at once: 103 (Early Hints), for example. All heads of one response share the head area.
    pub fn interim<'f, I>(&self, status: u16, fields: I) -> Result<(), ResponseHeadError>
    where
        I: IntoIterator<Item = (&'f [u8], &'f [u8])>,
        I::IntoIter: Clone,
    {
        if self.is_started() {
            return Err(ResponseHeadError::Started);
        }
        if !is_interim(status) {
            return Err(ResponseHeadError::Interim(status));
        }
        let fields = fields.into_iter();
        let (length, _) = measure(fields.clone())?;
        let start = self.interims.get();
        let end = start + INTERIM_PREFIX + length;
        let area = self.core.shared.region(self.slot, Region::Head);
        let (Some(control), Some(area)) = (self.control(), area) else {
            return Err(ResponseHeadError::TooLarge(length));
        };
        let [s0, s1] = status.to_ne_bytes();
        let [l0, l1, l2, l3] = (length as u32).to_ne_bytes();
        if end > HEAD_CAPACITY as usize
            || !area.write(start, &[s0, s1, 0, 0, l0, l1, l2, l3])
            || !self.encode_at(start + INTERIM_PREFIX, fields)
        {
            return Err(ResponseHeadError::TooLarge(length));
        }
        self.interims.set(end);
        let interims = &control.worker.interims_length;
        interims.store(end as u32, Ordering::Release);
        self.signal();
        Ok(())
    }

    /// Sets the trailer fields, which are sent with the end, in place of those set before. An HTTP/1 client gets them only if the head has
    /// a field `Trailer`. They share the head area with the head.
    pub fn trailers<'f, I>(&self, fields: I) -> Result<(), ResponseHeadError>
    where
        I: IntoIterator<Item = (&'f [u8], &'f [u8])>,
        I::IntoIter: Clone,
    {
        let control = self
            .control()
            .filter(|_| self.is_started() && !self.is_ended());
        let control = control.ok_or(ResponseHeadError::Misplaced)?;
        let fields = fields.into_iter();
        let (length, _) = measure(fields.clone())?;
        let worker = &control.worker;
        let head = match self.head_place.get() {
            HEAD_INLINE => worker.head_length.load(Ordering::Relaxed) as usize,
            _ => 0,
        };
        let start = self.interims.get() + head;
        if start + length > HEAD_CAPACITY as usize || !self.encode_at(start, fields) {
            return Err(ResponseHeadError::TooLarge(length));
        }
        let trailers = &worker.trailers_length;
        trailers.store(length as u32, Ordering::Relaxed);
        Ok(())
    }
}
