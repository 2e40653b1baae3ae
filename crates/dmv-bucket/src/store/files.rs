//! Reading and writing files of a bucket.
//!
//! Each call blocks its thread until the store has answered; calls from several threads run at the
//! same time, on connections of their own. Only what a call was asked for is in memory.

use super::clients::{Clients, make};
use super::counting::{Counters, TRACE, Trace};
use super::keys::KeyError;
use super::profile::Env;
use super::service::{ServiceError, innermost};
use super::{Settings, failed};
use crate::files::{BucketFile, FileFailure, Files};
use crate::machines::Tag;
use dmv_net::session::NetError;
use dmv_net::transport::BucketAddress;
use dmv_net::trouble::Trouble;
use futures_util::{StreamExt, TryStreamExt};
use object_store::client::HttpError;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, GetRange, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, UpdateVersion,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Bytes of the root, or of a page, that are read at most.
const MAX_WHOLE: u64 = 16 << 20;
/// What a server says that sends whole files only.
const NO_RANGES: &str = "it sends whole files only";
/// Names that one request may delete.
const DELETE_AT_ONCE: usize = 1000;

/// The files of a bucket below the prefix of its address.
pub struct Store {
    address: BucketAddress,
    clients: Clients,
    prefix: Path,
    counters: Arc<Counters>,
    /// How long to wait for the next bytes of a file.
    patience: Duration,
    runtime: Runtime,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.address)
    }
}

/// The content of a file as it arrives.
type Pieces = futures_util::stream::BoxStream<'static, object_store::Result<bytes::Bytes>>;

/// What became of an operation.
type Outcome<T> = Result<T, FileFailure>;

impl Store {
    /// Opens the place. Sends nothing: credentials and the bucket prove themselves at the first
    /// request.
    pub fn open(address: &BucketAddress, settings: &Settings) -> Result<Store, NetError> {
        Store::open_in(address, settings, &|name| std::env::var(name).ok())
    }

    /// The same with another environment.
    pub fn open_in(
        address: &BucketAddress,
        settings: &Settings,
        env: Env<'_>,
    ) -> Result<Store, NetError> {
        let clients = make(address, settings, &settings.counters, env)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("store")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|e| {
            let why = format!("the system starts no further thread: {e}");
            failed(address, Trouble::Settings(why))
        })?;
        let prefix = Path::parse(&address.prefix);
        let prefix = prefix.map_err(|e| failed(address, Trouble::Settings(e.to_string())))?;
        Ok(Store {
            address: address.clone(),
            clients,
            prefix,
            counters: Arc::clone(&settings.counters),
            patience: settings.patience,
            runtime,
        })
    }

    /// Returns the address.
    pub fn address(&self) -> &BucketAddress {
        &self.address
    }

    fn path(&self, name: &str) -> Outcome<Path> {
        let full = if self.prefix.as_ref().is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.prefix)
        };
        Path::parse(full).map_err(|e| FileFailure::Trouble(Trouble::Settings(e.to_string())))
    }

    /// Runs an operation, and finds out from its last answer why it failed.
    fn run<T>(&self, work: impl Future<Output = object_store::Result<T>>) -> Outcome<T> {
        let trace = Arc::new(Trace::default());
        let done = TRACE.scope(Arc::clone(&trace), work);
        let done = self.runtime.block_on(done);
        done.map_err(|e| sort(&e, &trace, self.address.scheme.is_web()))
    }

    /// Reads a range from a server that only sends whole files.
    fn read_within(&self, path: &Path, range: Range<u64>, out: &mut Vec<u8>) -> Outcome<()> {
        let wanted = range.end - range.start;
        out.clear();
        self.run(async {
            let found = self.clients.bulk.get(path).await?;
            let mut stream = found.into_stream();
            let mut at = 0;
            while let Some(piece) = self.next(&mut stream).await? {
                self.counters.add_received(piece.len() as u64);
                let end = at + piece.len() as u64;
                let from = range.start.clamp(at, end) - at;
                let to = range.end.clamp(at, end) - at;
                out.extend_from_slice(&piece[from as usize..to as usize]);
                at = end;
                if at >= range.end {
                    break;
                }
            }
            Ok(())
        })?;
        if out.len() as u64 == wanted {
            Ok(())
        } else {
            Err(FileFailure::Length)
        }
    }

    /// Collects a stream into `out`. Returns `false` if it has more than `most` bytes.
    async fn collect(
        &self,
        mut stream: Pieces,
        most: u64,
        out: &mut Vec<u8>,
    ) -> object_store::Result<bool> {
        while let Some(piece) = self.next(&mut stream).await? {
            self.counters.add_received(piece.len() as u64);
            if (out.len() + piece.len()) as u64 > most {
                return Ok(false);
            }
            out.extend_from_slice(&piece);
        }
        Ok(true)
    }

    /// Returns the next piece of a file. Fails if nothing comes for too long.
    async fn next(&self, stream: &mut Pieces) -> object_store::Result<Option<bytes::Bytes>> {
        let piece = tokio::time::timeout(self.patience, stream.try_next()).await;
        piece.map_err(|e| Error::Generic {
            store: "store",
            source: Box::new(e),
        })?
    }

    fn parts(&self) -> Outcome<&Arc<dyn MultipartStore>> {
        let parts = self.clients.parts.as_ref();
        parts.ok_or(FileFailure::Trouble(Trouble::Mirror))
    }
}

impl Files for Store {
    fn repeats(&self) -> bool {
        true
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> Outcome<Vec<u8>> {
        let mut out = Vec::new();
        self.read_into(name, range, &mut out)?;
        Ok(out)
    }

    fn read_into(&self, name: &str, range: Range<u64>, out: &mut Vec<u8>) -> Outcome<()> {
        out.clear();
        if range.is_empty() {
            return Ok(());
        }
        let path = self.path(name)?;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        let wanted = range.end - range.start;
        // A buffer that grows by itself would take up to twice as much.
        out.reserve_exact(wanted.min(MAX_WHOLE) as usize);
        let got = self.run(async {
            let found = self.clients.bulk.get_opts(&path, options).await?;
            self.collect(found.into_stream(), wanted, out).await
        });
        match got {
            Ok(true) if out.len() as u64 == wanted => Ok(()),
            Ok(_) => Err(FileFailure::Length),
            Err(FileFailure::Trouble(Trouble::Other(why))) if why == NO_RANGES => {
                self.read_within(&path, range, out)
            }
            Err(e) => Err(e),
        }
    }

    fn read_whole(&self, name: &str, known: Option<&Tag>) -> Outcome<(Vec<u8>, Tag)> {
        let path = self.path(name)?;
        let options = GetOptions {
            if_none_match: known.and_then(|tag| tag.etag.clone()),
            ..GetOptions::default()
        };
        let (bytes, tag) = self.run(async {
            let found = self.clients.bulk.get_opts(&path, options).await?;
            let tag = Tag {
                etag: found.meta.e_tag.clone(),
                version: found.meta.version.clone(),
            };
            let mut bytes = Vec::new();
            let stream = found.into_stream();
            let is_within = self.collect(stream, MAX_WHOLE, &mut bytes).await?;
            Ok((is_within.then_some(bytes), tag))
        })?;
        Ok((bytes.ok_or(FileFailure::Length)?, tag))
    }

    fn length(&self, name: &str) -> Outcome<u64> {
        let path = self.path(name)?;
        let meta = self.run(self.clients.bulk.head(&path))?;
        Ok(meta.size)
    }

    fn write(&self, name: &str, bytes: Vec<u8>) -> Outcome<()> {
        let path = self.path(name)?;
        let options = PutOptions {
            attributes: caching("public, max-age=31536000, immutable"),
            ..PutOptions::default()
        };
        let payload = PutPayload::from(bytes);
        self.run(self.clients.bulk.put_opts(&path, payload, options))?;
        Ok(())
    }

    fn write_if(&self, name: &str, bytes: Vec<u8>, old: Option<&Tag>) -> Outcome<Tag> {
        let path = self.path(name)?;
        let mode = match old {
            None => PutMode::Create,
            Some(tag) => PutMode::Update(UpdateVersion {
                e_tag: tag.etag.clone(),
                version: tag.version.clone(),
            }),
        };
        let options = PutOptions {
            mode,
            attributes: caching("no-cache"),
            ..PutOptions::default()
        };
        let payload = PutPayload::from(bytes);
        let done = self.run(self.clients.once.put_opts(&path, payload, options));
        let done = done.map_err(|e| match e {
            // Some stores say so of a condition on a file that is not there.
            FileFailure::Missing => FileFailure::Refused,
            e => e,
        })?;
        Ok(Tag {
            etag: done.e_tag,
            version: done.version,
        })
    }

    fn begin_upload(&self, name: &str) -> Outcome<String> {
        let (path, parts) = (self.path(name)?, self.parts()?);
        self.run(parts.create_multipart(&path))
    }

    fn upload_part(
        &self,
        name: &str,
        upload: &str,
        part: usize,
        bytes: Vec<u8>,
    ) -> Outcome<String> {
        let (path, parts) = (self.path(name)?, self.parts()?);
        let upload = upload.to_owned();
        let payload = PutPayload::from(bytes);
        let done = self.run(parts.put_part(&path, &upload, part, payload))?;
        Ok(done.content_id)
    }

    fn end_upload(&self, name: &str, upload: &str, ids: &[String], length: u64) -> Outcome<()> {
        let (path, parts) = (self.path(name)?, self.parts()?);
        let upload = upload.to_owned();
        let ids = ids.iter().map(|id| PartId {
            content_id: id.clone(),
        });
        let ended = self.run(parts.complete_multipart(&path, &upload, ids.collect()));
        match ended {
            Ok(_) => Ok(()),
            Err(FileFailure::Missing) => match self.length(name) {
                Ok(found) if found == length => Ok(()),
                Ok(_) | Err(FileFailure::Missing) => Err(FileFailure::Missing),
                Err(e) => Err(e),
            },
            Err(e) => Err(e),
        }
    }

    fn drop_upload(&self, name: &str, upload: &str) -> Outcome<()> {
        let (path, parts) = (self.path(name)?, self.parts()?);
        let upload = upload.to_owned();
        match self.run(parts.abort_multipart(&path, &upload)) {
            Ok(()) | Err(FileFailure::Missing) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn delete_all(&self, names: &[String]) -> Outcome<()> {
        for some in names.chunks(DELETE_AT_ONCE) {
            let paths: Vec<Path> = some.iter().map(|n| self.path(n)).collect::<Outcome<_>>()?;
            if let [path] = &paths[..] {
                match self.run(self.clients.bulk.delete(path)) {
                    Ok(()) | Err(FileFailure::Missing) => continue,
                    Err(e) => return Err(e),
                }
            }
            let paths = futures_util::stream::iter(paths.into_iter().map(Ok)).boxed();
            let mut done = self.clients.bulk.delete_stream(paths);
            let is_answered =
                || TRACE.with(|trace| trace.answer().is_none_or(|a| a.is_absence("DELETE")));
            self.run(async {
                while let Some(one) = done.next().await {
                    match one {
                        Ok(_) => {}
                        // The store says it of one name, and refuses nothing.
                        Err(Error::NotFound { .. }) if is_answered() => {}
                        Err(e) => return Err(e),
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn list_folders(&self) -> Outcome<Vec<String>> {
        let prefix = Some(&self.prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let found = self.run(self.clients.bulk.list_with_delimiter(prefix))?;
        let folders = found.common_prefixes.iter();
        Ok(folders
            .filter_map(|folder| folder.filename().map(str::to_owned))
            .collect())
    }

    fn list_all(&self, folder: &str) -> Outcome<Vec<BucketFile>> {
        let path = self.path(folder)?;
        let start = self.prefix.as_ref().len() + usize::from(!self.prefix.as_ref().is_empty());
        self.run(async {
            let mut found = self.clients.bulk.list(Some(&path));
            let mut out = Vec::new();
            while let Some(file) = found.try_next().await? {
                let name = file.location.as_ref().get(start..).unwrap_or_default();
                out.push(BucketFile {
                    name: name.to_owned(),
                    len: file.size,
                    written: file.last_modified.timestamp(),
                });
            }
            Ok(out)
        })
    }
}

fn caching(what: &'static str) -> Attributes {
    Attributes::from_iter([(Attribute::CacheControl, what)])
}

/// What an error of the library means. The last answer tells more than the library does.
fn sort(e: &Error, trace: &Trace, is_web: bool) -> FileFailure {
    let answer = trace.answer();
    match (e, &answer) {
        (Error::NotModified { .. }, _) => return FileFailure::Unchanged,
        (Error::NotSupported { .. }, None) => {
            return FileFailure::Trouble(Trouble::Other(NO_RANGES.to_owned()));
        }
        (_, Some(answer)) => match answer.status {
            // A web server says it with a page of its own.
            404 if is_web || answer.is_absence(&trace.method()) => return FileFailure::Missing,
            409 | 412 => return FileFailure::Refused,
            416 => return FileFailure::Length,
            _ => return FileFailure::Trouble(answer.trouble()),
        },
        _ => {}
    }
    FileFailure::Trouble(without_answer(e, trace))
}

/// What an error means for which no answer is to blame: the credentials, a file that was cut, or an
/// answer that the library does not understand.
fn without_answer(e: &Error, trace: &Trace) -> Trouble {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(e);
    let mut is_body = false;
    while let Some(one) = cause {
        if let Some(keys) = one.downcast_ref::<KeyError>() {
            return Trouble::NoKeys(keys.to_string());
        }
        match one.downcast_ref::<ServiceError>() {
            Some(e @ ServiceError::Silent { .. }) => return Trouble::Unreachable(e.to_string()),
            Some(e @ ServiceError::Useless { .. }) => return Trouble::NoKeys(e.to_string()),
            None => {}
        }
        if one.is::<tokio::time::error::Elapsed>() {
            return Trouble::Cut("nothing came for too long".to_owned());
        }
        is_body |= one.is::<HttpError>();
        cause = one.source();
    }
    let why = innermost(e);
    match () {
        () if !trace.has_begun() => Trouble::NoKeys(why),
        // The library has asked for the rest of the file, and in vain.
        () if is_body => Trouble::Cut(why),
        () => Trouble::Other(why),
    }
}
