//! Providers that their users describe.

use std::path::Path;

use paceline::feedback::{Class, Dimension, Fault, Profile};
use serde::Deserialize;

use super::{read_as, reset, wait};

#[derive(Deserialize)]
struct File {
    profile: Profile,
}

/// The example that users start from.
fn acme() -> Profile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/own_provider.toml");
    let text = std::fs::read_to_string(path).unwrap();
    toml::from_str::<File>(&text).unwrap().profile
}

fn described(text: &str) -> Result<Profile, String> {
    let text = format!("[profile]\n{text}");
    toml::from_str::<File>(&text)
        .map(|file| file.profile)
        .map_err(|error| error.to_string())
}

#[test]
fn its_headers_make_readings_with_windows_and_scopes() {
    let said = read_as(
        &acme(),
        200,
        &[
            ("X-Acme-Second-Limit", "10"),
            ("X-Acme-Second-Left", "7"),
            ("X-Acme-Day", "120/1000"),
            ("X-Acme-Day-Ends", "60000"),
            ("X-Acme-Price", "3"),
        ],
        "",
    );
    let second = &said.readings[0];
    let told = (second.dimension, second.limit, second.remaining);
    assert_eq!(told, (Dimension::Requests, Some(10.0), Some(7.0)));
    assert_eq!(second.window.map(|window| window.as_secs()), Some(1));
    assert_eq!(second.scope.as_deref(), Some("second"));
    let day = &said.readings[1];
    let told = (day.dimension, day.remaining, day.used);
    assert_eq!(told, (Dimension::Points, Some(880.0), Some(120.0)));
    assert_eq!(day.window.map(|window| window.as_secs()), Some(86_400));
    assert_eq!(reset(day), Some(60_000));
    assert_eq!(said.readings.len(), 2);
    assert_eq!(said.cost[..], [(Dimension::Points, 3.0)]);
}

#[test]
fn its_codes_reasons_sentences_and_statuses_have_their_classes() {
    let acme = acme();
    let slow = read_as(&acme, 200, &[], r#"{"error":{"kind":"E_SLOW","pause":2}}"#);
    assert_eq!((slow.class, wait(&slow)), (Class::RateLimited, Some(2_000)));
    let broke = read_as(&acme, 400, &[], r#"{"error":{"kind":"E_BROKE"}}"#);
    assert_eq!(broke.fault, Some(Fault::OutOfFunds));
    let class = |headers: &[(&str, &str)]| read_as(&acme, 429, headers, "").class;
    assert_eq!(class(&[("x-acme-why", "burst")]), Class::RateLimited);
    assert_eq!(class(&[("x-acme-why", "day")]), Class::QuotaExhausted);
    assert_eq!(class(&[("x-acme-why", "disk-full")]), Class::Overloaded);
    let text = read_as(&acme, 429, &[("x-acme-pause", "250")], "");
    assert_eq!(wait(&text), Some(250));
    let text = read_as(&acme, 429, &[], r#"{"message":"Come back in 5 minutes."}"#);
    assert_eq!(wait(&text), Some(300_000));
    let odd = read_as(&acme, 460, &[], "");
    let floor = |said: &paceline::feedback::Feedback| said.floor.map(|floor| floor.as_secs());
    assert_eq!((odd.class, floor(&odd)), (Class::RateLimited, Some(5)));
    assert_eq!(floor(&read_as(&acme, 429, &[], "")), Some(1));
    // A spent day comes back at the midnight that it names: it is noon.
    let day = read_as(&acme, 429, &[("x-acme-why", "day")], "");
    assert_eq!(floor(&day), Some(12 * 3600));
    let data = r#"{"items":[{"error":{"kind":"E_SLOW"}}]}"#;
    assert_eq!(read_as(&acme, 200, &[], data).class, Class::Ok);
}

#[test]
fn what_all_vendors_share_is_read_beside_it_and_its_own_word_comes_first() {
    let acme =
        described("name = \"a\"\n[profile.headers]\nx-ratelimit-limit = { tells = \"used\" }")
            .unwrap();
    let headers = [("x-ratelimit-limit", "3"), ("x-ratelimit-remaining", "9")];
    let said = read_as(&acme, 200, &headers, "");
    assert_eq!(said.readings[0].used, Some(3.0));
    assert_eq!(said.readings[1].remaining, Some(9.0));
}

#[test]
fn it_may_be_like_a_known_vendor() {
    let like = described("name = \"mirror\"\nlike = \"groq\"").unwrap();
    let headers = [
        ("x-ratelimit-limit-requests", "14400"),
        ("x-ratelimit-remaining-requests", "14370"),
    ];
    let said = read_as(&like, 200, &headers, "");
    assert_eq!(said.readings[0].window.map(|w| w.as_secs()), Some(86_400));
    assert!(like.replays("/v1/chat/completions"));
    assert!(like.serves("api.groq.com"));
    assert_eq!(
        described("name = \"m\"\nlike = \"groq\"\nhosts = [\"m.example\"]")
            .unwrap()
            .hosts(),
        ["m.example"]
    );
}

#[test]
fn a_star_stands_for_a_scope() {
    let acme = described(
        "name = \"a\"\n[profile.headers]\n\"x-left-*\" = { tells = \"remaining\", per = \"1m\" }",
    )
    .unwrap();
    let said = read_as(
        &acme,
        200,
        &[("x-left-tiles", "4"), ("x-left-search", "2")],
        "",
    );
    let scopes: Vec<_> = said
        .readings
        .iter()
        .filter_map(|r| r.scope.as_deref())
        .collect();
    assert_eq!(scopes.len(), 2);
    assert!(scopes.contains(&"tiles") && scopes.contains(&"search"));
}

#[test]
fn a_known_name_stands_for_a_vendor() {
    let file = |text: &str| toml::from_str::<File>(text).map(|file| file.profile);
    assert_eq!(file("profile = \"openai\"").unwrap(), Profile::OPENAI);
    let error = file("profile = \"nobody\"").unwrap_err().to_string();
    assert!(error.contains("\"nobody\" is no vendor"), "{error}");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, parts) in [
        ("name = \"\"", &["name", "is empty"][..]),
        ("name = \"a\"\nlike = \"nobody\"", &["like", "\"nobody\""]),
        (
            "name = \"a\"\nhots = []",
            &["unknown field `hots`", "hosts"],
        ),
        (
            "name = \"a\"\n[profile.headers]\n\"no name\" = { tells = \"limit\" }",
            &["headers.\"no name\"", "no name of a header"],
        ),
        (
            "name = \"a\"\n[profile.headers]\nx-a = { tells = \"left\" }",
            &["unknown variant `left`", "remaining"],
        ),
        (
            "name = \"a\"\n[profile.headers]\nx-a = { tells = \"status\" }",
            &["headers.\"x-a\"", "no header can"],
        ),
        (
            "name = \"a\"\n[profile.headers]\nx-a = { tells = \"reason\" }",
            &["headers.\"x-a\"", "needs words"],
        ),
        (
            "name = \"a\"\n[profile.headers]\nx-a = { tells = \"limit\", per = \"1 moon\" }",
            &["\"1 moon\" is not a duration"],
        ),
        (
            "name = \"a\"\n[profile.headers]\nx-a = { tells = \"limit\", per = \"1ms\" }",
            &["headers.\"x-a\".per", "whole number of seconds"],
        ),
        (
            "name = \"a\"\nread_successes = true\n[profile.fields]\n\"error.code\" = { tells = \"code\" }",
            &["fields.\"error.code\"", "\".error.code\""],
        ),
        (
            "name = \"a\"\n[profile.statuses]\n42 = \"rate\"",
            &["statuses.42", "no HTTP status"],
        ),
        (
            "name = \"a\"\n[profile.least_wait]\n429 = \"5\"",
            &["\"5\" is not a duration"],
        ),
        (
            "name = \"a\"\n[[profile.sentences]]\nwords = \"in {time}\"",
            &["sentences[0].words", "{time}", "{wait}"],
        ),
        (
            "name = \"a\"\n[[profile.sentences]]\nwords = \"{wait}\"",
            &["sentences[0].words", "begin with a word"],
        ),
        (
            "name = \"a\"\nbucket_by_model = true\nbucket_by_path = [\"/x\"]",
            &["bucket_by_path", "bucket_by_model"],
        ),
    ] {
        let error = described(text).expect_err(text);
        for part in parts {
            assert!(error.contains(part), "{part} is not in: {error}");
        }
    }
}
