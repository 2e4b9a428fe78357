//! Windows that a server tells to the millisecond, seen from a machine that is busy: requests arrive
//! late, answers are read late and out of order.

use paceline::scheduler::events::{Loan, Ticket};
use paceline::{Ask, Settings};

use crate::support::machine::{Machine, answer};

/// A server's window of [`LIMIT`] by its own clock, and what is on the way to it and back.
struct Served {
    machine: Machine,
    /// When the window ends, in milliseconds.
    end: u64,
    left: u64,
    sent: u64,
    served: u64,
    refused: u64,
    arriving: Vec<(u64, u64, Ticket)>,
    answered: Vec<(u64, Ticket, Said)>,
}

/// What an answer tells: whether it was served, what was left and until when, in milliseconds.
#[derive(Clone, Copy)]
struct Said {
    is_served: bool,
    left: u64,
    reset: u64,
}

impl Served {
    fn new(end: u64) -> Self {
        let mut machine = Machine::new(Settings::default(), 1);
        for _ in 0..6 * LIMIT {
            machine.submit(Ask::new());
        }
        Self {
            machine,
            end,
            left: LIMIT,
            sent: 0,
            served: 0,
            refused: 0,
            arriving: Vec::new(),
            answered: Vec::new(),
        }
    }

    /// Lets a millisecond pass. The request of a number takes `out` to arrive, and its answer `back`
    /// to be read; answers those that were sent.
    fn step(&mut self, out: fn(u64) -> u64, back: fn(u64) -> u64) -> Vec<Ticket> {
        self.machine.pass(0.001);
        let now = self.machine.now.as_nanos() / 1_000_000;
        if now >= self.end {
            (self.end, self.left) = (self.end + LENGTH, LIMIT);
        }
        let (here, away) = self.arriving.iter().partition(|(at, ..)| *at <= now);
        self.arriving = away;
        for (_, number, ticket) in here {
            let is_served = self.left > 0;
            self.left = self.left.saturating_sub(1);
            self.served += u64::from(is_served);
            self.refused += u64::from(!is_served);
            let said = Said {
                is_served,
                left: self.left,
                reset: self.end - now,
            };
            self.answered.push((now + back(number), ticket, said));
        }
        let (read, rest) = self.answered.iter().partition(|(at, ..)| *at <= now);
        self.answered = rest;
        for (_, ticket, said) in read {
            self.read(ticket, said);
        }
        let mut sent = Vec::new();
        while let Some(grant) = self.machine.grant() {
            self.sent += 1;
            self.arriving
                .push((now + out(self.sent), self.sent, grant.ticket));
            sent.push(grant.ticket);
        }
        sent
    }

    fn read(&mut self, ticket: Ticket, said: Said) {
        let status = if said.is_served { 200 } else { 429 };
        let (left, reset) = (said.left.to_string(), format!("{}ms", said.reset));
        let limit = LIMIT.to_string();
        let mut headers = vec![
            ("x-ratelimit-limit-requests", &*limit),
            ("x-ratelimit-remaining-requests", &*left),
            ("x-ratelimit-reset-requests", &*reset),
        ];
        if !said.is_served {
            headers.push(("retry-after", "1"));
        }
        self.machine.settle(ticket, &answer(status, &headers, ""));
    }
}

#[test]
fn a_window_that_looked_like_a_bucket_is_used_again_when_it_is_back() {
    let mut served = Served::new(4_900);
    // The first request makes a connection and arrives late, and so is its answer read: its reset
    // seems to lie before that of the others, as that of a bucket does from which less was taken.
    // So does that of the last: the next request comes before the window is back.
    let out = |number| match number {
        1 => 11,
        LIMIT => 60,
        _ => 1,
    };
    let back = |number| if number == 1 { 85 } else { 80 };
    while served.machine.now.as_secs_f64() < 6.5 {
        served.step(out, back);
    }
    assert_eq!(served.served, 2 * LIMIT, "{} refused", served.refused);
}

#[test]
fn what_nobody_listens_for_is_on_its_way_all_the_same() {
    let mut served = Served::new(4_900);
    let mut second = Vec::new();
    while served.machine.now.as_secs_f64() < 20.8 {
        let sent = served.step(|_| 1, |number| 100 + 7 * (number % 80));
        if served.machine.now.as_secs_f64() > 4.8 {
            second.extend(sent);
        }
        // A machine so busy that the owners of all that waits for an answer are asked for it late.
        let now = served.machine.now;
        let unheard = served
            .answered
            .iter()
            .filter(|(_, ticket, _)| second.contains(ticket));
        for &(at, ticket, _) in unheard {
            let _listens = served.machine.scheduler.reclaim(ticket);
            if at > now.as_nanos() / 1_000_000 + 1 {
                served.machine.scheduler.lend(ticket, Loan::Woken, now);
            }
        }
    }
    assert_eq!(served.served, 5 * LIMIT);
    assert!(served.refused < LIMIT / 5, "{} refused", served.refused);
}

const LIMIT: u64 = 100;
/// In milliseconds.
const LENGTH: u64 = 5_000;
