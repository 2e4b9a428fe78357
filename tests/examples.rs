//! The examples run, and do what they say: each checks itself.

#[path = "../examples/any_client.rs"]
mod any_client;
#[path = "../examples/cache.rs"]
mod cache;
#[path = "../examples/custom_controller.rs"]
mod custom_controller;
#[path = "../examples/fan_out.rs"]
mod fan_out;
#[path = "../examples/graceful_shutdown.rs"]
mod graceful_shutdown;
#[path = "../examples/key_rotation.rs"]
mod key_rotation;
#[path = "../examples/nightly_batch.rs"]
mod nightly_batch;
#[path = "../examples/own_provider.rs"]
mod own_provider;
#[path = "../examples/payment.rs"]
mod payment;
#[path = "../examples/priorities.rs"]
mod priorities;
#[cfg(feature = "metrics")]
#[path = "../examples/prometheus.rs"]
mod prometheus;
#[path = "../examples/quickstart.rs"]
mod quickstart;
#[path = "../examples/renewed_key.rs"]
mod renewed_key;
#[cfg(feature = "tower")]
#[path = "../examples/sdk.rs"]
mod sdk;
#[path = "../examples/service.rs"]
mod service;
#[path = "../examples/several_keys.rs"]
mod several_keys;
#[path = "../examples/streaming.rs"]
mod streaming;
#[path = "../examples/three_apis.rs"]
mod three_apis;
#[path = "../examples/token_costs.rs"]
mod token_costs;
#[path = "../examples/web_service.rs"]
mod web_service;

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
fn a_provider_that_is_described_is_read() {
    own_provider::main().unwrap();
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

#[test]
fn a_fan_out_with_a_call_in_its_loop_ends() {
    fan_out::main().unwrap();
}

#[test]
fn a_shutdown_loses_and_doubles_nothing() {
    graceful_shutdown::main().unwrap();
}

#[test]
fn keys_change_while_the_program_runs() {
    key_rotation::main().unwrap();
}

#[test]
fn a_payment_happens_once() {
    payment::main().unwrap();
}

#[cfg(feature = "tower")]
#[test]
fn sdks_go_through_the_same_limiter() {
    sdk::main().unwrap();
}

#[test]
fn streams_keep_their_slots_until_they_end() {
    streaming::main().unwrap();
}

#[test]
fn three_apis_do_not_wait_for_each_other() {
    three_apis::main().unwrap();
}

#[test]
fn tokens_are_counted_for_all_calls() {
    token_costs::main().unwrap();
}

#[test]
fn a_web_service_tells_its_callers_when_to_come_back() {
    web_service::main().unwrap();
}

#[test]
fn a_token_is_brought_anew_before_it_expires() {
    renewed_key::main().unwrap();
}

#[test]
fn what_was_answered_is_not_asked_again() {
    cache::main().unwrap();
}

#[cfg(feature = "metrics")]
#[test]
fn prometheus_gets_its_page() {
    prometheus::main().unwrap();
}

#[test]
fn people_and_a_batch_share_five_keys() {
    service::main().unwrap();
}
