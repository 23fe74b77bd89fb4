//! nlog as its users see it: what rules may say, what they do, and what that costs.

mod answers;
mod attacks;
mod explained;
mod faults;
mod figure;
mod network;
