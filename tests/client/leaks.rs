//! The leak test: a key of each kind, against everything that once carried one away.
//!
//! A second host records all that it is sent, and all that a program could print or that any crate
//! logs is looked through.

use std::error::Error as _;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use paceline::{ApiKey, Limiter, Limiters, Renewed, RetrySettings};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use super::logs::Logged;
use super::server::{Seen, Server, Step, answer, ok};

/// As a server may repeat it, and as it stands in a query.
const SECRET: &str = "sk-hunter2/+=~x";
const ENCODED: &str = "sk-hunter2%2F%2B%3D%7Ex";

/// A way to give a key to a limiter.
type Give = fn() -> paceline::LimiterBuilder;

fn ways() -> Vec<(&'static str, Give)> {
    vec![
        ("bearer", || Limiter::builder().key(ApiKey::bearer(SECRET))),
        ("header", || {
            Limiter::builder().key(ApiKey::header("x-api-key", SECRET))
        }),
        ("query", || {
            Limiter::builder().key(ApiKey::query("api_key", SECRET))
        }),
        ("renewed", || {
            Limiter::builder().renewed_key("account", || async {
                Ok::<_, std::io::Error>(Renewed::new(ApiKey::bearer(SECRET)))
            })
        }),
        ("renewed query", || {
            Limiter::builder().renewed_key("account", || async {
                Ok::<_, std::io::Error>(Renewed::new(ApiKey::query("api_key", SECRET)))
            })
        }),
    ]
}

/// What the first host does, as the path of the request says. `other` is another host.
fn script(other: &str) -> impl Fn(&Seen, usize) -> Vec<Step> + Send + Sync + 'static {
    let other = other.to_owned();
    move |seen, _| {
        let path = seen.path.split('?').next().unwrap_or_default();
        let redirect = |code, to: &str| vec![answer(code, &[&format!("location: {to}")], b"moved")];
        let other_host = other.replace("127.0.0.1", "localhost");
        let code = path
            .rsplit('/')
            .next()
            .and_then(|code| code.parse().ok())
            .unwrap_or(302);
        match path.split('/').nth(1).unwrap_or_default() {
            "away" => redirect(code, &format!("{other}there")),
            "away-by-name" => redirect(code, &format!("{other_host}there?api_key={ENCODED}")),
            "away-without-scheme" => redirect(code, other.trim_start_matches("http:")),
            "away-with-the-key" => redirect(code, &format!("{other}?k={ENCODED}&again={SECRET}")),
            "round" => redirect(302, &format!("/round?x=1&api_key={ENCODED}")),
            "near" => redirect(code, &format!("/end?x={}#{SECRET}", seen.path.len())),
            "slow" => vec![Step::Sleep(Duration::from_secs(5))],
            "cut" => vec![Step::Close],
            "reset" => vec![Step::Reset],
            "half" => vec![
                Step::Send(b"HTTP/1.1 200 OK\r\nconte".to_vec()),
                Step::Close,
            ],
            "nonsense" => vec![Step::Send(b"nonsense\r\n\r\n".to_vec()), Step::Close],
            "short" => {
                let head = b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nx";
                vec![Step::Send(head.to_vec()), Step::Close]
            }
            "refused" => vec![answer(429, &["retry-after: 100"], b"no")],
            "denied" => vec![answer(401, &[], b"who are you")],
            "broken" => vec![answer(500, &[], b"oh")],
            _ => vec![ok()],
        }
    }
}

fn paths() -> Vec<String> {
    let mut paths: Vec<_> = [
        "slow", "cut", "reset", "half", "nonsense", "short", "round", "end",
    ]
    .into_iter()
    .chain(["refused", "denied", "broken"])
    .map(|path| format!("/{path}?mine=1"))
    .collect();
    for away in [
        "away",
        "away-by-name",
        "away-without-scheme",
        "away-with-the-key",
        "near",
    ] {
        paths.extend([301, 302, 303, 307, 308].map(|code| format!("/{away}/{code}?mine=1")));
    }
    paths
}

/// Everything that a program could print of what came.
async fn printed(result: reqwest_middleware::Result<reqwest::Response>) -> String {
    let mut text = String::new();
    match result {
        Err(error) => {
            write!(text, "{error} {error:?} {error:#?}").unwrap();
            let mut cause = error.source();
            while let Some(error) = cause {
                write!(text, " {error} {error:?}").unwrap();
                cause = error.source();
            }
        }
        Ok(mut reply) => {
            // What a server writes into its own answer is its own affair: here it repeats the key.
            reply.headers_mut().remove("location");
            write!(text, "{reply:?} {:?} {}", reply.extensions(), reply.url()).unwrap();
            if let Err(error) = reply.error_for_status_ref() {
                write!(text, "{error} {error:?}").unwrap();
            }
            if let Err(error) = reply.bytes().await {
                write!(text, "{error} {error:?}").unwrap();
            }
        }
    }
    text
}

/// Made once: loading the roots of TLS takes its time.
fn http() -> reqwest::Client {
    let client = paceline::http_client().timeout(Duration::from_millis(150));
    client.build().unwrap()
}

fn client<M: reqwest_middleware::Middleware>(
    http: &reqwest::Client,
    limiter: M,
) -> ClientWithMiddleware {
    ClientBuilder::new(http.clone()).with(limiter).build()
}

fn quick() -> RetrySettings {
    let mut retry = RetrySettings::default();
    retry.base = Some(Duration::from_millis(1));
    retry.errors = 1;
    retry.refusals = 1;
    retry
}

fn assert_clean(text: &str, of: &str) {
    for shown in [SECRET, ENCODED, "hunter2"] {
        assert!(!text.contains(shown), "{of}: {text}");
    }
}

#[tokio::test]
async fn no_credential_is_found_anywhere_but_at_its_own_host() {
    let other = Server::start(|_, _| vec![ok()]).await;
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}/", gone.local_addr().unwrap());
    drop(gone);
    let http = http();
    for (way, give) in ways() {
        for post in [false, true] {
            let server = Server::start(script(&other.url("/"))).await;
            let limiter = move || give().retry(quick()).max_wait(Duration::from_millis(500));
            let by_host = Limiters::by_host_with(move |_| limiter());
            let logged = Logged::start();
            let mut shown = String::new();
            for path in paths() {
                // A limiter of its own, so that what one did to the key does not matter to the next.
                let limiter = limiter().build().unwrap();
                let changes = limiter.changes();
                let client = client(&http, limiter.clone());
                let url = server.url(&path);
                let send = if post {
                    client.post(&url).body("x")
                } else {
                    client.get(&url)
                };
                let text = printed(send.send().await).await;
                assert_clean(&text, &format!("{way} {path}"));
                // The same client to the other host: the key is not for it.
                client.get(other.url("/")).send().await.unwrap();
                write!(shown, "{limiter:?} {client:?}").unwrap();
                let mut changes = changes;
                while let Some(change) = changes.try_next() {
                    write!(shown, "{change:?}").unwrap();
                }
            }
            let text = printed(client(&http, by_host.clone()).get(&nobody).send().await).await;
            assert_clean(&text, &format!("{way}: nobody there"));
            assert_clean(&format!("{shown} {by_host:?} {:?}", give()), way);
            let log = logged.end();
            assert!(log.contains("127.0.0.1"), "nothing is logged at all");
            assert_clean(&log, &format!("{way}: the log"));
            let own = server.everything();
            assert!(
                own.contains(SECRET) || own.contains(ENCODED),
                "{way}: its own host gets it"
            );
            assert!(server.seen().iter().all(|seen| {
                let told = seen.header("referer").is_some();
                !told
                    && (seen.path.contains(ENCODED) || format!("{:?}", seen.head).contains(SECRET))
            }));
        }
    }
    let sent = other.everything();
    assert!(other.count() > 100);
    assert_clean(&sent, "what another host was sent");
}

/// A retry layer and a logging layer between the limiter and the wire see the attempt as it is
/// sent, key and all: they stand where the key has been put on. Those outside see none.
#[tokio::test]
async fn a_layer_outside_the_limiter_sees_no_key() {
    struct Spy(Arc<std::sync::Mutex<String>>);

    #[async_trait::async_trait]
    impl reqwest_middleware::Middleware for Spy {
        async fn handle(
            &self,
            request: reqwest::Request,
            to: &mut http::Extensions,
            next: reqwest_middleware::Next<'_>,
        ) -> reqwest_middleware::Result<reqwest::Response> {
            let seen = format!("{request:?} {:?}", request.url());
            let reply = next.run(request, to).await;
            write!(self.0.lock().unwrap(), "{seen} {reply:?} {to:?}").unwrap();
            reply
        }
    }

    let server = Server::start(script("http://127.0.0.1:9/")).await;
    for (way, give) in ways() {
        let spied = Arc::default();
        let client = ClientBuilder::new(paceline::http_client().build().unwrap())
            .with(Spy(Arc::clone(&spied)))
            .with(give().retry(quick()).build().unwrap())
            .build();
        for path in ["/end", "/cut", "/near/302"] {
            drop(client.get(server.url(path)).send().await);
        }
        assert_clean(&spied.lock().unwrap(), way);
    }
}
