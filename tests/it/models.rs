//! What goes to a model, and what comes in from other tools.

mod cases;
mod draw;
mod imports;
mod orders;
mod random;
