//! Claims: both sides tell each other who works on what. docs/protocol.md, "Claims".

use super::NetError;
use super::client::Client;
use super::link::Link;
use crate::wire::{Access, ClaimsEnd, MAX_CLAIM_LISTS, Message};
use dmv_core::claims::{
    ClaimBook, DEVICE_BYTES, HeldClaims, MAX_BOOK_BYTES, PushRules, SignedList,
};
use dmv_core::repo::{
    ClaimsThere, DisplacedClaim, OperationRequest, PeerKey, Repo, RepoError, ToldClaims,
};

/// The bytes of lists that a side puts into one message. Only a single list may be larger.
const PAGE_BYTES: usize = 256 << 10;

/// Lists of claims that a peer tells, in bounds.
#[derive(Default)]
pub struct ReceivedClaims {
    lists: Vec<SignedList>,
    bytes: usize,
}

impl ReceivedClaims {
    /// Takes the lists of one message. Fails if one is malformed or its device has not signed it. Leaves out
    /// lists of a later version, which only later programs understand.
    pub fn add(&mut self, lists: &[Vec<u8>]) -> Result<(), NetError> {
        for bytes in lists {
            self.bytes += bytes.len();
            if self.bytes > MAX_BOOK_BYTES || self.lists.len() >= MAX_CLAIM_LISTS {
                return Err(NetError::Protocol("too many claims"));
            }
            match SignedList::decode(bytes) {
                Ok(list) => self.lists.push(list),
                Err(e) if e.is_too_new() => {}
                Err(_) => return Err(NetError::Protocol("claims that nobody has made")),
            }
        }
        Ok(())
    }

    /// Returns the lists.
    pub fn into_lists(self) -> Vec<SignedList> {
        self.lists
    }
}

/// Sends lists in messages that `message` makes. It gets whether they are the last.
fn say_lists<'l>(
    link: &mut Link,
    lists: impl Iterator<Item = &'l SignedList>,
    message: impl Fn(Vec<Vec<u8>>, bool) -> Message,
) -> Result<(), NetError> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for list in lists {
        if bytes + list.as_bytes().len() > PAGE_BYTES && !page.is_empty() {
            link.say(&message(std::mem::take(&mut page), false))?;
            bytes = 0;
        }
        bytes += list.as_bytes().len();
        page.push(list.as_bytes().to_vec());
    }
    link.say(&message(page, true))
}

/// Answers a client that has told its claims: with the lists that it has not told like this, and what holds
/// here.
pub fn say_claims(
    link: &mut Link,
    told: &[SignedList],
    book: &ClaimBook,
    here: &ClaimsThere,
) -> Result<(), NetError> {
    let mut news = book.lists().filter(|list| !told.contains(list)).peekable();
    if news.peek().is_some() {
        say_lists(link, news, |lists, _| Message::Claims(lists, None))?;
    }
    let end = ClaimsEnd {
        held: here.held.encode(),
        enforced: here.rules.keeps_to_claims,
    };
    link.say(&Message::Claims(Vec::new(), Some(end)))
}

/// Who tells claims.
#[derive(Clone, Copy)]
pub(super) struct ClaimsClient {
    /// What the client may do.
    pub access: Access,
    /// Its device, if the transport knows it.
    pub device: Option<[u8; DEVICE_BYTES]>,
}

/// Takes the claims that a client has told, and answers.
pub(super) fn answer_claims(
    repo: &Repo,
    link: &mut Link,
    by: ClaimsClient,
    told: ReceivedClaims,
    request: &OperationRequest,
) -> Result<(), NetError> {
    let told = told.into_lists();
    let taken = admitted(repo, by, &told)?;
    // A fetch does not fail because claims cannot be stored here. The answer shows it.
    let _ = repo.take_claims(&taken, request);
    say_claims(link, &told, &repo.claim_book()?, &repo.claims_here()?)
}

/// Returns the lists that a client may tell. One that only reads tells its own, and those of devices that
/// this repository admits.
fn admitted(
    repo: &Repo,
    by: ClaimsClient,
    told: &[SignedList],
) -> Result<Vec<SignedList>, RepoError> {
    if repo.refs().is_read_only() {
        return Ok(Vec::new());
    }
    let mut taken = Vec::new();
    for list in told {
        let device = list.list().writer.device;
        let is_admitted = by.access == Access::Write
            || by.device == Some(device)
            || repo.peer(&PeerKey::from_bytes(device))?.is_some();
        taken.extend(is_admitted.then(|| list.clone()));
    }
    Ok(taken)
}

impl Client<'_> {
    /// Returns whether the server knows claims.
    pub fn knows_claims(&self) -> bool {
        self.server.claims().is_some()
    }

    /// Returns whether an exchange of claims would bring nothing: nobody has ever claimed anything, here or
    /// there.
    pub fn lacks_claims(&self, book: &ClaimBook) -> bool {
        let none = ClaimsThere::default().digest(&ClaimBook::default());
        book.is_empty() && self.server.claims().is_none_or(|digest| digest == none)
    }

    /// Tells the server all claims that are known here, and notes what it knows, under the name of the remote
    /// if it has one. Does nothing if both sides know the same, unless it `must`. Returns the own claims that
    /// somebody else is before now.
    ///
    /// Fails with [`NetError::Version`] if the server does not know claims.
    pub fn exchange_claims(
        &mut self,
        remote: Option<&str>,
        must: bool,
        request: &OperationRequest,
    ) -> Result<Vec<DisplacedClaim>, NetError> {
        let Some(digest) = self.server.claims() else {
            return Err(NetError::Version("it does not know claims".to_owned()));
        };
        let book = self.repo.claim_book()?;
        let known = remote
            .map(|remote| self.repo.claims_at(remote))
            .transpose()?;
        let known = known.unwrap_or_default();
        if *digest == known.digest(&book)[..] && !must {
            self.claims_there = Some(known);
            return Ok(Vec::new());
        }
        say_lists(&mut self.link, book.lists(), Message::TellClaims)?;
        self.link.traffic.round_trips += 1;
        let mut received = ReceivedClaims::default();
        let end = loop {
            let Message::Claims(lists, end) = self.link.hear(self.job)? else {
                return Err(NetError::Protocol("claims were expected"));
            };
            if lists.is_empty() && end.is_none() {
                return Err(NetError::Protocol("claims that do not end"));
            }
            received.add(&lists)?;
            if let Some(end) = end {
                break end;
            }
        };
        let bad = |_| NetError::Protocol("claims that hold do not decode");
        let there = ClaimsThere {
            place: self.server.repository,
            held: HeldClaims::decode(&end.held).map_err(bad)?,
            rules: PushRules {
                keeps_to_claims: end.enforced,
                // It checks them itself.
                needs_signatures: false,
            },
        };
        self.claims_there = Some(there.clone());
        let told = ToldClaims {
            remote: remote.map(str::to_owned),
            lists: received.into_lists(),
            there,
        };
        Ok(self.repo.note_claims(&told, request)?)
    }
}

/// Returns what a Hello says of the claims of a repository. An unreadable record of them must stop the
/// commands that need it, but not a Hello.
pub(super) fn digest_of(repo: &Repo) -> Vec<u8> {
    let digest =
        || -> Result<[u8; 16], RepoError> { Ok(repo.claims_here()?.digest(&repo.claim_book()?)) };
    digest().map_or(Vec::new(), Vec::from)
}

/// Returns the device in a client's Hello.
pub(super) fn device_in(value: Option<&[u8]>) -> Option<[u8; DEVICE_BYTES]> {
    value?.try_into().ok()
}
