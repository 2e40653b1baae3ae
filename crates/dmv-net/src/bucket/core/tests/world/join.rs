//! gc that joins packs, in the simulation.

use super::*;

impl World {
    /// Joins all packs in which anything is needed, if they are several.
    pub(super) fn begin_to_join(
        &mut self,
        actor: usize,
        mark: &Mark,
        needed: &BTreeSet<Object>,
        marked: MarkResult,
    ) -> Result<(), Hole> {
        let (freed, broken) = (mark.root.freed, self.broken);
        if let Some(made) = self.actors[actor].made.clone()
            && (made.freed == freed || broken == Some(Broken::JoinOld))
            && (made.left_out.is_disjoint(needed) || broken == Some(Broken::JoinStale))
        {
            return self.joined(actor, &made, marked);
        }
        let alive = mark
            .rows
            .iter()
            .filter(|row| !marked.dead.contains(&row.name));
        let alive: Vec<&Row> = alive.collect();
        let Some(newest) = alive.iter().map(|row| row.generation).max() else {
            return self.marked(actor, Some(marked));
        };
        if alive.len() < 2 {
            return self.marked(actor, Some(marked));
        }
        let of_sources = alive.iter().filter_map(|row| self.objects(row.name));
        let all: BTreeSet<Object> = of_sources.flatten().copied().collect();
        let sources = alive.iter().map(|row| row.name).collect();
        let (objects, left_out) = all.iter().partition(|object| needed.contains(object));
        let salt = self.salt;
        let name = Name(self.actors[actor].fresh(salt));
        let row = Row {
            generation: newest,
            ..row(name)
        };
        let made = Made {
            row,
            sources,
            left_out,
            freed,
        };
        self.actors[actor].doing = Doing::Join(Box::new(made), objects, marked);
        Ok(())
    }

    pub(super) fn join(
        &mut self,
        actor: usize,
        made: Made,
        objects: BTreeSet<Object>,
        marked: MarkResult,
        trouble: Option<Trouble>,
    ) -> Result<(), Hole> {
        let files = vec![(made.row.name, File::Pack(objects.clone()))];
        if matches!(
            self.write_with(Write::Files(files), trouble)?,
            Answer::Unclear
        ) {
            self.actors[actor].doing = Doing::Join(Box::new(made), objects, marked);
            return Ok(());
        }
        self.joined(actor, &made, marked)
    }

    fn joined(&mut self, actor: usize, made: &Made, mut marked: MarkResult) -> Result<(), Hole> {
        marked.dead.extend(&made.sources);
        marked.joined.push(made.row);
        self.actors[actor].made = Some(made.clone());
        self.marked(actor, Some(marked))
    }
}
