//! The front over real sockets: who gets in, what slow clients can hold up, and how a shutdown ends.
#![allow(clippy::unwrap_used, reason = "a test that has to give up says where")]

mod house;

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use house::{BOTH, Client, House, Http, hardly_idle, hasty_handshakes, next_text, soon_stalled, text};
use rustls::HandshakeKind;
use serde_json::Value;
use server::access::pki::Pki;
use server::access::{READERS, credentials::kubeconfig_of, kubeconfig::Kubeconfig};
use server::front::{Drained, Limits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const BEARER: (&str, &str) = ("authorization", "Bearer t0ken");

#[tokio::test]
async fn nobody_is_anonymous_on_both_protocols() {
    let house = House::open(Limits::default());
    for http in BOTH {
        let (code, body) = house.connect(http, None).await.get("/", &[]).await;
        assert_eq!((code, body.as_str()), (200, "system:anonymous system:unauthenticated"), "{http:?}");
    }
}

#[tokio::test]
async fn a_token_gives_a_name_and_a_wrong_one_gives_401() {
    let house = House::open(Limits::default());
    for http in BOTH {
        let mut client = house.connect(http, None).await;
        let (_, body) = client.get("/", &[BEARER]).await;
        assert_eq!(body, format!("jane devs,{READERS},system:authenticated"));
        let (code, body) = client.get("/", &[("authorization", "Bearer wrong")]).await;
        let status: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (code, &status["reason"], &status["message"]),
            (401, &"Unauthorized".into(), &"Unauthorized".into())
        );
        assert_eq!((&status["kind"], &status["code"]), (&"Status".into(), &401.into()));
    }
    assert_eq!(house.counters.refused.get(), 2);
}

#[tokio::test]
async fn a_certificate_gives_name_and_groups_on_both_protocols() {
    let house = House::open(Limits::default());
    let identity = house.client("bob", "ops");
    for http in BOTH {
        let (_, body) = house.connect(http, Some(&identity)).await.get("/", &[]).await;
        assert_eq!(body, "bob ops,system:authenticated", "{http:?}");
    }
}

#[tokio::test]
async fn the_kubeconfig_is_the_administrators() {
    let house = House::open(Limits::default());
    let config = Kubeconfig::read(&kubeconfig_of(house.folder.path())).unwrap().unwrap();
    assert_eq!(config.server, format!("https://{}", house.address));
    let (_, body) = house.connect(Http::Two, Some(&config.identity)).await.get("/", &[]).await;
    assert_eq!(body, "cadastre-admin system:masters,system:authenticated");
}

#[tokio::test]
async fn a_certificate_of_another_authority_does_not_get_in() {
    let house = House::open(Limits::default());
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Pki::open(elsewhere.path(), SystemTime::now()).unwrap();
    let forged = other.client("admin", "cadastre-admin", "system:masters", SystemTime::now()).unwrap();
    let mut stream = house.handshake(house.trusting(Http::One, Some(&forged))).await.unwrap();
    // In TLS 1.3 a client is done before the server has looked; the refusal comes with the first read.
    drop(stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await);
    let error = stream.read_u8().await.unwrap_err().to_string();
    assert!(error.contains("UnknownCA"), "{error}");
}

#[tokio::test]
async fn a_serving_certificate_does_not_pass_for_a_clients() {
    let house = House::open(Limits::default());
    let pki = Pki::open(&house.folder.path().join("pki"), SystemTime::now()).unwrap();
    let serving = pki.serving(&BTreeSet::from(["127.0.0.1".parse().unwrap()]), SystemTime::now()).unwrap();
    let mut stream = house.handshake(house.trusting(Http::One, Some(&serving))).await.unwrap();
    drop(stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await);
    assert!(stream.read_u8().await.is_err());
}

#[tokio::test]
async fn a_resumed_session_is_still_the_same_user() {
    let house = House::open(Limits::default());
    let config = house.trusting(Http::One, Some(&house.client("bob", "ops")));
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let stream = house.handshake(config.clone()).await.unwrap();
        kinds.push(stream.get_ref().1.handshake_kind());
        let (_, body) = Client::over(Http::One, stream).await.get("/", &[]).await;
        assert_eq!(body, "bob ops,system:authenticated");
    }
    assert_eq!(kinds, [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)]);
}

#[tokio::test]
async fn impersonation_is_for_masters() {
    let house = House::open(Limits::default());
    let wish = ("impersonate-user", "joe");
    let (code, body) = house.connect(Http::One, None).await.get("/", &[BEARER, wish]).await;
    let status: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &status["reason"], &status["details"]["kind"]), (403, &"Forbidden".into(), &"users".into()));
    let master = house.client("root", "system:masters");
    let (_, body) = house.connect(Http::Two, Some(&master)).await.get("/", &[wish]).await;
    assert_eq!(body, "joe system:authenticated");
}

#[tokio::test]
async fn a_replaced_certificate_is_presented_from_then_on() {
    let house = House::open(Limits::default());
    let presented = async || {
        let stream = house.handshake(house.trusting(Http::One, None)).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone()
    };
    let before = presented().await;
    let pki = Pki::open(&house.folder.path().join("pki"), SystemTime::now()).unwrap();
    let names = ["127.0.0.1", "example.com"].map(|name| name.parse().unwrap());
    let renewed = pki.serving(&BTreeSet::from(names), SystemTime::now()).unwrap();
    house.presented.replace(&renewed).unwrap();
    let after = presented().await;
    assert_ne!(before, after);
    assert_eq!(after, renewed.chain().unwrap()[0]);
}

#[tokio::test]
async fn a_handshake_that_does_not_go_on_is_ended() {
    let house = House::open(hasty_handshakes());
    let mut silent = TcpStream::connect(house.address).await.unwrap();
    assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0);
    assert_eq!(house.counters.handshakes_timed_out.get(), 1);
}

#[tokio::test]
async fn plain_http_is_no_handshake() {
    let house = House::open(Limits::default());
    let mut plain = TcpStream::connect(house.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    // An alert, then the end.
    let mut rest = Vec::new();
    drop(plain.read_to_end(&mut rest).await);
    assert_eq!(house.counters.handshakes_failed.get(), 1);
}

#[tokio::test]
async fn a_head_that_does_not_arrive_ends_the_connection() {
    let house = House::open(hardly_idle());
    let mut stream = house.handshake(house.trusting(Http::One, None)).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n").await.unwrap();
    let mut rest = Vec::new();
    drop(stream.read_to_end(&mut rest).await);
    assert!(!rest.starts_with(b"HTTP/1.1 200"), "{rest:?}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let house = House::open(Limits { head_bytes: 16 * 1024, ..Limits::default() });
    let large = "x".repeat(32 * 1024);
    for http in BOTH {
        let mut client = house.connect(http, None).await;
        // The server hangs up without reading the rest, and that may overtake its answer.
        let answer = client.send("/", &[("x-large", &large)]).await;
        assert!(answer.map_or(true, |response| response.status() == 431), "{http:?}");
    }
}

#[tokio::test]
async fn idle_connections_end_and_watches_do_not() {
    let house = House::open(hardly_idle());
    let mut watches = Vec::new();
    for http in BOTH {
        let mut client = house.connect(http, None).await;
        let mut watch = client.send("/watch", &[]).await.unwrap();
        assert_eq!(next_text(&mut watch).await, "first\n");
        watches.push((http, client, watch));
    }
    for http in BOTH {
        let mut idle = house.connect(http, None).await;
        idle.get("/", &[]).await;
        idle.ended.await.unwrap();
    }
    // The watches are older than those, so their silence was longer. Their connections are still good.
    for (http, client, _) in &mut watches {
        if *http == Http::Two {
            assert_eq!(client.get("/", &[]).await.0, 200);
        }
    }
    house.trigger.begin();
    for (_, _watcher, watch) in watches {
        assert_eq!(text(watch).await.unwrap(), "last\n");
    }
    assert_eq!(house.close().await, Drained { cut: 0 });
}

#[tokio::test]
async fn a_client_that_takes_no_bytes_is_cut() {
    for http in BOTH {
        let house = House::open(soon_stalled());
        let stream = house.handshake(house.trusting(http, None)).await.unwrap();
        let counters = house.counters.clone();
        // The request is sent by hand, because a client that is driven goes on reading.
        let mut stream = stream;
        match http {
            Http::One => stream.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap(),
            Http::Two => stream.write_all(&get_large(0x7fff_ffff)).await.unwrap(),
        }
        stream.read_u8().await.unwrap();
        // The drain lasts much longer than the stall: that nothing had to be cut at its end shows that it had ended.
        assert_eq!(house.close().await, Drained { cut: 0 }, "{http:?}");
        assert_eq!(counters.stalled.get(), 1, "{http:?}");
    }
}

#[tokio::test]
async fn a_client_that_opens_no_window_is_cut_although_it_reads() {
    let house = House::open(Limits { stream_stall: Duration::from_millis(100), ..Limits::default() });
    let mut stream = house.handshake(house.trusting(Http::Two, None)).await.unwrap();
    stream.write_all(&get_large(0)).await.unwrap();
    let mut read = Vec::new();
    // It ends without a farewell, which is not asked for here.
    drop(stream.read_to_end(&mut read).await);
    assert!(!read.is_empty(), "the head of the answer came");
    let counters = house.counters.clone();
    assert_eq!(house.close().await, Drained { cut: 0 });
    assert_eq!(counters.stalled.get(), 1);
}

/// The first bytes of an HTTP/2 client that gives each answer a window of that size: preface, settings, a window for the
/// connection, and a GET.
fn get_large(window: u32) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4]);
    bytes.extend(window.to_be_bytes());
    bytes.extend([0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0, 0, 0]);
    let mut head = vec![0x82, 0x87, 0x41, 1, b'x', 0x04, 6];
    head.extend(b"/large");
    bytes.extend([0, 0, u8::try_from(head.len()).unwrap(), 1, 5, 0, 0, 0, 1]);
    bytes.extend(head);
    bytes
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_place() {
    let house = House::open(Limits { connections: 1, ..Limits::default() });
    let mut first = house.connect(Http::One, None).await;
    first.get("/", &[]).await;
    let mut second = Box::pin(house.connect(Http::One, None));
    tokio::select! {
        biased;
        _ = &mut second => panic!("two at a time"),
        answer = first.get("/", &[]) => assert_eq!(answer.0, 200),
    }
    drop(first);
    assert_eq!(second.await.get("/", &[]).await.0, 200);
    assert_eq!(house.counters.full.get(), 2, "once for each of the two");
}

#[tokio::test]
async fn a_panic_costs_one_answer_and_no_connection() {
    let house = House::open(Limits::default());
    for http in BOTH {
        let mut client = house.connect(http, None).await;
        let (code, body) = client.get("/panic", &[]).await;
        let status: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code, &status["kind"], &status["reason"]), (500, &"Status".into(), &"InternalError".into()));
        assert_eq!(client.get("/", &[]).await.0, 200, "{http:?}");
    }
    assert_eq!(house.counters.panics.get(), 2);
}

#[tokio::test]
async fn a_shutdown_lets_watches_end_cleanly_and_takes_no_more() {
    for http in BOTH {
        let house = House::open(Limits::default());
        let mut client = house.connect(http, None).await;
        let mut watch = client.send("/watch", &[]).await.unwrap();
        assert_eq!(next_text(&mut watch).await, "first\n");
        let (address, config) = (house.address, house.trusting(http, None));
        assert_eq!(house.close().await, Drained { cut: 0 }, "{http:?}");
        assert_eq!(text(watch).await.unwrap(), "last\n", "the end is a proper one ({http:?})");
        // The port may be another test's by now, whose certificate is of an authority that this one does not trust.
        let knock = tokio::time::timeout(Duration::from_mins(1), house::handshake(address, config));
        assert!(knock.await.unwrap().is_err(), "it lets somebody in ({http:?})");
    }
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_idle_connections() {
    let house = House::open(Limits { drain: Duration::from_mins(10), ..Limits::default() });
    let mut one = house.connect(Http::One, None).await;
    let mut two = house.connect(Http::Two, None).await;
    one.get("/", &[]).await;
    two.get("/", &[]).await;
    let silent = TcpStream::connect(house.address).await.unwrap();
    assert_eq!(house.close().await, Drained { cut: 0 });
    drop(silent);
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut() {
    for http in BOTH {
        let house = House::open(Limits { drain: Duration::from_millis(100), ..Limits::default() });
        let mut client = house.connect(http, None).await;
        let stuck = house.stuck.clone();
        let (answer, drained) = tokio::join!(client.send("/stuck", &[]), async {
            stuck.notified().await;
            house.close().await
        });
        assert!(answer.is_err(), "{http:?}");
        assert_eq!(drained, Drained { cut: 1 }, "{http:?}");
    }
}
