//! Where secrets go, on real sockets: to their host, and nowhere else.

use std::error::Error as _;
use std::fmt::Write as _;
use std::time::Duration;

use paceline::scheduler::events::What;
use paceline::{ApiKey, Ask, Limiter, Report};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const SECRET: &str = "sk-hunter2";

/// A key of each kind.
fn keys() -> [ApiKey; 3] {
    [
        ApiKey::bearer(SECRET),
        ApiKey::header("x-api-key", SECRET),
        ApiKey::query("api_key", SECRET),
    ]
}

fn client(limiter: &Limiter) -> ClientWithMiddleware {
    let client = paceline::http_client().timeout(Duration::from_millis(300));
    ClientBuilder::new(client.build().unwrap())
        .with(limiter.clone())
        .build()
}

fn limiter(key: &ApiKey) -> Limiter {
    let mut retry = paceline::RetrySettings::default();
    retry.errors = 0;
    let limiter = Limiter::builder().key(key.clone()).retry(retry);
    assert!(!format!("{limiter:?}").contains(SECRET));
    limiter.build().unwrap()
}

/// Everything that a program could print of an error.
fn printed(error: &reqwest_middleware::Error) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(text, " {error} {error:?}").unwrap();
        cause = error.source();
    }
    text
}

fn answer(server: &MockServer, to: &str, template: ResponseTemplate) -> impl Future<Output = ()> {
    Mock::given(method("GET"))
        .and(path(to))
        .respond_with(template)
        .mount(server)
}

/// What a server was sent, as text.
async fn sent_to(server: &MockServer) -> Vec<String> {
    let requests = server.received_requests().await.unwrap();
    let shown = requests.iter().map(|request| {
        let headers: Vec<_> = request
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        format!("{} {}", request.url, headers.join(" "))
    });
    shown.collect()
}

#[tokio::test]
async fn the_host_of_a_key_gets_it_and_the_caller_sees_the_url_without_it() {
    let server = MockServer::start().await;
    answer(
        &server,
        "/v1",
        ResponseTemplate::new(200).set_body_string("served"),
    )
    .await;
    for key in keys() {
        let limiter = limiter(&key);
        let url = format!("{}/v1?page=1", server.uri());
        let reply = client(&limiter).get(&url).send().await.unwrap();
        assert_eq!(reply.url().as_str(), url);
        assert!(!format!("{reply:?} {limiter:?} {key:?}").contains(SECRET));
        assert_eq!(reply.content_length(), Some(6));
        assert_eq!(reply.text().await.unwrap(), "served");
    }
    let sent = sent_to(&server).await;
    assert_eq!(sent.len(), 3);
    assert!(
        sent.iter().all(|request| request.contains(SECRET)),
        "{sent:?}"
    );
}

#[tokio::test]
async fn a_redirect_to_another_host_is_not_followed() {
    let (server, other) = (MockServer::start().await, MockServer::start().await);
    let there = format!("{}/there?api_key={SECRET}", other.uri());
    let away = ResponseTemplate::new(302).insert_header("location", there);
    answer(&server, "/v1", away).await;
    for key in keys() {
        let url = format!("{}/v1", server.uri());
        let reply = client(&limiter(&key)).get(&url).send().await.unwrap();
        assert_eq!(
            (reply.status().as_u16(), reply.url().as_str()),
            (302, &*url)
        );
    }
    assert_eq!(sent_to(&other).await, [""; 0]);
}

#[tokio::test]
async fn a_redirect_that_repeats_the_key_shows_it_nowhere_and_is_charged() {
    let server = MockServer::start().await;
    let there = format!("/there?page=1&api_key={SECRET}&b=2");
    let here = ResponseTemplate::new(302).insert_header("location", there);
    answer(&server, "/v1", here).await;
    answer(&server, "/there", ResponseTemplate::new(200)).await;
    let [.., key] = keys();
    let limiter = Limiter::builder().key(key).ceiling("2/1h").max_wait(None);
    let limiter = limiter.build().unwrap();
    let url = format!("{}/v1", server.uri());
    let reply = client(&limiter).get(&url).send().await.unwrap();
    assert_eq!(reply.url().query(), Some("page=1&b=2"));
    assert!(!format!("{reply:?}").contains(SECRET));
    let third = limiter.try_acquire(Default::default()).unwrap();
    assert!(third.is_none(), "the hop counts too");
}

#[tokio::test]
async fn errors_of_every_kind_show_no_secret() {
    let server = MockServer::start().await;
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(5));
    answer(&server, "/slow", slow).await;
    let cut = ResponseTemplate::new(200)
        .insert_header("content-length", "100")
        .set_body_string("x");
    answer(&server, "/cut", cut).await;
    // Nothing listens where a listener has just been.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    for key in keys() {
        for url in [
            format!("{}/slow", server.uri()),
            format!("{nobody}/"),
            format!("{nobody}/?page=1"),
        ] {
            let error = client(&limiter(&key)).get(&url).send().await.unwrap_err();
            let text = printed(&error);
            assert!(!text.contains(SECRET), "{text}");
            assert!(text.contains("http://127.0.0.1"), "it says where: {text}");
        }
    }
}

#[tokio::test]
async fn another_host_is_passed_by_without_key_and_gates_and_that_is_told_once_for_each() {
    let (server, other) = (MockServer::start().await, MockServer::start().await);
    for server in [&server, &other] {
        answer(server, "/v1", ResponseTemplate::new(200)).await;
    }
    let first = server.address().port();
    for key in keys() {
        let limiter = Limiter::builder().key(key).ceiling("1/1h").build().unwrap();
        let mut changes = limiter.changes();
        let client = client(&limiter);
        for server in [&server, &other, &other] {
            let url = format!("{}/v1", server.uri());
            let reply = client.get(url).send().await.unwrap();
            let has_report = reply.extensions().get::<Report>().is_some();
            assert_eq!(has_report, reply.url().port() == Some(first));
        }
        // A third host: nobody is there, and that is told as well.
        drop(client.get("http://localhost:1/").send().await);
        let told = std::iter::from_fn(|| changes.try_next());
        let told = told.filter_map(|change| match change.what {
            What::PassedBy { host } => Some(host),
            _ => None,
        });
        assert_eq!(
            Vec::from_iter(told),
            ["127.0.0.1", "localhost"].map(Box::from)
        );
    }
    let sent = sent_to(&other).await;
    assert_eq!(sent.len(), 6);
    assert!(
        !sent.iter().any(|request| request.contains(SECRET)),
        "{sent:?}"
    );
}

#[tokio::test]
async fn hosts_that_were_told_are_served_whoever_comes_first() {
    let (server, other) = (MockServer::start().await, MockServer::start().await);
    for server in [&server, &other] {
        answer(server, "/v1", ResponseTemplate::new(200)).await;
    }
    let [key, ..] = keys();
    let limiter = Limiter::builder()
        .key(key)
        .hosts([server.address().to_string()]);
    let client = client(&limiter.build().unwrap());
    client
        .get(format!("{}/v1", other.uri()))
        .send()
        .await
        .unwrap();
    client
        .get(format!("{}/v1", server.uri()))
        .send()
        .await
        .unwrap();
    assert!(sent_to(&server).await[0].contains(SECRET));
    assert!(!sent_to(&other).await[0].contains(SECRET));
}

#[tokio::test]
async fn a_key_that_the_server_repeats_in_a_header_reaches_the_application_and_is_not_printed() {
    let (server, other) = (MockServer::start().await, MockServer::start().await);
    let there = format!("{}/there?api_key={SECRET}", other.uri());
    let away = ResponseTemplate::new(302).insert_header("location", &*there);
    answer(&server, "/v1", away).await;
    for key in keys() {
        let url = format!("{}/v1", server.uri());
        let reply = client(&limiter(&key)).get(&url).send().await.unwrap();
        assert_eq!(reply.headers()["location"], there);
        assert!(!format!("{reply:?}").contains(SECRET), "{reply:?}");
    }
}

#[tokio::test]
async fn a_key_that_the_server_masks_in_part_is_not_printed_either() {
    // "Incorrect API key provided: sk-abcde***wxyz", in a header and in the address of a redirect.
    let server = MockServer::start().await;
    let secret = "sk-proj-abcdefghijklmnopqrstuvwxyz";
    let there = "/login?wrong=sk-proj-abcde***wxyz&page=1";
    let away = ResponseTemplate::new(302).insert_header("location", there);
    answer(&server, "/v1", away).await;
    let told = "Incorrect API key provided: sk-proj-abcde***wxyz";
    let denied = ResponseTemplate::new(400)
        .insert_header("x-error", told)
        .set_body_string(told);
    answer(&server, "/login", denied).await;
    for key in [ApiKey::bearer(secret), ApiKey::query("api_key", secret)] {
        let url = format!("{}/v1", server.uri());
        let reply = client(&limiter(&key)).get(&url).send().await.unwrap();
        let error = reply.error_for_status_ref().unwrap_err();
        assert_eq!(reply.url().query(), Some("page=1"));
        let text = format!("{reply:?} {error} {error:?}");
        assert!(!text.contains("abcde"), "{text}");
        assert_eq!(
            reply.headers()["x-error"],
            told,
            "it reaches the application"
        );
        assert_eq!(reply.text().await.unwrap(), told);
    }
}

#[tokio::test]
async fn a_key_takes_the_place_of_what_the_caller_gave_in_the_same_place() {
    let server = MockServer::start().await;
    answer(&server, "/v1", ResponseTemplate::new(200)).await;
    for key in keys() {
        let url = format!("{}/v1?api_key=own&page=1", server.uri());
        let request = client(&limiter(&key)).get(&url);
        let own = request
            .header("authorization", "Bearer own")
            .header("x-api-key", "own");
        assert_eq!(own.send().await.unwrap().url().as_str(), url);
    }
    let sent = sent_to(&server).await;
    assert!(sent[0].contains(&format!("Bearer {SECRET}")) && !sent[0].contains("Bearer own"));
    assert!(
        sent[2].contains("page=1") && !sent[2].contains("api_key=own"),
        "{sent:?}"
    );
    assert_eq!(sent[2].matches("api_key=").count(), 1, "{sent:?}");
}

#[tokio::test]
async fn each_key_is_one_secret_and_a_list_in_the_place_of_one_is_refused() {
    // KR-14: the first slot of a list sent all of it as one header, and only that one was refused.
    let given = ["key-a", " key-b ", "key-c\n", "\tkey-d\r\n"];
    let server = MockServer::start().await;
    answer(&server, "/v1", ResponseTemplate::new(200)).await;
    let makers: [fn(&str) -> ApiKey; 3] = [
        |secret| ApiKey::bearer(secret),
        |secret| ApiKey::header("x-api-key", secret),
        |secret| ApiKey::query("api_key", secret),
    ];
    for make in makers {
        for list in [
            "key-a,key-b,key-c",
            "key-a,",
            ",",
            "key-a key-b",
            "key-a\nkey-b",
            "",
            " \n",
        ] {
            let error = Limiter::builder().key(make(list)).build().unwrap_err();
            assert!(error.is_settings(), "{list:?}: {error}");
            assert!(!error.to_string().contains("key-a"), "{error}");
        }
        let limiter = Limiter::builder().keys(given.map(make)).build().unwrap();
        let client = client(&limiter);
        for _ in given {
            let url = format!("{}/v1", server.uri());
            client.get(url).send().await.unwrap();
        }
        let sent = sent_to(&server).await;
        let mut last: Vec<_> = sent[sent.len() - given.len()..]
            .iter()
            .map(|request| {
                let at = request.find("key-").unwrap();
                request[at..]
                    .chars()
                    .take_while(|c| !c.is_whitespace())
                    .collect::<String>()
            })
            .collect();
        last.sort();
        assert_eq!(
            last,
            ["key-a", "key-b", "key-c", "key-d"],
            "each slot its own"
        );
    }
}

#[test]
fn an_empty_list_of_keys_is_an_error_that_says_what_to_do() {
    let error = Limiter::builder().keys([]).build().unwrap_err();
    assert!(error.is_settings());
    let limiter = Limiter::builder()
        .key(ApiKey::bearer(SECRET))
        .build()
        .unwrap();
    let also = limiter.set_keys([]).unwrap_err();
    for error in [error, also] {
        assert!(
            error.to_string().contains("look where the list comes from"),
            "{error}"
        );
    }
    let permit = limiter.try_acquire(Ask::new()).unwrap().unwrap();
    assert_eq!(permit.key().expose_secret(), SECRET, "the old one stays");
}
