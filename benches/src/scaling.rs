//! The two experiments about growth: one file of more and more bytes, and more and more files.
//!
//! They repeat those of M. J. Murphy's thesis on Distributed Media Versioning (2017), with its
//! layout of files and its edits, so that results can be set beside it. This module knows the
//! data alone: not the tools, and not what is timed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::corpus::{self, Content, SEED, TreeShape};
use crate::trash::Room;
use crate::{edit, size};

/// Bytes in each of many files.
pub const FILE_BYTES: u64 = 1024;
/// Directories that many files lie in; fewer than ten times as many lie in one.
const DIRECTORIES: u64 = 100;
/// One in so many files changes before the second commit.
const CHANGED_ONE_IN: usize = 16;
/// Where it changes.
const CHANGED_OFFSET: u64 = 256;
/// What a file takes on disk is rounded up to this.
const DISK_BLOCK_BYTES: u64 = 4096;
/// Some tools store a large file as many small ones, of at least this length on average.
const LEAST_CHUNK_BYTES: u64 = 32 << 10;

/// Which of the two experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// One file of random bytes; the amount is its length.
    File,
    /// Files of 1 KiB; the amount is their number.
    Files,
}

impl Experiment {
    /// Both, in the order in which they run.
    pub const ALL: [Experiment; 2] = [Experiment::File, Experiment::Files];

    /// Its name in the file of results.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::File => "file",
            Experiment::Files => "files",
        }
    }

    /// The experiment called `name`.
    pub fn named(name: &str) -> Option<Experiment> {
        Experiment::ALL.into_iter().find(|e| e.name() == name)
    }

    /// The steps that are measured, in their order. [`crate::session`] runs them.
    pub fn steps(self) -> &'static [&'static str] {
        match self {
            Experiment::File => &["first", "changed", "checkout"],
            Experiment::Files => &["first", "status", "changed", "checkout"],
        }
    }

    /// The amounts up to `most`, smallest first. Amounts below a second's work are further apart.
    pub fn points(self, most: u64) -> Vec<Point> {
        let mut amounts = vec![1_u64];
        match self {
            Experiment::File => {
                amounts.extend((1..=10).map(|n| 1 << (2 * n)));
                amounts.extend((21..50).map(|n| 1 << n));
            }
            Experiment::Files => {
                let tens = (0..10).map(|n| 10_u64.pow(n));
                amounts.extend(tens.flat_map(|n| [3 * n, 10 * n]));
            }
        }
        amounts.retain(|amount| *amount <= most);
        let point = |amount| Point {
            experiment: self,
            amount,
        };
        amounts.into_iter().map(point).collect()
    }
}

/// One data set of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The experiment.
    pub experiment: Experiment,
    /// Bytes of the file, or number of files.
    pub amount: u64,
}

impl Point {
    /// Its name for people: `1 GiB` or `1,000 files`.
    pub fn label(self) -> String {
        match (self.experiment, self.amount) {
            (Experiment::File, bytes) => size::bytes(bytes as f64),
            (Experiment::Files, 1) => "1 file".to_owned(),
            (Experiment::Files, files) => format!("{} files", size::count(files)),
        }
    }

    /// Bytes in all files.
    pub fn bytes(self) -> u64 {
        match self.experiment {
            Experiment::File => self.amount,
            Experiment::Files => self.amount * FILE_BYTES,
        }
    }

    /// Number of files.
    pub fn files(self) -> u64 {
        match self.experiment {
            Experiment::File => 1,
            Experiment::Files => self.amount,
        }
    }

    /// The longest file.
    pub fn largest_file(self) -> u64 {
        self.bytes() / self.files()
    }

    /// What a copy of the data may take on disk, whatever a tool makes of it.
    pub fn room(self) -> Room {
        let bytes = self.files() * self.largest_file().next_multiple_of(DISK_BLOCK_BYTES);
        let inodes = self.files() + self.bytes() / LEAST_CHUNK_BYTES;
        Room {
            bytes: bytes + bytes / 10 + (64 << 20),
            inodes: inodes + inodes / 10 + 1000,
        }
    }

    /// The same data set for every tool and run, as files below `top`, which may exist.
    pub fn write(self, top: &Path) -> Result<()> {
        match self.experiment {
            Experiment::File => {
                corpus::write_file(&top.join("file.bin"), Content::Random, self.amount, SEED)
            }
            Experiment::Files => corpus::write_tree(top, self.shape()?, Content::Random, SEED),
        }
    }

    /// Changes the files below `top` before the second commit: a 1,024th of a single file, a byte
    /// of every sixteenth of many files.
    pub fn edit(self, top: &Path) -> Result<()> {
        match self.experiment {
            Experiment::File => edit::overwrite_a_1024th(&top.join("file.bin"), SEED),
            Experiment::Files => self
                .paths()?
                .step_by(CHANGED_ONE_IN)
                .try_for_each(|path| edit::change_byte(&top.join(path), CHANGED_OFFSET)),
        }
    }

    fn shape(self) -> Result<TreeShape> {
        let dirs = match self.amount {
            files if files < 10 * DIRECTORIES => 1,
            _ => DIRECTORIES,
        };
        Ok(TreeShape {
            dirs: dirs as u32,
            files: u32::try_from(self.amount / dirs).context("too many files")?,
            bytes: FILE_BYTES,
        })
    }

    fn paths(self) -> Result<impl Iterator<Item = PathBuf>> {
        let shape = self.shape()?;
        let path = |dir, file| PathBuf::from(corpus::tree_path(dir, file));
        let in_dir = move |dir| (0..shape.files).map(move |file| path(dir, file));
        Ok((0..shape.dirs).flat_map(in_dir))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_go_from_one_to_the_most() {
        let labels = |experiment: Experiment, most| -> Vec<String> {
            let points = experiment.points(most);
            points.into_iter().map(Point::label).collect()
        };
        assert_eq!(
            labels(Experiment::File, 20),
            ["1 B", "4 B", "16 B"],
            "powers of four"
        );
        assert_eq!(
            labels(Experiment::Files, 1000)[4..],
            ["100 files", "300 files", "1,000 files"]
        );
        let large = labels(Experiment::File, 32 << 30);
        assert!(large.ends_with(&["16 GiB".to_owned(), "32 GiB".to_owned()]));
        assert!(large.contains(&"2 MiB".to_owned()));
        assert_eq!(Experiment::File.points(0), []);
    }

    #[test]
    fn trees_have_as_many_files_as_they_say() -> Result<()> {
        for point in Experiment::Files.points(3000) {
            let dir = tempfile::tempdir()?;
            point.write(dir.path())?;
            let files = crate::files::regular_files(dir.path())?;
            assert_eq!(files.len() as u64, point.amount);
            assert_eq!(point.paths()?.count() as u64, point.amount);
            assert!(files.iter().all(|(_, bytes)| *bytes == FILE_BYTES));
        }
        Ok(())
    }

    #[test]
    fn an_edit_changes_every_sixteenth_file() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        let point = Point {
            experiment: Experiment::Files,
            amount: 100,
        };
        point.write(&old)?;
        point.write(&new)?;
        point.edit(&new)?;
        assert_eq!(crate::files::differences(&old, &new, true, 100)?.len(), 7);
        Ok(())
    }

    #[test]
    fn room_is_never_less_than_the_data() {
        for experiment in Experiment::ALL {
            for point in experiment.points(1 << 20) {
                let room = point.room();
                assert!(room.bytes > point.bytes() && room.inodes > point.files());
            }
        }
    }
}
