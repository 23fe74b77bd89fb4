//! Cards of guests that behave, and of guests that do not.

mod guest;
mod hostile;
mod laws;
mod pairs;
