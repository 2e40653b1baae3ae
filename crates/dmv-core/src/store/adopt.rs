//! The objects that a job of this process has stored, before and after it is published.
//!
//! A job may need to read its own objects before they are published: a merge reads the tree that it
//! has made to write its files. Such a *preview* lasts as long as the job's [`FinishedJob`], and only
//! reads use it. If the job fails, no later job counts its objects as stored.

use super::{FinishedJob, PackId, PackRow, Place, Store, StoreError, read, write};
use crate::hash::ObjectId;
use std::sync::Arc;

impl Store {
    /// Lets this process read what a job has stored, until `job` is dropped. No writer relies on
    /// it.
    pub(crate) fn preview(&self, job: &FinishedJob) {
        let mut previews = write(&self.previews);
        previews.retain(|table| table.strong_count() > 0);
        for table in job.tables.iter().map(Arc::downgrade) {
            if !previews.iter().any(|known| known.ptr_eq(&table)) {
                previews.push(table);
            }
        }
    }

    /// Takes the published objects of a job into use in this process.
    pub(crate) fn adopt(&self, job: &FinishedJob) {
        let mut tables = write(&self.tables);
        for table in &job.tables {
            if !tables.iter().any(|known| Arc::ptr_eq(known, table)) {
                tables.push(table.clone());
            }
        }
        drop(tables);
        let mut rows = write(&self.rows);
        for segment in &job.segments {
            match rows.iter_mut().find(|row| row.id == segment.pack) {
                Some(row) => row.len = row.len.max(segment.end),
                None => rows.push(PackRow {
                    id: segment.pack,
                    kind: segment.kind,
                    len: segment.end,
                    poisoned: false,
                }),
            }
        }
        drop(rows);
        self.arrivals.published();
    }

    /// Returns where a job has written `id` itself. An object that it found stored does not count.
    pub(crate) fn place_in(
        &self,
        job: &FinishedJob,
        id: &ObjectId,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        for table in &job.tables {
            if let Some(found) = table.lookup(id, &self.budget)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the place of `id` for a caller that is about to name it: in `job`, which is
    /// published together with the name, or else according to the catalogue.
    pub(crate) fn place_to_name(
        &self,
        id: &ObjectId,
        job: Option<&FinishedJob>,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        if let Some(job) = job
            && let Some(found) = self.place_in(job, id)?
        {
            return Ok(Some(found));
        }
        match self.locate_listed(id)? {
            None if self.refresh()? => self.locate_listed(id),
            found => Ok(found),
        }
    }

    /// Returns the place of an object that a job has stored and not published yet.
    pub(super) fn locate_in_previews(
        &self,
        id: &ObjectId,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        for table in read(&self.previews).iter() {
            let Some(table) = table.upgrade() else {
                continue;
            };
            if let Some(found) = table.lookup(id, &self.budget)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
