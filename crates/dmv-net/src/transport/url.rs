//! Addresses of repositories: parsing and printing. The program also uses this to name a clone.

use super::bucket::BucketAddress;
#[cfg(feature = "quic")]
use super::quic::{NotAnAddress, PeerAddress};
use super::ssh::SshTarget;
use crate::session::NetError;
use dmv_core::platform::{bytes_of, name_of};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

#[cfg(feature = "quic")]
const SCHEMES: &str =
    "an address is a path, or starts with ssh://, dmv://, s3://, gs://, az://, https:// or file://";
#[cfg(not(feature = "quic"))]
const SCHEMES: &str =
    "an address is a path, or starts with ssh://, s3://, gs://, az://, https:// or file://";

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Url {
    /// A directory that this machine reaches.
    Path(PathBuf),
    /// A path on a host that ssh reaches.
    Ssh(SshTarget),
    /// A repository that a device serves. The device is known by its key.
    #[cfg(feature = "quic")]
    Quic(PeerAddress),
    /// A repository in an object store.
    Bucket(BucketAddress),
}

impl Url {
    /// Parses an address: `ssh://[user@]host[:port]/path`, `dmv://KEY[@host:port]`, `file:///path`,
    /// a bucket such as `s3://bucket/prefix`, or a path.
    ///
    /// Fails unless every part is well-formed. So no part of an address can later act as an option
    /// or a command.
    pub fn parse(text: &OsStr) -> Result<Url, NetError> {
        let bad = |why| NetError::BadUrl {
            url: without_secret(&text.to_string_lossy()),
            why,
        };
        if text.is_empty() || bytes_of(text).contains(&0) {
            return Err(bad("it is empty or contains a NUL byte"));
        }
        if let Some(rest) = bytes_of(text).strip_prefix(b"ssh://") {
            let rest = std::str::from_utf8(rest).map_err(|_| bad("it is not UTF-8"))?;
            return SshTarget::parse(rest).map(Url::Ssh).map_err(bad);
        }
        if let Some(path) = bytes_of(text).strip_prefix(b"file://") {
            return match path.first() {
                Some(b'/') => Ok(Url::Path(PathBuf::from(name_of(path)))),
                _ => Err(bad("a file address has three slashes: file:///PATH")),
            };
        }
        #[cfg(feature = "quic")]
        if bytes_of(text).starts_with(b"dmv://") {
            let text = text.to_str().ok_or_else(|| bad("it is not UTF-8"))?;
            return text
                .parse()
                .map(Url::Quic)
                .map_err(|e: NotAnAddress| bad(e.why));
        }
        if let Some(parsed) = text.to_str().and_then(BucketAddress::parse) {
            return parsed.map(Url::Bucket).map_err(bad);
        }
        let scheme = text.to_str().and_then(|text| text.split_once("://"));
        match scheme {
            Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                Err(bad(SCHEMES))
            }
            _ => Ok(Url::Path(PathBuf::from(text))),
        }
    }

    /// Returns the address with an absolute path, so that it means the same in every directory.
    pub fn absolute(self, here: &Path) -> Url {
        match self {
            Url::Path(path) => Url::Path(plain(&here.join(path))),
            other => other,
        }
    }

    /// Returns whether it names a place in a bucket.
    pub fn is_bucket(&self) -> bool {
        matches!(self, Url::Bucket(_))
    }

    /// Returns the last part of the path without a final `.dmv`, or the short key. A clone gets
    /// this name.
    pub fn last_part(&self) -> Option<String> {
        let path = match self {
            Url::Path(path) => path.clone(),
            Url::Ssh(target) => PathBuf::from(target.path()),
            #[cfg(feature = "quic")]
            Url::Quic(address) => return Some(address.key.short()),
            Url::Bucket(address) => PathBuf::from(address.last_part()),
        };
        let name = path.file_name()?.to_string_lossy().into_owned();
        let short = name.strip_suffix(".dmv").filter(|short| !short.is_empty());
        match name.as_str() {
            ".dmv" => Some(path.parent()?.file_name()?.to_string_lossy().into_owned()),
            name => Some(short.unwrap_or(name).to_owned()),
        }
    }
}

/// Returns an address as messages may show it: without a password, and without what stands after a `?`.
/// For text that is refused; an address that was accepted has neither.
pub fn without_secret(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    // A secret key may have slashes, so the last '@' of all ends it.
    let rest = match rest.rsplit_once('@') {
        Some((user, place)) if is_name(&scheme, user) => format!("{user}@{place}"),
        Some((_, place)) => format!("***@{place}"),
        None => rest.to_owned(),
    };
    match rest.split_once('?') {
        Some((place, _)) if !scheme.is_empty() => format!("{scheme}{place}?***"),
        _ => format!("{scheme}{rest}"),
    }
}

/// Returns whether the text before an '@' is a name or a public key.
fn is_name(scheme: &str, user: &str) -> bool {
    matches!(scheme, "ssh://" | "dmv://" | "file://") && !user.contains(':')
}

/// Removes `.` and `..` from a path like the system does: the parent of a symlink is the parent of
/// its target.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if out.is_symlink()
                    && let Ok(real) = std::fs::canonicalize(&out)
                {
                    out = real;
                }
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Url::Path(path) => write!(f, "{}", path.display()),
            Url::Ssh(target) => write!(f, "{target}"),
            #[cfg(feature = "quic")]
            Url::Quic(address) => write!(f, "{address}"),
            Url::Bucket(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Url> {
        Url::parse(OsStr::new(text)).ok()
    }

    #[test]
    fn addresses_are_told_apart() {
        assert_eq!(parse("a/b"), Some(Url::Path("a/b".into())));
        assert_eq!(parse("file:///a/b"), Some(Url::Path("/a/b".into())));
        let ssh = parse("ssh://ada@nas:2222/srv/film").expect("it is an address");
        assert_eq!(ssh.to_string(), "ssh://ada@nas:2222/srv/film");
        assert_eq!(ssh.last_part().as_deref(), Some("film"));
        assert_eq!(
            parse("/a/film.dmv").and_then(|u| u.last_part()).as_deref(),
            Some("film")
        );
        assert_eq!(
            parse("/a/film/.dmv").and_then(|u| u.last_part()).as_deref(),
            Some("film")
        );
        for bad in [
            "",
            "http://x/y",
            "file://a/b",
            "ssh://",
            "ssh://host",
            "s3://",
            "s4://bucket",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_refused_address_is_shown_without_its_secrets() {
        for (text, shown) in [
            ("https://u:se/cret@h/x", "https://***@h/x"),
            ("https://token@h/x", "https://***@h/x"),
            ("s3://b/x?AWSSecret=s", "s3://b/x?***"),
            ("http://h/x#y?s", "http://h/x#y?***"),
            ("ssh://ada:pw@nas/x", "ssh://***@nas/x"),
            ("ssh://ada@na s/x", "ssh://ada@na s/x"),
            ("key:secret@host", "***@host"),
            ("s4://bucket", "s4://bucket"),
        ] {
            assert_eq!(without_secret(text), shown);
        }
        let refused = Url::parse(OsStr::new("https://u:secret@h/x")).map(|_| ());
        let said = refused.map_err(|e| e.to_string());
        assert!(said.is_err_and(|said| !said.contains("secret") && said.contains("@h/x")));
    }

    #[test]
    fn an_absolute_path_is_that_which_the_system_follows() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let here = std::fs::canonicalize(dir.path())?;
        std::fs::create_dir_all(here.join("a/b"))?;
        std::os::unix::fs::symlink("a/b", here.join("link"))?;
        for (text, want) in [
            (".", ""),
            ("./a/.", "a"),
            ("a/../c", "c"),
            ("link", "link"),
            ("link/..", "a"),
            ("none/../a//b/", "a/b"),
        ] {
            let url = parse(text).map(|url| url.absolute(&here));
            let path = here.join(want);
            let path = path.components().collect::<PathBuf>();
            assert_eq!(url, Some(Url::Path(path)), "{text}");
        }
        let url = parse("../../../../../../../..").map(|url| url.absolute(&here));
        assert_eq!(url, Some(Url::Path("/".into())));
        let ssh = parse("ssh://nas/../film").map(|url| url.absolute(&here));
        assert_eq!(ssh, parse("ssh://nas/../film"));
        Ok(())
    }

    #[test]
    fn nothing_in_an_address_can_be_taken_for_an_option_or_a_command() {
        for bad in [
            "ssh://-oProxyCommand=x/p",
            "ssh://-l@host/p",
            "ssh://a@-host/p",
            "ssh://host:-1/p",
            "ssh://host:0/p",
            "ssh://host:99999/p",
            "ssh://ho st/p",
            "ssh://ho;st/p",
            "ssh://$(x)@host/p",
            "ssh://host/p\nq",
            "ssh://host`x`/p",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert!(
            parse("ssh://host/-p").is_some(),
            "an absolute path begins with a slash"
        );
        assert!(parse("ssh://[fe80::1%25eth0]:22/p").is_some());
        assert!(
            parse("ssh://a@b@host/p").is_some(),
            "a user name may have an @"
        );
    }
}
