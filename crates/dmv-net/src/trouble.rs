//! Why an object store does not do what it was asked, whatever kind of store it is.

/// Why a store does not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The bucket does not exist.
    #[error("there is no such bucket")]
    NoBucket,
    /// The bucket has no root at this place.
    #[error("there is no repository in the bucket at this place")]
    NoRoot,
    /// The root is lost: the file that says what the repository consists of.
    #[error("{0}")]
    LostRoot(RootLoss),
    /// The store has lost a root that it had acknowledged, or shows an older one.
    #[error(
        "the store shows an older state of the repository than before: it has lost a write, or somebody has replaced the root"
    )]
    Forked,
    /// A file that the root names does not exist.
    #[error("a file is lost that the repository needs: {0}")]
    Lost(String),
    /// A file does not decode, or has other bytes than it should.
    #[error("damaged: {0}")]
    Damaged(String),
    /// Content was purged while it was read.
    #[error("content was purged there in this moment; run the command again")]
    Purged,
    /// Content has expired while it was read.
    #[error("content has expired there in this moment; run the command again")]
    ContentExpired,
    /// A file is from a newer version of dmv.
    #[error("the repository is from a newer version of dmv")]
    TooNew,
    /// There are no usable credentials here.
    #[error("{0}")]
    NoKeys(String),
    /// A setting is unusable.
    #[error("{0}")]
    Settings(String),
    /// The store does not know the key, or the secret is another one.
    #[error("the store does not accept these credentials: {0}")]
    Keys(String),
    /// The credentials have expired.
    #[error("the credentials have expired")]
    Expired,
    /// The credentials do not allow this.
    #[error("the store denies access: {0}")]
    Denied(String),
    /// The clocks differ too much.
    #[error("{}", clocks(*.0))]
    Clock(Option<i64>),
    /// The bucket is in another region, perhaps in this one.
    #[error("the bucket is in {}", .0.as_deref().map_or("another region".to_owned(), |r| format!("region {r}")))]
    Region(Option<String>),
    /// A web page came: a proxy or a portal is in between, or the address is that of a web site.
    #[error(
        "a web page came in place of a file: a proxy answers for the store, or this is a web site"
    )]
    Page,
    /// The file went to a storage class that has to be thawed.
    #[error("the file is in cold storage and must be restored first")]
    Cold,
    /// No more space, or a quota is used up.
    #[error("the store is full: {0}")]
    Full(String),
    /// The store has no such operation.
    #[error("the store cannot do this: {0}")]
    Unsupported(String),
    /// The place is a web server, which shows the files of a bucket.
    #[error("this is a read-only mirror: a web server takes no files")]
    Mirror,
    /// The file of claims has no room for more.
    #[error("the bucket has no room for further claims")]
    NoRoomForClaims,
    /// The store asks for fewer requests.
    #[error("the store gets too many requests; try again later")]
    Busy,
    /// No connection.
    #[error("cannot reach the store: {0}")]
    Unreachable(String),
    /// The connection ended before the answer.
    #[error("the connection was lost: {0}")]
    Cut(String),
    /// An attempt to publish an operation has no answer: it may have been published, and may still be.
    #[error("it is not known whether operation {operation}{} was published: no answer came", undoing(undoes.as_deref()))]
    Unanswered {
        /// The first digits of its id.
        operation: String,
        /// Those of the operation that it takes back.
        undoes: Option<String>,
    },
    /// Anything else.
    #[error("the store reports: {0}")]
    Other(String),
}

fn undoing(undoes: Option<&str>) -> String {
    undoes.map_or(String::new(), |of| {
        format!(", which undoes operation {of},")
    })
}

/// How the root of a bucket was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootLoss {
    /// It is gone, and this device has seen it.
    #[error(
        "the file 'root' is gone, which says what the repository consists of; it was there when this device last looked"
    )]
    Gone,
    /// It does not decode.
    #[error("the file 'root' is damaged, which says what the repository consists of: {0}")]
    Damaged(String),
    /// It is absent, and the files of a repository are there.
    #[error(
        "files of a repository are at this place, but no file 'root' that names them; dmv makes no new repository beside them"
    )]
    Orphans,
}

fn clocks(ahead: Option<i64>) -> String {
    let most = ahead.unwrap_or_default();
    let by = match (most.unsigned_abs() + 30) / 60 {
        0 => return "this device's clock and the store's differ too much".to_owned(),
        1 => "1 minute".to_owned(),
        minutes => format!("{minutes} minutes"),
    };
    let side = if most > 0 { "ahead of" } else { "behind" };
    format!("this device's clock is {by} {side} the store's")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_clock_is_told_with_its_direction() {
        let clock = |ahead| Trouble::Clock(ahead).to_string();
        assert_eq!(
            clock(Some(1200)),
            "this device's clock is 20 minutes ahead of the store's"
        );
        assert_eq!(
            clock(Some(-65)),
            "this device's clock is 1 minute behind the store's"
        );
        assert!(clock(None).contains("differ"));
    }
}
