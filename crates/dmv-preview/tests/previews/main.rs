//! Previews of whole files: what they look like, damaged files, and the process that decodes.

mod files;
mod hostile;
mod process;
