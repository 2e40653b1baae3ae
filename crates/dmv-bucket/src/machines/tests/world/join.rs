//! gc that joins packs, in the simulation.

use super::*;

/// A pack that gc has made of others.
#[derive(Clone, Debug)]
pub struct Made {
    pub(super) row: Row,
    pub(super) sources: BTreeSet<Name>,
    /// What the sources have and was not needed.
    pub(super) left_out: BTreeSet<Object>,
    pub(super) age: Age,
    /// The purged chunks that are not in it.
    pub(super) without: BTreeSet<Object>,
}

impl World {
    /// Joins packs: what is needed of them goes into a new one.
    pub(super) fn begin_to_join(
        &mut self,
        actor: usize,
        mark: &Mark,
        alive: Vec<Row>,
        needed: &BTreeSet<Object>,
        pieces: &BTreeSet<Object>,
        marked: MarkResult,
    ) -> Result<(), Hole> {
        let (age, broken) = (mark.root.age(), self.broken);
        if let Some(made) = self.actors[actor].made.clone()
            && (made.age == age || broken == Some(Broken::JoinOld))
            && (made.left_out.is_disjoint(needed) || broken == Some(Broken::JoinStale))
            && made.without.is_superset(pieces)
        {
            return self.joined(actor, &made, marked);
        }
        let Some(newest) = alive.iter().map(|row| row.generation).max() else {
            return self.marked(actor, Some(marked));
        };
        let of_sources = alive.iter().filter_map(|row| self.objects(row.name));
        let all: BTreeSet<Object> = of_sources.flatten().copied().collect();
        let sources = alive.iter().map(|row| row.name).collect();
        let copies_all = broken == Some(Broken::CopyPurged);
        let stays = |object: &&Object| needed.contains(object) || copies_all;
        let (objects, left_out) = all.iter().partition(stays);
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
            age,
            without: pieces.clone(),
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
        let device = &mut self.actors[actor];
        // A push may have listed another one since the pack was made.
        device.held.retain(|name| !made.sources.contains(name));
        marked.joined.push(made.row);
        self.actors[actor].made = Some(made.clone());
        self.marked(actor, Some(marked))
    }
}
