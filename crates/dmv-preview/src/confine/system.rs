//! Systems without filters of system calls: the limits of the kernel alone protect.

use std::io;

/// Installs no filter.
pub fn filter() -> io::Result<()> {
    Ok(())
}

/// Refuses: limits alone do not keep `ffmpeg` from files and the network.
#[cfg(target_os = "linux")]
pub fn enter_film() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
