//! The scripts, and one call of one: its keys and arguments in the order that the script reads.

use std::sync::LazyLock;

use redis::{Cmd, cmd};

use super::super::store::{Epoch, Law, Limit, OpId, Owner, Scope, Slot, micros, remembered};

/// One script, by the hash under which a server may know it.
#[derive(Debug)]
pub(super) struct Script {
    source: &'static str,
    hash: String,
}

macro_rules! script {
    ($name:ident, $($part:literal),+) => {
        pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(concat!($(include_str!($part)),+)));
    };
}

script!(TAKE, "clock.lua", "story.lua", "limits.lua", "take.lua");
script!(REFUND, "clock.lua", "story.lua", "limits.lua", "refund.lua");
script!(BEAT, "clock.lua", "story.lua", "limits.lua", "beat.lua");
script!(
    RELEASE,
    "clock.lua",
    "story.lua",
    "limits.lua",
    "release.lua"
);
script!(LEND, "clock.lua", "story.lua", "lend.lua");
script!(PUBLISH, "clock.lua", "story.lua", "publish.lua");
script!(FACTS, "clock.lua", "facts.lua");

impl Script {
    fn new(source: &'static str) -> Self {
        let hash = redis::Script::new(source).get_hash().to_owned();
        Self { source, hash }
    }
}

/// One call of a script.
#[derive(Debug)]
pub(super) struct Call {
    script: &'static Script,
    scope: String,
    keys: Vec<String>,
    arguments: Vec<String>,
}

impl Call {
    /// A call of a script that reads only.
    pub(super) fn reading(script: &'static Script, scope: &Scope, told: u64) -> Self {
        // The braces are the hash tag: all keys of a scope lie on one node.
        let scope = format!("paceline:{{{}}}", scope.as_str());
        Self {
            script,
            keys: vec![format!("{scope}:story")],
            scope,
            arguments: vec![told.to_string()],
        }
    }

    /// A call with what the caller knows of the scope's story. `longest` is the longest window
    /// that it touches.
    pub(super) fn new(
        script: &'static Script,
        scope: &Scope,
        epoch: Option<&Epoch>,
        longest: u64,
        told: u64,
    ) -> Self {
        let mut call = Self::reading(script, scope, told);
        call.arguments
            .push(format!("{:016x}", rand::random::<u64>()));
        let (id, sequence) = epoch.map_or(("", 0), |known| (known.id.as_str(), known.sequence));
        call.word(id).number(sequence);
        call.number((2 * longest / 1_000).max(STORY_MILLIS));
        call
    }

    pub(super) fn word(&mut self, word: impl ToString) -> &mut Self {
        self.arguments.push(word.to_string());
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.word(number)
    }

    pub(super) fn flag(&mut self, flag: bool) -> &mut Self {
        self.word(u8::from(flag))
    }

    pub(super) fn key(&mut self, key: std::fmt::Arguments<'_>) -> &mut Self {
        self.keys.push(format!("{}:{key}", self.scope));
        self
    }

    /// The facts, and their order.
    pub(super) fn facts(&mut self) -> &mut Self {
        self.key(format_args!("facts"))
            .key(format_args!("facts:order"))
    }

    pub(super) fn channel(&mut self) -> &mut Self {
        self.word(self.channel_name())
    }

    /// The channel on which the scope's news are told.
    pub(super) fn channel_name(&self) -> String {
        format!("{}:news", self.scope)
    }

    pub(super) fn slots(&mut self, slots: &[(u32, Slot)]) -> &mut Self {
        self.number(slots.len() as u64);
        for (place, slot) in slots {
            self.number((*place).into()).word(slot);
        }
        self
    }

    pub(super) fn limits(&mut self, limits: &[Limit]) -> &mut Self {
        self.number(limits.len() as u64);
        for limit in limits {
            let window = micros(limit.window);
            let (law, burst) = match limit.law {
                Law::FixedWindow => (1, 0),
                Law::SlidingCounter => (2, 0),
                Law::SlidingLog => (3, 0),
                Law::Bucket { burst } => (4, burst),
                Law::Slots => (5, 0),
            };
            self.number(law)
                .number(limit.amount)
                .number(window)
                .number(burst)
                .number(micros(limit.memory()));
            // Limits of one name that count differently do not mix.
            self.key(format_args!("n:{law}:{window}:{}", limit.name));
            if limit.law == Law::SlidingLog {
                self.key(format_args!("n:{law}:{window}:{}:log", limit.name));
            }
        }
        self
    }

    /// The record of a payment, which lives as long as the windows that it was made from.
    pub(super) fn record(&mut self, op: OpId, limits: &[Limit]) -> &mut Self {
        self.key(format_args!("op:{op}"));
        self.word(op).number(remembered(limits).div_ceil(1_000))
    }

    pub(super) fn owner(&mut self, owner: Owner) -> &mut Self {
        self.word(owner)
    }

    /// The command for a server that knows the script.
    pub(super) fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", &self.script.hash)
    }

    /// The command for a server that does not; then it does.
    pub(super) fn by_source(&self) -> Cmd {
        self.command("EVAL", self.script.source)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = cmd(name);
        command.arg(script).arg(self.keys.len());
        command.arg(&self.keys).arg(&self.arguments);
        command
    }
}

/// A story outlives every pause after which somebody still knows it (see `exact`): one hour.
const STORY_MILLIS: u64 = 3_600_000;
