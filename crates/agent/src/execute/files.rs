//! Follows the files of all networks: inotify says when a journal was written or replaced, grants were, or a pod was refused. Where there is no
//! inotify to be had, sizes and times are looked at instead.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;
use tracing::warn;

use super::disk::networks;

/// How often files are looked at where nobody says that they changed.
const POLL: Duration = Duration::from_millis(50);
/// How many bytes of news are read at once.
const NEWS: usize = 4096;

/// The files that are of interest.
const NAMES: [&str; 3] = ["journal", "grants", "shortage"];

/// See the module.
#[derive(Debug)]
pub(super) struct Files {
    state_dir: PathBuf,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Which watch is of which network; that of the state directory has none.
    Told(AsyncFd<OwnedFd>, BTreeMap<i32, Option<String>>),
    /// What was seen of each file.
    Looked(BTreeMap<PathBuf, Mark>),
}

/// By this a change of a file is seen: number, size and time.
type Mark = (u64, u64, i64, i64);

impl Files {
    /// Follows what is below a state directory that is there. The networks of now count as changed.
    pub(super) fn new(state_dir: &Path) -> Self {
        let source = told(state_dir).unwrap_or_else(|error| {
            warn!(%error, "cannot be told of changes of files; they are looked at all the time (fs.inotify.max_user_instances?)");
            Source::Looked(BTreeMap::new())
        });
        Self { state_dir: state_dir.to_owned(), source }
    }

    /// Waits until something changed, and says of which networks. Another call after this one misses nothing.
    pub(super) async fn changed(&mut self) -> BTreeSet<String> {
        loop {
            let changed = match &mut self.source {
                Source::Told(news, watches) => match hear(news, watches, &self.state_dir).await {
                    Ok(changed) => changed,
                    Err(error) => {
                        warn!(%error, "cannot be told of changes of files any more; they are looked at all the time");
                        self.source = Source::Looked(BTreeMap::new());
                        continue;
                    }
                },
                Source::Looked(marks) => {
                    sleep(POLL).await;
                    look(&self.state_dir, marks)
                }
            };
            if !changed.is_empty() {
                return changed;
            }
        }
    }
}

#[allow(deprecated, reason = "its successor is unsafe, and wants a descriptor that stays open: one that is owned does")]
fn told(state_dir: &Path) -> io::Result<Source> {
    let news = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let folder = inotify::add_watch(&news, state_dir, WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR)?;
    let mut watches = BTreeMap::from([(folder, None)]);
    for network in networks(state_dir) {
        add(&news, &mut watches, state_dir, &network)?;
    }
    Ok(Source::Told(AsyncFd::new(news)?, watches))
}

fn add(news: &OwnedFd, watches: &mut BTreeMap<i32, Option<String>>, state_dir: &Path, network: &str) -> io::Result<()> {
    // Whoever writes closes the file when all is on the disk.
    let events = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE;
    match inotify::add_watch(news, state_dir.join(network), events | WatchFlags::ONLYDIR) {
        Ok(watch) => drop(watches.insert(watch, Some(network.to_owned()))),
        // It went while we came.
        Err(Errno::NOENT | Errno::NOTDIR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn hear(
    news: &AsyncFd<OwnedFd>,
    watches: &mut BTreeMap<i32, Option<String>>,
    state_dir: &Path,
) -> io::Result<BTreeSet<String>> {
    let mut changed = BTreeSet::new();
    let mut ready = news.readable().await?;
    let mut buffer = [MaybeUninit::uninit(); NEWS];
    let mut reader = inotify::Reader::new(news.get_ref(), &mut buffer);
    let mut is_rescan = false;
    loop {
        let event = match reader.next() {
            Ok(event) => event,
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
            changed.extend(watches.values().flatten().cloned());
            is_rescan = true;
            continue;
        }
        if event.events().contains(ReadFlags::IGNORED) {
            if let Some(Some(network)) = watches.remove(&event.wd()) {
                changed.insert(network);
            }
            continue;
        }
        let name = event.file_name().and_then(|name| name.to_str().ok()).unwrap_or_default();
        match watches.get(&event.wd()) {
            Some(None) => is_rescan = true,
            Some(Some(network)) if NAMES.contains(&name) => drop(changed.insert(network.clone())),
            _ => {}
        }
    }
    ready.clear_ready();
    if is_rescan {
        for network in networks(state_dir) {
            if !watches.values().flatten().any(|known| *known == network) {
                add(news.get_ref(), watches, state_dir, &network)?;
                // Something may have been written before it was watched.
                changed.insert(network);
            }
        }
    }
    Ok(changed)
}

fn look(state_dir: &Path, marks: &mut BTreeMap<PathBuf, Mark>) -> BTreeSet<String> {
    let mut changed = BTreeSet::new();
    let mut now = BTreeMap::new();
    for network in networks(state_dir) {
        for name in NAMES {
            let path = state_dir.join(&network).join(name);
            if let Ok(file) = fs::metadata(&path) {
                let mark = (file.ino(), file.len(), file.mtime(), file.mtime_nsec());
                if marks.remove(&path) != Some(mark) {
                    changed.insert(network.clone());
                }
                now.insert(path, mark);
            }
        }
    }
    // What was there and was not seen again is gone, and perhaps its folder with it.
    let folder = |path: &PathBuf| Some(path.parent()?.file_name()?.to_str()?.to_owned());
    changed.extend(marks.keys().filter_map(folder));
    *marks = now;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(changed: &BTreeSet<String>) -> Vec<&str> {
        changed.iter().map(String::as_str).collect()
    }

    async fn is_followed(is_told: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("one")).unwrap();
        let mut files = Files::new(folder.path());
        assert!(matches!(files.source, Source::Told(..)));
        if !is_told {
            files.source = Source::Looked(BTreeMap::new());
        }
        fs::write(path("one/other"), "not of interest").unwrap();
        fs::write(path("one/journal"), "a").unwrap();
        assert_eq!(names(&files.changed().await), ["one"]);
        fs::create_dir(path("two")).unwrap();
        fs::write(path("two/grants.new"), "b").unwrap();
        fs::rename(path("two/grants.new"), path("two/grants")).unwrap();
        assert_eq!(names(&files.changed().await), ["two"]);
        fs::remove_file(path("one/journal")).unwrap();
        // The folder that was new may be told of again.
        while !files.changed().await.contains("one") {}
        fs::remove_dir_all(path("two")).unwrap();
        while !files.changed().await.contains("two") {}
    }

    #[tokio::test]
    async fn every_change_is_told() {
        is_followed(true).await;
    }

    #[tokio::test]
    async fn every_change_is_seen_where_nobody_tells() {
        is_followed(false).await;
    }
}
