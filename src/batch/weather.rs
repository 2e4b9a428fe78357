//! Whether a line may go to its provider, which may be away: then lines wait, and one of them looks.

use super::outage::{Outage, Pass};
use super::send::Sender;

/// Whether a line may go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Weather {
    Fair,
    /// It is to see whether its provider is back.
    Doubtful,
    Stopping,
    /// Its provider was waited for in vain.
    Never,
}

impl Sender {
    /// Waits until a line may go: at once, unless its provider is away.
    pub(super) async fn wait_for_fair_weather(&self, outage: &Outage, probed: &mut u32) -> Weather {
        let mut held = None;
        loop {
            let over = outage.over.notified();
            let now = self.clock.now();
            let pass = outage.pass(*probed, now);
            match pass {
                _ if self.door.is_shut() => return Weather::Stopping,
                Pass::Open => {
                    *probed = 0;
                    return Weather::Fair;
                }
                Pass::Probe => {
                    *probed += 1;
                    return Weather::Doubtful;
                }
                Pass::Never => return Weather::Never,
                Pass::Wait(until) => {
                    held.get_or_insert_with(|| outage.hold(*probed));
                    tokio::select! {
                        () = over => {}
                        () = self.stopping.cancelled() => {}
                        () = tokio::time::sleep(until.since(now)) => {}
                    }
                }
            }
        }
    }
}
