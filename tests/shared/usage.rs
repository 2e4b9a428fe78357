//! What a run says of its store to whoever started it.

use std::process::Command;
use std::time::Duration;

use super::provider::Provider;
use super::server::{Kind, Port, Server};

/// Where a run has the URL of its store from.
enum From<'a> {
    Word(&'a str),
    File(&'a str),
    Variable(&'a str),
}

/// Runs two requests; whether they succeeded, and what was said.
pub(super) fn run(url: &str, options: &[&str], authority: Option<&str>) -> (bool, String) {
    run_with(From::Word(url), options, authority)
}

fn run_with(from: From<'_>, options: &[&str], authority: Option<&str>) -> (bool, String) {
    run_at(&Provider::start(Duration::ZERO), from, options, authority)
}

fn run_at(
    provider: &Provider,
    from: From<'_>,
    options: &[&str],
    authority: Option<&str>,
) -> (bool, String) {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("in.jsonl");
    let lines = "{\"method\":\"GET\",\"url\":\"/a\"}\n{\"method\":\"GET\",\"url\":\"/b\"}\n";
    std::fs::write(&input, lines).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command
        .arg("run")
        .arg(&input)
        .args(["--base-url", &provider.url(), "--rate", "5/1s"])
        .args(["--max-wait", "3s"])
        .args(options);
    match from {
        From::Word(url) => command.args(["--shared", url]),
        From::File(path) => command.args(["--shared-file", path]),
        From::Variable(url) => command.env("PACELINE_SHARED", url),
    };
    if let Some(authority) = authority {
        command.env("SSL_CERT_FILE", authority);
    }
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.success(), said)
}

#[test]
fn a_url_that_is_none_is_told_and_not_repeated() {
    for url in [
        "http://u:s3cret@host",
        "redis:/u:s3cret@host",
        "rediss://u:s3cret@h:x",
    ] {
        let (succeeds, said) = run(url, &[], None);
        assert!(
            !succeeds && said.contains("redis://[user:password@]host"),
            "{said}"
        );
        assert!(!said.contains("s3cret"), "{said}");
    }
}

#[test]
fn a_store_that_is_away_is_told_with_what_was_sent_without_it() {
    let nobody = Port::reserve();
    let url = format!("redis://u:s3cret@127.0.0.1:{}", nobody.number());
    let (succeeds, said) = run(&url, &[], None);
    assert!(succeeds, "{said}");
    assert!(said.contains("does not answer"), "{said}");
    assert!(said.contains("2 requests were sent meanwhile"), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
    let (succeeds, said) = run(&url, &["--when-away", "closed"], None);
    assert!(!succeeds && said.contains("does not answer"), "{said}");
}

#[test]
fn a_wrong_password_is_told_and_not_repeated() {
    let server = Server::start(Kind::Valkey);
    server.command(&["CONFIG", "SET", "requirepass", "right"]);
    let url = format!("redis://:s3cret@127.0.0.1:{}", server.port());
    let (succeeds, said) = run(&url, &["--when-away", "closed"], None);
    assert!(
        !succeeds && said.to_lowercase().contains("password"),
        "{said}"
    );
    assert!(!said.contains("s3cret"), "{said}");
}

#[test]
fn a_password_on_the_command_line_is_told_and_a_file_and_a_variable_keep_it() {
    let server = Server::start(Kind::Valkey);
    server.command(&["CONFIG", "SET", "requirepass", "s3cret-w0rd"]);
    let url = format!("redis://:s3cret-w0rd@127.0.0.1:{}", server.port());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("# the store\n\n{url}\n")).unwrap();
    let path = file.path().to_str().unwrap();
    let closed = ["--when-away", "closed"];
    for (from, is_seen) in [
        (From::Word(&url), true),
        (From::File(path), false),
        (From::Variable(&url), false),
    ] {
        let (succeeds, said) = run_with(from, &closed, None);
        assert!(succeeds, "{said}");
        assert_eq!(said.contains("PACELINE_SHARED"), is_seen, "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    let (succeeds, said) = run_with(From::File("/no/such/file"), &[], None);
    assert!(!succeeds && said.contains("/no/such/file"), "{said}");
}

#[test]
fn runs_of_another_scope_do_not_meet() {
    let server = Server::start(Kind::Valkey);
    for scope in [None, Some("team-a"), Some("team-b")] {
        let options: Vec<&str> = scope.map_or(vec![], |scope| vec!["--shared-scope", scope]);
        assert!(run(&server.url(), &options, None).0);
    }
    let keys = server.keys();
    for start in [
        "paceline:{127",
        "paceline:{team-a:127",
        "paceline:{team-b:127",
    ] {
        assert!(
            keys.iter().any(|(key, _)| key.starts_with(start)),
            "{keys:?}"
        );
    }
    let (succeeds, said) = run(&server.url(), &["--shared-scope", "a b"], None);
    assert!(!succeeds && said.contains("letters, digits"), "{said}");
}

#[test]
fn a_user_who_may_not_is_told_what_is_needed() {
    let server = Server::start(Kind::Valkey);
    server.command(&[
        "ACL",
        "SETUSER",
        "team",
        "on",
        ">s3cret-w0rd",
        "~team:*",
        "+@all",
    ]);
    let url = format!("redis://team:s3cret-w0rd@127.0.0.1:{}", server.port());
    let (succeeds, said) = run(&url, &["--when-away", "closed"], None);
    assert!(!succeeds && said.contains("~paceline:*"), "{said}");
}

#[test]
fn a_run_beside_one_of_another_rate_is_told() {
    let server = Server::start(Kind::Valkey);
    let provider = Provider::start(Duration::ZERO);
    for (rate, is_told) in [("90/1m", false), ("90/1m", false), ("60/1m", true)] {
        let url = server.url();
        let (succeeds, said) = run_at(&provider, From::Word(&url), &["--rate", rate], None);
        assert!(succeeds, "{said}");
        assert_eq!(said.contains("90 requests in 1m"), is_told, "{said}");
    }
}

#[test]
fn a_store_that_may_evict_is_told_of() {
    for (policy, is_risky) in [("allkeys-lru", true), ("noeviction", false)] {
        let server = Server::start(Kind::Valkey);
        server.command(&["CONFIG", "SET", "maxmemory", "100mb"]);
        server.command(&["CONFIG", "SET", "maxmemory-policy", policy]);
        let (succeeds, said) = run(&server.url(), &["--rate", "1/1s"], None);
        assert!(succeeds, "{said}");
        assert_eq!(
            said.contains("maxmemory-policy noeviction"),
            is_risky,
            "{said}"
        );
    }
}
