//! How the machines of the simulated devices end, and whether they tell the truth.

use super::*;

impl World {
    pub(super) fn pushing(
        &mut self,
        actor: usize,
        push: Push,
        id: [u8; 16],
        step: Step<Box<Prepare>, PushEnd>,
    ) -> Result<(), Hole> {
        let landed = self.landed.contains_key(&id);
        let device = &mut self.actors[actor];
        match step {
            Step::Ask(request) => device.doing = Doing::Ask(request),
            Step::Work(prepare) => device.doing = Doing::Prepare(prepare),
            Step::Done(end) => {
                device.sent.clear();
                return self.pushed(actor, id, landed, end);
            }
            Step::Failed(fault) => {
                device.sent.clear();
                device.open = push.unanswered();
                return self.push_failed(id, landed, fault);
            }
        }
        device.sent = push.sent().to_vec();
        device.machine = Some(Device::Push(push, id));
        Ok(())
    }

    fn pushed(
        &mut self,
        actor: usize,
        id: [u8; 16],
        landed: bool,
        end: PushEnd,
    ) -> Result<(), Hole> {
        match end {
            PushEnd::Landed { .. } if !landed => Err("a push claims that it landed".to_owned()),
            PushEnd::Landed { root, .. } => {
                self.actors[actor].known = Some(*root);
                self.published += 1;
                Ok(())
            }
            PushEnd::Moved if landed => Err("a push has landed and reports a conflict".to_owned()),
            PushEnd::Moved => {
                self.refused.insert(id);
                // It would fetch now.
                self.actors[actor].known = Some((self.root(), tag(&self.root)));
                Ok(())
            }
        }
    }

    fn push_failed(&mut self, id: [u8; 16], landed: bool, fault: Fault) -> Result<(), Hole> {
        match fault {
            Fault::Unknown => {
                self.unknown += 1;
                Ok(())
            }
            Fault::Unreachable if !landed => {
                self.refused.insert(id);
                Ok(())
            }
            fault => Err(format!("a push failed: {fault:?}")),
        }
    }

    pub(super) fn collecting(
        &mut self,
        actor: usize,
        collect: Collect,
        id: [u8; 16],
        step: Step<Box<Mark>, CollectEnd>,
    ) -> Result<(), Hole> {
        let device = &mut self.actors[actor];
        match step {
            Step::Ask(request) => device.doing = Doing::Ask(request),
            Step::Work(mark) => device.doing = Doing::Mark(mark),
            Step::Done(CollectEnd::Freed { left, .. }) => {
                self.freed += left.len() as u32;
                self.joined += u32::from(device.made.is_some());
                self.expired += u32::from(!device.expires.is_empty());
                self.purge_goes_on(actor, collect.purged());
                return Ok(());
            }
            Step::Done(CollectEnd::Nothing) => return Ok(()),
            Step::Failed(Fault::Unreachable) => {
                if self.landed.contains_key(&id) {
                    return Err("gc has landed and says that it has not".to_owned());
                }
                self.refused.insert(id);
                return Ok(());
            }
            Step::Failed(Fault::Unknown) => {
                self.unknown += 1;
                return Ok(());
            }
            Step::Failed(fault) => return Err(format!("gc failed: {fault:?}")),
        }
        device.machine = Some(Device::Collect(collect, id));
        Ok(())
    }

    pub(super) fn fetching(
        &mut self,
        actor: usize,
        fetch: Fetch,
        step: Step<Box<Read>, FetchEnd>,
    ) -> Result<(), Hole> {
        let device = &mut self.actors[actor];
        match step {
            Step::Ask(request) => device.doing = Doing::Ask(request),
            Step::Work(read) => device.doing = Doing::Read(read),
            Step::Done(FetchEnd::Nothing) => return Ok(()),
            Step::Done(FetchEnd::Complete(known)) => {
                device.known = Some(*known);
                return Ok(());
            }
            Step::Done(FetchEnd::Lost(name)) => {
                return Err(format!("a reader reports that {name:?} is lost"));
            }
            Step::Failed(Fault::Unreachable) => return Ok(()),
            Step::Failed(fault) => return Err(format!("a fetch failed: {fault:?}")),
        }
        device.machine = Some(Device::Fetch(fetch));
        Ok(())
    }
}
