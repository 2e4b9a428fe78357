//! What the middleware does with your requests: eleven questions, and their answers.
//!
//! Everything here is about `reqwest` with a [`Limiter`] in its chain. Each program on this page
//! runs in paceline's own tests.
//!
//! 1. [What is sent again?](#what-is-sent-again)
//! 2. [What happens to a POST?](#what-happens-to-a-post)
//! 3. [What happens at my deadline?](#what-happens-at-my-deadline)
//! 4. [Where does my key go?](#where-does-my-key-go)
//! 5. [What do I get when it gives up?](#what-do-i-get-when-it-gives-up)
//! 6. [What happens to streams?](#what-happens-to-streams)
//! 7. [What happens when I drop a call?](#what-happens-when-i-drop-a-call)
//! 8. [How many connections and slots?](#how-many-connections-and-slots)
//! 9. [What happens beside other middlewares?](#what-happens-beside-other-middlewares)
//! 10. [How do I see what goes on?](#how-do-i-see-what-goes-on)
//! 11. [How do I shut down?](#how-do-i-shut-down)
//!
//! # What is sent again?
//!
//! | what came back | a GET, HEAD, PUT, DELETE; any request with an `Idempotency-Key` or [`Replay::Always`] | another POST or PATCH |
//! | --- | --- | --- |
//! | refused: 429, 529, 503 with a wait, or a body that says so | again | again: it was not processed |
//! | never sent: no connection, a stream that HTTP/2 refused | again | again |
//! | an error: 408, 425, 500, 502, 504, a 503 without a wait, a reset, a timeout | again | given back |
//! | 401 or 403 for the key itself | once more, if there is another key (or a [renewed](crate::LimiterBuilder::renewed_key) one) | the same |
//! | any other answer | given back | given back |
//!
//! Each attempt waits for its turn like a new request, in its old place, and is the same to the
//! byte but for the key. No attempt comes before the time that the server named. Errors are repeated
//! three times at most and share a budget (a fifth of what succeeds, and ten per second); refusals ten
//! times, where those do not count that fell on a key that was used up meanwhile, while others were
//! served: with them it is sixty. All of that ends with
//! [`max_wait`](crate::LimiterBuilder::max_wait), five minutes unless set.
//! [`RetrySettings`](crate::RetrySettings) changes the numbers, [`Replay::Never`] turns it off for one
//! request. Redirects within the same scheme, host and port are followed, three at most,
//! each as a request that waits for its turn; any other is given back as the answer that it is.
//!
//! A path that is refused for ever, for a feature that your plan lacks, takes the others along for a
//! few seconds at most: what is refused three times in a row while the same key serves others in
//! between goes by a rate and waits of its own for an hour, a change says so, and
//! [`Limiter::explain`] shows it. That holds for a [`Bucket`] that you or the vendor's profile name,
//! else for the method and path (where a part with a digit stands for any). Where two parts of an API have limits of their own, name a [`Bucket`]
//! for each: what the server tells of one is never taken for the other's.
//!
//! A body that can be read only once (a stream, a multipart form of reqwest's) is sent once, whatever
//! comes back. Give bytes where you want it repeated.
//!
//! # What happens to a POST?
//!
//! It is sent again where the server cannot have acted on it: after a refusal, and where it never
//! left. After a reset or a timeout nobody knows, so you get the error, reqwest's own, and
//! [`Error::may_have_acted`] tells it from one where nothing left. Give it an
//! `Idempotency-Key` that the server understands, and it is repeated as a GET is; a 409 that comes
//! because the server is still at work on the earlier attempt is waited out. Generation calls to
//! language models are repeated too: they change nothing, and a vendor's profile says which they are.
//!
//! ```
//! # use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = MockServer::start().await;
//! # Mock::given(any()).respond_with(ResponseTemplate::new(500)).mount(&server).await;
//! # let url = server.uri();
//! use paceline::{GaveUp, Limiter, Report};
//!
//! let client = reqwest_middleware::ClientBuilder::new(paceline::http_client().build()?)
//!     .with(Limiter::new())
//!     .build();
//! let once = client.post(&url).body("pay").send().await?;
//! let report = once.extensions().get::<Report>().expect("each response has one");
//! assert_eq!((report.attempts, report.why), (1, Some(GaveUp::NotReplayable)));
//!
//! let keyed = client.post(&url).header("idempotency-key", "order-17").body("pay");
//! let report = keyed.send().await?.extensions().get::<Report>().cloned();
//! assert_eq!(report.map(|report| report.attempts), Some(4));
//! # Ok(()) }
//! ```
//!
//! # What happens at my deadline?
//!
//! A [`Deadline`] runs from the moment you send until the headers of the last attempt, waits and
//! attempts together. If the wait is known to be longer (every key is parked, say) you are told at
//! once, with the time from which it could go. If it ends while the request waits, nothing was sent.
//! If it ends in flight, the attempt is dropped, and the error says that it was sent. If there was a
//! response already, you get that.
//!
//! | | covers | after it |
//! | --- | --- | --- |
//! | [`Deadline`] | everything up to the last headers | the last response, else [`Error::is_deadline`] |
//! | [`max_wait`](crate::LimiterBuilder::max_wait) | waits only; it ends no attempt | the same |
//! | [`attempt_timeout`](crate::LimiterBuilder::attempt_timeout), [`AttemptTimeout`] | one attempt up to its headers | again where that is safe, else [`Error::is_attempt_timeout`] |
//! | reqwest's `timeout` | one attempt and its body | again where that is safe, else reqwest's error |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = wiremock::MockServer::start().await;
//! # let url = server.uri();
//! use paceline::{Deadline, Error, Limiter};
//! use std::time::Duration;
//!
//! let limiter = Limiter::builder().ceiling("1/1h").build()?;
//! let client = reqwest_middleware::ClientBuilder::new(paceline::http_client().build()?)
//!     .with(limiter)
//!     .build();
//! client.get(&url).send().await?;
//! let second = client.get(&url).with_extension(Deadline(Duration::from_millis(100)));
//! let error = second.send().await.expect_err("there is one an hour");
//! let error = Error::of(&error).expect("it is paceline's own");
//! assert!(error.is_deadline() && !error.was_sent());
//! # Ok(()) }
//! ```
//!
//! # Where does my key go?
//!
//! On attempts to its hosts, and nowhere else. A limiter with keys serves the
//! [`hosts`](crate::LimiterBuilder::hosts) that you name, else those of its
//! [`Profile`](crate::Profile), else the host of its first request; a request to any other host goes
//! past it, without key and without gates. A key in a query is added to the attempt alone: the
//! response's URL, errors, `Debug`, the `Report`, changes and logs show the address without it, and
//! a key everywhere by its fingerprint. Where a server repeats it, or the start of it, in a header of
//! its answer, that is marked as sensitive, so printing the response does not show it; in the address
//! of a redirect it is left out. A body is yours as it came: whoever logs bodies logs what is in them.
//!
//! A key takes the place of what the request carries in the same header or query parameter, such as
//! the `Authorization` that an SDK insists on. To send a request with credentials of its own, send it
//! past the limiter, or through one without keys.
//!
//! What goes past has no [`Report`], and a change names each such host once. So name the hosts: with
//! neither hosts nor a profile whoever is called first gets the key. A client made by [`http_client`](crate::http_client) follows
//! no redirect to another host and sends no `Referer`. With a client of your own, reqwest's default
//! carries keys in headers other than `Authorization`, and in queries, to wherever a redirect leads.
//!
//! Middlewares that stand *inside* the limiter see the attempt as it is sent, key and all. The layer
//! of tower goes by the same rules; where the URI of a request has no host, its service alone knows
//! where the key goes. With [`Limiter::call`] you send it yourself.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = wiremock::MockServer::start().await;
//! # let url = format!("{}/hotels?page=1", server.uri());
//! use paceline::{ApiKey, Limiter};
//!
//! let limiter = Limiter::builder()
//!     .keys(["s3cret-1", "s3cret-2"].map(|key| ApiKey::query("applicationId", key)))
//!     .build()?;
//! let client = reqwest_middleware::ClientBuilder::new(paceline::http_client().build()?)
//!     .with(limiter)
//!     .build();
//! let reply = client.get(&url).send().await?;
//! assert_eq!(reply.url().as_str(), url);
//! assert!(!format!("{reply:?} {client:?}").contains("s3cret"));
//! # Ok(()) }
//! ```
//!
//! # What do I get when it gives up?
//!
//! The last response, whatever its status, with its headers, body, URL, version and address as the
//! server sent them. [`Report::why`](Report) says why it was not repeated, and
//! [`Report::retry_at`](Report) when there is a point in asking again. An error means that there was
//! no response: one of paceline's own ([`Error::of`] finds it), or reqwest's. Ask it:
//! [`Error::may_have_acted`] (of reqwest's errors too), [`Error::was_sent`], [`Error::retry_at`], and what it is
//! ([`Error::is_deadline`], [`Error::is_queue_full`], [`Error::is_all_keys_parked`],
//! [`Error::is_cancelled`], [`Error::is_closed`], …). The example `web_service` turns them into
//! answers of one's own.
//!
//! # What happens to streams?
//!
//! You get them when their headers come. An answer of type `text/event-stream` keeps its slot to its
//! end, for there the body is the work; dropping it frees the slot. Other answers free it at the
//! headers. [`Hold::Body`] and [`Hold::Headers`] say otherwise for one request. A body that is held
//! and not read for a second lends its slot to others until you read on, as far as how many may be in
//! flight was learned. What you have set yourself, [`max_concurrency`](crate::LimiterBuilder::max_concurrency)
//! and [`key_concurrency`](crate::LimiterBuilder::key_concurrency), is a promise to the server, which
//! still works on such a body: there it counts until it was read to its end or dropped. So do not
//! wait for a call while you hold as many bodies as these allow: read them first, drop them, or give
//! them [`Hold::Headers`]. Who does waits for `max_wait`, and the error names the limit. A body that breaks off is
//! an error of the body, and is not fetched again. Of refusals up to 8 KiB are read first, for a
//! second at most, and given to you with the rest.
//!
//! # What happens when I drop a call?
//!
//! Its place in the queue, its slot and everything that was set aside for it are free at once, in
//! whatever phase it is, and nothing more is sent. What was in flight may be processed all the same,
//! and counts against your quota, as it does at the server. Beside dropping, waits can be ended by
//! [`Until`] a token or by [`Limiter::cancel`] for a [`Group`]; these let what is in flight finish.
//!
//! Futures that are kept and not polled hold nobody up. What is granted and not taken up within half
//! the time that an answer usually takes (5 ms to 100 ms) goes to the next; so does the slot of an
//! answer that is there and is not taken. Under a number in flight that you have set whoever comes
//! back goes on when a slot is free again, for nothing may be sent yet; where none comes free within
//! three usual answers (1 s at least) it goes on all the same, since those who have the slots may be
//! waiting for it. So `join_all`, `buffer_unordered` with calls in its loop, and `select!` are safe;
//! the one exception are [held bodies](#what-happens-to-streams) under a number in flight that you
//! have set. A call in the loop over `buffer_unordered` waits for half the time of an answer
//! wherever all slots are taken by futures that the loop does not poll: to lose nothing spawn the
//! calls, or make the second one inside the stream.
//!
//! # How many connections and slots?
//!
//! A slot is a request in flight, not a connection: connections are reqwest's, and HTTP/2 carries
//! many requests on one. How many slots there are is learned, at most 1,024 for each key; fix it with
//! [`key_concurrency`](crate::LimiterBuilder::key_concurrency) and
//! [`max_concurrency`](crate::LimiterBuilder::max_concurrency). A request that waits, or backs off,
//! has no slot. A refused answer whose body is longer than 8 KiB keeps its connection until the next
//! attempt is answered, in case that there is no better one to give you.
//!
//! # What happens beside other middlewares?
//!
//! - The same limiter twice in a chain acts once. Of two limiters (an account's and a vendor's) both
//!   gate, and only the outer one repeats and follows redirects.
//! - A retry layer outside is allowed: every attempt of it passes the gates anew, and a change says
//!   so once. But each of its attempts is then up to four of ours: one of the two is enough.
//! - A retry layer inside sends without a turn: leave it out. reqwest's own is off in
//!   [`http_client`](crate::http_client).
//! - A cache belongs outside, so that hits cost nothing. A logger or tracer outside sees one request
//!   with its waits, inside each attempt with its key.
//! - Extensions reach the layers inside as they are.
//!
//! # How do I see what goes on?
//!
//! [`Report`] in the response's extensions: attempts, key, how long it waited.
//! [`Limiter::explain`]: what every key is up to, who waits and for what. [`Limiter::changes`]: each
//! decision as it is made, with its reason. [`Limiter::depth`] and [`Limiter::waits_for`]: cheap
//! enough for a gauge. [`Mode::Observe`](crate::Mode::Observe) holds nobody back and says what it
//! would have done. With the features `tracing` and `metrics` the same goes to where a program's
//! spans and metrics go.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = wiremock::MockServer::start().await;
//! # let url = server.uri();
//! use paceline::{Limiter, Report};
//!
//! let limiter = Limiter::new();
//! let client = reqwest_middleware::ClientBuilder::new(paceline::http_client().build()?)
//!     .with(limiter.clone())
//!     .build();
//! let reply = client.get(&url).send().await?;
//! let report = reply.extensions().get::<Report>().expect("each response has one");
//! println!("{} attempts, waited {:?}, key {}", report.attempts, report.waited, report.key);
//! println!("{}", limiter.explain());
//! # Ok(()) }
//! ```
//!
//! # How do I shut down?
//!
//! [`Limiter::close`] refuses who waits and who comes, and returns when what is in flight has ended;
//! nothing is repeated from then on. A stream that nobody reads is in flight for as long as it is
//! kept, so put a timeout around it, and drop your futures and streams after that. [`Limiters::close`]
//! does the same for every host.
//! [`Limiter::close_now`] does not wait. [`Limiter::until`] ties a handle to a token that your
//! program has anyway. What was refused says that it was not sent, so another process may take it up.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = wiremock::MockServer::start().await;
//! # let url = server.uri();
//! use paceline::{Error, Limiter};
//! use std::time::Duration;
//!
//! let limiter = Limiter::builder().ceiling("1/1m").build()?;
//! let client = reqwest_middleware::ClientBuilder::new(paceline::http_client().build()?)
//!     .with(limiter.clone())
//!     .build();
//! client.get(&url).send().await?;
//! let waits = tokio::spawn(client.get(&url).send());
//! tokio::time::sleep(Duration::from_millis(10)).await;
//! tokio::time::timeout(Duration::from_secs(5), limiter.close()).await?;
//! let error = waits.await?.expect_err("it waited");
//! assert!(Error::of(&error).is_some_and(|error| error.is_closed() && !error.was_sent()));
//! # Ok(()) }
//! ```

#[cfg(doc)]
use crate::{
    AttemptTimeout, Bucket, Deadline, Error, Group, Hold, Limiter, Limiters, Replay, Report, Until,
};
