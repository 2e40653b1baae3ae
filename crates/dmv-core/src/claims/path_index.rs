//! Values by paths, to find those that overlap a path.

use crate::object::name::RepoPath;
use std::collections::BTreeMap;

/// Values by the bytes of their paths.
#[derive(Clone, Debug)]
pub struct PathIndex<T> {
    at: BTreeMap<Vec<u8>, Vec<T>>,
}

impl<T> Default for PathIndex<T> {
    fn default() -> PathIndex<T> {
        let at = BTreeMap::new();
        PathIndex { at }
    }
}

impl<T> PathIndex<T> {
    /// Adds a value at a path.
    pub fn add(&mut self, path: &RepoPath, value: T) {
        self.at
            .entry(path.as_bytes().to_vec())
            .or_default()
            .push(value);
    }

    /// Removes the values at exactly this path that are not to be kept.
    pub fn retain_at(&mut self, path: &RepoPath, keeps: impl FnMut(&T) -> bool) {
        if let Some(values) = self.at.get_mut(path.as_bytes()) {
            values.retain(keeps);
        }
    }

    /// Returns the values at this path, above it and below it.
    pub fn overlapping(&self, path: &RepoPath) -> impl Iterator<Item = &T> + use<'_, T> {
        let bytes = path.as_bytes().to_vec();
        let inside = [&bytes[..], b"/"].concat();
        let below = self.at.range(inside.clone()..);
        let below = below.take_while(move |(at, _)| at.starts_with(&inside));
        self.above(bytes)
            .chain(below.map(|(_, values)| values))
            .flatten()
    }

    fn above(&self, path: Vec<u8>) -> impl Iterator<Item = &Vec<T>> {
        let is_end = |at: usize, path: &[u8]| at == path.len() || path[at] == b'/';
        let ends = (1..=path.len()).filter({
            let path = path.clone();
            move |at| is_end(*at, &path)
        });
        ends.filter_map(move |end| self.at.get(&path[..end]))
    }

    /// Returns all values.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.at.into_values().flatten()
    }
}
