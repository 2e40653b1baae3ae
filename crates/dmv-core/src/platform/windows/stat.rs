//! Stats, from open handles.

use super::calls::RawStat;
use crate::platform::{FileKind, FileStat, FileTime};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_DIRECTORY, FILE_ATTRIBUTE_OFFLINE, FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS,
    FILE_ATTRIBUTE_RECALL_ON_OPEN, FILE_ATTRIBUTE_REPARSE_POINT,
};

pub const HAS_EXECUTABLE_BIT: bool = false;
pub const LISTS_STATS: bool = true;

/// Steps of 100 ns in a second.
const STEPS_PER_SECOND: i64 = 10_000_000;
/// Seconds from 1601 to 1970.
const BEFORE_1970: i64 = 11_644_473_600;
/// The bit of a reparse tag that says that the entry stands for another one: symlinks, junctions, mount points.
const STANDS_FOR_ANOTHER: u32 = 0x2000_0000;
/// The files lie elsewhere, and reading one fetches it.
const FETCHED_BY_READING: u32 =
    FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS | FILE_ATTRIBUTE_RECALL_ON_OPEN | FILE_ATTRIBUTE_OFFLINE;

/// Returns the kind of an entry with these attributes. Links and files that are not here are of no known kind, so that
/// nothing enters or reads them.
pub fn kind(attributes: u32, tag: u32) -> FileKind {
    let is_reparse_point = attributes & FILE_ATTRIBUTE_REPARSE_POINT != 0;
    if is_reparse_point && tag & STANDS_FOR_ANOTHER != 0 || attributes & FETCHED_BY_READING != 0 {
        FileKind::Unknown
    } else if attributes & FILE_ATTRIBUTE_DIRECTORY != 0 {
        FileKind::Dir
    } else {
        FileKind::File
    }
}

pub fn time(steps: i64) -> FileTime {
    FileTime {
        seconds: steps.div_euclid(STEPS_PER_SECOND) - BEFORE_1970,
        nanos: steps.rem_euclid(STEPS_PER_SECOND) as u32 * super::file::TIME_STEP_NANOS,
    }
}

pub fn from_raw(raw: &RawStat) -> FileStat {
    let kind = kind(raw.attributes, raw.tag);
    // Who may use a file is in its access list, which DMV neither reads nor writes. So a file counts as its owner's
    // alone, as everything does under a umask that leaves others nothing.
    let mode = if kind == FileKind::Dir { 0o700 } else { 0o600 };
    FileStat {
        kind,
        exec: false,
        mode,
        nlink: raw.links,
        size: if kind == FileKind::Dir { 0 } else { raw.size },
        sparse: false,
        mtime: time(raw.written),
        ctime: time(raw.changed),
        // NTFS uses the lower half.
        ino: raw.id as u64 ^ (raw.id >> 64) as u64,
        dev: raw.volume,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_files_that_are_elsewhere_are_of_no_known_kind() {
        const SYMLINK: u32 = 0xa000_000c;
        const JUNCTION: u32 = 0xa000_0003;
        const DEDUPLICATED: u32 = 0x8000_0013;
        let dir = FILE_ATTRIBUTE_DIRECTORY;
        let point = FILE_ATTRIBUTE_REPARSE_POINT;
        for (attributes, tag, expected) in [
            (0, 0, FileKind::File),
            (dir, 0, FileKind::Dir),
            (point, SYMLINK, FileKind::Unknown),
            (point | dir, JUNCTION, FileKind::Unknown),
            (point, DEDUPLICATED, FileKind::File),
            (FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS, 0, FileKind::Unknown),
            (FILE_ATTRIBUTE_OFFLINE | dir, 0, FileKind::Unknown),
        ] {
            assert_eq!(kind(attributes, tag), expected, "{attributes:x} {tag:x}");
        }
    }

    #[test]
    fn times_before_1970_are_times_too() {
        let at = |seconds, nanos| FileTime { seconds, nanos };
        let zero = BEFORE_1970 * STEPS_PER_SECOND;
        assert_eq!(time(zero), at(0, 0));
        assert_eq!(time(zero + 15_000_001), at(1, 500_000_100));
        assert_eq!(time(zero - 1), at(-1, 999_999_900));
    }
}
