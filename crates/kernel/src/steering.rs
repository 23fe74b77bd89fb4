//! Receive packet steering of a device: whether other processors may handle what it has received
//! (Documentation/networking/scaling.rst). The kernel tells that by sysfs alone.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::netns::Namespace;

/// The processors that may be chosen for each packet (RPS), and the flows of which is known where
/// they are read (RFS). Either steers.
const SETTINGS: [&str; 2] = ["rps_cpus", "rps_flow_cnt"];

/// The devices of a namespace, as its sysfs tells of them.
#[derive(Debug)]
pub struct Steering {
    root: OwnedFd,
}

impl Steering {
    /// Opens a namespace's sysfs. It is mounted nowhere and does not keep the namespace alive.
    ///
    /// # Errors
    ///
    /// The kernel's error: it takes CAP_SYS_ADMIN.
    pub fn open_in(namespace: &Namespace) -> io::Result<Self> {
        let open = || -> io::Result<OwnedFd> {
            let sysfs = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&sysfs)?;
            let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
            Ok(fsmount(&sysfs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
        };
        let root = namespace.run(open).map_err(io::Error::other)??;
        Ok(Self { root })
    }

    /// Whether a device steers what it has received.
    ///
    /// # Errors
    ///
    /// The kernel's error, for example because the device is gone.
    pub fn is_on(&self, device: &str) -> io::Result<bool> {
        let mut is_on = false;
        self.each(device, OFlags::RDONLY, |file| {
            let mut said = [0; 4096];
            let len = rustix::io::read(&file, &mut said)?;
            // A mask of processors, or a number.
            is_on |= said[..len].iter().any(|byte| !matches!(byte, b'0' | b',' | b'\n'));
            Ok(())
        })?;
        Ok(is_on)
    }

    /// Has a device steer nothing.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn switch_off(&self, device: &str) -> io::Result<()> {
        self.each(device, OFlags::WRONLY, |file| rustix::io::write(&file, b"0").map(drop))
    }

    /// Visits the settings of each of a device's queues.
    fn each(
        &self,
        device: &str,
        access: OFlags,
        mut visit: impl FnMut(OwnedFd) -> Result<(), Errno>,
    ) -> io::Result<()> {
        for queue in 0.. {
            for setting in SETTINGS {
                let path = format!("class/net/{device}/queues/rx-{queue}/{setting}");
                match openat(&self.root, path, access | OFlags::CLOEXEC, Mode::empty()) {
                    Ok(file) => visit(file)?,
                    // There is no such queue.
                    Err(Errno::NOENT) if queue > 0 => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::joined;

    #[test]
    fn a_device_in_another_namespace_steers_nothing_once_that_is_off() {
        if !needs::root() {
            return;
        }
        let netns = joined::alone().unwrap();
        let set = |value: &str| {
            let path = "/proc/sys/net/core/rps_default_mask";
            netns.run(|| std::fs::write(path, value)).unwrap().unwrap();
        };
        let steering = Steering::open_in(&netns).unwrap();
        assert!(!steering.is_on(joined::LOOPBACK).unwrap());
        assert!(steering.is_on("eth0").is_err(), "there is no such device here");
        set("1");
        let mut netlink = crate::netlink::Netlink::open_in(&netns).unwrap();
        netlink.add_veth("eth0", "eth1", 2).unwrap();
        assert!(steering.is_on("eth0").unwrap());
        steering.switch_off("eth0").unwrap();
        assert!(!steering.is_on("eth0").unwrap() && steering.is_on("eth1").unwrap());
    }
}
