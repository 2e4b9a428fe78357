//! Every way in leads through the same limiter, on real threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use http::{HeaderMap, Method, Request, StatusCode};
use paceline::client::Clock;
use paceline::{Ask, Cost, Limiter, LimiterLayer, Permit};
use tower_layer::Layer;
use tower_service::Service;

use super::provider::{Provider, unlearned};

/// How many are served at once, and how many were at most.
#[derive(Clone, Debug, Default)]
struct Load {
    now: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
    all: Arc<AtomicU32>,
}

impl Load {
    fn begin(&self) {
        self.all.fetch_add(1, Ordering::SeqCst);
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn end(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }

    async fn serve(&self) {
        self.begin();
        tokio::time::sleep(Duration::from_millis(3)).await;
        self.end();
    }

    fn most(&self) -> u32 {
        self.most.load(Ordering::SeqCst)
    }
}

/// Counted while it lives, so that one that is dropped counts no more.
struct Served(Load);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Service<Request<()>> for Load {
    type Response = http::Response<()>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let load = self.clone();
        Box::pin(async move {
            load.begin();
            let served = Served(load);
            tokio::time::sleep(Duration::from_millis(3)).await;
            drop(served);
            Ok(http::Response::new(()))
        })
    }
}

fn complete(permit: Permit) {
    let outcome = permit.outcome(StatusCode::OK, &HeaderMap::new(), None);
    let _ended = permit.complete(&outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_that_are_ready_are_not_let_in_at_once_and_dropped_ones_leave_no_slot_behind() {
    // AD-01: readiness reserved nothing, so all went; dropped ones kept the count up for ever.
    let load = Load::default();
    let limiter = unlearned().max_concurrency(1).build().unwrap();
    let layer = LimiterLayer::new(limiter.clone());
    let services = (0..50).map(|_| layer.layer(load.clone()));
    let mut services: Vec<_> = services.collect();
    for service in &mut services {
        std::future::poll_fn(|context| service.poll_ready(context))
            .await
            .unwrap();
    }
    let calls = services.into_iter().enumerate().map(|(n, mut service)| {
        tokio::spawn(async move {
            let call = service.call(Request::new(()));
            if n % 2 == 0 {
                call.await.is_ok()
            } else {
                let brief = Duration::from_millis(n as u64 / 2);
                tokio::time::timeout(brief, call).await.is_ok()
            }
        })
    });
    let done = tokio::time::timeout(Duration::from_secs(30), join_all(calls)).await;
    for (n, is_served) in done.expect("a slot comes").into_iter().enumerate() {
        assert!(is_served.unwrap() || n % 2 == 1);
    }
    assert_eq!(load.most(), 1);
    assert_eq!(limiter.depth(), (0, 0));
}

#[test]
fn many_threads_get_no_more_than_the_burst_and_the_rate() {
    // AD-03: with 10 units each on several threads one and a half times the rate passed.
    let limiter = unlearned().ceiling("200 tokens/200ms").build().unwrap();
    let clock = Clock::new();
    let began = clock.now();
    let until = began + Duration::from_secs(1);
    let admit = || {
        let mut admitted = 0_u32;
        while clock.now() < until {
            let ask = Ask::new().cost(Cost::tokens(10));
            complete(limiter.acquire_blocking(ask).unwrap());
            admitted += 1;
        }
        admitted
    };
    let admitted: u32 = std::thread::scope(|scope| {
        let threads = [(); 8].map(|()| scope.spawn(admit));
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    let windows = (clock.now().since(began).as_millis() / 200) as u32 + 1;
    assert!(admitted <= 20 * windows, "{admitted} in {windows} windows");
    assert!(admitted >= 60, "{admitted}: it is used");
}

#[tokio::test(start_paused = true)]
async fn no_call_of_a_client_avoids_the_pace() {
    // AD-15: calls that skipped the pacer tripped the limit for those that did not. That redirects
    // do not either is shown on real sockets.
    let provider = Provider::generous();
    let limiter = unlearned().ceiling("1/1s").build().unwrap();
    let client = provider.client([limiter.clone()]);
    let url = |path: &str| format!("http://api.test{path}");
    client.get(url("/a")).send().await.unwrap();
    client.post(url("/a")).body("b").send().await.unwrap();
    let request = reqwest::Request::new(Method::HEAD, url("/a").parse().unwrap());
    client.execute(request).await.unwrap();
    let clone = client.clone();
    tokio::spawn(async move { clone.delete(url("/a")).send().await })
        .await
        .unwrap()
        .unwrap();
    // A token that is fetched through another client goes the same way.
    let tokens = provider.client([limiter]);
    tokens.post("http://api.test/token").send().await.unwrap();
    let times = provider.times();
    assert_eq!(times.len(), 5, "{times:?}");
    let mut gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.all(|gap| gap >= 1_000), "{times:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_way_they_come_in_together_they_keep_the_limit() {
    // AD-18: the helper for batches ran with unlimited concurrency.
    let load = Load::default();
    let limiter = unlearned().max_concurrency(3).build().unwrap();
    let blocking = {
        let (limiter, load) = (limiter.clone(), load.clone());
        std::thread::spawn(move || {
            for _ in 0..20 {
                let permit = limiter.acquire_blocking(Ask::new()).unwrap();
                load.begin();
                std::thread::sleep(Duration::from_millis(3));
                load.end();
                complete(permit);
            }
        })
    };
    let called = (0..40).map(|_| {
        let load = load.clone();
        limiter.call(Ask::new(), move |leave| {
            let load = load.clone();
            async move {
                load.serve().await;
                (leave.outcome(StatusCode::OK, &HeaderMap::new(), None), ())
            }
        })
    });
    let acquired = (0..40).map(|_| async {
        let permit = limiter.acquire(Ask::new()).await.unwrap();
        load.serve().await;
        complete(permit);
    });
    let layered = (0..40).map(|_| {
        let mut service = LimiterLayer::new(limiter.clone()).layer(load.clone());
        async move { service.call(Request::new(())).await.unwrap() }
    });
    let tried = async {
        for _ in 0..200 {
            if let Some(permit) = limiter.try_acquire(Ask::new()).unwrap() {
                load.serve().await;
                complete(permit);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let (called, ..) = tokio::join!(
        join_all(called),
        join_all(acquired),
        join_all(layered),
        tried
    );
    assert!(called.iter().all(Result::is_ok));
    tokio::task::spawn_blocking(move || blocking.join().unwrap())
        .await
        .unwrap();
    assert!(load.all.load(Ordering::SeqCst) >= 140);
    assert!(load.most() <= 3, "{} at once", load.most());
    assert_eq!(limiter.depth(), (0, 0));
    assert!(Limiter::builder().max_concurrency(0).build().is_err());
}
