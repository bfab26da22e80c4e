//! Whatever is done to a whole directory of sessions, and not to one of them: mending it, copying it,
//! erasing people from it, bringing in the files of other programs. It is on the third floor, beside
//! `front`: a store runs without it.

pub(crate) mod copy_dir;
pub(crate) mod doctor;
pub(crate) mod estate;
pub(crate) mod migrate;
pub(crate) mod traces;
