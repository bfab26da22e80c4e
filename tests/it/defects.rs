//! What broke PicoClaw and kimi-cli, one claim per defect, numbered as they were
//! found: `p01` to `p15`, `k01` to `k12`.

mod conversations;
mod cost;
mod crashes;
mod damaged_files;
mod lost_sidecars;
mod only_logs;
mod sharing;
