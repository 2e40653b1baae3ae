//! The calls of Windows that the standard library has no function for, as safe functions.
//!
//! Only this and the confinement of previews have `unsafe` code. Every function here takes borrowed handles and slices, so no
//! caller can hand in a pointer or a handle that is closed, and returns owned values. Lengths that the system
//! returns are checked before anything is read by them. No function decides anything.

use crate::platform::SystemError;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::windows::io::{
    AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, IntoRawHandle, OwnedHandle,
};
use std::ptr::{null, null_mut};
use windows_sys::Wdk::Foundation::OBJECT_ATTRIBUTES;
use windows_sys::Wdk::Storage::FileSystem as nt;
use windows_sys::Win32::Foundation::{
    ERROR_DELETE_PENDING, ERROR_INSUFFICIENT_BUFFER, ERROR_NO_MORE_FILES, GetLastError,
    INVALID_HANDLE_VALUE, LocalFree, NTSTATUS, OBJ_CASE_INSENSITIVE, RtlNtStatusToDosError,
    STATUS_DELETE_PENDING, UNICODE_STRING,
};
use windows_sys::Win32::Security::Authorization::{GetSecurityInfo, SE_FILE_OBJECT};
use windows_sys::Win32::Security::{
    GetLengthSid, GetTokenInformation, OWNER_SECURITY_INFORMATION, PSID, TOKEN_INFORMATION_CLASS,
    TOKEN_QUERY, TokenOwner, TokenUser,
};
use windows_sys::Win32::Storage::FileSystem as fs;
use windows_sys::Win32::System::Console::{
    CONSOLE_SCREEN_BUFFER_INFO, GetConsoleScreenBufferInfo, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE,
    SetStdHandle,
};
use windows_sys::Win32::System::IO::{IO_STATUS_BLOCK, OVERLAPPED};
use windows_sys::Win32::System::SystemInformation::{
    ComputerNamePhysicalDnsHostname, GetComputerNameExW,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, OpenProcess, OpenProcessToken, PROCESS_NAME_WIN32,
    PROCESS_QUERY_LIMITED_INFORMATION, QueryFullProcessImageNameW,
};

type Result<T> = std::result::Result<T, SystemError>;

/// Everybody else may read, write, rename and remove the file meanwhile.
const SHARE_ALL: u32 = fs::FILE_SHARE_READ | fs::FILE_SHARE_WRITE | fs::FILE_SHARE_DELETE;

fn last_error() -> SystemError {
    // SAFETY: it reads a number of this thread.
    SystemError::from_code(unsafe { GetLastError() } as i32)
}

fn check(succeeded: i32) -> Result<()> {
    if succeeded == 0 {
        Err(last_error())
    } else {
        Ok(())
    }
}

fn check_status(status: NTSTATUS) -> Result<()> {
    match status {
        0.. => Ok(()),
        // Otherwise it would look as if this user had no right to the file.
        STATUS_DELETE_PENDING => Err(SystemError::from_code(ERROR_DELETE_PENDING as i32)),
        // SAFETY: it converts a number.
        _ => Err(SystemError::from_code(
            unsafe { RtlNtStatusToDosError(status) } as i32,
        )),
    }
}

fn raw(handle: &impl AsHandle) -> *mut c_void {
    handle.as_handle().as_raw_handle()
}

/// How an entry is opened or created.
#[derive(Clone, Copy, Debug)]
pub struct OpenMode {
    /// Rights, as `FILE_READ_DATA`.
    pub access: u32,
    /// Whether it must exist, or must not.
    pub disposition: nt::NTCREATEFILE_CREATE_DISPOSITION,
    /// Options, as `FILE_DIRECTORY_FILE`.
    pub options: nt::NTCREATEFILE_CREATE_OPTIONS,
}

/// Opens or creates the entry `name` of a directory. A symlink, junction or the like is opened itself.
pub fn open_at(dir: &OwnedHandle, name: &[u16], how: OpenMode) -> Result<OwnedHandle> {
    let bytes = u16::try_from(name.len() * 2).map_err(|_| SystemError::NAME_TOO_LONG)?;
    let name = UNICODE_STRING {
        Length: bytes,
        MaximumLength: bytes,
        Buffer: name.as_ptr().cast_mut(),
    };
    let object = OBJECT_ATTRIBUTES {
        Length: size_of::<OBJECT_ATTRIBUTES>() as u32,
        RootDirectory: raw(dir),
        ObjectName: &name,
        Attributes: OBJ_CASE_INSENSITIVE,
        SecurityDescriptor: null(),
        SecurityQualityOfService: null(),
    };
    let always = nt::FILE_SYNCHRONOUS_IO_NONALERT | nt::FILE_OPEN_REPARSE_POINT;
    let mut handle = null_mut();
    let mut block = IO_STATUS_BLOCK::default();
    // SAFETY: the pointers are to values of this function that live until it returns; the system writes to `handle`
    // and `block` only, and does not change the name. The handle is synchronous, so nothing is written later.
    let status = unsafe {
        nt::NtCreateFile(
            &mut handle,
            how.access | fs::SYNCHRONIZE,
            &object,
            &mut block,
            null(),
            fs::FILE_ATTRIBUTE_NORMAL,
            SHARE_ALL,
            how.disposition,
            how.options | always,
            null(),
            0,
        )
    };
    check_status(status)?;
    // SAFETY: the call has succeeded, and nothing else owns the handle.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Opens the file of a handle again, with other rights.
pub fn reopen(file: &impl AsHandle, access: u32, flags: u32) -> Result<OwnedHandle> {
    // SAFETY: the handle is borrowed, so it is open.
    let handle = unsafe { fs::ReOpenFile(raw(file), access, SHARE_ALL, flags) };
    if handle == INVALID_HANDLE_VALUE {
        return Err(last_error());
    }
    // SAFETY: the call has succeeded, and nothing else owns the handle.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// What the system tells of a file.
#[derive(Clone, Copy, Debug)]
pub struct RawStat {
    pub attributes: u32,
    /// What kind of reparse point it is; 0 for none.
    pub tag: u32,
    /// Time of the last write, in 100 ns since 1601.
    pub written: i64,
    /// Time of the last change of content or attributes, in 100 ns since 1601.
    pub changed: i64,
    pub size: u64,
    pub links: u32,
    pub volume: u64,
    pub id: u128,
}

/// Fills `info` with the information of the given class.
fn query<T: Copy>(file: BorrowedHandle<'_>, class: i32, info: &mut T) -> Result<()> {
    // SAFETY: the callers pair each class with its structure of plain numbers, for which any bytes are valid, and the
    // system writes no more than the size that it is told.
    check(unsafe {
        fs::GetFileInformationByHandleEx(
            file.as_raw_handle(),
            class,
            (&raw mut *info).cast(),
            size_of::<T>() as u32,
        )
    })
}

/// What a stat needs to know of the file system. It is the same for all files of a directory and below, since a mount
/// point is a reparse point. To ask for it once for each file takes Wine longer than all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its serial number.
    pub serial: u64,
    /// Whether the short ids of files, of 64 bits, do not tell them apart.
    pub has_long_ids: bool,
}

/// Returns what a stat needs to know of the file system of an open file.
pub fn volume_of(file: &impl AsHandle) -> Result<Volume> {
    let file = file.as_handle();
    let mut ids = fs::FILE_ID_INFO::default();
    if query(file, fs::FileIdInfo, &mut ids).is_ok() {
        let id = u128::from_le_bytes(ids.FileId.Identifier);
        return Ok(Volume {
            serial: ids.VolumeSerialNumber,
            has_long_ids: id != u128::from(short_id(file)?),
        });
    }
    // Some file systems have the short ids only.
    let mut whole = fs::BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is borrowed, so it is open, and the structure has the size that the call writes.
    check(unsafe { fs::GetFileInformationByHandle(file.as_raw_handle(), &mut whole) })?;
    Ok(Volume {
        serial: u64::from(whole.dwVolumeSerialNumber),
        has_long_ids: false,
    })
}

/// Returns the id of a file in 64 bits.
fn short_id(file: BorrowedHandle<'_>) -> Result<u64> {
    let mut id = 0_u64;
    let mut block = IO_STATUS_BLOCK::default();
    // SAFETY: the handle is borrowed, so it is open, and the system writes one number of 64 bits.
    check_status(unsafe {
        nt::NtQueryInformationFile(
            file.as_raw_handle(),
            &mut block,
            (&raw mut id).cast(),
            size_of::<u64>() as u32,
            nt::FileInternalInformation,
        )
    })?;
    Ok(id)
}

/// The structure `FILE_STANDARD_INFO`, with its two truth values as bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Standard {
    allocated: i64,
    size: i64,
    links: u32,
    flags: [u8; 4],
}

/// Returns the stat of an open file that lies on `volume`.
pub fn stat(file: &impl AsHandle, volume: Volume) -> Result<RawStat> {
    let file = file.as_handle();
    let mut basic = fs::FILE_BASIC_INFO::default();
    query(file, fs::FileBasicInfo, &mut basic)?;
    let mut standard = Standard::default();
    query(file, fs::FileStandardInfo, &mut standard)?;
    let mut tag = fs::FILE_ATTRIBUTE_TAG_INFO::default();
    if basic.FileAttributes & fs::FILE_ATTRIBUTE_REPARSE_POINT != 0 {
        query(file, fs::FileAttributeTagInfo, &mut tag)?;
    }
    let id = if volume.has_long_ids {
        let mut ids = fs::FILE_ID_INFO::default();
        query(file, fs::FileIdInfo, &mut ids)?;
        u128::from_le_bytes(ids.FileId.Identifier)
    } else {
        u128::from(short_id(file)?)
    };
    Ok(RawStat {
        attributes: basic.FileAttributes,
        tag: tag.ReparseTag,
        written: basic.LastWriteTime,
        changed: basic.ChangeTime,
        size: standard.size as u64,
        links: standard.links,
        volume: volume.serial,
        id,
    })
}

/// Reads the next entries of a directory into `buffer`, as structures `FILE_ID_BOTH_DIR_INFO`. Returns `false` at the
/// end.
pub fn list(dir: &OwnedHandle, buffer: &mut [u64]) -> Result<bool> {
    let class = fs::FileIdBothDirectoryInfo;
    let bytes = u32::try_from(size_of_val(buffer)).unwrap_or(u32::MAX);
    // SAFETY: the handle is borrowed, so it is open. The buffer is aligned to 8 bytes, as the structures demand, and the
    // system writes no more than its size.
    let read = check(unsafe {
        fs::GetFileInformationByHandleEx(raw(dir), class, buffer.as_mut_ptr().cast(), bytes)
    });
    match read {
        Err(e) if e.code() == ERROR_NO_MORE_FILES as i32 => Ok(false),
        other => other.map(|()| true),
    }
}

/// Changes a file by a structure of the given class, which is in `data`.
fn set_information(file: &OwnedHandle, class: i32, data: &[u64], bytes: usize) -> Result<()> {
    assert!(bytes <= size_of_val(data));
    let mut block = IO_STATUS_BLOCK::default();
    // SAFETY: the handle is borrowed, so it is open; `data` has the length that is told; the system only reads it.
    check_status(unsafe {
        nt::NtSetInformationFile(
            raw(file),
            &mut block,
            data.as_ptr().cast(),
            bytes as u32,
            class,
        )
    })
}

/// How a file gets a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameChange {
    /// It is renamed as POSIX has it. The number has the flags `FILE_RENAME_…`.
    Rename(u32),
    /// It is renamed as older file systems can.
    PlainRename {
        /// Whether a file that has the name goes.
        replace: bool,
    },
    /// It gets a further name, which must not exist.
    Link,
}

/// Gives an open file the name `name` in a directory.
pub fn set_name(
    file: &OwnedHandle,
    dir: &OwnedHandle,
    name: &[u16],
    how: NameChange,
) -> Result<()> {
    type Info = nt::FILE_RENAME_INFORMATION;
    const NAME: usize = offset_of!(Info, FileName);
    // A link has the same structure.
    const _: () = assert!(NAME == offset_of!(nt::FILE_LINK_INFORMATION, FileName));
    let (class, flags) = match how {
        NameChange::Rename(flags) => (nt::FileRenameInformationEx, flags),
        NameChange::PlainRename { replace } => (nt::FileRenameInformation, u32::from(replace)),
        NameChange::Link => (nt::FileLinkInformation, 0),
    };
    let len = (NAME + name.len() * 2).max(size_of::<Info>());
    let mut bytes = vec![0; len.next_multiple_of(8)];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &flags.to_le_bytes());
    put(
        offset_of!(Info, RootDirectory),
        &(raw(dir) as usize).to_le_bytes(),
    );
    put(
        offset_of!(Info, FileNameLength),
        &(name.len() as u32 * 2).to_le_bytes(),
    );
    for (n, unit) in name.iter().enumerate() {
        put(NAME + n * 2, &unit.to_le_bytes());
    }
    let data: Vec<u64> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|eight| u64::from_le_bytes(*eight))
        .collect();
    set_information(file, class, &data, len)
}

/// Removes the name by which a file was opened: at once with `flags` as `FILE_DISPOSITION_…`, or when the last handle
/// is closed.
pub fn remove(file: &OwnedHandle, flags: Option<u32>) -> Result<()> {
    match flags {
        Some(flags) => {
            let class = nt::FileDispositionInformationEx;
            set_information(file, class, &[u64::from(flags)], size_of::<u32>())
        }
        None => set_information(file, nt::FileDispositionInformation, &[1], 1),
    }
}

/// Sets the attributes of a file, and leaves its times.
pub fn set_attributes(file: &OwnedHandle, attributes: u32) -> Result<()> {
    let info = fs::FILE_BASIC_INFO {
        FileAttributes: attributes,
        ..Default::default()
    };
    // SAFETY: the handle is borrowed, so it is open, and the structure has the size that is told.
    check(unsafe {
        fs::SetFileInformationByHandle(
            raw(file),
            fs::FileBasicInfo,
            (&raw const info).cast(),
            size_of::<fs::FILE_BASIC_INFO>() as u32,
        )
    })
}

/// A byte that no file is long enough to have. Locks exclude reading and writing of what they cover.
fn far_away() -> OVERLAPPED {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.Offset = u32::MAX - 1;
    place.Anonymous.Anonymous.OffsetHigh = i32::MAX as u32;
    place
}

/// Takes a lock of a file without waiting.
pub fn lock(file: &File, flags: fs::LOCK_FILE_FLAGS) -> Result<()> {
    let mut place = far_away();
    let flags = flags | fs::LOCKFILE_FAIL_IMMEDIATELY;
    // SAFETY: the handle is borrowed, so it is open. It is synchronous, so the call has ended when it returns.
    check(unsafe { fs::LockFileEx(raw(file), flags, 0, 1, 0, &mut place) })
}

/// Gives a lock of a file up.
pub fn unlock(file: &File) -> Result<()> {
    let mut place = far_away();
    // SAFETY: as above.
    check(unsafe { fs::UnlockFileEx(raw(file), 0, 1, 0, &mut place) })
}

/// Returns how many bytes this user may still write to the disk of the directory `path`, which ends with a zero.
pub fn free_bytes(path: &[u16]) -> Result<u64> {
    assert_eq!(path.last(), Some(&0));
    let mut free = 0;
    // SAFETY: the path ends with a zero, and the system writes one number.
    check(unsafe { fs::GetDiskFreeSpaceExW(path.as_ptr(), &mut free, null_mut(), null_mut()) })?;
    Ok(free)
}

/// Returns the flags of the file system of an open file, as `FILE_READ_ONLY_VOLUME`.
pub fn volume_flags(file: &impl AsHandle) -> Result<u32> {
    let mut flags = 0;
    // SAFETY: the handle is borrowed, so it is open, and the system writes one number; nothing else is asked for.
    check(unsafe {
        fs::GetVolumeInformationByHandleW(
            raw(file),
            null_mut(),
            0,
            null_mut(),
            null_mut(),
            &mut flags,
            null_mut(),
            0,
        )
    })?;
    Ok(flags)
}

/// Returns the kind of a drive, as `DRIVE_REMOTE`. Its root ends with a zero.
pub fn drive_type(root: &[u16]) -> u32 {
    assert_eq!(root.last(), Some(&0));
    // SAFETY: the path ends with a zero.
    unsafe { fs::GetDriveTypeW(root.as_ptr()) }
}

/// The id of a user or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sid(Vec<u8>);

/// Copies an id.
///
/// # Safety
///
/// `sid` points to a valid id.
unsafe fn copy_sid(sid: PSID) -> Sid {
    // SAFETY: the caller promises it; so the id has the length that the system tells.
    Sid(unsafe {
        let len = GetLengthSid(sid) as usize;
        std::slice::from_raw_parts(sid.cast::<u8>(), len).to_vec()
    })
}

/// Returns who owns an open file.
pub fn owner(file: &impl AsHandle) -> Result<Sid> {
    let (mut sid, mut descriptor) = (null_mut(), null_mut());
    // SAFETY: the handle is borrowed, so it is open; the system writes two pointers.
    let error = unsafe {
        GetSecurityInfo(
            raw(file),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION,
            &mut sid,
            null_mut(),
            null_mut(),
            null_mut(),
            &mut descriptor,
        )
    };
    if error != 0 {
        return Err(SystemError::from_code(error as i32));
    }
    let found = if sid.is_null() {
        Err(SystemError::INVALID)
    } else {
        // SAFETY: the id is a part of the descriptor, which is freed after this.
        Ok(unsafe { copy_sid(sid) })
    };
    // SAFETY: the call has allocated the descriptor, and nothing uses it any more.
    unsafe { LocalFree(descriptor) };
    found
}

/// Who this process works for.
#[derive(Clone, Debug)]
pub struct ThisUser {
    /// The user.
    pub user: Sid,
    /// Who owns the files that the process creates: the user, or the group of the administrators.
    pub owner: Sid,
}

/// Returns who this process works for.
pub fn this_user() -> Result<ThisUser> {
    let mut token = null_mut();
    // SAFETY: the handle of this process is always open; the system writes one handle.
    check(unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &mut token) })?;
    // SAFETY: the call has succeeded, and nothing else owns the handle.
    let token = unsafe { OwnedHandle::from_raw_handle(token) };
    Ok(ThisUser {
        user: token_sid(&token, TokenUser)?,
        owner: token_sid(&token, TokenOwner)?,
    })
}

/// Returns the id that begins the token's information of this class.
fn token_sid(token: &OwnedHandle, class: TOKEN_INFORMATION_CLASS) -> Result<Sid> {
    // More than the longest id takes, with the structure in front of it.
    let mut buffer = [0_u64; 32];
    let mut len = 0;
    // SAFETY: the handle is borrowed, so it is open; the system writes no more than the size of the buffer, which is
    // aligned for the structure.
    check(unsafe {
        GetTokenInformation(
            raw(token),
            class,
            buffer.as_mut_ptr().cast(),
            size_of_val(&buffer) as u32,
            &mut len,
        )
    })?;
    if (len as usize) < size_of::<PSID>() {
        return Err(SystemError::from_code(ERROR_INSUFFICIENT_BUFFER as i32));
    }
    // SAFETY: both structures begin with a pointer to an id, which lies in the same buffer.
    Ok(unsafe { copy_sid(buffer.as_ptr().cast::<PSID>().read()) })
}

/// Returns the lines and columns of the terminal that a stream leads to.
pub fn terminal_size(stream: &impl AsHandle) -> Result<[i16; 2]> {
    let mut info = CONSOLE_SCREEN_BUFFER_INFO::default();
    // SAFETY: the handle is borrowed, so it is open, and the structure has the size that the call writes.
    check(unsafe { GetConsoleScreenBufferInfo(raw(stream), &mut info) })?;
    let window = info.srWindow;
    let lines = window.Bottom.saturating_sub(window.Top).saturating_add(1);
    let columns = window.Right.saturating_sub(window.Left).saturating_add(1);
    Ok([lines, columns])
}

/// Puts two files in the places of standard input and output, for the rest of the process.
pub fn set_streams(input: File, output: File) -> io::Result<()> {
    for (place, file) in [(STD_INPUT_HANDLE, input), (STD_OUTPUT_HANDLE, output)] {
        // SAFETY: the handle is never closed, because nothing owns it any more.
        check(unsafe { SetStdHandle(place, file.into_raw_handle()) })?;
    }
    Ok(())
}

/// Returns the name of this machine.
pub fn host_name() -> Result<String> {
    let mut name = [0; 256];
    let mut len = name.len() as u32;
    // SAFETY: the system writes no more than the size of the buffer, and the length of the name.
    check(unsafe {
        GetComputerNameExW(ComputerNamePhysicalDnsHostname, name.as_mut_ptr(), &mut len)
    })?;
    let name = name.get(..len as usize).unwrap_or_default();
    Ok(String::from_utf16_lossy(name))
}

/// Returns the ids of processes that have an open file open. A file of more than some hundreds fails.
pub fn processes_using(file: &OwnedHandle) -> Result<Vec<u32>> {
    // A number of 32 bits, and then so many ids, each as long as a pointer.
    let mut list = [0_usize; 512];
    let mut block = IO_STATUS_BLOCK::default();
    // SAFETY: the handle is borrowed, so it is open. The system writes no more than the size of the list, whose units
    // are aligned as the structure demands.
    check_status(unsafe {
        nt::NtQueryInformationFile(
            raw(file),
            &mut block,
            list.as_mut_ptr().cast(),
            size_of_val(&list) as u32,
            nt::FileProcessIdsUsingFileInformation,
        )
    })?;
    let [count, ids @ ..] = list;
    let count = (count as u32) as usize;
    let ids = ids.get(..count).ok_or(SystemError::INVALID)?;
    Ok(ids
        .iter()
        .filter_map(|id| u32::try_from(*id).ok())
        .collect())
}

/// Returns the path of the program that a process runs.
pub fn program_of(pid: u32) -> Result<String> {
    // SAFETY: it takes numbers only.
    let process = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
    if process.is_null() {
        return Err(last_error());
    }
    // SAFETY: the call has succeeded, and nothing else owns the handle.
    let process = unsafe { OwnedHandle::from_raw_handle(process) };
    let mut path = [0; 1024];
    let mut len = path.len() as u32;
    // SAFETY: the handle is open; the system writes no more than the size of the buffer, and the length of the path.
    check(unsafe {
        QueryFullProcessImageNameW(
            raw(&process),
            PROCESS_NAME_WIN32,
            path.as_mut_ptr(),
            &mut len,
        )
    })?;
    let path = path.get(..len as usize).unwrap_or_default();
    Ok(String::from_utf16_lossy(path))
}
