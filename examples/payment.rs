//! A payment: a POST that must happen once. Without an `Idempotency-Key` it is sent once, whatever
//! comes back, unless the server said that it did nothing. With one it may be sent again.
//!
//! `cargo run --example payment`

#[path = "support/bank.rs"]
mod bank;

use std::time::Duration;

use paceline::{Deadline, Error, Limiter, Report};
use reqwest_middleware::ClientBuilder;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // It books the first payment, but takes too long to say so.
    let bank = bank::Bank::open().await;
    let limiter = Limiter::builder()
        .attempt_timeout(Duration::from_millis(200))
        .build()?;
    let client = ClientBuilder::new(paceline::http_client().build()?)
        .with(limiter)
        .build();
    let pay = || {
        let post = client
            .post(bank.url())
            .json(&serde_json::json!({ "amount": 10 }));
        // For all attempts together.
        post.with_extension(Deadline(Duration::from_secs(5)))
    };

    let reply = pay().header("idempotency-key", "order-17").send().await?;
    let report = reply
        .extensions()
        .get::<Report>()
        .expect("each response has one");
    println!(
        "with a key: {} after {} attempts",
        reply.status(),
        report.attempts
    );
    println!("{} booked", bank.booked());
    assert_eq!((report.attempts, bank.booked()), (2, 1));

    let error = pay().send().await.expect_err("it takes too long");
    let error = Error::of(&error).expect("it is paceline's");
    println!("without one: {error}");
    // Nobody knows yet whether it is booked: that is for a person, or a later question, to find out.
    assert!(error.is_attempt_timeout() && error.was_sent());
    Ok(())
}
