//! Claims against docs/format/claims.md.

use super::vectors::{Outcome, hold_against, key_of_the_pages};
use dmv_core::claims::{
    Claim, ClaimBook, ClaimEnding, ClaimList, HeldClaims, SignedList, Writer, settle,
};
use dmv_core::hash::{ObjectId, encode_hex};
use dmv_core::object::codec::EncodeError;
use dmv_core::object::name::RepoPath;

/// Returns a list with these claims, signed with the key of the page.
fn list(number: u64, claims: Vec<Claim>) -> Result<SignedList, Box<dyn std::error::Error>> {
    let key = key_of_the_pages()?;
    let (device, place) = (*key.public().as_bytes(), [9; 16]);
    let list = ClaimList {
        writer: Writer { device, place },
        number,
        by: "Ada".to_owned(),
        claims,
        endings: Vec::new(),
    };
    sign(list)
}

fn sign(list: ClaimList) -> Result<SignedList, Box<dyn std::error::Error>> {
    let key = key_of_the_pages()?;
    let signature = key.sign_claims(&list.statement()?);
    Ok(SignedList::new(list, &signature)?)
}

/// Returns the list with one claim.
pub fn one_list() -> Result<SignedList, Box<dyn std::error::Error>> {
    list(2, vec![claim("a", 1)?])
}

fn claim(path: &str, time: u64) -> Result<Claim, Box<dyn std::error::Error>> {
    Ok(Claim {
        path: RepoPath::parse(path.as_bytes())?,
        branch: "main".to_owned(),
        base: None,
        version: None,
        takes: false,
        time,
        since: 1_795_000_000,
        reason: String::new(),
    })
}

#[test]
fn claims_are_the_bytes_of_the_page() -> Outcome {
    let full = Claim {
        base: Some(ObjectId::from_bytes([1; 32])),
        version: Some(ObjectId::from_bytes([2; 32])),
        takes: true,
        reason: "grading \u{e9}".to_owned(),
        ..claim("shots/010", 300)?
    };
    let ended = |path: &str, device: u8| -> Result<ClaimEnding, Box<dyn std::error::Error>> {
        Ok(ClaimEnding {
            path: RepoPath::parse(path.as_bytes())?,
            device: [device; 32],
            time: 301,
            since: 1_795_000_000,
            reason: "stolen".to_owned(),
        })
    };
    let ending = ClaimList {
        endings: vec![ended("a", 3)?, ended("a", 4)?],
        ..list(299, vec![claim("b", 7)?])?.list().clone()
    };
    let lists = [
        ("list-empty", list(1, Vec::new())?),
        ("list-one", one_list()?),
        ("list-ending", sign(ending)?),
        ("list-two", list(300, vec![claim("rock.psd", 299)?, full])?),
    ];
    let mut text = "# Values of docs/format/claims.md\n".to_owned();
    for (name, list) in &lists {
        assert_eq!(&SignedList::decode(list.as_bytes())?, list);
        text.push_str(&format!("{name} {}\n", encode_hex(list.as_bytes())));
    }
    let mut book = ClaimBook::default();
    for (_, list) in lists {
        book.join(list)?;
    }
    let held = settle(&book, &HeldClaims::default());
    for (name, held) in [("held-none", HeldClaims::default()), ("held-two", held)] {
        text.push_str(&format!("{name} {}\n", encode_hex(&held.encode())));
    }
    hold_against("claims.txt", &text)
}

#[test]
fn claims_out_of_order_have_no_encoding() -> Outcome {
    let twice = list(1, vec![claim("b", 1)?, claim("a", 1)?]);
    let what = "claims are not in order";
    let refused = twice.err().ok_or("it is refused")?;
    assert_eq!(refused.downcast_ref(), Some(&EncodeError { what }));
    Ok(())
}
