//! Agrees with other processes: one limit for all of them, through a store that all can reach.
//!
//! ```no_run
//! use paceline::Limiter;
//! use paceline::shared::{RedisStore, Sharing};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RedisStore::new("redis://127.0.0.1:6379")?;
//! let limiter = Limiter::builder()
//!     .ceiling("100/1m")
//!     .shared(Sharing::new(store, "api.example.com")?)
//!     .build()?;
//! # Ok(()) }
//! ```
//!
//! All modes assume processes that cooperate: whoever uses the API's key without paceline, or with
//! another scope or other ceilings, is not counted. Without `shared` N processes are N times as
//! fast as one.
//!
//! # Which way
//!
//! Five questions decide:
//!
//! | question | if … | then |
//! | --- | --- | --- |
//! | What is to be protected? | this machine: its memory, its sockets | nothing shared: `max_concurrency` |
//! | | a quota that the API counts | a shared ceiling |
//! | Whom does the API count? | each key | `ceiling` |
//! | | the account or the address | `shared_ceiling` |
//! | | requests at the same time | `key_concurrency`, `max_concurrency`: slots that are leased |
//! | How far does it reach? | one process | a [`MemoryStore`], or one [`Limiter`](crate::Limiter) |
//! | | one machine, or many in a region | [`RedisStore`], one scope for all |
//! | | regions far apart | a store and a part of the limit in each: a way of 100 ms is too long to ask |
//! | What may go wrong by how much? | not one request too many | [`Mode::Exact`], [`WhenAway::Closed`] |
//! | | at most what one lease allows, after a process was halted | [`Mode::Leases`] |
//! | The store is away: what matters more? | the quota | [`WhenAway::Closed`] |
//! | | that work goes on, within about the limit | [`WhenAway::Local`], the default |
//! | | that work goes on | [`WhenAway::Open`] |
//!
//! # What it costs
//!
//! | | exact | leases |
//! | --- | --- | --- |
//! | before a request | one round trip, shared by all that wait with it | none |
//! | a busy process | under 0.2 round trips a request | a call a second for each rate in use |
//! | besides, while it lives | a call a second to say so, and one in two seconds for each key of which something was learned | the same |
//! | limits | any | rates of ten per window and process or more; what is less than ten in a window is paid for exactly. More processes than half of what a window allows take turns, of two leases or windows each, and use about half of it |
//! | the limit | never exceeded on the store's clock | of requests never exceeded by those who live, whoever comes and goes; by one for each process that was killed; by at most one lease after a halt. Of tokens by one request of each process, for shares are paced by the request |
//! | a process that comes | may send at once | beside others its first request waits until they have renewed (`lease / 3`) and its share has earned it |
//! | a process that goes | costs nothing | its share is held back until it has earned what was sent: for many short ones the exact mode is faster |
//! | a killed process | costs nothing | its share is missed for one lease, and until it has earned what was sent |
//! | uneven load | whoever asks first | shares follow the demand, within a lease |
//!
//! A number in flight counts requests whose owners listen: the slot of one that does not is lent, to
//! other processes too. When it comes back it goes on as soon as its own process has a slot to
//! spare, so where nothing had been sent for it yet it is one more than the number for all.
//!
//! Measured against a Valkey 9.1 on the same machine (an optimized build on two cores of a virtual
//! machine, the middle of three runs of `cargo bench --features shared --bench shared`; others kept
//! both cores busy, which shows from p95 on and in the rates). Beside it the shared modes of the
//! crate trypema 2.2, in the same runs:
//!
//! | microseconds | p50 | p95 | p99 | a second |
//! | --- | --- | --- | --- | --- |
//! | a connection, once | 100 | 190 | 6,800 | |
//! | a plain `INCR` | 17 | 18 | 31 | 44,000 |
//! | a script of `INCR` and `EXPIRE` | 18 | 19 | 33 | 49,000 |
//! | one exact decision of the store, sliding log | 47 | 77 | 190 | 8,600 |
//! | the same, sliding counter or token bucket | 31 | 53 | 88 | 19,000 |
//! | exact, one request after the other (1 round trip each) | 63 | 120 | 2,800 | 6,500 |
//! | exact, 256 at once (0.008 round trips each) | 770 | 3,700 | 4,500 | 200,000 |
//! | leases (0.0003 round trips each, none before a request) | 1.1 | 1.1 | 1.2 | 160,000 |
//! | trypema, `redis`, one after the other (1 round trip each) | 27 | 38 | 110 | 16,000 |
//! | trypema, `redis`, 256 at once (1 round trip each) | 3,600 | 5,400 | 22,000 | 58,000 |
//! | trypema, `hybrid` (tells the store every 10 ms) | 0.1 | 0.1 | 0.2 | 1,700,000 |
//!
//! trypema answers yes or no, and its admission is best effort under concurrency; what stands here
//! for paceline is the whole way of a request, with its place in the queue and its end.
//!
//! One limit in one store carried 9,000 decisions a second of 16 processes that asked one by one, and
//! 25,000 in the run that was disturbed least: where all together come near that, or where the wait
//! of a round trip is too long, use leases.
//!
//! A margin on the ceiling (`100/1m+5%`) is for the ways to the API, which can put two requests
//! closer together than they left. A request leaves at most 0.1 s and two usual round trips to the
//! store after it was paid for; a process that was halted meanwhile pays anew. That is looked at
//! last when the request is given to the HTTP client: what was just waiting for a connection there,
//! or being written by a thread, goes out when the process wakes.
//!
//! # Settings that differ
//!
//! Amounts of one key and window count together, and each process keeps to its own: where one says
//! `10/1s` and another `30/1s`, all together send at most 30, and the first sends only while there are
//! fewer than 10. Other windows, laws, scopes and modes are other limits, which do not know of each
//! other, and nobody can tell: change them in all processes at once.
//!
//! # The laws
//!
//! [`Law::SlidingLog`](store::Law::SlidingLog) keeps a ceiling to the letter in every window, and is
//! what a ceiling is counted by unless [`Sharing::law`] says otherwise.
//! [`Law::SlidingCounter`](store::Law::SlidingCounter) is as small as a fixed window and hardly ever
//! wrong about sources below the limit: over all requests of random sources at a tenth of it, no
//! verdict was another than an exact log's (Cloudflare counted 0.003 % over its own traffic). Near
//! the limit and above it one verdict in six is early or late, and the rate wrong by 3 % on average.
//!
//! # The store
//!
//! Valkey, or Redis from 6.2; alone, or a cluster (`redis+cluster://…`). `rediss://` needs TLS: the
//! command brings it, a program asks for it with the feature `tokio-rustls-comp` of the crate
//! `redis`. Everything lies under `paceline:{scope}:`, each key ends by itself, and no key or value
//! holds a secret: API keys are known by their fingerprints. The URL may hold a password, which no
//! `Debug`, error or change shows; it may name a database (`…/2`) or a socket
//! (`redis+unix:///run/valkey.sock?db=2`). `paceline run --shared` uses the scope
//! `api.example.com:443`, host and port, with the name of `--shared-scope` before it: a program that
//! shares with it names the same.
//!
//! It needs little: 160 bytes for each payment until the longest of its windows is over, 10 s at
//! least, and some hundred kilobytes for a limit with a full log. A limit of a million a day that is
//! paid for one by one fills 160 MB. Give it `maxmemory-policy noeviction`: what is evicted was never
//! sent. Where windows last for hours, let it write to its disk (`appendonly yes`): if it restarts
//! empty while nobody lives who knew it, nobody can tell.
//!
//! A user of its own needs no more than this (see [`LEAST_PRIVILEGES`]; the tests run with it):
//!
//! ```text
//! ACL SETUSER paceline on >PASSWORD resetchannels ~paceline:* &paceline:* -@all +eval +evalsha
//!   +time +hget +hset +hmget +hgetall +hdel +hsetnx +hincrby +zadd +zrem +zcard +zscore +zcount
//!   +zrangebyscore +zremrangebyscore +pexpire +pttl +publish +subscribe +ping +cluster|slots
//!   +client|setinfo
//! ```
//!
//! A store that was flushed, or that an older copy took over, is told from an empty one by those who
//! knew it: then nothing is granted until what it has forgotten no longer counts, and the policy of
//! [`WhenAway`] decides. Every such turn is a change ([`What`](crate::scheduler::events::What)) and
//! is counted in [`Counts`].
//!
//! # What processes tell each other
//!
//! Penalties, faults of keys, the quotas that the server reports and the rates that were learned
//! reach all processes, and those that start later. An older fact never undoes a newer one.
//!
//! Each says by which limits it goes. Two that name other numbers, windows or laws, another mode or
//! lease, in one scope are each held to their own, and may send more together than either says: both
//! tell it as a change,
//! [`What::LimitsDiffer`](crate::scheduler::events::What::LimitsDiffer). Give sets of limits that
//! are to differ a scope each.

mod agent;
mod circuit;
mod counts;
mod desk;
pub mod memory;
mod pace;
pub mod redis;
mod sharing;
pub mod store;

pub use memory::MemoryStore;
pub use redis::{LEAST_PRIVILEGES, RedisStore};
pub use sharing::{Counts, Mode, Sharing, WhenAway};
