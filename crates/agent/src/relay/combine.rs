//! Requests that plugins make at the same time, made as one.
//!
//! The server makes a patch by a compare-and-swap of the whole object and begins anew if that changed, so of many patches of one pool at
//! once all but one are made in vain. Here one request is under way for an object at a time. Patches that come meanwhile wait, and go
//! together as one patch, in the order in which they came; reads that come meanwhile share the next read, which begins after all of them
//! came. A patch of many that the server refuses is made in two halves.
//!
//! What nobody waits for is not sent, and a request that the last one stopped waiting for is dropped. That keeps work from the server, and
//! does not undo any: what was sent may be applied after its plugin has gone another way. Nothing is lost by that, because the plugin's
//! journal had it as owed before the request was made, and keeps it so for longer than a request can be on its way
//! (`cni::pool::release::OVERDUE`, 45 seconds).
//!
//! It knows neither sockets nor the server: what sends a request is given to it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How many requests are made as one; a patch may have ten thousand steps.
const MOST: usize = 64;
/// The kind of patch that can follow another one.
const JSON_PATCH: &str = "application/json-patch+json";

/// A request, as it is passed on.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// The path with its query.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What the server answers, or why there is no answer.
pub(super) type Answer = Result<Response<Full<Bytes>>, Refusal>;
/// What is said in place of the server.
pub(super) type Refusal = (StatusCode, String);

/// Requests that can be made as one.
type Line = (Method, String, Option<HeaderValue>);

struct Waiting {
    call: Call,
    /// The steps of its patch; a read has none.
    steps: Vec<Value>,
    until: Instant,
    tell: oneshot::Sender<Answer>,
}

/// See the module.
pub(super) struct Lines<S> {
    send: S,
    /// How long a request may take, with waiting for others.
    patience: Duration,
    /// Who waits in each line. A line is here while somebody works on it, also with nobody in it.
    waiting: Mutex<HashMap<Line, Vec<Waiting>>>,
}

impl<S> Lines<S> {
    fn lines(&self) -> MutexGuard<'_, HashMap<Line, Vec<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a line away when the work on it ends before the line does, as it does by a fault: nobody would work on it again. Who waits in it
/// is told, because what would tell them goes with the line.
struct Unfinished<'a, S> {
    lines: &'a Lines<S>,
    line: Option<&'a Line>,
}

impl<S> Drop for Unfinished<'_, S> {
    fn drop(&mut self) {
        if let Some(line) = self.line {
            self.lines.lines().remove(line);
        }
    }
}

impl<S, F> Lines<S>
where
    S: Fn(Call) -> F + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    pub(super) fn new(patience: Duration, send: S) -> Arc<Self> {
        Arc::new(Self { send, patience, waiting: Mutex::default() })
    }

    /// Makes a request, alone or with others.
    pub(super) async fn pass(self: &Arc<Self>, call: Call) -> Answer {
        let until = Instant::now() + self.patience;
        let late = || Err((StatusCode::GATEWAY_TIMEOUT, "the API server did not answer in time".to_owned()));
        let Some((line, steps)) = line(&call) else {
            return tokio::time::timeout_at(until, (self.send)(call)).await.unwrap_or_else(|_| late());
        };
        let (tell, told) = oneshot::channel();
        if self.join(&line, Waiting { call, steps, until, tell }) {
            // A task of its own: whoever came first may go away before the others have their answers.
            tokio::spawn(Arc::clone(self).work(line));
        }
        tokio::time::timeout_at(until, told).await.map_or_else(|_| late(), |told| told.unwrap_or_else(|_| late()))
    }

    /// Whether nobody works on this line yet.
    fn join(&self, line: &Line, waiting: Waiting) -> bool {
        match self.lines().entry(line.clone()) {
            Entry::Occupied(mut others) => {
                others.get_mut().push(waiting);
                false
            }
            Entry::Vacant(line) => {
                line.insert(vec![waiting]);
                true
            }
        }
    }

    async fn work(self: Arc<Self>, line: Line) {
        let mut unfinished = Unfinished { lines: &self, line: Some(&line) };
        while let Some(next) = self.next(&line) {
            self.make(next).await;
        }
        // It is gone, and another one of its name may be there already.
        unfinished.line = None;
    }

    /// Who is to be answered next; the line ends with the last.
    fn next(&self, line: &Line) -> Option<Vec<Waiting>> {
        let mut lines = self.lines();
        let waiting = lines.get_mut(line)?;
        if waiting.is_empty() {
            lines.remove(line);
            return None;
        }
        let count = waiting.len().min(MOST);
        Some(waiting.drain(..count).collect())
    }

    /// A patch that is refused is no write, and costs the server little: halves find the one that it was refused for sooner than one after
    /// the other.
    async fn make(&self, all: Vec<Waiting>) {
        let mut parts = vec![all];
        while let Some(mut part) = parts.pop() {
            part.retain(|one| !one.tell.is_closed());
            let Some(answer) = self.send(&mut part).await else { continue };
            if part.len() > 1 && may_be_for_one(&answer) {
                let rest = part.split_off(part.len() / 2);
                parts.extend([rest, part]);
                continue;
            }
            for one in part {
                // Who went away does not hear it.
                let _ = one.tell.send(answer.clone());
            }
        }
    }

    /// Sends one request for all of them, if there are any, and while one of them waits for it and none has waited too long.
    async fn send(&self, part: &mut [Waiting]) -> Option<Answer> {
        let call = together(part)?;
        let until = part.iter().map(|one| one.until).min()?;
        let all_gone = async {
            for one in part {
                one.tell.closed().await;
            }
        };
        tokio::select! {
            // What nobody waits for any more is not begun either.
            biased;
            () = tokio::time::sleep_until(until) => None,
            () = all_gone => None,
            answer = async { (self.send)(call).await } => Some(answer),
        }
    }
}

/// Which line a request waits in, and the steps of its patch; none if it is not to be made with others.
fn line(call: &Call) -> Option<(Line, Vec<Value>)> {
    let steps = if call.method == Method::GET { Vec::new() } else { steps(call)? };
    let line = (call.method.clone(), call.target.clone(), call.headers.get(header::ACCEPT).cloned());
    Some((line, steps))
}

/// The steps of a JSON patch that does not look beyond the specification. What the server sets, as the revision is, does not change from
/// step to step: a test of that would hold for two patches in one that come after each other.
fn steps(call: &Call) -> Option<Vec<Value>> {
    let is_patch =
        call.method == Method::PATCH && call.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == JSON_PATCH);
    let steps: Vec<Value> = is_patch.then(|| serde_json::from_slice(&call.body).ok())??;
    let is_inside = |path: &Value| path.as_str().is_some_and(|path| path.starts_with("/spec/"));
    let is_inside = |step: &Value| is_inside(&step["path"]) && step.get("from").is_none_or(is_inside);
    steps.iter().all(is_inside).then_some(steps)
}

/// One request for all of them.
fn together(all: &[Waiting]) -> Option<Call> {
    let first = all.first()?.call.clone();
    if all.len() == 1 || first.method == Method::GET {
        return Some(first);
    }
    let steps: Vec<&Value> = all.iter().flat_map(|one| &one.steps).collect();
    Some(Call { body: serde_json::to_vec(&steps).ok()?.into(), ..first })
}

/// Whether an answer to patches made as one may be about one of them alone: a test in it, or what it is made of, or how large they are.
fn may_be_for_one(answer: &Answer) -> bool {
    let about_one = [StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNPROCESSABLE_ENTITY];
    answer.as_ref().is_ok_and(|answer| about_one.contains(&answer.status()))
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use http_body_util::BodyExt;
    use tokio::sync::mpsc;
    use tokio::task::JoinHandle;

    use super::*;

    const POOL: &str = "/ippools/a";

    /// A request that the server was sent, and what to answer it with.
    type Sent = (Call, oneshot::Sender<Answer>);
    type Underway = Pin<Box<dyn Future<Output = Answer> + Send>>;
    type Server = Box<dyn Fn(Call) -> Underway + Send + Sync>;

    /// Lines to a server that a test answers for.
    fn lines() -> (Arc<Lines<Server>>, mpsc::UnboundedReceiver<Sent>) {
        let (arrive, arrived) = mpsc::unbounded_channel();
        let send: Server = Box::new(move |call| {
            let arrive = arrive.clone();
            Box::pin(async move {
                let (tell, told) = oneshot::channel();
                arrive.send((call, tell)).unwrap();
                told.await.unwrap()
            })
        });
        (Lines::new(Duration::from_mins(1), send), arrived)
    }

    fn call(method: Method, target: &str, body: &str) -> Call {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(JSON_PATCH))]);
        Call { method, target: target.to_owned(), headers, body: Bytes::copy_from_slice(body.as_bytes()) }
    }

    fn steps(numbers: &[u8]) -> String {
        let steps = numbers.iter().map(|number| format!(r#"{{"op":"remove","path":"/spec/allocations/{number}"}}"#));
        format!("[{}]", steps.collect::<Vec<_>>().join(","))
    }

    fn patch(number: u8) -> Call {
        call(Method::PATCH, POOL, &steps(&[number]))
    }

    fn said(status: u16, text: &str) -> Response<Full<Bytes>> {
        Response::builder().status(status).body(Full::from(text.to_owned())).unwrap()
    }

    async fn heard(task: JoinHandle<Answer>) -> (u16, String) {
        let (head, body) = task.await.unwrap().unwrap().into_parts();
        (head.status.as_u16(), String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
    }

    /// Makes requests in this order, while the first is under way; that one, and those that wait.
    async fn while_one_is_under_way(
        lines: &Arc<Lines<Server>>,
        arrived: &mut mpsc::UnboundedReceiver<Sent>,
        calls: Vec<Call>,
    ) -> (Sent, Vec<JoinHandle<Answer>>) {
        let mut tasks = Vec::new();
        let mut first = None;
        for call in calls {
            let lines = Arc::clone(lines);
            tasks.push(tokio::spawn(async move { lines.pass(call).await }));
            // One thread runs this: what was spawned comes as far as it can.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            if first.is_none() {
                first = arrived.recv().await;
            }
        }
        (first.unwrap(), tasks)
    }

    #[tokio::test]
    async fn patches_that_wait_are_made_as_one_in_their_order() {
        let (lines, mut arrived) = lines();
        let calls = vec![patch(1), patch(2), patch(3), patch(4)];
        let (first, tasks) = while_one_is_under_way(&lines, &mut arrived, calls).await;
        assert_eq!(first.0.body, steps(&[1]));
        assert!(arrived.try_recv().is_err(), "one at a time");
        first.1.send(Ok(said(200, "one"))).unwrap();
        let (second, tell) = arrived.recv().await.unwrap();
        assert_eq!((second.body, second.target.as_str()), (Bytes::from(steps(&[2, 3, 4])), POOL));
        tell.send(Ok(said(200, "all"))).unwrap();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(heard(task).await.1);
        }
        assert_eq!(answers, ["one", "all", "all", "all"]);
        assert!(lines.lines().is_empty(), "nothing is left of a line");
    }

    #[tokio::test]
    async fn what_is_refused_of_many_is_made_in_halves() {
        let (lines, mut arrived) = lines();
        let calls = (1..=6).map(patch).collect();
        let (first, tasks) = while_one_is_under_way(&lines, &mut arrived, calls).await;
        first.1.send(Ok(said(200, ""))).unwrap();
        // The third is refused.
        let requests: [(&[u8], u16); 5] =
            [(&[2, 3, 4, 5, 6], 422), (&[2, 3], 422), (&[2], 200), (&[3], 422), (&[4, 5, 6], 200)];
        for (numbers, status) in requests {
            let (call, tell) = arrived.recv().await.unwrap();
            assert_eq!(call.body, steps(numbers));
            tell.send(Ok(said(status, ""))).unwrap();
        }
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(heard(task).await.0);
        }
        assert_eq!(answers, [200, 200, 422, 200, 200, 200]);
    }

    #[tokio::test]
    async fn what_is_true_of_all_is_said_to_all() {
        for status in [403, 404, 409, 429, 500] {
            let (lines, mut arrived) = lines();
            let calls = vec![patch(1), patch(2), patch(3)];
            let (first, tasks) = while_one_is_under_way(&lines, &mut arrived, calls).await;
            first.1.send(Ok(said(200, ""))).unwrap();
            arrived.recv().await.unwrap().1.send(Ok(said(status, ""))).unwrap();
            for task in tasks.into_iter().skip(1) {
                assert_eq!(heard(task).await.0, status);
            }
            assert!(arrived.try_recv().is_err());
        }
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_not_asked_for_each() {
        let (lines, mut arrived) = lines();
        let (first, tasks) = while_one_is_under_way(&lines, &mut arrived, vec![patch(1), patch(2), patch(3)]).await;
        first.1.send(Ok(said(200, ""))).unwrap();
        let away = (StatusCode::BAD_GATEWAY, "away".to_owned());
        arrived.recv().await.unwrap().1.send(Err(away.clone())).unwrap();
        for task in tasks.into_iter().skip(1) {
            assert_eq!(task.await.unwrap().unwrap_err(), away);
        }
        assert!(arrived.try_recv().is_err());
    }

    #[tokio::test]
    async fn reads_share_one_that_began_after_they_came() {
        let (lines, mut arrived) = lines();
        let get = || call(Method::GET, POOL, "");
        let (first, tasks) = while_one_is_under_way(&lines, &mut arrived, vec![get(), get(), get()]).await;
        first.1.send(Ok(said(200, "before"))).unwrap();
        arrived.recv().await.unwrap().1.send(Ok(said(404, "after"))).unwrap();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(heard(task).await.1);
        }
        assert_eq!(answers, ["before", "after", "after"]);
        assert!(arrived.try_recv().is_err());
    }

    #[tokio::test]
    async fn nobody_waits_for_another_object_or_for_what_cannot_follow_another() {
        let (lines, mut arrived) = lines();
        let calls = vec![
            patch(1),
            call(Method::PATCH, "/ippools/b", &steps(&[1])),
            call(Method::POST, POOL, "1"),
            call(Method::POST, POOL, "2"),
            call(Method::PATCH, POOL, r#"[{"op":"test","path":"/metadata/resourceVersion","value":"5"}]"#),
            call(Method::PATCH, POOL, r#"[{"op":"move","path":"/spec/range","from":"/metadata/name"}]"#),
            call(Method::PATCH, POOL, "no patch"),
        ];
        let (_first, tasks) = while_one_is_under_way(&lines, &mut arrived, calls).await;
        for _ in 0..6 {
            arrived.try_recv().unwrap().1.send(Ok(said(200, ""))).unwrap();
        }
        for task in tasks.into_iter().skip(1) {
            assert_eq!(heard(task).await.0, 200);
        }
    }

    #[tokio::test]
    async fn the_first_may_go_away_and_what_nobody_waits_for_is_not_sent() {
        let (lines, mut arrived) = lines();
        let calls = vec![patch(1), patch(2), patch(3), patch(4)];
        let (mut first, tasks) = while_one_is_under_way(&lines, &mut arrived, calls).await;
        for gone in [0, 2] {
            tasks[gone].abort();
        }
        first.1.closed().await;
        let (second, tell) = arrived.recv().await.unwrap();
        assert_eq!(second.body, steps(&[2, 4]));
        tell.send(Ok(said(200, ""))).unwrap();
        for task in tasks.into_iter().skip(1).step_by(2) {
            assert_eq!(heard(task).await.0, 200);
        }
    }

    #[tokio::test]
    async fn a_request_ends_with_the_last_that_waits_for_it() {
        let (lines, mut arrived) = lines();
        let (first, tasks) = while_one_is_under_way(&lines, &mut arrived, vec![patch(1), patch(2), patch(3)]).await;
        first.1.send(Ok(said(200, ""))).unwrap();
        let (_, mut tell) = arrived.recv().await.unwrap();
        tasks[1].abort();
        tokio::task::yield_now().await;
        assert!(!tell.is_closed(), "one waits still");
        tasks[2].abort();
        tell.closed().await;
    }

    #[tokio::test]
    async fn a_line_whose_work_fails_ends_and_the_next_request_begins_another() {
        let (arrive, mut arrived) = mpsc::unbounded_channel::<Sent>();
        let send: Server = Box::new(move |call| {
            let arrive = arrive.clone();
            Box::pin(async move {
                let (tell, told) = oneshot::channel();
                arrive.send((call, tell)).unwrap();
                told.await.expect("the test makes the work on the line fail")
            })
        });
        let lines = Lines::new(Duration::from_mins(1), send);
        let (first, tasks) = while_one_is_under_way(&lines, &mut arrived, vec![patch(1), patch(2), patch(3)]).await;
        drop(first);
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap_err().0, StatusCode::GATEWAY_TIMEOUT);
        }
        assert!(lines.lines().is_empty(), "nothing is left of the line");
        let (next, tasks) = while_one_is_under_way(&lines, &mut arrived, vec![patch(4)]).await;
        next.1.send(Ok(said(200, ""))).unwrap();
        for task in tasks {
            assert_eq!(heard(task).await.0, 200);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_late_is_not_sent() {
        let (lines, mut arrived) = lines();
        for _ in 0..100 {
            let (tell, told) = oneshot::channel();
            let call = patch(1);
            let steps = super::steps(&call).unwrap();
            let mut late = [Waiting { call, steps, until: Instant::now(), tell }];
            assert!(lines.send(&mut late).await.is_none());
            drop(told);
            late[0].until += Duration::from_secs(1);
            assert!(lines.send(&mut late).await.is_none(), "nobody waits");
        }
        assert!(arrived.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_longer_than_the_patience_whatever_becomes_of_the_line() {
        let (lines, _arrived) = lines();
        let (line, _) = super::line(&patch(1)).unwrap();
        // A line that nobody works on.
        lines.lines().insert(line, Vec::new());
        let begun = Instant::now();
        let answer = tokio::time::timeout(Duration::from_hours(1), lines.pass(patch(1))).await;
        assert_eq!(answer.expect("it ends").unwrap_err().0, StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(begun.elapsed(), Duration::from_mins(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_ends_when_one_has_waited_too_long_and_the_line_goes_on() {
        let (lines, mut arrived) = lines();
        let (mut first, tasks) = while_one_is_under_way(&lines, &mut arrived, vec![patch(1)]).await;
        tokio::time::advance(Duration::from_secs(50)).await;
        let second = tokio::spawn({
            let lines = Arc::clone(&lines);
            async move { lines.pass(patch(2)).await }
        });
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(11)).await;
        first.1.closed().await;
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap_err().0, StatusCode::GATEWAY_TIMEOUT);
        }
        let (call, tell) = arrived.recv().await.unwrap();
        assert_eq!(call.body, steps(&[2]));
        tell.send(Ok(said(200, ""))).unwrap();
        assert_eq!(heard(second).await.0, 200);
    }
}
