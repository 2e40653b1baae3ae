//! The commands that are cut off: every one of the program that changes something, and the readers.

/// One command, and what may be expected of it.
pub struct Case {
    /// Parts of the template that it needs.
    pub parts: &'static [&'static str],
    /// The command, run above these parts.
    pub args: &'static str,
    /// How it ends where nobody disturbs it.
    pub exit: i32,
    /// What it does when it is run once more.
    pub again: Again,
}

/// What a command does when it is run once more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Nothing more: it succeeds, or says why not.
    Same,
    /// The same again, on top: it is not run where it has taken effect.
    More,
    /// The rest, as a further one of its kind: only the files arrive where they would have arrived.
    Rest,
}

const FILM: &[&str] = &["film"];
const NEAR: &[&str] = &["film", "near"];
const NAS: &[&str] = &["film", "nas.dmv"];
const LEAN: &[&str] = &["film", "lean"];
const PART: &[&str] = &["film", "part"];
const KEPT: &[&str] = &["kept", "disk.dmv"];
const BOTH: &[&str] = &["film", "film2"];

const fn same(parts: &'static [&'static str], args: &'static str) -> Case {
    let again = Again::Same;
    Case {
        parts,
        args,
        exit: 0,
        again,
    }
}

const fn more(parts: &'static [&'static str], args: &'static str) -> Case {
    Case {
        again: Again::More,
        ..same(parts, args)
    }
}

const fn rest(parts: &'static [&'static str], args: &'static str) -> Case {
    Case {
        again: Again::Rest,
        ..same(parts, args)
    }
}

const fn ends(exit: i32, case: Case) -> Case {
    Case { exit, ..case }
}

/// All of them.
pub const CASES: &[Case] = &[
    // Start.
    same(&[], "init fresh"),
    same(&[], "init --bare fresh.dmv"),
    same(FILM, "clone film copy"),
    same(FILM, "clone --bare film copy.dmv"),
    same(FILM, "clone --subset dir -- film copy"),
    same(FILM, "clone --depth 1 film copy"),
    same(FILM, "clone --meta-only film copy"),
    same(FILM, "clone ssh://host/~/film copy"),
    same(FILM, "clone --lean film copy"),
    // Change.
    same(FILM, "-C film commit -m work"),
    same(FILM, "-C film commit -m part dir"),
    more(FILM, "-C film commit --amend -m amended"),
    more(FILM, "-C film commit --allow-empty -m empty own.txt"),
    same(FILM, "-C film checkout other"),
    same(FILM, "-C film checkout v1"),
    same(FILM, "-C film checkout --force other"),
    same(FILM, "-C film checkout --force main"),
    same(FILM, "-C film checkout other --subset dir new"),
    same(FILM, "-C film subset set dir sub"),
    same(FILM, "-C film subset remove sub"),
    same(PART, "-C part subset add sub big.bin"),
    same(PART, "-C part subset clear"),
    same(FILM, "-C film merge side"),
    same(FILM, "-C film merge other"),
    ends(4, same(FILM, "-C film merge clash")),
    same(BOTH, "-C film2 merge --no-ff side"),
    same(BOTH, "-C film2 merge main"),
    more(FILM, "-C film revert @~1"),
    same(&["film", "clash"], "-C clash resolve text.txt --ours"),
    same(&["film", "clash"], "-C clash commit -m settled"),
    same(FILM, "-C film restore dir/h"),
    same(FILM, "-C film restore --from v1 big.bin text.txt"),
    same(FILM, "-C film mv sub moved"),
    same(FILM, "-C film mv --force text.txt big.bin"),
    same(FILM, "-C film rm -r --force dir"),
    same(FILM, "-C film rm --cached -y text.txt"),
    same(FILM, "-C film reset v1"),
    same(FILM, "-C film reset --hard"),
    same(FILM, "-C film reset --hard side"),
    rest(FILM, "-C film stash"),
    rest(FILM, "-C film stash push -m part dir"),
    same(FILM, "-C film stash pop 1"),
    ends(4, more(FILM, "-C film stash pop")),
    more(FILM, "-C film stash drop"),
    more(FILM, "-C film cherry-pick side"),
    ends(4, more(FILM, "-C film cherry-pick side clash")),
    same(FILM, "-C film rebase side"),
    ends(4, same(FILM, "-C film rebase clash")),
    same(FILM, "-C film bisect start main v1"),
    more(&["film", "hunt"], "-C hunt bisect good"),
    same(&["film", "hunt"], "-C hunt bisect end"),
    same(FILM, "-C film branch b9"),
    same(FILM, "-C film branch -d other"),
    same(FILM, "-C film branch -m other renamed"),
    same(FILM, "-C film tag t9 side"),
    same(FILM, "-C film tag -d v1"),
    more(FILM, "-C film undo"),
    more(BOTH, "-C film2 undo"),
    more(NEAR, "-C near redo"),
    same(FILM, "-C film worktree add ../added other"),
    same(BOTH, "-C film worktree remove ../film2"),
    same(BOTH, "-C film worktree repair ../film2"),
    // Peers.
    same(NEAR, "-C film fetch near"),
    same(NEAR, "-C film pull near"),
    same(NEAR, "-C near pull origin"),
    same(NEAR, "-C near pull --rebase origin"),
    same(NAS, "-C film push nas"),
    same(NAS, "-C film push nas main other side"),
    same(NAS, "-C film sync nas"),
    same(NEAR, "-C near fetch far"),
    same(NEAR, "-C near push far topic"),
    same(PART, "-C part get sub"),
    same(PART, "-C part drop dir"),
    same(NEAR, "-C near drop big.bin"),
    same(FILM, "-C film gc --grace 0"),
    same(FILM, "-C film keep set *.bin last:2"),
    same(KEPT, "-C kept keep remove *.exr"),
    same(KEPT, "-C kept expire"),
    same(KEPT, "-C kept expire --last-copy"),
    same(KEPT, "-C kept expire --dry-run"),
    same(KEPT, "-C kept purge render.exr --reason leaked"),
    same(KEPT, "-C kept purge note --reason leaked --everywhere"),
    same(KEPT, "-C kept config set repository.budget 1GB"),
    same(FILM, "-C film op expire --older 0d"),
    same(PART, "-C part gc --grace 0"),
    same(FILM, "-C film repack"),
    same(PART, "-C part repack"),
    same(FILM, "-C film remote add new ../elsewhere"),
    same(FILM, "-C film remote remove nas"),
    same(FILM, "-C film config set user.name Ada"),
    same(
        FILM,
        "-C film trust 3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c --write",
    ),
    same(FILM, "-C film untrust laptop"),
    ends(
        13,
        same(
            FILM,
            "-C film pair --code 4829-1370 --listen 127.0.0.1 --wait 0",
        ),
    ),
    same(NAS, "-C film claim link run.sh --at nas"),
    same(FILM, "-C film claim link run.sh --offline"),
    rest(&["film", "claimed"], "-C claimed release big.bin"),
    // Content that only files and a remote have.
    same(NAS, "-C film lean on"),
    same(LEAN, "-C lean lean off"),
    same(LEAN, "-C lean commit -m work"),
    same(LEAN, "-C lean checkout other"),
    same(LEAN, "-C lean checkout --force other"),
    same(LEAN, "-C lean merge origin/side"),
    same(LEAN, "-C lean restore dir/h big.bin"),
    rest(LEAN, "-C lean stash"),
    same(LEAN, "-C lean rm big.bin"),
    same(LEAN, "-C lean pull origin"),
    same(LEAN, "-C lean drop big.bin"),
    same(LEAN, "-C lean gc --grace 0"),
    same(LEAN, "-C lean repack"),
    same(LEAN, "-C lean worktree add ../added origin/side"),
    // Keep safe.
    same(FILM, "-C film verify"),
    same(&["film", "hurt"], "-C hurt verify --heal"),
    same(FILM, "-C film recover"),
    same(&["film", "lost"], "-C lost recover"),
    // Read.
    same(FILM, "-C film export @ --to out"),
    same(FILM, "-C film export other --tar out.tar"),
    same(FILM, "-C film status"),
    same(FILM, "-C film log --graph"),
    same(FILM, "-C film op log"),
    same(FILM, "-C film diff v1 @"),
    same(FILM, "-C film show other"),
    same(FILM, "-C film ls -r @"),
    same(FILM, "-C film cat @:big.bin"),
    same(FILM, "-C film du @"),
    same(FILM, "-C film stats"),
    same(&[], "id"),
];

impl Case {
    /// The arguments.
    pub fn words(&self) -> Vec<&'static str> {
        self.args.split(' ').collect()
    }

    /// Whether the command changes nothing at all, so that it always prints the same.
    pub fn only_reads(&self) -> bool {
        let verbs = ["log", "diff", "show", "ls", "cat", "du", "stats", "status"];
        self.words().iter().any(|word| verbs.contains(word))
    }

    /// Whether the command overwrites uncommitted files because it is asked to.
    pub fn overwrites(&self) -> bool {
        let words = [" restore ", "--force", "--hard", "film stash push"];
        self.args.ends_with(" stash") || words.iter().any(|word| self.args.contains(word))
    }
}
