//! A response's body on its way to the application: what was read of it already, the rest, and the
//! slot that it may hold.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use reqwest::{Body, Response, ResponseBuilderExt, Url};

use super::bill::Bill;
use super::claim::Claim;
use super::ear::Ear;
use super::watch;

/// Reads the start of a body, and gives the response back as it was.
pub(super) async fn peek(response: Response) -> (Response, Bytes) {
    let url = response.url().clone();
    let (parts, mut body) = http::Response::<Body>::from(response).into_parts();
    let mut read = VecDeque::new();
    let mut slice = BytesMut::new();
    let reading = async {
        while slice.len() < SLICE {
            let Some(frame) = body.frame().await else {
                break;
            };
            if let Some(data) = frame.as_ref().ok().and_then(Frame::data_ref) {
                slice.extend_from_slice(data);
            }
            let failed = frame.is_err();
            read.push_back(frame);
            if failed {
                break;
            }
        }
    };
    // What has come by then is enough to classify by; the application gets the rest when it comes.
    let in_time = tokio::time::timeout(PATIENCE, reading).await;
    drop(in_time);
    slice.truncate(SLICE);
    let body = Body::wrap(Whole {
        read,
        rest: body,
        held: None,
        ear: None,
        bill: None,
    });
    (rebuilt(parts, body, url), slice.freeze())
}

/// The same response, whose slot is `held` until the end of its body. An `ear` hears what passes, and
/// a `bill` is settled before the slot is free.
pub(super) fn accompanied(
    response: Response,
    held: Option<Claim>,
    ear: Option<Ear>,
    bill: Option<Bill>,
) -> Response {
    if held.is_none() && bill.is_none() {
        return response;
    }
    let url = response.url().clone();
    let (parts, rest) = http::Response::<Body>::from(response).into_parts();
    if let Some(watch) = held.as_ref().and_then(Claim::watch) {
        watch.hold_body();
    }
    let body = Body::wrap(Whole {
        read: VecDeque::new(),
        rest,
        held,
        ear,
        bill,
    });
    rebuilt(parts, body, url)
}

/// The same response with another URL to show.
pub(super) fn with_url(response: Response, url: Url) -> Response {
    let (parts, body) = http::Response::<Body>::from(response).into_parts();
    rebuilt(parts, body, url)
}

/// A response of these parts. The conversion from `http` would lose the URL.
fn rebuilt(mut parts: http::response::Parts, body: Body, url: Url) -> Response {
    let carrier = http::Response::builder().url(url).body(());
    let carrier = carrier.expect("an empty response is valid");
    parts.extensions.extend(carrier.into_parts().0.extensions);
    http::Response::from_parts(parts, body).into()
}

/// The frames that were read, then the rest.
struct Whole {
    read: VecDeque<Result<Frame<Bytes>, reqwest::Error>>,
    rest: Body,
    /// Dropped at the end of the body, at its failure, or with it.
    held: Option<Claim>,
    ear: Option<Ear>,
    bill: Option<Bill>,
}

impl Whole {
    /// A step of the body, for the bill.
    fn hear(&mut self, frame: &Poll<Option<Result<Frame<Bytes>, reqwest::Error>>>) {
        let Some(bill) = &mut self.bill else { return };
        let (piece, ended) = match frame {
            Poll::Pending => return,
            Poll::Ready(Some(Ok(frame))) => {
                (frame.data_ref(), http_body::Body::is_end_stream(&self.rest))
            }
            Poll::Ready(None) => (None, true),
            Poll::Ready(Some(Err(_))) => {
                self.bill = None;
                return;
            }
        };
        if let Some(piece) = piece {
            bill.hear(piece);
        }
        if ended && let Some(bill) = self.bill.take() {
            bill.settle();
        }
    }
}

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        if let Some(frame) = self.read.pop_front() {
            return Poll::Ready(Some(frame));
        }
        let whole = &mut *self;
        let mut step = |context: &mut Context<'_>| Pin::new(&mut whole.rest).poll_frame(context);
        let frame = match &whole.held {
            Some(claim) => watch::watched_step(claim, context, step),
            None => step(context),
        };
        whole.hear(&frame);
        if let (Some(ear), Some(claim), Poll::Ready(Some(Ok(frame)))) =
            (&mut whole.ear, &whole.held, &frame)
            && let Some(data) = frame.data_ref()
        {
            ear.hear(data, |said| claim.amend(said));
        }
        let ended = match &frame {
            Poll::Ready(None | Some(Err(_))) => true,
            Poll::Ready(Some(Ok(_))) => whole.rest.is_end_stream(),
            Poll::Pending => false,
        };
        if ended {
            self.held = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.iter().flatten().filter_map(Frame::data_ref);
        let read: u64 = read.map(|data| data.len() as u64).sum();
        // Without it the response would not know its length any more.
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(read));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint
    }
}

/// As much of a body as classification looks at: the codes and delays of every vendor known stand
/// within the first kilobyte.
const SLICE: usize = 8 * 1024;
/// How long a refusal's body may take to come: a server that refuses has nothing to compute.
const PATIENCE: Duration = Duration::from_secs(1);
