//! Questions: who somebody is, what they may do, and tokens.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use server::Config;
use server::access::accounts::{ISSUER, Issuer, new_key};
use server::access::{Authenticator, READERS, User};

use crate::fixture::Fixture;

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

#[tokio::test]
async fn an_access_review_says_what_would_be_decided() {
    let fixture = Fixture::new().await;
    let ask = async |spec: Value| {
        let answer = fixture.post(&format!("{AUTHORIZATION}/subjectaccessreviews"), &json!({"spec": spec})).await;
        answer.expect(201)["status"].clone()
    };
    let get = |resource: &str| json!({"verb": "get", "resource": resource});
    let reader = json!([READERS]);
    assert_eq!(ask(json!({"groups": reader, "resourceAttributes": get("pods")})).await, json!({"allowed": true}));
    assert_eq!(ask(json!({"groups": reader, "resourceAttributes": get("secrets")})).await, json!({"allowed": false}));
    let path = json!({"verb": "get", "path": "/livez"});
    assert_eq!(ask(json!({"user": "jane", "nonResourceAttributes": path})).await, json!({"allowed": true}));
    let mut wrong = get("pods");
    wrong["labelSelector"] = json!({"rawSelector": "a===b"});
    wrong["fieldSelector"] = json!({"requirements": [
        {"key": "a", "operator": "In", "values": ["b"]}, {"key": "a", "operator": "Exists"}
    ]});
    assert_eq!(
        ask(json!({"user": "jane", "resourceAttributes": wrong})).await["evaluationError"],
        "spec.resourceAttributes.fieldSelector partially ignored due to parse error; \
         spec.resourceAttributes.labelSelector ignored due to parse error"
    );
    let own = fixture
        .post(&format!("{AUTHORIZATION}/selfsubjectaccessreviews"), &json!({"spec": {"resourceAttributes": get("x")}}))
        .await;
    assert_eq!(own.expect(201)["status"], json!({"allowed": true}));
}

#[tokio::test]
async fn a_question_that_is_not_valid_is_refused_in_the_known_words() {
    let fixture = Fixture::new().await;
    let answer = fixture.post(&format!("{AUTHORIZATION}/selfsubjectaccessreviews"), &json!({"spec": {}})).await;
    let status = answer.expect(422);
    assert_eq!(
        answer.message(),
        ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of \
         nonResourceAttributes or resourceAttributes must be specified"
    );
    assert_eq!(
        (&status["details"]["group"], &status["details"]["kind"]),
        (&json!("authorization.k8s.io"), &Value::Null)
    );
    let answer = fixture.post(&format!("{AUTHORIZATION}/selfsubjectrulesreviews"), &json!({})).await;
    assert_eq!((answer.code.as_u16(), answer.message().as_str()), (400, "no namespace on request"));
    let answer = fixture.post(&format!("{AUTHENTICATION}/tokenreviews"), &json!({})).await;
    assert_eq!(answer.message(), "token is required for TokenReview in authentication");
    let strict = format!("{AUTHENTICATION}/selfsubjectreviews?fieldValidation=Strict");
    fixture.post(&strict, &json!({"foo": 1})).await.expect(400);
    let warned = fixture.post(&format!("{AUTHENTICATION}/selfsubjectreviews"), &json!({"foo": 1})).await;
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"foo\\\"\"");
}

#[tokio::test]
async fn a_question_can_be_asked_in_protobuf_and_nothing_else_can_be_done_with_it() {
    let fixture = Fixture::new().await;
    let url = format!("{AUTHENTICATION}/selfsubjectreviews");
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let bytes = api::protobuf::encode("authentication.k8s.io/v1", "SelfSubjectReview", &review).unwrap();
    let headers = [("content-type", "application/vnd.kubernetes.protobuf"), ("accept", "application/json")];
    let who = fixture.send_bytes(Method::POST, &url, &headers, &bytes).await.expect(201);
    assert_eq!(who["status"]["userInfo"]["username"], "admin");
    assert_eq!(who["status"]["userInfo"]["groups"], json!(["system:masters", "system:authenticated"]));
    fixture.get(&url).await.expect(405);
    fixture.delete(&url).await.expect(405);
    fixture.get(&format!("{url}/x")).await.expect(404);
    fixture.post(&format!("{AUTHORIZATION}/localsubjectaccessreviews"), &json!({})).await.expect(404);
}

#[tokio::test]
async fn the_rules_of_a_user_are_told() {
    let fixture = Fixture::new().await;
    let url = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let status = fixture.post(&url, &json!({"spec": {"namespace": "default"}})).await.expect(201)["status"].clone();
    assert_eq!(status["resourceRules"][0], json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
    assert_eq!(status["incomplete"], false);
    let paths = status["nonResourceRules"].as_array().unwrap();
    assert!(paths.contains(&json!({"verbs": ["*"], "nonResourceURLs": ["*"]})), "{paths:?}");
}

/// A server that gives out tokens, and knows one already.
async fn issuing() -> Fixture {
    let mut authenticator = Authenticator::default();
    authenticator.admit("s3cret", User::authenticated("jane", []));
    let issuer = Arc::new(Issuer::new(ISSUER, &new_key().unwrap()).unwrap());
    Fixture::over(|store| {
        authenticator.trust(Arc::clone(&issuer), server::lookup(store.clone()));
        Config { authenticator: Arc::new(authenticator), issuer: Some(issuer), ..Config::default() }
    })
    .await
}

async fn reviewed(fixture: &Fixture, spec: Value) -> Value {
    let url = format!("{AUTHENTICATION}/tokenreviews");
    fixture.post(&url, &json!({"spec": spec})).await.expect(201)["status"].clone()
}

#[tokio::test]
async fn a_token_of_an_account_is_good_until_the_account_is_gone() {
    let fixture = issuing().await;
    let account = fixture.post(ACCOUNTS, &json!({"metadata": {"name": "bot"}})).await.expect(201);
    let url = format!("{ACCOUNTS}/bot/token");
    let made = fixture.post(&url, &json!({"spec": {"expirationSeconds": 700}})).await.expect(201);
    assert_eq!(made["kind"], "TokenRequest");
    assert_eq!(made["metadata"]["uid"], account["metadata"]["uid"]);
    assert_eq!(made["spec"], json!({"audiences": [ISSUER], "expirationSeconds": 700, "boundObjectRef": null}));
    let token = made["status"]["token"].clone();
    let status = reviewed(&fixture, json!({"token": token})).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!([ISSUER])));
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:bot");
    let other = reviewed(&fixture, json!({"token": token, "audiences": ["a"]})).await;
    assert!(other["error"].as_str().unwrap().starts_with("[invalid bearer token, token audiences"), "{other}");
    fixture.delete(&format!("{ACCOUNTS}/bot")).await.expect(200);
    fixture.post(ACCOUNTS, &json!({"metadata": {"name": "bot"}})).await.expect(201);
    let status = reviewed(&fixture, json!({"token": token})).await;
    assert_eq!((&status["authenticated"], &status["user"]), (&Value::Null, &json!({})), "another one of that name");
}

#[tokio::test]
async fn a_token_can_be_bound_to_what_is_there_and_ends_with_it() {
    let fixture = issuing().await;
    fixture.post(ACCOUNTS, &json!({"metadata": {"name": "bot"}})).await.expect(201);
    let secrets = "/api/v1/namespaces/default/secrets";
    fixture.post(secrets, &json!({"metadata": {"name": "s"}})).await.expect(201);
    let url = format!("{ACCOUNTS}/bot/token");
    let bound =
        |kind: &str, name: &str| json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}}});
    let made = fixture.post(&url, &bound("Secret", "s")).await.expect(201);
    let token = made["status"]["token"].clone();
    assert_eq!(reviewed(&fixture, json!({"token": token})).await["authenticated"], true);
    fixture.delete(&format!("{secrets}/s")).await.expect(200);
    let gone = reviewed(&fixture, json!({"token": token})).await;
    assert_eq!(gone["error"], "[invalid bearer token, service account token has been invalidated]");
    for (body, code, message) in [
        (bound("Pod", "x"), 404, "pods \"x\" not found"),
        (bound("ConfigMap", "x"), 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
        (
            json!({"metadata": {"name": "x"}}),
            422,
            "TokenRequest.authentication.k8s.io \"bot\" is invalid: metadata.name: Invalid value: \"x\": must match the \
             service account name if specified",
        ),
    ] {
        let answer = fixture.post(&url, &body).await;
        assert_eq!((answer.code.as_u16(), answer.message().as_str()), (code, message));
    }
    fixture.post(&format!("{ACCOUNTS}/nobody/token"), &json!({})).await.expect(404);
    let known = reviewed(&fixture, json!({"token": "s3cret"})).await;
    assert_eq!(known["user"]["username"], "jane");
    assert_eq!(reviewed(&fixture, json!({"token": "wrong"})).await["error"], "invalid bearer token");
}

#[tokio::test]
async fn what_a_token_is_checked_with_is_published() {
    let fixture = issuing().await;
    let description = fixture.get("/.well-known/openid-configuration").await.expect(200);
    assert_eq!(description["issuer"], ISSUER);
    let answer = fixture.get("/openid/v1/jwks").await;
    assert_eq!(answer.headers["content-type"], "application/jwk-set+json");
    assert_eq!(answer.expect(200)["keys"][0]["alg"], "ES256");
    Fixture::new().await.get("/openid/v1/jwks").await.expect(404);
}
