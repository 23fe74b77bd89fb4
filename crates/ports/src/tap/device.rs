//! The TAP device itself (Documentation/networking/tuntap.rst), opened inside a container's namespace.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::io::Errno;

use wire::Offload;

use crate::virtio::chain::MAX_BUFFERS;
use crate::virtio::span::Span;
use crate::{FrameView, Taken};

/// What a device takes over for TCP.
const SEGMENT: u32 = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;

/// An open TAP device. It is gone when this is dropped, unless it [persists](Device::persist).
#[derive(Debug)]
pub(crate) struct Device(File);

impl Device {
    /// Opens the device of that name in the calling thread's namespace, or makes it.
    ///
    /// Frames come and go behind a 12-byte virtio header, little-endian.
    pub fn open(name: &str) -> io::Result<Self> {
        Ok(Self::open_with(name, Offload::LEN)?.0)
    }

    /// As [`open`](Self::open), with a header of so many bytes, and tells the name: instead of a `%d` in it the kernel puts a number
    /// that makes it a new one.
    pub fn open_with(name: &str, header: usize) -> io::Result<(Self, String)> {
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")?;
        // SAFETY: all zeros are a valid ifreq, a struct of integers and a union of plain data.
        #[expect(unsafe_code, reason = "ifreq has no other constructor")]
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *place = byte.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
        let device = Self(open);
        device.control(libc::TUNSETIFF, &mut request)?;
        device.control(libc::TUNSETVNETHDRSZ, &mut (header as libc::c_int))?;
        device.control(libc::TUNSETVNETLE, &mut (1 as libc::c_int))?;
        let name = request.ifr_name.iter().map(|byte| byte.cast_unsigned()).take_while(|byte| *byte != 0);
        let name = String::from_utf8(name.collect()).map_err(io::Error::other)?;
        Ok((device, name))
    }

    /// Lets the kernel hand over large packets and unfinished checksums, or not.
    pub fn set_offload(&self, on: bool) -> io::Result<()> {
        if !on {
            return self.switch(libc::TUNSETOFFLOAD, 0);
        }
        // UDP segmentation came with Linux 6.2.
        self.switch(libc::TUNSETOFFLOAD, SEGMENT | libc::TUN_F_USO4 | libc::TUN_F_USO6)
            .or_else(|_| self.switch(libc::TUNSETOFFLOAD, SEGMENT))
    }

    /// Has the kernel take large segments behind the headers of a tunnel over UDP, whose checksum is left to complete.
    pub fn take_tunnels(&self) -> io::Result<()> {
        // Since Linux 6.17: TUN_F_UDP_TUNNEL_GSO and TUN_F_UDP_TUNNEL_GSO_CSUM.
        const TUNNELS: u32 = 0x80 | 0x100;
        self.switch(libc::TUNSETOFFLOAD, SEGMENT | TUNNELS)
    }

    /// Lets the device outlive its last user, or not.
    pub fn persist(&self, on: bool) -> io::Result<()> {
        self.switch(libc::TUNSETPERSIST, u32::from(on))
    }

    /// Hands a frame to the container: it is with its socket when this returns.
    #[inline]
    pub fn write(&self, frame: &FrameView<'_>) -> Result<Taken, Errno> {
        let header = frame.offload().emit();
        let written = match frame.rest {
            [] => rustix::io::writev(&self.0, &[IoSlice::new(&header), IoSlice::new(frame.bytes)]).map(drop),
            rest => match self.write_spans([&header, frame.bytes], rest) {
                // Its sender's memory was taken away while it waited: there is no frame any more.
                Err(Errno::FAULT) => return Ok(Taken::Unfit),
                written => written,
            },
        };
        match written {
            Ok(()) => Ok(Taken::Yes),
            // EIO is the kernel's word for an interface that is down. Whoever set it down may set it up again.
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::IO) => Ok(Taken::Busy),
            Err(Errno::INVAL) => Ok(Taken::Unfit),
            Err(error) => Err(error),
        }
    }

    /// Hands over a packet behind its header.
    pub fn write_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        rustix::io::writev(&self.0, slices)?;
        Ok(())
    }

    /// Writes a frame whose end lies in a guest's memory, from there.
    fn write_spans(&self, first: [&[u8]; 2], rest: &[Span]) -> Result<(), Errno> {
        let piece = |start: *const u8, len| libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len };
        let first = first.iter().map(|bytes| piece(bytes.as_ptr(), bytes.len()));
        let rest = rest.iter().map(|span| piece(span.start().as_ptr(), span.len()));
        let mut pieces = [piece(std::ptr::null(), 0); MAX_BUFFERS + 2];
        let count = pieces.iter_mut().zip(first.chain(rest)).map(|(place, piece)| *place = piece).count();
        // SAFETY: the kernel reads `count` pieces, all of which are mapped; it takes what it finds there.
        #[expect(unsafe_code, reason = "a guest's bytes have no slice")]
        let written = unsafe { libc::writev(self.0.as_raw_fd(), pieces.as_ptr(), count as i32) };
        if written < 0 {
            Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
        } else {
            Ok(())
        }
    }

    /// A request whose argument is a small number.
    fn switch(&self, request: libc::Ioctl, argument: u32) -> io::Result<()> {
        self.control(request, std::ptr::without_provenance_mut::<u8>(argument as usize))
    }

    fn control<T>(&self, request: libc::Ioctl, argument: *mut T) -> io::Result<()> {
        // SAFETY: every caller passes what its request takes: a pointer to an ifreq or an int that lives until the call
        // returns, or a number in a pointer's clothes. The kernel keeps none of them.
        #[expect(unsafe_code, reason = "TAP devices are set up by ioctl")]
        let answer = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
