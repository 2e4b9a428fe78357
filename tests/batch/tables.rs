//! A table as an input, packed inputs, packed answers.

use std::fs;
use std::io::Write;
use std::process::Command;

use serde_json::json;

use super::server::{Answer, Server};
use super::{Batch, Ended};

const TABLE: &str = "\u{feff}id,prompt,city\r\nq1,\"Say \"\"hi\"\"\",Paris\r\nq2,\"two\r\nlines\",Łódź\r\n\r\nq3,too,many,fields\r\n";

fn of_table(batch: &Batch, name: &str, bytes: &[u8]) -> Command {
    let input = batch.dir.path().join(name);
    fs::write(&input, bytes).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.arg("run").arg(&input).arg("-o").arg(batch.output());
    command
        .args(["--base-url", &batch.base])
        .args(&batch.options);
    command
}

fn echo() -> Server {
    Server::new(|call| Answer::json(200, &call.body))
}

#[test]
fn each_row_of_a_table_is_a_request_and_is_resumed_by_its_id() {
    let server = echo();
    let template = r#"{"model": "m", "input": "{{prompt}} in {{city}}"}"#;
    let options = ["--url", "/v1/{{city}}", "--body", template, "--ordered"];
    let batch = Batch::new("", &server.url()).with(&options);
    let end = Ended::of(of_table(&batch, "prompts.csv", TABLE.as_bytes()));
    assert_eq!(end.code(), 1, "a row is bad: {}", end.stderr);
    let records = batch.records();
    assert_eq!(batch.ids()[..2], ["q1", "q2"]);
    let input = |n: usize| records[n]["response"]["body"]["input"].clone();
    assert_eq!(
        (input(0), input(1)),
        (json!("Say \"hi\" in Paris"), json!("two\nlines in Łódź"))
    );
    let said = records[2]["error"]["message"].as_str().expect("a message");
    assert!(
        said.starts_with("line 6: the row has 4 fields and the first one 3"),
        "{said}"
    );
    let mut paths: Vec<_> = server.calls().into_iter().map(|call| call.path).collect();
    paths.sort();
    assert_eq!(paths, ["/v1/%C5%81%C3%B3d%C5%BA", "/v1/Paris"]);

    let mended = TABLE.replace("q3,too,many,fields", "q3,\"too,many\",fields");
    let end = Ended::of(of_table(&batch, "prompts.csv", mended.as_bytes()));
    assert_eq!((end.code(), server.calls().len()), (0, 3), "{}", end.stderr);
    assert_eq!(batch.ids(), ["q1", "q2", "q3"]);
}

#[test]
fn a_table_that_nothing_can_be_made_of_says_what_to_do() {
    let server = echo();
    let batch = || Batch::new("", &server.url());
    for (options, parts) in [
        (&[][..], ["--url and --body", "{{prompt}}"]),
        (
            &["--url", "/x", "--body", "{\"a\": \"{{promt}}\"}"],
            ["prompts.csv: it has no column `promt`", "`prompt`, `city`"],
        ),
        (
            &["--url", "/x/{{promt}}"],
            ["named at --url, character 4", "`prompt`, `city`"],
        ),
        (
            &["--url", "/x", "--body", "body.json"],
            ["the name of a file, not JSON", "--body @body.json takes"],
        ),
        (
            &["--url", "/x", "--body", "{\"a\": {{prompt}}}"],
            ["is not JSON", "with its quotes"],
        ),
        (&["--url", "/x", "--id", "nr"], ["no column `nr`", "`id`"]),
        (
            &["--url", "/x", "--body", "@/nowhere/body.json"],
            ["cannot read the --body", "/nowhere/body.json"],
        ),
        (&["--body", "{}"], ["--url", "required"]),
    ] {
        let end = Ended::of(of_table(
            &batch().with(options),
            "prompts.csv",
            TABLE.as_bytes(),
        ));
        assert_eq!(end.code(), 2, "{}", end.stderr);
        for part in parts {
            assert!(end.stderr.contains(part), "{part} is not in {}", end.stderr);
        }
        assert!(
            !end.stderr.contains("cannot read the input"),
            "{}",
            end.stderr
        );
    }
    let end = batch().with(&["--url", "/x"]).run();
    assert!(
        end.code() == 2 && end.stderr.contains("--base-url says"),
        "{}",
        end.stderr
    );
    assert_eq!(server.calls().len(), 0);
}

#[test]
fn a_table_that_is_broken_is_refused_whole_and_leaves_no_file() {
    // A quote without an end took in the rest of the file, and all was well.
    let server = echo();
    let template = r#"{"input": "{{prompt}}"}"#;
    for (table, parts) in [
        (
            "id,prompt\n1,a\n2,\"b\n3,c\n",
            ["opens on line 3", "never closed"],
        ),
        (
            "id,prompt\n1,a\n2,\"a\" b\n",
            ["on line 3", "written twice"],
        ),
        ("id;prompt\n1;a\n", ["`id;prompt`", "with commas"]),
        (
            "PK\u{3}\u{4}…",
            ["prompts.csv: ", "a spreadsheet: unpack it, or save it"],
        ),
        ("", ["it is empty", "names the columns"]),
        ("id,prompt\n", ["no row", "names the columns"]),
        (
            "id,prompt,prompt\n1,a,b\n",
            ["two columns `prompt`", "another name"],
        ),
        (
            "id,prompt\n1,a\n1,b\n",
            ["`1` on lines 2 and 3", "nothing was sent"],
        ),
    ] {
        let options = ["--url", "/x", "--body", template];
        let batch = Batch::new("", &server.url()).with(&options);
        let end = Ended::of(of_table(&batch, "prompts.csv", table.as_bytes()));
        assert_eq!(end.code(), 2, "{table:?}: {}", end.stderr);
        for part in parts {
            assert!(end.stderr.contains(part), "{part} is not in {}", end.stderr);
        }
        assert!(!batch.output().exists(), "{table:?}");
    }
    assert_eq!(server.calls().len(), 0);
}

#[test]
fn a_body_in_a_file_is_named_with_the_place_of_its_fault() {
    let server = echo();
    let batch = Batch::new("", &server.url());
    let path = batch.dir.path().join("body.json");
    let body = format!("@{}", path.display());
    let batch = batch.with(&["--url", "/x", "--body", &body]);
    for (text, place) in [
        ("{\n  \"a\": \"{{promt}}\"\n}", ", line 2, character 9"),
        ("{\n  \"a\": {{prompt}}\n}", "at line 2 column"),
    ] {
        fs::write(&path, text).expect("written");
        let end = Ended::of(of_table(&batch, "prompts.csv", TABLE.as_bytes()));
        assert_eq!(end.code(), 2, "{}", end.stderr);
        for part in [&path.display().to_string(), "--body", place] {
            assert!(end.stderr.contains(part), "{part} is not in {}", end.stderr);
        }
    }
}

#[test]
fn one_good_row_before_is_no_wrong_file() {
    // "none of them is a request", it said.
    let server = echo();
    let batch = Batch::new("", &server.url()).with(&["--url", "/{{prompt}}"]);
    let table = "id,prompt\n1,a\n";
    assert_eq!(
        Ended::of(of_table(&batch, "p.csv", table.as_bytes())).code(),
        0
    );
    let table = "id,prompt\n1,a\n2,b,c\n";
    let end = Ended::of(of_table(&batch, "p.csv", table.as_bytes()));
    assert_eq!(end.code(), 1);
    assert!(end.stderr.contains("bad_line x 1"), "{}", end.stderr);
    assert!(!end.stderr.contains("right file"), "{}", end.stderr);
}

#[test]
fn rows_that_would_all_send_the_same_are_sent_only_if_that_is_said() {
    let server = echo();
    let table = b"id,prompt\n1,a\n2,b\n";
    let options = ["--url", "/x", "--body", r#"{"input": "say {prompt}"}"#];
    let batch = Batch::new("", &server.url()).with(&options);
    let end = Ended::of(of_table(&batch, "prompts.csv", table));
    assert_eq!((end.code(), server.calls().len()), (2, 0));
    assert!(
        end.stderr.contains("{{prompt}}, with two braces"),
        "{}",
        end.stderr
    );
    let batch = batch.with(&["--same-request"]);
    let end = Ended::of(of_table(&batch, "prompts.csv", table));
    assert_eq!((end.code(), server.calls().len()), (0, 2), "{}", end.stderr);
    assert_eq!(
        batch.records()[0]["response"]["body"]["input"],
        "say {prompt}"
    );
}

#[test]
fn zstd_is_read_by_its_name_frame_by_frame() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let server = echo();
    let half = |from: u32| -> String {
        (from..from + 300)
            .map(|n| format!("{{\"custom_id\":\"{n}\",\"url\":\"/{n}\",\"body\":{n}}}\n"))
            .collect()
    };
    let pack = |text: String| compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
    // A frame that is to be skipped lies between, as pzstd writes it.
    let skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc".to_vec();
    let whole = [pack(half(0)), skipped, pack(half(300))].concat();
    let batch = Batch::new("", &server.url()).with(&["--ordered"]);
    let end = Ended::of(of_table(&batch, "in.jsonl.zst", &whole));
    assert_eq!(
        (end.code(), server.calls().len()),
        (0, 600),
        "{}",
        end.stderr
    );

    for (bytes, part) in [
        (&whole[..whole.len() - 20], "cut off"),
        (b"{\"url\":\"/a\"}\n", "read as zstd"),
    ] {
        let batch = Batch::new("", &server.url());
        let end = Ended::of(of_table(&batch, "in.jsonl.zst", bytes));
        assert!(end.stderr.contains(part), "{}", end.stderr);
        assert_ne!(end.code(), 0);
    }
}

#[test]
fn a_packed_answer_is_recorded_unpacked() {
    let body = b"{\"text\":\"hello\"}";
    let server = Server::new(|_| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(body).expect("memory");
        let mut answer = Answer::json(200, "");
        answer.headers.push(("content-encoding", "gzip".into()));
        answer.body = gzip.finish().expect("memory");
        answer
    });
    // Whether the line asks for it by itself or not.
    let input = "{\"custom_id\":\"a\",\"url\":\"/a\"}\n\
        {\"custom_id\":\"b\",\"url\":\"/b\",\"headers\":{\"Accept-Encoding\":\"gzip\"}}\n";
    let batch = Batch::new(input, &server.url());
    let end = batch.run();
    assert_eq!(end.code(), 0, "{}", end.stderr);
    for record in batch.records() {
        assert_eq!(record["response"]["body"], json!({"text": "hello"}));
    }
}
