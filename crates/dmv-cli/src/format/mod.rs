//! How values look: to people, and to programs.

pub mod fold;
pub mod json;
pub mod text;
