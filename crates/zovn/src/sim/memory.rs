//! Huge pages for what is simulated.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Where the C library looks, and what it is to see there: it asks Linux for huge pages, which Linux grants even where it
/// gives them only to those who ask (`madvise`).
const TUNABLES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// Begins this program again, with huge pages for all that it allocates: a simulation goes back and forth in some 100 MB,
/// more than a processor has small pages in mind.
///
/// The C library decides when a program begins (`glibc.malloc.hugetlb`, since 2.35), so nothing less will do. It is not told
/// if the environment tells it something already, which is also how this ends; nor is it an error if that fails, as
/// everything works with small pages too.
pub fn in_huge_pages() {
    let (name, value) = TUNABLES;
    if env::var_os(name).is_some() {
        return;
    }
    let mut arguments = env::args_os();
    let mut again = Command::new("/proc/self/exe");
    if let Some(called) = arguments.next() {
        again.arg0(called);
    }
    let _error = again.args(arguments).env(name, value).exec();
}
