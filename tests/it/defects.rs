//! What broke PicoClaw, one claim per defect, numbered as they were found:
//! `p01` to `p15`.

mod cost;
mod crashes;
mod damaged_files;
mod sharing;
