#![no_main]

#[path = "../../tests/feedback/targets.rs"]
#[expect(dead_code, reason = "each fuzzer has one target")]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::event(data));
