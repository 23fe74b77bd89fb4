//! Parts of the agent between network namespaces. They take root.

mod bfd;
