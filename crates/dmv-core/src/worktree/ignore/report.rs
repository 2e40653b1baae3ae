//! What a command reports about ignore files.

use super::IgnoreFault;
use crate::worktree::scan::DirScan;
use crate::worktree::snapshot::Problem;

/// What is wrong with the ignore files that a scan has met.
#[derive(Debug, Default)]
pub(crate) struct RuleReport {
    faults: Vec<IgnoreFault>,
    /// Whether an entry was left out because it is unknown whether it is ignored.
    is_held: bool,
}

impl RuleReport {
    /// Notes what is wrong in a directory.
    pub(crate) fn note(&mut self, scan: &DirScan) {
        self.faults.extend_from_slice(&scan.faults);
        self.is_held |= scan.held > 0;
    }

    /// Adds to `problems` the files that cannot be used, and to `warnings` the lines without effect.
    ///
    /// A file outside of the subset is a problem only if something is left out because of it: this
    /// worktree need not have its content.
    pub(crate) fn finish(self, problems: &mut Vec<Problem>, warnings: &mut Vec<Problem>) {
        for fault in &self.faults {
            let is_told = !fault.is_outside || self.is_held;
            match fault.line {
                None if is_told => problems.push(Problem::of_rules(fault)),
                None => {}
                Some(_) => warnings.push(Problem::of_rules(fault)),
            }
        }
    }
}
