//! What almost every command uses. Only `commands` and `print` may use this list.

pub(crate) use crate::candidates;
pub(crate) use crate::context::Context;
pub(crate) use crate::failure::{
    EXIT_ABSENT, EXIT_CONFLICTS, EXIT_DAMAGE, EXIT_DIFFERS, EXIT_INCOMPLETE, EXIT_INTERRUPTED,
    EXIT_NO_REPOSITORY, EXIT_OK, EXIT_OTHER, EXIT_REFUSED, Failure, exit_for,
};
pub(crate) use crate::format::json::{Json, ToJson, object, path, paths, texts};
pub(crate) use crate::format::text::{
    SHORT_ID, bytes, clean, count, patterns, rfc3339, shown, subject, text_of, time, written,
};
pub(crate) use crate::headline::on;
pub(crate) use crate::on_demand::supplied;
pub(crate) use crate::overwrites::{keep_or_ask, overwritten_value, tell_overwritten};
pub(crate) use crate::ownership::path_argument;
pub(crate) use crate::subset_options::{emptied_values, tell_adopted, tell_emptied, tell_idle};
pub(crate) use crate::ui::color;
pub(crate) use anstyle::AnsiColor;
pub(crate) use dmv_core::escape::{Argument, Hint};
pub(crate) use dmv_core::hash::ObjectId;
pub(crate) use dmv_core::hint;
pub(crate) use dmv_core::object::name::{RepoPath, escape};
pub(crate) use dmv_core::repo::{Head, Repo, RepoError};
pub(crate) use std::ffi::{OsStr, OsString};
pub(crate) use std::io::Write;
