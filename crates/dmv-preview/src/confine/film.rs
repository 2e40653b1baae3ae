//! The rights of the process that becomes `ffmpeg`. It has to open its libraries, so it cannot have a list of what stays
//! allowed; files and networks are closed to it by Landlock, and calls that reach other processes by a list of what is
//! forbidden.

use super::{FORBIDDEN, Rules, compiled, install, unbuilt};
use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getpid, setrlimit};
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{MaskedEq, Ne};
use seccompiler::{SeccompAction, SeccompCondition as Condition, SeccompRule as Rule};
use std::io;
use std::ops::RangeInclusive;

/// Bytes of address space of `ffmpeg`: its libraries alone need 300 MiB.
const MEMORY: u64 = 1536 << 20;
/// Seconds of processor time of `ffmpeg`.
const SECONDS: u64 = 10;
/// ENOSYS, as from a kernel that does not have the call.
const UNKNOWN: u32 = 38;
/// What the numbers of x32 have besides. x32 is a second way to call a kernel for x86_64.
const X32: i64 = 0x4000_0000;
/// Calls that have other numbers in x32. Old kernels take these numbers without the bit, too.
const X32_ONLY: RangeInclusive<i64> = 512..=547;

/// Takes the rights from this process before it becomes `ffmpeg`: it may read and run what lies below `/usr` and the
/// directories of libraries, use its open files, memory and threads. It may not open another file, write one, start a
/// process, or reach a network or another process. Refused where the kernel has no Landlock.
pub fn enter_film() -> io::Result<()> {
    for (resource, most) in [
        (Resource::As, MEMORY),
        (Resource::Cpu, SECONDS),
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

/// Installs the filters of system calls.
fn forbid() -> io::Result<()> {
    let forbidden = forbidden(getpid().as_raw_pid() as u64).map_err(|_| unbuilt())?;
    let answer = SeccompAction::Errno(FORBIDDEN);
    install(compiled(forbidden, SeccompAction::Allow, answer)?)?;
    // Its flags are in memory, where a filter does not see them. Libraries use the older call then.
    let newer = std::iter::once((libc::SYS_clone3, Vec::new())).collect();
    let answer = SeccompAction::Errno(UNKNOWN);
    install(compiled(newer, SeccompAction::Allow, answer)?)
}

/// The system calls that reach beyond a process, whatever their arguments.
const BEYOND: &[i64] = &[
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
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
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
    // What the administrator may do, if `dmv` runs as such.
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_swapon,
    libc::SYS_swapoff,
];

/// Returns the system calls that reach beyond the process `own`. The list says what is forbidden, because `ffmpeg` and
/// its libraries use others with each version.
fn forbidden(own: u64) -> Result<Rules, seccompiler::BackendError> {
    const CLONE_THREAD: u64 = 0x10000;
    let mut rules = Rules::new();
    for call in BEYOND {
        rules.insert(*call, Vec::new());
    }
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_fork, libc::SYS_vfork] {
        rules.insert(call, Vec::new());
    }
    // Threads, and no processes.
    let is_process = Condition::new(0, Dword, MaskedEq(CLONE_THREAD), 0)?;
    rules.insert(libc::SYS_clone, vec![Rule::new(vec![is_process])?]);
    // A process that aborts sends a signal to itself.
    let is_another = Condition::new(0, Dword, Ne, own)?;
    rules.insert(libc::SYS_tgkill, vec![Rule::new(vec![is_another])?]);
    if cfg!(target_arch = "x86_64") {
        forbid_x32(&mut rules);
    }
    Ok(rules)
}

/// Forbids the same calls by their numbers of x32, which `ffmpeg` never uses, so without conditions.
fn forbid_x32(rules: &mut Rules) {
    let known = rules.keys().chain([&libc::SYS_clone3]);
    let twins: Vec<i64> = known.map(|call| call | X32).collect();
    let own = X32_ONLY.flat_map(|call| [call, call | X32]);
    rules.extend(twins.into_iter().chain(own).map(|call| (call, Vec::new())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use seccompiler::sock_filter;

    /// Runs a filter as the kernel does, for a call with a number and a first argument. Returns its answer.
    fn verdict(program: &[sock_filter], call: i64, argument: u32) -> u32 {
        // The processor that the program compares with; then the call's number and arguments.
        let arch = program[1].k;
        let (mut at, mut value) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            let jumps = match step.code {
                0x20 => {
                    value = match step.k {
                        0 => call as u32,
                        4 => arch,
                        16 => argument,
                        _ => 0,
                    };
                    continue;
                }
                0x54 => {
                    value &= step.k;
                    continue;
                }
                0x05 => {
                    at += step.k as usize;
                    continue;
                }
                0x06 => return step.k,
                0x15 => value == step.k,
                0x25 => value > step.k,
                0x35 => value >= step.k,
                code => panic!("an instruction that no filter has: {code:#x}"),
            };
            at += usize::from(if jumps { step.jt } else { step.jf });
        }
    }

    const ALLOWED: u32 = 0x7fff_0000;
    const REFUSED: u32 = 0x0005_0000 | FORBIDDEN;
    const OWN: u32 = 4711;

    /// What the filter answers to a call.
    fn answer(call: i64, argument: u32) -> u32 {
        let rules = forbidden(OWN.into()).expect("rules");
        let answer = SeccompAction::Errno(FORBIDDEN);
        let program = compiled(rules, SeccompAction::Allow, answer).expect("a filter");
        verdict(&program, call, argument)
    }

    #[test]
    fn calls_beyond_the_process_are_refused_and_others_are_not() {
        const THREAD: u32 = 0x3d0f00;
        for (call, argument) in [
            (libc::SYS_read, 0),
            (libc::SYS_openat, 0),
            (libc::SYS_mmap, 0),
            (libc::SYS_execve, 0),
            (libc::SYS_futex, 0),
            (libc::SYS_clone, THREAD),
            (libc::SYS_tgkill, OWN),
        ] {
            assert_eq!(answer(call, argument), ALLOWED, "{call}");
        }
        for (call, argument) in [
            (libc::SYS_socket, 0),
            (libc::SYS_ptrace, 0),
            (libc::SYS_kill, 0),
            (libc::SYS_rt_sigqueueinfo, 0),
            (libc::SYS_reboot, 0),
            (libc::SYS_clone, 17),
            (libc::SYS_tgkill, OWN + 1),
        ] {
            assert_eq!(answer(call, argument), REFUSED, "{call}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn forbidden_calls_have_no_second_number() {
        let rules = forbidden(OWN.into()).expect("rules");
        let calls: Vec<i64> = rules.into_keys().filter(|call| *call < X32).collect();
        assert!(calls.contains(&libc::SYS_socket));
        for call in calls.into_iter().chain([libc::SYS_clone3]).chain(X32_ONLY) {
            for argument in [0, OWN, u32::MAX] {
                assert_eq!(answer(call | X32, argument), REFUSED, "{call} of x32");
            }
        }
        // Without the bit, kernels before 5.4 take these, too. The numbers beside them are nothing of x32.
        for call in X32_ONLY {
            assert_eq!(answer(call, 0), REFUSED, "{call}");
        }
        assert_eq!((answer(511, 0), answer(548, 0)), (ALLOWED, ALLOWED));
    }
}
