//! Following what others write, for `cargo xtask e2e soak`: what watchers say is written down, and at the end what is cached.
//!
//! The books are those of `xtask/peers/clients/follow.go`; but kube-rs does not say at which revision a list was, nor whether an
//! object is new, nor that there was a bookmark.

use std::fmt::Debug;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use futures::{Stream, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Resource, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use crate::host::{Host, Order};
use crate::world::{client, until};
use crate::{PATIENCE, Verdict};

/// The annotation that says which write made an object what it is.
const MARK: &str = "mark";
/// What is written last, so that those who follow know that they have seen everything.
const LAST: (&str, &str) = ("soak-0", "the-end");

type Watched<K> = Result<Event<K>, watcher::Error>;

/// What a watcher says, written down.
struct Book<K: Resource<DynamicType = ()> + Clone + 'static> {
    name: String,
    resource: &'static str,
    payload: Payload<K>,
    out: Arc<Mutex<BufWriter<File>>>,
    cache: Store<K>,
}

/// The mark in what an object is about, if that is known.
type Payload<K> = fn(&K) -> Option<String>;

impl<K> Book<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    /// Opens a book and begins to follow.
    fn open(
        folder: &Path,
        how: &str,
        resource: &'static str,
        payload: Payload<K>,
        stream: impl Stream<Item = Watched<K>> + Send + 'static,
    ) -> Result<Self> {
        let name = format!("kube-rs-{how}-{resource}");
        let out = Arc::new(Mutex::new(BufWriter::new(File::create(folder.join(format!("{name}.book")))?)));
        let (cache, writer) = store();
        let book = Self { name, resource, payload, out, cache };
        let write = {
            let out = book.out.clone();
            move |line: String| out.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())
        };
        let stream = stream.default_backoff().reflect(writer);
        tokio::spawn(async move {
            let mut stream = Box::pin(stream);
            let mut gathered = String::new();
            while let Some(event) = stream.next().await {
                let line = match event {
                    // Cut off, or the server is down; it goes on by itself.
                    Err(_) => continue,
                    Ok(Event::Init) => {
                        gathered.clear();
                        continue;
                    }
                    Ok(Event::InitApply(object)) => {
                        gathered += &entry("item", resource, &object, payload);
                        continue;
                    }
                    Ok(Event::InitDone) => std::mem::take(&mut gathered) + "listed 0\n",
                    Ok(Event::Apply(object)) => entry("APPLIED", resource, &object, payload),
                    Ok(Event::Delete(object)) => entry("DELETED", resource, &object, payload),
                };
                if write(line).is_err() {
                    return;
                }
            }
        });
        Ok(book)
    }

    /// Waits until what is last has come, and writes down what is cached.
    async fn finish(&self, host: &Host) -> Result<()> {
        let last = ObjectRef::<K>::new(LAST.1).within(LAST.0);
        let came = timeout(PATIENCE, until(async || self.cache.get(&last).is_some())).await.is_ok();
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        for object in self.cache.state() {
            out.write_all(entry("cached", self.resource, &*object, self.payload).as_bytes())?;
        }
        out.flush()?;
        let said = if came { "" } else { "what was written last never came" };
        host.tell(&Verdict { case: &self.name, ok: came, said: said.to_owned(), took: 0.0 })
    }
}

fn entry<K: ResourceExt>(word: &str, resource: &str, object: &K, payload: Payload<K>) -> String {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let revision = object.resource_version().unwrap_or_default();
    let mut mark = object.annotations().get(MARK).map_or("-", String::as_str).to_owned();
    if let Some(rest) = payload(object).filter(|rest| mark != "-" && *rest != mark) {
        // No number: the rest of the object is of another write.
        mark = format!("{mark}!{rest}");
    }
    format!("{word} {resource}/{namespace}/{name} {revision} {mark}\n")
}

fn in_map(map: &ConfigMap) -> Option<String> {
    Some(map.data.iter().flatten().find(|(name, _)| *name == MARK).map_or_else(String::new, |(_, mark)| mark.clone()))
}

fn in_secret(secret: &Secret) -> Option<String> {
    let mark = secret.data.iter().flatten().find(|(name, _)| *name == MARK);
    Some(mark.map_or_else(String::new, |(_, mark)| String::from_utf8_lossy(&mark.0).into_owned()))
}

/// Follows four kinds in four ways until there is a line on stdin, and then what is last.
pub(crate) async fn run(host: &Host, order: &Order, folder: &Path) -> Result<()> {
    let client = client(order, &order.wire).await?;
    let pages = || Config::default().page_size(500);
    let streams = || Config::default().streaming_lists();
    let maps: Api<ConfigMap> = Api::all(client.clone());
    let maps = Book::open(folder, "pages", "configmaps", in_map, watcher(maps, pages()))?;
    let secrets: Api<Secret> = Api::all(client.clone());
    let secrets = Book::open(folder, "streaming", "secrets", in_secret, watcher(secrets, streams()))?;
    let leases: Api<PartialObjectMeta<Lease>> = Api::all(client.clone());
    let leases = Book::open(folder, "metadata-pages", "leases", |_| None, watcher(leases, pages()))?;
    let slices: Api<PartialObjectMeta<EndpointSlice>> = Api::all(client.clone());
    let slices = Book::open(folder, "metadata-streaming", "endpointslices", |_| None, watcher(slices, streams()))?;
    maps.cache.wait_until_ready().await?;
    secrets.cache.wait_until_ready().await?;
    leases.cache.wait_until_ready().await?;
    slices.cache.wait_until_ready().await?;
    host.tell(&json!({"following": 4}))?;
    host.word().await?;
    maps.finish(host).await?;
    secrets.finish(host).await?;
    leases.finish(host).await?;
    slices.finish(host).await
}
