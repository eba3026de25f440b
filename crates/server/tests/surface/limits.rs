//! Requests that ask for more than one request may have: each is refused or cut, and the server goes on.

use serde_json::{Value, json};

use crate::fixture::{CONFIG_MAPS, Fixture, config_map};

#[tokio::test]
async fn a_json_patch_cannot_make_an_object_any_size_or_any_depth() {
    let fixture = Fixture::new().await;
    let made = fixture.config_map("a").await;
    let url = format!("{CONFIG_MAPS}/a");
    let wide = |n: usize| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/x{n}")});
    let deep = |n: usize| json!({"op": "copy", "from": "/data", "path": format!("/data{}", "/key".repeat(1 << n))});
    for bomb in [(0..40).map(wide).collect::<Value>(), (0..16).map(deep).collect()] {
        let status = fixture.patch(&url, "json-patch", &bomb).await.expect(422);
        assert_eq!(status["reason"], "Invalid");
        assert_eq!(status["message"], "the server rejected our request due to an error in our request");
        assert_eq!(status["details"], json!({}), "clients know it with details");
    }
    assert_eq!(fixture.get(&url).await.expect(200), made);
}

#[tokio::test]
async fn a_timeout_beyond_all_time_is_refused_as_one_that_cannot_be_read() {
    let fixture = Fixture::new().await;
    let answer = fixture.get(&format!("{CONFIG_MAPS}?timeout=18000000000000000000s18000000000000000000s")).await;
    answer.expect(400);
    assert!(answer.message().starts_with("invalid timeout specified in the request URL"), "{}", answer.text());
}

#[tokio::test]
async fn many_long_warnings_fit_into_the_headers() {
    let fixture = Fixture::new().await;
    let mut odd = config_map("a");
    for n in 0..200 {
        odd[format!("{n:03}{}", "x".repeat(5_000))] = json!(n);
    }
    let answer = fixture.post(CONFIG_MAPS, &odd).await;
    answer.expect(201);
    let told: Vec<_> = answer.headers.get_all("warning").iter().map(http::HeaderValue::len).collect();
    assert_eq!(told.len(), 16);
    assert!(told.iter().sum::<usize>() < 5_000, "{told:?}");
}
