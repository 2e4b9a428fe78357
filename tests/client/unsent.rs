//! A turn with which nothing was sent is given back in full, whatever kept it from being sent.

use std::time::Duration;

use paceline::{Ask, Deadline, Error, Limiter};
use tokio::time::timeout;

use super::provider::{Provider, unlearned};

const URL: &str = "http://api.test/";

/// A limiter whose every turn that is lost is missed for an hour.
fn once_an_hour() -> Limiter {
    unlearned().ceiling("1/1h").build().unwrap()
}

/// Whether a turn is left; it is gone after that.
fn has_its_turn(limiter: &Limiter) -> bool {
    matches!(limiter.try_acquire(Ask::new()), Ok(Some(_)))
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_is_given_back_was_never_taken_and_a_dropped_one_was() {
    let limiter = once_an_hour();
    for _ in 0..3 {
        limiter.acquire(Ask::new()).await.unwrap().give_back();
    }
    assert_eq!(limiter.depth(), (0, 0));
    drop(limiter.acquire(Ask::new()).await.unwrap());
    assert!(!has_its_turn(&limiter));
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_of_a_moment_leaves_what_was_sent_in_it() {
    let limiter = unlearned().ceiling("3/1h").build().unwrap();
    let permits = [(); 3].map(|()| limiter.try_acquire(Ask::new()).unwrap().unwrap());
    let [first, second, third] = permits;
    first.give_back();
    third.give_back();
    drop(second);
    assert_eq!(
        [(); 3].map(|()| has_its_turn(&limiter)),
        [true, true, false]
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_limiter_further_in_turns_away_takes_nothing_of_one_further_out() {
    let provider = Provider::generous();
    let (outer, inner) = (once_an_hour(), Limiter::new());
    inner.close_now();
    let client = provider.client([outer.clone(), inner]);
    for _ in 0..3 {
        let error = client.get(URL).send().await.unwrap_err();
        assert!(Error::of(&error).unwrap().is_closed(), "{error}");
    }
    assert!(has_its_turn(&outer));
}

#[tokio::test(start_paused = true)]
async fn what_ends_while_a_limiter_further_in_holds_it_back_takes_nothing_of_one_further_out() {
    let provider = Provider::generous();
    let outer = once_an_hour();
    let inner = unlearned().key_concurrency(1).build().unwrap();
    let blocker = inner.acquire(Ask::new()).await.unwrap();
    let client = provider.client([outer.clone(), inner]);
    let second = Duration::from_secs(1);
    timeout(second, client.get(URL).send()).await.unwrap_err();
    let late = client.get(URL).with_extension(Deadline(second)).send();
    let error = late.await.unwrap_err();
    assert!(Error::of(&error).unwrap().is_deadline(), "{error}");
    drop(blocker);
    client.get(URL).send().await.unwrap();
    assert!(!has_its_turn(&outer), "this one was sent");
    assert_eq!(provider.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_no_client_can_send_is_not_tried_again_and_takes_nothing() {
    let limiter = once_an_hour();
    let http = paceline::http_client().https_only(true).build().unwrap();
    let client = reqwest_middleware::ClientBuilder::new(http)
        .with(limiter.clone())
        .build();
    let clock = paceline::client::Clock::new();
    let error = client.get(URL).send().await.unwrap_err();
    assert!(error.is_builder() && !Error::may_have_acted(&error));
    assert_eq!(clock.now(), paceline::Time::START, "it waited for a repeat");
    assert!(has_its_turn(&limiter));
}

#[cfg(feature = "tower")]
mod services {
    use std::future::{Pending, pending};
    use std::task::{Context, Poll};

    use http::{Request, Response};
    use paceline::client::BoxError;
    use paceline::{Limited, LimiterLayer};
    use tower_layer::Layer;
    use tower_service::Service;

    use super::*;

    /// A service that fails before it is ready, or never is.
    #[derive(Clone)]
    struct Unready {
        fails: bool,
    }

    impl<Q> Service<Q> for Unready
    where
        Self: Answers<Q>,
    {
        type Response = <Self as Answers<Q>>::Answer;
        type Error = BoxError;
        type Future = Pending<Result<Self::Response, BoxError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            match self.fails {
                true => Poll::Ready(Err("worn out".into())),
                false => Poll::Pending,
            }
        }

        fn call(&mut self, _: Q) -> Self::Future {
            pending()
        }
    }

    trait Answers<Q> {
        type Answer;
    }

    impl Answers<Request<&'static str>> for Unready {
        type Answer = Response<&'static str>;
    }

    impl Answers<reqwest::Request> for Unready {
        type Answer = reqwest::Response;
    }

    async fn assert_takes_nothing<Q>(request: impl Fn() -> Q)
    where
        Unready: Answers<Q>,
        Limited<Unready>: Service<Q, Error = BoxError>,
    {
        let limiter = once_an_hour();
        let layer = LimiterLayer::new(limiter.clone());
        for fails in [true, false, true] {
            let call = layer.layer(Unready { fails }).call(request());
            match timeout(Duration::from_secs(1), call).await {
                Ok(Err(error)) => {
                    assert_eq!((error.to_string().as_str(), fails), ("worn out", true))
                }
                Ok(Ok(_)) => panic!("it never answers"),
                Err(_) => assert!(!fails),
            }
        }
        assert!(has_its_turn(&limiter));
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_is_not_ready_takes_nothing() {
        assert_takes_nothing(|| Request::get(URL).body("").unwrap()).await;
        let url: reqwest::Url = URL.parse().unwrap();
        assert_takes_nothing(|| reqwest::Request::new(http::Method::GET, url.clone())).await;
    }
}
