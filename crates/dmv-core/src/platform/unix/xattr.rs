//! Extended attributes that users and their programs give to files.

use super::own_calls::{NO_SUCH_ATTRIBUTE, system_name, user_name};
use crate::platform::UserAttributes;
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// The name of an attribute that hardly any file has.
const PROBE: &[u8] = b"dmv.probe";
/// Bytes of names that one look at a file takes: more than almost every file has.
const FEW_NAMES_BYTES: usize = 512;
/// Bytes of names that the system tells of one file at most.
const MOST_NAMES_BYTES: usize = 64 << 10;

pub fn has_attributes(file: &File) -> bool {
    let mut names = [0; FEW_NAMES_BYTES];
    match flistxattr(file, &mut names[..]) {
        // The system's own, such as labels of SELinux, do not count.
        Ok(len) => user_names(&names[..len]).next().is_some(),
        Err(e) => e == Errno::RANGE,
    }
}

fn user_names(names: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = names.split(|b| *b == 0).filter(|name| !name.is_empty());
    all.filter_map(user_name)
}

pub fn user_attributes(
    file: &File,
    wanted: &dyn Fn(&[u8]) -> bool,
    most: usize,
) -> io::Result<Option<UserAttributes>> {
    let mut names = vec![0; FEW_NAMES_BYTES];
    let mut listed = flistxattr(file, &mut names[..]);
    if listed == Err(Errno::RANGE) {
        names.resize(MOST_NAMES_BYTES, 0);
        listed = flistxattr(file, &mut names[..]);
    }
    let names = match listed {
        Ok(len) => &names[..len],
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    // Where there are no such attributes, Linux lists none, and only asking for one fails.
    let ask = || fgetxattr(file, system_name(PROBE), &mut [0_u8; 0][..]);
    if user_names(names).next().is_none() && matches!(ask(), Err(Errno::NOTSUP | Errno::NOSYS)) {
        return Ok(None);
    }
    let mut found = UserAttributes::default();
    let (mut value, mut left) = (vec![0; most + 1], most);
    for name in user_names(names).filter(|name| wanted(name)) {
        let read = fgetxattr(file, system_name(name), &mut value[..]);
        let len = match read {
            Ok(len) => len,
            // It was removed in the meantime.
            Err(NO_SUCH_ATTRIBUTE) => continue,
            Err(Errno::RANGE) => most + 1,
            Err(e) => return Err(e.into()),
        };
        let Some(rest) = left.checked_sub(name.len() + len) else {
            found.is_too_large = true;
            break;
        };
        left = rest;
        found.all.push((name.to_vec(), value[..len].to_vec()));
    }
    Ok(Some(found))
}

pub fn set_attribute(file: &File, name: &str, value: &[u8]) -> io::Result<()> {
    let name = system_name(name.as_bytes());
    Ok(fsetxattr(file, name, value, XattrFlags::empty())?)
}
