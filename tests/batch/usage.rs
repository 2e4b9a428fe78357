//! Whoever uses it wrongly is told what to do, and nothing is sent.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use super::server::{Answer, Server};
use super::{Batch, Ended, until};

fn server() -> Server {
    Server::new(|_| Answer::json(200, "{}"))
}

#[test]
fn duplicate_ids_are_refused_with_both_lines_before_anything_is_sent() {
    let server = server();
    let input = "{\"custom_id\":\"a\",\"url\":\"/1\"}\n\n{\"custom_id\":\"a\",\"url\":\"/2\"}\n";
    let batch = Batch::new(input, &server.url());
    let end = batch.run();
    assert_eq!((end.code(), server.calls().len()), (2, 0));
    assert!(
        end.stderr.contains("`a` on lines 1 and 3"),
        "{}",
        end.stderr
    );
    assert!(!batch.output().exists());
}

#[test]
fn a_second_run_on_the_same_output_is_refused() {
    let server = Server::new(|_| Answer::json(200, "{}").after(Duration::from_secs(60)));
    let batch = Batch::new("{\"url\":\"/a\"}", &server.url());
    let mut first = batch.start();
    until("the first run's request", || server.count() == 1);
    let end = batch.run();
    assert_eq!((end.code(), server.calls().len()), (2, 1));
    assert!(
        end.stderr.contains("another run writes to"),
        "{}",
        end.stderr
    );
    first.kill().expect("it runs");
    first.wait().expect("it ends");
}

#[test]
fn an_edited_line_is_sent_and_its_neighbours_are_not() {
    let server = server();
    let line = |n: u32| format!("{{\"url\":\"/{n}\"}}\n");
    let batch = Batch::new(&(line(1) + &line(2) + &line(3)), &server.url()).with(&["--ordered"]);
    assert_eq!(batch.run().code(), 0);
    batch.write(&(line(1) + &line(20) + &line(3)));
    let end = batch.run();
    assert_eq!((end.code(), server.calls().len()), (0, 4), "{}", end.stderr);
    assert!(end.stderr.contains("edited"), "{}", end.stderr);
    assert_eq!(server.calls()[3].path, "/20");
    assert_eq!(batch.records().len(), 3);

    batch.write(&(line(0) + &line(1) + &line(20) + &line(3)));
    let end = batch.run();
    assert_eq!((end.code(), server.calls().len()), (0, 5), "{}", end.stderr);
    assert_eq!(server.calls()[4].path, "/0");
    let ids = batch.ids();
    assert!(
        ids.iter()
            .zip(1..)
            .all(|(id, n)| id.starts_with(&format!("line-{n}-"))),
        "{ids:?}"
    );
}

#[test]
fn a_file_of_something_else_is_no_output() {
    let server = server();
    let batch = Batch::new("{\"url\":\"/a\"}", &server.url());
    fs::write(batch.output(), "my notes\n").expect("written");
    let end = batch.run();
    assert_eq!((end.code(), server.calls().len()), (2, 0));
    assert_eq!(fs::read(batch.output()).expect("there"), b"my notes\n");
    assert!(end.stderr.contains("give another -o"), "{}", end.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_stops_the_run_and_is_named() {
    let server = server();
    let input: String = (0..500)
        .map(|n| format!("{{\"url\":\"/{n}\"}}\n"))
        .collect();
    let batch = Batch::new(&input, &server.url());
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command
        .arg("run")
        .arg(batch.input())
        .args(["-o", "/dev/full", "--base-url", &batch.base]);
    let end = Ended::of(command);
    assert_eq!(end.code(), 1, "{}", end.stderr);
    assert!(
        end.stderr.contains("make room on the disk"),
        "{}",
        end.stderr
    );
    assert!(server.calls().len() < 500);
}

#[test]
fn every_mistake_is_answered_with_what_to_do() {
    let server = server();
    let run = |batch: Batch| {
        let end = batch.run();
        assert_eq!(end.code(), 2, "{}", end.stderr);
        end.stderr
    };
    let batch = |options: &[&str]| Batch::new("{\"url\":\"/a\"}", &server.url()).with(options);
    for (options, part) in [
        (
            &["--key-env", "NOT_SET_ANYWHERE"][..],
            "export NOT_SET_ANYWHERE=",
        ),
        (&["--key-env", "sk-secret-1"], "not the key itself"),
        (
            &["--key-file", "/nowhere/keys"],
            "cannot read the keys in /nowhere/keys",
        ),
        (&["--auth", "basic"], "bearer, header:NAME, query:NAME"),
        (&["--rate", "5 per second"], "--rate"),
        (&["--max-attempts", "0"], "--max-attempts"),
        (&["--max-wait", "soon"], "--max-wait"),
        (&["--max-concurrency", "0"], "--max-concurrency"),
        (&["--grace", "short"], "--grace"),
        (&["--key", "sk-secret-1"], "--key"),
    ] {
        let said = run(batch(options));
        assert!(said.contains(part), "{options:?}: {said}");
        assert!(!said.contains("sk-secret"), "{options:?}: {said}");
    }
    let missing = batch(&[]);
    fs::remove_file(missing.input()).expect("there");
    assert!(run(missing).contains("cannot open the input"));
    let same = batch(&[]);
    fs::hard_link(same.input(), same.output()).expect("linked");
    assert!(run(same).contains("same file"));
    let mut command = batch(&[]).command();
    command.env("TWO", "a,b").args(["--key-env", "TWO"]);
    let end = Ended::of(command);
    assert!(
        end.code() == 2 && end.stderr.contains("comma"),
        "{}",
        end.stderr
    );
    assert_eq!(server.calls().len(), 0);
}

#[test]
fn a_relative_url_without_a_base_sends_nothing() {
    let batch = Batch::new("{\"url\":\"/a\"}", "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command
        .arg("run")
        .arg(batch.input())
        .arg("-o")
        .arg(batch.output());
    let end = Ended::of(command);
    assert_eq!(end.code(), 2);
    assert!(
        end.stderr.contains("--base-url https://api.openai.com"),
        "{}",
        end.stderr
    );
    assert!(!batch.output().exists(), "an empty file was left");
}

#[test]
fn an_output_whose_name_promises_another_form_is_refused() {
    let server = server();
    for name in ["out.jsonl.gz", "out.csv", "OUT.ZST"] {
        let batch = Batch::new("{\"url\":\"/a\"}", &server.url());
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command
            .arg("run")
            .arg(batch.input())
            .arg("-o")
            .arg(batch.dir.path().join(name));
        let end = Ended::of(command);
        assert_eq!(end.code(), 2, "{name}");
        assert!(end.stderr.contains("lines of JSON"), "{}", end.stderr);
        assert!(!batch.dir.path().join(name).exists());
    }
}

#[test]
fn an_output_that_cannot_be_made_says_what_is_missing() {
    let server = server();
    let batch = Batch::new("{\"url\":\"/a\"}", &server.url());
    let folder = batch.dir.path().join("results");
    let file = folder.join("out.jsonl");
    let run = |output: &std::path::Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.arg("run").arg(batch.input()).arg("-o").arg(output);
        let end = Ended::of(command);
        assert_eq!(end.code(), 2, "{}", end.stderr);
        end.stderr
    };
    let said = run(&file);
    let part = format!("there is no folder {}: make it", folder.display());
    assert!(said.contains(&part), "{said}");
    fs::create_dir(&folder).expect("made");
    assert!(run(&folder).contains("it is a folder: name a file in it"));
    assert_eq!(server.count(), 0);
}

#[test]
fn an_input_without_a_line_is_said_to_have_none() {
    let server = server();
    let end = Batch::new("\n\n", &server.url()).run();
    assert_eq!((end.code(), server.count()), (0, 0));
    assert!(
        end.stderr.contains("there is no line in the input"),
        "{}",
        end.stderr
    );
}

#[cfg(unix)]
#[test]
fn a_file_that_may_grow_no_further_ends_the_run_and_not_the_process() {
    // The signal for it did, and nothing was said.
    let server = server();
    let input: String = (0..60).map(|n| format!("{{\"url\":\"/{n}\"}}\n")).collect();
    let batch = Batch::new(&input, &server.url());
    let whole = batch.command();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 4; exec \"$@\"", "sh"]);
    command.arg(whole.get_program()).args(whole.get_args());
    let end = Ended::of(command);
    assert_eq!(end.code(), 1, "{}", end.stderr);
    assert!(
        end.stderr.contains("run the same command again"),
        "{}",
        end.stderr
    );
    let end = batch.run();
    assert_eq!((end.code(), batch.ids().len()), (0, 60), "{}", end.stderr);
}

#[test]
fn a_method_that_looks_like_a_mistake_is_not_sent() {
    let server = server();
    let input = "{\"url\":\"/a\",\"method\":\"PSOT\"}\n{\"url\":\"/b\",\"method\":\"purge\"}\n";
    let batch = Batch::new(input, &server.url()).with(&["--ordered"]);
    assert_eq!((batch.run().code(), server.calls().len()), (1, 1));
    let said = batch.records()[0]["error"]["message"].to_string();
    assert!(said.contains("is POST meant?"), "{said}");
}

#[test]
fn keys_come_from_a_file_as_they_are_kept_for_a_shell() {
    let server = server();
    let batch = Batch::new("{\"url\":\"/a\"}\n{\"url\":\"/b\"}\n", &server.url());
    let path = batch.dir.path().join(".env");
    fs::write(
        &path,
        "# mine\nexport API_KEY=\"sk-secret-1\"\n\nBearer sk-secret-1\n",
    )
    .expect("written");
    let batch = batch.with(&["--key-file", path.to_str().expect("UTF-8")]);
    assert_eq!(batch.run().code(), 0);
    for call in server.calls() {
        assert_eq!(call.headers["authorization"], "Bearer sk-secret-1");
    }
}

#[test]
fn a_dry_run_says_what_would_be_done_and_touches_nothing() {
    let server = server();
    let batch = Batch::new("{\"url\":\"/a\"}\n{bad\n", &server.url()).with(&["--dry-run"]);
    let end = batch.run();
    assert_eq!((end.code(), server.calls().len()), (1, 0), "{}", end.stderr);
    assert!(
        end.stdout.contains("line 2: it is not JSON"),
        "{}",
        end.stdout
    );
    assert!(!batch.output().exists());
}

#[test]
fn a_dry_run_counts_a_key_once_however_often_it_is_given() {
    let server = server();
    let batch = Batch::new("{\"url\":\"/a\"}\n", &server.url()).with(&["--dry-run"]);
    let mut command = batch.command();
    command.env("A", "sk-secret-1").env("B", "sk-secret-1");
    command.args(["--key-env", "A", "--key-env", "B"]);
    let end = Ended::of(command);
    assert!(end.stdout.contains(", with the key\n"), "{}", end.stdout);
}

#[test]
fn the_last_word_of_a_progress_is_the_whole() {
    let server = server();
    let input: String = (0..3).map(|n| format!("{{\"url\":\"/{n}\"}}\n")).collect();
    let batch = Batch::new(&input, &server.url()).with(&["--progress", "json"]);
    let end = batch.run();
    let mut objects = end.stderr.lines().filter(|line| line.starts_with('{'));
    let last: serde_json::Value =
        serde_json::from_str(objects.next_back().expect("one")).expect("JSON");
    assert_eq!((&last["done"], &last["total"]), (&3.into(), &3.into()));
    let batch = Batch::new(&input, &server.url());
    let mut command = batch.command();
    command.env("CI", "true");
    let end = Ended::of(command);
    assert!(end.stderr.contains("3/3 "), "{}", end.stderr);
}

#[test]
fn the_summary_says_how_all_attempts_were_answered() {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let server =
        Server::new(
            move |_| match calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => Answer::json(500, "{}"),
                1 => Answer::json(429, "{}"),
                _ => Answer::json(200, "{}"),
            },
        );
    let batch = Batch::new("{\"url\":\"/a\"}\n{\"url\":\"/b\"}\n", &server.url());
    let end = batch.with(&["--max-concurrency", "1"]).run();
    assert_eq!(end.code(), 0, "{}", end.stderr);
    let row = "answers       4: 200 x 2, 429 x 1, 500 x 1\n";
    assert!(end.stderr.contains(row), "{}", end.stderr);
}

#[test]
fn gzip_is_read_by_its_name_and_resumed_as_any_file() {
    let server = server();
    let batch = Batch::new("", &server.url()).with(&["--ordered", "--limit", "250"]);
    let input = batch.dir.path().join("in.jsonl.gz");
    let file = fs::File::create(&input).expect("created");
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    for n in 0..500 {
        writeln!(gzip, "{{\"custom_id\":\"{n}\",\"url\":\"/{n}\"}}").expect("written");
    }
    gzip.finish().expect("written");
    for sent in [250, 500] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.arg("run").arg(&input).arg("-o").arg(batch.output());
        command
            .args(["--base-url", &batch.base])
            .args(&batch.options);
        let end = Ended::of(command);
        assert_eq!(
            (end.code(), server.calls().len()),
            (0, sent),
            "{}",
            end.stderr
        );
    }
    let ids: Vec<_> = (0..500).map(|n| n.to_string()).collect();
    assert_eq!(batch.ids(), ids);

    let plain = Batch::new("", &server.url());
    fs::copy(&input, plain.input()).expect("copied");
    let end = plain.run();
    assert_eq!((end.code(), server.calls().len()), (2, 500));
    assert!(end.stderr.contains("end its name in .gz"), "{}", end.stderr);
}

#[test]
fn a_limit_does_so_many_and_the_next_run_the_rest() {
    let server = server();
    let input: String = (0..10).map(|n| format!("{{\"url\":\"/{n}\"}}\n")).collect();
    let batch = Batch::new(&input, &server.url()).with(&["--limit", "4", "--summary", "json"]);
    for (sent, left) in [(4, 6), (8, 2), (10, 0)] {
        let end = batch.run();
        assert_eq!((end.code(), server.calls().len()), (0, sent));
        assert_eq!(end.summary()["left_by_limit"], left);
        assert_eq!(end.stderr.contains("because of --limit 4"), left > 0);
    }
}

#[test]
fn what_a_limit_did_not_leave_is_not_excused_by_it() {
    let server = Server::new(|_| Answer::json(429, "{}"));
    let input: String = (0..3).map(|n| format!("{{\"url\":\"/{n}\"}}\n")).collect();
    let batch = Batch::new(&input, &server.url());
    let batch = batch.with(&["--limit", "1", "--max-attempts", "1", "--summary", "json"]);
    let end = batch.run();
    assert_eq!(end.code(), 1);
    assert_eq!(
        (&end.summary()["left"], &end.summary()["left_by_limit"]),
        (&3.into(), &2.into())
    );
}

#[test]
fn settings_come_from_a_file_and_options_win() {
    let server = Server::new(|_| Answer::json(429, "{}"));
    let batch = Batch::new("{\"url\":\"/a\"}", &server.url());
    let config = batch.dir.path().join("limits.toml");
    let path = config.to_str().expect("UTF-8").to_owned();
    let batch = batch.with(&["--config", &path]);
    fs::write(&config, "[retry]\nrefusals = 2\nbase = \"1ms\"\n").expect("written");
    assert_eq!((batch.run().code(), server.calls().len()), (1, 3));
    let batch = batch.with(&["--max-attempts", "1"]);
    assert_eq!((batch.run().code(), server.calls().len()), (1, 4));
    for (text, part) in [
        ("ceilings = [\"fast\"]", "fast"),
        ("key_concurency = 5", "key_concurency"),
        ("key_concurrency = 0", "key_concurrency"),
    ] {
        fs::write(&config, text).expect("written");
        let end = batch.run();
        assert!(
            end.code() == 2 && end.stderr.contains(part),
            "{text}: {}",
            end.stderr
        );
    }
}

#[test]
fn a_base_url_that_nothing_can_be_sent_to_ends_before_anything_is_written() {
    // Every line became a final failure, and the corrected command did nothing.
    for wrong in [
        "localhost:8080",
        "127.0.0.1:8080",
        "ftp://example.org",
        "api.example.org",
    ] {
        let batch = Batch::new("{\"url\":\"/a\"}", wrong);
        let end = batch.run();
        assert_eq!(end.code(), 2, "{wrong}");
        assert!(end.stderr.contains("http://HOST:PORT"), "{}", end.stderr);
        assert!(!batch.output().exists());
    }
}
