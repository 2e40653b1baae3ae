//! Takes the rights from the process that decodes, and reads how it ended. All that is special to an operating system
//! stands here.
//!
//! On Unix there are two layers, each enough by itself against files and network: limits of the kernel (no new file
//! descriptor, memory, processor time), and on Linux a filter of system calls, which allows reading from the standard
//! input, writing to the standard output, memory, and the end. Windows has less: see [`windows`].

#[cfg_attr(
    all(
        target_os = "linux",
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64"
        )
    ),
    path = "confine/linux.rs"
)]
#[cfg(unix)]
mod system;
#[cfg(windows)]
#[allow(unsafe_code)]
mod windows;

#[cfg(unix)]
use crate::preview::Limits;
#[cfg(unix)]
use std::{io, process::ExitStatus};

#[cfg(windows)]
pub use windows::{end_of, enter};

#[cfg(target_os = "linux")]
pub use system::enter_film;

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
    system::filter()
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

    const PERL: &str = "/usr/bin/perl";
    /// Makes a socket, a signal to the parent, a process and a trace by their numbers of x32: each has to answer EPERM.
    /// A kernel without x32 has the answer ENOSYS, but only to calls that no filter has answered.
    const CALLS_OF_X32: &str = "
        my $x32 = 0x40000000;
        for my $call ([41, 1, 1, 0], [62, getppid(), 0], [57], [521, 0, 0, 0, 0], [521 - $x32, 0, 0, 0, 0]) {
            my ($number, @arguments) = @$call;
            $! = 0;
            exit 20 unless syscall($x32 + $number, @arguments) == -1 && $! == 1;
        }
        exit 10;";

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

    /// Not a test by itself: what a decoder under an attacker's control would do. It exits with 10 if it was refused,
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
            "calls of x32" => {
                use std::os::unix::process::CommandExt;
                // Perl opens /dev/null for a script among its arguments.
                let (script, mut writer) = io::pipe().expect("a pipe");
                io::Write::write_all(&mut writer, CALLS_OF_X32.as_bytes()).expect("it has room");
                drop(writer);
                let error = Command::new(PERL).arg("-").stdin(script).exec();
                panic!("{PERL} does not start: {error}");
            }
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
            dmv_random::skip("this kernel has no Landlock, so films get no posters");
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

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_process_for_films_has_no_calls_of_x32() {
        if attempt("film: nothing").code() == Some(30) || !std::path::Path::new(PERL).exists() {
            dmv_random::skip("this machine has no Landlock or no Perl, which makes the calls");
            return;
        }
        assert_eq!(attempt("film: calls of x32").code(), Some(10));
    }

    #[test]
    fn memory_and_time_are_limited() {
        assert_eq!(end_of(attempt("memory")), End::Memory);
        assert_eq!(end_of(attempt("time")), End::Time);
    }
}
