//! What a provider does, told from outside.

use super::*;

fn provider(law: &str, keys: usize) -> Provider {
    Provider::new(&toml::from_str(law).unwrap(), keys, 1_700_000_000.0, 1)
}

fn at(seconds: f64) -> Time {
    Time::from_secs_f64(seconds)
}

fn request(id: u64, key: usize) -> Request {
    Request {
        id,
        key,
        tokens: 1.0,
    }
}

/// Sends on key 0 and works it off at once.
fn status(provider: &mut Provider, id: u64, seconds: f64) -> u16 {
    let reply = provider.arrive(request(id, 0), at(seconds));
    if reply.admitted {
        provider.finish(request(id, 0), reply.status == 200, at(seconds));
    }
    reply.status
}

const BUCKET: &str = "limits = [{ kind = 'bucket', rate = 10, burst = 2 }]\n";

#[test]
fn beyond_its_burst_a_bucket_refuses_and_says_when() {
    let mut provider = provider(&format!("headers = 'openai'\n{BUCKET}"), 1);
    assert_eq!(
        [1, 2, 3].map(|id| status(&mut provider, id, 0.0)),
        [200, 200, 429]
    );
    let reply = provider.arrive(request(4, 0), at(0.05));
    assert_eq!(reply.headers["retry-after-ms"], "51");
    assert_eq!(reply.headers["x-ratelimit-remaining-requests"], "0");
    assert_eq!(
        provider.would_wait(0, 1.0, at(0.05)),
        Some(Duration::from_millis(50))
    );
    assert_eq!(provider.counts().keys()[0].refused_by, [2]);
    assert_eq!(provider.counts().total().served, 2);
}

#[test]
fn a_bare_refusal_tells_nothing_and_answers_still_do() {
    let law = format!("headers = 'openai'\nrefusals_bare = true\nwithout_date = true\n{BUCKET}");
    let mut provider = provider(&law, 1);
    let told = [1, 2, 3].map(|id| provider.arrive(request(id, 0), at(0.0)).headers.len());
    assert_eq!(told, [3, 3, 0]);
}

#[test]
fn each_key_has_its_own_bucket_and_the_account_one_for_all() {
    let law = "limits = [{ kind = 'bucket', rate = 10, burst = 2 },
                        { kind = 'bucket', rate = 10, burst = 3, per = 'account' }]";
    let mut provider = provider(law, 2);
    let statuses = [(1, 0), (2, 0), (3, 0), (4, 1), (5, 1)]
        .map(|(id, key)| provider.arrive(request(id, key), at(0.0)).status);
    assert_eq!(statuses, [200, 200, 429, 200, 429]);
    assert_eq!(provider.counts().keys()[0].refused_by, [1]);
    assert_eq!(provider.counts().keys()[1].refused_by, [0, 1]);
}

#[test]
fn a_token_limit_counts_what_requests_cost() {
    let law = "limits = [{ kind = 'bucket', rate = 100, burst = 1000, counts = 'tokens' }]";
    let mut provider = provider(law, 1);
    let costly = |id| Request {
        id,
        key: 0,
        tokens: 600.0,
    };
    assert_eq!(provider.arrive(costly(1), at(0.0)).status, 200);
    assert_eq!(provider.arrive(costly(2), at(0.0)).status, 429);
    assert_eq!(
        provider.would_wait(0, 600.0, at(0.0)),
        Some(Duration::from_secs(2))
    );
    assert_eq!(provider.arrive(costly(2), at(2.0)).status, 200);
}

#[test]
fn a_concurrency_cap_opens_when_a_request_ends_and_tells_no_time() {
    let law = "headers = 'retry-after'\nlimits = [{ kind = 'concurrency', max = 1 }]";
    let mut provider = provider(law, 1);
    assert_eq!(provider.arrive(request(1, 0), at(0.0)).status, 200);
    let refused = provider.arrive(request(2, 0), at(0.1));
    assert_eq!(
        (refused.status, refused.headers.get("retry-after")),
        (429, None)
    );
    provider.finish(request(1, 0), true, at(0.2));
    assert_eq!(provider.arrive(request(2, 0), at(0.2)).status, 200);
    assert_eq!(provider.counts().total().max_in_flight, 1);
}

#[test]
fn a_wait_that_nobody_knows_may_be_told_as_zero() {
    let law = "headers = 'retry-after'\nunknown_wait = '0s'
               limits = [{ kind = 'concurrency', max = 1 }]";
    let mut provider = provider(law, 1);
    provider.arrive(request(1, 0), at(0.0));
    let refused = provider.arrive(request(2, 0), at(0.1));
    assert_eq!(refused.headers["retry-after"], "0");
}

#[test]
fn who_is_refused_too_often_is_banned_and_longer_the_next_time() {
    let law = format!("{BUCKET}ban = {{ refusals = 2, within = '1s', lasts = '10s', grows = 3 }}");
    let mut provider = provider(&law, 1);
    let statuses = [1, 2, 3, 4, 5].map(|id| status(&mut provider, id, 0.0));
    assert_eq!(statuses, [200, 200, 429, 429, 403]);
    let statuses = [5, 6, 7, 8].map(|id| status(&mut provider, id, 10.0));
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert_eq!(status(&mut provider, 9, 39.9), 403);
    assert_eq!(status(&mut provider, 9, 40.1), 200);
    assert_eq!(provider.counts().total().banned, 2);
}

#[test]
fn a_penalty_grows_with_each_knock_and_one_success_forgets_it() {
    let law = format!("headers = 'retry-after'\n{BUCKET}penalty = {{ first = '1s' }}");
    let mut provider = provider(&law, 1);
    assert_eq!(
        [1, 2, 3].map(|id| status(&mut provider, id, 0.0)),
        [200, 200, 429]
    );
    assert_eq!(
        provider.arrive(request(3, 0), at(0.5)).headers["retry-after"],
        "2"
    );
    assert_eq!(status(&mut provider, 3, 2.4), 429);
    assert_eq!(status(&mut provider, 3, 6.5), 200);
    assert_eq!(status(&mut provider, 4, 6.5), 200);
    assert_eq!(
        provider.arrive(request(5, 0), at(6.5)).headers["retry-after"],
        "1"
    );
}

#[test]
fn a_revoked_key_answers_401_and_a_mute_one_nothing() {
    let law = "keys = [{ index = 0, revoked_at = '1s' }, { index = 1, mute_from = '1s' }]";
    let mut provider = provider(law, 2);
    assert_eq!(status(&mut provider, 1, 0.9), 200);
    assert_eq!(status(&mut provider, 2, 1.0), 401);
    assert_eq!(provider.arrive(request(3, 1), at(1.0)).delay, Duration::MAX);
    assert_eq!(provider.arrive(request(4, 9), at(1.0)).status, 401);
    assert_eq!(provider.would_wait(0, 1.0, at(1.0)), Some(Duration::MAX));
}

#[test]
fn limits_change_at_their_time_and_an_outage_counts_nothing() {
    let law = format!(
        "{BUCKET}changes = [{{ at = '5s', limits = [{{ kind = 'bucket', rate = 1, burst = 1 }}] }}]
         outages = [{{ from = '2s', until = '3s', status = 500 }}]"
    );
    let mut provider = provider(&law, 1);
    assert_eq!(status(&mut provider, 1, 2.5), 500);
    assert_eq!([1, 2].map(|id| status(&mut provider, id, 4.0)), [200, 200]);
    assert_eq!([3, 4].map(|id| status(&mut provider, id, 5.0)), [200, 429]);
    assert_eq!(provider.counts().total().errors, 1);
}

#[test]
fn beyond_its_knee_latency_grows_with_the_load() {
    let mut provider = provider("latency = '100ms'\nknee = 2", 1);
    let delays = [1, 2, 3, 4].map(|id| provider.arrive(request(id, 0), at(0.0)).delay.as_millis());
    assert_eq!(delays, [100, 100, 150, 200]);
}

#[test]
fn errors_come_at_their_share_and_a_repetition_is_counted() {
    let mut provider = provider("errors = { share = 0.25, statuses = [503, 500] }", 1);
    let failed = (0..4000)
        .filter(|&id| status(&mut provider, id, 0.0) != 200)
        .count();
    assert!((900..1100).contains(&failed), "{failed} of 4000");
    assert_eq!(provider.counts().total().twice, 0);
    while status(&mut provider, 1, 1.0) != 200 {}
    while status(&mut provider, 1, 1.0) != 200 {}
    assert!(provider.counts().total().twice >= 1);
}

#[test]
fn others_use_the_same_quota() {
    let law = format!("{BUCKET}others = {{ rate = 10 }}");
    let mut provider = provider(&law, 1);
    assert_eq!([1, 2].map(|id| status(&mut provider, id, 0.0)), [200, 200]);
    assert_eq!(
        status(&mut provider, 3, 0.15),
        429,
        "the others took the token of 0.1 s"
    );
}

#[test]
fn the_date_is_the_one_of_the_answer_by_the_providers_clock() {
    let law = "latency = '2s'\nclock_ahead = '3s'";
    let reply = provider(law, 1).arrive(request(1, 0), at(0.5));
    assert_eq!(reply.headers["date"], "Tue, 14 Nov 2023 22:13:25 GMT");
    let silent = provider("without_date = true", 1).arrive(request(1, 0), at(0.5));
    assert!(silent.headers.is_empty());
}

#[test]
fn the_same_seed_gives_the_same_answers() {
    let law = "latency = '1s'\ntail = 0.8\nerrors = { share = 0.1 }";
    let run = || {
        let mut provider = provider(law, 1);
        (0..50)
            .map(|id| provider.arrive(request(id, 0), at(0.0)))
            .map(|reply| (reply.status, reply.delay))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn what_is_allowed_follows_changes_keys_and_the_account() {
    let law: Law = toml::from_str(
        "limits = [{ kind = 'bucket', rate = 50, burst = 10 },
                   { kind = 'fixed-window', limit = 160, window = '2s', per = 'account' }]
         keys = [{ index = 0, revoked_at = '10s' },
                 { index = 1, limits = [{ kind = 'interval', every = '100ms' }] }]
         changes = [{ at = '20s', limits = [{ kind = 'bucket', rate = 5, burst = 1 }] }]
         outages = [{ from = '30s', until = '31s' }]",
    )
    .unwrap();
    let allowed = |seconds| law.allowed(3, 1.0, Duration::from_secs(seconds));
    assert_eq!(
        [0, 10, 20, 30, 31].map(allowed),
        [80.0, 60.0, 15.0, 0.0, 15.0]
    );
    assert_eq!(
        Law::default().allowed(1, 1.0, Duration::ZERO),
        f64::INFINITY
    );
    assert_eq!(law.longest_window(), Some(Duration::from_secs(2)));
}
