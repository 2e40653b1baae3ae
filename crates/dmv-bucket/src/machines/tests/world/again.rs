//! A push that is run again because it ended without an answer, in the simulation.

use super::*;

impl World {
    /// Runs the last push of a device again. It goes on with the same operation if it had no answer.
    pub fn push_again(&mut self, actor: usize) -> Result<(), Hole> {
        let (salt, limits) = (self.salt, self.limits);
        let device = &mut self.actors[actor];
        let Some(open) = device.open.take() else {
            return Err("its end is known".to_owned());
        };
        let (id, changes) = device.pushed.clone();
        let known = device.known.clone();
        let mut push = Push::new(stamp(id), changes, known, Vec::new(), limits);
        push.resume(open);
        let step = push.start(&mut || device.fresh(salt));
        self.pushing(actor, push, id, step)
    }

    /// Returns how often the last push of a device was published.
    pub fn times_landed(&self, actor: usize) -> u32 {
        let id = self.actors[actor].pushed.0;
        self.landed.get(&id).copied().unwrap_or_default()
    }

    /// Returns whether a request to replace the root is open.
    pub fn is_publishing(&self, actor: usize) -> bool {
        matches!(
            self.actors[actor].doing,
            Doing::Ask(Request::PutRoot { .. })
        )
    }
}
