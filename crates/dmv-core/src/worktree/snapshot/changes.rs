//! Values by name, stored in little memory: what a snapshot collects about one directory.

/// Names with values, in the order of arrival. The names follow each other in one buffer, because a
/// million allocations would take more memory than the names.
#[derive(Debug)]
pub(super) struct Changes<T> {
    names: Vec<u8>,
    rows: Vec<Row<T>>,
}

#[derive(Debug)]
struct Row<T> {
    start: u32,
    len: u16,
    value: T,
}

impl<T> Default for Changes<T> {
    fn default() -> Changes<T> {
        Changes {
            names: Vec::new(),
            rows: Vec::new(),
        }
    }
}

impl<T> Changes<T> {
    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a value after all others.
    pub(super) fn push(&mut self, name: &[u8], value: T) {
        // All names come from a listing, which is not larger than that.
        let start = u32::try_from(self.names.len()).expect("a directory's names fit 4 GiB");
        let len = u16::try_from(name.len()).expect("a name is short");
        self.names.extend_from_slice(name);
        self.rows.push(Row { start, len, value });
    }

    /// Removes all values of `name`.
    pub(super) fn drop_all(&mut self, name: &[u8]) {
        let names = &self.names;
        self.rows.retain(|row| name_of(names, row) != name);
    }

    /// Returns the name and value at `index`.
    pub(super) fn get(&self, index: u32) -> (&[u8], &T) {
        let row = &self.rows[index as usize];
        (name_of(&self.names, row), &row.value)
    }

    /// Returns the indices in order of name; only the last value of each name.
    pub(super) fn in_order(&self) -> Vec<u32> {
        // There are fewer than MAX_DIR_ENTRIES names, with two values each at most.
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        order.sort_by(|a, b| self.get(*a).0.cmp(self.get(*b).0));
        order.dedup_by(|later, kept| {
            let same = self.get(*later).0 == self.get(*kept).0;
            if same {
                *kept = *later;
            }
            same
        });
        order
    }
}

fn name_of<'n, T>(names: &'n [u8], row: &Row<T>) -> &'n [u8] {
    &names[row.start as usize..][..usize::from(row.len)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_values_of_a_name_the_last_counts() {
        let mut changes = Changes::default();
        for (name, value) in [("b", 1), ("a", 2), ("c", 3), ("a", 4), ("", 5), ("a", 6)] {
            changes.push(name.as_bytes(), value);
        }
        let read = |changes: &Changes<i32>| -> Vec<(String, i32)> {
            let order = changes.in_order();
            let row = |i: &u32| {
                let (name, value) = changes.get(*i);
                (String::from_utf8_lossy(name).into_owned(), *value)
            };
            order.iter().map(row).collect()
        };
        let told = |rows: &[(&str, i32)]| -> Vec<(String, i32)> {
            rows.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect()
        };
        assert_eq!(
            read(&changes),
            told(&[("", 5), ("a", 6), ("b", 1), ("c", 3)])
        );
        changes.drop_all(b"a");
        assert_eq!(read(&changes), told(&[("", 5), ("b", 1), ("c", 3)]));
        assert!(!changes.is_empty() && Changes::<i32>::default().is_empty());
    }
}
