//! How many files this process may have open: each request in flight takes one.

/// Allows itself as many as it may, and answers how many of them may be sockets.
#[cfg(unix)]
pub(super) fn room_for_sockets() -> u32 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(ENOUGH).min(ENOUGH);
    let mut open = limit.current.unwrap_or(ENOUGH);
    if open < wanted {
        // The usual soft limit of 1,024 is for programs that use `select`; the hard one is ours.
        let raised = Rlimit {
            current: Some(wanted),
            maximum: limit.maximum,
        };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            open = wanted;
        }
    }
    u32::try_from(open.saturating_sub(OTHERS))
        .unwrap_or(u32::MAX)
        .max(1)
}

/// Allows itself as many as it may, and answers how many of them may be sockets.
#[cfg(not(unix))]
pub(super) fn room_for_sockets() -> u32 {
    ENOUGH as u32
}

/// More connections than this leave no port for others: there are 28,000 of them for one address.
const ENOUGH: u64 = 16_384;

/// What is open beside sockets in use: input, output, standard streams, the runtime's own, idle
/// connections that are about to close.
#[cfg(unix)]
const OTHERS: u64 = 64;

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_sockets_and_for_the_rest() {
        let room = room_for_sockets();
        let open = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        assert!(room >= 1 && open.is_none_or(|open| u64::from(room) < open.max(2)));
        assert_eq!(room_for_sockets(), room);
    }
}
