//! How the program is linked: for tests on Linux, and with a manifest on Windows.

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=windows");
    // The suite starts the program thousands of times. At a fixed address, the dynamic linker has nothing to do for
    // 300,000 addresses, which takes half of a short command's time. Programs for users keep their random address.
    if is("PROFILE", "debug") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    if is("CARGO_CFG_TARGET_OS", "windows") {
        add_manifest();
    }
}

fn is(name: &str, value: &str) -> bool {
    var(name).is_ok_and(|found| found == value)
}

/// Says to Windows that the program can use paths of more than 260 characters.
fn add_manifest() {
    let dir = var("CARGO_MANIFEST_DIR").expect("Cargo sets it") + "/windows";
    if is("CARGO_CFG_TARGET_ENV", "msvc") {
        println!("cargo::rustc-link-arg-bin=dmv=/MANIFEST:EMBED");
        println!("cargo::rustc-link-arg-bin=dmv=/MANIFESTINPUT:{dir}/dmv.manifest");
        return;
    }
    let object = var("OUT_DIR").expect("Cargo sets it") + "/manifest.o";
    // The first one comes with mingw on other systems, the second one on Windows.
    let programs = ["x86_64-w64-mingw32-windres", "windres"];
    let made = programs.iter().any(|program| {
        let mut windres = Command::new(program);
        windres.args(["dmv.rc", &object]).current_dir(&dir);
        windres.status().is_ok_and(|status| status.success())
    });
    if made {
        println!("cargo::rustc-link-arg-bin=dmv={object}");
    } else {
        println!(
            "cargo::warning=without windres, dmv.exe has no manifest and no paths above 260 characters"
        );
    }
}
