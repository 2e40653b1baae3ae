//! History drawn as a graph, line by line, in memory that grows only with the lines side by side.

use dmv_core::hash::ObjectId;

/// What to print for one commit: a row with its node, rows that lead to its parents, and a row to
/// go on with beside more text.
pub struct Rows {
    /// The row of the commit itself.
    pub node: String,
    /// Rows that lead elsewhere.
    pub links: Vec<String>,
    /// The lines that go on.
    pub rest: String,
}

/// The lines between commits that were drawn and their parents that will be.
///
/// A column keeps its place as long as its line goes on, and free ones are used again; so every row
/// tells of one change only, and lines that cross are told from lines that join.
#[derive(Default)]
pub struct Graph {
    columns: Vec<Option<ObjectId>>,
}

impl Graph {
    /// Draws a commit; each comes after all of its descendants.
    pub fn add(&mut self, id: &ObjectId, parents: &[ObjectId]) -> Rows {
        let at = self.column(id);
        let node = self.row(|column, _| if column == at { "○ " } else { "│ " });
        let links = self.lead(at, parents);
        Rows {
            node,
            links,
            rest: self.row(|_, _| "│ "),
        }
    }

    /// Passes over a commit that is not drawn: its line goes on to its parent, or ends.
    pub fn pass(&mut self, id: &ObjectId, parents: &[ObjectId]) -> Vec<String> {
        let at = self.column(id);
        self.lead(at, parents)
    }

    /// The column that leads to `id`, or a free one.
    fn column(&mut self, id: &ObjectId) -> usize {
        let found = self.columns.iter().position(|column| *column == Some(*id));
        let at = found.unwrap_or_else(|| self.free(0));
        self.columns[at] = Some(*id);
        at
    }

    /// A free column, the first one behind `after` if there is one.
    fn free(&mut self, after: usize) -> usize {
        let is_free = |n: &usize| self.columns[*n].is_none();
        if let Some(n) = (after..self.columns.len()).find(is_free) {
            return n;
        }
        self.columns.push(None);
        self.columns.len() - 1
    }

    /// Leads the line in column `at` to `parents`; each row that is returned has one turn.
    fn lead(&mut self, at: usize, parents: &[ObjectId]) -> Vec<String> {
        let mut links = Vec::new();
        let mut going_on = None;
        for (nth, parent) in parents.iter().enumerate() {
            let known = self
                .columns
                .iter()
                .position(|column| *column == Some(*parent));
            match known {
                // The main line stays where it is: the other one ends in it.
                Some(other) if nth == 0 && other > at => {
                    links.push(self.turn(other, at, false, true));
                    self.columns[other] = None;
                    going_on = Some(*parent);
                }
                Some(to) if going_on.is_none() && parents.len() == 1 => {
                    // The line ends in another one.
                    links.push(self.turn(at, to, false, true));
                }
                Some(to) => links.push(self.turn(at, to, true, true)),
                None if going_on.is_none() => going_on = Some(*parent),
                None => {
                    let to = self.free(at + 1);
                    links.push(self.turn(at, to, true, false));
                    self.columns[to] = Some(*parent);
                }
            }
        }
        self.columns[at] = going_on;
        while self.columns.last().is_some_and(Option::is_none) {
            self.columns.pop();
        }
        links
    }

    /// A row in which the line of column `from` turns to column `to`. `stays`: it goes on as well;
    /// `joins`: another line goes on there.
    fn turn(&self, from: usize, to: usize, stays: bool, joins: bool) -> String {
        let right = to > from;
        let between = from.min(to)..from.max(to);
        self.row(|column, line| {
            let corner = if column == from {
                match (stays, right) {
                    (true, true) => "├",
                    (true, false) => "┤",
                    (false, true) => "╰",
                    (false, false) => "╯",
                }
            } else if column == to {
                match (joins, right) {
                    (true, true) => "┤",
                    (true, false) => "├",
                    (false, true) => "╮",
                    (false, false) => "╭",
                }
            } else if between.contains(&column) {
                if line { "┼" } else { "─" }
            } else if line {
                "│"
            } else {
                " "
            };
            match (between.contains(&column), corner) {
                (true, "├") => "├─",
                (true, "╰") => "╰─",
                (true, "╭") => "╭─",
                (true, "┼") => "┼─",
                (true, _) => "──",
                (false, "┤") => "┤ ",
                (false, "╯") => "╯ ",
                (false, "╮") => "╮ ",
                (false, "│") => "│ ",
                (false, _) => "  ",
            }
        })
    }

    /// One row; `cell` is asked for each column and whether a line is in it. Where there is none it
    /// is asked only within the reach of a turn.
    fn row(&self, cell: impl Fn(usize, bool) -> &'static str) -> String {
        let mut out = String::new();
        for (column, line) in self.columns.iter().enumerate() {
            let text = cell(column, line.is_some());
            match (line, text) {
                (None, "│ " | "○ ") => out.push_str("  "),
                _ => out.push_str(text),
            }
        }
        out.truncate(out.trim_end().len());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> ObjectId {
        ObjectId::from_bytes([n; 32])
    }

    /// Draws commits given as number and parents; a number from 100 on is passed over.
    fn draw(history: &[(u8, &[u8])]) -> String {
        let mut graph = Graph::default();
        let mut out = Vec::new();
        for (n, parents) in history {
            let parents: Vec<ObjectId> = parents.iter().map(|p| id(*p)).collect();
            if *n >= 100 {
                out.extend(graph.pass(&id(*n), &parents));
                continue;
            }
            let rows = graph.add(&id(*n), &parents);
            out.push(format!("{} {n}", rows.node));
            out.extend(rows.links);
        }
        assert_eq!(graph.columns, []);
        out.join("\n")
    }

    #[test]
    fn a_line_is_a_line() {
        assert_eq!(draw(&[(3, &[2]), (2, &[1]), (1, &[])]), "○ 3\n○ 2\n○ 1");
    }

    #[test]
    fn a_merge_opens_a_column_and_a_fork_closes_it() {
        let drawn = draw(&[(4, &[3, 2]), (3, &[1]), (2, &[1]), (1, &[])]);
        assert_eq!(drawn, "○ 4\n├─╮\n○ │ 3\n│ ○ 2\n├─╯\n○ 1");
    }

    #[test]
    fn the_main_line_stays_in_the_first_column() {
        // 9 merges 7 into 8. 7 began at 5, and is drawn before 8, which merges 6 into 5.
        let drawn = draw(&[
            (9, &[8, 7]),
            (7, &[5]),
            (8, &[5, 6]),
            (6, &[5]),
            (5, &[4]),
            (4, &[]),
        ]);
        let want = "○ 9\n├─╮\n│ ○ 7\n○ │ 8\n├─╯\n├─╮\n│ ○ 6\n├─╯\n○ 5\n○ 4";
        assert_eq!(drawn, want, "\n{drawn}");
        let plain = draw(&[(9, &[8, 7]), (7, &[5]), (8, &[5]), (5, &[])]);
        assert_eq!(plain, "○ 9\n├─╮\n│ ○ 7\n○ │ 8\n├─╯\n○ 5", "\n{plain}");
    }

    #[test]
    fn histories_that_cross_keep_their_lines() {
        let drawn = draw(&[
            (6, &[5, 4]),
            (5, &[3, 2]),
            (4, &[3, 2]),
            (3, &[1]),
            (2, &[1]),
            (1, &[]),
        ]);
        let want = "○ 6\n├─╮\n○ │ 5\n├─┼─╮\n│ ○ │ 4\n├─┤ │\n│ ├─┤\n○   │ 3\n│   ○ 2\n├───╯\n○ 1";
        assert_eq!(drawn, want);
    }

    #[test]
    fn an_octopus_has_a_row_for_each_arm() {
        let drawn = draw(&[(5, &[4, 3, 2]), (4, &[1]), (3, &[1]), (2, &[1]), (1, &[])]);
        let want = "○ 5\n├─╮\n├─┼─╮\n○ │ │ 4\n│ ○ │ 3\n├─╯ │\n│   ○ 2\n├───╯\n○ 1";
        assert_eq!(drawn, want);
    }

    #[test]
    fn what_is_passed_over_leaves_its_line() {
        let drawn = draw(&[
            (4, &[103, 2]),
            (103, &[1]),
            (2, &[101]),
            (101, &[1]),
            (1, &[]),
        ]);
        assert_eq!(drawn, "○ 4\n├─╮\n│ ○ 2\n├─╯\n○ 1");
        // Two histories, one ends in a commit that is not shown.
        assert_eq!(draw(&[(3, &[100]), (100, &[]), (2, &[])]), "○ 3\n○ 2");
    }
}
