//! Storage that can be written to without being changed: what is written stays in memory.
//!
//! A store that was not closed cleanly is repaired when it is opened, and a check must look at such a store and change nothing.

use std::collections::HashMap;
use std::io;

use parking_lot::Mutex;
use redb::StorageBackend;

/// The unit in which changes are kept.
const PAGE: u64 = 4096;

#[derive(Debug)]
pub(crate) struct Overlay<B> {
    bottom: B,
    changed: Mutex<Changed>,
}

#[derive(Debug)]
struct Changed {
    pages: HashMap<u64, Box<[u8]>>,
    /// How long it is now.
    length: u64,
    /// How much of what is underneath still counts.
    kept: u64,
}

impl<B: StorageBackend> Overlay<B> {
    pub(crate) fn new(bottom: B) -> io::Result<Self> {
        let length = bottom.len()?;
        Ok(Self { bottom, changed: Mutex::new(Changed { pages: HashMap::new(), length, kept: length }) })
    }

    /// Reads what is underneath a page, and zeros where it has nothing.
    fn underneath(&self, page: u64, kept: u64) -> io::Result<Box<[u8]>> {
        let start = page * PAGE;
        let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
        let there = kept.saturating_sub(start).min(PAGE) as usize;
        self.bottom.read(start, &mut bytes[..there])?;
        Ok(bytes)
    }
}

/// The pieces of pages that `length` bytes from `offset` on are.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let end = offset + length as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        let (page, within) = (at / PAGE, (at % PAGE) as usize);
        let count = (PAGE - at % PAGE).min(end - at) as usize;
        let done = (at - offset) as usize;
        at += count as u64;
        (count > 0).then_some((page, within, done..done + count))
    })
}

impl<B: StorageBackend> StorageBackend for Overlay<B> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changed.lock().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changed = self.changed.lock();
        if offset + out.len() as u64 > changed.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, within, part) in pieces(offset, out.len()) {
            let part = &mut out[part];
            match changed.pages.get(&page) {
                Some(bytes) => part.copy_from_slice(&bytes[within..within + part.len()]),
                None if page * PAGE + PAGE <= changed.kept => {
                    self.bottom.read(page * PAGE + within as u64, part)?;
                }
                None => {
                    let bytes = self.underneath(page, changed.kept)?;
                    part.copy_from_slice(&bytes[within..within + part.len()]);
                }
            }
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut changed = self.changed.lock();
        if length < changed.length {
            changed.kept = changed.kept.min(length);
            changed.pages.retain(|page, _| page * PAGE < length);
            let end = (length % PAGE) as usize;
            if let Some(last) = changed.pages.get_mut(&(length / PAGE)) {
                last[end..].fill(0);
            }
        }
        changed.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changed = self.changed.lock();
        if offset + data.len() as u64 > changed.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let kept = changed.kept;
        for (page, within, part) in pieces(offset, data.len()) {
            let bytes = match changed.pages.entry(page) {
                std::collections::hash_map::Entry::Occupied(there) => there.into_mut(),
                std::collections::hash_map::Entry::Vacant(place) => place.insert(self.underneath(page, kept)?),
            };
            bytes[within..within + part.len()].copy_from_slice(&data[part]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use redb::backends::FileBackend;

    use super::*;

    #[test]
    fn writes_are_read_back_and_the_file_stays_as_it_was() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let original: Vec<u8> = (0..10_000_u32).map(|at| at as u8).collect();
        file.write_all(&original).unwrap();
        let overlay = Overlay::new(FileBackend::new(File::open(file.path()).unwrap()).unwrap()).unwrap();
        let mut model = original.clone();
        let mut random = 7_u64;
        for _ in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (what, at, count) = (random >> 62, (random >> 40) as usize % 15_000, (random >> 20) as usize % 6000);
            match what {
                0 => {
                    overlay.set_len(at as u64).unwrap();
                    model.resize(at, 0);
                }
                1 => {
                    let fits = at + count <= model.len();
                    assert_eq!(overlay.write(at as u64, &vec![random as u8; count]).is_ok(), fits);
                    if fits {
                        model[at..at + count].fill(random as u8);
                    }
                }
                _ => {
                    let mut read = vec![0; model.len()];
                    overlay.read(0, &mut read).unwrap();
                    assert!(read == model, "the overlay reads what was written");
                }
            }
        }
        assert_eq!(std::fs::read(file.path()).unwrap(), original);
    }
}
