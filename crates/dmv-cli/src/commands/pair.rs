//! `dmv pair`

use crate::device::device_key;
use crate::devices::{Device, PeerValue, called};
use crate::peers::relays;
use crate::prelude::*;
use crate::remotes::set_remote;
use crate::{devices, ui};
use dmv_core::platform::host_name;
use dmv_core::refs::check_new_ref_name;
use dmv_core::repo::{Access, Peer, PeerKey};
use dmv_net::transport::Url;
use dmv_net::transport::quic::blocking::pair_with;
use dmv_net::transport::quic::{
    Code, Confirm, ListenAddress, PairEvent, PairOptions, PairedDevice, PeerAddress,
};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

/// Connect two devices with a short code, so that they trust each other
///
/// Run 'dmv pair' on one device: it shows a code. Type that code on the other device. Each device then
/// asks for confirmation. The devices find each other on the local network, or at the address in --peer.
///
/// Each device gives the other one access to the repository in which you ran the command. You can also
/// run it outside of a repository, for example to clone from the other device afterwards.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv pair --write       # here: shows a code, say 4829-1370\n  \
                  dmv pair 4829-1370     # on the other device\n\n\
                  If the devices are not on one local network, give the address that the first one shows:\n  \
                  dmv pair 4829-1370 --peer dmv://8f4c…e1@192.0.2.7:4711"
)]
pub struct Args {
    /// The code that the other device shows; without CODE, dmv creates one and shows it
    #[arg(value_name = "CODE")]
    code: Option<Code>,
    /// Use this code on both devices, for scripts
    #[arg(long = "code", value_name = "CODE", conflicts_with = "code")]
    given: Option<Code>,
    /// Let the other device push to this repository, not only read it
    #[arg(long)]
    write: bool,
    /// Your name for the other device [default: the name that it sends, if no other device has it]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The address of the other device; dmv://KEY without an address uses the relay
    #[arg(long, value_name = "dmv://KEY@HOST:PORT")]
    peer: Option<PeerAddress>,
    /// Listen at IP:PORT, IP or :PORT, and do not search the local network
    #[arg(long, value_name = "ADDR")]
    listen: Option<ListenAddress>,
    /// Wait so many seconds for the other device
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wait: u64,
}

impl Args {
    /// What the other device may do.
    fn access(&self) -> Access {
        if self.write {
            Access::Write
        } else {
            Access::Read
        }
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = match context.repo_as_it_is() {
        Ok(repo) => Some(repo),
        Err(e) if e.exit == EXIT_NO_REPOSITORY => None,
        Err(e) => return Err(e),
    };
    let key = device_key()?;
    let book = devices::book(context)?;
    if let Some(name) = &args.name {
        check_name(&book, name)?;
    }
    let told = args.code.as_ref().or(args.given.as_ref());
    let code = match told {
        Some(code) => code.clone(),
        None => new_code()?,
    };
    let asked = args.access();
    let options = PairOptions {
        code: code.clone(),
        told: told.is_some(),
        listen: args.listen.clone(),
        relays: relays(context)?,
        lan: args.listen.is_none() && args.peer.is_none(),
        peer: args.peer.clone(),
        name: host_name(),
        gives: repo.as_ref().map(|_| asked),
        time: Duration::from_secs(args.wait),
    };
    let shown = told.is_none().then_some(&code);
    let event = |event| say(context, shown, &key.public().to_string(), event);
    let _interruptible = context.interruptible();
    let confirm = confirm(
        context.globals.yes,
        asked,
        repo.is_some(),
        name_for(&book, args.name.as_ref()),
    );
    let waiting = format!("waiting up to {} s for the other device", args.wait);
    match &args.peer {
        Some(peer) => context.ui.note(format_args!("{waiting} at {peer}")),
        None => context.ui.note(waiting),
    }
    let paired = pair_with(&key, options, confirm, event, &context.job)?;
    let name = name_for(&book, args.name.as_ref())(&paired);
    let peer = Peer {
        key: paired.key,
        name: name.clone(),
        access: asked,
    };
    // Without a name it is known by its key.
    if let Err(e) = devices::record(&name, &paired.key) {
        context.ui.warn(e.message);
    }
    match repo {
        Some(repo) => let_in(context, &repo, peer, &paired)?,
        None => tell_met(context, &peer, &paired)?,
    }
    Ok(EXIT_OK)
}

/// Fails if a device cannot get this name, or another one that is known has it.
fn check_name(book: &[Device], name: &str) -> Result<(), Failure> {
    let known = book.iter().find(|device| device.name == name);
    // It may be the same device, which then keeps it.
    let key = known.map_or(PeerKey::from_bytes([0; 32]), |device| device.key);
    devices::check_free(book, name, &key)
}

/// The name that the user gives to the other device: the one of the command line, or one like that which it
/// sends. It is never that of another device.
fn name_for(book: &[Device], wanted: Option<&String>) -> impl Fn(&PairedDevice) -> String + use<> {
    let (book, wanted) = (book.to_vec(), wanted.cloned());
    move |paired| match &wanted {
        Some(name) if devices::check_free(&book, name, &paired.key).is_ok() => name.clone(),
        Some(name) => devices::suggest(&book, &paired.key, name),
        None => devices::suggest(&book, &paired.key, &paired.name),
    }
}

fn new_code() -> Result<Code, Failure> {
    Code::random().map_err(|e| {
        let message = format!("cannot create a random code: {e}");
        Failure::new("no-randomness", EXIT_OTHER, message)
    })
}

/// Says who was met, outside of any repository.
fn tell_met(context: &Context, peer: &Peer, paired: &PairedDevice) -> Result<(), Failure> {
    report(context, peer, paired, false)?;
    if paired.gives.is_some() {
        context.ui.note(hint!(
            "to clone its repository: dmv clone {} DIR (while 'dmv serve --lan' runs there)",
            Argument::value(format!("dmv://{}", peer.name))
        ));
    }
    Ok(())
}

/// Gives the other device access to the repository, and makes it a remote if it gives access, too.
fn let_in(
    context: &Context,
    repo: &Repo,
    peer: Peer,
    paired: &PairedDevice,
) -> Result<(), Failure> {
    // Whoever may write already is not cut back by the way.
    let known = repo.peer(&peer.key)?;
    let access = known.map_or(peer.access, |known| known.access.max(peer.access));
    let peer = Peer { access, ..peer };
    let mut log = context.request()?;
    // Without the code.
    log.command = "dmv pair with ".to_owned() + &called(&peer);
    repo.trust(&peer, log)?;
    report(context, &peer, paired, true)?;
    if paired.gives.is_some() {
        name_remote(context, repo, &peer)?;
    }
    Ok(())
}

/// Makes the other device a remote, unless it is one.
fn name_remote(context: &Context, repo: &Repo, peer: &Peer) -> Result<(), Failure> {
    let remotes = context.config()?.remotes();
    let key = peer.key.to_string();
    if remotes.iter().any(|(_, url)| url.contains(&key)) {
        return Ok(());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let name: String = peer.name.chars().filter(|c| plain(*c)).collect();
    let is_free = |name: &String| remotes.iter().all(|(known, _)| known != name);
    let is_name = check_new_ref_name(&name).is_ok()
        && is_free(&name)
        && repo.named_like_remote(&name)?.is_none();
    let name = Some(name).filter(|_| is_name).unwrap_or(peer.key.short());
    let (key, place) = (peer.key, None);
    let url = Url::Quic(PeerAddress { key, place });
    set_remote(repo, &name, &url, Vec::new())?;
    context.ui.note(hint!(
        "to exchange commits with it: dmv sync {} (while 'dmv serve --lan' runs there)",
        Argument::value(&name)
    ));
    Ok(())
}

/// What is going on.
fn say(context: &Context, shown: Option<&Code>, key: &str, event: PairEvent) {
    match event {
        PairEvent::Ready(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(PeerAddress::to_string).collect();
            // Whether this can be written shows when the rest is.
            let _ = ready(context, shown, key, &addresses);
        }
        PairEvent::OtherCode(key, left) => context.ui.note(format_args!(
            "device {} used a wrong code; {left} more attempts are allowed",
            key.short()
        )),
    }
}

fn ready(
    context: &Context,
    shown: Option<&Code>,
    key: &str,
    addresses: &[String],
) -> Result<(), Failure> {
    if context.ui.is_json() {
        let code = shown.map(Code::shown);
        let document = object! { addresses: addresses, code: code, key: key };
        context.ui.json(&document)?;
    } else if let Some(code) = shown {
        let code = code.shown();
        writeln!(context.ui.out(), "code: {code}")?;
        context.ui.note(hint!(
            "on the other device: dmv pair {}",
            Argument::value(&code)
        ));
        // At the relay, if there is one: that is within the other's reach from anywhere.
        let at_relay = addresses.iter().find(|address| !address.contains('@'));
        if let Some(address) = at_relay.or(addresses.first()) {
            context.ui.note(hint!(
                "if it does not find this device: dmv pair {} --peer {}",
                Argument::value(&code),
                Argument::value(address)
            ));
        }
    } else {
        context.ui.note("searching for the device with this code");
    }
    context.ui.finish()
}

/// At a terminal the user decides. Elsewhere the code was the decision.
fn confirm(
    yes: bool,
    gives: Access,
    has_repository: bool,
    name_for: impl Fn(&PairedDevice) -> String + Send + Sync + 'static,
) -> Confirm {
    Arc::new(move |paired: &PairedDevice| {
        if yes || !std::io::stdin().is_terminal() {
            return true;
        }
        let may = match (has_repository, gives) {
            (false, _) => "",
            (true, Access::Read) => " and let it read this repository",
            (true, Access::Write) => " and let it read and write this repository",
        };
        let (claimed, name) = (clean(&paired.name), name_for(paired));
        let short = paired.key.short();
        let called = if claimed == name {
            String::new()
        } else {
            format!(", call it {name}")
        };
        ui::ask(&format!("Pair with '{claimed}' ({short}){called}{may}?"))
    })
}

fn report(
    context: &Context,
    peer: &Peer,
    paired: &PairedDevice,
    let_in: bool,
) -> Result<(), Failure> {
    if context.ui.is_json() {
        let mut value = PeerValue::new(peer, None);
        value.access = let_in.then_some(peer.access.word());
        return context.ui.json(&value.to_json());
    }
    writeln!(context.ui.out(), "paired with {}", called(peer))?;
    if !paired.name.is_empty() && paired.name != peer.name {
        let claimed = clean(&paired.name);
        let text = format_args!(
            "it calls itself '{claimed}'; here its name is {}",
            peer.name
        );
        context.ui.note(text);
    }
    if let_in {
        let may = match peer.access {
            Access::Read => "read",
            Access::Write => "read and write",
        };
        writeln!(context.ui.out(), "it may {may} this repository")?;
    }
    match paired.gives {
        Some(Access::Read) => writeln!(
            context.ui.out(),
            "this device may read the repository there"
        )?,
        Some(Access::Write) => writeln!(
            context.ui.out(),
            "this device may read and write the repository there"
        )?,
        None => {}
    }
    Ok(())
}
