//! A file that goes over TCP from one program to another, once, as FTP's data connections carry it:
//! whoever connects gets it, and its end is the connection's.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use kernel::clock::thread_time;
use serde::{Deserialize, Serialize};

use super::control::{Control, Event};
use super::error::{Doing, EndpointError};
use super::frame::nanos;
use super::query::{ZEROES, connect, listen};
use super::repairs::{self, Repairs};

/// How long a file may stand still. TCP's own timer backs off from 200 ms to half a minute in eight
/// losses of the same segment: who stands still longer will not come back.
const PATIENCE: Duration = Duration::from_secs(60);

/// Gives a file to one client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpServe {
    /// The port to listen on.
    pub port: u16,
    /// Bytes of the file.
    pub bytes: u64,
    /// TCP's congestion control.
    pub congestion: String,
}

/// What a server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpServed {
    /// What it did about losses.
    pub repairs: Repairs,
    /// How long it ran on a processor, its kernel included, in nanoseconds.
    pub busy_ns: u64,
}

/// Gets a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpDownload {
    /// Who serves it.
    pub from: SocketAddr,
    /// How many bytes are to come.
    pub bytes: u64,
    /// TCP's congestion control, for what the client answers.
    pub congestion: String,
}

/// What a client saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpDownloaded {
    /// From before the connection was opened to the file's end, in nanoseconds.
    pub elapsed_ns: u64,
    /// How long it ran on a processor, its kernel included, in nanoseconds.
    pub busy_ns: u64,
}

/// Serves one file to its end.
pub fn serve(role: &TcpServe, control: &Control) -> Result<TcpServed, EndpointError> {
    let listener = listen(role.port, &role.congestion)?;
    control.say(&Event::Ready);
    let (mut stream, _) = listener.accept().doing("accept a client")?;
    let (before, busy) = (repairs::look(&stream)?, thread_time().as_nanos());
    bound(&stream)?;
    give(&mut stream, role.bytes).doing("send a file")?;
    // The client closes when it has it all: until then something may have to be sent again.
    drain(&mut stream).doing("wait until a client has its file")?;
    let busy_ns = thread_time().as_nanos() - busy;
    Ok(TcpServed { repairs: Repairs::since(before, &stream)?, busy_ns })
}

/// Downloads one file.
pub fn download(role: &TcpDownload, control: &Control) -> Result<TcpDownloaded, EndpointError> {
    control.ready();
    let (begin, busy) = (Instant::now(), thread_time().as_nanos());
    let mut stream = connect(role.from, &role.congestion)?;
    bound(&stream)?;
    let bytes = drain(&mut stream).doing("read a file")?;
    let elapsed_ns = nanos(begin.elapsed());
    if bytes != role.bytes {
        let wanted = role.bytes;
        return Err(EndpointError::Role(format!("{bytes} bytes of a file of {wanted} came")));
    }
    Ok(TcpDownloaded { elapsed_ns, busy_ns: thread_time().as_nanos() - busy })
}

/// Lets nothing wait for ever.
fn bound(stream: &TcpStream) -> Result<(), EndpointError> {
    stream.set_read_timeout(Some(PATIENCE)).doing("bound a blocked read")?;
    stream.set_write_timeout(Some(PATIENCE)).doing("bound a blocked write")
}

/// Writes so many bytes, and says that there are no more.
fn give(stream: &mut TcpStream, bytes: u64) -> std::io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let piece = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROES.len());
        match stream.write(&ZEROES[..piece]) {
            Ok(count) => left -= count as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.shutdown(Shutdown::Write)
}

/// Reads to the end, and tells how many bytes came.
fn drain(stream: &mut TcpStream) -> std::io::Result<u64> {
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes += count as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_file_comes_whole_and_ends() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let bytes = 3 * ZEROES.len() as u64 + 7;
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            give(&mut stream, bytes).unwrap();
            drain(&mut stream).unwrap()
        });
        let mut client = TcpStream::connect(to).unwrap();
        assert_eq!(drain(&mut client).unwrap(), bytes);
        drop(client);
        assert_eq!(server.join().unwrap(), 0);
    }
}
