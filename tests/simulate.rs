//! `paceline simulate` as a program: its exit code, its JSON, its picture.

use std::process::{Command, Output};

use serde_json::Value;

const BUCKET: &str = "seeds = 2\n[provider]\nlatency = '50ms'\n\
    limits = [{ kind = 'bucket', rate = 50, burst = 10 }]\n[load]\nrequests = 150\n";

fn simulate(scenario: &str, arguments: &[&str]) -> Output {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), scenario).unwrap();
    Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(["simulate", file.path().to_str().unwrap()])
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn an_expectation_that_does_not_hold_is_exit_code_1_and_named() {
    let impossible = format!("{BUCKET}[expect]\nefficiency = 2.0\n");
    let output = simulate(&impossible, &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("MISSED efficiency"), "{text}");
    let goal = format!("{BUCKET}[goal]\nefficiency = 2.0\n");
    assert_eq!(
        simulate(&goal, &[]).status.code(),
        Some(0),
        "a goal is not required"
    );
}

#[test]
fn a_mistake_in_a_scenario_is_exit_code_2_and_named() {
    let output = simulate(&BUCKET.replace("burst", "brust"), &[]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("brust"), "{text}");
}

#[test]
fn json_has_the_results_of_everyone() {
    let output = simulate(
        BUCKET,
        &["--json", "--against", "fixed,oracle", "--seeds", "1"],
    );
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results[0]["runs"], 1);
    assert_eq!(results[0]["against"][0]["who"], "fixed");
    assert_eq!(results[0]["against"][1]["efficiency"]["median"], 1.0);
}

#[test]
fn a_picture_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("run.svg");
    let output = simulate(BUCKET, &["--svg", svg.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        std::fs::read_to_string(svg)
            .unwrap()
            .contains("allowed by the provider")
    );
}

#[test]
fn the_picture_of_the_readme_shows_what_the_code_does() {
    let root = env!("CARGO_MANIFEST_DIR");
    let name = "a-silent-limit-is-followed-down-and-up";
    let shown = format!("{root}/fixtures/pictures/{name}.svg");
    let folder = tempfile::tempdir().unwrap();
    let drawn = folder.path().join("now.svg");
    let status = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .arg("simulate")
        .arg(format!("{root}/fixtures/scenarios/{name}.toml"))
        .arg("--svg")
        .arg(&drawn)
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    if std::env::var_os("PACELINE_WRITE_REPORT").is_some() {
        std::fs::create_dir_all(format!("{root}/fixtures/pictures")).unwrap();
        std::fs::copy(drawn, shown).unwrap();
        return;
    }
    let efficiency = |path: &std::path::Path| -> f64 {
        let picture = std::fs::read_to_string(path).unwrap();
        let (_, rest) = picture.split_once("efficiency ").expect("a caption");
        rest[..5].parse().unwrap()
    };
    // As in the report: the last digit of a logarithm may differ between machines.
    let (shown, now) = (efficiency(shown.as_ref()), efficiency(&drawn));
    assert!(
        (shown - now).abs() <= 0.025,
        "the picture shows {shown}, the code does {now}; draw it anew with PACELINE_WRITE_REPORT=1"
    );
}
