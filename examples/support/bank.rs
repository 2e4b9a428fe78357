//! A practice bank on the loopback: the first time that it sees a payment it books it, and is slow
//! to say so. It books a payment of the same `Idempotency-Key` once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

pub(crate) struct Bank {
    server: MockServer,
    books: Books,
}

#[derive(Clone, Default)]
struct Books(Arc<Mutex<(HashSet<String>, usize)>>);

impl Bank {
    pub(crate) async fn open() -> Self {
        let (server, books) = (MockServer::start().await, Books::default());
        let mock = Mock::given(any()).respond_with(books.clone());
        mock.mount(&server).await;
        Self { server, books }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/payments", self.server.uri())
    }

    pub(crate) fn booked(&self) -> usize {
        self.books.0.lock().expect("no panic").1
    }
}

impl Respond for Books {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut books = self.0.lock().expect("no panic");
        let key = request.headers.get("idempotency-key");
        let is_new = key.is_none_or(|key| books.0.insert(format!("{key:?}")));
        if !is_new {
            return ResponseTemplate::new(200);
        }
        books.1 += 1;
        ResponseTemplate::new(200).set_delay(Duration::from_secs(2))
    }
}
