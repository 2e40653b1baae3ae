//! Output: data to standard output, everything else to standard error.

use crate::failure::{Failure, FailureForm};
use crate::format::fold::some_lines;
use crate::format::json::{Json, paths};
use crate::format::text::clean;
use crate::globals::Color;
use crate::pager::PagedOutput;
use anstyle::{AnsiColor, Style};
use dmv_core::escape::{Hint, escape, is_hidden};
use dmv_core::platform::same_file;
use dmv_core::worktree::snapshot::Problem;
use serde::Serialize;
use std::cell::RefCell;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::io::{BufWriter, IsTerminal, Write};
use std::sync::OnceLock;

const BUFFER_BYTES: usize = 64 << 10;

/// Where a command writes to.
pub struct Ui {
    out: RefCell<BufWriter<Out>>,
    /// Takes everything instead, where a caller wants it.
    kept: Option<RefCell<KeptOutput>>,
    tone: Tone,
    color: bool,
}

/// How much is said, and for whom.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tone {
    /// Only results, warnings and errors.
    pub quiet: bool,
    /// More than usual.
    pub verbose: bool,
    /// For a program: whatever is said is an object on a line of its own.
    pub json: bool,
}

/// Standard output without a line buffer; opened when the first byte is written.
#[derive(Default)]
struct Out {
    file: Option<File>,
    paged: Option<PagedOutput>,
}

impl Out {
    /// Waits for the pager. Returns what is wrong with it, if it could not be run.
    fn end_paging(&mut self) -> Option<String> {
        // Without a file, nothing was written.
        let (file, paged) = (self.file.as_mut()?, self.paged.as_mut()?);
        paged.finish(file)
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = same_file(io::stdout())?;
                self.file.insert(file)
            }
        };
        match &mut self.paged {
            Some(paged) => paged.write(bytes, file),
            None => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output, buffered. Messages may be printed in between.
#[derive(Clone, Copy)]
pub struct Output<'u>(&'u Ui);

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(kept) = &self.0.kept {
            return kept.borrow_mut().add_data(bytes);
        }
        self.0.out.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.out.borrow_mut().flush()
    }
}

/// What a command has written, in memory.
#[derive(Default)]
pub struct KeptOutput {
    /// The documents, as lines of JSON.
    pub documents: Vec<u8>,
    /// What was written besides them, such as the content of a file.
    pub data: Vec<u8>,
    /// Notes, warnings and sums, as lines of JSON.
    pub remarks: Vec<u8>,
    /// There was more than is kept. The documents and the data are gone then.
    pub is_full: bool,
    /// Takes what a caller wants to have at once.
    pub sink: Option<Sink>,
    /// The sink takes data, in pieces. `data` then has only the rest.
    pub is_raw: bool,
}

/// What goes to a caller before a command is done.
pub enum Part<'p> {
    /// A piece of the data.
    Data(&'p [u8]),
    /// What has happened, as a line of JSON.
    Event(&'p [u8]),
}

/// Takes parts of what a command writes.
pub type Sink = Box<dyn Fn(Part<'_>) -> io::Result<()> + Send>;

/// A piece has at most so many bytes.
pub const PIECE_BYTES: usize = 1 << 20;

/// So many bytes are a piece of their own, and are not copied.
const LONG_BYTES: usize = 256 << 10;

/// Notes and warnings that are kept have together at most so many bytes.
const MAX_REMARK_BYTES: usize = 1 << 20;

/// Output that is kept has at most so many bytes.
pub const MAX_KEPT_BYTES: usize = 64 << 20;

impl KeptOutput {
    /// Returns one that keeps everything in memory, except for events, and with `is_raw` for data: `sink` takes these.
    pub fn new(sink: Option<Sink>, is_raw: bool) -> KeptOutput {
        KeptOutput {
            is_raw: is_raw && sink.is_some(),
            sink,
            ..KeptOutput::default()
        }
    }

    fn add_data(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(sink) = self.sink.as_ref().filter(|_| self.is_raw) else {
            self.make_room(bytes.len())?;
            self.data.extend_from_slice(bytes);
            return Ok(bytes.len());
        };
        let is_long = bytes.len() >= LONG_BYTES;
        if !self.data.is_empty() && (is_long || self.data.len() + bytes.len() > PIECE_BYTES) {
            sink(Part::Data(&self.data))?;
            self.data.clear();
        }
        if is_long {
            let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
            sink(Part::Data(piece))?;
            return Ok(piece.len());
        }
        self.data.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn add_document(&mut self, value: &Json) -> io::Result<()> {
        self.make_room(0)?;
        write_json(&mut self.documents, value)?;
        self.documents.push(b'\n');
        self.make_room(0)
    }

    fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        self.is_full |= self.documents.len() + self.data.len() + bytes > MAX_KEPT_BYTES;
        if self.is_full {
            (self.documents, self.data) = Default::default();
            return Err(io::Error::other("an answer would be too large"));
        }
        Ok(())
    }
}

/// The style of text in a colour.
pub fn color(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(color.into()))
}

/// Whether what goes to `stream` is coloured.
fn shows_colors(color: Color, stream: &impl anstream::stream::RawStream) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never,
    }
}

/// What the user wants of colours, for lines on standard error: failures are reported when there is no
/// [`Ui`] any more, or none yet.
static WANTED: OnceLock<Color> = OnceLock::new();

/// The words that lines on standard error begin with, and how they are shown.
const LABELS: [(&str, AnsiColor); 4] = [
    ("error:", AnsiColor::Red),
    ("warning:", AnsiColor::Yellow),
    ("hint:", AnsiColor::Cyan),
    ("note:", AnsiColor::Blue),
];

/// A line with its label in colour.
fn labelled(line: &str) -> String {
    let found = LABELS.iter().find_map(|(label, color)| {
        let rest = line.strip_prefix(label)?;
        let style = Style::new().bold().fg_color(Some((*color).into()));
        Some(format!("{style}{label}{style:#}{rest}"))
    });
    found.unwrap_or_else(|| line.to_owned())
}

/// Decides on the colours of failures that are reported before there is a [`Ui`].
pub fn want_color(color: Color) {
    // The first to decide has seen the option.
    let _ = WANTED.set(color);
}

impl Ui {
    /// `color` decides unless it leaves that to the terminal and the environment.
    pub fn new(tone: Tone, color: Color) -> Ui {
        want_color(color);
        Ui {
            out: RefCell::new(BufWriter::with_capacity(BUFFER_BYTES, Out::default())),
            kept: None,
            tone,
            color: shows_colors(color, &io::stdout()),
        }
    }

    /// Returns one for a program that takes what is written from `kept`.
    pub fn keeping(kept: KeptOutput, tone: Tone) -> Ui {
        Ui {
            out: RefCell::new(BufWriter::with_capacity(0, Out::default())),
            kept: Some(RefCell::new(kept)),
            tone,
            color: false,
        }
    }

    /// Takes out what was kept.
    pub fn take_kept(&self) -> KeptOutput {
        self.kept.as_ref().map(RefCell::take).unwrap_or_default()
    }

    /// Standard output, buffered.
    pub fn out(&self) -> Output<'_> {
        Output(self)
    }

    /// Prints what a command has done: with `--json` as one document, else as text, and nothing with `--quiet`.
    pub fn report(
        &self,
        document: impl FnOnce() -> Json,
        text: impl FnOnce(&mut Output<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.tone.json {
            self.json(&document())
        } else {
            self.text(text)
        }
    }

    /// Prints what the user has asked for: with `--json` as one document, else as text, also with `--quiet`.
    pub fn show(
        &self,
        document: impl FnOnce() -> Json,
        text: impl FnOnce(&mut Output<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.tone.json {
            self.json(&document())
        } else {
            text(&mut self.out())
        }
    }

    /// Prints text about what a command has done; nothing with `--json` or `--quiet`.
    pub fn text(
        &self,
        text: impl FnOnce(&mut Output<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.tone.json || self.tone.quiet {
            Ok(())
        } else {
            text(&mut self.out())
        }
    }

    /// Lets a pager show the output if it is long.
    pub fn page(&self, paged: PagedOutput) {
        self.out.borrow_mut().get_mut().paged = Some(paged);
    }

    /// Writes what is buffered, and waits for the pager.
    pub fn finish(&self) -> Result<(), Failure> {
        let flushed = self.out.borrow_mut().flush();
        let mut out = self.out.borrow_mut();
        let wrong = out.get_mut().end_paging();
        drop(out);
        if let Some(wrong) = wrong {
            self.warn(wrong);
        }
        Ok(flushed?)
    }

    /// Prints one JSON value on a line of its own.
    pub fn json(&self, value: &Json) -> Result<(), Failure> {
        if let Some(kept) = &self.kept {
            return Ok(kept.borrow_mut().add_document(value)?);
        }
        let mut out = self.out.borrow_mut();
        write_json(&mut *out, value)?;
        Ok(out.write_all(b"\n")?)
    }

    /// Tells at once what has happened: with `--json` as one document, else as text.
    pub fn event(&self, document: &Json, text: impl Display) -> Result<(), Failure> {
        if let Some(kept) = &self.kept {
            let mut line = Vec::new();
            write_json(&mut line, document)?;
            let kept = kept.borrow();
            let sink = kept.sink.as_ref();
            let sink = sink.ok_or_else(|| Failure::usage("events need a request with an id"))?;
            return Ok(sink(Part::Event(&line))?);
        }
        if self.tone.json {
            self.json(document)?;
        } else {
            writeln!(self.out(), "{text}")?;
        }
        self.finish()
    }

    /// Prints a sum as one line of JSON on standard error, beside a list of records on standard output.
    pub fn json_sum(&self, value: &Json) -> Result<(), Failure> {
        let mut line = Vec::new();
        write_json(&mut line, value)?;
        self.remark(&String::from_utf8_lossy(&line));
        Ok(())
    }

    /// One line beside the output.
    fn remark(&self, line: &str) {
        match &self.kept {
            Some(kept) => {
                let remarks = &mut kept.borrow_mut().remarks;
                // Nobody reads more.
                if remarks.len() + line.len() < MAX_REMARK_BYTES {
                    remarks.extend_from_slice(line.as_bytes());
                    remarks.push(b'\n');
                }
            }
            None => stderr_line(line),
        }
    }

    /// `text` in `style`, where the output shows styles.
    pub fn paint(&self, style: Style, text: impl Display) -> String {
        if self.color {
            format!("{style}{text}{style:#}")
        } else {
            text.to_string()
        }
    }

    /// The name of a branch.
    pub fn branch(&self, name: &str) -> String {
        self.paint(color(AnsiColor::Green), clean(name))
    }

    /// The name of a tag.
    pub fn tag(&self, name: &str) -> String {
        let yellow = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
        self.paint(yellow, clean(name))
    }

    /// Whether output is coloured.
    pub fn colored(&self) -> bool {
        self.color
    }

    /// Whether the output goes to a terminal.
    pub fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Whether more is to be said than usual.
    pub fn verbose(&self) -> bool {
        self.tone.verbose
    }

    /// Whether only results and failures are to be said.
    pub fn quiet(&self) -> bool {
        self.tone.quiet
    }

    /// Whether programs read the output.
    pub fn is_json(&self) -> bool {
        self.tone.json
    }

    /// Says something on the side; not with `-q`.
    pub fn note(&self, text: impl Display) {
        if !self.tone.quiet {
            self.say(Remark::Note, &text.to_string());
        }
    }

    /// Says something that the user should know. Even with `-q`: it is about their data.
    pub fn warn(&self, text: impl Display) {
        self.say(Remark::Warning, &text.to_string());
    }

    /// Warns of each path with a problem. `what` stands before the path.
    pub fn warn_of(&self, what: &str, problems: &[Problem]) {
        for Problem { path, why } in problems {
            self.warn(format_args!("{what}{}: {why}", escape(path)));
        }
    }

    fn say(&self, remark: Remark, text: &str) {
        let line = &remark.line(text, self.tone.json);
        let mut out = self.out.borrow_mut();
        let has_begun = !out.buffer().is_empty();
        if let Some(paged) = &out.get_ref().paged
            && (has_begun || paged.is_shown())
            && !paged.is_over()
            && is_watched()
        {
            // Both go to the same terminal, and a pager has it or may get it.
            let line = if self.color {
                labelled(line)
            } else {
                line.to_owned()
            };
            let _ = writeln!(out, "{line}");
            return;
        }
        // Keeps the order on a terminal. A failure shows again when the rest is written.
        let _ = out.flush();
        self.remark(line);
    }
}

/// What is said besides results and failures.
#[derive(Clone, Copy)]
enum Remark {
    Note,
    Warning,
}

impl Remark {
    /// As a line of text, or as an object like that of an error.
    fn line(self, text: &str, json: bool) -> String {
        let text = clean(text);
        match (self, json) {
            (Remark::Note, false) => text,
            (Remark::Warning, false) => format!("warning: {text}"),
            (_, true) => {
                let word = match self {
                    Remark::Note => "note",
                    Remark::Warning => "warning",
                };
                let text = text.strip_prefix("note: ").unwrap_or(&text);
                serde_json::json!({ "type": word, "message": text }).to_string()
            }
        }
    }
}

fn write_json(out: impl Write, value: &Json) -> io::Result<()> {
    let mut writer = serde_json::Serializer::with_formatter(out, Harmless);
    Ok(value.serialize(&mut writer)?)
}

/// JSON with control and invisible characters escaped: the values are the same, and no terminal
/// obeys them.
struct Harmless;

impl serde_json::ser::Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(|b| matches!(b, b' '..=b'~')) {
            return writer.write_all(fragment.as_bytes());
        }
        let is_bad = |c: char| c.is_control() || is_hidden(c);
        let mut rest = fragment;
        while let Some(at) = rest.find(is_bad) {
            let (good, bad) = rest.split_at(at);
            writer.write_all(good.as_bytes())?;
            let c = bad.chars().next().expect("one was found");
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &bad[c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Whether standard error is a terminal that a user watches.
pub fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Reports a failure on standard error and returns its exit code.
pub fn report(failure: &Failure, form: FailureForm) -> u8 {
    if failure.is_broken_pipe() {
        return failure.exit;
    }
    let message = clean(&failure.message);
    if form == FailureForm::Json {
        stderr_line(&record(failure).to_string());
        return failure.exit;
    }
    stderr_line(&format!("error: {message}"));
    for line in &failure.details {
        stderr_line(&format!("  {}", clean(line)));
    }
    if failure.paths.len() > 1 {
        let paths = failure.paths.iter().map(|path| escape(path).to_string());
        let lines = some_lines(paths, form == FailureForm::LongText);
        lines.iter().for_each(|line| stderr_line(line));
    }
    if let Some(hint) = &failure.hint {
        stderr_line(&format!("hint: {hint}"));
    }
    failure.exit
}

/// A failure as programs read it.
pub fn record(failure: &Failure) -> serde_json::Value {
    let mut record = serde_json::json!({
        "type": "error",
        "code": failure.code,
        "exit": failure.exit,
        "message": clean(&failure.message),
        "hint": failure.hint.as_ref().map(Hint::as_str),
    });
    if !failure.details.is_empty() {
        let details: Vec<String> = failure.details.iter().map(|line| clean(line)).collect();
        record["details"] = serde_json::json!(details);
    }
    if !failure.paths.is_empty() {
        record["paths"] = serde_json::json!(paths(failure.paths.iter()));
    }
    record
}

/// Whether a user is at the terminal, to be asked.
pub fn can_ask() -> bool {
    is_watched() && io::stdin().is_terminal()
}

/// Asks a question at the terminal; anything but yes is no.
pub fn ask(question: &str) -> bool {
    let mut err = io::stderr().lock();
    // Whoever cannot read the question will not answer it.
    let _ = write!(err, "{} [y/N] ", clean(question)).and_then(|()| err.flush());
    drop(err);
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Says something on the side, before there is a [`Ui`].
pub fn say(line: &str) {
    stderr_line(line);
}

fn stderr_line(line: &str) {
    let color = WANTED.get().copied().unwrap_or_default();
    let line = if shows_colors(color, &io::stderr()) {
        labelled(line)
    } else {
        line.to_owned()
    };
    // There is nowhere left to say that this failed.
    let _ = writeln!(io::stderr().lock(), "{line}");
}
