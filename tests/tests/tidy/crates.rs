//! Which outside crates there are, and where they may be named.

const CLI: &str = "crates/dmv-cli/";
const QUIC: &str = "crates/dmv-net/src/transport/quic/";
const BUCKET: &str = "crates/dmv-bucket/";
const STORE: &str = "crates/dmv-bucket/src/store/";
/// What Linux takes from the processes of previews.
const CONFINE: &str = "crates/dmv-preview/src/confine/";
/// The decoders of previews.
const DECODE: &str = "crates/dmv-preview/src/decode/";
const GIT: &str = "crates/dmv-git/src/";
const WEB: &str = "crates/dmv-web/";

/// Each outside crate, and the files that may name it. A directory ends with a slash.
pub const CRATES: [(&str, &[&str]); 70] = [
    (
        "blake3",
        &[
            "crates/dmv-core/src/hash.rs",
            // A keyed hash proves a secret.
            "crates/dmv-net/src/transport/quic/pair.rs",
            "crates/dmv-preview/src/cache.rs",
        ],
    ),
    (
        "ed25519_dalek",
        &[
            "crates/dmv-core/src/claims/tests.rs",
            "crates/dmv-core/src/object/signature.rs",
        ],
    ),
    ("fastcdc", &["crates/dmv-core/src/chunker.rs"]),
    ("zstd", &["crates/dmv-core/src/store/frame.rs", DECODE]),
    (
        "rusqlite",
        &["crates/dmv-core/src/refs/", "crates/dmv-git/src/map.rs"],
    ),
    (
        "unicode_normalization",
        &["crates/dmv-core/src/object/portable.rs"],
    ),
    (
        "crossbeam_channel",
        &[
            "crates/dmv-core/src/worktree/ingest.rs",
            "crates/dmv-core/src/repo/files/stored.rs",
            GIT,
        ],
    ),
    ("rayon", &["crates/dmv-core/src/worktree/scan/sort.rs"]),
    ("image", &[DECODE, "crates/dmv-preview/src/paint.rs"]),
    ("ab_glyph", &[DECODE]),
    ("bcdec_rs", &[DECODE]),
    ("exr", &[DECODE]),
    (
        "flate2",
        &[
            DECODE,
            "crates/dmv-git/src/pack.rs",
            "crates/dmv-web/src/assets.rs",
        ],
    ),
    ("symphonia", &[DECODE]),
    ("tiff", &[DECODE]),
    ("libc", &[CONFINE]),
    ("landlock", &[CONFINE]),
    ("seccompiler", &[CONFINE]),
    ("bytes", &[QUIC, STORE, WEB]),
    ("object_store", &[STORE]),
    ("reqwest", &[]),
    ("futures_util", &[STORE]),
    ("rustls", &["crates/dmv-bucket/src/store/clients.rs"]),
    ("bstr", &["crates/dmv-core/src/store/scan.rs", CLI]),
    (
        "getrandom",
        &[
            "crates/dmv-core/src/fsutil.rs",
            "crates/dmv-core/src/store/random_id.rs",
            "crates/dmv-net/src/transport/quic/pair.rs",
            "crates/dmv-bucket/src/store/probe.rs",
            "crates/dmv-web/src/guard.rs",
        ],
    ),
    // SYSTEM lists the files.
    ("rustix", &["crates/"]),
    (
        "windows_sys",
        &[
            "crates/dmv-core/src/platform/windows/",
            "crates/dmv-preview/src/confine/windows.rs",
        ],
    ),
    ("fiemap", &["crates/dmv-core/src/platform/unix/linux.rs"]),
    ("thiserror", &["crates/"]),
    ("sha1", &["crates/dmv-git/src/id.rs"]),
    (
        "sha2",
        &[
            "crates/dmv-git/src/id.rs",
            "crates/dmv-git/src/import/lfs.rs",
        ],
    ),
    ("tokio", &[QUIC, STORE, WEB]),
    ("hyper", &[WEB]),
    ("hyper_util", &[WEB]),
    ("http_body_util", &[WEB]),
    ("maud", &[WEB]),
    ("percent_encoding", &[WEB]),
    // The decoders have a module of this name.
    ("zip", &[WEB, DECODE]),
    ("iroh", &["crates/dmv-net/src/identity.rs", QUIC]),
    (
        "swarm_discovery",
        &["crates/dmv-net/src/transport/quic/lan.rs"],
    ),
    ("spake2", &["crates/dmv-net/src/transport/quic/pair.rs"]),
    ("anstream", &[CLI]),
    ("anstyle", &[CLI]),
    ("anyhow", &[CLI]),
    ("clap", &[CLI]),
    ("clap_complete", &[CLI]),
    ("clap_mangen", &[CLI]),
    ("ctrlc", &[CLI]),
    ("data_encoding", &[CLI, WEB]),
    ("indicatif", &[CLI]),
    ("jiff", &[STORE, CLI, WEB]),
    ("mimalloc", &["crates/dmv-cli/src/main.rs"]),
    // Plots of the benchmarks; no part of the program.
    ("plotters", &["benches/src/plot.rs"]),
    ("postcard", &["crates/dmv-net/src/wire.rs"]),
    (
        "serde",
        &[
            "crates/dmv-net/src/wire.rs",
            "crates/dmv-net/src/wire/",
            CLI,
        ],
    ),
    (
        "serde_json",
        &["crates/dmv-bucket/src/store/profile.rs", CLI, WEB],
    ),
    ("signal_hook", &[CLI]),
    ("snapbox", &["crates/dmv-cli/tests/program/words.rs"]),
    ("tar", &[CLI]),
    ("tempfile", &[CLI, GIT, WEB]),
    ("toml", &[CLI]),
    ("toml_edit", &[CLI]),
    ("unicode_width", &[CLI]),
    // Our own crates: a crate may name lower ones only.
    (
        "dmv_core",
        &["crates/dmv-git/", "crates/dmv-net/", BUCKET, WEB, CLI],
    ),
    ("dmv_git", &["crates/dmv-git/tests/", CLI]),
    ("dmv_net", &[BUCKET, WEB, CLI]),
    ("dmv_bucket", &[CLI]),
    ("dmv_web", &[WEB, CLI]),
    ("dmv_preview", &["crates/dmv-preview/src/bin/", WEB, CLI]),
    ("dmv_cli", &[]),
];
