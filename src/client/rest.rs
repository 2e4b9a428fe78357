//! A body whose first frames were read already, whole again.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use reqwest::Body;

/// The frames that were read, then the rest of the body.
pub(super) struct Rest {
    read: VecDeque<Result<Frame<Bytes>, reqwest::Error>>,
    rest: Body,
}

impl Rest {
    pub(super) fn new(read: Vec<Result<Frame<Bytes>, reqwest::Error>>, rest: Body) -> Self {
        let read = read.into();
        Self { read, rest }
    }
}

impl http_body::Body for Rest {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        match self.read.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.iter().flatten().filter_map(Frame::data_ref);
        let read: u64 = read.map(|data| data.len() as u64).sum();
        let mut hint = self.rest.size_hint();
        // Length still to come, so that `content_length` of the response stays what it was.
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint.set_lower(hint.lower().saturating_add(read));
        hint
    }
}
