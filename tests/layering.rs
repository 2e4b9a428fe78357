//! What each layer of the crate drags in: the pure part nothing that waits, the library nothing
//! that needs a newer Rust than it states.

use std::collections::HashMap;
use std::process::Command;

/// The packages that a build with these features needs, as `name version`.
fn packages(features: &[&str]) -> Vec<(String, String)> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args([
        "tree",
        "--locked",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--no-default-features",
    ])
    .args(["--features", &features.join(",")])
    .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = tree.output().expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .expect("names are text")
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?.to_owned();
            Some((name, words.next()?.trim_start_matches('v').to_owned()))
        })
        .collect()
}

#[test]
fn the_pure_part_needs_no_runtime_no_client_and_no_system_randomness() {
    let packages = packages(&[]);
    assert!(packages.iter().any(|(name, _)| name == "paceline"));
    for banned in ["tokio", "reqwest", "getrandom", "hyper", "serde"] {
        assert!(
            !packages.iter().any(|(name, _)| name == banned),
            "{banned} in {packages:?}"
        );
    }
}

#[test]
fn no_dependency_of_the_library_asks_for_a_newer_rust_than_it_states() {
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--locked",
            "--all-features",
            "--format-version",
            "1",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("json");
    let text = |value: &serde_json::Value| value.as_str().map(ToOwned::to_owned);
    let mut asks = HashMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let key = (
            text(&package["name"]).unwrap(),
            text(&package["version"]).unwrap(),
        );
        asks.insert(key, text(&package["rust_version"]));
    }
    let own = ("paceline".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let stated = asks[&own]
        .as_deref()
        .map(version)
        .expect("the crate states a version");
    for package in packages(&["reqwest", "client", "sim", "serde"]) {
        let asked = asks
            .get(&package)
            .unwrap_or_else(|| panic!("{package:?} is no package"));
        if let Some(asked) = asked.as_deref().map(version) {
            assert!(asked <= stated, "{package:?} asks for Rust {asked:?}");
        }
    }
}

fn version(text: &str) -> (u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().expect("a number"));
    (parts.next().expect("major"), parts.next().unwrap_or(0))
}
