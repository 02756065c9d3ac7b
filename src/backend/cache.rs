//! Where this user's caches are: results of a device that take time to find and may be lost at any moment.

use std::path::PathBuf;

/// Our folder among the user's caches, where the system has such a place. It need not exist yet.
#[cfg_attr(not(feature = "wgpu"), expect(unreachable_pub, reason = "the wgpu backend shows it to hosts"))]
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

/// A short name for texts: FNV-1a of 64 bits.
pub(crate) fn hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    texts.into_iter().flat_map(str::bytes).fold(START, folded)
}

/// The same of bytes.
#[cfg(feature = "cuda")]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().copied().fold(START, folded)
}

const START: u64 = 0xcbf2_9ce4_8422_2325;

fn folded(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}
