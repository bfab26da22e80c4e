//! There is nothing here: the tests are in `main.rs`.
