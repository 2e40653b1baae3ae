//! Carrying out what telling claims at a bucket asks for.

use super::client::{BucketClient, pause_after_lost_races, stays};
use crate::files::{FileFailure, Files};
use crate::format::{CLAIMS, ClaimsFile};
use crate::machines::{ClaimsAnswer, ClaimsEnd, ClaimsMachine, ClaimsRequest, ClaimsStep, Tag};
use dmv_core::claims::{RuleChange, SignedList};
use dmv_core::job::Job;
use dmv_net::session::NetError;
use dmv_net::trouble::Trouble;

/// The claims of a bucket, and the state in which they were last seen.
pub struct BucketClaimsFile<'f> {
    files: &'f dyn Files,
    job: &'f Job,
    /// Whether it takes no files from anybody.
    is_read_only: bool,
    /// Called before the first attempt to replace the file. May test the store.
    test: Box<dyn Fn() -> Result<(), NetError> + 'f>,
    known: Option<KnownFile>,
}

struct KnownFile {
    file: ClaimsFile,
    tag: Option<Tag>,
}

/// What a bucket has after lists were told.
pub struct ToldFile {
    /// The file.
    pub file: ClaimsFile,
    /// Why it lacks lists, if it does.
    pub untold: Option<Trouble>,
}

/// Why nothing was told.
#[derive(Debug)]
pub enum ClaimsFailure {
    /// The store fails.
    Store(Trouble),
    /// The test of the store fails, or there was none.
    Untested(NetError),
}

impl<'f> BucketClaimsFile<'f> {
    /// Returns the claims of a bucket. Reads nothing yet.
    pub fn new(
        files: &'f dyn Files,
        is_read_only: bool,
        test: Box<dyn Fn() -> Result<(), NetError> + 'f>,
        job: &'f Job,
    ) -> BucketClaimsFile<'f> {
        BucketClaimsFile {
            files,
            job,
            is_read_only,
            test,
            known: None,
        }
    }

    /// Tells lists, and changes a rule for pushes, if one is to change. The first time, this reads the
    /// file; later it goes on from what it has seen.
    pub fn tell(
        &mut self,
        lists: &[SignedList],
        change: Option<RuleChange>,
    ) -> Result<ToldFile, ClaimsFailure> {
        let mut machine = ClaimsMachine::new(lists.to_vec(), change);
        let (mut trouble, mut tag, mut is_tested) = (None, None, false);
        let mut step = match self.known.take() {
            Some(KnownFile { file, tag: known }) => {
                tag.clone_from(&known);
                machine.begin_from(file, known)
            }
            None => ClaimsStep::Ask(machine.begin()),
        };
        loop {
            let request = match step {
                ClaimsStep::Ask(request) => request,
                ClaimsStep::End(ClaimsEnd::Told(file)) => return Ok(self.told(*file, tag, None)),
                ClaimsStep::End(ClaimsEnd::NoRoom(file)) => {
                    return Ok(self.told(*file, tag, Some(Trouble::NoRoomForClaims)));
                }
                ClaimsStep::End(ClaimsEnd::NotTold(file)) => {
                    let why = trouble.unwrap_or(Trouble::Mirror);
                    // Claims can wait for the next contact. A setting cannot.
                    return if change.is_some_and(|change| file.rules.with(change) != file.rules) {
                        Err(ClaimsFailure::Store(why))
                    } else {
                        Ok(self.told(*file, tag, Some(why)))
                    };
                }
                ClaimsStep::End(ClaimsEnd::Unknown) => {
                    let unclear = || Trouble::Cut("no answer that helps".to_owned());
                    return Err(ClaimsFailure::Store(trouble.unwrap_or_else(unclear)));
                }
            };
            let writes = matches!(request, ClaimsRequest::Put { .. }) && !self.is_read_only;
            if writes && !std::mem::replace(&mut is_tested, true) {
                (self.test)().map_err(ClaimsFailure::Untested)?;
            }
            let answer = self.ask(request, &mut trouble);
            if let ClaimsAnswer::File(_, now) | ClaimsAnswer::Replaced(now) = &answer {
                tag = Some(now.clone());
            }
            step = machine.answer(answer);
        }
    }

    /// Remembers what the bucket has.
    fn told(&mut self, file: ClaimsFile, tag: Option<Tag>, untold: Option<Trouble>) -> ToldFile {
        self.known = Some(KnownFile {
            file: file.clone(),
            tag,
        });
        ToldFile { file, untold }
    }

    fn ask(&self, request: ClaimsRequest, trouble: &mut Option<Trouble>) -> ClaimsAnswer {
        match request {
            ClaimsRequest::Get { lost } => {
                if lost > 0 && !pause_after_lost_races(self.job, lost) {
                    return ClaimsAnswer::Refused;
                }
                let client = BucketClient::new(self.files, self.job);
                match client.repeat(|files| files.read_whole(CLAIMS, None)) {
                    Ok((bytes, tag)) => match ClaimsFile::decode(&bytes) {
                        Ok(file) => ClaimsAnswer::File(Box::new(file), tag),
                        Err(e) if e.is_too_new() => refused(Trouble::TooNew, trouble),
                        Err(e) => refused(Trouble::Damaged(format!("{CLAIMS}: {e}")), trouble),
                    },
                    Err(FileFailure::Missing) => ClaimsAnswer::Nothing,
                    Err(e) => failed(e, trouble),
                }
            }
            ClaimsRequest::Put { .. } if self.is_read_only => ClaimsAnswer::Refused,
            ClaimsRequest::Put { file, over } => {
                match self.files.write_if(CLAIMS, file.encode(), over.as_ref()) {
                    Ok(tag) => ClaimsAnswer::Replaced(tag),
                    Err(FileFailure::Refused) => ClaimsAnswer::Lost,
                    Err(e) => failed(e, trouble),
                }
            }
        }
    }
}

fn refused(why: Trouble, trouble: &mut Option<Trouble>) -> ClaimsAnswer {
    *trouble = Some(why);
    ClaimsAnswer::Refused
}

fn failed(e: FileFailure, trouble: &mut Option<Trouble>) -> ClaimsAnswer {
    let FileFailure::Trouble(why) = e else {
        return ClaimsAnswer::Unclear;
    };
    let answer = if stays(&why) {
        ClaimsAnswer::Refused
    } else {
        ClaimsAnswer::Unclear
    };
    *trouble = Some(why);
    answer
}
