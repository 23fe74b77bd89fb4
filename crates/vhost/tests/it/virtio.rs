//! Cards of guests that behave, and of guests that do not.

mod attacks;
mod guest;
mod hostile;
mod laws;
mod pairs;
