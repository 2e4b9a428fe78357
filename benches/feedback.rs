//! What reading a typical response costs: `cargo bench --bench feedback`.
//!
//! `benches/instructions` counts the instructions instead, which no busy machine changes.
//!
//! The bar is 300 ns and no allocation. The responses have the headers that such a response has
//! beside its limits; their number is most of the cost.

use std::time::{Duration, SystemTime};

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher, black_box};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use paceline::feedback::{self, Profile};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    // Under valgrind time says nothing: so many readings of one response, and no more.
    if let Some(plan) = std::env::var_os("PACELINE_READINGS") {
        let plan = plan.into_string().expect("it is text");
        let (name, count) = plan.split_once(' ').expect("a name and a number");
        return repeat(name, count.parse().expect("a number"));
    }
    divan::main();
}

fn repeat(name: &str, count: u32) {
    let (_, profile, text) = RESPONSES
        .iter()
        .find(|response| response.0 == name)
        .expect("it is listed");
    let headers = headers(text);
    let received = SystemTime::UNIX_EPOCH + Duration::from_secs(1_773_144_000);
    for _ in 0..count {
        black_box(feedback::read(
            black_box(profile),
            StatusCode::OK,
            black_box(&headers),
            None,
            received,
        ));
    }
}

/// The responses by name: profile and headers.
const RESPONSES: [(&str, Profile, &str); 5] = [
    ("openai", Profile::OPENAI, OPENAI),
    ("anthropic", Profile::ANTHROPIC, ANTHROPIC),
    ("github", Profile::GITHUB, GITHUB),
    ("ietf", Profile::NONE, IETF),
    ("plain", Profile::NONE, PLAIN),
];

// The timer itself would be a tenth of a sample of one.
#[divan::bench(args = ["openai", "anthropic", "github", "ietf", "plain"], sample_size = 1_000)]
fn read(bencher: Bencher<'_, '_>, name: &str) {
    let (_, profile, text) = RESPONSES
        .iter()
        .find(|response| response.0 == name)
        .expect("it is listed");
    let headers = headers(text);
    let received = SystemTime::UNIX_EPOCH + Duration::from_secs(1_773_144_000);
    bencher.counter(ItemsCount::new(1_usize)).bench(|| {
        feedback::read(
            black_box(profile),
            StatusCode::OK,
            black_box(&headers),
            None,
            received,
        )
    });
}

#[divan::bench]
fn read_refusal_with_body(bencher: Bencher<'_, '_>) {
    let headers = headers(OPENAI);
    let received = SystemTime::UNIX_EPOCH + Duration::from_secs(1_773_144_000);
    bencher.bench(|| {
        let status = StatusCode::TOO_MANY_REQUESTS;
        feedback::read(
            &Profile::OPENAI,
            status,
            black_box(&headers),
            Some(black_box(REFUSAL)),
            received,
        )
    });
}

fn headers(text: &str) -> HeaderMap {
    text.lines()
        .map(|line| {
            let (name, value) = line.split_once(": ").expect("a header has a colon");
            let name: HeaderName = name.parse().expect("the name is valid");
            (
                name,
                HeaderValue::from_str(value).expect("the value is valid"),
            )
        })
        .collect()
}

const OPENAI: &str = "\
date: Tue, 10 Mar 2026 12:00:00 GMT
content-type: application/json
content-length: 5123
connection: keep-alive
access-control-expose-headers: X-Request-ID
openai-organization: user-0123456789abcdef
openai-processing-ms: 1267
openai-project: proj_0123456789abcdef
openai-version: 2020-10-01
x-envoy-upstream-service-time: 1271
x-ratelimit-limit-requests: 5000
x-ratelimit-limit-tokens: 800000
x-ratelimit-remaining-requests: 4999
x-ratelimit-remaining-tokens: 798750
x-ratelimit-reset-requests: 12ms
x-ratelimit-reset-tokens: 93ms
x-request-id: req_0123456789abcdef0123456789abcdef
strict-transport-security: max-age=31536000; includeSubDomains; preload
cf-cache-status: DYNAMIC
x-content-type-options: nosniff
server: cloudflare
cf-ray: 0123456789abcdef-NRT
alt-svc: h3=\":443\"; ma=86400";

const ANTHROPIC: &str = "\
date: Tue, 10 Mar 2026 12:00:00 GMT
content-type: application/json
content-length: 802
anthropic-ratelimit-requests-limit: 4000
anthropic-ratelimit-requests-remaining: 3999
anthropic-ratelimit-requests-reset: 2026-03-10T12:00:00Z
anthropic-ratelimit-input-tokens-limit: 400000
anthropic-ratelimit-input-tokens-remaining: 399000
anthropic-ratelimit-input-tokens-reset: 2026-03-10T12:00:01Z
anthropic-ratelimit-output-tokens-limit: 80000
anthropic-ratelimit-output-tokens-remaining: 80000
anthropic-ratelimit-output-tokens-reset: 2026-03-10T12:00:00Z
anthropic-ratelimit-tokens-limit: 480000
anthropic-ratelimit-tokens-remaining: 479000
anthropic-ratelimit-tokens-reset: 2026-03-10T12:00:00Z
request-id: req_0123456789abcdef
strict-transport-security: max-age=31536000; includeSubDomains; preload
anthropic-organization-id: 01234567-89ab-cdef-0123-456789abcdef
via: 1.1 google
cf-cache-status: DYNAMIC
x-robots-tag: none
server: cloudflare
cf-ray: 0123456789abcdef-NRT";

const GITHUB: &str = "\
date: Tue, 10 Mar 2026 12:00:00 GMT
content-type: application/json; charset=utf-8
cache-control: private, max-age=60, s-maxage=60
vary: Accept, Authorization, Cookie, X-GitHub-OTP,Accept-Encoding, Accept, X-Requested-With
etag: W/\"0123456789abcdef0123456789abcdef\"
x-oauth-scopes: repo
x-accepted-oauth-scopes: repo
x-github-media-type: github.v3; format=json
x-github-api-version-selected: 2022-11-28
x-ratelimit-limit: 5000
x-ratelimit-remaining: 4987
x-ratelimit-reset: 1773145372
x-ratelimit-used: 13
x-ratelimit-resource: core
access-control-expose-headers: ETag, Link, Location, Retry-After
access-control-allow-origin: *
strict-transport-security: max-age=31536000; includeSubdomains; preload
x-frame-options: deny
x-content-type-options: nosniff
x-xss-protection: 0
referrer-policy: origin-when-cross-origin, strict-origin-when-cross-origin
content-security-policy: default-src 'none'
x-github-request-id: 0123:4567:89AB:CDEF:01234567
server: github.com";

const IETF: &str = "\
date: Tue, 10 Mar 2026 12:00:00 GMT
content-type: application/json
content-length: 512
ratelimit-policy: \"default\";q=100;w=60
ratelimit: \"default\";r=50;t=30
cache-control: no-store
x-request-id: 01234567-89ab-cdef-0123-456789abcdef
server: nginx";

const PLAIN: &str = "\
date: Tue, 10 Mar 2026 12:00:00 GMT
content-type: application/json
content-length: 512
connection: keep-alive
cache-control: no-store
etag: \"0123456789abcdef\"
vary: Accept-Encoding
x-request-id: 01234567-89ab-cdef-0123-456789abcdef
strict-transport-security: max-age=31536000
x-content-type-options: nosniff
server: nginx";

const REFUSAL: &[u8] = br#"{"error":{"message":"Rate limit reached for gpt-x in organization org-0123456789abcdef on tokens per min (TPM): Limit 30000, Used 29800, Requested 865. Please try again in 1.33s. Visit https://platform.openai.com/account/rate-limits to learn more.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#;
