//! The lines of a history beside its commits: which column a commit has, and which lines pass, end
//! and begin there. Drawing is the page's.

use dmv_core::hash::ObjectId;

/// More columns than this are drawn on top of each other.
pub const MOST_COLUMNS: usize = 10;

/// What to draw beside one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphRow {
    /// The column of the commit.
    pub node: usize,
    /// Whether a line comes to it from above.
    pub from_above: bool,
    /// Columns of lines that pass by.
    pub passing: Vec<usize>,
    /// Columns to which a line leads from the commit.
    pub to_below: Vec<usize>,
    /// How many columns there are at most.
    pub width: usize,
}

/// The lines between commits that were drawn and their parents that will be.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    columns: Vec<Option<ObjectId>>,
}

impl Graph {
    /// A graph whose lines lead to these commits: the rest of another one.
    pub fn going_on(to: &[ObjectId]) -> Graph {
        Graph {
            columns: to.iter().copied().map(Some).collect(),
        }
    }

    /// The commits that the lines lead to.
    pub fn open(&self) -> Vec<ObjectId> {
        self.columns.iter().copied().flatten().collect()
    }

    /// Draws a commit; each comes after all of its descendants.
    pub fn add(&mut self, id: &ObjectId, parents: &[ObjectId]) -> GraphRow {
        let found = self.columns.iter().position(|c| *c == Some(*id));
        let node = found.unwrap_or_else(|| self.free());
        self.columns[node] = None;
        let passing = self.columns.iter().enumerate();
        let passing: Vec<usize> = passing.filter_map(|(n, c)| c.map(|_| n)).collect();
        let mut width = self.columns.len();
        let mut to_below = Vec::new();
        for parent in parents {
            let known = self.columns.iter().position(|c| *c == Some(*parent));
            let column = match known {
                Some(column) => column,
                None if self.columns.get(node).is_some_and(Option::is_none) => node,
                None => self.free(),
            };
            self.columns[column] = Some(*parent);
            to_below.push(column);
        }
        width = width.max(self.columns.len());
        while self.columns.last().is_some_and(Option::is_none) {
            self.columns.pop();
        }
        GraphRow {
            node,
            from_above: found.is_some(),
            passing,
            to_below,
            width,
        }
    }

    /// Passes over a commit that is not drawn.
    pub fn pass(&mut self, id: &ObjectId, parents: &[ObjectId]) {
        self.add(id, parents);
    }

    fn free(&mut self) -> usize {
        match self.columns.iter().position(Option::is_none) {
            Some(n) => n,
            None => {
                self.columns.push(None);
                self.columns.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> ObjectId {
        ObjectId::from_bytes([n; 32])
    }

    #[test]
    fn a_merge_opens_a_column_and_a_fork_closes_it() {
        let mut graph = Graph::default();
        let merge = graph.add(&id(4), &[id(3), id(2)]);
        assert_eq!((merge.node, merge.from_above), (0, false));
        assert_eq!(merge.to_below, [0, 1]);
        let left = graph.add(&id(3), &[id(1)]);
        assert_eq!(
            (left.node, &left.passing[..], &left.to_below[..]),
            (0, &[1][..], &[0][..])
        );
        let right = graph.add(&id(2), &[id(1)]);
        assert_eq!((right.node, &right.to_below[..]), (1, &[0][..]));
        let root = graph.add(&id(1), &[]);
        assert_eq!((root.node, root.from_above), (0, true));
        assert_eq!(graph.open(), []);
    }

    #[test]
    fn the_rest_of_a_graph_goes_on_elsewhere() {
        let mut whole = Graph::default();
        whole.add(&id(9), &[id(8), id(5)]);
        let mut rest = Graph::going_on(&whole.open());
        let (a, b) = (whole.add(&id(8), &[id(5)]), rest.add(&id(8), &[id(5)]));
        assert_eq!(a, b);
        assert_eq!(rest.open(), [id(5)]);
    }
}
