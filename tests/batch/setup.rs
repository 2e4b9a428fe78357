//! What is done before a run: settings are looked at, a shell and `man` are told of the command.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Ended;

fn paceline(arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args(arguments);
    Ended::of(command)
}

#[test]
fn the_example_of_settings_is_good_and_explained() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/batch/limits.toml");
    let end = paceline(&["config", "check", path.to_str().expect("UTF-8")]);
    assert_eq!(end.code(), 0, "{}", end.stderr);
    for row in [
        "ceilings = [\"500/1m\", \"30000 tokens/1m\"]  # never more per key\n",
        "max_concurrency = 20  # the most in flight over all keys\n",
        "retry.errors = 5  # repeats after errors\n",
        "# max_wait: none; how long a request may wait, retries included (default)\n",
    ] {
        assert!(end.stdout.contains(row), "{row} is not in\n{}", end.stdout);
    }
}

#[test]
fn the_example_of_providers_is_good_and_says_what_is_missing() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/batch/providers.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command
        .args(["config", "check"])
        .arg(path)
        .env_remove("OPENAI_API_KEY");
    let end = Ended::of(command);
    assert_eq!(end.code(), 0, "{}", end.stderr);
    for part in [
        "[providers.hotels]\n",
        "ceilings = [\"1/1s+10%\"]",
        "not set here: [\"OPENAI_API_KEY\"]",
        "auth = \"query:applicationId\"",
    ] {
        assert!(
            end.stdout.contains(part),
            "{part} is not in\n{}",
            end.stdout
        );
    }
}

#[test]
fn a_mistake_in_settings_is_named_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("limits.toml");
    let shown = path.to_str().expect("UTF-8");
    for (text, parts) in [
        (
            "queue = 5\nkey_concurency = 5\n",
            ["line 2", "expected one of"],
        ),
        ("queue = 5\nceilings = [\"fast\"]\n", ["line 2", "fast"]),
        ("queue = \n", ["line 1", "limits.toml"]),
        ("key_concurrency = 0\n", ["key_concurrency is 0", "from 1"]),
        (
            "concurrency = { fixed = { limit = 0 } }\n",
            ["limit", "from 1"],
        ),
        ("[retry]\nbase = \"soon\"\n", ["line 2", "such as \"1s\""]),
    ] {
        fs::write(&path, text).expect("written");
        let end = paceline(&["config", "check", shown]);
        assert_eq!((end.code(), end.stdout.as_str()), (2, ""), "{text}");
        for part in parts {
            assert!(
                end.stderr.contains(part),
                "{part} is not in\n{}",
                end.stderr
            );
        }
    }
    fs::remove_file(&path).expect("removed");
    let end = paceline(&["config", "check", shown]);
    assert!(end.code() == 2 && end.stderr.contains("cannot read"));
}

#[test]
fn shells_and_man_are_told_every_option_of_run() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let end = paceline(&["completions", shell]);
        assert_eq!(end.code(), 0);
        assert!(end.stdout.contains("retry-failed"), "{shell}");
    }
    let end = paceline(&["man", "run"]);
    assert_eq!(end.code(), 0);
    assert!(end.stdout.contains(".TH paceline-run 1"), "{}", end.stdout);
    assert!(end.stdout.contains("retry\\-failed"));
    let end = paceline(&["man"]);
    assert!(end.code() == 0 && end.stdout.contains(".TH paceline 1"));
    let end = paceline(&["man", "config", "check"]);
    assert!(
        end.stdout.contains(".TH paceline-config-check 1"),
        "{}",
        end.stdout
    );
    for (wrong, part) in [("nothing", "run, config"), ("run", "it has none")] {
        let end = paceline(&["man", wrong, "more"]);
        assert!(
            end.code() == 2 && end.stderr.contains(part),
            "{}",
            end.stderr
        );
    }
}
