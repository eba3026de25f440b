//! Answers in protobuf, for clients that take nothing else.

use api::protobuf::{self, Decoded};
use bytes::Bytes;
use futures_util::StreamExt;
use http::Method;
use serde_json::{Value, json};
use server::{Content, Reply};

use crate::fixture::{Answer, CONFIG_MAPS, Fixture, config_map};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PARTIAL: &str = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const RANGES: &str = "/apis/networking.x-k8s.io/v1/clustercidrs";

/// Sends JSON and takes that.
async fn ask(fixture: &Fixture, method: Method, url: &str, accept: &str, body: &Value) -> Answer {
    let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    fixture.send(method, url, &[("accept", accept), ("content-type", media)], &body).await
}

async fn get(fixture: &Fixture, url: &str, accept: &str) -> Answer {
    ask(fixture, Method::GET, url, accept, &Value::Null).await
}

#[track_caller]
fn media_type(answer: &Answer) -> &str {
    answer.headers["content-type"].to_str().unwrap()
}

/// What is in an answer, which is in protobuf.
#[track_caller]
fn read(answer: &Answer, code: u16) -> Value {
    assert_eq!(media_type(answer), PROTOBUF, "{}", answer.text());
    let decoded = protobuf::decode(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.text()));
    assert_eq!(answer.code.as_u16(), code, "{decoded:?}");
    decoded.value
}

#[tokio::test]
async fn what_is_written_and_read_is_the_same_as_in_json() {
    let fixture = Fixture::new().await;
    let made = read(&ask(&fixture, Method::POST, CONFIG_MAPS, PROTOBUF, &config_map("a")).await, 201);
    let url = format!("{CONFIG_MAPS}/a");
    assert_eq!(made, fixture.get(&url).await.expect(200));
    assert_eq!(read(&get(&fixture, &url, PROTOBUF).await, 200), made);
    let patch = json!({"data": {"key": "other"}});
    let patched = read(&ask(&fixture, Method::PATCH, &url, PROTOBUF, &patch).await, 200);
    assert_eq!(patched, fixture.get(&url).await.expect(200));
    let replaced = read(&ask(&fixture, Method::PUT, &url, PROTOBUF, &config_map("a")).await, 200);
    assert_eq!(replaced["data"], json!({"key": "value"}));
    let tried = ask(&fixture, Method::POST, &format!("{CONFIG_MAPS}?dryRun=All"), PROTOBUF, &config_map("b")).await;
    assert_eq!(read(&tried, 201)["metadata"]["name"], "b");
    let mut list = read(&get(&fixture, CONFIG_MAPS, PROTOBUF).await, 200);
    let mut plain = fixture.get(CONFIG_MAPS).await.expect(200);
    for list in [&mut list, &mut plain] {
        list["items"].as_array_mut().unwrap().retain(|item| item["metadata"]["name"] == "a");
    }
    assert_eq!(list, plain);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let gone = read(&ask(&fixture, Method::DELETE, &url, PROTOBUF, &Value::Null).await, 200);
    assert_eq!((&gone["kind"], &gone["status"]), (&json!("Status"), &json!("Success")), "{gone}");
    assert_eq!(gone["details"]["uid"], made["metadata"]["uid"]);
    let missing = read(&get(&fixture, &url, PROTOBUF).await, 404);
    assert_eq!(missing, fixture.get(&url).await.expect(404));
    let all = read(&ask(&fixture, Method::DELETE, CONFIG_MAPS, PROTOBUF, &Value::Null).await, 200);
    assert_eq!(all["kind"], "ConfigMapList");
}

#[tokio::test]
async fn who_takes_json_as_well_gets_what_is_at_hand() {
    let fixture = Fixture::new().await;
    let url = format!("{CONFIG_MAPS}/a");
    fixture.config_map("a").await;
    for accept in [format!("{PROTOBUF},application/json"), format!("{PROTOBUF}, */*")] {
        assert_eq!(media_type(&get(&fixture, &url, &accept).await), "application/json", "{accept}");
        assert_eq!(media_type(&get(&fixture, &format!("{url}x"), &accept).await), "application/json", "{accept}");
    }
    let less = get(&fixture, &url, &format!("{PROTOBUF},application/json;q=0.5")).await;
    assert_eq!(media_type(&less), PROTOBUF);
}

#[tokio::test]
async fn a_long_list_is_sent_in_pieces() {
    const EACH: usize = 100_000;
    let fixture = Fixture::new().await;
    for number in 0..12 {
        let mut map = config_map(&format!("map-{number:02}"));
        map["data"]["text"] = json!("x".repeat(EACH));
        fixture.post(CONFIG_MAPS, &map).await.expect(201);
    }
    for accept in [PROTOBUF.to_owned(), format!("{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")] {
        let whole = accept != PROTOBUF;
        let Reply { content, .. } = fixture.reply(Method::GET, CONFIG_MAPS, &[("accept", &accept)], b"").await;
        let pieces: Vec<_> = match content {
            Content::Whole(bytes) if whole => vec![bytes],
            Content::Pieces(pieces) if !whole => pieces.map(Result::unwrap).collect().await,
            _ => panic!("{accept}"),
        };
        assert!(
            pieces.iter().all(|piece| piece.len() < 512 * 1024),
            "{:?}",
            pieces.iter().map(Bytes::len).collect::<Vec<_>>()
        );
        let list = protobuf::decode(&pieces.concat()).unwrap().value;
        let names: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
        assert_eq!(names.iter().filter(|name| name.as_str().unwrap().starts_with("map-")).count(), 12, "{names:?}");
    }
    let page = read(&get(&fixture, &format!("{CONFIG_MAPS}?limit=2"), PROTOBUF).await, 200);
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert!(page["metadata"]["remainingItemCount"].as_i64() >= Some(10), "{}", page["metadata"]);
    let next = format!("{CONFIG_MAPS}?limit=2&continue={}", page["metadata"]["continue"].as_str().unwrap());
    assert_eq!(read(&get(&fixture, &next, PROTOBUF).await, 200)["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn metadata_alone_is_there_of_every_kind() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    let range = json!({
        "apiVersion": "networking.x-k8s.io/v1", "kind": "ClusterCIDR", "metadata": {"name": "r"},
        "spec": {"perNodeHostBits": 8, "ipv4": "10.0.0.0/16"},
    });
    fixture.post(RANGES, &range).await.expect(201);
    for (collection, name) in [(CONFIG_MAPS, "a"), (RANGES, "r")] {
        for version in ["v1", "v1beta1"] {
            let as_partial = |encoding: &str| format!("{encoding};{PARTIAL}").replace("v=v1", &format!("v={version}"));
            let url = format!("{collection}/{name}");
            let one = read(&get(&fixture, &url, &as_partial(PROTOBUF)).await, 200);
            let plain = get(&fixture, &url, &as_partial("application/json")).await.expect(200);
            assert_eq!(one, plain, "{url}");
            let all = read(&get(&fixture, collection, &as_partial(PROTOBUF)).await, 200);
            assert_eq!(all["kind"], "PartialObjectMetadataList");
            let items = all["items"].as_array().unwrap();
            assert!(items.iter().any(|item| item["metadata"] == plain["metadata"]), "{url}: {all}");
        }
    }
    // What went wrong is no metadata.
    let missing = get(&fixture, &format!("{RANGES}/none"), &format!("{PROTOBUF};{PARTIAL}")).await;
    assert_eq!((media_type(&missing), missing.expect(404)["reason"].as_str()), ("application/json", Some("NotFound")));
}

#[tokio::test]
async fn what_there_is_no_protobuf_of_is_refused_in_the_words_that_clients_know() {
    let fixture = Fixture::new().await;
    let only = "only the following media types are accepted: application/json, application/yaml, \
                application/vnd.kubernetes.protobuf";
    for url in [RANGES.to_owned(), format!("{RANGES}/none"), format!("{RANGES}?watch=1")] {
        let own = read(&get(&fixture, &url, PROTOBUF).await, 406);
        assert_eq!((own["message"].as_str(), &own["reason"]), (Some(only), &json!("NotAcceptable")), "{url}");
    }
    let table = get(&fixture, CONFIG_MAPS, &format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1")).await;
    assert_eq!((media_type(&table), table.expect(406)["message"].as_str()), ("application/json", Some(only)));
    let yaml = get(&fixture, &format!("{CONFIG_MAPS}?watch=1"), "application/yaml").await;
    assert_eq!((yaml.code.as_u16(), media_type(&yaml)), (406, "application/yaml"));
    let patch = [("content-type", PROTOBUF), ("accept", PROTOBUF)];
    let patched = fixture.send(Method::PATCH, &format!("{CONFIG_MAPS}/a"), &patch, "").await;
    assert_eq!(read(&patched, 415)["message"], "415: Unsupported Media Type");
}

#[tokio::test]
async fn discovery_is_there_in_protobuf() {
    let fixture = Fixture::new().await;
    for url in ["/api", "/apis", "/api/v1", "/apis/networking.k8s.io", "/apis/networking.k8s.io/v1"] {
        let answer = get(&fixture, url, PROTOBUF).await;
        assert_eq!(media_type(&answer), PROTOBUF);
        let plain = fixture.get(url).await.expect(200);
        let text = |name: &str| plain[name].as_str().unwrap_or_default();
        // The reader wants a version, which the oldest of these documents do not have.
        let opened = protobuf::Envelope::open(&answer.body).unwrap();
        assert_eq!((&*opened.api_version, &*opened.kind), (text("apiVersion"), text("kind")), "{url}");
        let Decoded { mut value, .. } = opened.or("v1", "").decode().unwrap();
        if text("apiVersion").is_empty() {
            value.as_object_mut().unwrap().remove("apiVersion");
        }
        assert_eq!(value, plain, "{url}");
    }
    let aggregated = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let mut answer = get(&fixture, "/apis", &format!("{PROTOBUF};{aggregated}")).await;
    assert_eq!(media_type(&answer), format!("{PROTOBUF};{aggregated}"));
    answer.headers.insert("content-type", PROTOBUF.parse().unwrap());
    let all = read(&answer, 200);
    assert_eq!(all, get(&fixture, "/apis", &format!("application/json;{aggregated}")).await.expect(200));
    assert_eq!(get(&fixture, "/api/v1", "application/yaml").await.code, 200);
    assert_eq!(get(&fixture, "/version", PROTOBUF).await.expect(200)["minor"], "36");
}

/// The next event of a watch: its type and its object.
fn event(frames: &mut Vec<u8>) -> Option<(String, Value)> {
    let length = u32::from_be_bytes(frames.get(..4)?.try_into().unwrap()) as usize;
    let frame: Vec<u8> = frames.drain(..4 + length).skip(4).collect();
    let number = |at: &mut usize| {
        let begin = *at;
        while frame[*at] >= 0x80 {
            *at += 1;
        }
        *at += 1;
        frame[begin..*at].iter().rev().fold(0, |all, byte| all << 7 | usize::from(byte & 0x7f))
    };
    let mut at = 1;
    let length = number(&mut at);
    let what = String::from_utf8(frame[at..at + length].to_vec()).unwrap();
    at += length + 1;
    number(&mut at);
    at += 1;
    assert_eq!(number(&mut at), frame.len() - at);
    Some((what, protobuf::decode(&frame[at..]).unwrap().value))
}

#[tokio::test]
async fn a_watch_is_frames_of_the_events_that_it_has_in_json() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    let initial = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let url = format!("{CONFIG_MAPS}?{initial}&fieldSelector=metadata.name=a");
    for accept in [PROTOBUF.to_owned(), format!("{PROTOBUF};{PARTIAL}")] {
        let reply = fixture.reply(Method::GET, &url, &[("accept", &accept)], b"").await;
        assert_eq!(reply.headers["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
        let Content::Live(mut pieces) = reply.content else { panic!("no watch") };
        let mut plain = fixture.watch(&url).await;
        let object = format!("{CONFIG_MAPS}/a");
        fixture.patch(&object, "merge-patch", &json!({"data": {"key": "other"}})).await.expect(200);
        fixture.delete(&object).await.expect(200);
        let mut frames = Vec::new();
        for expected in ["ADDED", "BOOKMARK", "MODIFIED", "DELETED"] {
            let (what, got) = loop {
                if let Some(event) = event(&mut frames) {
                    break event;
                }
                frames.extend_from_slice(&pieces.next().await.unwrap().unwrap());
            };
            assert_eq!(what, expected);
            let json = plain.next().await.unwrap();
            assert_eq!(json["type"], expected);
            if accept == PROTOBUF {
                assert_eq!(got, json["object"]);
            } else {
                assert_eq!(got["kind"], "PartialObjectMetadata");
                assert_eq!(got["metadata"], json["object"]["metadata"]);
            }
        }
        fixture.config_map("a").await;
    }
}

#[tokio::test]
async fn a_watch_that_cannot_go_on_says_so_in_its_last_frame() {
    let fixture = Fixture::new().await;
    fixture.config_map("a").await;
    fixture.server.store().compact(fixture.server.store().revision()).await.unwrap();
    let url = format!("{CONFIG_MAPS}?watch=1&resourceVersion=1");
    let answer = get(&fixture, &url, PROTOBUF).await;
    let (what, status) = event(&mut answer.body.to_vec()).unwrap();
    assert_eq!((what.as_str(), &status["reason"], &status["code"]), ("ERROR", &json!("Expired"), &json!(410)));
}
