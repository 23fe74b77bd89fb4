//! The protocol's messages, compiled without a program besides the compiler.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto/southbound.proto");
    let files = protox::compile(["proto/southbound.proto"], ["proto"])?;
    // A part's bytes are shared by all agents that are sent it.
    tonic_prost_build::configure().bytes(".zovn.southbound.v1.Part.bytes").compile_fds(files)?;
    Ok(())
}
