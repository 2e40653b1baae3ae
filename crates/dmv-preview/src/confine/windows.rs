//! Windows: a job with limits, and an integrity level below that of the user's files.
//!
//! The job limits memory and processor time and admits no other process; the level keeps the process from writing to
//! files, windows and processes of the user. Nothing keeps it from reading files or from the network, so this is weaker
//! than what Linux has. The calls have no safe form, so this module has `unsafe` code: each call gets values of its own
//! function, which live until it returns.

use super::{End, REFUSED};
use crate::preview::Limits;
use std::io;
use std::mem::size_of;
use std::process::ExitStatus;
use std::ptr::{null, null_mut};
use windows_sys::Win32::Foundation::{
    ERROR_NOT_ENOUGH_QUOTA, HANDLE, STATUS_NO_MEMORY, STATUS_QUOTA_EXCEEDED,
    STATUS_STACK_BUFFER_OVERRUN,
};
use windows_sys::Win32::Security::{
    SECURITY_MANDATORY_LABEL_AUTHORITY, SID, SID_AND_ATTRIBUTES, SetTokenInformation,
    TOKEN_ADJUST_DEFAULT, TOKEN_MANDATORY_LABEL, TokenIntegrityLevel,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_ACTIVE_PROCESS,
    JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION, JOB_OBJECT_LIMIT_PROCESS_MEMORY,
    JOB_OBJECT_LIMIT_PROCESS_TIME, JOBOBJECT_BASIC_LIMIT_INFORMATION,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
    SetInformationJobObject,
};
use windows_sys::Win32::System::SystemServices::{SE_GROUP_INTEGRITY, SECURITY_MANDATORY_LOW_RID};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// Windows counts time in steps of 100 ns.
const STEPS_PER_SECOND: u64 = 10_000_000;

/// Takes the rights from this process, for ever.
pub fn enter(limits: &Limits) -> io::Result<()> {
    enter_job(limits)?;
    lower_level()
}

/// The process keeps the handle of its job, which closes with it.
fn enter_job(limits: &Limits) -> io::Result<()> {
    let time = limits.cpu_seconds.saturating_mul(STEPS_PER_SECOND);
    let most = JOBOBJECT_EXTENDED_LIMIT_INFORMATION {
        BasicLimitInformation: JOBOBJECT_BASIC_LIMIT_INFORMATION {
            PerProcessUserTimeLimit: i64::try_from(time).unwrap_or(i64::MAX),
            LimitFlags: JOB_OBJECT_LIMIT_ACTIVE_PROCESS
                | JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
                | JOB_OBJECT_LIMIT_PROCESS_MEMORY
                | JOB_OBJECT_LIMIT_PROCESS_TIME,
            ActiveProcessLimit: 1,
            ..Default::default()
        },
        ProcessMemoryLimit: usize::try_from(limits.memory).unwrap_or(usize::MAX),
        ..Default::default()
    };
    // SAFETY: no pointer is passed.
    let job = unsafe { CreateJobObjectW(null(), null()) };
    if job.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the structure has the size that is said, and the call only reads it.
    check(unsafe {
        SetInformationJobObject(
            job,
            JobObjectExtendedLimitInformation,
            (&raw const most).cast(),
            size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>() as u32,
        )
    })?;
    // SAFETY: both handles are open.
    check(unsafe { AssignProcessToJobObject(job, GetCurrentProcess()) })
}

fn lower_level() -> io::Result<()> {
    let mut low = SID {
        Revision: 1,
        SubAuthorityCount: 1,
        IdentifierAuthority: SECURITY_MANDATORY_LABEL_AUTHORITY,
        SubAuthority: [SECURITY_MANDATORY_LOW_RID as u32],
    };
    let label = TOKEN_MANDATORY_LABEL {
        Label: SID_AND_ATTRIBUTES {
            Sid: (&raw mut low).cast(),
            Attributes: SE_GROUP_INTEGRITY as u32,
        },
    };
    let mut token: HANDLE = null_mut();
    // SAFETY: the call writes a handle to `token`.
    check(unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_DEFAULT, &mut token) })?;
    // SAFETY: the label and what it points to live until the call returns, which only reads them. Few such processes
    // run, each for one file, so the token closes with the process.
    check(unsafe {
        SetTokenInformation(
            token,
            TokenIntegrityLevel,
            (&raw const label).cast(),
            size_of::<TOKEN_MANDATORY_LABEL>() as u32,
        )
    })
}

fn check(succeeded: i32) -> io::Result<()> {
    if succeeded == 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Returns how a process ended.
pub fn end_of(status: ExitStatus) -> End {
    const TIME: [i32; 2] = [ERROR_NOT_ENOUGH_QUOTA as i32, STATUS_QUOTA_EXCEEDED];
    /// A program of Rust stops itself in the first way.
    const MEMORY: [i32; 2] = [STATUS_STACK_BUFFER_OVERRUN, STATUS_NO_MEMORY];
    match status.code() {
        Some(code) if code == i32::from(REFUSED) => End::Refused,
        Some(code) if TIME.contains(&code) => End::Time,
        Some(code) if MEMORY.contains(&code) => End::Memory,
        _ => End::Crash,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::windows::process::ExitStatusExt;

    #[test]
    fn the_code_of_a_process_tells_how_it_ended() {
        let end = |code: i32| end_of(ExitStatus::from_raw(code as u32));
        assert_eq!(end(i32::from(REFUSED)), End::Refused);
        assert_eq!(end(1816), End::Time);
        assert_eq!(end(STATUS_STACK_BUFFER_OVERRUN), End::Memory);
        assert_eq!(end(101), End::Crash);
    }
}
