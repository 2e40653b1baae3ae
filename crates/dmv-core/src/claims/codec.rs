//! The bytes of a list of claims, and its signature.

use super::{
    Claim, ClaimEnding, ClaimList, DEVICE_BYTES, MAX_BY_BYTES, MAX_CLAIMS, MAX_LIST_BYTES,
    MAX_REASON_BYTES, MAX_TIME, PLACE_BYTES, Writer,
};
use crate::hash::ObjectId;
use crate::limits::{MAX_PATH_BYTES, MAX_REF_BYTES};
use crate::object::codec::{DecodeError, Decoder, EncodeError, put_bytes, put_varint};
use crate::object::name::RepoPath;
use crate::object::signature::{DEVICE_SIGNATURE_BYTES, Signature};

/// The domain of what a list's signature signs.
pub const DOMAIN: &str = "dmv-claims-1";

/// The signature of a list, by the key of its device.
pub type ClaimSignature = [u8; DEVICE_SIGNATURE_BYTES];

/// The version of a list that has ended no claim of others.
const VERSION: u8 = 1;
/// The version of the other lists. There is none between: a vector has it for that of a later program.
const VERSION_WITH_ENDINGS: u8 = 3;
const HAS_BASE: u8 = 1;
const HAS_VERSION: u8 = 2;
const TAKES: u8 = 4;
const ALL_FLAGS: u8 = HAS_BASE | HAS_VERSION | TAKES;

/// A list with a good signature of its writer's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedList {
    list: ClaimList,
    bytes: Vec<u8>,
}

impl SignedList {
    /// Makes a list from its parts. Fails if it breaks a rule or limit of the format, or if the signature is
    /// not that of its device.
    pub fn new(list: ClaimList, signature: &ClaimSignature) -> Result<SignedList, EncodeError> {
        let mut bytes = list.encode()?;
        bytes.extend_from_slice(signature);
        let what = "signature is not of this list";
        SignedList::decode(&bytes).map_err(|_| EncodeError { what })
    }

    /// Decodes a list of a peer. Fails if it is malformed or exceeds a limit, and if the device has not
    /// signed it.
    pub fn decode(bytes: &[u8]) -> Result<SignedList, DecodeError> {
        let signed = SignedList::decode_checked(bytes)?;
        let (body, signature) = bytes.split_at(bytes.len() - DEVICE_SIGNATURE_BYTES);
        let signature = Signature::Device {
            key: signed.list.writer.device,
            bytes: signature.try_into().expect("it was split off"),
        };
        if signature.is_by_device(&statement(body)) {
            Ok(signed)
        } else {
            let (what, at) = ("the device has not signed this list", body.len());
            Err(DecodeError { what, at })
        }
    }

    /// Decodes a list whose signature was checked before it was stored.
    pub fn decode_checked(bytes: &[u8]) -> Result<SignedList, DecodeError> {
        let mut input = Decoder::new(bytes);
        if bytes.len() > MAX_LIST_BYTES {
            return Err(input.error("list of claims is too long"));
        }
        let list = decode_list(&mut input)?;
        input.take(DEVICE_SIGNATURE_BYTES)?;
        input.finish()?;
        let bytes = bytes.to_vec();
        Ok(SignedList { list, bytes })
    }

    /// Returns the list.
    pub fn list(&self) -> &ClaimList {
        &self.list
    }

    /// Returns the encoded list with its signature.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl ClaimList {
    /// Returns what the signature of this list signs. Fails if the list breaks a rule or limit of the format.
    pub fn statement(&self) -> Result<Vec<u8>, EncodeError> {
        Ok(statement(&self.encode()?))
    }

    /// Encodes the list without its signature.
    fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = vec![match self.endings.len() {
            0 => VERSION,
            _ => VERSION_WITH_ENDINGS,
        }];
        out.extend_from_slice(&self.writer.device);
        out.extend_from_slice(&self.writer.place);
        put_varint(&mut out, self.number);
        put_bytes(&mut out, self.by.as_bytes());
        put_varint(&mut out, self.claims.len() as u64);
        for claim in &self.claims {
            put_claim(&mut out, claim);
        }
        if !self.endings.is_empty() {
            put_varint(&mut out, self.endings.len() as u64);
            self.endings
                .iter()
                .for_each(|ending| put_ending(&mut out, ending));
        }
        // The decoder knows all rules.
        let mut input = Decoder::new(&out);
        decode_list(&mut input).map_err(|e| EncodeError { what: e.what })?;
        if out.len() + DEVICE_SIGNATURE_BYTES > MAX_LIST_BYTES {
            let what = "list of claims is too long";
            return Err(EncodeError { what });
        }
        Ok(out)
    }
}

fn statement(body: &[u8]) -> Vec<u8> {
    [DOMAIN.as_bytes(), b"\n", body].concat()
}

fn put_claim(out: &mut Vec<u8>, claim: &Claim) {
    put_bytes(out, claim.path.as_bytes());
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    out.push(
        flag(claim.base.is_some(), HAS_BASE)
            | flag(claim.version.is_some(), HAS_VERSION)
            | flag(claim.takes, TAKES),
    );
    for id in [&claim.base, &claim.version].into_iter().flatten() {
        out.extend_from_slice(id.as_bytes());
    }
    put_bytes(out, claim.branch.as_bytes());
    put_varint(out, claim.time);
    out.extend_from_slice(&claim.since.to_le_bytes());
    put_bytes(out, claim.reason.as_bytes());
}

fn put_ending(out: &mut Vec<u8>, ending: &ClaimEnding) {
    put_bytes(out, ending.path.as_bytes());
    out.extend_from_slice(&ending.device);
    put_varint(out, ending.time);
    out.extend_from_slice(&ending.since.to_le_bytes());
    put_bytes(out, ending.reason.as_bytes());
}

fn decode_list(input: &mut Decoder<'_>) -> Result<ClaimList, DecodeError> {
    let version = input.version(VERSION..=VERSION_WITH_ENDINGS)?;
    if ![VERSION, VERSION_WITH_ENDINGS].contains(&version) {
        return Err(input.too_new());
    }
    let device = array::<DEVICE_BYTES>(input)?;
    let place = array::<PLACE_BYTES>(input)?;
    let number = input.varint()?;
    if number == 0 {
        return Err(input.error("list of claims has no number"));
    }
    let by = line(input, MAX_BY_BYTES, "name is too long")?;
    let count = input.varint_up_to(MAX_CLAIMS as u64, "too many claims")?;
    let mut claims: Vec<Claim> = Vec::new();
    for _ in 0..count {
        let claim = decode_claim(input)?;
        let last = claims.last().map(|last| last.path.as_bytes());
        if last.is_some_and(|last| last >= claim.path.as_bytes()) {
            return Err(input.error("claims are not in order"));
        }
        claims.push(claim);
    }
    let endings = match version {
        VERSION_WITH_ENDINGS => decode_endings(input)?,
        _ => Vec::new(),
    };
    let writer = Writer { device, place };
    Ok(ClaimList {
        writer,
        number,
        by,
        claims,
        endings,
    })
}

fn decode_endings(input: &mut Decoder<'_>) -> Result<Vec<ClaimEnding>, DecodeError> {
    let count = input.varint_up_to(MAX_CLAIMS as u64, "too many claims were ended")?;
    if count == 0 {
        return Err(input.error("list of this version has ended no claim"));
    }
    let mut endings: Vec<ClaimEnding> = Vec::new();
    for _ in 0..count {
        let ending = ClaimEnding {
            path: decode_path(input)?,
            device: array::<DEVICE_BYTES>(input)?,
            time: decode_time(input)?,
            since: input.i64()?,
            reason: line(input, MAX_REASON_BYTES, "reason is too long")?,
        };
        if endings
            .last()
            .is_some_and(|last| last.key() >= ending.key())
        {
            return Err(input.error("ended claims are not in order"));
        }
        endings.push(ending);
    }
    Ok(endings)
}

fn decode_time(input: &mut Decoder<'_>) -> Result<u64, DecodeError> {
    let time = input.varint_up_to(MAX_TIME, "logical time is too great")?;
    if time == 0 {
        return Err(input.error("claim has no logical time"));
    }
    Ok(time)
}

fn decode_claim(input: &mut Decoder<'_>) -> Result<Claim, DecodeError> {
    let path = decode_path(input)?;
    let flags = input.u8()?;
    if flags & !ALL_FLAGS != 0 {
        return Err(input.error("claim has unknown flags"));
    }
    let id = |input: &mut Decoder<'_>, flag: u8| -> Result<Option<ObjectId>, DecodeError> {
        Ok(match flags & flag {
            0 => None,
            _ => Some(input.id()?),
        })
    };
    let base = id(input, HAS_BASE)?;
    let version = id(input, HAS_VERSION)?;
    let branch = line(input, MAX_REF_BYTES, "branch of a claim is too long")?;
    Ok(Claim {
        path,
        branch,
        base,
        version,
        takes: flags & TAKES != 0,
        time: decode_time(input)?,
        since: input.i64()?,
        reason: line(input, MAX_REASON_BYTES, "reason is too long")?,
    })
}

/// Reads the path of a claim: any but the root.
pub fn decode_path(input: &mut Decoder<'_>) -> Result<RepoPath, DecodeError> {
    let bytes = input.bytes(MAX_PATH_BYTES, "path is too long")?;
    match RepoPath::parse(bytes) {
        Ok(path) if !path.is_root() => Ok(path),
        _ => Err(input.error("path of a claim is not allowed")),
    }
}

/// Reads a text of one line.
fn line(
    input: &mut Decoder<'_>,
    max: usize,
    too_long: &'static str,
) -> Result<String, DecodeError> {
    let bytes = input.bytes(max, too_long)?;
    let text = std::str::from_utf8(bytes).map_err(|_| input.error("text is not UTF-8"))?;
    if text.chars().any(char::is_control) {
        return Err(input.error("text has control characters"));
    }
    Ok(text.to_owned())
}

pub fn array<const N: usize>(input: &mut Decoder<'_>) -> Result<[u8; N], DecodeError> {
    Ok(input.take(N)?.try_into().expect("it was taken"))
}
