//! Addresses of buckets: `s3://BUCKET/PREFIX` and the like. They hold no credentials.

use std::fmt;

/// The greatest length of an address, in bytes.
const MAX_BYTES: usize = 1024;
/// Characters that some store, proxy or signature treats in a way of its own.
const UNFIT: &str = "\\{}^%`[]\">~<#|?*:@&+=$,;'! ";

/// How a store is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// S3, or a store that speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
    /// A web server, for reading only.
    Https,
    /// The same without encryption: only on this machine.
    LocalHttp,
}

impl Scheme {
    /// Returns the text before the name of the bucket.
    fn text(self) -> &'static str {
        match self {
            Scheme::S3 => "s3://",
            Scheme::Google => "gs://",
            Scheme::Azure => "az://",
            Scheme::Https => "https://",
            Scheme::LocalHttp => "http://",
        }
    }

    /// Returns whether it is a plain web server, which takes no files.
    pub fn is_web(self) -> bool {
        matches!(self, Scheme::Https | Scheme::LocalHttp)
    }
}

/// Where a repository lies in an object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketAddress {
    /// How the store is reached.
    pub scheme: Scheme,
    /// The bucket or container; the host and port of a web server.
    pub bucket: String,
    /// The path in the bucket, without slashes at its ends; may be empty.
    pub prefix: String,
}

impl BucketAddress {
    /// Parses an address. Returns `None` if the text has none of the schemes, and an error that
    /// says what is wrong if it has one.
    pub fn parse(text: &str) -> Option<Result<BucketAddress, &'static str>> {
        let all = [
            Scheme::S3,
            Scheme::Google,
            Scheme::Azure,
            Scheme::Https,
            Scheme::LocalHttp,
        ];
        let found = all
            .into_iter()
            .find_map(|scheme| Some((scheme, text.strip_prefix(scheme.text())?)));
        found.map(|(scheme, rest)| split(scheme, rest))
    }

    /// Returns the last part of the path, or the bucket.
    pub fn last_part(&self) -> &str {
        let last = self.prefix.rsplit('/').next();
        match last.filter(|last| !last.is_empty()) {
            Some(last) => last,
            None if self.scheme.is_web() => self.bucket.split(':').next().unwrap_or_default(),
            None => &self.bucket,
        }
    }
}

impl fmt::Display for BucketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.scheme.text(), self.bucket)?;
        if !self.prefix.is_empty() {
            write!(f, "/{}", self.prefix)?;
        }
        Ok(())
    }
}

fn split(scheme: Scheme, rest: &str) -> Result<BucketAddress, &'static str> {
    if rest.len() > MAX_BYTES {
        return Err("it is too long");
    }
    let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.contains('@') {
        return Err("it contains a name or a password; credentials do not belong in an address");
    }
    if scheme.is_web() {
        check_host(bucket)?;
    } else {
        check_bucket(bucket)?;
    }
    if scheme == Scheme::LocalHttp && !is_local(bucket) {
        return Err("http:// is for servers on this machine; use https://");
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.contains(['?', '#']) {
        return Err("it has a '?' or '#'; only a path may follow the bucket");
    }
    let is_fit = |c: char| !c.is_control() && !UNFIT.contains(c);
    for part in path.split('/').filter(|_| !path.is_empty()) {
        if part.is_empty() || part == "." || part == ".." {
            return Err("its path has an empty part, or a part '.' or '..'");
        }
        if !part.chars().all(is_fit) {
            return Err("its path has a character that is not safe in every store");
        }
    }
    Ok(BucketAddress {
        scheme,
        bucket: bucket.to_owned(),
        prefix: path.to_owned(),
    })
}

fn check_bucket(name: &str) -> Result<(), &'static str> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || ".-_$".contains(c);
    if name.is_empty() {
        Err("it names no bucket; write s3://BUCKET/PREFIX")
    } else if name.len() > 222 || !name.chars().all(is_fit) || name.starts_with(['.', '-']) {
        Err("the name of its bucket is invalid")
    } else {
        Ok(())
    }
}

/// Checks the host, and perhaps the port, of a web address. The error says what is wrong.
pub fn check_host(place: &str) -> Result<(), &'static str> {
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (place, None),
    };
    let name = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_fit = match name {
        Some(number) => number
            .chars()
            .all(|c| c.is_ascii_hexdigit() || ":.".contains(c)),
        None => host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c)),
    };
    if host.is_empty() || host.starts_with(['-', '.']) || !is_fit {
        return Err("its host name is invalid");
    }
    match port.map(str::parse::<u16>) {
        Some(Err(_) | Ok(0)) => Err("its port is invalid"),
        _ => Ok(()),
    }
}

/// Returns whether a host and port lead to this machine.
pub(super) fn is_local(place: &str) -> bool {
    let host = match place.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => place,
    };
    let number = host.parse::<std::net::Ipv4Addr>();
    host == "localhost" || host == "[::1]" || number.is_ok_and(|number| number.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<BucketAddress> {
        BucketAddress::parse(text)?.ok()
    }

    #[test]
    fn addresses_keep_their_parts() {
        for (text, bucket, prefix, last) in [
            ("s3://film", "film", "", "film"),
            ("s3://film/", "film", "", "film"),
            ("s3://studio/film/", "studio", "film", "film"),
            ("s3://studio/a/b.dmv", "studio", "a/b.dmv", "b.dmv"),
            ("gs://studio/film", "studio", "film", "film"),
            ("az://studio/film", "studio", "film", "film"),
            (
                "https://example.org/a/film",
                "example.org",
                "a/film",
                "film",
            ),
            ("https://example.org", "example.org", "", "example.org"),
            ("http://127.0.0.1:80/x", "127.0.0.1:80", "x", "x"),
            ("https://[::1]:8443/x", "[::1]:8443", "x", "x"),
        ] {
            let address = parse(text).expect(text);
            assert_eq!((&address.bucket[..], &address.prefix[..]), (bucket, prefix));
            assert_eq!(address.last_part(), last, "{text}");
            assert_eq!(parse(&address.to_string()).as_ref(), Some(&address));
        }
    }

    #[test]
    fn what_is_no_address_of_a_bucket_is_refused() {
        for bad in [
            "s3://",
            "s3:///film",
            "s3://-x/y",
            "s3://b u/x",
            "s3://b//x",
            "s3://b/../x",
            "s3://b/x?versionId=1",
            "s3://b/x#y",
            "s3://b/x\ny",
            "s3://b/a%2fb",
            "s3://AKIA:secret@bucket/x",
            "https://user:pw@host/x",
            "https://host:0/x",
            "https://host:99999/x",
            "https://-o/x",
            "http://example.org/x",
            "http://127.example.org/y",
        ] {
            assert!(
                BucketAddress::parse(bad).is_some_and(|e| e.is_err()),
                "{bad}"
            );
        }
        assert_eq!(BucketAddress::parse("ssh://host/x"), None);
        assert_eq!(BucketAddress::parse("s3"), None);
    }
}
