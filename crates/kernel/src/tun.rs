//! TAP devices (Documentation/networking/tuntap.rst).

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// What a device takes over for TCP.
const SEGMENT: u32 = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;

/// An open TAP device. It is gone when this is dropped, unless it [persists](Device::persist).
#[derive(Debug)]
pub struct Device(File);

impl Device {
    /// Opens the device of that name in the calling thread's namespace, or makes it, and returns
    /// its name: the kernel replaces a `%d` in it by a number that makes it a new one.
    ///
    /// Frames come and go behind a virtio header of `header` bytes, 10 or 12, little-endian.
    ///
    /// # Errors
    ///
    /// What the kernel says: among others that another process has it open, or that this takes
    /// CAP_NET_ADMIN.
    pub fn open(name: &str, header: usize) -> io::Result<(Self, String)> {
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
        let name =
            request.ifr_name.iter().map(|byte| byte.cast_unsigned()).take_while(|byte| *byte != 0);
        let name = String::from_utf8(name.collect()).map_err(io::Error::other)?;
        Ok((device, name))
    }

    /// Lets the kernel hand over large packets and unfinished checksums, or not.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn set_offload(&self, on: bool) -> io::Result<()> {
        if !on {
            return self.switch(libc::TUNSETOFFLOAD, 0);
        }
        // UDP segmentation came with Linux 6.2.
        self.switch(libc::TUNSETOFFLOAD, SEGMENT | libc::TUN_F_USO4 | libc::TUN_F_USO6)
            .or_else(|_| self.switch(libc::TUNSETOFFLOAD, SEGMENT))
    }

    /// Has the kernel take large segments behind the headers of a tunnel over UDP, whose checksum
    /// is left to complete.
    ///
    /// # Errors
    ///
    /// What the kernel says: before Linux 6.17 that it cannot.
    pub fn take_tunnels(&self) -> io::Result<()> {
        // Since Linux 6.17: TUN_F_UDP_TUNNEL_GSO and TUN_F_UDP_TUNNEL_GSO_CSUM.
        const TUNNELS: u32 = 0x80 | 0x100;
        self.switch(libc::TUNSETOFFLOAD, SEGMENT | TUNNELS)
    }

    /// Lets the device outlive its last user, or not.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn persist(&self, on: bool) -> io::Result<()> {
        self.switch(libc::TUNSETPERSIST, u32::from(on))
    }

    /// Hands over a packet behind its header.
    ///
    /// # Errors
    ///
    /// What the kernel says: among others that it has no room now.
    pub fn write_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        rustix::io::writev(&self.0, slices)?;
        Ok(())
    }

    /// A request whose argument is a small number.
    fn switch(&self, request: libc::Ioctl, argument: u32) -> io::Result<()> {
        self.control(request, std::ptr::without_provenance_mut::<u8>(argument as usize))
    }

    fn control<T>(&self, request: libc::Ioctl, argument: *mut T) -> io::Result<()> {
        // SAFETY: every caller passes what its request takes: a pointer to an ifreq or an int that
        // lives until the call returns, or a number in a pointer's clothes. The kernel keeps none
        // of them.
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
