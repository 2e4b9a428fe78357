//! Reads the input on a thread of its own and hands over what is to be done, some lines at a time.
//!
//! The channel is short: whoever is behind it decides how far ahead is read. A line of a slow pipe
//! is handed over as soon as no other lies ready.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use bytes::Bytes;
use reqwest::Url;
use tokio::sync::mpsc;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::counted::counted;
use super::error::Error;
use super::fields::Form;
use super::ids::{Id, Index, Place, State};
use super::input::{Line, Lines, Named};
use super::record::RequestId;
use super::request::{BadLine, Reader, Request};
use super::resume::{self, Arrival, Shift};
use super::rows::{self, Rows};

/// A line that is to be done.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) place: Place,
    pub(crate) named: Named,
    pub(crate) request_id: RequestId,
    /// Boxed, since it is handed on several times.
    pub(crate) request: Result<Box<Request>, BadLine>,
    /// What it takes of memory.
    pub(crate) size: usize,
    /// Whether an earlier run has sent it and has no answer.
    pub(crate) was_unanswered: bool,
}

/// What reading shows beside what is to be done.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Where the first request of the input goes, done or not. Told before any request.
    pub(crate) first: OnceLock<Url>,
    /// Requests that were done and have changed since, under the same id.
    pub(crate) changed: Mutex<Changed>,
    /// Fields that paceline does not know, and on how many lines each stands.
    pub(crate) unknown: Mutex<BTreeMap<String, u64>>,
}

impl Seen {
    /// What a person should know of it, each with a count.
    pub(crate) fn tell(&self, say: &mut dyn FnMut(String)) {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let named = |(line, id): &(u32, String)| format!("`{id}` on line {line}");
        let examples: Vec<_> = changed.examples.iter().map(named).collect();
        let examples = examples.join(", ");
        if changed.kept > 0 {
            let kept = counted(
                changed.kept,
                "[request was|requests were] changed since [it|they] succeeded, under the same \
                 custom_id",
            );
            say(format!(
                "{kept} (such as {examples}): the old answers are kept; new ids, or another -o, \
                 send them"
            ));
        }
        if changed.again > 0 {
            say(counted(
                changed.again,
                "[request that had failed was changed since: it is|requests that had failed were \
                 changed since: they are] done again",
            ));
        }
        let unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        for (field, lines) in unknown.iter() {
            let lines = counted(*lines, "[line has|lines have] a field");
            say(format!(
                "{lines} `{field}`, which paceline does not know: passed over"
            ));
        }
    }
}

/// Lines that were changed since they were done.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// How many of them had succeeded, whose answers are kept.
    pub(crate) kept: u64,
    /// How many of them had failed, and are done again.
    pub(crate) again: u64,
    /// The first of those that are kept, by line and id.
    pub(crate) examples: Vec<(u32, String)>,
}

/// The index, which the reading thread asks and the run writes.
#[derive(Clone, Debug)]
pub(crate) struct SharedIndex(Arc<Mutex<Index>>);

impl SharedIndex {
    /// An index that two threads use.
    pub(crate) fn new(index: Index) -> Self {
        Self(Arc::new(Mutex::new(index)))
    }

    /// The index, for a moment.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Index> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is read, and what of it is to be done.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) base: Option<Url>,
    /// Whether final failures are done again.
    pub(crate) retry_failed: bool,
    /// Whether everything may be sent twice.
    pub(crate) replay_all: bool,
    /// At most so many lines.
    pub(crate) limit: Option<u64>,
    /// What each row asks for, where the input is a table.
    pub(crate) rows: Option<Rows>,
    /// Where records of earlier runs are.
    pub(crate) output: Option<PathBuf>,
    pub(crate) seen: Arc<Seen>,
}

/// What is handed over.
pub(crate) type Batch = Result<Vec<Work>, Error>;

/// Reads a file, whose lines are in the index.
///
/// # Errors
///
/// The file or the thread cannot be opened.
pub(crate) fn of_file(
    path: &Path,
    index: SharedIndex,
    plan: Plan,
) -> Result<mpsc::Receiver<Batch>, Error> {
    let fail = |source| Error::opening(path, source);
    let file = rows::open(path, plan.rows.as_ref()).map_err(fail)?;
    start(file, index, plan, false).map_err(fail)
}

/// Reads a stream, whose lines come into the index as they come.
///
/// # Errors
///
/// The thread cannot be started.
pub(crate) fn of_stream(
    stream: impl Read + Send + 'static,
    index: SharedIndex,
    plan: Plan,
) -> Result<mpsc::Receiver<Batch>, Error> {
    start(stream, index, plan, true).map_err(|source| Error::reading(0, source))
}

fn start(
    source: impl Read + Send + 'static,
    index: SharedIndex,
    plan: Plan,
    stream: bool,
) -> io::Result<mpsc::Receiver<Batch>> {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || {
            let lines = Lines::new(BufReader::with_capacity(READ, source));
            let reader = Reader::new(plan.base.clone());
            let shift = Shift::default();
            let records = plan.output.as_deref().and_then(RecordIds::open);
            let mut source = Source {
                lines,
                reader,
                index,
                plan,
                stream,
                shift,
                records,
                sender,
            };
            if let Err(error) = source.run() {
                // Nobody listens any more: then nobody wants to know.
                source.sender.blocking_send(Err(error)).ok();
            }
        })?;
    Ok(receiver)
}

struct Source<R> {
    lines: Lines<BufReader<R>>,
    reader: Reader,
    index: SharedIndex,
    plan: Plan,
    stream: bool,
    shift: Shift,
    records: Option<RecordIds>,
    sender: mpsc::Sender<Batch>,
}

impl<R: Read> Source<R> {
    fn run(&mut self) -> Result<(), Error> {
        let (mut buffer, mut chunk, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut left = self.plan.limit.unwrap_or(u64::MAX);
        // What came after the check of the file waits for the next run.
        let known = if self.stream {
            u32::MAX
        } else {
            self.index.lock().len() as u32
        };
        while left > 0 && self.lines.number() < known {
            let Some(line) = resume::next(&mut self.lines, &mut buffer)? else {
                break;
            };
            if let Some(work) = self.work(line, &buffer)? {
                bytes += work.size;
                left -= 1;
                chunk.push(work);
            }
            if buffer.capacity() > READ {
                buffer = Vec::new();
            }
            let full = chunk.len() == CHUNK_LINES || bytes >= CHUNK_BYTES;
            if full || (!chunk.is_empty() && !self.lines.is_next_at_hand()) {
                if self
                    .sender
                    .blocking_send(Ok(std::mem::take(&mut chunk)))
                    .is_err()
                {
                    return Ok(());
                }
                bytes = 0;
            }
        }
        if !chunk.is_empty() {
            self.sender.blocking_send(Ok(chunk)).ok();
        }
        Ok(())
    }

    fn work(&mut self, line: Line, buffer: &[u8]) -> Result<Option<Work>, Error> {
        let number = self.lines.number();
        let line = match line {
            Line::Blank => return Ok(None),
            Line::Text(text) => Some(Bytes::copy_from_slice(&buffer[text])),
            Line::TooLong => None,
        };
        let bytes = line.as_deref().unwrap_or(buffer);
        let form = line.as_deref().map(Form::of);
        let mut named = match &form {
            Some(Ok(form)) => Named::given(number, bytes, form.custom_id),
            // A line has the same id whether it is good or bad.
            Some(Err(_)) => Named::of(number, bytes),
            None => Named::made(number, bytes),
        };
        let (place, state, repeated) = self.place(number, &mut named, bytes)?;
        let changed = state.is_final() && self.was_changed(number, place, state, &named, bytes);
        let again = match state {
            State::Doubtful => self.plan.retry_failed || self.plan.replay_all || changed,
            state => state.is_failure() && (self.plan.retry_failed || changed),
        };
        let is_first = self.plan.seen.first.get().is_none();
        if state.is_final() && !again && !is_first {
            return Ok(None);
        }
        let request_id = request_id(&named, bytes, state);
        let request = match (&line, form, repeated) {
            (_, _, Some(fault)) | (_, Some(Err(fault)), None) => Err(fault),
            (Some(line), Some(Ok(form)), None) => self.request(line, &form),
            _ => Err(BadLine::new("it is longer than 64 MiB")),
        };
        if let (true, Ok(request)) = (is_first, &request) {
            self.plan.seen.first.get_or_init(|| request.url.clone());
        }
        if state.is_final() && !again {
            return Ok(None);
        }
        let size = PER_LINE + line.map_or(0, |line| line.len());
        Ok(Some(Work {
            place,
            named,
            request_id,
            request,
            size,
            was_unanswered: state == State::Unanswered,
        }))
    }

    fn request(&mut self, line: &Bytes, form: &Form<'_>) -> Result<Box<Request>, BadLine> {
        let seen = &self.plan.seen;
        let request = self.reader.read(line, form, |field| {
            let mut unknown = seen.unknown.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(count) = unknown.get_mut(field) {
                *count += 1;
            } else if unknown.len() < UNKNOWN {
                unknown.insert(field.to_owned(), 1);
            }
        })?;
        Ok(Box::new(request))
    }

    /// Whether a line that is done is another request now than it was.
    fn was_changed(
        &mut self,
        line: u32,
        place: Place,
        state: State,
        named: &Named,
        text: &[u8],
    ) -> bool {
        // An id that is made from the text changes with it.
        if named.is_made() {
            return false;
        }
        let offset = self.index.lock().offset(place);
        let Some(id) = self
            .records
            .as_mut()
            .and_then(|records| records.id_at(offset))
        else {
            return false;
        };
        let may_be = [State::Open, State::Failed].map(|state| request_id(named, text, state));
        if may_be.contains(&id) {
            return false;
        }
        let mut changed = self
            .plan
            .seen
            .changed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if state.is_failure() {
            changed.again += 1;
        } else {
            changed.kept += 1;
            if changed.examples.len() < EXAMPLES {
                changed.examples.push((line, named.text.clone()));
            }
        }
        true
    }

    /// The entry of a line, what is known of it, and what is wrong if its id stands on two lines.
    fn place(
        &mut self,
        number: u32,
        named: &mut Named,
        text: &[u8],
    ) -> Result<(Place, State, Option<BadLine>), Error> {
        let mut index = self.index.lock();
        if !self.stream {
            let place = Place::of_line(number);
            if !index.holds(place, named.id) {
                return Err(Error::InputChanged { line: number });
            }
            return Ok((place, index.state(place), None));
        }
        let mut repeated = None;
        let place = match resume::arrive(&mut index, &mut self.shift, number, named) {
            Arrival::Here(place) => place,
            Arrival::Duplicate(first) => {
                repeated = Some(BadLine::from(format!(
                    "custom_id `{}` stands on line {first} too",
                    named.text
                )));
                // Its own record must not take the place of the first line's.
                *named = Named::made(number, text);
                let place = index.find_or_add(named.id);
                index.set_line(place, number);
                place
            }
        };
        Ok((place, index.state(place), repeated))
    }
}

/// Reads the ids of records, which tell what request each was of.
struct RecordIds(std::fs::File);

impl RecordIds {
    /// Those of an output, if there is one that can be read again.
    fn open(path: &Path) -> Option<Self> {
        let file = std::fs::File::open(path).ok()?;
        file.metadata()
            .is_ok_and(|file| file.is_file())
            .then_some(Self(file))
    }

    /// The id of the record that begins there; none if a record is not ours.
    fn id_at(&mut self, offset: u64) -> Option<RequestId> {
        let mut start = [0; RequestId::END];
        self.0.seek(SeekFrom::Start(offset)).ok()?;
        self.0.read_exact(&mut start).ok()?;
        RequestId::at_start_of(&start)
    }
}

/// The same for the same line in every run, so that a server that knows it does it once; another
/// one where a final failure is done again on purpose.
fn request_id(named: &Named, text: &[u8], state: State) -> RequestId {
    let Id(id) = named.id;
    let again = u64::from(state == State::Failed);
    RequestId(xxh3_128_with_seed(text, id as u64 ^ again) ^ id)
}

/// How many lines a notice names.
const EXAMPLES: usize = 3;

/// How many unknown fields are told apart.
const UNKNOWN: usize = 20;

/// So many lines are handed over at once: waking the receiver costs as much as reading them.
const CHUNK_LINES: usize = 64;
const CHUNK_BYTES: usize = 256 << 10;
const CHUNKS: usize = 4;

/// One read of the file system.
const READ: usize = 256 << 10;

/// What a line costs beside its text: its task and the walk through the limiter take 7.5 KiB, the
/// request with its headers the rest.
const PER_LINE: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let base = Some(Url::parse("http://localhost/v1").expect("a URL"));
        Plan {
            base,
            retry_failed: false,
            replay_all: false,
            limit: None,
            rows: None,
            output: None,
            seen: Arc::default(),
        }
    }

    fn all(mut receiver: mpsc::Receiver<Batch>) -> Result<Vec<Work>, Error> {
        let mut work = Vec::new();
        while let Some(chunk) = receiver.blocking_recv() {
            work.extend(chunk?);
        }
        Ok(work)
    }

    fn file(content: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("in.jsonl");
        std::fs::write(&path, content).expect("written");
        (dir, path)
    }

    fn ids(work: &[Work]) -> Vec<&str> {
        work.iter().map(|work| work.named.text.as_str()).collect()
    }

    const THREE: &str = "{\"custom_id\":\"a\",\"url\":\"/x\"}\n\n{\"custom_id\":\"b\",\"url\":\"/x\"}\n{\"custom_id\":\"c\"}\n";

    #[test]
    fn what_is_done_is_not_handed_over_again() {
        let (_dir, path) = file(THREE);
        let index = SharedIndex::new(resume::index(&path, None).expect("fine"));
        index.lock().set(Place::of_line(1), State::Succeeded, 0);
        index.lock().set(Place::of_line(3), State::Failed, 0);
        let work = all(of_file(&path, index.clone(), plan()).expect("open")).expect("fine");
        assert_eq!(ids(&work), ["c"]);
        assert!(work[0].request.is_err(), "it has no url");
        let again = Plan {
            retry_failed: true,
            ..plan()
        };
        let work = all(of_file(&path, index, again).expect("open")).expect("fine");
        assert_eq!(ids(&work), ["b", "c"]);
    }

    #[test]
    fn a_request_has_the_same_id_in_every_run_until_a_failure_is_done_again() {
        let id = |state| {
            let (_dir, path) = file(THREE);
            let index = SharedIndex::new(resume::index(&path, None).expect("fine"));
            index.lock().set(Place::of_line(1), state, 0);
            let plan = Plan {
                retry_failed: true,
                limit: Some(1),
                ..plan()
            };
            all(of_file(&path, index, plan).expect("open")).expect("fine")[0].request_id
        };
        assert_eq!(id(State::Open), id(State::Unanswered));
        assert_eq!(id(State::Open), id(State::Refused));
        assert_eq!(id(State::Open), id(State::Doubtful));
        assert_ne!(id(State::Open), id(State::Failed));
    }

    #[test]
    fn a_line_that_was_changed_since_the_check_stops_the_run() {
        let (_dir, path) = file(THREE);
        let index = SharedIndex::new(resume::index(&path, None).expect("fine"));
        std::fs::write(&path, THREE.replace("\"b\"", "\"B\"")).expect("written");
        let error = all(of_file(&path, index, plan()).expect("open")).expect_err("changed");
        assert!(error.to_string().contains("line 3"), "{error}");
    }

    #[test]
    fn lines_that_were_added_since_the_check_wait_for_the_next_run() {
        let (_dir, path) = file(THREE);
        let index = SharedIndex::new(resume::index(&path, None).expect("fine"));
        std::fs::write(&path, format!("{THREE}{{\"custom_id\":\"d\"}}\n")).expect("written");
        let work = all(of_file(&path, index, plan()).expect("open")).expect("fine");
        assert_eq!(ids(&work), ["a", "b", "c"]);
    }

    #[test]
    fn the_second_line_of_an_id_of_a_stream_is_bad_and_leaves_the_first_alone() {
        let text = format!("{THREE}{{\"custom_id\":\"a\",\"url\":\"/x\"}}\n");
        let index = SharedIndex::new(Index::of_stream());
        let work = all(of_stream(io::Cursor::new(text), index, plan()).expect("read"));
        let work = work.expect("fine");
        assert_eq!(work.len(), 4);
        let fault = work[3]
            .request
            .as_ref()
            .expect_err("a duplicate")
            .to_string();
        assert_eq!(fault, "custom_id `a` stands on line 1 too");
        assert!(work[3].named.text.starts_with("line-5-"));
    }

    #[test]
    fn a_line_of_a_slow_pipe_is_handed_over_at_once() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let index = SharedIndex::new(Index::of_stream());
        let mut receiver = of_stream(reader, index, plan()).expect("read");
        let mut push = |text: &str| io::Write::write_all(&mut writer, text.as_bytes());
        push("{\"custom_id\":\"a\"}\n{\"custom_id\":\"b\"}\n{\"cust").expect("open");
        let mut seen = 0;
        while seen < 2 {
            seen += receiver.blocking_recv().expect("more").expect("fine").len();
        }
        push("om_id\":\"c\"}\n").expect("open");
        assert_eq!(
            ids(&receiver.blocking_recv().expect("more").expect("fine")),
            ["c"]
        );
    }
}
