//! What spans, events and metrics say, and what they never say.

use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use paceline::{ApiKey, Ask, Bucket, Limiter, Priority};

use super::logs::Logged;
use super::provider::{Provider, ok, status, unlearned};

const SECRET: &str = "hunter2hunter2";
const URL: &str = "http://api.test/items?token=s3cret";

fn recorder() -> (PrometheusRecorder, PrometheusHandle) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    (recorder, handle)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

/// A page of what one refused and one served request leave behind.
fn page(limiter: &Limiter, provider: &Provider, requests: usize) -> String {
    let (recorder, handle) = recorder();
    metrics::with_local_recorder(&recorder, || {
        runtime().block_on(async {
            let client = provider.client([limiter.clone()]);
            for n in 0..requests {
                let request = client.get(URL).with_extension(Priority::HIGH);
                let request = request.with_extension(Bucket::new(format!("bucket {n}")));
                request.send().await.unwrap();
            }
        });
    });
    handle.render()
}

#[test]
fn metrics_count_attempts_waits_and_penalties_by_fingerprint() {
    let provider = Provider::new(|_, n| {
        if n > 0 {
            return ok();
        }
        let refused = http::Response::builder()
            .status(429)
            .header("retry-after", "5");
        refused.body("").unwrap()
    });
    let limiter = unlearned()
        .name("travel")
        .key(ApiKey::bearer(SECRET))
        .build()
        .unwrap();
    let page = page(&limiter, &provider, 1);
    let fingerprint = ApiKey::bearer(SECRET).fingerprint().to_string();
    let line = |name: &str, labels: &[&str]| {
        let mut lines = page.lines().filter(|line| line.starts_with(name));
        let line = lines.find(|line| labels.iter().all(|label| line.contains(label)));
        let line = line.unwrap_or_else(|| panic!("no {name} {labels:?} in\n{page}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let key = format!("paceline_key=\"{fingerprint}\"");
    let provider = "paceline_provider=\"travel\"";
    let outcome = |word| format!("paceline_outcome=\"{word}\"");
    assert_eq!(
        line(
            "paceline_attempts",
            &[&key, provider, &outcome("rate_limited")]
        ),
        1.0
    );
    assert_eq!(
        line("paceline_attempts", &[&key, provider, &outcome("ok")]),
        1.0
    );
    assert_eq!(line("paceline_repeats", &[provider]), 1.0);
    assert_eq!(
        line(
            "paceline_penalties",
            &[&key, "paceline_reason=\"the server said how long\""]
        ),
        1.0
    );
    assert_eq!(
        line(
            "paceline_wait_duration_count",
            &["paceline_priority=\"high\""]
        ),
        2.0
    );
    assert!(
        line(
            "paceline_wait_duration_sum",
            &["paceline_bucket=\"bucket 0\""]
        ) >= 5.0
    );
    let http = ["http_request_method=\"GET\"", "server_address=\"api.test\""];
    let refused = [http[0], http[1], "http_response_status_code=\"429\""];
    assert_eq!(line("http_client_request_duration_count", &refused), 1.0);
    assert_eq!(line("http_client_active_requests", &http), 0.0);
    assert_eq!(line("paceline_in_flight", &[&key]), 0.0);
    assert_eq!(line("paceline_queue_depth", &[provider]), 0.0);
    for secret in [SECRET, "s3cret", "token"] {
        assert!(!page.contains(secret), "{page}");
    }
}

#[test]
fn labels_are_bounded_whatever_callers_name() {
    let provider = Provider::generous();
    let limiter = unlearned()
        .keys((0..100).map(|n| ApiKey::bearer(format!("key-{n}"))))
        .build()
        .unwrap();
    let page = page(&limiter, &provider, 300);
    let values = |label: &str| {
        let mut values: Vec<_> = (page.lines())
            .filter_map(|line| line.split(&format!("{label}=\"")).nth(1))
            .filter_map(|rest| rest.split('"').next())
            .collect();
        values.sort_unstable();
        values.dedup();
        values.len()
    };
    assert_eq!(
        values("paceline_bucket"),
        32,
        "31 named ones, and the others"
    );
    assert_eq!(values("paceline_key"), 65, "64, and the others");
    assert!(page.contains("_OTHER"));
}

#[test]
fn a_crawler_of_many_hosts_makes_no_more_series_than_the_bound() {
    let provider = Provider::generous();
    let (recorder, handle) = recorder();
    metrics::with_local_recorder(&recorder, || {
        runtime().block_on(async {
            let client = paceline::http_client().build().unwrap();
            let client = reqwest_middleware::ClientBuilder::new(client)
                .with(paceline::Limiters::by_host())
                .with(provider)
                .build();
            for n in 0..200 {
                let url = format!("http://host{n}.test/");
                client.get(url).send().await.unwrap();
            }
        });
    });
    let page = handle.render();
    for label in ["paceline_provider", "server_address"] {
        let mut values: Vec<_> = (page.lines())
            .filter_map(|line| line.split(&format!("{label}=\"")).nth(1)?.split('"').next())
            .collect();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), 129, "{label}: 128, and the others");
    }
}

#[test]
fn what_was_not_sent_is_counted_by_its_reason() {
    let (recorder, handle) = recorder();
    metrics::with_local_recorder(&recorder, || {
        let limiter = unlearned().ceiling("1/1h").name("slow").build().unwrap();
        drop(limiter.try_acquire(Ask::new()).unwrap());
        let late = limiter.acquire_blocking(Ask::new().deadline(Duration::from_millis(1)));
        assert!(late.is_err());
        limiter.close_now();
        assert!(limiter.try_acquire(Ask::new()).is_err());
    });
    let page = handle.render();
    for word in ["deadline", "closed"] {
        let line = page.lines().find(|line| {
            line.starts_with("paceline_unsent") && line.contains(&format!("error_type=\"{word}\""))
        });
        assert!(
            line.is_some_and(|line| line.ends_with(" 1")),
            "{word}\n{page}"
        );
    }
}

#[test]
fn spans_follow_the_conventions_and_hold_no_secret() {
    let provider = Provider::new(|_, n| if n == 0 { status(401) } else { ok() });
    let limiter = unlearned()
        .keys([SECRET, "other-secret"].map(ApiKey::bearer))
        .name("travel")
        .build()
        .unwrap();
    let logged = Logged::start();
    runtime().block_on(async {
        let client = provider.client([limiter]);
        client.get(URL).send().await.unwrap();
    });
    let text = logged.end();
    let count = |line: &str| text.lines().filter(|other| other.starts_with(line)).count();
    for (line, times) in [
        ("http.client otel.name \"GET\"", 2),
        ("http.client server.address \"api.test\"", 2),
        ("http.client url.full \"http://api.test/items\"", 2),
        ("http.client http.request.resend_count 1", 1),
        ("span http.response.status_code 401", 1),
        ("span error.type 401", 1),
        ("span http.response.status_code 200", 1),
        ("paceline paceline.outcome \"fatal\"", 1),
        ("paceline message a request goes again", 1),
    ] {
        assert_eq!(count(line), times, "{line}\n{text}");
    }
    assert!(
        text.contains("the server may refuse it (unauthorized)"),
        "{text}"
    );
    for secret in [SECRET, "other-secret", "s3cret"] {
        assert!(!text.contains(secret), "{text}");
    }
}
