//! Bytes and datagrams that tell whether they came whole, once and in order.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;

use nix::sys::socket::{setsockopt, sockopt};

/// The byte at a place of a stream.
fn byte(at: usize) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

/// Sends so many bytes each way of a connection at once, and sees that they come whole.
pub fn exchange([one, other]: &[TcpStream; 2], count: usize) {
    let say = |mut stream: &TcpStream| {
        let bytes: Vec<_> = (0..count).map(byte).collect();
        stream.write_all(&bytes).unwrap();
    };
    let hear = |mut stream: &TcpStream| {
        let mut came = vec![0; count];
        stream.read_exact(&mut came).unwrap();
        assert!((0..count).map(byte).eq(came), "what came is not what was sent");
    };
    thread::scope(|scope| {
        for stream in [one, other] {
            scope.spawn(move || say(stream));
            scope.spawn(move || hear(stream));
        }
    });
}

/// Sends datagrams with these numbers, each as soon as the socket has room.
pub fn send(
    socket: &UdpSocket,
    to: SocketAddr,
    sender: u8,
    numbers: std::ops::Range<u32>,
    len: usize,
) {
    let mut datagram = vec![sender; len];
    for number in numbers {
        datagram[1..5].copy_from_slice(&number.to_be_bytes());
        socket.send_to(&datagram, to).unwrap();
    }
}

/// Sends datagrams with these numbers, twenty at once: each twenty are one large segment until
/// somebody cuts them (UDP_SEGMENT, udp(7)).
pub fn send_joined(
    socket: &UdpSocket,
    to: SocketAddr,
    sender: u8,
    numbers: std::ops::Range<u32>,
    len: u16,
) {
    setsockopt(socket, sockopt::UdpGsoSegment, &i32::from(len)).unwrap();
    let numbers: Vec<_> = numbers.collect();
    for numbers in numbers.chunks(20) {
        let mut datagrams = vec![sender; numbers.len() * usize::from(len)];
        for (datagram, number) in datagrams.chunks_mut(len.into()).zip(numbers) {
            datagram[1..5].copy_from_slice(&number.to_be_bytes());
        }
        socket.send_to(&datagrams, to).unwrap();
    }
}

/// As many senders there may be.
pub const MOST_SENDERS: usize = 16;

/// What came of each sender.
#[derive(Default)]
pub struct Tally {
    /// The number of the next one, by sender.
    pub next: [u32; MOST_SENDERS],
    /// How many came that had come before.
    pub again: u32,
}

impl Tally {
    /// Takes a datagram: none is missing before it.
    pub fn take(&mut self, socket: &UdpSocket) {
        let mut datagram = [0; 2000];
        let len =
            socket.recv(&mut datagram).unwrap_or_else(|error| panic!("{error}: {:?}", self.next));
        assert!(len > 5);
        let [sender, number @ ..] = *datagram.first_chunk::<5>().unwrap();
        let number = u32::from_be_bytes(number);
        let next = &mut self.next[usize::from(sender)];
        assert!(number <= *next, "sender {sender}: {number} came, and {next} did not");
        self.again += u32::from(number < *next);
        *next = (*next).max(number + 1);
    }

    /// Takes datagrams until so many of the first senders have come.
    pub fn take_all(&mut self, socket: &UdpSocket, senders: usize, count: u32) {
        while self.next[..senders].iter().any(|next| *next < count) {
            self.take(socket);
        }
    }
}
