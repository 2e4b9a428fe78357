//! Which requests are being sent, in a small file beside the output: after a kill it tells which
//! of them the server may see twice.
//!
//! The file has a slot for each request in flight, 16 bytes each. A slot is written before its
//! request is sent and used again once there is a record; what a final record has
//! answered is passed over when the file is read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;

use super::ids::Id;
use super::output::Journal;
use super::rewrite::beside;

/// The slots of one run.
#[derive(Debug)]
pub(crate) struct InFlight {
    path: PathBuf,
    slots: Mutex<Slots>,
}

#[derive(Debug)]
struct Slots {
    file: File,
    free: Vec<u32>,
    used: u32,
    /// Slots of requests that an earlier run left without a record.
    left: HashMap<Id, u32>,
}

/// The slot of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    number: u32,
    /// Whether an earlier run may have sent the same request.
    pub(crate) again: bool,
}

impl InFlight {
    /// Reads what an earlier run left, of which `is_open` tells what has no record, and begins
    /// anew. None for an output that cannot be read back.
    ///
    /// # Errors
    ///
    /// Of the file.
    pub(crate) fn open(
        journal: &Journal,
        is_open: impl Fn(Id) -> bool,
    ) -> io::Result<Option<Self>> {
        if journal.file().is_none() {
            return Ok(None);
        }
        let path = beside(journal.path(), "inflight");
        let old = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            old => old?,
        };
        let mut left = HashMap::new();
        for slot in old.as_chunks::<SLOT>().0 {
            let id = Id::from_bytes(*slot);
            if *slot != [0; SLOT] && is_open(id) {
                let number = left.len() as u32;
                left.entry(id).or_insert(number);
            }
        }
        // The ids that are left lie in the file twice at worst while it is written: never zero
        // times.
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        let mut bytes = vec![0; left.len() * SLOT];
        for (id, number) in &left {
            bytes[*number as usize * SLOT..][..SLOT].copy_from_slice(&id.to_bytes());
        }
        file.write_all(&bytes)?;
        file.set_len(bytes.len() as u64)?;
        let used = left.len() as u32;
        let slots = Slots {
            file,
            free: Vec::new(),
            used,
            left,
        };
        Ok(Some(Self {
            path,
            slots: Mutex::new(slots),
        }))
    }

    /// Says that the request with this id is about to be sent.
    ///
    /// # Errors
    ///
    /// Of the file; nothing may be sent then.
    pub(crate) fn enter(&self, id: Id) -> io::Result<Slot> {
        let mut slots = self.slots();
        if let Some(number) = slots.left.remove(&id) {
            return Ok(Slot {
                number,
                again: true,
            });
        }
        let number = slots.free.pop().unwrap_or(slots.used);
        slots.write(number, id.to_bytes())?;
        slots.used = slots.used.max(number + 1);
        Ok(Slot {
            number,
            again: false,
        })
    }

    /// Whether a request was left without a record by an earlier run, and not sent by this one.
    pub(crate) fn was_left(&self, id: Id) -> bool {
        self.slots().left.contains_key(&id)
    }

    /// Says that there is a record of it. One that is not final does not end what the slot says
    /// when it is read again, so the slot is emptied.
    ///
    /// # Errors
    ///
    /// Of the file.
    pub(crate) fn leave(&self, slot: Slot, last: bool) -> io::Result<()> {
        let mut slots = self.slots();
        if !last {
            slots.write(slot.number, [0; SLOT])?;
        }
        slots.free.push(slot.number);
        Ok(())
    }

    /// Removes the file: every request has its record.
    pub(crate) fn remove(&self) {
        std::fs::remove_file(&self.path).ok();
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Slots> {
        self.slots.lock().expect("nothing in here panics")
    }
}

impl Slots {
    #[cfg(unix)]
    fn write(&self, number: u32, bytes: [u8; SLOT]) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        self.file
            .write_all_at(&bytes, u64::from(number) * SLOT as u64)
    }

    #[cfg(not(unix))]
    fn write(&self, number: u32, bytes: [u8; SLOT]) -> io::Result<()> {
        use std::io::{Seek, SeekFrom};
        let mut file = &self.file;
        file.seek(SeekFrom::Start(u64::from(number) * SLOT as u64))?;
        file.write_all(&bytes)
    }
}

const SLOT: usize = 16;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn open(dir: &Path, recorded: &[&str]) -> InFlight {
        let mut journal = Journal::open(&dir.join("out")).expect("an output");
        journal.keep();
        let open = |id| !recorded.iter().any(|text| Id::of(text) == id);
        InFlight::open(&journal, open)
            .expect("readable")
            .expect("a file")
    }

    #[test]
    fn what_was_in_flight_at_a_kill_is_known_until_it_has_a_record() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = open(dir.path(), &[]);
        let a = first.enter(Id::of("a")).expect("room");
        first.enter(Id::of("b")).expect("room");
        first.leave(a, true).expect("room");
        first.enter(Id::of("c")).expect("room");
        drop(first);

        let second = open(dir.path(), &["a"]);
        assert!(!second.enter(Id::of("d")).expect("room").again);
        assert!(second.enter(Id::of("b")).expect("room").again);
        drop(second);

        let third = open(dir.path(), &["a", "b"]);
        assert!(
            third.enter(Id::of("c")).expect("room").again,
            "it outlives a second kill"
        );
        assert!(third.enter(Id::of("d")).expect("room").again);
        assert!(!third.enter(Id::of("a")).expect("room").again);
        third.remove();
        assert!(
            !open(dir.path(), &[])
                .enter(Id::of("c"))
                .expect("room")
                .again
        );
    }

    #[test]
    fn the_file_is_as_large_as_what_was_in_flight_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let inflight = open(dir.path(), &[]);
        for n in 0..1_000 {
            let slot = inflight.enter(Id::of(&n.to_string())).expect("room");
            inflight.leave(slot, true).expect("room");
        }
        let length = std::fs::metadata(&inflight.path).expect("there").len();
        assert_eq!(length, SLOT as u64);
    }
}
