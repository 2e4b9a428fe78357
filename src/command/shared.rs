//! The options of a run that shares its limits with other runs.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use paceline::shared::store::Scope;
use paceline::shared::{Mode, RedisStore, Sharing, WhenAway};

#[derive(clap::Args)]
pub(crate) struct Shared {
    /// Hold --rate and what is limited in flight together with all runs that name the same store,
    /// on any machine: redis://[user:password@]host[:port][/db], or redis+cluster://… A URL with a
    /// password belongs in PACELINE_SHARED or --shared-file: a command line is seen by all.
    #[arg(
        long,
        value_name = "URL",
        env = "PACELINE_SHARED",
        hide_env_values = true
    )]
    shared: Option<String>,
    /// The same, with the URL in the first line of this file.
    #[arg(long, value_name = "PATH")]
    shared_file: Option<PathBuf>,
    /// Share with runs of the same name only, and not with others that use the same store.
    #[arg(long, value_name = "NAME", value_parser = name)]
    shared_scope: Option<Scope>,
    /// How many runs share, as long as the store has not told: while it is away, each keeps to its
    /// part.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..))]
    shared_processes: u32,
    /// What sharing costs: exact pays for each request in the store, leases borrow shares of a
    /// rate and send without asking.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = How::Exact)]
    shared_mode: How,
    /// What is sent while the store is away: local keeps to this run's share, closed sends nothing,
    /// open goes on as if alone.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Away::Local)]
    when_away: Away,
}

impl Shared {
    /// How the run shares, if it does. `in_flight`: numbers in flight were asked for, and not only
    /// what this machine can hold.
    pub(crate) fn sharing(&self, in_flight: bool) -> Result<Option<Sharing>, String> {
        let Some(url) = self.url()? else {
            return Ok(None);
        };
        let store = RedisStore::new(&url).map_err(|error| error.to_string())?;
        // The scope is the host, which is known when the first line is read.
        let sharing = Sharing::new(store, "run").map_err(|error| error.to_string())?;
        Ok(Some(
            sharing
                .mode(self.shared_mode.into())
                .when_away(self.when_away.into())
                .processes(self.shared_processes)
                .in_flight(in_flight),
        ))
    }

    /// What the scope of every host begins with, if others are not to be met.
    pub(crate) fn scope(&self) -> Option<Scope> {
        self.shared_scope.clone()
    }

    /// Where the store is.
    fn url(&self) -> Result<Option<String>, String> {
        if let Some(path) = &self.shared_file {
            return url_in(path).map(Some);
        }
        let Some(url) = &self.shared else {
            return Ok(None);
        };
        let is_seen = std::env::args_os().any(|word| word.to_string_lossy().contains(url));
        if is_seen && has_password(url) {
            eprintln!(
                "paceline run: the password in --shared is seen by all who list the processes of \
                 this machine: put the URL into PACELINE_SHARED, or into a file for --shared-file"
            );
        }
        Ok(Some(url.clone()))
    }
}

fn url_in(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read the URL of the store in {shown}: {error}"))?;
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let url = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let url =
        url.ok_or_else(|| format!("there is no URL of a store in {shown}: write one line"))?;
    Ok(url.to_owned())
}

/// Whether a URL of a store holds a password: before its host, or in the query of a socket's.
fn has_password(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| {
        url.password().is_some() || url.query_pairs().any(|(name, _)| name == "pass")
    })
}

fn name(text: &str) -> Result<Scope, String> {
    if text.len() > LONGEST_NAME {
        return Err(format!("use at most {LONGEST_NAME} letters"));
    }
    Scope::new(text).map_err(|error| error.to_string())
}

/// A host follows, and both must fit into what a store takes for a name.
const LONGEST_NAME: usize = 40;

#[derive(Clone, Copy, ValueEnum)]
enum How {
    Exact,
    Leases,
}

impl From<How> for Mode {
    fn from(how: How) -> Self {
        match how {
            How::Exact => Self::Exact,
            How::Leases => Self::Leases,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Away {
    Local,
    Closed,
    Open,
}

impl From<Away> for WhenAway {
    fn from(away: Away) -> Self {
        match away {
            Away::Local => Self::Local,
            Away::Closed => Self::Closed,
            Away::Open => Self::Open,
        }
    }
}
