//! Logical networks to domains of rows that hosts execute.
//!
//! ```text
//! Topology ─domains─▶ which switches and routers are connected
//!     └──────rows───▶ for each domain, its tables in names
//! ```
//!
//! All of a topology is compiled at once. It is what incremental compilers are held against: from
//! the same objects they have to make the same rows.
//!
//! Rows do not say where ports are; [`sites`] does.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod conditions;
mod rows;
mod sites;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;

use image::Domain;
use logical::objects::Identity;
use logical::{Domains, Topology};

pub use sites::sites;

/// Every domain of a topology. A domain's name is that of the least of its switches and routers, so
/// it keeps its name while others come and go.
pub fn compile(topology: &Topology) -> BTreeMap<Identity, Domain> {
    let domains = Domains::new(topology);
    let mut rows = rows::Rows::new(topology, &domains);
    rows.put_all();
    rows.finish()
}
