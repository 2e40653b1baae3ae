//! How ids lie in the database: as blobs of 16 bytes.

use crate::store::{IndexId, PackId};
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

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
