//! Who has the terminal: this program, which draws its progress on the last line, or another one that
//! it has started: ssh, an editor, a pager.

use indicatif::ProgressBar;
use std::sync::{Mutex, MutexGuard};

/// What is on the terminal's last line, and who may write there.
pub struct Screen {
    /// Programs that may ask something there.
    pub asking: usize,
    /// What was drawn last, and may be there still.
    pub bar: Option<ProgressBar>,
    lent: Option<Whom>,
}

/// Takes the right to draw.
pub fn screen() -> MutexGuard<'static, Screen> {
    static SCREEN: Mutex<Screen> = Mutex::new(Screen {
        asking: 0,
        bar: None,
        lent: None,
    });
    SCREEN
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Leaves the terminal to another program, which may ask for a password there, until it is dropped.
pub struct Hush(());

impl Hush {
    /// Takes away what is drawn, and draws nothing more.
    pub fn start() -> Hush {
        let mut screen = screen();
        screen.asking += 1;
        if let Some(bar) = screen.bar.take() {
            bar.finish_and_clear();
            bar.reset();
        }
        Hush(())
    }
}

impl Drop for Hush {
    fn drop(&mut self) {
        screen().asking -= 1;
    }
}

/// A program that the user works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Ctrl-C is its business alone.
    Editor,
    /// Ctrl-C also stops the work whose output it shows. What there is by then it still shows.
    Pager,
}

/// Leaves the terminal to a program that the user works in, until it is dropped. Ctrl-C ends neither
/// this program nor leaves the other one without its terminal.
pub struct Lent {
    _hush: Hush,
}

impl Lent {
    /// Leaves it to an editor or a pager. Only one has it at a time.
    pub fn to(whom: Whom) -> Lent {
        let lent = Lent {
            _hush: Hush::start(),
        };
        screen().lent = Some(whom);
        lent
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        screen().lent = None;
    }
}

/// The program that has the terminal, if it is not this one.
pub fn lent() -> Option<Whom> {
    screen().lent
}
