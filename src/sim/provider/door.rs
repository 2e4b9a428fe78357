//! Who is turned away at the door, before any limit is asked: in an outage, with a bad key, under a
//! ban.

use std::time::Duration;

use http::header::{HeaderValue, RETRY_AFTER};

use super::{Outage, Provider, Reply, Request, TOO_MANY};

impl Provider {
    /// Answers that have nothing to do with limits: an outage, a bad key, a ban.
    pub(super) fn turned_away(&mut self, request: Request, now: f64) -> Option<Reply> {
        if let Some(index) = self.outage(now) {
            return Some(self.turn_away(index, request.key));
        }
        let Some(key) = self.keys.get_mut(request.key) else {
            self.counts.unauthorized(request.key);
            return Some(Reply::at_once(401, "Unknown API key."));
        };
        if key.is_mute(now) {
            self.counts.unanswered(request.key);
            return Some(Reply {
                delay: Duration::MAX,
                ..Reply::at_once(0, "")
            });
        }
        if key.is_revoked(now) {
            self.counts.unauthorized(request.key);
            return Some(Reply::at_once(401, "Unauthorized"));
        }
        let ban = self.law.ban?;
        if !key.is_banned(ban, now) {
            return None;
        }
        let left = key.ban_left(now);
        self.counts.banned(request.key);
        let reply = Reply::at_once(ban.status, "You are blocked for sending too many requests.");
        if ban.status != TOO_MANY {
            return Some(reply);
        }
        Some(Reply {
            headers: self.headers(request.key, Some(left), now),
            ..reply
        })
    }

    /// The place of the outage that lasts.
    pub(super) fn outage(&self, now: f64) -> Option<usize> {
        let lasts = |(index, outage): &(usize, &Outage)| {
            let left = outage
                .at_most
                .is_none_or(|most| self.turned_away[*index] < most);
            left && outage.from.as_secs_f64() <= now && now < outage.until.as_secs_f64()
        };
        let mut outages = self.law.outages.iter().enumerate();
        outages.find(lasts).map(|(index, _)| index)
    }

    fn turn_away(&mut self, outage: usize, key: usize) -> Reply {
        self.turned_away[outage] += 1;
        let Outage {
            status,
            retry_after,
            ..
        } = self.law.outages[outage];
        if status == TOO_MANY {
            self.counts.turned_away();
        } else {
            self.counts.failed(key);
        }
        let mut reply = Reply::at_once(status, "The service is down.");
        if let Some(wait) = retry_after {
            let seconds = wait.as_secs_f64().ceil() as u64;
            reply
                .headers
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        reply
    }
}
