//! `dmv api` as another program talks to it: the exchanges of docs/api-exchanges.txt.

use crate::place::{Outcome, Place};
use dmv_random::Rng;
use serde_json::Value;
use snapbox::assert_data_eq;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

const EXCHANGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api-exchanges.txt");

#[test]
fn the_exchanges_of_the_page_are_those_of_the_program() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "r"])?;
    place.write("r/a.txt", "hello\n")?;
    let mut api = place
        .command(&["-C", "r", "api"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut requests = api.stdin.take().ok_or("no input")?;
    let mut answers = BufReader::new(api.stdout.take().ok_or("no output")?);
    let expected = fs::read_to_string(EXCHANGES)?;
    let mut seen = String::new();
    for line in expected.lines() {
        if let Some(request) = line.strip_prefix("> ") {
            writeln!(requests, "{request}")?;
            seen += line;
        } else if line.starts_with("< ") {
            let mut answer = String::new();
            answers.read_line(&mut answer)?;
            seen += &format!("< {}", answer.trim_end());
        } else {
            seen += line;
        }
        seen.push('\n');
    }
    assert_data_eq!(seen, expected);
    drop(requests);
    assert!(api.wait()?.success());
    Ok(())
}

/// A session in a new repository, and what reads its answers.
fn session(place: &Place) -> Outcome<(Child, ChildStdin, BufReader<ChildStdout>)> {
    let mut api = place
        .command(&["api"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let requests = api.stdin.take().ok_or("no input")?;
    let mut answers = BufReader::new(api.stdout.take().ok_or("no output")?);
    assert_eq!(answer(&mut answers)?["method"], "hello");
    Ok((api, requests, answers))
}

/// The next answer, without the news before it.
fn answer(answers: &mut impl BufRead) -> Outcome<Value> {
    let mut line = String::new();
    if answers.read_line(&mut line)? == 0 {
        return Ok(Value::Null);
    }
    Ok(serde_json::from_str(&line)?)
}

#[test]
fn what_is_no_request_is_refused_and_the_session_goes_on() -> Outcome {
    let place = Place::with_repository()?;
    let (mut api, mut requests, mut answers) = session(&place)?;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let wrong_types = [
        (r#""method":"log","params":{"max_count":{}}"#, -32_602),
        (r#""method":"log","params":{"max_count":"many"}"#, -32_602),
        (r#""method":"log","params":{"paths":[[]]}"#, -32_602),
        (r#""method":"log","params":{"oneline":"yes"}"#, -32_602),
        (
            r#""method":"status","params":{"paths":{"b64":"*"}}"#,
            -32_602,
        ),
        (r#""method":"status","params":{"paths":"a\u0000"}"#, -32_602),
        (r#""method":"status","params":[]"#, -32_602),
        (r#""method":"log --all""#, -32_601),
        (r#""method":"none""#, -32_601),
        (r#""method":"help""#, -32_601),
        (r#""method":"bisect.run""#, -32_601),
        (r#""method":7"#, -32_600),
    ];
    let lines =
        wrong_types.map(|(rest, code)| (format!(r#"{{"jsonrpc":"2.0","id":1,{rest}}}"#), code));
    let more = [
        ("{", -32_700),
        ("\u{feff}{}", -32_700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"log"}{}"#, -32_700),
        (r#"{"jsonrpc":"2.0","id":1e999,"method":"log"}"#, -32_700),
        (&deep, -32_700),
        ("7", -32_600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"log"}"#, -32_600),
    ];
    let more = more.map(|(line, code)| (line.to_owned(), code));
    for (line, code) in lines.into_iter().chain(more) {
        writeln!(requests, "{line}")?;
        let shown: String = line.chars().take(80).collect();
        assert_eq!(answer(&mut answers)?["error"]["code"], code, "{shown}");
    }
    requests.write_all(b"\xff\xfe\n")?;
    assert_eq!(answer(&mut answers)?["error"]["code"], -32_700);
    // A line of 100 MB is passed over, whatever is in it.
    let piece = vec![b' '; 1_000_000];
    for _ in 0..100 {
        requests.write_all(&piece)?;
    }
    writeln!(requests)?;
    assert_eq!(answer(&mut answers)?["error"]["code"], -32_600);
    writeln!(requests, r#"{{"jsonrpc":"2.0","id":2,"method":"status"}}"#)?;
    assert_eq!(answer(&mut answers)?["result"]["exit"], 0);
    drop(requests);
    assert!(api.wait()?.success());
    Ok(())
}

#[test]
fn a_session_sees_what_other_processes_change() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a", "1")?;
    place.commit("first")?;
    let (mut api, mut requests, mut answers) = session(&place)?;
    let mut ask = |method: &str, params: &str| -> Outcome<Value> {
        writeln!(
            requests,
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#
        )?;
        Ok(answer(&mut answers)?["result"]["output"][0].take())
    };
    let paths = r#"{"paths":["a"]}"#;
    for _ in 0..2 {
        let state = ask("states", paths)?;
        assert_eq!(state["newer"].as_array().map(Vec::len), Some(0), "{state}");
        assert!(state["claimed"].is_null(), "{state}");
    }
    // By another process, and by a request of the same session that changes something.
    place.write("../new", "2")?;
    place.ok(&["branch", "side"])?;
    place.ok(&["commit", "--onto", "side", "-m", "s", "--put", "a=../new"])?;
    assert_eq!(ask("states", paths)?["newer"][0]["branch"], "side");
    place.ok(&["claim", "--anyway", "a"])?;
    assert_eq!(ask("states", paths)?["claimed"]["mine"], true);
    assert_eq!(ask("release", paths)?["state"], "released");
    assert!(ask("states", paths)?["claimed"].is_null());
    assert_eq!(ask("branch", r#"{"delete":"side"}"#)?["name"], "side");
    let state = ask("states", paths)?;
    assert_eq!(state["newer"].as_array().map(Vec::len), Some(0), "{state}");
    drop(requests);
    assert!(api.wait()?.success());
    Ok(())
}

#[test]
fn long_content_comes_in_pieces_of_at_most_a_mebibyte() -> Outcome {
    let place = Place::with_repository()?;
    let content = Rng::new(7).bytes((5 << 20) + 3);
    place.write("large", &content)?;
    place.commit("large")?;
    let (mut api, mut requests, mut answers) = session(&place)?;
    for range in [
        0..content.len(),
        1_000_000..4_194_305,
        77..1_000_078,
        5..6,
        9..9,
    ] {
        let (from, to) = (range.start, range.end);
        writeln!(
            requests,
            r#"{{"jsonrpc":"2.0","id":1,"method":"cat","params":{{"place":"@:large","range":"{from}-{to}","raw":true}}}}"#
        )?;
        let mut read = Vec::new();
        loop {
            let message = answer(&mut answers)?;
            let raw = message["raw"].as_u64().unwrap_or_default();
            assert!(raw <= 1 << 20, "{message}");
            answers.by_ref().take(raw).read_to_end(&mut read)?;
            if message["method"].is_null() {
                break;
            }
        }
        assert!(read == content[range], "{from}-{to}");
    }
    drop(requests);
    assert!(api.wait()?.success());
    Ok(())
}

/// The paths that `cat` returns for a file of `@`, and the bytes of each.
fn read_on(
    session: (&mut ChildStdin, &mut BufReader<ChildStdout>),
    path: &str,
    options: &str,
) -> Outcome<Vec<(String, u64)>> {
    let (requests, answers) = session;
    writeln!(
        requests,
        r#"{{"jsonrpc":"2.0","id":1,"method":"cat","params":{{"place":"@:{path}",{options}}}}}"#
    )?;
    let answer = answer(answers)?;
    let output = answer["result"]["output"].as_array();
    let output = output.ok_or_else(|| answer.to_string())?.iter();
    let of = |one: &Value| Some((one["path"].as_str()?.to_owned(), one["bytes"].as_u64()?));
    Ok(output.filter_map(of).collect())
}

#[test]
fn cat_reads_ahead_in_a_directory_and_further() -> Outcome {
    let place = Place::with_repository()?;
    for path in ["a", "b/1", "b/2", "b/c/deep", "b/d", "e/last"] {
        place.write(path, "x".repeat(10))?;
    }
    place.write("b/large", "x".repeat(1000))?;
    place.commit("first")?;
    let (mut api, mut requests, mut answers) = session(&place)?;
    let mut read = |path: &str, options: &str| -> Outcome<String> {
        let read = read_on((&mut requests, &mut answers), path, options)?;
        let shown = read.iter().map(|(path, bytes)| format!("{path}={bytes}"));
        Ok(shown.collect::<Vec<_>>().join(" "))
    };
    // In the directory, also what stands before it. The large file does not fit.
    assert_eq!(read("b/2", r#""ahead":100"#)?, "b/2=10 b/d=10 b/1=10");
    // Further, all that follows, in the order of `ls -r`; a file that never fits is left out.
    assert_eq!(
        read("b/1", r#""ahead":100,"further":true"#)?,
        "b/1=10 b/2=10 b/c/deep=10 b/d=10 e/last=10"
    );
    assert_eq!(
        read("a", r#""ahead":25,"further":true"#)?,
        "a=10 b/1=10 b/2=10"
    );
    assert_eq!(
        read("a", r#""ahead":2000,"further":true"#)?,
        "a=10 b/1=10 b/2=10 b/c/deep=10 b/d=10 b/large=1000 e/last=10"
    );
    // The last file, and one that was not read to its end, have nothing behind them.
    assert_eq!(
        read("e/last", r#""ahead":100,"further":true"#)?,
        "e/last=10"
    );
    let cut = r#""ahead":100,"further":true,"range":"0-9""#;
    assert_eq!(read("b/1", cut)?, "b/1=9");
    drop(requests);
    assert!(api.wait()?.success());

    // A partial clone has nothing to read in directories that are absent.
    place.ok(&[
        "clone", "--subset", "e", "--subset", "a", "--", ".", "../part",
    ])?;
    let mut partial = place
        .command(&["-C", "../part", "--offline", "api"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut requests = partial.stdin.take().ok_or("no input")?;
    let mut answers = BufReader::new(partial.stdout.take().ok_or("no output")?);
    assert_eq!(answer(&mut answers)?["method"], "hello");
    let read = read_on(
        (&mut requests, &mut answers),
        "a",
        r#""ahead":100,"further":true"#,
    )?;
    assert_eq!(read, [("a".to_owned(), 10), ("e/last".to_owned(), 10)]);
    drop(requests);
    assert!(partial.wait()?.success());
    Ok(())
}

#[test]
fn thousands_of_requests_of_a_client_that_does_not_read_are_all_answered() -> Outcome {
    let place = Place::with_repository()?;
    place.write("large", "x".repeat(30_000))?;
    place.commit("first")?;
    let (mut api, mut requests, mut answers) = session(&place)?;
    let (tell, told) = channel::<()>();
    let asks = std::thread::spawn(move || -> std::io::Result<()> {
        // Told when it ends.
        let _tell = tell;
        for id in 0..3000 {
            let params = r#"{"place":"@:large"}"#;
            writeln!(
                requests,
                r#"{{"jsonrpc":"2.0","id":{id},"method":"cat","params":{params}}}"#
            )?;
        }
        Ok(())
    });
    // The pipe is full long before all are asked.
    let all = told.recv_timeout(Duration::from_millis(300));
    assert_eq!(all, Err(RecvTimeoutError::Timeout));
    let (mut done, mut refused) = (0, 0);
    loop {
        let answer = answer(&mut answers)?;
        match &answer {
            Value::Null => break,
            answer if answer["error"]["code"] == -32_001 => refused += 1,
            answer if answer["result"]["data"].is_string() => done += 1,
            answer => assert_eq!(answer["method"], "progress", "{answer}"),
        }
    }
    asks.join().expect("no panic")?;
    assert_eq!(done + refused, 3000, "{refused} refused");
    assert!(done >= 1024, "{done}");
    assert!(api.wait()?.success());
    Ok(())
}

#[test]
fn a_session_whose_client_is_gone_ends() -> Outcome {
    let place = Place::with_repository()?;
    // Neither reads nor closes: only the end of its output is gone, during a request that lasts.
    let (mut api, mut requests, answers) = session(&place)?;
    writeln!(requests, r#"{{"jsonrpc":"2.0","id":1,"method":"watch"}}"#)?;
    drop(answers);
    api.wait()?;
    // Only its input is closed.
    let (mut api, requests, answers) = session(&place)?;
    drop(requests);
    assert!(api.wait()?.success());
    drop(answers);
    Ok(())
}
