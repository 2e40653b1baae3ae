//! Who may ask for what. The checks are pure; `server` runs them in this order:
//!
//! 1. the `Host`, on each request: a page elsewhere whose name was made to lead here (DNS rebinding)
//!    sends its own name;
//! 2. `Sec-Fetch-Site`, where the browser sends it: other sites, and other ports of this machine, are
//!    not answered;
//! 3. the cookie, which only the address that the program prints gives out, once;
//!    `/dav` has a password instead, for programs that know no cookies;
//! 4. for a change: POST, with an `Origin` that is this very server, and a token that stands in each
//!    form.

use data_encoding::{BASE64, HEXLOWER};
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use std::sync::atomic::{AtomicBool, Ordering};

/// The secrets of one run.
pub struct Secrets {
    port: u16,
    /// In the address that the program prints.
    entry: String,
    used: AtomicBool,
    cookie: String,
    form: String,
    /// Of programs for WebDAV.
    password: String,
}

/// The name of programs for WebDAV. It is no secret.
pub const DAV_USER: &str = "dmv";

/// What the entry address gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The cookie.
    Welcome,
    /// The address was used before.
    Used,
    /// It is not the address.
    Wrong,
}

impl Secrets {
    /// Fresh secrets for the server at `port`.
    pub fn new(port: u16) -> Result<Secrets, getrandom::Error> {
        let secret = || -> Result<String, getrandom::Error> {
            let mut bytes = [0; 24];
            getrandom::fill(&mut bytes)?;
            Ok(HEXLOWER.encode(&bytes))
        };
        Ok(Secrets {
            port,
            entry: secret()?,
            used: AtomicBool::new(false),
            cookie: secret()?,
            form: secret()?,
            password: secret()?,
        })
    }

    /// The address to open first.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/in/{}", self.port, self.entry)
    }

    /// Whether the request was sent to this server by its name.
    pub fn is_for_us(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let first = hosts.next().and_then(|host| host.to_str().ok());
        hosts.next().is_none() && first.is_some_and(|host| self.is_our_name(host))
    }

    /// Whether this is a name of this server, with its port. A request's target may name a server, too.
    pub fn is_our_name(&self, host: &str) -> bool {
        self.names().iter().any(|name| name == host)
    }

    /// Whether the request comes from a page of this server or from the user, or shows a page in a tab
    /// of its own, where no other page can read it.
    pub fn is_from_here(&self, headers: &HeaderMap) -> bool {
        let value = |name| headers.get(name).map(HeaderValue::as_bytes);
        let is = |name, text: &[u8]| value(name) == Some(text);
        match value(FETCH_SITE) {
            None | Some(b"same-origin" | b"none") => true,
            _ => is(FETCH_MODE, b"navigate") && is(FETCH_DEST, b"document"),
        }
    }

    /// Whether the request has the cookie.
    pub fn is_known(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter();
        let mut cookies = cookies.filter_map(|line| line.to_str().ok());
        cookies.any(|line| {
            let mut pairs = line
                .split(';')
                .filter_map(|pair| pair.trim().split_once('='));
            pairs.any(|(key, value)| key == name && same(value, &self.cookie))
        })
    }

    /// The address of all branches and tags for WebDAV.
    pub fn dav_address(&self) -> String {
        format!("http://127.0.0.1:{}/dav/", self.port)
    }

    /// The password of programs for WebDAV, which know no cookies. It works as long as this process.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Whether the request has the name and the password for WebDAV.
    pub fn has_password(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let first = given.next().and_then(|given| given.to_str().ok());
        let decoded = first.and_then(|given| {
            let (scheme, rest) = given.split_once(' ')?;
            let is_basic = scheme.eq_ignore_ascii_case("basic");
            let bytes = BASE64.decode(rest.trim().as_bytes()).ok();
            bytes.filter(|_| is_basic)
        });
        let expected = format!("{DAV_USER}:{}", self.password);
        let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        given.next().is_none() && text.is_some_and(|text| same(&text, &expected))
    }

    /// Whether a request for a change was made on a page of this server.
    pub fn may_change(&self, headers: &HeaderMap, token: Option<&str>) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        let origin = origins.next().and_then(|origin| origin.to_str().ok());
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let is_ours = match (origin.and_then(|o| o.strip_prefix("http://")), host) {
            (Some(origin), Some(host)) => origin == host && self.is_for_us(headers),
            _ => false,
        };
        let has_token = token.is_some_and(|token| same(token, &self.form));
        is_ours && origins.next().is_none() && has_token
    }

    /// What the last part of an entry address gives. It gives the cookie once.
    pub fn enter(&self, token: &str) -> Entry {
        if !same(token, &self.entry) {
            return Entry::Wrong;
        }
        if self.used.swap(true, Ordering::SeqCst) {
            Entry::Used
        } else {
            Entry::Welcome
        }
    }

    /// The header that sets the cookie. Browsers give one server's cookies to all ports, so the name
    /// has the port. It dies with the browser's session, and its value with this process.
    pub fn set_cookie(&self) -> String {
        let name = self.cookie_name();
        format!("{name}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie)
    }

    /// The token of each form.
    pub fn form_token(&self) -> &str {
        &self.form
    }

    fn cookie_name(&self) -> String {
        format!("dmv-{}", self.port)
    }

    fn names(&self) -> [String; 2] {
        ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port))
    }
}

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Compares in a time that depends on the lengths alone.
fn same(given: &str, secret: &str) -> bool {
    let pairs = given.bytes().zip(secret.bytes());
    let differ = pairs.fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == secret.len() && std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut out = HeaderMap::new();
        for (name, value) in list {
            let value = HeaderValue::from_str(value).expect("a value");
            out.append(HeaderName::from_static(name), value);
        }
        out
    }

    fn secrets() -> Secrets {
        Secrets::new(4711).expect("random bytes")
    }

    #[test]
    fn only_our_own_name_is_answered() {
        let secrets = secrets();
        for host in ["127.0.0.1:4711", "localhost:4711"] {
            assert!(secrets.is_for_us(&headers(&[("host", host)])), "{host}");
        }
        let others = [
            "evil.example:4711",
            "127.0.0.1",
            "localhost",
            "127.0.0.1:80",
            "127.0.0.1:4711.evil",
            "localhost:47110",
            "[::1]:4711",
            "LOCALHOST:4711.",
            "",
            "127.1:4711",
            "0.0.0.0:4711",
        ];
        for host in others {
            assert!(!secrets.is_for_us(&headers(&[("host", host)])), "{host}");
        }
        assert!(!secrets.is_for_us(&headers(&[])));
        let two = [("host", "localhost:4711"), ("host", "evil.example")];
        assert!(!secrets.is_for_us(&headers(&two)));
    }

    #[test]
    fn the_entry_address_works_once() {
        let secrets = secrets();
        let token = secrets.address();
        let token = token.rsplit('/').next().expect("a token");
        assert_eq!(secrets.enter("x"), Entry::Wrong);
        assert_eq!(secrets.enter(&token[1..]), Entry::Wrong);
        assert_eq!(secrets.enter(token), Entry::Welcome);
        assert_eq!(secrets.enter(token), Entry::Used);
    }

    #[test]
    fn the_cookie_is_ours_and_for_no_script() {
        let secrets = secrets();
        let set = secrets.set_cookie();
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"));
        let pair = set.split(';').next().expect("a pair");
        let other = format!("a=b; {pair}; c=d");
        assert!(secrets.is_known(&headers(&[("cookie", &other)])));
        assert!(!secrets.is_known(&headers(&[("cookie", "dmv-4711=")])));
        assert!(!secrets.is_known(&headers(&[("cookie", &pair.replace("4711", "4712"))])));
        assert!(!secrets.is_known(&headers(&[])));
    }

    #[test]
    fn a_program_needs_the_name_and_the_password() {
        let secrets = secrets();
        let of = |text: String| format!("Basic {}", BASE64.encode(text.as_bytes()));
        let password = secrets.password().to_owned();
        let good = of(format!("dmv:{password}"));
        assert!(secrets.has_password(&headers(&[("authorization", &good)])));
        assert!(secrets.has_password(&headers(&[(
            "authorization",
            &good.replace("Basic", "basic")
        )])));
        let two = [("authorization", &good[..]), ("authorization", "Basic x")];
        assert!(!secrets.has_password(&headers(&two)));
        for other in [
            of(format!("ada:{password}")),
            of("dmv:".to_owned()),
            of(password.clone()),
            of(format!("dmv:{password}x")),
            good.replace("Basic", "Bearer"),
            "Basic".to_owned(),
            "Basic ****".to_owned(),
            String::new(),
        ] {
            assert!(
                !secrets.has_password(&headers(&[("authorization", &other)])),
                "{other}"
            );
        }
        assert!(!secrets.has_password(&headers(&[])));
        let cookie = secrets.set_cookie();
        assert!(!cookie.contains(&password));
    }

    #[test]
    fn a_change_needs_our_origin_and_our_token() {
        let secrets = secrets();
        let token = secrets.form_token().to_owned();
        let host = ("host", "127.0.0.1:4711");
        let ours = [host, ("origin", "http://127.0.0.1:4711")];
        assert!(secrets.may_change(&headers(&ours), Some(&token)));
        assert!(!secrets.may_change(&headers(&ours), None));
        assert!(!secrets.may_change(&headers(&ours), Some("")));
        let others = [
            "http://localhost:4711",
            "https://127.0.0.1:4711",
            "http://127.0.0.1:4712",
            "null",
            "http://evil.example",
            "http://127.0.0.1:4711.evil.example",
            "",
        ];
        for origin in others {
            let headers = headers(&[host, ("origin", origin)]);
            assert!(!secrets.may_change(&headers, Some(&token)), "{origin}");
        }
        assert!(!secrets.may_change(&headers(&[host]), Some(&token)));
        let twice = [ours[0], ours[1], ("origin", "http://evil.example")];
        assert!(!secrets.may_change(&headers(&twice), Some(&token)));
    }

    #[test]
    fn another_site_or_port_is_not_from_here() {
        let secrets = secrets();
        for (site, fits) in [
            ("same-origin", true),
            ("none", true),
            ("same-site", false),
            ("cross-site", false),
        ] {
            let headers = headers(&[("sec-fetch-site", site)]);
            assert_eq!(secrets.is_from_here(&headers), fits, "{site}");
        }
        assert!(secrets.is_from_here(&headers(&[])));
        let site = ("sec-fetch-site", "cross-site");
        let tab = [
            site,
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert!(secrets.is_from_here(&headers(&tab)));
        let frame = [
            site,
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "iframe"),
        ];
        assert!(!secrets.is_from_here(&headers(&frame)));
    }
}
