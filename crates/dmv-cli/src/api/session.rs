//! A session with one client: reads its requests, runs several at once, answers each when it is done.
//!
//! Requests that only read use one open repository. One thread reads requests, some run them, and one tells how far they
//! are.

use crate::api::message::{self, Answer, INTERNAL, Outcome, TOO_MANY};
use crate::api::parameters::command_words;
use crate::api::request::{BAD_PARAMETERS, Line, NO_REQUEST, Request, parse, read_line};
use crate::api::work::{MAX_RUNNING, PROGRESS, RunningRequest, Work, long_bytes};
use crate::args::Cli;
use crate::command_line::what_is_wrong;
use crate::context::Context;
use crate::failure::{EXIT_INTERRUPTED, EXIT_OTHER, Failure};
use crate::globals::{Color, Globals};
use crate::joined_texts::is_joined;
use crate::progress::{forget_stoppable, is_interrupted};
use crate::ui::{KeptOutput, Part, Sink};
use clap::{CommandFactory, FromArgMatches};
use dmv_core::job::Job;
use dmv_core::platform::{AsHandle, is_reader_gone};
use dmv_core::repo::SharedRepo;
use dmv_core::threads;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// The version of the interface. It changes only if a client must change.
pub const VERSION: u32 = 1;
/// A message of at most so many bytes is written at once.
const MESSAGE_BYTES: usize = 16 << 10;

/// Runs a command in its surroundings and returns the exit code.
pub type Runner = fn(&Context, &crate::commands::Command) -> Result<u8, Failure>;

/// A session.
pub struct Session<W> {
    globals: Globals,
    run: Runner,
    shared: Arc<SharedRepo>,
    output: Mutex<W>,
    /// Nobody reads the answers any more, or the user wants the end.
    is_deaf: AtomicBool,
    work: Mutex<Work>,
    /// Wakes the thread that tells progress.
    begun: Condvar,
}

impl<W: Write + AsHandle + Send + 'static> Session<W> {
    /// A session of a program that was started with `globals`.
    pub fn new(globals: Globals, run: Runner, output: W) -> Arc<Session<W>> {
        Arc::new(Session {
            globals,
            run,
            shared: Arc::default(),
            output: Mutex::new(output),
            is_deaf: AtomicBool::new(false),
            work: Mutex::default(),
            begun: Condvar::new(),
        })
    }

    /// Answers the requests of `input` until it ends, or nobody reads the answers.
    ///
    /// # Errors
    ///
    /// If `input` cannot be read, or the system starts no thread.
    pub fn serve(self: &Arc<Self>, input: impl BufRead + Send + 'static) -> io::Result<()> {
        let mut workers = Vec::new();
        for _ in 0..MAX_RUNNING {
            let session = self.clone();
            workers.push(threads::start(move || session.answer_requests())?);
        }
        let session = self.clone();
        workers.push(threads::start(move || session.tell_progress())?);
        let session = self.clone();
        let reader = threads::start(move || session.read_requests(input))?;
        for worker in workers {
            // A panic has been reported. The others are done.
            let _ = worker.join();
        }
        if self.is_deaf.load(Ordering::Relaxed) {
            // The reader may wait for a request that never comes.
            return Ok(());
        }
        reader.join().unwrap_or(Ok(()))
    }

    fn read_requests(&self, mut input: impl BufRead) -> io::Result<()> {
        let read = self.take_requests(&mut input);
        let mut work = self.lock();
        work.is_over = true;
        let endless = work.running.iter().filter(|one| one.is_endless);
        endless.for_each(|one| one.job.cancel());
        drop(work);
        self.wake_all();
        read
    }

    fn take_requests(&self, input: &mut impl BufRead) -> io::Result<()> {
        while !self.is_deaf.load(Ordering::Relaxed) {
            let line = match read_line(input)? {
                Line::Text(line) if line.is_empty() => continue,
                Line::Text(line) => line,
                Line::TooLong => {
                    self.refuse(Value::Null, NO_REQUEST, "a request has at most 16 MiB");
                    continue;
                }
                Line::End => break,
            };
            let parsed = parse(&line);
            // The client may not read the answer soon.
            drop(line);
            match parsed {
                Ok(request) if request.method == "cancel" => self.cancel(&request),
                Ok(request) => self.take(request),
                Err(refused) => self.answer(&refused.into()),
            }
        }
        Ok(())
    }

    fn take(&self, request: Request) {
        let mut work = self.lock();
        let id = request.id.as_ref().filter(|id| !id.is_null());
        let is_used = id.is_some()
            && (work.waiting.iter().any(|one| one.id.as_ref() == id)
                || work.running.iter().any(|one| one.id.as_ref() == id));
        let (code, message) = if is_used {
            (NO_REQUEST, "another request with this id has no answer yet")
        } else if !work.has_room(request.bytes) {
            (TOO_MANY, "too many requests wait for an answer")
        } else {
            work.waiting.push_back(request);
            work.wake_one();
            return;
        };
        drop(work);
        if let Some(id) = request.id {
            self.refuse(id, code, message);
        }
    }

    /// Stops a request. It is answered with a failure, unless it was done before.
    fn cancel(&self, request: &Request) {
        let id = request.params.get("id").filter(|id| !id.is_null());
        let mut work = self.lock();
        let waiting = work.waiting.iter().position(|one| one.id.as_ref() == id);
        let (mut is_known, mut removed) = (false, None);
        if id.is_some() {
            removed = waiting.and_then(|at| work.waiting.remove(at));
            let running = work.running.iter().find(|one| one.id.as_ref() == id);
            running.inspect(|one| one.job.cancel());
            is_known = removed.is_some() || running.is_some();
        }
        drop(work);
        if let Some(id) = removed.and_then(|request| request.id) {
            let stopped = Failure::new("interrupted", EXIT_INTERRUPTED, "canceled before it began");
            let outcome = Outcome::Failed(stopped, Default::default());
            self.answer(&Answer { id, outcome });
        }
        if let Some(own) = &request.id {
            let result = json!({ "canceled": is_known });
            let answer = json!({ "jsonrpc": "2.0", "id": own, "result": result });
            self.send(format!("{answer}\n").as_bytes());
        }
    }

    /// The work of one thread.
    fn answer_requests(self: &Arc<Self>) {
        let mut program = None;
        while let Some((request, job)) = self.next() {
            // The description of all commands takes long to make.
            let program = program.get_or_insert_with(Cli::command);
            let id = request.id.clone().unwrap_or_default();
            let long_bytes = long_bytes(&request);
            let outcome = catch_unwind(AssertUnwindSafe(|| self.outcome(program, request, &job)));
            let outcome = outcome.unwrap_or_else(|_| {
                self.shared.forget();
                let message = "a fault in dmv: standard error has the details";
                Outcome::Refused(INTERNAL, message.to_owned())
            });
            // Before the answer, so that the client may use the id again.
            let mut work = self.lock();
            work.running.retain(|one| !Arc::ptr_eq(&one.job, &job));
            if work.running.is_empty() {
                forget_stoppable();
            }
            drop(work);
            if !id.is_null() {
                self.answer(&Answer { id, outcome });
            }
            if long_bytes > 0 {
                let mut work = self.lock();
                work.long_bytes -= long_bytes;
                // Several may begin now.
                work.wake_all();
            }
            if is_interrupted() {
                self.end_deaf();
            }
        }
    }

    fn next(&self) -> Option<(Request, Arc<Job>)> {
        let mut work = self.lock();
        loop {
            if self.is_deaf.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(request) = work.pop() {
                let job = Arc::new(Job::default());
                job.ask_for_totals();
                let is_endless = request.method == "watch";
                if is_endless && work.is_over {
                    // Nobody is left to cancel it.
                    job.cancel();
                }
                work.running.push(RunningRequest {
                    id: request.id.clone(),
                    is_endless,
                    job: job.clone(),
                    since: Instant::now(),
                    told: [0; 6],
                });
                work.begun += 1;
                let is_asleep = std::mem::take(&mut work.is_progress_asleep);
                drop(work);
                if is_asleep {
                    self.begun.notify_one();
                }
                return Some((request, job));
            }
            if work.is_over && work.waiting.is_empty() {
                drop(work);
                // The thread that tells progress may end, too.
                self.begun.notify_one();
                return None;
            }
            work = self.rest(work);
        }
    }

    /// Sleeps until a request comes, or something else wakes this thread.
    fn rest<'s>(&'s self, mut work: MutexGuard<'s, Work>) -> MutexGuard<'s, Work> {
        let own = thread::current();
        work.resting.push(own.clone());
        drop(work);
        thread::park();
        let mut work = self.lock();
        work.resting.retain(|one| one.id() != own.id());
        work
    }

    /// Carries out a request.
    fn outcome(
        self: &Arc<Self>,
        program: &mut clap::Command,
        request: Request,
        job: &Arc<Job>,
    ) -> Outcome {
        let id = request.id.unwrap_or_default();
        let words = match command_words(program, &request.method, request.params) {
            Ok(words) => words,
            Err(wrong) => return Outcome::Refused(wrong.code, wrong.message),
        };
        // For the log of operations. Only commands that read take joined values, and these may be long.
        let typed = words.iter().filter(|word| !is_joined(word)).cloned();
        let typed = typed.collect();
        let line = std::iter::once("dmv".into()).chain(words);
        let parsed = program.try_get_matches_from_mut(line);
        let parsed = parsed.and_then(|mut found| Cli::from_arg_matches_mut(&mut found));
        let cli = match parsed {
            Ok(cli) => cli,
            Err(e) => return Outcome::Refused(BAD_PARAMETERS, what_is_wrong(&e)),
        };
        let globals = Globals {
            directory: self.globals.directory.clone(),
            started_in: self.globals.started_in.clone(),
            json: true,
            color: Some(Color::Never),
            no_pager: true,
            offline: cli.globals.offline || self.globals.offline,
            no_hooks: cli.globals.no_hooks || self.globals.no_hooks,
            ..cli.globals
        };
        let sink = (!id.is_null()).then(|| self.sink(id));
        let kept = KeptOutput::new(sink, request.raw);
        let mut context = Context::of_a_request(globals, typed, self.shared.clone(), kept);
        context.job = job.clone();
        let done = (self.run)(&context, &cli.command);
        if !context.only_reads() {
            // It may have changed settings, which the stamp of a repository does not cover.
            self.shared.forget();
        }
        let kept = context.ui.take_kept();
        match done {
            _ if kept.is_full => {
                let message =
                    "an answer has at most 64 MiB: ask for less, such as a range of bytes";
                Outcome::Failed(Failure::new("too-large", EXIT_OTHER, message), kept)
            }
            Ok(exit) => Outcome::Done(exit, kept),
            Err(failure) => Outcome::Failed(failure, kept),
        }
    }

    /// Tells from time to time how far the running requests are. It sleeps only if none has begun for a while, so that
    /// many short requests do not wake it each time.
    fn tell_progress(&self) {
        let mut work = self.lock();
        let mut seen = work.begun;
        while !(self.is_deaf.load(Ordering::Relaxed)
            || work.is_over && work.waiting.is_empty() && work.running.is_empty())
        {
            if work.running.is_empty() && work.begun == seen {
                work.is_progress_asleep = true;
                let waited = self.begun.wait(work);
                work = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            seen = work.begun;
            let waited = self.begun.wait_timeout(work, PROGRESS);
            work = waited.unwrap_or_else(PoisonError::into_inner).0;
            let news: Vec<Vec<u8>> = work
                .running
                .iter_mut()
                .filter_map(RunningRequest::news)
                .collect();
            drop(work);
            news.iter().for_each(|news| self.send(news));
            self.look_for_reader();
            work = self.lock();
        }
    }

    fn refuse(&self, id: Value, code: i32, message: &str) {
        let outcome = Outcome::Refused(code, message.to_owned());
        self.answer(&Answer { id, outcome });
    }

    /// Sends what a request writes as it comes.
    fn sink(self: &Arc<Self>, id: Value) -> Sink {
        let session = self.clone();
        Box::new(move |part| {
            match part {
                Part::Data(bytes) => session.write(|out| {
                    out.write_all(&message::piece(&id, bytes.len()))?;
                    out.write_all(bytes)
                }),
                Part::Event(line) => session.send(&message::event(&id, line)),
            }
            if session.is_deaf.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        })
    }

    fn send(&self, message: &[u8]) {
        self.write(|out| out.write_all(message));
    }

    fn answer(&self, answer: &Answer) {
        self.write(|out| answer.write(out));
    }

    /// Writes a message, with no other message in between.
    fn write(&self, message: impl FnOnce(&mut BufWriter<&mut W>) -> io::Result<()>) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        // Dropped as it is, it would try to write once more what could not be written.
        let mut out = BufWriter::with_capacity(MESSAGE_BYTES, &mut *output);
        let sent = message(&mut out).and_then(|()| out.flush());
        let _ = out.into_parts();
        drop(output);
        if sent.is_err() {
            self.end_deaf();
        }
    }

    /// Stops everything: nobody reads the answers, or the user wants the end.
    fn end_deaf(&self) {
        if !self.is_deaf.swap(true, Ordering::Relaxed) {
            let mut work = self.lock();
            work.waiting.clear();
            work.running.iter().for_each(|one| one.job.cancel());
            drop(work);
            self.wake_all();
        }
    }

    /// Notices a reader that is gone.
    fn look_for_reader(&self) {
        // Whoever writes just now notices it, too.
        let gone = match self.output.try_lock() {
            Ok(output) => is_reader_gone(&*output),
            Err(_) => false,
        };
        if gone {
            self.end_deaf();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        self.lock().wake_all();
        self.begun.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request::MAX_TEXT_BYTES;
    use crate::api::work::{MAX_WAITING, MAX_WAITING_BYTES};
    use crate::commands::Command;
    use crate::format::json::object;
    use crate::ui::PIECE_BYTES;
    use std::io::{BufReader, PipeReader, PipeWriter, Read, pipe};
    use std::thread::JoinHandle;

    /// `gc` and `watch` run until it is canceled, `verify` has a fault, `cat` writes data, and the others write a document.
    fn run(context: &Context, command: &Command) -> Result<u8, Failure> {
        match command {
            Command::Gc(_) | Command::Watch(_) => {
                context.job.progress.files.store(7, Ordering::Relaxed);
                while !context.job.is_cancelled() {
                    std::thread::yield_now();
                }
                Err(Failure::new("interrupted", EXIT_INTERRUPTED, "interrupted"))
            }
            Command::Verify(_) => panic!("a fault that a test wants"),
            Command::Cat(_) => {
                context.ui.out().write_all(&content())?;
                Err(Failure::new("damaged", 7, "the rest is damaged"))
            }
            _ => {
                context.ui.json(&object! { command: context.command })?;
                Ok(0)
            }
        }
    }

    /// What `cat` writes before it fails: some pieces and a rest.
    fn content() -> Vec<u8> {
        dmv_random::Rng::new(1).bytes(2 * PIECE_BYTES + 7)
    }

    /// A client of a session.
    struct Client {
        requests: Option<PipeWriter>,
        answers: BufReader<PipeReader>,
        /// The bytes that came behind messages.
        raw: Vec<u8>,
        session: JoinHandle<io::Result<()>>,
    }

    impl Client {
        fn new() -> io::Result<Client> {
            let (input, requests) = pipe()?;
            let (answers, output) = pipe()?;
            let session = Session::new(Globals::default(), run, output);
            let session = threads::start(move || session.serve(BufReader::new(input)))?;
            Ok(Client {
                requests: Some(requests),
                answers: BufReader::new(answers),
                raw: Vec::new(),
                session,
            })
        }

        fn ask(&mut self, text: &str) -> io::Result<()> {
            let requests = self.requests.as_mut().expect("the client has not ended");
            writeln!(requests, "{{\"jsonrpc\":\"2.0\",{text}}}")
        }

        /// Reads no further answer, and waits for the end of the session. Its input stays open.
        fn go(self, last: impl FnOnce(&mut PipeWriter) -> io::Result<()>) -> io::Result<()> {
            drop(self.answers);
            let mut requests = self.requests.expect("the client has not ended");
            last(&mut requests)?;
            self.session.join().expect("the session has no fault")
        }

        /// The next message that is no progress; null at the end.
        fn answer(&mut self) -> io::Result<Value> {
            loop {
                let mut line = String::new();
                if self.answers.read_line(&mut line)? == 0 {
                    return Ok(Value::Null);
                }
                let answer: Value = serde_json::from_str(&line)?;
                let raw = answer["raw"].as_u64().unwrap_or_default();
                let read = self.answers.by_ref().take(raw).read_to_end(&mut self.raw)?;
                assert_eq!(read as u64, raw, "{answer}");
                if answer["method"].is_null() {
                    return Ok(answer);
                }
            }
        }

        fn end(mut self) -> io::Result<()> {
            self.requests = None;
            assert_eq!(self.answer()?, Value::Null);
            self.session.join().expect("the session has no fault")
        }
    }

    #[test]
    fn each_request_is_answered_also_at_the_end() -> io::Result<()> {
        let mut client = Client::new()?;
        client.ask(r#""id":"a","method":"log""#)?;
        let answer = client.answer()?;
        assert_eq!(answer["id"], "a");
        assert_eq!(answer["result"]["output"], json!([{ "command": "log" }]));
        client.ask(r#""method":"log""#)?;
        client.ask(r#""id":2,"method":"log","params":{"max":"x"}"#)?;
        client.requests = None;
        let answer = client.answer()?;
        assert_eq!(answer["error"]["code"], BAD_PARAMETERS);
        client.end()
    }

    #[test]
    fn a_request_that_runs_is_canceled_and_one_that_waits_never_begins() -> io::Result<()> {
        let mut client = Client::new()?;
        for id in 0..=MAX_RUNNING {
            client.ask(&format!(r#""id":{id},"method":"gc""#))?;
        }
        let mut ended = Vec::new();
        for id in (0..=MAX_RUNNING).rev() {
            client.ask(&format!(r#""method":"cancel","params":{{"id":{id}}}"#))?;
            let answer = client.answer()?;
            assert_eq!(
                answer["error"]["data"]["exit"], EXIT_INTERRUPTED,
                "{answer}"
            );
            ended.push(answer["id"].as_u64());
        }
        let expected: Vec<_> = (0..=MAX_RUNNING as u64).rev().map(Some).collect();
        assert_eq!(ended, expected);
        client.ask(r#""id":"c","method":"cancel","params":{"id":0}"#)?;
        assert_eq!(client.answer()?["result"]["canceled"], false);
        client.end()
    }

    #[test]
    fn a_fault_in_a_command_is_answered_and_the_session_goes_on() -> io::Result<()> {
        let mut client = Client::new()?;
        for id in 0..3 * MAX_RUNNING {
            client.ask(&format!(r#""id":{id},"method":"verify""#))?;
            assert_eq!(client.answer()?["error"]["code"], INTERNAL);
        }
        client.ask(r#""id":"a","method":"log""#)?;
        assert_eq!(client.answer()?["result"]["exit"], 0);
        client.end()
    }

    #[test]
    fn too_many_requests_and_an_id_in_use_are_refused() -> io::Result<()> {
        let mut client = Client::new()?;
        let all = MAX_RUNNING + MAX_WAITING;
        for id in 0..MAX_RUNNING {
            client.ask(&format!(r#""id":{id},"method":"gc""#))?;
        }
        client.ask(r#""id":0,"method":"log""#)?;
        let answer = client.answer()?;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(0), &json!(NO_REQUEST))
        );
        // How many wait depends on how many threads have taken one, so twice as many are sent.
        for id in MAX_RUNNING..2 * all {
            client.ask(&format!(r#""id":{id},"method":"log""#))?;
        }
        let answer = client.answer()?;
        assert_eq!(answer["error"]["code"], TOO_MANY, "{answer}");
        for id in 0..MAX_RUNNING {
            client.ask(&format!(r#""method":"cancel","params":{{"id":{id}}}"#))?;
        }
        client.requests = None;
        let mut answered = 2;
        while client.answer()? != Value::Null {
            answered += 1;
        }
        assert_eq!(answered, 2 * all + 1);
        client.end()
    }

    #[test]
    fn long_requests_that_wait_have_a_limit_together() -> io::Result<()> {
        let mut client = Client::new()?;
        for id in 0..MAX_RUNNING {
            client.ask(&format!(r#""id":{id},"method":"gc""#))?;
        }
        // All threads have one when this is canceled.
        client.ask(&format!(
            r#""method":"cancel","params":{{"id":{}}}"#,
            MAX_RUNNING - 1
        ))?;
        assert_eq!(client.answer()?["id"], MAX_RUNNING - 1);
        client.ask(r#""id":"gc","method":"gc""#)?;
        let text = format!(r#""{}""#, "x".repeat(MAX_TEXT_BYTES));
        let long = vec![text; MAX_WAITING_BYTES / 3 / MAX_TEXT_BYTES + 1].join(",");
        for id in ["a", "b", "c", "d"] {
            client.ask(&format!(
                r#""id":"{id}","method":"log","params":{{"paths":[{long}]}}"#
            ))?;
        }
        let answer = client.answer()?;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!("c"), &json!(TOO_MANY))
        );
        assert_eq!(client.answer()?["id"], "d");
        for id in 0..MAX_RUNNING - 1 {
            client.ask(&format!(r#""method":"cancel","params":{{"id":{id}}}"#))?;
        }
        client.ask(r#""method":"cancel","params":{"id":"gc"}"#)?;
        client.requests = None;
        let mut done = Vec::new();
        loop {
            let answer = client.answer()?;
            if answer.is_null() {
                break;
            }
            if answer["error"].is_null() {
                done.push(answer["id"].to_string());
            }
        }
        done.sort();
        assert_eq!(done, [r#""a""#, r#""b""#]);
        client.end()
    }

    #[test]
    fn data_comes_as_bytes_if_the_client_takes_them() -> io::Result<()> {
        let mut client = Client::new()?;
        client.ask(r#""id":1,"method":"cat","params":{"place":"a","raw":true}"#)?;
        let answer = client.answer()?;
        assert_eq!(
            (&answer["error"]["data"]["exit"], &answer["raw"]),
            (&json!(7), &json!(7))
        );
        assert!(client.raw == content());
        client.ask(r#""id":2,"method":"cat","params":{"place":"a"}"#)?;
        let answer = client.answer()?;
        let data = answer["error"]["data"]["data"].as_str().map(str::len);
        assert_eq!(
            data,
            Some(data_encoding::BASE64.encode_len(content().len()))
        );
        client.ask(r#""id":3,"method":"log","params":{"raw":1}"#)?;
        assert_eq!(client.answer()?["error"]["code"], BAD_PARAMETERS);
        client.ask(r#""id":4,"method":"log","params":{"raw":true}"#)?;
        assert_eq!(client.answer()?["raw"], Value::Null);
        client.end()
    }

    #[test]
    fn the_end_of_the_input_ends_a_watch() -> io::Result<()> {
        let mut client = Client::new()?;
        // Some run, and some wait.
        for id in 0..2 * MAX_RUNNING {
            client.ask(&format!(r#""id":{id},"method":"watch""#))?;
        }
        client.requests = None;
        for _ in 0..2 * MAX_RUNNING {
            let answer = client.answer()?;
            assert_eq!(answer["error"]["data"]["exit"], EXIT_INTERRUPTED);
        }
        client.end()
    }

    #[test]
    fn a_client_that_is_gone_is_noticed_without_an_answer() -> io::Result<()> {
        let mut client = Client::new()?;
        // Without an id it has neither an answer nor progress.
        client.ask(r#""method":"gc""#)?;
        client.go(|_| Ok(()))
    }

    #[test]
    fn a_client_that_is_gone_ends_everything() -> io::Result<()> {
        let mut client = Client::new()?;
        client.ask(r#""id":1,"method":"gc""#)?;
        // The answer to this finds nobody.
        client.go(|requests| writeln!(requests, r#"{{"jsonrpc":"2.0","id":2,"method":"log"}}"#))
    }
}
