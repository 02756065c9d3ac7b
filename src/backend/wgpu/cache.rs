//! Where this user's caches are: results of a device that take time to find and may be lost at any moment.

use std::path::PathBuf;

/// Our folder among the user's caches, where the system has such a place. It need not exist yet.
pub fn cache_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        folder("HOME").map(|home| home.join("Library/Caches"))
    } else {
        folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))
    };
    caches.map(|path| path.join("wgattn"))
}

/// A short name for a text: FNV-1a of 64 bits.
pub(super) fn hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    let fold = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    texts.into_iter().flat_map(str::bytes).fold(0xcbf2_9ce4_8422_2325, fold)
}
