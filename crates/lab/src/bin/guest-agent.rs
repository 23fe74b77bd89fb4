//! What serves the host inside a guest: see [`lab::guest`].

#![forbid(unsafe_code)]

fn main() -> std::io::Result<()> {
    lab::guest::serve()
}
