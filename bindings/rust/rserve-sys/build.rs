//! Says where librserve is: RSERVE_LIB_DIR, else what pkg-config knows, else the linker's own paths.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RSERVE_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rustc-link-lib=dylib=rserve");
    if let Some(folder) = env::var_os("RSERVE_LIB_DIR") {
        println!("cargo:rustc-link-search=native={}", folder.to_string_lossy());
        return;
    }
    let asked = Command::new("pkg-config").args(["--libs-only-L", "rserve"]).output();
    let Ok(answer) = asked else { return };
    for flag in String::from_utf8_lossy(&answer.stdout).split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        }
    }
}
