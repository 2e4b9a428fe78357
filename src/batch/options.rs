//! What a run is told to do.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use reqwest::Url;

use crate::Settings;
use crate::client::ApiKey;
use crate::feedback::Profile;
use crate::scheduler::events::Fingerprint;
use crate::shared::Sharing;
use crate::shared::store::Scope;

use super::rows::Rows;

/// What a run is told to do. Everything but the input has a default.
#[derive(Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where lines come from.
    pub input: Input,
    /// What each row asks for, where the input is a table. Default: its lines are requests.
    pub rows: Option<Rows>,
    /// Where records go. Default: stdout, of which nothing can be resumed.
    pub output: Option<PathBuf>,
    /// What relative URLs are resolved against.
    pub base_url: Option<Url>,
    /// The keys of the host of `base_url`, else of the first line.
    pub keys: Vec<ApiKey>,
    /// Providers that have keys and settings of their own. Default: none.
    pub providers: Vec<Provider>,
    /// What a key is called where it is shown: the variable or the line that it came from.
    pub key_names: BTreeMap<Fingerprint, String>,
    /// What is known about that host. Default: what its name says.
    pub profile: Option<Profile>,
    /// How its limiter decides.
    pub settings: Settings,
    /// How it shares its limits with other runs. Its scope is the host, with its port:
    /// `api.example.com:443`. Default: it does not.
    pub shared: Option<Sharing>,
    /// What that scope begins with, `name:api.example.com:443`: runs of another name do not share.
    /// Default: nothing.
    pub shared_scope: Option<Scope>,
    /// Which requests may be sent again after the server may have processed them.
    pub replay: Replays,
    /// The header that lets the server know a request that it has seen. Default: by profile.
    pub idempotency_header: Option<HeaderName>,
    /// A request is sent at most so often, connections that fail not counted. Default: by the
    /// settings, and without a bound while a provider is away.
    pub max_attempts: Option<u16>,
    /// How long one attempt may take, its answer included. Default: as long as the server does not
    /// fall silent for ten minutes.
    pub timeout: Option<Duration>,
    /// How long a provider is waited for that cannot be reached or answers nothing but errors.
    /// Default: an hour, or 30 s where it has never served a request.
    pub max_outage: Option<Duration>,
    /// Where what was learned is kept for the next run. Default: nowhere.
    pub state: Option<PathBuf>,
    /// Whether the output is sorted as the input at the end.
    pub ordered: bool,
    /// Whether what failed for good is done again.
    pub retry_failed: bool,
    /// At most so many of the lines that are left to do. Default: all.
    pub limit: Option<u64>,
    /// No request is sent once answers of this run say that they used so many tokens in all; what
    /// is in flight then may go beyond. Default: no such budget.
    pub max_tokens: Option<u64>,
    /// Whether the run goes on though every request so far was turned away in the same way (no key,
    /// a wrong path or method, a web page), or no key has credit left. Default: it stops.
    pub keep_going: bool,
    /// How long what is in flight may take after a first signal. Default 1 s.
    pub grace: Duration,
    /// What is shown meanwhile.
    pub progress: Show,
}

/// A provider with keys and settings of its own.
#[derive(Clone, Debug)]
pub struct Provider {
    /// As it is shown.
    pub name: String,
    /// Where its keys go; scheme, host and port count. At least one.
    pub origins: Vec<Url>,
    /// Its keys.
    pub keys: Vec<ApiKey>,
    /// What is known about it. Default: what its first host's name says.
    pub profile: Option<Profile>,
    /// How its limiter decides.
    pub settings: Settings,
}

/// Where lines come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// A file; gzip if its name ends in `.gz`. One that is no regular file is read as stdin is.
    File(PathBuf),
    /// Standard input: read once, from its beginning.
    Stdin,
}

impl Input {
    /// Whether it can be read only once.
    pub(crate) fn is_stream(&self) -> bool {
        match self {
            Self::Stdin => true,
            // What is not there is an error of the one who opens it.
            Self::File(path) => std::fs::metadata(path).is_ok_and(|file| !file.is_file()),
        }
    }
}

/// Which requests may be sent again after the server may have processed them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replays {
    /// Those whose method or header allows it, and generation calls of language models.
    #[default]
    Auto,
    /// All.
    Always,
    /// None: each is sent once.
    Never,
}

/// What is shown while a run goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Show {
    /// A bar on a terminal, nothing in a pipe.
    #[default]
    Auto,
    /// A bar on a terminal, a line every ten seconds in a pipe.
    Always,
    /// Nothing.
    Never,
    /// An object a second.
    Json,
}

impl Options {
    /// A run over this input with every default.
    #[must_use]
    pub fn new(input: Input) -> Self {
        // A batch has time: it waits as long as the server says.
        let settings = Settings {
            max_wait: None,
            ..Settings::default()
        };
        Self {
            input,
            rows: None,
            output: None,
            base_url: None,
            keys: Vec::new(),
            providers: Vec::new(),
            key_names: BTreeMap::new(),
            profile: None,
            settings,
            shared: None,
            shared_scope: None,
            state: None,
            replay: Replays::default(),
            idempotency_header: None,
            max_attempts: None,
            timeout: None,
            max_outage: None,
            ordered: false,
            retry_failed: false,
            limit: None,
            max_tokens: None,
            keep_going: false,
            grace: Duration::from_secs(1),
            progress: Show::default(),
        }
    }

    /// Every key of every provider.
    pub(crate) fn all_keys(&self) -> impl Iterator<Item = &ApiKey> {
        let provided = self.providers.iter().flat_map(|provider| &provider.keys);
        self.keys.iter().chain(provided)
    }
}
