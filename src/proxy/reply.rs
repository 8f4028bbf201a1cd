//! The body of an answer to a client: an upstream's on its way down, or a few words of our own.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::connection::OpenStream;
use super::guard::Signals;
use super::relay::RelayBody;
use crate::upstream::BodyError;

/// A body. When it is dropped, its connection's guard learns that the request is answered.
#[derive(Debug)]
pub struct Reply {
    kind: Kind,
    signals: Option<Arc<Signals>>,
    _open: Option<OpenStream>,
}

#[derive(Debug)]
enum Kind {
    Relay(RelayBody),
    Text(Option<Bytes>),
}

impl Reply {
    /// No body.
    pub fn empty() -> Reply {
        Reply { kind: Kind::Text(None), signals: None, _open: None }
    }

    /// All of it at hand.
    pub fn text(text: impl Into<Bytes>) -> Reply {
        Reply {
            kind: Kind::Text(Some(text.into()).filter(|text: &Bytes| !text.is_empty())),
            signals: None,
            _open: None,
        }
    }

    /// An upstream's.
    pub fn relay(body: RelayBody) -> Reply {
        Reply { kind: Kind::Relay(body), signals: None, _open: None }
    }

    /// Holds its stream open until it is gone.
    pub fn holding(mut self, open: OpenStream) -> Reply {
        self._open = Some(open);
        self
    }

    /// Tells this guard when it is gone.
    pub fn telling(mut self, signals: Option<Arc<Signals>>) -> Reply {
        self.signals = signals;
        self
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.kind {
            Kind::Relay(body) => Pin::new(body).poll_frame(cx),
            Kind::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Relay(body) => body.is_end_stream(),
            Kind::Text(text) => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Relay(body) => body.size_hint(),
            Kind::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(signals) = &self.signals {
            signals.answered();
        }
    }
}
