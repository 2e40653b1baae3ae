//! How the program is linked for tests.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    // The suite starts the program thousands of times. At a fixed address, the dynamic linker has nothing to do for
    // 300,000 addresses, which takes half of a short command's time. Programs for users keep their random address.
    if is("PROFILE", "debug") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
