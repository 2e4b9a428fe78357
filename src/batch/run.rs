//! A run from its first line to its summary.
//!
//! One thread does everything but reading the input: how fast it goes is decided elsewhere, and a
//! second thread would only cost wake-ups. Lines are handed to the limiter ahead of their turn;
//! what is behind them waits in the file.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{self, MissedTickBehavior};

use crate::client::Clock;

use super::board::Board;
use super::done::Done;
use super::door::Door;
use super::error::Error;
use super::holdup::HoldUp;
use super::hosts::Hosts;
use super::ids::Index;
use super::inflight::InFlight;
use super::options::{Input, Options, Replays};
use super::output::Journal;
use super::pipe::Pipe;
use super::progress::Progress;
use super::resume::{self, Earlier};
use super::rows;
use super::send::Sender;
use super::signals::{Signal, Signals};
use super::source::{self, Batch, Plan, Seen, SharedIndex, Work};
use super::state::Keeper;
use super::streak::Streak;
use super::summary::Outcome;
use super::tally::Tally;

/// Does what is left of a batch. Needs a tokio runtime with time and I/O, of one thread.
///
/// # Errors
///
/// What is wrong with input, output or settings; nothing was sent then.
pub async fn run(options: Options) -> Result<Outcome, Error> {
    let clock = Clock::new();
    Hosts::check(&options)?;
    let stream = options.input.is_stream();
    let (mut run, mut work, earlier) = Run::new(&options, stream, clock)?;
    // Until here a signal ends the process: nothing was sent, and files are whole at any moment.
    let mut signals = Signals::new().map_err(Error::Runtime)?;
    run.open_state()?;
    run.until_done(&mut work, &mut signals).await;
    run.keep_state();
    if let Some(sender) = &run.sender {
        sender.hosts.leave().await;
    }
    // Of a stream it is not known what was not read, nor which records belong to it.
    let whole = match run.stop {
        None => !stream || options.limit.is_none(),
        Some(Stop::Spent | Stop::Hopeless(_)) => !stream,
        Some(Stop::Signal(_) | Stop::Failed(_)) => false,
    };
    if whole {
        run.put_in_order(&mut signals, earlier).await;
    }
    run.finish(&earlier, whole || !stream)
}

/// Checks input and output, and finds what is left to do.
fn open(options: &Options, stream: bool) -> Result<(Journal, Index, Earlier), Error> {
    let mut index = match &options.input {
        Input::File(path) if !stream => resume::index(path, options.rows.as_ref())?,
        _ => Index::of_stream(),
    };
    let mut journal = match &options.output {
        Some(path) => Journal::open(path)?,
        None => Journal::stdout(),
    };
    refuse_same_file(&journal, &options.input)?;
    let needs_file = [
        (options.ordered, "--ordered"),
        (options.retry_failed, "--retry-failed"),
    ];
    if let (None, Some((_, option))) = (journal.file(), needs_file.iter().find(|(on, _)| *on)) {
        return Err(Error::NeedsFile { option });
    }
    let earlier = resume::read_back(&mut index, &mut journal, stream)?;
    Ok((journal, index, earlier))
}

/// Input and output must differ.
pub(crate) fn refuse_same_file(journal: &Journal, input: &Input) -> Result<(), Error> {
    match input {
        Input::File(path) if journal.is_file(path) => Err(Error::SameFile { path: path.clone() }),
        _ => Ok(()),
    }
}

/// Begins to read the input.
pub(crate) fn read(
    options: &Options,
    stream: bool,
    index: &SharedIndex,
    seen: &Arc<Seen>,
) -> Result<mpsc::Receiver<Batch>, Error> {
    let plan = Plan {
        base: options.base_url.clone(),
        retry_failed: options.retry_failed,
        replay_all: options.replay == Replays::Always,
        limit: options.limit,
        rows: options.rows.clone(),
        output: options.output.clone(),
        seen: Arc::clone(seen),
    };
    match &options.input {
        Input::File(path) if !stream => source::of_file(path, index.clone(), plan),
        Input::File(path) => {
            let open = |source| Error::opening(path, source);
            let stream = rows::open(path, options.rows.as_ref()).map_err(open)?;
            source::of_stream(stream, index.clone(), plan)
        }
        Input::Stdin => match &options.rows {
            None => source::of_stream(io::stdin(), index.clone(), plan),
            Some(rows) => {
                let lines = rows.lines_of(io::stdin(), b',');
                let fail = |source| Error::reading(0, source);
                source::of_stream(lines.map_err(fail)?, index.clone(), plan)
            }
        },
    }
}

pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) journal: Journal,
    pub(super) index: SharedIndex,
    pub(super) clock: Clock,
    pub(super) door: Arc<Door>,
    /// What reading has shown beside requests.
    pub(super) seen: Arc<Seen>,
    /// Whether all is turned away.
    pub(super) streak: Streak,
    /// Made when the first request shows which host the keys are for.
    pub(super) sender: Option<Arc<Sender>>,
    /// What the limiters have decided.
    pub(super) board: Board,
    /// What holds all of them up.
    pub(super) holdup: HoldUp,
    /// Whether it was told that a request is larger than a ceiling.
    pub(super) told_of_size: bool,
    /// Whether it was told that the lines of one provider hold up those of others.
    pub(super) told_of_crowd: bool,
    /// Where what they learned is kept.
    pub(super) keeper: Option<Keeper>,
    pub(super) tasks: JoinSet<Done>,
    /// Lines that were read and wait for room.
    backlog: VecDeque<Work>,
    /// What all lines in `tasks` take of memory.
    pub(super) bytes: usize,
    pub(super) tally: Tally,
    pub(super) progress: Progress,
    pub(super) stop: Option<Stop>,
    grace_ends: Option<time::Instant>,
    input_ended: bool,
    /// Whether nothing is waited for any longer.
    aborted: bool,
}

/// Why a run ends before its input.
#[derive(Debug)]
pub(super) enum Stop {
    Signal(Signal),
    /// Every further request would fail the same way.
    Hopeless(String),
    /// The answers have used all tokens that they may.
    Spent,
    Failed(Error),
}

impl<'a> Run<'a> {
    /// Opens what it reads and writes, and begins to read.
    fn new(
        options: &'a Options,
        stream: bool,
        clock: Clock,
    ) -> Result<(Self, mpsc::Receiver<Batch>, Earlier), Error> {
        let (journal, index, earlier) = open(options, stream)?;
        let inflight = InFlight::open(&journal, |id| match index.find(id) {
            Some(place) => !index.state(place).is_final(),
            None => stream,
        });
        let inflight = inflight.map_err(|source| journal.unwritable(source))?;
        let counts = index.counts();
        let again = match (options.retry_failed, options.replay) {
            (true, _) => counts.failed,
            (false, Replays::Always) => counts.doubtful,
            (false, _) => 0,
        };
        let (index, seen) = (SharedIndex::new(index), Arc::new(Seen::default()));
        let work = read(options, stream, &index, &seen)?;
        let run = Self {
            options,
            journal,
            index,
            clock,
            door: Arc::new(Door::new(inflight)),
            seen,
            streak: Streak::new(counts.last > counts.failed),
            sender: None,
            board: Board::default(),
            holdup: HoldUp::default(),
            told_of_size: false,
            told_of_crowd: false,
            keeper: None,
            tasks: JoinSet::new(),
            backlog: VecDeque::new(),
            bytes: 0,
            tally: Tally {
                before: counts.last - again,
                ..Tally::default()
            },
            progress: Progress::new(options.progress, (!stream).then_some(counts.lines)),
            stop: None,
            grace_ends: None,
            input_ended: false,
            aborted: false,
        };
        Ok((run, work, earlier))
    }

    async fn until_done(&mut self, work: &mut mpsc::Receiver<Batch>, signals: &mut Signals) {
        let interval = self.progress.interval();
        let mut tick = time::interval(interval.unwrap_or(Duration::from_secs(3600)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut look = time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let door = Arc::clone(&self.door);
        loop {
            self.look_at_pipe();
            self.admit();
            let more_to_read = self.backlog.is_empty() && !self.input_ended && self.stop.is_none();
            let is_written = self.unwritten() == 0 || self.aborted;
            if self.tasks.is_empty() && !more_to_read && is_written {
                break;
            }
            let room = self.has_room();
            let grace_ends = self.grace_ends;
            tokio::select! {
                biased;
                signal = signals.next() => self.on_signal(signal),
                () = at(grace_ends), if grace_ends.is_some() => self.abort(),
                _ = tick.tick(), if interval.is_some() => self.show(),
                _ = look.tick() => self.look(),
                batch = work.recv(), if more_to_read && room => self.on_read(batch),
                Some(done) = self.tasks.join_next() => {
                    self.on_done(done);
                    while let Some(done) = self.tasks.try_join_next() {
                        self.on_done(done);
                    }
                }
                () = door.hungry.notified() => {}
                () = moved(self.journal.pipe()) => {}
            }
        }
        if self.unwritten() > 0 && !matches!(self.stop, Some(Stop::Failed(_))) {
            // What came back last has had no time to be written.
            let written = async {
                while self.unwritten() > 0 {
                    moved(self.journal.pipe()).await;
                }
            };
            time::timeout(LAST, written).await.ok();
        }
        self.hear();
        if self.progress.stays() {
            self.show();
        }
        self.progress.end();
    }

    /// Whether more lines may be begun.
    fn has_room(&self) -> bool {
        self.door.has_room() && !self.journal.pipe().is_some_and(Pipe::is_clogged)
    }

    /// Records that wait for a reader of the output.
    pub(super) fn unwritten(&self) -> u64 {
        self.journal.pipe().map_or(0, Pipe::unwritten)
    }

    fn look_at_pipe(&mut self) {
        if let Some(source) = self.journal.pipe().and_then(Pipe::fault) {
            self.fail(self.journal.unwritable(source));
        }
    }

    /// Hands lines to the limiter while there is room.
    fn admit(&mut self) {
        while self.stop.is_none() && self.has_room() {
            let Some(work) = self.backlog.pop_front() else {
                break;
            };
            match &work.request {
                Err(fault) => {
                    let fault = fault.clone();
                    self.on_bad_line(&work, &fault);
                    continue;
                }
                Ok(_) if self.may_not_be_repeated(&work) => {
                    self.on_unanswered(&work);
                    continue;
                }
                Ok(_) => {}
            }
            let sender = match &self.sender {
                Some(sender) => Arc::clone(sender),
                None => {
                    let first = self
                        .seen
                        .first
                        .get()
                        .expect("it is told before any request");
                    let state = self.keeper.as_ref().map(|keeper| Arc::clone(keeper.file()));
                    match Sender::new(self.options, first, &self.door, self.clock, state) {
                        Ok(sender) => Arc::clone(self.sender.insert(Arc::new(sender))),
                        Err(error) => return self.fail(error),
                    }
                }
            };
            self.bytes += work.size;
            self.tasks.spawn(sender.send(work));
            self.door.set_active(self.tasks.len(), self.bytes);
        }
    }

    /// Whether an earlier run may have sent a line that must not be sent twice.
    fn may_not_be_repeated(&self, work: &Work) -> bool {
        self.options.replay == Replays::Never
            && (work.was_unanswered || self.door.was_left(work.named.id))
    }

    fn on_read(&mut self, batch: Option<Batch>) {
        match batch {
            None => self.input_ended = true,
            Some(Ok(lines)) => self.backlog.extend(lines),
            Some(Err(error)) => self.fail(error),
        }
    }

    fn on_signal(&mut self, signal: Signal) {
        if self.stop.is_some() && self.grace_ends.is_some() {
            return self.abort();
        }
        let flying = self.door.flying();
        if flying > 0 {
            let grace = humantime::format_duration(self.options.grace);
            self.progress.note(&format!(
                "stopping: {flying} in flight have {grace} to end; a second signal stops at once"
            ));
        }
        self.grace_ends = Some(self.clock.instant(self.clock.now() + self.options.grace));
        self.stop(Stop::Signal(signal));
        // A second one may come before the end.
        self.keep_state();
    }

    /// Sends nothing more. What is in flight goes on.
    pub(super) fn stop(&mut self, why: Stop) {
        self.stop.get_or_insert(why);
        self.door.shut();
        self.backlog.clear();
        self.close();
    }

    /// Refuses all that wait.
    fn close(&self) {
        if let Some(sender) = &self.sender {
            sender.hosts.close();
            sender.stopping.cancel();
        }
    }

    /// Takes back what is in flight, too.
    fn abort(&mut self) {
        self.grace_ends = None;
        self.aborted = true;
        if let Some(sender) = &self.sender {
            sender.abort.cancel();
        }
    }

    /// Stops at once: what comes back could not be kept.
    pub(super) fn fail(&mut self, error: Error) {
        if !matches!(self.stop, Some(Stop::Failed(_))) {
            self.stop = Some(Stop::Failed(error));
        }
        self.door.shut();
        self.backlog.clear();
        self.close();
        self.abort();
    }
}

async fn moved(pipe: Option<&Pipe>) {
    match pipe {
        Some(pipe) => pipe.moved().await,
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<time::Instant>) {
    match moment {
        Some(moment) => time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// How long the last records may take to be written when nothing else is waited for.
const LAST: Duration = Duration::from_millis(100);

/// How often it is looked at what holds requests up: often enough for a run of seconds.
const LOOK: Duration = Duration::from_millis(100);
