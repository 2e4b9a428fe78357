//! What the limiters of a run have learned, kept in a file for the next run.
//!
//! It only ever helps: a file that cannot be written is told of once, and the run goes on without.
//! A file that is something else is never written over, and stops the run before it begins: its name
//! is a slip of the pen. It holds fingerprints of keys, no
//! key, and only its owner may read it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::scheduler::history::History;
use crate::scheduler::memory::Snapshot;

use super::error::Error;
use super::hosts::Hosts;
use super::rewrite::beside;
use super::run::Run;

/// What earlier runs had learned, and where it is kept.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    known: BTreeMap<String, Snapshot>,
    /// What happened in earlier runs.
    happened: BTreeMap<String, History>,
}

/// The file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: Format,
    /// By the name of the provider.
    providers: BTreeMap<String, Snapshot>,
    /// What happened hour by hour, by the same name.
    #[serde(default)]
    history: BTreeMap<String, History>,
}

/// Tells the file from others.
#[derive(Debug, Deserialize, Serialize)]
enum Format {
    #[serde(rename = "paceline state")]
    State,
}

impl StateFile {
    /// Reads what earlier runs had learned; a file that is not there yet holds nothing.
    ///
    /// # Errors
    ///
    /// Why the file cannot be used, and what to do, in a sentence. It stays as it is.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        // The file itself is replaced at the end, not the link to it.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (known, happened) = match fs::read(&path) {
            Ok(bytes) => {
                let written: Written = serde_json::from_slice(&bytes).map_err(|error| {
                    format!(
                        "{shown} is no state of this paceline ({error}), and is left as it \
                         is: name another file with --state, or remove this one"
                    )
                })?;
                (written.providers, written.history)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Default::default(),
            Err(error) => {
                return Err(format!("cannot read the state {shown}: {error}"));
            }
        };
        Ok(Self {
            path,
            known,
            happened,
        })
    }

    /// What was known of a provider.
    pub(crate) fn known(&self, provider: &str) -> Option<&Snapshot> {
        self.known.get(provider)
    }

    /// Puts what is known now in the place of what was. What is not told anew stays.
    fn write(
        &self,
        learned: impl Iterator<Item = (String, Snapshot)>,
        happened: impl Iterator<Item = (String, History)>,
    ) -> io::Result<()> {
        let mut providers = self.known.clone();
        providers.extend(learned);
        while providers.len() > MOST_PROVIDERS {
            let oldest = providers.iter().min_by_key(|(_, known)| known.taken());
            let Some(name) = oldest.map(|(name, _)| name.clone()) else {
                break;
            };
            providers.remove(&name);
        }
        let mut history = self.happened.clone();
        for (name, new) in happened {
            history.entry(name).or_default().merge(&new);
        }
        history.retain(|_, history| !history.hours().is_empty());
        while history.len() > MOST_PROVIDERS {
            let oldest = history
                .iter()
                .min_by_key(|(_, history)| history.hours().last().map(|last| last.hour));
            let Some(name) = oldest.map(|(name, _)| name.clone()) else {
                break;
            };
            history.remove(&name);
        }
        let written = Written {
            format: Format::State,
            providers,
            history,
        };
        let purpose = format!("state-{}", std::process::id());
        let temporary = beside(&self.path, &purpose);
        let replaced =
            write_private(&temporary, &written).and_then(|()| fs::rename(&temporary, &self.path));
        if replaced.is_err() {
            fs::remove_file(&temporary).ok();
        }
        replaced
    }
}

/// What happened hour by hour in the runs that kept this state, by the name of the provider.
///
/// # Errors
///
/// Why the file cannot be read, in a sentence.
pub fn history(path: &Path) -> Result<BTreeMap<String, History>, String> {
    let shown = path.display();
    let bytes = fs::read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let written: Written = serde_json::from_slice(&bytes)
        .map_err(|error| format!("{shown} is no state of this paceline: {error}"))?;
    Ok(written.history)
}

fn write_private(path: &Path, written: &Written) -> io::Result<()> {
    // Left by a run that was killed here; a new file has its own permissions.
    fs::remove_file(path).ok();
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let mut text = serde_json::to_vec(written)?;
    text.push(b'\n');
    file.write_all(&text)?;
    file.sync_all()
}

/// Writes the file now and then.
#[derive(Debug)]
pub(crate) struct Keeper {
    file: Arc<StateFile>,
    next: Time,
    /// That it cannot be written was told.
    told: bool,
}

impl Keeper {
    pub(crate) fn new(file: Arc<StateFile>, now: Time) -> Self {
        Self {
            file,
            next: now + OFTEN,
            told: false,
        }
    }

    pub(crate) fn file(&self) -> &Arc<StateFile> {
        &self.file
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        now >= self.next
    }

    /// Writes what was learned. Answers what to say if it cannot, once.
    pub(crate) fn keep(&mut self, hosts: &Hosts, now: Time) -> Option<String> {
        self.next = now + OFTEN;
        let clients = hosts.all();
        let snapshots = clients.iter().map(|client| {
            let snapshot = client.limiter.snapshot();
            (client.name.clone(), snapshot)
        });
        let histories = clients
            .iter()
            .map(|client| (client.name.clone(), client.limiter.history()));
        let learned = snapshots.filter(|(_, snapshot)| !snapshot.is_empty());
        let error = self.file.write(learned, histories).err()?;
        let shown = self.file.path.display();
        (!std::mem::replace(&mut self.told, true)).then(|| {
            format!("cannot write the state {shown}: {error}; what is learned is not kept")
        })
    }
}

impl Run<'_> {
    /// Reads the state, if there is to be one.
    pub(super) fn open_state(&mut self) -> Result<(), Error> {
        if let Some(path) = &self.options.state {
            let file = StateFile::open(path).map_err(Error::State)?;
            self.keeper = Some(Keeper::new(Arc::new(file), self.clock.now()));
        }
        Ok(())
    }

    /// Writes what was learned so far.
    pub(super) fn keep_state(&mut self) {
        let (Some(keeper), Some(sender)) = (&mut self.keeper, &self.sender) else {
            return;
        };
        if let Some(complaint) = keeper.keep(&sender.hosts, self.clock.now()) {
            self.progress.note(&complaint);
        }
    }
}

/// How often it is written: what a kill loses, of a ceiling too, is what was sent since.
const OFTEN: Duration = Duration::from_secs(5);
/// A state of more is one of a crawler; the oldest are of no use.
const MOST_PROVIDERS: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn what_is_written_is_private_whole_and_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let state = StateFile::open(&path).unwrap();
        assert!(state.known("api.example.com").is_none());
        let learned = [(
            "api.example.com".to_owned(),
            Snapshot::default().taken_at(7),
        )];
        state
            .write(learned.into_iter(), std::iter::empty())
            .unwrap();
        let again = StateFile::open(&path).unwrap();
        assert_eq!(again.known("api.example.com").map(Snapshot::taken), Some(7));
        let other = [("other".to_owned(), Snapshot::default().taken_at(9))];
        again.write(other.into_iter(), std::iter::empty()).unwrap();
        let both = StateFile::open(&path).unwrap();
        assert!(both.known("api.example.com").is_some() && both.known("other").is_some());
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, 1, "nothing is left beside it");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
    }

    #[test]
    fn a_file_that_is_something_else_is_told_of_and_stays_as_it_is() {
        for text in [
            "",
            "not json",
            "{}",
            r#"{"custom_id":"q-1","response":null}"#,
            r#"{"format":"paceline state","providers":{"a":{"version":2}}}"#,
        ] {
            let (_folder, path) = file(text);
            let complaint = StateFile::open(&path).unwrap_err();
            assert!(
                complaint.contains("name another file with --state"),
                "{complaint}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn the_oldest_providers_give_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let state = StateFile::open(&path).unwrap();
        let many = (0..MOST_PROVIDERS as u64 + 5)
            .map(|n| (format!("host-{n}"), Snapshot::default().taken_at(n)));
        state.write(many, std::iter::empty()).unwrap();
        let again = StateFile::open(&path).unwrap();
        assert_eq!(again.known.len(), MOST_PROVIDERS);
        assert!(again.known("host-4").is_none() && again.known("host-5").is_some());
    }
}
