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
    use seccompiler::SeccompAction;
    let refused = || io::Error::other("the filter of system calls cannot be built");
    let rules = rules().map_err(|_| refused())?;
    // EPERM
    let otherwise = SeccompAction::Errno(1);
    install(rules, otherwise, SeccompAction::Allow)
}

/// System calls, and the conditions under which they are meant.
#[cfg(target_os = "linux")]
type Rules = std::collections::BTreeMap<i64, Vec<seccompiler::SeccompRule>>;

/// Installs a filter of system calls. A kernel without such filters goes on without.
#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
fn install(
    rules: Rules,
    otherwise: seccompiler::SeccompAction,
    matching: seccompiler::SeccompAction,
) -> io::Result<()> {
    use seccompiler::{BpfProgram, SeccompFilter, TargetArch};
    let refused = || io::Error::other("the filter of system calls cannot be built");
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|_| refused())?;
    let filter = SeccompFilter::new(rules, otherwise, matching, arch);
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
fn rules() -> Result<Rules, seccompiler::BackendError> {
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

/// Takes the rights from this process before it becomes `ffmpeg`: it may read and run what lies below `/usr` and the
/// directories of libraries, use its open files, memory and threads. It may not open another file, write one, start a
/// process, or reach a network or another process. Refused where the kernel has no Landlock.
#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
pub fn enter_film() -> io::Result<()> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
        Scope, path_beneath_rules,
    };
    use rustix::process::{Resource, Rlimit, setrlimit};
    for (resource, most) in [
        (Resource::As, FILM_MEMORY),
        (Resource::Cpu, FILM_SECONDS),
        // Its libraries are opened one after the other.
        (Resource::Nofile, 64),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
    ] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit)?;
    }
    // Each kernel forbids what it knows. The oldest one knows files.
    let abi = ABI::V6;
    let confined = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(abi)))
        .and_then(|rules| rules.scope(Scope::from_all(abi)))
        .and_then(Ruleset::create)
        .and_then(|rules| {
            let programs = ["/usr", "/lib", "/lib64"];
            rules.add_rules(path_beneath_rules(programs, AccessFs::from_read(abi)))
        })
        .and_then(|rules| {
            let list = ["/etc/ld.so.cache"];
            rules.add_rules(path_beneath_rules(list, AccessFs::ReadFile))
        })
        .and_then(|rules| rules.restrict_self());
    match confined.map_err(io::Error::other)?.ruleset {
        RulesetStatus::NotEnforced => Err(io::ErrorKind::Unsupported.into()),
        _ => forbid(),
    }
}

/// Bytes of address space of `ffmpeg`: its libraries alone need 300 MiB.
#[cfg(target_os = "linux")]
const FILM_MEMORY: u64 = 1536 << 20;
/// Seconds of processor time of `ffmpeg`.
#[cfg(target_os = "linux")]
const FILM_SECONDS: u64 = 10;

/// Forbids system calls that reach beyond the process. The list says what is forbidden, because `ffmpeg` and its
/// libraries use others with each version.
#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
fn forbid() -> io::Result<()> {
    use seccompiler::SeccompCmpArgLen::Dword;
    use seccompiler::SeccompCmpOp::MaskedEq;
    use seccompiler::{SeccompAction, SeccompCondition as Condition, SeccompRule as Rule};
    const CLONE_THREAD: u64 = 0x10000;
    let refused = || io::Error::other("the filter of system calls cannot be built");
    let mut rules = std::collections::BTreeMap::new();
    for call in [
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_recvmsg,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_prlimit64,
        libc::SYS_setpriority,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_msgget,
        libc::SYS_semget,
        libc::SYS_mq_open,
        libc::SYS_open_by_handle_at,
        libc::SYS_execveat,
        libc::SYS_personality,
    ] {
        rules.insert(call, Vec::new());
    }
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_fork, libc::SYS_vfork] {
        rules.insert(call, Vec::new());
    }
    // Threads, and no processes.
    let is_process = Condition::new(0, Dword, MaskedEq(CLONE_THREAD), 0);
    let is_process = is_process.and_then(|condition| Rule::new(vec![condition]));
    rules.insert(libc::SYS_clone, vec![is_process.map_err(|_| refused())?]);
    // EPERM
    install(rules, SeccompAction::Allow, SeccompAction::Errno(1))?;
    // ENOSYS: its flags are in memory, where a filter does not see them. Libraries use the older call then.
    let newer = std::iter::once((libc::SYS_clone3, Vec::new())).collect();
    install(newer, SeccompAction::Allow, SeccompAction::Errno(38))
}

/// Takes the rights from this process before it becomes `ffmpeg`.
#[cfg(not(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
)))]
pub fn enter_film() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
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
        let file = tempfile::NamedTempFile::new().expect("a file");
        Command::new(program)
            .env("DMV_PREVIEW_FILE", file.path())
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
        let (what, entered) = match what.strip_prefix("film: ") {
            Some(what) => (what, enter_film()),
            None => (&what[..], enter(&LIMITS)),
        };
        if entered.is_err() {
            std::process::exit(30);
        }
        let refused = match what {
            "nothing" => vec![1u8; 1 << 20].iter().all(|b| *b == 1),
            "open" => std::fs::read("/etc/passwd").is_err(),
            "list" => std::fs::read_dir("/etc").is_err() && std::fs::read_dir("/proc").is_err(),
            "another's file" => {
                std::fs::read(format!("/proc/{}/environ", parent.as_raw_pid())).is_err()
            }
            "own file" => std::fs::read("/proc/self/environ").is_err(),
            "system file" => std::fs::read_dir("/usr/lib").is_ok(),
            "connect to a name" => std::os::unix::net::UnixStream::connect("/run/none")
                .is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied),
            "work in a thread" => {
                let work = std::thread::Builder::new().spawn(|| 7);
                work.is_ok_and(|work| work.join().is_ok_and(|n| n == 7))
            }
            "write" => std::fs::write("/tmp/dmv-preview-attempt", "x").is_err(),
            "remove" => std::fs::remove_file(
                std::env::var_os("DMV_PREVIEW_FILE").expect("the test made a file"),
            )
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
    fn a_process_for_films_reads_the_system_and_does_nothing_else() {
        if attempt("film: nothing").code() == Some(30) {
            use std::io::Write;
            let words = "skipped: this kernel has no Landlock, so films get no posters";
            writeln!(io::stderr(), "{words}").expect("standard error");
            return;
        }
        for what in [
            "nothing",
            "system file",
            "work in a thread",
            "open",
            "list",
            "own file",
            "another's file",
            "write",
            "remove",
            "connect",
            "connect to a name",
            "send",
            "spawn",
            "unlimit",
            "kill",
        ] {
            assert_eq!(attempt(&format!("film: {what}")).code(), Some(10), "{what}");
        }
    }

    #[test]
    fn memory_and_time_are_limited() {
        assert_eq!(end_of(attempt("memory")), End::Memory);
        assert_eq!(end_of(attempt("time")), End::Time);
    }
}
