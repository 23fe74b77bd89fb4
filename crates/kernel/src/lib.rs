//! What Linux is asked by system calls that its libraries do not make, or make awkwardly.
//!
//! ```text
//!   netlink  links, addresses, routes, queueing disciplines       netns    network namespaces
//!   ethtool  a device's offloads                                  joined   namespaces for experiments
//!   tun      TAP devices                                          spawn    programs in namespaces
//!   packet   sockets for whole frames                             thread   a thread's priority
//!   sockopt  other options of sockets                             cycles   the processor's clock
//!   tcp      what a connection sent again                         inherited descriptors of a service manager
//!   clock    the clocks that threads read                         random   numbers that nobody guesses
//!   steering who handles what a device receives                heap     when freed memory is returned
//! ```
//!
//! Each module stands for one interface of the kernel, cites its manual, and returns what the
//! kernel says as an error. None of them keeps a policy: it knows neither ports nor switches nor
//! tunnels.

pub mod clock;
pub mod cycles;
pub mod ethtool;
pub mod heap;
pub mod inherited;
pub mod joined;
pub mod netlink;
pub mod netns;
pub mod packet;
pub mod random;
pub mod sockopt;
pub mod spawn;
pub mod steering;
pub mod tcp;
pub mod thread;
pub mod tun;
