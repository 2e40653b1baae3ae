//! Files of a bucket in memory, with faults, for tests.

use super::{BucketFile, FileFailure, Files};
use crate::machines::Tag;
use dmv_net::trouble::Trouble;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// How many requests of each kind were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub get: usize,
    pub put: usize,
    pub list: usize,
    pub delete: usize,
}

/// What goes wrong with the next conditional writes, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is carried out, and the answer is lost.
    AnswerLost,
    /// It is not carried out, and there is no answer.
    Lost,
    /// It is denied.
    Denied,
    /// Nothing goes wrong.
    None,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, (Vec<u8>, u64)>,
    uploads: BTreeMap<String, (String, BTreeMap<usize, Vec<u8>>)>,
    writes: u64,
    counts: Counts,
    faults: Vec<Fault>,
    /// How many more requests are answered; `None`: all.
    left: Option<usize>,
    /// What is wrong with the others; `None`: a cut.
    trouble: Option<Trouble>,
}

/// Files in memory.
#[derive(Default)]
pub struct MemFiles(Mutex<State>);

impl MemFiles {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics with it")
    }

    /// Returns the state for a request, and counts it.
    fn ask(&self, count: impl Fn(&mut Counts)) -> Result<MutexGuard<'_, State>, FileFailure> {
        let mut state = self.state();
        count(&mut state.counts);
        if let Some(left) = state.left {
            let cut = || Trouble::Cut("by the test".to_owned());
            let trouble = || FileFailure::Trouble(state.trouble.clone().unwrap_or_else(cut));
            state.left = Some(left.checked_sub(1).ok_or_else(trouble)?);
        }
        Ok(state)
    }

    /// Returns the numbers of requests since the last call.
    pub fn counts(&self) -> Counts {
        std::mem::take(&mut self.state().counts)
    }

    /// Lets the next conditional writes fail.
    pub fn fail(&self, faults: &[Fault]) {
        self.state().faults = faults.iter().rev().copied().collect();
    }

    /// Answers only so many requests from now on.
    pub fn cut_after(&self, requests: Option<usize>) {
        let mut state = self.state();
        (state.left, state.trouble) = (requests, None);
    }

    /// Answers only so many requests from now on, and the others with this trouble.
    pub fn refuse_after(&self, requests: usize, trouble: Trouble) {
        let mut state = self.state();
        (state.left, state.trouble) = (Some(requests), Some(trouble));
    }

    /// Returns the names of all files.
    pub fn names(&self) -> Vec<String> {
        self.state().files.keys().cloned().collect()
    }

    /// Returns the content of a file.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.files.get(name).map(|(bytes, _)| bytes.clone())
    }

    /// Replaces a file, whatever it was.
    pub fn set(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        state.put(name, bytes);
    }

    /// Gives up all uploads, as a lifecycle rule does.
    pub fn forget_uploads(&self) {
        self.state().uploads.clear();
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) {
        self.state().files.remove(name);
    }
}

impl State {
    fn put(&mut self, name: &str, bytes: Vec<u8>) -> Tag {
        self.writes += 1;
        self.files.insert(name.to_owned(), (bytes, self.writes));
        tag(self.writes)
    }

    fn file(&self, name: &str) -> Result<&(Vec<u8>, u64), FileFailure> {
        self.files.get(name).ok_or(FileFailure::Missing)
    }
}

fn tag(version: u64) -> Tag {
    Tag {
        etag: Some(format!("\"{version}\"")),
        version: None,
    }
}

impl Files for MemFiles {
    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, FileFailure> {
        let state = self.ask(|n| n.get += 1)?;
        let (bytes, _) = state.file(name)?;
        let range = range.start as usize..range.end as usize;
        bytes
            .get(range)
            .map(<[u8]>::to_vec)
            .ok_or(FileFailure::Length)
    }

    fn read_whole(&self, name: &str, known: Option<&Tag>) -> Result<(Vec<u8>, Tag), FileFailure> {
        let state = self.ask(|n| n.get += 1)?;
        let (bytes, version) = state.file(name)?;
        if known == Some(&tag(*version)) {
            Err(FileFailure::Unchanged)
        } else {
            Ok((bytes.clone(), tag(*version)))
        }
    }

    fn length(&self, name: &str) -> Result<u64, FileFailure> {
        let state = self.ask(|n| n.get += 1)?;
        Ok(state.file(name)?.0.len() as u64)
    }

    fn write(&self, name: &str, bytes: Vec<u8>) -> Result<(), FileFailure> {
        let mut state = self.ask(|n| n.put += 1)?;
        state.put(name, bytes);
        Ok(())
    }

    fn write_if(&self, name: &str, bytes: Vec<u8>, old: Option<&Tag>) -> Result<Tag, FileFailure> {
        let mut state = self.ask(|n| n.put += 1)?;
        let fault = state.faults.pop().unwrap_or(Fault::None);
        let cut = FileFailure::Trouble(Trouble::Cut("by the test".to_owned()));
        match fault {
            Fault::Lost => return Err(cut),
            Fault::Denied => {
                return Err(FileFailure::Trouble(Trouble::Denied(
                    "by the test".to_owned(),
                )));
            }
            Fault::AnswerLost | Fault::None => {}
        }
        let now = state.files.get(name).map(|(_, version)| tag(*version));
        if now.as_ref() != old {
            return Err(FileFailure::Refused);
        }
        let tag = state.put(name, bytes);
        match fault {
            Fault::AnswerLost => Err(cut),
            _ => Ok(tag),
        }
    }

    fn begin_upload(&self, name: &str) -> Result<String, FileFailure> {
        let mut state = self.ask(|n| n.put += 1)?;
        state.writes += 1;
        let id = format!("upload {}", state.writes);
        let upload = (name.to_owned(), BTreeMap::new());
        state.uploads.insert(id.clone(), upload);
        Ok(id)
    }

    fn upload_part(
        &self,
        name: &str,
        upload: &str,
        part: usize,
        bytes: Vec<u8>,
    ) -> Result<String, FileFailure> {
        let mut state = self.ask(|n| n.put += 1)?;
        match state.uploads.get_mut(upload) {
            Some((of, parts)) if of == name => {
                parts.insert(part, bytes);
                Ok(format!("{upload}, part {part}"))
            }
            _ => Err(FileFailure::Missing),
        }
    }

    fn end_upload(
        &self,
        name: &str,
        upload: &str,
        parts: &[String],
        len: u64,
    ) -> Result<(), FileFailure> {
        let mut state = self.ask(|n| n.put += 1)?;
        let Some((_, found)) = state.uploads.get(upload) else {
            return match state.file(name) {
                Ok((bytes, _)) if bytes.len() as u64 == len => Ok(()),
                _ => Err(FileFailure::Missing),
            };
        };
        // As real stores do, it makes a file of the parts that are named, whether these are all or not.
        let part = |id: &String| {
            let number = id.strip_prefix(&format!("{upload}, part "))?.parse().ok()?;
            found.get(&number).cloned()
        };
        let Some(bytes) = parts.iter().map(part).collect::<Option<Vec<_>>>() else {
            return Err(FileFailure::Trouble(Trouble::Other(
                "wrong parts".to_owned(),
            )));
        };
        state.uploads.remove(upload);
        state.put(name, bytes.concat());
        Ok(())
    }

    fn drop_upload(&self, _: &str, upload: &str) -> Result<(), FileFailure> {
        self.ask(|n| n.delete += 1)?.uploads.remove(upload);
        Ok(())
    }

    fn delete_all(&self, names: &[String]) -> Result<(), FileFailure> {
        let mut state = self.ask(|n| n.delete += 1)?;
        for name in names {
            state.files.remove(name);
        }
        Ok(())
    }

    fn list_folders(&self) -> Result<Vec<String>, FileFailure> {
        let state = self.ask(|n| n.list += 1)?;
        let names = state.files.keys();
        let folders = names.filter_map(|name| name.split_once('/').map(|(folder, _)| folder));
        let folders: std::collections::BTreeSet<&str> = folders.collect();
        Ok(folders.into_iter().map(str::to_owned).collect())
    }

    fn list_all(&self, folder: &str) -> Result<Vec<BucketFile>, FileFailure> {
        let state = self.ask(|n| n.list += 1)?;
        let below = format!("{folder}/");
        let files = state
            .files
            .iter()
            .filter(|(name, _)| name.starts_with(&below));
        let listed = files.map(|(name, (bytes, _))| BucketFile {
            name: name.clone(),
            len: bytes.len() as u64,
            written: 0,
        });
        Ok(listed.collect())
    }
}
