//! A session on one point of an experiment about growth.
//!
//! The input is written into the working tree directly, without a master to copy from, and each
//! step runs only when the disk has room for what it may write: at the largest sizes every copy
//! counts.

use anyhow::Result;

use super::{Event, Session};
use crate::scaling::Point;
use crate::size;
use crate::trash::Room;

impl Session<'_, '_> {
    /// Commits `point`, edits it, commits it again and checks it out.
    pub(super) fn scaling(&mut self, point: Point) -> Result<()> {
        let steps = point.experiment.steps();
        let copies = self.copies();
        // Once for all steps: to delete in the middle of a session would disturb it.
        let all = point.room();
        let all = Room {
            bytes: all.bytes * (2 + copies),
            inodes: all.inodes * (2 + copies),
        };
        if self.bench.trash.make_room_for(all)? {
            let note = "emptied the trash for space; creating files may be slow for a while";
            (self.bench.emit)(Event::Note(note.to_owned()))?;
        }
        if let Some(why) = self.shortage(point.room())? {
            return steps.iter().try_for_each(|op| self.skip(op, &why));
        }
        point.write(&self.places.work.clone())?;
        self.init()?;
        for op in steps {
            self.scaling_step(op, point)?;
        }
        Ok(())
    }

    fn scaling_step(&mut self, op: &'static str, point: Point) -> Result<()> {
        if self.failed {
            return Ok(());
        }
        let room = point.room();
        let need = match op {
            "status" => None,
            "changed" if self.peer.stores_whole_files => Some(room),
            "changed" => Some(Room {
                bytes: room.bytes / 8,
                inodes: room.inodes / 8,
            }),
            _ => Some(room),
        };
        if let Some(why) = need.map(|room| self.shortage(room)).transpose()?.flatten() {
            // Without a first commit there is nothing to change or to check out.
            self.failed |= op == "first";
            return self.skip(op, &why);
        }
        match op {
            "status" => self.status(op),
            "changed" => {
                point.edit(&self.places.work.clone())?;
                self.commit(op, &[])
            }
            "checkout" => self.checkout(),
            _ => self.commit(op, &[]),
        }
    }

    /// How often the tool stores the data.
    fn copies(&self) -> u64 {
        if self.peer.stores_whole_files { 2 } else { 1 }
    }

    /// Says what is missing if the disk lacks `need`.
    fn shortage(&mut self, need: Room) -> Result<Option<String>> {
        let free = self.bench.trash.free()?;
        if need.fits_in(free) {
            return Ok(None);
        }
        Ok(Some(if need.bytes > free.bytes {
            format!(
                "needs {} of disk, {} are free",
                size::bytes(need.bytes as f64),
                size::bytes(free.bytes as f64)
            )
        } else {
            format!(
                "needs {} inodes, {} are free",
                size::count(need.inodes),
                size::count(free.inodes)
            )
        }))
    }

    fn skip(&mut self, op: &'static str, why: &str) -> Result<()> {
        (self.bench.emit)(Event::Skipped {
            op,
            why: why.to_owned(),
        })
    }
}
