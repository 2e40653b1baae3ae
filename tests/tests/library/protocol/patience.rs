//! Peers that are silent, or nearly so: a side does not wait for them forever.

use dmv_core::job::Job;
use dmv_net::session::{Link, NetError};
use dmv_net::wire::{Access, Extension, Frame, Hello, LINE, Message};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE_MILLIS: u32 = 400;
const PATIENCE: Duration = Duration::from_millis(PATIENCE_MILLIS as u64);

/// Makes a link, and the pipes that its other end reads and writes.
fn link() -> io::Result<(Link, PipeReader, PipeWriter)> {
    let ((down, to_us), (up, to_them)) = (io::pipe()?, io::pipe()?);
    let mut link = Link::over(down, to_them)?;
    link.be_patient(PATIENCE);
    Ok((link, up, to_us))
}

fn is_stalled<T: std::fmt::Debug>(done: Result<T, NetError>) {
    assert!(matches!(done, Err(NetError::Stalled(_))), "{done:?}");
}

fn bytes_of(frame: &Frame) -> Vec<u8> {
    let (head, body) = frame.parts();
    [&head, body].concat()
}

#[test]
fn a_peer_that_says_nothing_is_left() -> io::Result<()> {
    let (mut link, _up, mut to_us) = link()?;
    to_us.write_all(LINE.as_bytes())?;
    is_stalled(link.receive(&Job::default()));
    Ok(())
}

#[test]
fn a_peer_that_sends_a_byte_now_and_then_is_left() -> io::Result<()> {
    let (mut link, _up, mut to_us) = link()?;
    std::thread::spawn(move || {
        let frame = bytes_of(&Frame::Record(vec![7; 1 << 20]));
        for byte in [LINE.as_bytes(), &frame].concat() {
            if to_us.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    is_stalled(link.receive(&Job::default()));
    Ok(())
}

/// Objects of a few bytes are no progress, because nothing limits their number.
#[test]
fn a_peer_that_sends_tiny_objects_for_ever_is_left() -> io::Result<()> {
    let (mut link, _up, mut to_us) = link()?;
    std::thread::spawn(move || {
        let _ = to_us.write_all(LINE.as_bytes());
        while to_us
            .write_all(&bytes_of(&Frame::Objects(vec![1, 0])))
            .is_ok()
        {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let job = Job::default();
    let ended = loop {
        if let Err(e) = link.receive(&job) {
            break Err::<(), _>(e);
        }
    };
    is_stalled(ended);
    Ok(())
}

#[test]
fn a_slow_peer_that_gets_on_is_waited_for() -> io::Result<()> {
    let (mut link, _up, mut to_us) = link()?;
    let sent = Frame::Record(vec![7; 300 << 10]);
    let bytes = [LINE.as_bytes(), &bytes_of(&sent)].concat();
    std::thread::spawn(move || {
        for part in bytes.chunks(20 << 10) {
            if to_us.write_all(part).is_err() {
                return;
            }
            std::thread::sleep(PATIENCE / 8);
        }
    });
    assert_eq!(link.receive(&Job::default()).ok(), Some(sent));
    Ok(())
}

#[test]
fn a_peer_that_never_reads_is_left_and_little_is_kept_for_it() -> io::Result<()> {
    let (mut link, _up, mut to_us) = link()?;
    to_us.write_all(LINE.as_bytes())?;
    let frame = Frame::Record(vec![7; 1 << 20]);
    let ended = loop {
        if let Err(e) = link.send(frame.clone()) {
            break Err::<(), _>(e);
        }
    };
    is_stalled(ended);
    assert!(link.traffic.bytes_sent <= 6 << 20, "{:?}", link.traffic);
    link.say_last(&Message::Bye);
    // Sent frames still wait for the peer. Closing does not wait for them.
    link.close();
    Ok(())
}

/// A peer that reads a byte now and then is silent as well.
#[test]
fn a_peer_that_reads_a_byte_now_and_then_is_left() -> io::Result<()> {
    let (mut link, mut up, mut to_us) = link()?;
    to_us.write_all(LINE.as_bytes())?;
    std::thread::spawn(move || {
        while up.read_exact(&mut [0]).is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let ended = loop {
        if let Err(e) = link.send(Frame::Record(vec![7; 1 << 20])) {
            break Err::<(), _>(e);
        }
    };
    is_stalled(ended);
    link.close();
    Ok(())
}

/// The peer may leave its other half open forever.
#[test]
fn a_peer_that_closes_its_ear_is_left_at_once() -> io::Result<()> {
    let (mut link, up, mut to_us) = link()?;
    link.be_patient(Duration::from_secs(3600));
    to_us.write_all(LINE.as_bytes())?;
    drop(up);
    // This may still find room in the queue.
    let _ = link.say(&Message::End);
    let ended = link.receive(&Job::default());
    assert!(matches!(ended, Err(NetError::Closed)), "{ended:?}");
    Ok(())
}

#[test]
fn a_job_that_is_cancelled_stops_waiting_for_room() -> io::Result<()> {
    let (mut link, _up, mut to_us) = link()?;
    link.be_patient(Duration::from_secs(3600));
    to_us.write_all(LINE.as_bytes())?;
    to_us.write_all(&bytes_of(&Message::Bye.frame()))?;
    let job = Arc::new(Job::default());
    assert!(link.receive(&job).is_ok());
    let cancel = job.clone();
    std::thread::spawn(move || {
        std::thread::sleep(PATIENCE / 4);
        cancel.cancel();
    });
    let ended = loop {
        if let Err(e) = link.send(Frame::Record(vec![7; 1 << 20])) {
            break e;
        }
    };
    assert!(matches!(ended, NetError::Cancelled), "{ended:?}");
    link.close();
    Ok(())
}

/// Bytes that arrive one at a time make the frames that were sent.
#[test]
fn frames_may_be_split_anywhere() -> io::Result<()> {
    let (mut link, _up, mut to_us) = link()?;
    let frames = [
        Message::Have(vec![[7; 32]; 5], true).frame(),
        Frame::Objects(vec![1, 0]),
        Message::End.frame(),
    ];
    let mut bytes = LINE.as_bytes().to_vec();
    bytes.extend(frames.iter().flat_map(bytes_of));
    std::thread::spawn(move || {
        for byte in bytes {
            to_us.write_all(&[byte]).expect("somebody reads");
        }
    });
    for frame in frames {
        assert_eq!(link.receive(&Job::default()).ok(), Some(frame));
    }
    Ok(())
}

/// Makes the Hello of a side with these extensions.
fn hello(extensions: Vec<Extension>) -> Hello {
    Hello {
        agent: "other".into(),
        repository: [0; 16],
        chunker: String::new(),
        access: Access::Read,
        extensions,
    }
}

/// Makes two connected links.
fn two_links() -> io::Result<[Link; 2]> {
    let ((down, to_us), (up, to_them)) = (io::pipe()?, io::pipe()?);
    let mut links = [Link::over(down, to_them)?, Link::over(up, to_us)?];
    links.iter_mut().for_each(|link| link.be_patient(PATIENCE));
    Ok(links)
}

#[test]
fn a_side_that_works_for_long_is_waited_for() -> io::Result<()> {
    let [mut ours, mut theirs] = two_links()?;
    theirs.greeted(&hello(vec![Extension::works(PATIENCE_MILLIS)]));
    let working = std::thread::spawn(move || {
        std::thread::sleep(PATIENCE * 4);
        // The other side does not leave before this was received.
        theirs.say(&Message::End).map(|()| theirs)
    });
    let received = ours.receive(&Job::default());
    assert_eq!(received.ok(), Some(Message::End.frame()));
    assert!(working.join().is_ok_and(|said| said.is_ok()));
    Ok(())
}

/// A side that wants to send and finds no room waits, too.
#[test]
fn a_side_that_works_and_reads_nothing_meanwhile_is_waited_for() -> io::Result<()> {
    let [mut ours, mut theirs] = two_links()?;
    theirs.greeted(&hello(vec![Extension::works(PATIENCE_MILLIS)]));
    let working = std::thread::spawn(move || {
        std::thread::sleep(PATIENCE * 4);
        for _ in 0..20 {
            theirs.receive(&Job::default())?;
        }
        Ok::<_, NetError>(())
    });
    for _ in 0..20 {
        let sent = ours.send(Frame::Record(vec![7; 1 << 20]));
        assert!(sent.is_ok(), "{sent:?}");
    }
    assert!(working.join().is_ok_and(|taken| taken.is_ok()));
    Ok(())
}

#[test]
fn a_side_that_does_not_know_working_does_not_hear_it() -> io::Result<()> {
    for extensions in [
        Vec::new(),
        vec![Extension::keeps()],
        // A value with another length than the known one.
        vec![Extension {
            value: vec![1; 8],
            ..Extension::works(PATIENCE_MILLIS)
        }],
    ] {
        let [mut ours, mut theirs] = two_links()?;
        theirs.greeted(&hello(extensions));
        is_stalled(ours.receive(&Job::default()));
        drop(theirs);
    }
    Ok(())
}

/// A waiting side is not busy: two sides that wait for each other disconnect.
#[test]
fn two_sides_that_wait_for_each_other_part() -> io::Result<()> {
    let [mut ours, mut theirs] = two_links()?;
    ours.greeted(&hello(vec![Extension::works(PATIENCE_MILLIS)]));
    theirs.greeted(&hello(vec![Extension::works(PATIENCE_MILLIS)]));
    let waiting = std::thread::spawn(move || theirs.receive(&Job::default()).map(drop));
    let ours = ours.receive(&Job::default()).map(drop);
    let theirs = waiting
        .join()
        .map_err(|_| io::Error::other("it panicked"))?;
    // The later one of the two may find that the other has gone.
    let both = [ours, theirs];
    let stalled = |done: &Result<(), NetError>| matches!(done, Err(NetError::Stalled(_)));
    assert!(both.iter().any(stalled), "{both:?}");
    assert!(both.iter().all(Result::is_err), "{both:?}");
    Ok(())
}

#[test]
fn a_peer_that_says_over_and_over_that_it_works_is_left_at_once() -> io::Result<()> {
    let (mut link, _up, mut to_us) = link()?;
    link.be_patient(Duration::from_secs(3600));
    let started = Instant::now();
    std::thread::spawn(move || {
        let many = bytes_of(&Message::Working.frame()).repeat(1000);
        let _ = to_us.write_all(LINE.as_bytes());
        while to_us.write_all(&many).is_ok() {}
    });
    let ended = link.receive(&Job::default());
    assert!(matches!(ended, Err(NetError::Protocol(_))), "{ended:?}");
    assert!(started.elapsed() < Duration::from_secs(60));
    Ok(())
}
