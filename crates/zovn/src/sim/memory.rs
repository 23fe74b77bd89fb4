//! Huge pages for what is simulated.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What the C library reads when a program begins, and what has it ask Linux for huge pages: they are granted then even where
/// only those get them who ask (`madvise`). Libraries before glibc 2.35 take no notice.
const TUNABLES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// Says that this is the second time. Programs with privileges of their own do not get to see the library's variable.
const AGAIN: &str = "ZOVN_IN_HUGE_PAGES";

/// Begins this program again, with huge pages for all that it allocates: a simulation goes back and forth in 160 MB, which is
/// more than a processor can keep the places of in small ones.
///
/// The C library is told before a program begins or not at all. Whoever has told it something already, be it nothing
/// (`GLIBC_TUNABLES=`), is left alone. That it cannot begin again is no error: everything works with small pages too.
pub fn in_huge_pages() {
    let (name, value) = TUNABLES;
    if env::var_os(AGAIN).is_some() || env::var_os(name).is_some() {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let mut arguments = env::args_os();
    let mut again = Command::new(program);
    if let Some(called) = arguments.next() {
        again.arg0(called);
    }
    let _error = again.args(arguments).env(name, value).env(AGAIN, "1").exec();
}
