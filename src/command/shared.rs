//! The options of a run that shares its limits with other runs.

use clap::ValueEnum;

use paceline::shared::{Mode, RedisStore, Sharing, WhenAway};

#[derive(clap::Args)]
pub(crate) struct Shared {
    /// Hold --rate and what is limited in flight together with all runs that name the same store,
    /// on any machine: redis://[user:password@]host[:port][/db], or redis+cluster://…
    #[arg(
        long,
        value_name = "URL",
        env = "PACELINE_SHARED",
        hide_env_values = true
    )]
    shared: Option<String>,
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
        let Some(url) = &self.shared else {
            return Ok(None);
        };
        let store = RedisStore::new(url).map_err(|error| error.to_string())?;
        // The scope is the host, which is known when the first line is read.
        let sharing = Sharing::new(store, "run").map_err(|error| error.to_string())?;
        Ok(Some(
            sharing
                .mode(self.shared_mode.into())
                .when_away(self.when_away.into())
                .in_flight(in_flight),
        ))
    }
}

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
