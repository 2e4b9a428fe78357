//! A provider that paceline does not know: what its responses mean is described, and then read as
//! those of any vendor. The same in a file: `examples/own_provider.toml`.
//!
//! `cargo run --example own_provider`

use std::time::Duration;

use paceline::Limiter;
use paceline::feedback::{Description, Dimension, Rule, Says, Tells, Unit};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

fn acme() -> Description {
    let mut left = Rule::new(Tells::Remaining);
    left.per = Some(Duration::from_secs(60));
    let mut pause = Rule::new(Tells::Wait);
    pause.unit = Unit::Millis;
    let mut price = Rule::new(Tells::Cost);
    price.of = Some(Dimension::Points);

    let mut acme = Description::new("acme");
    acme.headers.insert("x-acme-left".into(), left);
    acme.headers.insert("x-acme-pause".into(), pause);
    acme.headers.insert("x-acme-price".into(), price);
    // It refuses with status 200, and a code in the body.
    acme.read_successes = true;
    acme.fields.insert(".error".into(), Rule::new(Tells::Code));
    acme.codes.insert("E_SLOW".into(), Says::Rate);
    acme
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = MockServer::start().await;
    let refusal = ResponseTemplate::new(200)
        .insert_header("x-acme-pause", "40")
        .set_body_json(serde_json::json!({ "error": "E_SLOW" }));
    let once = Mock::given(any()).respond_with(refusal).up_to_n_times(1);
    once.with_priority(1).mount(&api).await;
    let served = ResponseTemplate::new(200).set_body_string("a picture");
    Mock::given(any()).respond_with(served).mount(&api).await;

    let limiter = Limiter::builder().profile(acme().profile()?).build()?;
    let client = reqwest_middleware::ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter)
        .build();
    let reply = client.get(api.uri()).send().await?;
    let text = reply.text().await?;
    // The refusal looked like a success; it was repeated after 40 ms.
    println!("{text}");
    assert_eq!(text, "a picture");
    Ok(())
}
