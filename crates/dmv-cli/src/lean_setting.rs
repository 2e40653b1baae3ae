//! The setting that makes a repository lean.

use crate::config::{LEAN, Scope, edit};
use crate::failure::Failure;
use dmv_core::repo::{CONFIG_FILE, Repo};
use toml_edit::{Item, Table, value};

/// Writes the setting.
pub fn set_lean(repo: &Repo, on: bool) -> Result<(), Failure> {
    let path = repo.dmv_dir().join(CONFIG_FILE);
    edit(&path, Scope::Repository, |document| {
        let (table, key) = LEAN.split_once('.').expect("it is a name with a dot");
        let table = document
            .entry(table)
            .or_insert_with(|| Item::Table(Table::new()));
        if !table.is_table_like() {
            *table = Item::Table(Table::new());
        }
        table[key] = value(on);
    })
}
