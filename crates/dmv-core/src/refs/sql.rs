//! Rows of queries, and how ids lie in the database: as blobs of 16 bytes.

use super::RefsError;
use crate::store::{IndexId, PackId};
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Params, Row};

/// Returns what `read` makes of each row of a query.
pub(super) fn rows<T>(
    conn: &Connection,
    query: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, RefsError> {
    let mut query = conn.prepare_cached(query)?;
    let rows = query.query_map(params, read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl ToSql for PackId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.as_bytes().to_sql()
    }
}

impl FromSql for PackId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<PackId> {
        FromSql::column_result(value).map(PackId::from_bytes)
    }
}

impl ToSql for IndexId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.as_bytes().to_sql()
    }
}

impl FromSql for IndexId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<IndexId> {
        FromSql::column_result(value).map(IndexId::from_bytes)
    }
}
