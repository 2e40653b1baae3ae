//! The device key: reading it, creating it, checking its file.
//!
//! Each user of a machine has one Ed25519 key. Other devices know this device by the public half.
//! The secret half lies in one file that only its owner may read. It is never printed. This room
//! uses `dmv-core` only; `transport::quic` and the program use it. docs/trust.md describes keys.

use dmv_core::claims::ClaimSignature;
use dmv_core::object::signature::Signature;
use dmv_core::platform::{
    OddKind, closed_to_others, is_of_this_user, open_named, stat_of, sync_dir,
};
use dmv_core::repo::PeerKey;
use iroh::SecretKey;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The first line of a key file. The second line is the secret key in hex.
const FIRST_LINE: &str = "dmv-device-key 1";
/// The exact length of a key file, in bytes.
const FILE_BYTES: usize = FIRST_LINE.len() + 1 + 64 + 1;

/// Why there is no usable key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file belongs to another user, or others may read or write it.
    #[error("the device key {} {why}", path.display())]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// What is wrong with its owner or mode.
        why: String,
    },
    /// The file is not a key file.
    #[error("the device key {} {why}", path.display())]
    Malformed {
        /// The key file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file operation failed.
    #[error("cannot {action} the device key {}: {source}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The key file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A device key, with both halves.
#[derive(Clone)]
pub struct DeviceKey(SecretKey);

impl DeviceKey {
    /// Reads the key file `path`. Creates it with a new key if it does not exist.
    ///
    /// If several processes do this at once, all of them return the same key.
    pub fn load_or_create(path: &Path) -> Result<DeviceKey, KeyError> {
        if let Some(key) = DeviceKey::load(path)? {
            return Ok(key);
        }
        create(path)?;
        DeviceKey::load(path)?.ok_or_else(|| KeyError::Io {
            action: "read",
            path: path.to_owned(),
            source: io::ErrorKind::NotFound.into(),
        })
    }

    /// Reads the key file `path`. Returns `None` if it does not exist. Fails if others may read it,
    /// or if it is not a key file.
    pub fn load(path: &Path) -> Result<Option<DeviceKey>, KeyError> {
        let io = |source| KeyError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        };
        let malformed = |why| KeyError::Malformed {
            path: path.to_owned(),
            why,
        };
        let mut file = match open_named(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) if OddKind::in_error(&e).is_some() => return Err(malformed("is not a file")),
            Err(e) => return Err(io(e)),
        };
        refuse_exposed(path, &file)?;
        // One byte more than a key file has, so that a longer file is noticed.
        let mut text = String::new();
        let mut start = (&mut file).take(FILE_BYTES as u64 + 1);
        if let Err(e) = start.read_to_string(&mut text) {
            return Err(match e.kind() {
                io::ErrorKind::InvalidData => malformed("is not a key file"),
                _ => io(e),
            });
        }
        let key = parse(&text).ok_or_else(|| malformed("is not a key file"))?;
        Ok(Some(key))
    }

    /// Makes a new key that is in no file.
    pub fn generate() -> DeviceKey {
        DeviceKey(SecretKey::generate())
    }

    /// Returns the public half, by which other devices know this one.
    pub fn public(&self) -> PeerKey {
        PeerKey::from_bytes(*self.0.public().as_bytes())
    }

    /// Signs the statement of a commit. It has a domain of its own: docs/format/objects.md, "Signature".
    pub fn sign_commit(&self, statement: &[u8]) -> Signature {
        Signature::Device {
            key: *self.0.public().as_bytes(),
            bytes: self.0.sign(statement).to_bytes(),
        }
    }

    /// Signs the statement of a list of claims. It has a domain of its own: docs/format/claims.md.
    pub fn sign_claims(&self, statement: &[u8]) -> ClaimSignature {
        self.0.sign(statement).to_bytes()
    }

    /// Returns both halves, for the transport.
    pub(crate) fn secret(&self) -> &SecretKey {
        &self.0
    }
}

/// Shows the public half only.
impl fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceKey({:?})", self.public())
    }
}

fn refuse_exposed(path: &Path, file: &File) -> Result<(), KeyError> {
    let io = |source| KeyError::Io {
        action: "inspect",
        path: path.to_owned(),
        source,
    };
    let exposed = |why| KeyError::Exposed {
        path: path.to_owned(),
        why,
    };
    if !is_of_this_user(file).map_err(io)? {
        return Err(exposed("belongs to another user".to_owned()));
    }
    let mode = stat_of(file).map_err(io)?.mode;
    if mode & 0o077 != 0 {
        let why = format!("can be read or written by others (its mode is {mode:04o})");
        return Err(exposed(why));
    }
    Ok(())
}

fn parse(text: &str) -> Option<DeviceKey> {
    let (first, rest) = text.split_once('\n')?;
    let hex = rest.strip_suffix('\n')?;
    let bytes = dmv_core::hash::decode_hex(hex)?.try_into().ok()?;
    (first == FIRST_LINE).then(|| DeviceKey(SecretKey::from_bytes(&bytes)))
}

/// Creates the key file `path` with a new key, unless another process creates it first.
fn create(path: &Path) -> Result<(), KeyError> {
    let failed = |action: &'static str| {
        let path = path.to_owned();
        move |source| KeyError::Io {
            action,
            path,
            source,
        }
    };
    let dir = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new()
        .recursive(true)
        .create(dir)
        .map_err(failed("create the directory of"))?;
    let secret = SecretKey::generate();
    let hex = dmv_core::hash::encode_hex(&secret.to_bytes());
    // A random name, so that two processes do not use the same file. The public half reveals
    // nothing.
    let name = format!(".device-key-{}", &secret.public().to_string()[..16]);
    let temporary = dir.join(name);
    let written = write_new(&temporary, &format!("{FIRST_LINE}\n{hex}\n"));
    // Only one process can create the link, and the linked file is complete.
    let linked = written.and_then(|()| match fs::hard_link(&temporary, path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    });
    // If this fails, a temporary file remains. Its secret is never used.
    let _ = fs::remove_file(&temporary);
    linked.map_err(failed("write"))?;
    sync_dir(dir).map_err(failed("sync"))
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut how = OpenOptions::new();
    how.write(true).create_new(true);
    closed_to_others(&mut how);
    let mut file = how.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("config/dmv/device-key");
        (dir, path)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode can be set");
    }

    #[test]
    fn a_key_is_made_once_and_only_the_owner_may_read_it() -> Result<(), KeyError> {
        let (_dir, path) = place();
        assert!(DeviceKey::load(&path)?.is_none());
        let made = DeviceKey::load_or_create(&path)?;
        assert_eq!(DeviceKey::load_or_create(&path)?.public(), made.public());
        let stat = fs::metadata(&path).expect("it is there");
        assert_eq!(stat.mode() & 0o7777, 0o600);
        assert_eq!(stat.len() as usize, FILE_BYTES);
        let others = fs::read_dir(path.parent().expect("it has one")).expect("it can be listed");
        assert_eq!(others.count(), 1, "no temporary file is left");
        Ok(())
    }

    #[test]
    fn all_that_make_a_key_at_once_get_the_same() {
        let (_dir, path) = place();
        let make = || DeviceKey::load_or_create(&path).expect("a key").public();
        let keys: Vec<PeerKey> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..16).map(|_| scope.spawn(make)).collect();
            all.into_iter()
                .map(|one| one.join().expect("it ran"))
                .collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() -> Result<(), KeyError> {
        let (_dir, path) = place();
        DeviceKey::load_or_create(&path)?;
        for mode in [0o640, 0o604, 0o644, 0o660, 0o620, 0o601, 0o666] {
            set_mode(&path, mode);
            let refused = DeviceKey::load_or_create(&path);
            assert!(matches!(refused, Err(KeyError::Exposed { .. })), "{mode:o}");
        }
        set_mode(&path, 0o400);
        DeviceKey::load_or_create(&path)?;
        Ok(())
    }

    #[test]
    fn what_is_no_key_file_is_refused_and_kept() {
        let hex = "5a".repeat(32);
        let bad = [
            String::new(),
            format!("{hex}\n"),
            format!("{FIRST_LINE}\n{hex}"),
            format!("{FIRST_LINE}\n{hex}\n\n"),
            format!("{FIRST_LINE}\n{}\n", &hex[1..]),
            format!("{FIRST_LINE}\n{}g\n", &hex[1..]),
            format!("dmv-device-key 2\n{hex}\n"),
            "\u{0}".repeat(FILE_BYTES),
            "x".repeat(1 << 20),
        ];
        for text in bad {
            let (_dir, path) = place();
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            write_new(&path, &text).expect("it can be written");
            let refused = DeviceKey::load_or_create(&path);
            assert!(
                matches!(refused, Err(KeyError::Malformed { .. })),
                "{text:.80}"
            );
            assert_eq!(fs::read_to_string(&path).expect("it is there"), text);
        }
        let (_dir, path) = place();
        fs::create_dir_all(&path).expect("it can be made");
        let refused = DeviceKey::load_or_create(&path);
        assert!(matches!(refused, Err(KeyError::Malformed { .. })));
    }

    #[test]
    fn the_secret_is_not_shown() {
        let key = DeviceKey::generate();
        let shown = format!("{key:?}");
        let secret = dmv_core::hash::encode_hex(&key.secret().to_bytes());
        assert!(!shown.contains(&secret[..12]), "{shown}");
        assert!(shown.contains(&key.public().short()));
    }
}
