//! Servers that other programs run, for the time of a test.

use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where `go install` puts programs, below the home directory.
const GO_BIN: &str = "go/bin";
/// How long a server may take until it accepts connections.
const START: Duration = Duration::from_secs(60);

/// A running server on a port of this machine, with a directory of its own. Both end with the value.
pub struct Server {
    child: Child,
    port: u16,
    dir: TempDir,
}

impl Server {
    /// Starts the program that `command` names for a port and a directory. Waits until it accepts
    /// connections.
    ///
    /// Fails if it cannot be started, or ends before that; the error says what it printed. Panics if
    /// it does not accept connections within a minute.
    pub fn start(
        command: impl FnOnce(u16, &Path) -> io::Result<Command>,
    ) -> Result<Server, Box<dyn Error>> {
        let dir = TempDir::new()?;
        let port = free_port()?;
        let errors = dir.path().join("errors");
        let child = command(port, dir.path())?
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&errors)?)
            .spawn()?;
        let mut server = Server { child, port, dir };
        let end = Instant::now() + START;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait()?;
            let printed = fs::read_to_string(&errors)?;
            if let Some(status) = ended {
                return Err(format!("the server ends with {status}: {printed}").into());
            }
            assert!(Instant::now() < end, "the server does not start: {printed}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Returns its address as a URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.host())
    }

    /// Returns its address as `HOST:PORT`.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns its directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a port that nobody uses now.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Returns a program in PATH, or where `go install` puts it, that `fits`.
pub fn go_program(name: &str, fits: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(GO_BIN));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(home);
    dirs.map(|dir| dir.join(name))
        .find(|file| file.is_file() && fits(file))
}
