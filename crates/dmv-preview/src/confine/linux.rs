//! Filters of system calls, on Linux and the processors that the compiler of filters knows.
//!
//! Decoders get a list of what stays allowed ([`filter`]). For `ffmpeg` there is a list of what is forbidden (module
//! `film`).

mod film;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch};
use std::collections::BTreeMap;
use std::io;

pub use film::enter_film;

/// System calls, and the conditions under which they are meant.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// EPERM, the answer to a forbidden call.
const FORBIDDEN: u32 = 1;

/// Installs the filter of system calls. A kernel without such filters leaves the limits alone to protect.
pub fn filter() -> io::Result<()> {
    let rules = rules().map_err(|_| unbuilt())?;
    let otherwise = SeccompAction::Errno(FORBIDDEN);
    install(compiled(rules, otherwise, SeccompAction::Allow)?)
}

/// Returns a filter of system calls as the kernel reads it.
fn compiled(
    rules: Rules,
    otherwise: SeccompAction,
    matching: SeccompAction,
) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|_| unbuilt())?;
    let filter = SeccompFilter::new(rules, otherwise, matching, arch);
    filter.and_then(BpfProgram::try_from).map_err(|_| unbuilt())
}

/// Installs a filter of system calls. A kernel without such filters goes on without.
fn install(program: BpfProgram) -> io::Result<()> {
    match seccompiler::apply_filter(&program) {
        Err(seccompiler::Error::Seccomp(e)) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        Err(seccompiler::Error::Seccomp(e) | seccompiler::Error::Prctl(e)) => Err(e),
        Err(_) => Err(unbuilt()),
        Ok(()) => Ok(()),
    }
}

fn unbuilt() -> io::Error {
    io::Error::other("the filter of system calls cannot be built")
}

/// Returns the system calls that stay allowed, with conditions on their arguments.
fn rules() -> Result<Rules, seccompiler::BackendError> {
    use seccompiler::SeccompCmpArgLen::Dword;
    use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
    use seccompiler::{SeccompCondition as Condition, SeccompRule as Rule};
    const PROT_EXEC: u64 = 4;
    const NO_FILE: u64 = u32::MAX as u64;
    let first_is = |fd| Rule::new(vec![Condition::new(0, Dword, Eq, fd)?]);
    let not_code = || Condition::new(2, Dword, MaskedEq(PROT_EXEC), 0);
    let anonymous = || Condition::new(4, Dword, Eq, NO_FILE);
    let mut rules = BTreeMap::new();
    rules.insert(libc::SYS_read, vec![first_is(0)?]);
    rules.insert(libc::SYS_write, vec![first_is(1)?, first_is(2)?]);
    rules.insert(
        libc::SYS_mmap,
        vec![Rule::new(vec![not_code()?, anonymous()?])?],
    );
    rules.insert(libc::SYS_mprotect, vec![Rule::new(vec![not_code()?])?]);
    for free in [
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_futex,
        libc::SYS_getrandom,
        libc::SYS_clock_gettime,
        libc::SYS_sched_yield,
        libc::SYS_sigaltstack,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_tgkill,
    ] {
        rules.insert(free, Vec::new());
    }
    Ok(rules)
}
