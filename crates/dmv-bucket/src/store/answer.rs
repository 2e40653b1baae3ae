//! Answers of a store that refuse a request, and what they mean.

use dmv_net::trouble::Trouble;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use object_store::client::{HttpError, HttpErrorKind, HttpResponse};
use std::error::Error;

/// What stores call a file or an upload that does not exist.
const ABSENT: [&str; 3] = ["NoSuchKey", "NoSuchUpload", "BlobNotFound"];

/// An answer that refused a request, or its absence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status; 0 if there was no answer.
    pub status: u16,
    /// The store's word for it, such as `AccessDenied`.
    pub code: String,
    /// What the store or the system says.
    pub says: String,
    /// The region that the bucket is in, if the store names it.
    pub region: Option<String>,
    /// How many seconds this device's clock is ahead of the store's.
    pub ahead: Option<i64>,
    /// Whether a web page came in place of a file.
    pub is_page: bool,
    /// Whether a refusal has a text that is none of a store: something else answers.
    pub is_foreign: bool,
    /// Whether the request may have reached the store.
    pub is_sent: bool,
}

impl Answer {
    /// Returns the answer for a request that has none.
    pub fn of_failure(e: &HttpError, is_sent: bool) -> Answer {
        let mut says = match e.kind() {
            HttpErrorKind::Timeout => "the time is up".to_owned(),
            _ => String::new(),
        };
        // The innermost cause is the system's own word; what is around it repeats "error".
        let mut cause: Option<&dyn Error> = e.source();
        while let Some(e) = cause.filter(|_| e.kind() != HttpErrorKind::Timeout) {
            says = e.to_string();
            cause = e.source();
        }
        Answer {
            status: 0,
            code: String::new(),
            says: short(&says),
            region: None,
            ahead: None,
            is_page: false,
            is_foreign: false,
            is_sent,
        }
    }

    /// Returns the answer for a success that is a web page.
    pub fn page(response: &HttpResponse) -> Answer {
        Answer {
            is_page: true,
            ..Answer::of_status(response, b"")
        }
    }

    /// Returns what a refusal says.
    pub fn of_status(response: &HttpResponse, text: &[u8]) -> Answer {
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let text = String::from_utf8_lossy(text);
        let is_html = header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
        // Azure names it in a header, too: the answer to HEAD has no text.
        let code = element(&text, "Code").or_else(|| header("x-ms-error-code").map(short));
        let code = code.unwrap_or_default();
        let ahead = header("date")
            .and_then(|date| DateTimeParser::new().parse_timestamp(date).ok())
            .map(|theirs| Timestamp::now().as_second() - theirs.as_second());
        let region = header("x-amz-bucket-region").map(str::to_owned);
        Answer {
            status: response.status().as_u16(),
            is_page: is_html && code.is_empty(),
            is_foreign: code.is_empty() && !text.trim().is_empty(),
            code,
            says: element(&text, "Message").unwrap_or_default(),
            region: region.or_else(|| element(&text, "Region")),
            ahead,
            is_sent: true,
        }
    }

    /// Returns whether the answer says that a file does not exist, or an upload. The status alone says
    /// less: stores also use it for keys and buckets that they do not know, and proxies for what they do
    /// not serve. The answer to a write has to name the file in words.
    pub fn is_absence(&self, method: &str) -> bool {
        self.status == 404
            && match &self.code[..] {
                "" => method != "PUT" && !self.is_page && !self.is_foreign,
                code => ABSENT.contains(&code),
            }
    }

    /// Returns what the answer means.
    pub fn trouble(&self) -> Trouble {
        let says = self.words();
        match &self.code[..] {
            "NoSuchBucket" | "ContainerNotFound" => return Trouble::NoBucket,
            "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" => {
                return Trouble::Expired;
            }
            "RequestTimeTooSkewed" | "RequestExpired" | "RequestInTheFuture" => {
                return Trouble::Clock(self.ahead);
            }
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "InvalidToken"
            | "InvalidSecurity"
            | "AuthenticationFailed"
            | "XAdminUserNotFound"
            | "XMinioAdminNoSuchUser"
            | "XMinioAdminNoSuchAccessKey"
            | "XMinioInvalidIAMCredentials" => return Trouble::Keys(says),
            "AuthorizationHeaderMalformed"
            | "PermanentRedirect"
            | "TemporaryRedirect"
            | "IllegalLocationConstraintException" => {
                return Trouble::Region(self.region.clone());
            }
            "InvalidObjectState" | "BlobArchived" => return Trouble::Cold,
            "QuotaExceeded"
            | "XMinioStorageFull"
            | "XMinioAdminBucketQuotaExceeded"
            | "InsufficientStorage"
            | "BucketQuotaExceeded" => return Trouble::Full(says),
            "SlowDown" | "TooManyRequests" | "ServerBusy" => return Trouble::Busy,
            _ => {}
        }
        match self.status {
            0 if self.is_sent => Trouble::Cut(says),
            0 => Trouble::Unreachable(says),
            404 if self.is_foreign => Trouble::Page,
            _ if self.is_page => Trouble::Page,
            301 | 307 | 308 => Trouble::Region(self.region.clone()),
            401 | 403 => Trouble::Denied(says),
            501 => Trouble::Unsupported(says),
            507 => Trouble::Full(says),
            429 | 503 => Trouble::Busy,
            _ => Trouble::Other(says),
        }
    }

    fn words(&self) -> String {
        let mut words = match (&self.code[..], &self.says[..]) {
            ("", "") => format!("status {}", self.status),
            ("", says) => says.to_owned(),
            (code, "") => code.to_owned(),
            (code, says) => format!("{says} ({code})"),
        };
        if self.status == 0 && self.says.is_empty() {
            words = "it does not answer".to_owned();
        }
        words
    }
}

/// Returns the text of the first XML element `name`.
fn element(text: &str, name: &str) -> Option<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let rest = &text[text.find(&open)? + open.len()..];
    let inner = &rest[..rest.find(&close)?];
    let plain = inner
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&");
    Some(short(&plain))
}

/// Returns the first line, at most 200 characters of it.
fn short(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    line.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, code: &str) -> Answer {
        Answer {
            status,
            code: code.to_owned(),
            says: String::new(),
            region: None,
            ahead: None,
            is_page: false,
            is_foreign: false,
            is_sent: true,
        }
    }

    #[test]
    fn only_words_for_a_file_or_an_empty_answer_mean_that_it_does_not_exist() {
        for code in ["NoSuchKey", "BlobNotFound", "NoSuchUpload"] {
            assert!(answer(404, code).is_absence("PUT"), "{code}");
            assert!(!answer(403, code).is_absence("GET"), "{code}");
        }
        for method in ["GET", "HEAD", "DELETE"] {
            assert!(answer(404, "").is_absence(method), "{method}");
        }
        assert!(!answer(404, "").is_absence("PUT"));
        for code in [
            "NoSuchBucket",
            "XAdminUserNotFound",
            "ContainerNotFound",
            "Whatever",
        ] {
            assert!(!answer(404, code).is_absence("GET"), "{code}");
        }
        let foreign = Answer {
            is_foreign: true,
            ..answer(404, "")
        };
        assert!(!foreign.is_absence("GET"));
        assert_eq!(foreign.trouble(), Trouble::Page);
        let unknown = answer(404, "XAdminUserNotFound").trouble();
        assert!(matches!(unknown, Trouble::Keys(_)), "{unknown:?}");
    }

    #[test]
    fn the_stores_words_are_understood() {
        for (status, code, wanted) in [
            (404, "NoSuchBucket", Trouble::NoBucket),
            (400, "ExpiredToken", Trouble::Expired),
            (403, "RequestTimeTooSkewed", Trouble::Clock(None)),
            (301, "PermanentRedirect", Trouble::Region(None)),
            (403, "InvalidObjectState", Trouble::Cold),
            (
                403,
                "AccessDenied",
                Trouble::Denied("AccessDenied".to_owned()),
            ),
            (
                403,
                "QuotaExceeded",
                Trouble::Full("QuotaExceeded".to_owned()),
            ),
            (507, "", Trouble::Full("status 507".to_owned())),
            (503, "", Trouble::Busy),
            (
                501,
                "NotImplemented",
                Trouble::Unsupported("NotImplemented".to_owned()),
            ),
            (500, "", Trouble::Other("status 500".to_owned())),
        ] {
            assert_eq!(answer(status, code).trouble(), wanted);
        }
    }

    #[test]
    fn the_text_of_an_error_is_read_and_bounded() {
        let text = "<?xml?><Error><Code>A&amp;B</Code><Message>\n one\ntwo </Message></Error>";
        assert_eq!(element(text, "Code").as_deref(), Some("A&B"));
        assert_eq!(element(text, "Message").as_deref(), Some("one"));
        assert_eq!(element(text, "Region"), None);
        let long = format!("<Message>{}</Message>", "x".repeat(5000));
        assert_eq!(element(&long, "Message").map(|m| m.len()), Some(200));
        assert_eq!(element("<Message>", "Message"), None);
    }
}
