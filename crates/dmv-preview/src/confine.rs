//! Takes the rights from the process that decodes, and reads how it ended. All that is special to an operating system
//! stands here.
//!
//! Two layers, each enough by itself against files and network: limits of the kernel (no new file descriptor, memory,
//! processor time), and on Linux a filter of system calls, which allows reading from the standard input, writing to
//! the standard output, memory, and the end.

use crate::preview::Limits;
use std::io;
use std::process::ExitStatus;

/// How a process ended that owed an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It used up its processor time.
    Time,
    /// It stopped itself: an allocation failed.
    Memory,
    /// It crashed, panicked or went away.
    Crash,
    /// It could not confine itself, so that it did not begin.
    Refused,
}

/// The exit code of a process that could not confine itself.
pub const REFUSED: u8 = 97;

/// Takes the rights from this process, for ever. The process must have one thread.
#[cfg(unix)]
pub fn enter(limits: &Limits) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let hard = |most: u64| Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(Resource::As, hard(limits.memory))?;
    // The first second of warning is a signal that tells time from other ends.
    let time = Rlimit {
        current: Some(limits.cpu_seconds),
        maximum: Some(limits.cpu_seconds.saturating_add(1)),
    };
    setrlimit(Resource::Cpu, time)?;
    setrlimit(Resource::Nofile, hard(0))?;
    setrlimit(Resource::Fsize, hard(0))?;
    setrlimit(Resource::Core, hard(0))?;
    filter()
}

/// Takes the rights from this process, for ever.
#[cfg(not(unix))]
pub fn enter(_: &Limits) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Installs the filter of system calls. A kernel without such filters leaves the limits alone to protect.
#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
fn filter() -> io::Result<()> {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
    let refused = || io::Error::other("the filter of system calls cannot be built");
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|_| refused())?;
    let rules = rules().map_err(|_| refused())?;
    // EPERM
    let otherwise = SeccompAction::Errno(1);
    let filter = SeccompFilter::new(rules, otherwise, SeccompAction::Allow, arch);
    let program = filter.and_then(BpfProgram::try_from);
    let program = program.map_err(|_| refused())?;
    match seccompiler::apply_filter(&program) {
        Err(seccompiler::Error::Seccomp(e)) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        Err(seccompiler::Error::Seccomp(e) | seccompiler::Error::Prctl(e)) => Err(e),
        Err(_) => Err(refused()),
        Ok(()) => Ok(()),
    }
}

#[cfg(all(
    unix,
    not(all(
        target_os = "linux",
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64"
        )
    ))
))]
fn filter() -> io::Result<()> {
    Ok(())
}

/// Returns the system calls that stay allowed, with conditions on their arguments.
#[cfg(target_os = "linux")]
fn rules()
-> Result<std::collections::BTreeMap<i64, Vec<seccompiler::SeccompRule>>, seccompiler::BackendError>
{
    use seccompiler::SeccompCmpArgLen::Dword;
    use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
    use seccompiler::{SeccompCondition as Condition, SeccompRule as Rule};
    const PROT_EXEC: u64 = 4;
    const NO_FILE: u64 = u32::MAX as u64;
    let first_is = |fd| Rule::new(vec![Condition::new(0, Dword, Eq, fd)?]);
    let not_code = || Condition::new(2, Dword, MaskedEq(PROT_EXEC), 0);
    let anonymous = || Condition::new(4, Dword, Eq, NO_FILE);
    let mut rules = std::collections::BTreeMap::new();
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

/// Returns how a process ended.
#[cfg(unix)]
pub fn end_of(status: ExitStatus) -> End {
    use rustix::process::Signal;
    use std::os::unix::process::ExitStatusExt;
    let signal = status.signal();
    if signal == Some(Signal::XCPU.as_raw()) {
        return End::Time;
    }
    match signal == Some(Signal::ABORT.as_raw()) {
        true => End::Memory,
        false if status.code() == Some(i32::from(REFUSED)) => End::Refused,
        false => End::Crash,
    }
}

/// Returns how a process ended.
#[cfg(not(unix))]
pub fn end_of(status: ExitStatus) -> End {
    match status.code() == Some(i32::from(REFUSED)) {
        true => End::Refused,
        false => End::Crash,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::process::Command;

    const LIMITS: Limits = Limits {
        workers: 1,
        memory: 256 << 20,
        cpu_seconds: 1,
        wall: std::time::Duration::from_secs(20),
        pixels: 0,
        decoded_bytes: 0,
        read_bytes: 0,
        output_bytes: 0,
    };

    /// Runs [`attempts`] in a process of its own and returns how it ended.
    fn attempt(what: &str) -> ExitStatus {
        let program = std::env::current_exe().expect("the test program");
        Command::new(program)
            .args([
                "--exact",
                "confine::tests::attempts",
                "--ignored",
                "--nocapture",
            ])
            .env("DMV_PREVIEW_ATTEMPT", what)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .expect("the test program runs")
    }

    /// Not a test by itself: what a decoder that somebody took over would do. It exits with 10 if it was refused,
    /// and with 20 if it succeeded.
    #[test]
    #[ignore = "other tests run it in a process of its own"]
    fn attempts() {
        let Ok(what) = std::env::var("DMV_PREVIEW_ATTEMPT") else {
            return;
        };
        let open = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let port = open.local_addr().expect("its address");
        let file = std::fs::File::open("/proc/self/maps").expect("a file");
        let parent = rustix::process::getppid().expect("a parent");
        if enter(&LIMITS).is_err() {
            std::process::exit(30);
        }
        let refused = match what.as_str() {
            "nothing" => vec![1u8; 1 << 20].iter().all(|b| *b == 1),
            "open" => std::fs::read("/etc/passwd").is_err(),
            "write" => std::fs::write("/tmp/dmv-preview-attempt", "x").is_err(),
            "remove" => std::fs::remove_file("/tmp/dmv-preview-none")
                .is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied),
            "connect" => std::net::TcpStream::connect("127.0.0.1:9").is_err(),
            "send" => open.send_to(b"x", port).is_err(),
            "old file" => io::Read::read(&mut &file, &mut [0; 8]).is_err(),
            "spawn" => Command::new("/bin/true").spawn().is_err(),
            "thread" => std::thread::Builder::new().spawn(|| {}).is_err(),
            "unlimit" => {
                use rustix::process::{Resource, Rlimit, setrlimit};
                let none = Rlimit {
                    current: None,
                    maximum: None,
                };
                setrlimit(Resource::Nofile, none).is_err()
            }
            "kill" => rustix::process::kill_process(parent, rustix::process::Signal::CONT).is_err(),
            "memory" => {
                let mut all = Vec::new();
                loop {
                    all.push(vec![1u8; 16 << 20]);
                }
            }
            "time" => loop {
                std::hint::black_box(0);
            },
            _ => false,
        };
        std::process::exit(if refused { 10 } else { 20 });
    }

    #[test]
    fn a_confined_process_computes_and_does_nothing_else() {
        for what in [
            "nothing", "open", "write", "remove", "connect", "send", "old file", "spawn", "thread",
            "unlimit", "kill",
        ] {
            assert_eq!(attempt(what).code(), Some(10), "{what}");
        }
    }

    #[test]
    fn memory_and_time_are_limited() {
        assert_eq!(end_of(attempt("memory")), End::Memory);
        assert_eq!(end_of(attempt("time")), End::Time);
    }
}
