//! Bodies, as they go up and come down.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

/// Any failure of a body; what it was is for the log.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A request's body on its way up.
pub struct Body(Kind);

enum Kind {
    Empty,
    /// In hand: can be sent again.
    Whole(Option<Bytes>),
    Stream(Pin<Box<dyn HttpBody<Data = Bytes, Error = BodyError> + Send>>),
}

impl Body {
    /// No body.
    pub fn empty() -> Body {
        Body(Kind::Empty)
    }

    /// A body in hand.
    pub fn whole(bytes: impl Into<Bytes>) -> Body {
        let bytes = bytes.into();
        Body(if bytes.is_empty() { Kind::Empty } else { Kind::Whole(Some(bytes)) })
    }

    /// A body that comes as it comes.
    pub fn stream<B>(body: B) -> Body
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BodyError>,
    {
        use http_body_util::BodyExt;
        Body(Kind::Stream(Box::pin(body.map_err(Into::into))))
    }

    /// The same body again, if it is in hand.
    pub fn again(&self) -> Option<Body> {
        match &self.0 {
            Kind::Empty => Some(Body::empty()),
            Kind::Whole(bytes) => Some(Body(Kind::Whole(bytes.clone()))),
            Kind::Stream(_) => None,
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.0 {
            Kind::Empty => "Body(empty)",
            Kind::Whole(_) => "Body(whole)",
            Kind::Stream(_) => "Body(stream)",
        })
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty | Kind::Whole(None) => true,
            Kind::Whole(Some(_)) => false,
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty | Kind::Whole(None) => SizeHint::with_exact(0),
            Kind::Whole(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(body) => body.size_hint(),
        }
    }
}

/// An answer's body on its way down. Dropping it before its end gives the connection up.
#[derive(Debug)]
pub struct AnswerBody {}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        todo!()
    }
}
