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
    /// Columns of other lines that come from above and end in it.
    pub joining: Vec<usize>,
    /// Columns of lines that pass by.
    pub passing: Vec<usize>,
    /// Columns to which a line leads from the commit.
    pub to_below: Vec<usize>,
    /// How many columns there are at most.
    pub width: usize,
}

/// The lines between commits that were drawn and their parents that will be. Several lines may lead to one commit: they
/// join in it, so a commit's first parent always goes on in its column, and the main line stays where it is.
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

    /// The commits that the lines lead to, each once.
    pub fn open(&self) -> Vec<ObjectId> {
        let mut open: Vec<ObjectId> = Vec::new();
        for id in self.columns.iter().copied().flatten() {
            if !open.contains(&id) {
                open.push(id);
            }
        }
        open
    }

    /// Draws a commit; each comes after all of its descendants.
    pub fn add(&mut self, id: &ObjectId, parents: &[ObjectId]) -> GraphRow {
        let leading = self.columns.iter().enumerate();
        let leading = leading.filter_map(|(n, c)| (*c == Some(*id)).then_some(n));
        let mut joining: Vec<usize> = leading.collect();
        let from_above = !joining.is_empty();
        let node = if from_above {
            joining.remove(0)
        } else {
            self.free()
        };
        self.columns[node] = None;
        for column in &joining {
            self.columns[*column] = None;
        }
        let passing = self.columns.iter().enumerate();
        let passing: Vec<usize> = passing.filter_map(|(n, c)| c.map(|_| n)).collect();
        let mut width = self.columns.len();
        let mut to_below = Vec::new();
        for (nth, parent) in parents.iter().enumerate() {
            let known = self.columns.iter().position(|c| *c == Some(*parent));
            let column = match known {
                Some(column) if nth > 0 || column < node => column,
                _ if nth == 0 => node,
                _ => self.free(),
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
            from_above,
            joining,
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
        assert_eq!(right.joining, [0; 0]);
        let root = graph.add(&id(1), &[]);
        assert_eq!((root.node, root.from_above), (0, true));
        assert_eq!(graph.open(), []);
    }

    #[test]
    fn the_main_line_stays_in_the_first_column() {
        // 9 merges 7 into 8. 7 began at 5, and is drawn before 8, which merges 6 into 5.
        let mut graph = Graph::default();
        graph.add(&id(9), &[id(8), id(7)]);
        let topic = graph.add(&id(7), &[id(5)]);
        assert_eq!((topic.node, &topic.to_below[..]), (1, &[1][..]));
        let merge = graph.add(&id(8), &[id(5), id(6)]);
        assert_eq!((merge.node, &merge.to_below[..]), (0, &[0, 2][..]));
        assert_eq!(merge.passing, [1]);
        graph.add(&id(6), &[id(5)]);
        let base = graph.add(&id(5), &[id(4)]);
        assert_eq!((base.node, &base.joining[..]), (0, &[1][..]));
        assert_eq!((base.from_above, &base.to_below[..]), (true, &[0][..]));
        assert_eq!(graph.open(), [id(4)]);
    }

    /// Whatever the history, a commit that is reached over first parents alone is in the first column.
    #[test]
    fn first_parents_of_the_tip_are_in_the_first_column_in_any_history() {
        let mut random = dmv_random::Rng::new(29);
        for _ in 0..500 {
            let count = 4 + random.below(40) as u8;
            let mut parents: Vec<Vec<u8>> = vec![Vec::new()];
            for n in 1..count {
                let wanted = 1 + random.below(3).min(u64::from(n) - 1);
                let mut of: Vec<u8> = Vec::new();
                while (of.len() as u64) < wanted {
                    let near = u64::from(n).min(6);
                    let parent = n - 1 - random.below(near) as u8;
                    if !of.contains(&parent) {
                        of.push(parent);
                    }
                }
                parents.push(of);
            }
            let mut main = vec![count - 1];
            while let Some(next) = parents[usize::from(main[main.len() - 1])].first() {
                main.push(*next);
            }
            let mut wanted = vec![false; usize::from(count)];
            wanted[usize::from(count) - 1] = true;
            let mut graph = Graph::default();
            for n in (0..count)
                .rev()
                .filter(|n| {
                    let is_wanted = wanted[usize::from(*n)];
                    if is_wanted {
                        for parent in &parents[usize::from(*n)] {
                            wanted[usize::from(*parent)] = true;
                        }
                    }
                    is_wanted
                })
                .collect::<Vec<_>>()
            {
                let of: Vec<ObjectId> = parents[usize::from(n)].iter().map(|p| id(*p)).collect();
                let row = graph.add(&id(n), &of);
                assert_eq!(row.node == 0, main.contains(&n), "{n} of {parents:?}");
            }
            assert_eq!(graph.open(), []);
        }
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
