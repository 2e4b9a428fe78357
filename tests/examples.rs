//! The examples run, and do what they say: each checks itself.

#[path = "../examples/any_client.rs"]
mod any_client;
#[path = "../examples/custom_controller.rs"]
mod custom_controller;
#[path = "../examples/nightly_batch.rs"]
mod nightly_batch;
#[path = "../examples/priorities.rs"]
mod priorities;
#[path = "../examples/quickstart.rs"]
mod quickstart;
#[path = "../examples/several_keys.rs"]
mod several_keys;

#[test]
fn any_client_is_called() {
    any_client::main().unwrap();
}

#[test]
fn a_controller_of_ones_own_is_used() {
    custom_controller::main().unwrap();
}

#[test]
fn a_night_ends_with_every_hotel() {
    nightly_batch::main().unwrap();
}

#[test]
fn who_waits_for_an_old_view_is_cancelled() {
    priorities::main().unwrap();
}

#[test]
fn a_silent_api_is_learned() {
    quickstart::main().unwrap();
}

#[test]
fn several_keys_are_used_as_one() {
    several_keys::main().unwrap();
}
