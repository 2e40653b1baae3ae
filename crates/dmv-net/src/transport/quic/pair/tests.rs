//! Two ends with the same code, with different codes, or with an attacker between them.

use super::*;
use std::sync::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let limited = async { timeout(Duration::from_secs(60), test).await };
    let done = runtime.block_on(limited).expect("the test ends");
    runtime.shutdown_background();
    done
}

fn options(code: &str, name: &str, gives: Option<Access>) -> PairOptions {
    PairOptions {
        code: code.parse().expect("a code"),
        told: false,
        listen: Some(ListenAddress::loopback()),
        relays: Vec::new(),
        lan: false,
        peer: None,
        name: name.into(),
        gives,
        time: Duration::from_secs(20),
    }
}

fn says(yes: bool) -> Confirm {
    Arc::new(move |_| yes)
}

type Ending = Result<PairedDevice, PairError>;

/// Starts the end that shows a code. Returns its address and its task. `left` receives the tries
/// that are left.
async fn shows(
    key: &DeviceKey,
    options: PairOptions,
    yes: bool,
    left: Arc<Mutex<Vec<u32>>>,
) -> (PeerAddress, JoinHandle<Ending>) {
    let (ready, is_ready) = oneshot::channel();
    let ready = Mutex::new(Some(ready));
    let key = key.clone();
    let task = tokio::spawn(async move {
        let event = |event| match event {
            PairEvent::Ready(at) => {
                if let Some(ready) = ready.lock().expect("whole").take() {
                    let _ = ready.send(at[0].clone());
                }
            }
            PairEvent::OtherCode(_, n) => left.lock().expect("whole").push(n),
        };
        pair(&key, options, says(yes), event, std::future::pending()).await
    });
    (is_ready.await.expect("it gets ready"), task)
}

/// Runs the end that was given a code.
async fn told(key: &DeviceKey, mut options: PairOptions, peer: PeerAddress, yes: bool) -> Ending {
    options.told = true;
    options.peer = Some(peer);
    pair(key, options, says(yes), |_| {}, std::future::pending()).await
}

#[test]
fn a_code_is_read_as_people_write_it() {
    let code = Code("48291370".into());
    assert_eq!(code.shown(), "4829-1370");
    for text in ["4829-1370", "48291370", " 4829 1370 "] {
        assert!(text.parse() == Ok(code.clone()), "{text}");
    }
    assert!("AbC-123".parse() == Ok(Code("abc123".into())));
    let long = "1".repeat(33);
    for bad in ["", "12345", "12345é", "1234-5", &long] {
        assert!(bad.parse::<Code>().is_err(), "{bad}");
    }
    let random = Code::random().expect("randomness");
    assert_eq!(random.0.len(), 8);
    assert!(random.shown().parse() == Ok(random));
}

#[test]
fn the_same_code_on_both_ends_makes_a_pair() {
    run(async {
        let (a, b) = (DeviceKey::generate(), DeviceKey::generate());
        let desk = options("4829-1370", "desk", Some(Access::Write));
        let lap = options("48291370", "lap", None);
        let (at, task) = shows(&a, desk, true, Arc::default()).await;
        let here = told(&b, lap, at, true).await.expect("a pair");
        let there = task.await.expect("it ran").expect("a pair");
        assert_eq!((here.key, here.name.as_str()), (a.public(), "desk"));
        assert_eq!((there.key, there.name.as_str()), (b.public(), "lap"));
        assert_eq!((here.gives, there.gives), (Some(Access::Write), None));
    });
}

#[test]
fn three_wrong_codes_end_it() {
    run(async {
        let (a, b) = (DeviceKey::generate(), DeviceKey::generate());
        let left = Arc::<Mutex<Vec<u32>>>::default();
        let (at, task) = shows(&a, options("111111", "a", None), true, left.clone()).await;
        for wrong in ["222222", "333333", "444444"] {
            let other = told(&b, options(wrong, "b", None), at.clone(), true).await;
            assert!(matches!(other, Err(PairError::OtherCode)), "{other:?}");
        }
        let ended = task.await.expect("it ran");
        assert!(matches!(ended, Err(PairError::OtherCode)), "{ended:?}");
        assert_eq!(*left.lock().expect("whole"), [2, 1, 0]);
    });
}

#[test]
fn after_a_wrong_code_the_right_one_still_works() {
    run(async {
        let (a, b) = (DeviceKey::generate(), DeviceKey::generate());
        let (at, task) = shows(&a, options("111111", "a", None), true, Arc::default()).await;
        let wrong = told(&b, options("222222", "b", None), at.clone(), true).await;
        assert!(matches!(wrong, Err(PairError::OtherCode)), "{wrong:?}");
        told(&b, options("111111", "b", None), at, true)
            .await
            .expect("a pair");
        task.await.expect("it ran").expect("a pair");
    });
}

#[test]
fn both_users_have_to_say_yes() {
    run(async {
        for (yes_a, yes_b) in [(false, true), (true, false), (false, false)] {
            let (a, b) = (DeviceKey::generate(), DeviceKey::generate());
            let (at, task) = shows(&a, options("111111", "a", None), yes_a, Arc::default()).await;
            let here = told(&b, options("111111", "b", None), at, yes_b).await;
            let there = task.await.expect("it ran");
            assert!(matches!(here, Err(PairError::Declined(_))), "{here:?}");
            assert!(matches!(there, Err(PairError::Declined(_))), "{there:?}");
        }
    });
}

/// An attacker who passes on each byte has two connections with two secrets.
#[test]
fn somebody_in_the_middle_makes_no_pair() {
    run(async {
        let (a, b) = (DeviceKey::generate(), DeviceKey::generate());
        let (at, task) = shows(&a, options("111111", "a", None), true, Arc::default()).await;
        let listen = NodeOptions {
            listen: Some(ListenAddress::loopback()),
            ..Default::default()
        };
        let middle = Node::bind(&DeviceKey::generate(), &[PROTOCOL], &listen)
            .await
            .expect("a socket");
        let lie = PeerAddress {
            key: middle.key(),
            place: Some(middle.addresses()[0].to_string()),
        };
        let relay = tokio::spawn(async move {
            let incoming = middle.endpoint.accept().await.expect("a victim");
            let victim = incoming.await.expect("a handshake");
            let (mut to_b, mut from_b) = victim.accept_bi().await.expect("a stream");
            let other = middle.dial(&at, PROTOCOL).await.expect("an answer");
            let (mut to_a, mut from_a) = other.conn.open_bi().await.expect("a stream");
            let there = tokio::io::copy(&mut from_b, &mut to_a);
            let back = tokio::io::copy(&mut from_a, &mut to_b);
            tokio::select! {
                _ = there => {}
                _ = back => {}
            }
            victim.close(VarInt::from_u32(0), b"");
        });
        let here = told(&b, options("111111", "b", None), lie, true).await;
        assert!(matches!(here, Err(PairError::OtherCode)), "{here:?}");
        assert!(
            !task.is_finished(),
            "the other end waits on, for the real one"
        );
        relay.abort();
        task.abort();
    });
}

/// A peer that leaves before it proves the code has learned nothing. This costs no try.
#[test]
fn visitors_without_a_proof_cost_no_try() {
    run(async {
        let (a, b) = (DeviceKey::generate(), DeviceKey::generate());
        let left = Arc::<Mutex<Vec<u32>>>::default();
        let (at, task) = shows(&a, options("111111", "a", None), true, left.clone()).await;
        let visitor = Node::bind(&DeviceKey::generate(), &[PROTOCOL], &NodeOptions::default())
            .await
            .expect("a socket");
        for sent in [0, 1, 33, 40] {
            let connection = visitor.dial(&at, PROTOCOL).await.expect("an answer");
            let (mut send, mut recv) = connection.conn.open_bi().await.expect("a stream");
            let _ = send.write_all(&vec![b'A'; sent]).await;
            if sent >= 33 {
                // The visitor leaves only after the other end has answered or hung up.
                let _ = recv.read_exact(&mut [0; 34]).await;
            }
            connection.finish();
        }
        told(&b, options("111111", "b", None), at, true)
            .await
            .expect("a pair");
        task.await.expect("it ran").expect("a pair");
        assert!(left.lock().expect("whole").is_empty());
    });
}

#[test]
fn a_name_that_disturbs_a_terminal_is_cleaned() {
    assert_eq!(fit("a\u{1b}[2J\nb"), "a[2Jb");
    assert_eq!(fit(&"é".repeat(40)).len(), 64);
    assert_eq!(greeting("ab", Some(Access::Read)), b"\x01\x02ab");
}

#[test]
fn nobody_comes_and_the_time_is_up() {
    run(async {
        let mut alone = options("111111", "a", None);
        alone.time = Duration::from_millis(100);
        let (_, task) = shows(&DeviceKey::generate(), alone, true, Arc::default()).await;
        let ended = task.await.expect("it ran");
        assert!(matches!(ended, Err(PairError::Nobody)), "{ended:?}");
    });
}
